{-# LANGUAGE OverloadedStrings #-}

-- | Attacks on the program from outside, and the page of the guide that says which test is for which promise.
module Millrace.Cli.SecuritySpec (spec) where

import AttackPaths
import Control.Monad (forM, forM_, replicateM)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isPrint)
import Data.List (isInfixOf, isPrefixOf)
import Program
import ProgramClients (answerTo)
import Site (withDirectory, write)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (hGetContents)
import System.Posix.Files (createSymbolicLink)
import System.Posix.Signals (sigTERM)
import System.Process (readProcess, readProcessWithExitCode)
import Target (withReaders)
import Test.Hspec

spec :: Spec
spec = do
  it "lets no path out of its directory, however it is written, and is not upset by any" . withDirectory $ \folder -> do
    write folder "secret" "secret"
    write folder "root/index.html" "open"
    write folder "root/sub/.hidden" "secret"
    createSymbolicLink (folder </> "secret") (folder </> "root/link")
    createSymbolicLink "/dev/zero" (folder </> "root/zero")
    createSymbolicLink "/proc/self/environ" (folder </> "root/environ")
    forM_ [[], ["--cache-seconds", "0"], ["--spa"], ["--listing"]] $ \options ->
      withServer (["serve", folder </> "root", "--port", "0"] <> options) $ \server -> do
        forM_ (concatMap (\target -> [target, target <> "/", "/sub/.." <> target]) attackPaths) $ \target -> do
          answer <- answerTo server ("GET " <> target <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
          (target, answer) `shouldSatisfy` \(_, found) ->
            not ("secret" `ByteString.isInfixOf` found)
              && ( any (`ByteString.isPrefixOf` found) ["HTTP/1.1 404 ", "HTTP/1.1 400 "]
                     || (options == ["--spa"] && "\r\n\r\nopen" `ByteString.isSuffixOf` found)
                 )
        over2 <- forM ["/..%2fsecret", "/%c0%ae%c0%ae/secret", "/sub/.hidden", "/link", "/zero"] $ \target ->
          curl
            [ "--http2-prior-knowledge",
              "--output",
              "/dev/null",
              "--write-out",
              "%{http_code}",
              serverUrl server
                <> target
            ]
        over2 `shouldSatisfy` all (`elem` ("404" : ["200" | options == ["--spa"]]))
        signalServer sigTERM server
        waitForExit 30 server `shouldReturn` ExitSuccess
        hGetContents (serverErrors server) >>= (`shouldSatisfy` all ("stopping" `isPrefixOf`) . lines)
  forM_ ["combined", "json"] $ \format ->
    it ("keeps each line of its log one line of plain text, whatever clients send: " <> format) . withDirectory $
      \folder -> do
        let fields =
              [ "\"",
                "\\",
                "\\x22",
                "\t",
                "a\x7f",
                "\x1b[2J",
                "\xc3\xa9\xff",
                "' OR 1=1",
                "\" 200 0 \"-\" \"-\"",
                "}{\"status\":200"
              ]
        withServer ["pong", "--port", "0", "--access-log", folder </> "log", "--log-format", format] $ \server -> do
          forM_ fields $ \field ->
            forM_
              [ "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: "
                  <> field
                  <> "\r\nReferer: "
                  <> field
                  <> "\r\nConnection: close\r\n\r\n",
                "GET /"
                  <> field
                  <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                field
                  <> "\r\n\r\n"
              ]
              $ answerTo server
          signalServer sigTERM server
          waitForExit 30 server `shouldReturn` ExitSuccess
        logged <- Char8.lines <$> ByteString.readFile (folder </> "log")
        length logged `shouldBe` 3 * length fields
        forM_ logged $ \line -> Char8.unpack line `shouldSatisfy` all (\letter -> isPrint letter && letter < '\DEL')
  it "lets no client put lines of its own into what targets get" $ do
    path <- millracePath
    (code, output, errors) <- within 120 "the attempts" (readProcessWithExitCode "python3" ["test/inject.py", path] "")
    (code, map read (words output) :: [Int], errors) `shouldSatisfy` \(found, counts, _) ->
      found == ExitSuccess && take 1 counts <= [5] && sum counts > 40
  it "asks for a route's password however the path is written, and however its target reads it"
    . withDirectory
    $ \folder ->
      withReaders $ \target -> do
        hash <- within 30 "openssl" (readProcess "openssl" ["passwd", "-6", "-salt", "abc", "b"] "")
        writeFile (folder </> "users") ("a:" <> hash)
        writeFile (folder </> "m.yaml") . unlines $
          [ "listen: {http: 127.0.0.1:0}",
            "sites:",
            "  proxy: "
              <> target,
            "  routes:",
            "    - {path: /open, proxy: "
              <> target
              <> "}",
            "    - {path: /admin, users: "
              <> folder </> "users, proxy: "
              <> target
              <> "}"
          ]
        withServer ["run", folder </> "m.yaml"] $ \server -> do
          let asked path more =
                answerTo server ("GET " <> path <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" <> more <> "\r\n")
          asked "/admin/x" "Authorization: Basic YTpi\r\n" >>= (`shouldSatisfy` Char8.isSuffixOf "secret")
          asked "/other;v=1/x%2Fy" "" >>= (`shouldSatisfy` Char8.isSuffixOf "open")
          let beginnings =
                [ "/",
                  "//",
                  "/./",
                  "/;/",
                  "/;x=1/",
                  "/;x%2Fy/",
                  "/%3b/",
                  "/%253b/",
                  "/a/../",
                  "/a/..;/",
                  "/a/..;x/",
                  "/open/../",
                  "/open/..;/",
                  "/open/%2e%2e/",
                  "/open/%2e%2e;/",
                  "/open/%252e%252e/",
                  "/open/..%2f",
                  "/open/..%252f",
                  "/open/..\\",
                  "/open/..%5c",
                  "/open%2f..%2f",
                  "/%2f",
                  "/%5c",
                  "\\",
                  "/%252f",
                  "/.;/",
                  "/%2e/",
                  "/%20/../"
                ]
              names = ["admin", "%61dmin", "%2561dmin", "%252561dmin", "%25252561dmin"]
              ends =
                [ "",
                  "/",
                  "/x",
                  ";x=1/x",
                  ";/",
                  "%3bx",
                  "%253bx",
                  "%2fx",
                  "%252fx",
                  "%5cx",
                  "\\x",
                  "/.",
                  "/..;/admin",
                  "%20",
                  "%09",
                  "%85",
                  "%a0",
                  "\xA0",
                  ".",
                  "%2e/",
                  "%3f",
                  "%253fx",
                  "%23"
                ]
              spellings =
                [ beginning <> name <> end
                  | beginning <-
                      beginnings,
                    name <- names,
                    end <- ends,
                    length (filter (not . isPlain) [(beginning, "/"), (name, "admin"), (end, "")]) < 3
                ]
              isPlain (part, usual) = part == usual
          forM_ spellings $ \path -> do
            answer <- asked path ""
            (path, answer) `shouldSatisfy` not . Char8.isSuffixOf "secret" . snd
  it "sends no more for many ranges than for the file" . withDirectory $ \folder -> do
    write folder "file" (ByteString.replicate 1000000 0x78)
    withServer ["serve", folder, "--port", "0"] $ \server ->
      forM_ ["0-", "0-,0-", "-999999", "0-999999,1-999999,2-999999", "5-6,0-", "0-0,1-1"] $ \range -> do
        let many = ByteString.intercalate "," (replicate 200 range)
        answer <-
          answerTo server ("GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=" <> many <> "\r\nConnection: close\r\n\r\n")
        (range, ByteString.length answer) `shouldSatisfy` (< 1010000) . snd
  it "compresses a file once however many ask for it, and never what clients send" . withDirectory $ \folder -> do
    write folder "zeros.txt" (ByteString.replicate 8000000 0x30)
    withServer ["serve", folder, "--port", "0", "--compress", "--status", "0"] $ \server -> do
      lengths <-
        replicateM
          20
          ( curl
              [ "--header",
                "Accept-Encoding: gzip",
                "--output",
                "/dev/null",
                "--write-out",
                "%{size_download}",
                serverUrl server
                  <> "/zeros.txt"
              ]
          )
      map read lengths `shouldSatisfy` all (\size -> size < (8000001 :: Int))
      -- A bomb in a request is bytes like others.
      bomb <-
        readProcess
          "sh"
          [ "-c",
            "head -c 1000000 /dev/zero | gzip -9 | curl -sS --noproxy '*' -o /dev/null -w '%{http_code}' -H \
            \'Content-Encoding: gzip' --data-binary @- "
              <> serverUrl server
              <> "/zeros.txt"
          ]
          ""
      bomb `shouldBe` "405"
  it "has a page in the guide whose tests exist" $ do
    page <- lines <$> readFile "../docs/guide/security.md"
    let rows = filter ("| " `isPrefixOf`) page
        named = [(file, name) | row <- rows, (file, name) <- quoted row]
    length named `shouldSatisfy` (> 20)
    forM_ named $ \(file, name) -> do
      content <- readFile ("../" <> file)
      (file, name) `shouldSatisfy` ((`isInfixOf` content) . snd)
  where
    -- Pairs of a file and a test, written `FILE`: "TEST".
    quoted text = case break (== '`') text of
      (_, _ : rest) | (file, _ : more) <- break (== '`') rest -> case more of
        ':' : ' ' : '"' : named -> let (name, others) = break (== '"') named in (file, name) : quoted (drop 1 others)
        _ -> quoted more
      _ -> []
