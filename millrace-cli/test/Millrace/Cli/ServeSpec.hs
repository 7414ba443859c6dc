{-# LANGUAGE OverloadedStrings #-}

-- | The executable serves a directory.
module Millrace.Cli.ServeSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception (bracket_, try)
import Control.Monad (forM_, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, isPrefixOf)
import Foreign.C (Errno (..), eINVAL)
import GHC.Clock (getMonotonicTime)
import GHC.IO.Exception (IOException (..))
import Millrace.Http.Date (parseHttpDate)
import qualified Network.Socket.ByteString as Network
import Program
import ProgramClients
import Site
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink, setFileMode)
import System.Posix.Signals (sigTERM)
import System.Process
import Test.Hspec

spec :: Spec
spec = do
  describe "serve" . around withSite $ do
    it "serves" $ \site -> withServer ["serve", site </> "root", "--port", "0"] $ \server -> do
      let url = serverUrl server
          status arguments = curl (["-o", "/dev/null", "-w", "%{http_code}"] ++ arguments)
          headOf arguments = curl (["-D", "-", "-o", "/dev/null"] ++ arguments)
      curl [url <> "/"] `shouldReturn` "<p>index"
      curl [url <> "/hello.txt"] `shouldReturn` "Hello, world\n"
      curl ["-L", url <> "/sub"] `shouldReturn` "<p>sub"
      forM_
        [ "/../secret",
          "/sub/../../secret",
          "/%2e%2e/secret",
          "/..%2fsecret",
          "/%252e%252e/secret",
          "/outside",
          "/.hidden",
          "//../secret",
          "/..\\secret"
        ]
        $ \path ->
          (,) path <$> status [url <> path] `shouldReturn` (path, "404")
      status [url <> "/%00"] `shouldReturn` "400"
      status ["-X", "DELETE", url <> "/hello.txt"] `shouldReturn` "405"
      whole <- headOf [url <> "/hello.txt"]
      countLines "content-length: 13" whole `shouldBe` 1
      countLines "content-length: 13" <$> curl ["-I", url <> "/hello.txt"] `shouldReturn` 1
      curl ["-r", "7-11", url <> "/hello.txt"] `shouldReturn` "world"
      part <- headOf ["-r", "7-11", url <> "/hello.txt"]
      part `shouldSatisfy` isPrefixOf "HTTP/1.1 206 "
      map
        (`countLines` part)
        [ "content-range: bytes 7-11/13",
          "content-range",
          "content-length: 5",
          "content-length",
          "accept-ranges",
          "last-modified"
        ]
        `shouldBe` [1, 1, 1, 1, 1, 1]
      several <- curl ["-r", "0-4,10-11", url <> "/hello.txt"]
      several `shouldSatisfy` isInfixOf "Content-Range: bytes 10-11/13\r\n\r\nld\r\n--"
      status ["-r", "99-", url <> "/hello.txt"] `shouldReturn` "416"
      notModified <- headOf ["-H", "If-None-Match: *", url <> "/hello.txt"]
      notModified `shouldSatisfy` isPrefixOf "HTTP/1.1 304 "
      countLines "etag: " notModified `shouldBe` 1
    it "serves the current directory" $ \site -> do
      path <- millracePath
      withCommand "bash" ["-c", "cd \"$1\" && exec \"$2\" serve --port 0", "bash", site </> "root", path] $ \server ->
        do
          curl [serverUrl server <> "/hello.txt"] `shouldReturn` "Hello, world\n"
          curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/outside"] `shouldReturn` "404"
    it "lists directories when asked" $ \site ->
      withServer ["serve", site </> "root", "--port", "0", "--listing"] $ \server -> do
        writeOld site "root/no-index/a file" "x"
        page <- curl [serverUrl server <> "/no-index/"]
        page `shouldSatisfy` isInfixOf "<a href=\"./a%20file\">a file</a>"
        curl [serverUrl server <> "/"] `shouldReturn` "<p>index"
    it "serves a single-page application when asked" $ \site ->
      withServer ["serve", site </> "root", "--port", "0", "--spa"] $ \server -> do
        let url = serverUrl server
        forM_ ["/users/42", "/users/43"] $ \path -> do
          answer <- curl ["-i", "-H", "Accept: text/html,*/*;q=0.8", url <> path]
          answer `shouldSatisfy` isPrefixOf "HTTP/1.1 200 "
          answer `shouldSatisfy` isInfixOf "\r\n\r\n<p>index"
          countLines "cache-control: no-cache" answer `shouldBe` 1
        curl ["-o", "/dev/null", "-w", "%{http_code}", "-H", "Accept: text/html", url <> "/app.js"] `shouldReturn` "404"
        curl ["-o", "/dev/null", "-w", "%{http_code}", "-H", "Accept: application/json", url <> "/users"]
          `shouldReturn` "404"
        countLines "content-length: 8" <$> curl ["-I", url <> "/users"] `shouldReturn` 1
    it "answers errors with pages of the site when asked" $ \site -> do
      writeOld site "root/404.html" "<p>not here"
      writeOld site "root/403.html" "<p>not for you"
      writeOld site "root/private.txt" "private"
      setFileMode (site </> "root/private.txt") 0
      let path = site </> "access.log"
      write site "access.log" ""
      setFileMode path 0o666
      asNobody site ["serve", site </> "root", "--port", "0", "--error-pages", "--access-log", path] $ \server -> do
        let url = serverUrl server
        answer <- curl ["-i", url <> "/missing"]
        answer `shouldSatisfy` isPrefixOf "HTTP/1.1 404 "
        answer `shouldSatisfy` isInfixOf "\r\n\r\n<p>not here"
        headOnly <- curl ["-I", url <> "/missing"]
        (countLines "content-length: 11" headOnly, "HTTP/1.1 404 " `isPrefixOf` headOnly) `shouldBe` (1, True)
        curl ["-w", " %{http_code}", "-r", "0-1", "-H", "If-None-Match: *", url <> "/missing"]
          `shouldReturn` "<p>not here 404"
        curl ["-w", " %{http_code}", url <> "/private.txt"] `shouldReturn` "<p>not for you 403"
        curl ["-w", " %{http_code}", url <> "/404.html"] `shouldReturn` "<p>not here 200"
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
      map (isInfixOf "\" 404 11 ") . take 1 . lines <$> readFile path `shouldReturn` [True]
    it "compresses for curl when asked, which undoes it" $ \site -> do
      let content = Char8.unlines (replicate 10000 "a line of a text that is worth compressing")
      writeOld site "root/text.txt" content
      threadDelay 3100000
      withServer ["serve", site </> "root", "--port", "0", "--compress"] $ \server -> do
        let url = serverUrl server <> "/text.txt"
        forM_ ["br", "zstd", "gzip"] $ \coding -> forM_ [1, 2 :: Int] $ \_ -> do
          let target = site </> "received"
          headers <- curl ["--compressed", "-H", "Accept-Encoding: " <> coding, "-D", "-", "-o", target, url]
          received <- ByteString.readFile target
          ( received
              == content,
            countLines ("content-encoding: " <> coding) headers,
            countLines "vary: accept-encoding" headers
            )
            `shouldBe` (True, 1, 1)
          size <- read <$> curl ["-o", "/dev/null", "-w", "%{size_download}", "-H", "Accept-Encoding: " <> coding, url]
          size `shouldSatisfy` (< ByteString.length content `quot` 20)
          countLines ("content-length: " <> show size)
            <$> curl ["-I", "-H", "Accept-Encoding: " <> coding, url] `shouldReturn` 1
        curl ["-H", "Accept-Encoding: br", "-r", "0-5", url] `shouldReturn` "a line"
        curl [url] >>= (`shouldSatisfy` (== ByteString.length content) . length)
    it "says how long files may be kept when told" $ \site -> do
      let rules = concat [["--cache-control", rule] | rule <- ["/=no-cache", "*.txt=max-age=31536000, immutable"]]
      withServer (["serve", site </> "root", "--port", "0"] ++ rules) $ \server -> do
        let fieldsOf arguments path = curl (["-D", "-", "-o", "/dev/null"] ++ arguments ++ [serverUrl server <> path])
        forM_ [[], ["-r", "0-1"], ["-H", "If-None-Match: *"], ["-I"]] $ \arguments ->
          countLines "cache-control: max-age=31536000, immutable" <$> fieldsOf arguments "/hello.txt" `shouldReturn` 1
        countLines "cache-control: no-cache" <$> fieldsOf [] "/" `shouldReturn` 1
        countLines "cache-control" <$> fieldsOf [] "/missing" `shouldReturn` 0
    it "says why a file cannot be read, but not with every request" $ \site -> do
      let unreadable = "/sys/class/net/lo/duplex"
      outcome <- try (ByteString.readFile unreadable)
      createSymbolicLink unreadable (site </> "root/unreadable")
      case outcome of
        Left failure | fmap Errno (ioe_errno failure) == Just eINVAL ->
          withServer ["serve", site </> "root", "--port", "0", "--follow-links"] $ \server -> do
            forM_ [1 .. 5 :: Int] . const $
              curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/unreadable"] `shouldReturn` "500"
            signalServer sigTERM server
            nextErrorLine server `shouldReturn` "millrace: GET /unreadable: Invalid argument"
            nextErrorLine server >>= (`shouldStartWith` "stopping ")
        _ -> pendingWith "this system has no file that fails when it is read"
    it "announces no change that is later than the answer" $ \site -> do
      callProcess "touch" ["-d", "2100-01-01", site </> "root/hello.txt"]
      withServer ["serve", site </> "root", "--port", "0", "--cache-seconds", "0"] $ \server ->
        withClient server $ \client -> do
          -- The second changes once at least.
          start <- getMonotonicTime
          let ask = do
                Network.sendAll client "HEAD /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"
                answer <- Char8.lines <$> Network.recv client 4096
                let seconds name =
                      [ parseHttpDate (Char8.take 29 value)
                        | line <-
                            answer,
                          Just value <- [ByteString.stripPrefix name line]
                      ]
                length (seconds "Last-Modified: ") `shouldBe` 1
                seconds "Last-Modified: " `shouldSatisfy` (<= seconds "Date: ")
                now <- getMonotonicTime
                when (now < start + 2.1) ask
          ask
    it "sends a precompressed file to curl, which undoes it" $ \site -> do
      callProcess "gzip" ["-k", site </> "root/hello.txt"]
      withServer ["serve", site </> "root", "--port", "0"] $ \server -> do
        curl ["--compressed", serverUrl server <> "/hello.txt"] `shouldReturn` "Hello, world\n"
        coded <- curl ["--compressed", "-D", "-", "-o", "/dev/null", serverUrl server <> "/hello.txt"]
        countLines "content-encoding: gzip" coded `shouldBe` 1
    forM_ ["0", "1"] $ \seconds ->
      it ("logs and tells what it has done, with --cache-seconds " <> seconds) $ \site -> do
        let path = site </> "access.log"
        withServer
          [ "serve",
            site </> "root",
            "--port",
            "0",
            "--cache-seconds",
            seconds,
            "--access-log",
            path,
            "--log-format",
            "json",
            "--status",
            "0"
          ]
          $ \server -> do
            statusLine <- nextLine server
            let (statusUrl, metricsUrl) = case words statusLine of
                  ["status", "on", _, first, "and", second] -> (first, second)
                  _ -> error statusLine
            mapM_
              (\arguments -> curl ("-o" : "/dev/null" : arguments))
              [ [serverUrl server <> "/hello.txt?a"],
                [serverUrl server <> "/hello.txt"],
                ["-I", serverUrl server <> "/"],
                [serverUrl server <> "/missing"]
              ]
            page <- curl [metricsUrl]
            mapM_
              (\text -> lines page `shouldContain` [text])
              [ "millrace_requests_total{status=\"2xx\"} 3",
                "millrace_requests_total{status=\"4xx\"} 1",
                "millrace_requests_refused_total 0",
                "millrace_response_body_bytes_total 40",
                "millrace_request_duration_seconds_bucket{le=\"+Inf\"} 4",
                "millrace_connections_accepted_total 4",
                "millrace_connections{state=\"active\"} 0"
              ]
            -- Each of the four connections took an accept, a receive and a send at least.
            sum [read number | ["millrace_loop_operations_total", number] <- map words (lines page)]
              `shouldSatisfy` (>= (12 :: Int))
            curl [statusUrl] >>= (`shouldSatisfy` isInfixOf "\"accepted\": 4,")
            forM_
              [ ("rebound.test", "421"),
                ("127.0.0.1.rebound.test", "421"),
                ("LocalHost:1", "200"),
                ("[::1]:80", "200"),
                ("127.0.0.1", "200")
              ]
              $ \(name, code) ->
                curl ["-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: " <> name, statusUrl] `shouldReturn` code
            signalServer sigTERM server
            waitForExit 5 server `shouldReturn` ExitSuccess
        written <- lines <$> readFile path
        length written `shouldBe` 4
        head written
          `shouldSatisfy` isInfixOf
            "\"method\":\"GET\",\"target\":\"/hello.txt?a\",\"version\":\"1.1\",\"status\":200,\"bytes\":13,"
        written !! 2
          `shouldSatisfy` isInfixOf
            "\"method\":\"HEAD\",\"target\":\"/\",\"version\":\"1.1\",\"status\":200,\"bytes\":0,"
        written !! 3 `shouldSatisfy` isInfixOf "\"status\":404,\"bytes\":14,"
    forM_ refusals $ \(status, request, expected) ->
      it ("logs once what it refuses itself, and counts it: " <> show (Char8.take 32 request)) $ \site -> do
        let logOf format use = do
              let path = site </> format
              withServer
                ["serve", site </> "root", "--port", "0", "--access-log", path, "--log-format", format, "--status", "0"]
                $ \server ->
                  do
                    metricsUrl <- last . words <$> nextLine server
                    _ <- use server
                    page <- curl [metricsUrl]
                    mapM_
                      (\text -> lines page `shouldContain` [text])
                      ["millrace_requests_refused_total 1", "millrace_requests_total{status=\"4xx\"} 0"]
                    signalServer sigTERM server
                    waitForExit 20 server `shouldReturn` ExitSuccess
              lines <$> readFile path
            refused server = withClient server $ \client -> do
              Network.sendAll client request
              answer <- receiveToEnd client
              Char8.unpack answer `shouldSatisfy` isPrefixOf ("HTTP/1.1 " <> show status <> " ")
        combined <- logOf "combined" refused
        map (drop 1 . dropWhile (/= ']')) combined `shouldBe` [expected]
        map (takeWhile (/= ' ')) combined `shouldBe` ["127.0.0.1"]
        json <- logOf "json" refused
        map (isInfixOf (",\"status\":" <> show status <> ",")) json `shouldBe` [True]
        map (isInfixOf ",\"refused\":\"") json `shouldBe` [True]
    it "follows links when asked" $ \site ->
      withServer ["serve", site </> "root", "--port", "0", "--follow-links"] $ \server ->
        curl [serverUrl server <> "/outside"] `shouldReturn` "secret"
    it "does not list what it may not read" $ \site -> do
      writeOld site "root/private/file" "secret"
      -- Not even for its owner, who may run these tests.
      let unlisted =
            bracket_ (setFileMode (site </> "root/private") 0o311) (setFileMode (site </> "root/private") 0o755)
      unlisted . asNobody site ["serve", site </> "root", "--port", "0", "--listing"] $ \server ->
        curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/private/"] `shouldReturn` "403"
    it "does not serve what it may not read" $ \site -> do
      setFileMode (site </> "root/hello.txt") 0o000
      asNobody site ["serve", site </> "root", "--port", "0"] $ \server -> do
        curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/hello.txt"] `shouldReturn` "403"
        curl [serverUrl server <> "/"] `shouldReturn` "<p>index"
