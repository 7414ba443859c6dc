{-# LANGUAGE OverloadedStrings #-}

-- | Names of files are bytes, whatever the locale is. Texts may begin with a byte order mark.
module Millrace.Cli.NameSpec (spec) where

import Certificates
import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Text (pack)
import Data.Text.Encoding (encodeUtf8)
import Millrace.Cli.Base.NameBytes
import Program
import Site (withDirectory, write)
import System.Directory (doesFileExist, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process (readProcess)
import Target
import Test.Hspec

spec :: Spec
spec = do
  describe "are the same in each locale" $ do
    forM_ ["C", "C.UTF-8"] $ \locale -> do
      it ("those in a configuration: " <> locale) . withCertificates $ \folder -> do
        renameFile (folder </> "one.pem") (folder </> "z\233rt.pem")
        renameFile (folder </> "one.key") (folder </> "\8364.key")
        write folder "r\246\246t/\252.txt" "file"
        write folder "fehl\233r/502.html" "page"
        hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "b"] "")
        writeFile (folder </> "\252sers") ("\228:" <> hash)
        writeUtf8 (folder </> "k\243nfig.yaml") . unlines $
          [ "listen: {https: 127.0.0.1:0}",
            "certificates: {certificate: " <> folder </> "z\233rt.pem, key: " <> folder </> "\8364.key}",
            "process: {access-log: " <> folder </> "l\246g, pid-file: " <> folder </> "p\239d}",
            "sites:",
            "  files: {directory: " <> folder </> "r\246\246t, cache-control: {/\252.txt: max-age=5}}",
            "  routes:",
            "    - {path: /locked, files: " <> folder </> "r\246\246t, users: " <> folder </> "\252sers}",
            "    - {path: /s\246cket, proxy: 'unix:" <> folder </> "s\246ck'}",
            "    - {path: /gone, proxy: {targets: 'unix:"
              <> folder </> "g\246ne', error-pages: "
              <> folder </> "fehl\233r}}"
          ]
        withOneResponseAt
          (Char8.unpack (nameBytes (folder </> "s\246ck")))
          "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsocket"
          $ withIn locale ["run", folder </> "k\243nfig.yaml"] $ \server -> do
            let asked path more =
                  curl
                    ( ["--cacert", folder </> "z\233rt.pem"]
                        <> more
                        <> ["https://localhost:" <> show (serverPort server) <> path]
                    )
            asked "/%C3%BC.txt" ["--include", "--http1.1"] >>= (`shouldContain` "Cache-Control: max-age=5\r\n")
            asked "/locked/%C3%BC.txt" ["--user", "\228:b"] `shouldReturn` "file"
            asked "/s%C3%B6cket" [] `shouldReturn` "socket"
            asked "/gone" [] `shouldReturn` "page"
            outcome <- runMillrace [("LC_ALL", locale)] ["reload", folder </> "k\243nfig.yaml"]
            (outcomeExit outcome, outcomeErrors outcome) `shouldBe` (ExitSuccess, "")
            mapM (doesFileExist . (folder </>)) ["p\239d", "l\246g"] `shouldReturn` [True, True]
      it ("those of arguments, also bytes that are not UTF-8: " <> locale) . withDirectory $ \folder -> do
        let root = folder </> "r\246\246t\xDCFF"
        forM_ ["\252.txt", "\xDCFC.txt"] $ \name -> write root name "file"
        write (folder </> "\xDCE9") "404.html" "page"
        withIn
          locale
          [ "serve",
            root,
            "--port",
            "0",
            "--cache-control",
            "/\252.txt=max-age=5",
            "--cache-control",
            "/\xDCFC.txt=max-age=6",
            "--access-log",
            folder
              </> "\xDCE9/log"
          ]
          $ \server ->
            do
              curl ["--include", serverUrl server <> "/%C3%BC.txt"] >>= (`shouldContain` "Cache-Control: max-age=5\r\n")
              curl ["--include", serverUrl server <> "/%FC.txt"] >>= (`shouldContain` "Cache-Control: max-age=6\r\n")
        doesFileExist (folder </> "\xDCE9/log") `shouldReturn` True
      it ("and what no configuration can name is refused: " <> locale) . withDirectory $ \folder -> do
        -- The message has the name's bytes.
        let script =
              "export LC_ALL=$2; printed=$(millrace serve \"$1\" --access-log \"$1/l$(printf '\\377')g\" \
              \--print-config 2> \"$1/said\"); echo \"$?$printed\"; \
              \LC_ALL=C grep -c 'is not UTF-8, and such a file is' \"$1/said\""
        within 30 "the program" (readProcess "sh" ["-c", script, "sh", folder, locale] "") `shouldReturn` "1\n1\n"
      it ("and messages have them as UTF-8: " <> locale) . withDirectory $ \folder -> do
        outcome <- runMillrace [("LC_ALL", locale)] ["serve", folder </> "n\246thing\8364"]
        outcomeErrors outcome `shouldContain` ("cannot serve " <> folder </> "n\246thing\8364: No such file")
        writeUtf8 (folder </> "\246.yaml") "sites: {\246: 1}"
        checked <- runMillrace [("LC_ALL", locale)] ["check", folder </> "\246.yaml"]
        outcomeErrors checked `shouldContain` (folder </> "\246.yaml:1:9: a site has no key '\246'")
  it "texts may begin with a byte order mark, and their lines may end as in Windows" . withCertificates $ \folder -> do
    write folder "root/404.html" (mark <> "<p>none\r\n")
    hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "b"] "")
    write folder "users" (mark <> "a:" <> Char8.pack (takeWhile (/= '\n') hash) <> "\r\n")
    forM_ ["one.pem", "one.key"] $ \name ->
      ByteString.readFile (folder </> name)
        >>= write folder ("marked-" <> name) . (mark <>) . Char8.intercalate "\r\n" . Char8.lines
    let configured more =
          write folder "m.yaml" . (mark <>) . Char8.intercalate "\r\n" $
            [ "listen: {https: 127.0.0.1:0}",
              "certificates: {certificate: "
                <> inFolder "marked-one.pem"
                <> ", key: "
                <> inFolder "marked-one.key"
                <> "}"
            ]
              <> more
        inFolder name = Char8.pack (folder </> name)
    configured
      [ "sites: {users: "
          <> inFolder "users"
          <> ", files: {directory: "
          <> inFolder "root"
          <> ", error-pages: true}}",
        ""
      ]
    withServer ["run", folder </> "m.yaml"] $ \server ->
      curl
        ["--cacert", folder </> "one.pem", "--user", "a:b", "https://localhost:" <> show (serverPort server) <> "/none"]
        `shouldReturn` "\xFEFF<p>none\r\n"
    write folder "m.yaml" (mark <> "sites: {file: x}")
    wrong <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeErrors wrong `shouldContain` "m.yaml:1:9: a site has no key 'file'. Did you mean 'files'?"
  it "a key that is there twice is a mistake, at its second place" . withDirectory $ \folder -> do
    write folder "m.yaml" "sites:\n  files: /tmp\n  'files': /srv\n"
    outcome <- runMillrace [] ["check", folder </> "m.yaml"]
    outcomeErrors outcome `shouldContain` "m.yaml:3:3: this key is already in the mapping"
  where
    mark = "\xEF\xBB\xBF"
    writeUtf8 path = ByteString.writeFile path . encodeUtf8 . pack
    withIn locale arguments use = do
      path <- millracePath
      withCommand "env" (("LC_ALL=" <> locale) : path : arguments) use
