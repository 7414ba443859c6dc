{-# LANGUAGE OverloadedStrings #-}

-- | Passwords, other origins, and fields of answers, as a configuration file sets them.
module Millrace.Cli.Serve.SitePolicySpec (spec) where

import ConfigurationFile
import Control.Monad (forM_, replicateM_)
import Data.List (isInfixOf)
import Program
import Site (withDirectory, write)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process (readProcess)
import Test.Hspec

spec :: Spec
spec = do
  it "asks for a password" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    write folder "one/open.txt" "open"
    hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "a:b"] "")
    writeFile (folder </> "users") ("# mine\n\nsomebody:" <> hash)
    configured
      folder
      ( listening
          [ "sites:",
            "- users: {file: "
              <> folder </> "users, realm: 'the \"inner\" part'}",
            "  files: "
              <> folder </> "one"
          ]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let status options = curl (options <> ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server])
      status [] `shouldReturn` "401"
      status ["--user", "somebody:a:c"] `shouldReturn` "401"
      status ["--user", "nobody:a:b"] `shouldReturn` "401"
      status ["--user", "somebody:"] `shouldReturn` "401"
      status ["--header", "Authorization: Basic !!!"] `shouldReturn` "401"
      status ["--header", "Authorization: Basic"] `shouldReturn` "401"
      replicateM_ 3 (status ["--user", "somebody:a:b"] `shouldReturn` "200")
      status ["--user", "somebody:a:c"] `shouldReturn` "401"
      curl ["--user", "somebody:a:b", serverUrl server] `shouldReturn` "one"
      curl ["--head", serverUrl server]
        >>= (`shouldContain` "WWW-Authenticate: Basic realm=\"the \\\"inner\\\" part\", charset=\"UTF-8\"")
      -- Whoever asks.
      mapM
        (\options -> isInfixOf "\r\nVary: Authorization\r\n" <$> curl (options <> ["--head", serverUrl server]))
        [[], ["--user", "somebody:a:b"]]
        `shouldReturn` [True, True]
    forM_
      [ ("somebody", "line 1 is not NAME:HASH"),
        ("a:plain", "the hash of \"a\" is of no kind that is known and safe"),
        ("# none", "there is nobody in it")
      ]
      $ \(content, said) ->
        do
          writeFile (folder </> "users") content
          outcome <- runMillrace [] ["check", folder </> "m.yaml"]
          outcomeExit outcome `shouldBe` ExitFailure 1
          outcomeErrors outcome `shouldContain` said
  it "asks for the users of a route instead of those of its site, and lets questions of browsers pass" . withDirectory $
    \folder -> do
      forM_ ["one", "two", "three"] $ \name -> do
        write folder (name </> "index.html") "here"
        hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "secret"] "")
        writeFile (folder </> ("users-" <> name)) (name <> ":" <> hash)
      configured folder . listening $
        [ "sites:",
          "- users: " <> folder </> "users-one",
          "  files: " <> folder </> "one",
          "  routes:",
          "  - {path: /two, files: " <> folder </> "two, users: " <> folder </> "users-two, cors: 'https://app.test'}",
          "  - {path: /three, files: " <> folder </> "three, cors: 'https://app.test'}"
        ]
      withServer ["run", folder </> "m.yaml"] $ \server -> do
        let status path options =
              curl (options <> ["--output", "/dev/null", "--write-out", "%{http_code}", serverUrl server <> path])
            asking =
              [ "--request",
                "OPTIONS",
                "--header",
                "Origin: https://app.test",
                "--header",
                "Access-Control-Request-Method: GET"
              ]
        mapM (`status` []) ["/", "/two/", "/three/"] `shouldReturn` ["401", "401", "401"]
        mapM (\path -> status path ["--user", "one:secret"]) ["/", "/two/", "/three/"]
          `shouldReturn` ["200", "401", "200"]
        mapM (\path -> status path ["--user", "two:secret"]) ["/", "/two/", "/three/"]
          `shouldReturn` ["401", "200", "401"]
        mapM (`status` asking) ["/", "/two/", "/three/"] `shouldReturn` ["401", "204", "204"]
        -- Other paths of the site are not reached through such a route.
        status "/two/../" asking `shouldReturn` "400"
  it "lets pages of other origins read answers, if it is told whose" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( listening
          [ "sites:",
            "- cors: {origins: ['https://app.test'], methods: [PUT], headers: [X-A], credentials: true}",
            "  files: "
              <> folder </> "one"
          ]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      let asked origin options = curl (["--include", "--header", "Origin: " <> origin] <> options <> [serverUrl server])
      allowed <- asked "https://app.test" []
      forM_
        [ "Access-Control-Allow-Origin: https://app.test\r\n",
          "Access-Control-Allow-Credentials: true\r\n",
          "Vary: Origin\r\n"
        ]
        (allowed `shouldContain`)
      other <- asked "https://other.test" []
      other `shouldNotContain` "Access-Control"
      other `shouldContain` "Vary: Origin\r\n"
      preflight <- asked "https://app.test" ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: PUT"]
      forM_
        [ " 204 ",
          "Access-Control-Allow-Methods: GET, HEAD, POST, PUT\r\n",
          "Access-Control-Allow-Headers: X-A\r\n",
          "Access-Control-Max-Age: 600\r\n"
        ]
        (preflight `shouldContain`)
      refused <- asked "https://other.test" ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: PUT"]
      refused `shouldNotContain` "Access-Control"
  it "adds the fields that keep browsers safe, and leaves those that are there" . withDirectory $ \folder -> do
    write folder "one/index.html" "one"
    configured
      folder
      ( listening
          ["sites:", "- security-headers: true", "  headers: {X-Frame-Options: DENY}", "  files: " <> folder </> "one"]
      )
    withServer ["run", folder </> "m.yaml"] $ \server -> do
      answer <- curl ["--include", serverUrl server]
      forM_
        [ "X-Content-Type-Options: nosniff\r\n",
          "X-Frame-Options: DENY\r\n",
          "Referrer-Policy: strict-origin-when-cross-origin\r\n",
          "Cross-Origin-Opener-Policy: same-origin\r\n"
        ]
        (answer `shouldContain`)
      answer `shouldNotContain` "SAMEORIGIN"
