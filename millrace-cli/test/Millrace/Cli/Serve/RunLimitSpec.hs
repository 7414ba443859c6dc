{-# LANGUAGE OverloadedStrings #-}

-- | The program with a configuration file: limits, and what proxies answer themselves.
module Millrace.Cli.Serve.RunLimitSpec (spec) where

import ConfigurationFile
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Program
import Site (withDirectory, write)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process (readProcess)
import Target
import Test.Hspec

spec :: Spec
spec = do
  it "keeps its limits" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured folder (listening ["limits: {fields: 5}", "sites: {files: " <> folder </> "one}"])
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let status fields =
            curl
              ( ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server]
                  <> concat [["--header", "X-" <> show field <> ": y"] | field <- [1 .. fields :: Int]]
              )
      status 0 `shouldReturn` "200"
      status 5 `shouldReturn` "431"
  it "keeps the limits of a proxy" . withDirectory $ \folder ->
    withSilentTarget $ \silent -> withServer ["pong", "--port", "0"] $ \target -> do
      configured folder . listening $
        [ "sites:",
          "  proxy: {targets: " <> silent <> ", total-seconds: 1}",
          "  routes:",
          "    - {path: /slow, proxy: {targets: "
            <> silent
            <> ", send-seconds: 1, stall-seconds: 1, response-seconds: 1}}",
          "    - {path: /checked, proxy: {targets: ["
            <> silent
            <> ", "
            <> show (serverPort target)
            <> "], balance: path, health: {path: /, every-seconds: 1, limit-seconds: 1, failures: 1}}}"
        ]
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        let status path = curl ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server <> path]
        -- Usually a response has a minute.
        within 20 "all of it" (status "/") `shouldReturn` "504"
        within 20 "the first byte" (status "/slow") `shouldReturn` "504"
        -- Usually the second failure counts, after five seconds.
        untilSaid server (silent <> " is left out")
        mapM (const (curl [serverUrl server <> "/checked"])) [1 .. 4 :: Int] `shouldReturn` replicate 4 "Pong!"
  it "has pages for its own errors on the routes of a proxy, and leaves answers of targets alone" . withDirectory $
    \folder ->
      withSilentTarget $ \silent -> withOneResponse broken $ \malformed -> do
        write folder "one/index.html" "one"
        forM_ ["401", "404", "413", "502", "504"] $ \status ->
          write folder ("errors" </> (status <> ".html")) ("<p>page " <> Char8.pack status)
        writeFile (folder </> "users") . ("a:" <>)
          =<< within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "b"] "")
        gone <- withServer ["pong", "--port", "0"] (pure . show . serverPort)
        withServer ["serve", folder </> "one", "--port", "0"] $ \target -> do
          let to port = "proxy: {targets: " <> port <> ", response-seconds: 1, error-pages: " <> folder </> "errors}"
          configured folder . listening $
            [ "limits: {body-bytes: 10}",
              "sites:",
              "  " <> to gone,
              "  routes:",
              "    - {path: /slow, " <> to silent <> "}",
              "    - {path: /malformed, " <> to malformed <> "}",
              "    - {path: /target, " <> to (show (serverPort target)) <> "}",
              "    - {path: /locked, users: " <> folder </> "users, " <> to gone <> "}"
            ]
          withServer ["run", folder </> "m.yaml"] $ \server -> do
            let facts path options =
                  lines
                    <$> curl (options <> ["--write-out", "\n%{http_code} %{content_type}", serverUrl server <> path])
                page status = ["<p>page " <> status, status <> " text/html; charset=utf-8"]
            facts "/" [] `shouldReturn` page "502"
            facts "/slow" [] `shouldReturn` page "504"
            -- The target has failed in the middle of a response of which nothing was sent.
            facts "/malformed" [] `shouldReturn` page "502"
            facts "/locked" [] `shouldReturn` page "401"
            curl ["--head", serverUrl server <> "/locked"] >>= (`shouldContain` "WWW-Authenticate: Basic")
            facts "/locked" ["--user", "a:b"] `shouldReturn` page "502"
            -- A target that answers before it has the body would be faster now and then.
            facts "/slow" ["--header", "Transfer-Encoding: chunked", "--header", "Expect:", "--data", replicate 20 'x']
              `shouldReturn` page "413"
            facts "/target/none" [] `shouldReturn` ["404 Not Found", "", "404 text/plain; charset=utf-8"]
            -- There is no page for it.
            facts "/target" ["--request", "TRACE"]
              `shouldReturn` ["405 Method Not Allowed", "", "405 text/plain; charset=utf-8"]
          -- The same by options.
          withServer ["proxy", gone, "--port", "0", "--error-pages", folder </> "errors"] $ \server ->
            curl [serverUrl server] `shouldReturn` "<p>page 502"
          none <- runMillrace [] ["proxy", gone, "--port", "0", "--error-pages", folder </> "none"]
          outcomeExit none `shouldBe` ExitFailure 1
          outcomeErrors none `shouldContain` ("cannot use the pages for errors in " <> folder </> "none")
  where
    broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"
