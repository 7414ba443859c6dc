{-# LANGUAGE OverloadedStrings #-}

-- | The executable, talked to by curl and by signals.
module Millrace.Cli.ProgramSpec (spec) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception (bracket, bracket_, try)
import Control.Monad (forM_, forever, when)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (char7, intDec, toLazyByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Char (isDigit)
import Data.List (isInfixOf, isPrefixOf, stripPrefix)
import Data.Maybe (isNothing, mapMaybe)
import Foreign.C (Errno (..), eINVAL)
import GHC.Clock (getMonotonicTime)
import GHC.IO.Exception (IOException (..))
import Millrace.Http.Date (parseHttpDate)
import Millrace.Manager (Backend (..), backendName, probeBackend)
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import Program
import Site
import System.Directory (createDirectory, removeDirectoryRecursive)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (WriteMode), hClose, hGetContents, hGetLine, withFile)
import System.Posix.Files (createSymbolicLink, setFileMode, setFileSize)
import System.Posix.Signals (sigHUP, sigINT, sigQUIT, sigTERM, sigUSR1, signalProcess)
import System.Process
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "pong" $ do
    it "answers everything" . withServer ["pong", "--port", "0"] $ \server -> do
      curl [serverUrl server <> "/some/where?x=y"] `shouldReturn` "Pong!"
      curl ["-X", "POST", "--data", "ping", serverUrl server] `shouldReturn` "Pong!"
      answer <- curl ["-i", serverUrl server]
      answer `shouldSatisfy` isPrefixOf "HTTP/1.1 200 OK"
      answer `shouldSatisfy` isInfixOf "Content-Type: text/plain\r\n"
    it "takes paths beyond ASCII as they are, and as long as it says"
      . withServer ["pong", "--port", "0", "--limit", "url-bytes=20"]
      $ \server ->
        forM_ [("/\228", "200"), (replicate 19 'a', "200"), (replicate 20 'a', "414")] $ \(path, status) ->
          curl
            [ "-o",
              "/dev/null",
              "-w",
              "%{http_code}",
              "--request-target",
              '/' :
              dropWhile
                (== '/')
                path,
              serverUrl server
            ]
            `shouldReturn` status
    it "tells where and with what" . withServer ["pong", "--port", "0", "--cores", "1"] $ \server -> do
      serverUrl server `shouldSatisfy` isPrefixOf "http://127.0.0.1:"
      serverBackendLine server
        `shouldSatisfy` (`elem` map ("backend " <>) ["hybrid, 1 loop", "epoll, 1 loop", "io_uring, 1 loop"])
    it "starts as many loops as it is told" . withServer ["pong", "--port", "0", "--cores", "3"] $ \server ->
      serverBackendLine server `shouldSatisfy` isInfixOf ", 3 loops"
    it "believes a proxy who the client is, when asked" . withDirectory $ \directory -> do
      let path = directory </> "access.log"
      withServer ["pong", "--port", "0", "--proxy-protocol", "--access-log", path] $ \server -> do
        answer <- withClient server $ \client -> do
          Network.sendAll client "PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\nGET / HTTP/1.0\r\n\r\n"
          receiveToEnd client
        answer `shouldSatisfy` ByteString.isSuffixOf "Pong!"
        refused <- withClient server $ \client -> Network.sendAll client "GET / HTTP/1.0\r\n\r\n" >> receiveToEnd client
        refused `shouldSatisfy` ByteString.isPrefixOf "HTTP/1.1 400 "
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
      map (takeWhile (/= ' ')) . lines <$> readFile path `shouldReturn` ["192.0.2.7", "127.0.0.1"]
    it "listens on IPv6, or says why not" $ do
      let arguments = ["pong", "--port", "0", "--host", "::1"]
      works <- machineHasIPv6
      if works
        then withServer arguments $ \server -> do
          serverUrl server `shouldSatisfy` isPrefixOf "http://[::1]:"
          curl ["-g", serverUrl server] `shouldReturn` "Pong!"
        else runMillrace [] arguments >>= (`failsWith` ["cannot listen on [::1]:0: "])
    forM_ [minBound ..] $ \backend ->
      it ("on " <> backendName backend <> " works, or says why not") $ do
        works <- isNothing <$> probeBackend backend
        let arguments = ["pong", "--port", "0", "--backend", backendName backend]
        if works
          then withServer arguments $ \server -> do
            serverBackendLine server `shouldSatisfy` isPrefixOf ("backend " <> backendName backend <> ",")
            curl [serverUrl server] `shouldReturn` "Pong!"
          else runMillrace [] arguments >>= (`failsWith` ["cannot start the I/O manager with " <> backendName backend])

  describe "stops" $ do
    forM_ [("SIGTERM", sigTERM), ("SIGINT", sigINT), ("SIGQUIT", sigQUIT), ("SIGHUP", sigHUP)] $ \(name, signal) -> do
      it ("on " <> name) . withServer ["pong", "--port", "0"] $ \server -> do
        curl [serverUrl server] `shouldReturn` "Pong!"
        signalServer signal server
        waitForExit 20 server `shouldReturn` ExitSuccess
      it ("on " <> name <> " when a download is done") . withLargeFile $ \directory content ->
        withServer ["serve", directory, "--port", "0"] $ \server -> do
          received <- withBegunDownload server $ \client begun -> do
            signalServer signal server
            _ <- nextErrorLine server
            ByteString.append begun <$> receiveToEnd client
          let body = ByteString.drop 4 (snd (ByteString.breakSubstring "\r\n\r\n" received))
          (ByteString.length body, body == content) `shouldBe` (ByteString.length content, True)
          waitForExit 20 server `shouldReturn` ExitSuccess
    it "on signals that come together as on one: timeout(1) sends two" . withLargeFile $ \directory content ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        received <- withBegunDownload server $ \client begun -> do
          forM_ [sigTERM, sigTERM, sigINT, sigTERM] (`signalServer` server)
          _ <- nextErrorLine server
          ByteString.append begun <$> receiveToEnd client
        ByteString.length received `shouldSatisfy` (> ByteString.length content)
        waitForExit 20 server `shouldReturn` ExitSuccess
    forM_ [("the same", sigTERM), ("another", sigINT)] $ \(name, second) ->
      it ("at once on a second signal, " <> name) . withLargeFile $ \directory _ ->
        withServer ["serve", directory, "--port", "0"] $ \server -> withBegunDownload server $ \_ _ -> do
          signalServer sigTERM server
          _ <- nextErrorLine server
          pauseBetweenSignals
          signalServer second server
          waitForExit 8 server `shouldReturn` ExitFailure (negate (fromIntegral second))
    it "at once on a second signal, and has logged everything" . withLargeFile $ \directory _ -> do
      let path = directory </> "access.log"
      withServer ["serve", directory, "--port", "0", "--access-log", path] $ \server ->
        withBegunDownload server $ \_ _ -> do
          curl ["-o", "/dev/null", serverUrl server <> "/missing"] `shouldReturn` ""
          signalServer sigTERM server
          _ <- nextErrorLine server
          pauseBetweenSignals
          signalServer sigTERM server
          waitForExit 8 server `shouldReturn` ExitFailure (negate (fromIntegral sigTERM))
      readFile path >>= (`shouldSatisfy` isInfixOf "GET /missing HTTP/1.1")
    it "at once on a second signal, also as the first process of a container" . withLargeFile $ \directory _ -> do
      path <- millracePath
      let inContainer = ["--pid", "--fork", "--kill-child"]
      (possible, _, _) <- readProcessWithExitCode "unshare" (inContainer ++ ["true"]) ""
      if possible /= ExitSuccess
        then pendingWith "no PID namespaces for this user"
        else withCommand "unshare" (inContainer ++ [path, "serve", directory, "--port", "0"]) $ \server ->
          withBegunDownload server $ \_ _ -> do
            signalChild sigTERM server
            _ <- nextErrorLine server
            pauseBetweenSignals
            signalChild sigTERM server
            waitForExit 8 server `shouldReturn` ExitFailure (128 + fromIntegral sigTERM)
    it "and says so in whole lines" . withServer ["pong", "--port", "0"] $ \server -> do
      signalServer sigTERM server
      waitForExit 20 server `shouldReturn` ExitSuccess
      hGetContents (serverErrors server)
        `shouldReturn` "stopping when the open requests are done; a second signal stops at once\n"
    it "not on SIGHUP if that is ignored" $ do
      path <- millracePath
      withCommand "nohup" [path, "pong", "--port", "0"] $ \server -> do
        signalServer sigHUP server
        curl [serverUrl server] `shouldReturn` "Pong!"
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
    it "not on SIGUSR1, by which servers are told that their log was rotated" . withServer ["pong", "--port", "0"] $
      \server ->
        do
          signalServer sigUSR1 server
          curl [serverUrl server] `shouldReturn` "Pong!"
          signalServer sigTERM server
          waitForExit 20 server `shouldReturn` ExitSuccess
    it "also if nobody reads what it says" . withServer ["pong", "--port", "0"] $ \server -> do
      hClose (serverErrors server)
      signalServer sigTERM server
      waitForExit 20 server `shouldReturn` ExitSuccess
    it "at once if the connections are idle" . withServer ["pong", "--port", "0"] $ \server ->
      withClient server $ \client -> do
        Network.sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        answer <- Network.recv client 1000
        answer `shouldSatisfy` ByteString.isSuffixOf "Pong!"
        signalServer sigTERM server
        -- Busy ones have nine seconds.
        timeout 8000000 (receiveToEnd client) `shouldReturn` Just ""
        waitForExit 20 server `shouldReturn` ExitSuccess
    it "telling those that are busy that it is the last time" . withLargeFile $ \directory content ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        received <- withBegunDownload server $ \client begun -> do
          signalServer sigTERM server
          untilRefused server
          -- The next request of a connection that was busy when the server was told to stop.
          Network.sendAll client "GET /missing HTTP/1.1\r\nHost: localhost\r\n\r\n"
          ByteString.append begun <$> receiveToEnd client
        let (first, rest) = ByteString.breakSubstring "\r\n\r\n" received
            second = Char8.unpack (ByteString.drop (4 + ByteString.length content) rest)
        countLines "connection: close" (Char8.unpack first) `shouldBe` 0
        second `shouldSatisfy` isPrefixOf "HTTP/1.1 404 "
        countLines "connection: close" second `shouldBe` 1
        waitForExit 20 server `shouldReturn` ExitSuccess
    forM_ [("nine seconds", [], 30), ("as many seconds as it was told", ["--drain-seconds", "1"], 7)] $
      \(name, options, patience) ->
        it ("after " <> name <> ", whatever a client does") . withLargeFile $ \directory _ ->
          withServer (["serve", directory, "--port", "0"] <> options) $ \server -> withBegunDownload server $ \_ _ -> do
            signalServer sigTERM server
            waitForExit patience server `shouldReturn` ExitSuccess
            hGetContents (serverErrors server) >>= (`shouldSatisfy` isInfixOf "\nmillrace: 1 connection cut off")

  describe "works without" $
    forM_
      [("standard input", "<&-"), ("standard output", ">&-"), ("standard error", "2>&-"), ("all three", "<&- >&- 2>&-")]
      $ \(name, closing) ->
        it name . withReservedPort $ \number -> do
          path <- millracePath
          let arguments = ["-c", "exec \"$@\" " <> closing, "bash", path, "pong", "--reuse-port", "--port", show number]
          bracket
            (createProcess (proc "bash" arguments) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe})
            cleanupProcess
            $ \(_, _, _, process) ->
              do
                timeout 20000000 (untilTrue (isAccepted number)) `shouldReturn` Just ()
                curl ["http://127.0.0.1:" <> show number] `shouldReturn` "Pong!"
                getPid process >>= mapM_ (signalProcess sigTERM)
                timeout 20000000 (waitForProcess process) `shouldReturn` Just ExitSuccess

  it "takes what works for all of its loops: the kernel may count the memory of io_uring's" . withDirectory $
    \directory ->
      do
        (program, arguments) <- nobodys directory
        let confined = ["-c", "unset MILLRACE_BACKEND; ulimit -l 300; exec \"$@\"", "bash", program]
        withCommand "bash" (confined ++ arguments ++ ["pong", "--port", "0", "--cores", "4"]) $ \server -> do
          serverBackendLine server `shouldSatisfy` (`elem` ["backend hybrid, 4 loops", "backend epoll, 4 loops"])
          curl [serverUrl server] `shouldReturn` "Pong!"

  it "takes what doctor says, and doctor says why" . withDirectory $ \directory -> do
    (program, arguments) <- nobodys directory
    forM_ ["64", "300", "unlimited"] $ \kilobytes -> do
      let confined = ["-c", "unset MILLRACE_BACKEND; ulimit -S -l \"$1\" 2>&- ; shift; exec \"$@\"", "bash", kilobytes, program]
      (code, report, _) <-
        within 20 "millrace to end" (readProcessWithExitCode "bash" (confined ++ arguments ++ ["doctor"]) "")
      code `shouldBe` ExitSuccess
      let row label = concat (take 1 (mapMaybe (stripPrefix label) (lines report)))
          taken = takeWhile (/= ' ') (row "a server would use  ")
      withCommand "bash" (confined ++ arguments ++ ["pong", "--port", "0"]) $ \server -> do
        serverBackendLine server `shouldSatisfy` isPrefixOf ("backend " <> taken <> ", ")
      when (taken == backendName Epoll) $ do
        row "backend hybrid      " `shouldSatisfy` isPrefixOf "does not work: "
        row "a server would use  " `shouldBe` "epoll (hybrid does not work here)"

  it "has the descriptors that it allows itself, and doctor knows" $ do
    path <- millracePath
    let confined = ["-c", "ulimit -S -n 16; exec \"$@\"", "bash", path, "doctor"]
    (code, report, _) <- within 20 "millrace to end" (readProcessWithExitCode "bash" confined "")
    (code, filter ("descriptors " `isPrefixOf`) (lines report)) `shouldSatisfy` \(found, told) ->
      found == ExitSuccess && map (isInfixOf "16, raised to ") told == [True]

  it "says that clients wait, when the connections that there are descriptors for are all busy" $
    withConfined ["pong", "--port", "0", "--cores", "2"] $ \server ->
      withBusyClients (fromIntegral (serverPort server)) 40 $
        nextErrorLine server `shouldReturn` "millrace: clients wait: too many open files (ulimit -n)"
  it "says so, too, when descriptors have gone elsewhere" $
    withConfined ["pong", "--port", "0", "--cores", "2", "--status", "0"] $ \server -> do
      status <- nextLine server
      let statusPort = read (takeWhile isDigit (drop (length ("status on http://127.0.0.1:" :: String)) status))
      withBusyClients (fromIntegral (serverPort server)) 30 . withBusyClients statusPort 20 $
        nextErrorLine server `shouldReturn` "millrace: clients wait: too many open files (ulimit -n)"

  describe "goes on when what it says is not taken" $ do
    let goesOn output = withReservedPort $ \number -> do
          path <- millracePath
          let program = proc path ["pong", "--reuse-port", "--port", show number]
          bracket (createProcess program {std_out = UseHandle output, std_err = CreatePipe}) cleanupProcess $
            \(_, _, errors, _) ->
              do
                timeout 20000000 (untilTrue (isAccepted number)) `shouldReturn` Just ()
                curl ["http://127.0.0.1:" <> show number] `shouldReturn` "Pong!"
                traverse hGetLine errors
    it "by a pipe whose reader is gone" $ do
      (reader, writer) <- createPipe
      hClose reader
      goesOn writer `shouldReturn` Just "millrace: cannot write to standard output: Broken pipe"
    it "by a full disk" $
      withFile "/dev/full" WriteMode goesOn
        `shouldReturn` Just "millrace: cannot write to standard output: No space left on device"

  describe "explains" $ do
    it "a port that is in use" . withServer ["pong", "--port", "0"] $ \server -> do
      let port = drop (length ("http://127.0.0.1:" :: String)) (serverUrl server)
      outcome <- runMillrace [] ["pong", "--port", port]
      outcome `failsWith` ["cannot listen on 127.0.0.1:" <> port <> ": the port is in use", "--port"]
    it "a port for the status that is in use" . withServer ["pong", "--port", "0"] $ \server -> do
      let port = show (serverPort server)
      outcome <- runMillrace [] ["pong", "--port", "0", "--status", port]
      outcome `failsWith` ["cannot listen on 127.0.0.1:" <> port <> ": the port is in use", "--status"]
    it "a port for the status that is its own" . withServer ["pong", "--port", "0", "--reuse-port"] $ \server -> do
      let port = show (serverPort server)
      outcome <- runMillrace [] ["pong", "--port", port, "--reuse-port", "--status", port]
      outcome `failsWith` ["cannot serve the status on port " <> port, "--status"]
    it "an address of another machine" $ do
      outcome <- runMillrace [] ["pong", "--port", "0", "--host", "192.0.2.1"]
      outcome `failsWith` ["cannot listen on 192.0.2.1:0: this machine has no such address", "--host"]
    forM_ [8, 10, 12, 14, 16] $ \limit ->
      it ("a limit of " <> show limit <> " open files, and what helps") . withDirectory $ \directory -> do
        path <- millracePath
        let confined = ["-c", "ulimit -n " <> show (limit :: Int) <> "; exec \"$@\"", "bash", path, "serve", "--port", "0", "--cores", "2", directory]
        (code, _, errors) <- within 20 "millrace to end" (readProcessWithExitCode "bash" confined "")
        -- The run-time system may be the first that finds none, and ends then, with words of its own.
        (code, lines errors) `shouldSatisfy` \(status, told) -> case status of
          ExitFailure 1 ->
            map ("Too many open files" `isInfixOf`) told == [True, False] && any ("Raise the limit" `isPrefixOf`) told
          ExitFailure _ -> any ("timerfd_create: Too many open files" `isInfixOf`) told
          ExitSuccess -> False
    it "a host that does not exist" $ do
      outcome <- runMillrace [] ["pong", "--port", "0", "--host", "nowhere.invalid"]
      outcome `failsWith` ["cannot listen on nowhere.invalid: ", "--host"]
    it "a directory that does not exist" $ do
      outcome <- runMillrace [] ["serve", "/no/such/directory"]
      outcome `failsWith` ["cannot serve /no/such/directory: No such file or directory", "millrace serve DIR"]
    it "a name that the locale has no characters for" $ do
      outcome <- runMillrace [("LC_ALL", "C")] ["serve", "/no/such/\233"]
      outcome `failsWith` ["cannot serve /no/such/\233: No such file or directory"]
    it "a file in place of a directory" $ do
      outcome <- runMillrace [] ["serve", "/etc/passwd"]
      outcome `failsWith` ["cannot serve /etc/passwd: is not a directory"]
    it "an empty name of a directory" $ do
      outcome <- runMillrace [] ["serve", ""]
      outcome `failsWith` ["cannot serve : No such file or directory"]
    it "a directory that it could not reach if it were not there already" . withDirectory $ \directory -> do
      write directory "closed/site/file" ""
      (program, arguments) <- nobodys directory
      let fromInside = ["-c", "cd \"$1\" && chmod 0 .. && shift && exec \"$@\"", "bash", directory </> "closed/site", program]
      (code, _, errors) <-
        within
          20
          "millrace to end"
          (readProcessWithExitCode "bash" (fromInside ++ arguments ++ ["serve", "--port", "0"]) "")
      code `shouldBe` ExitFailure 1
      errors `shouldSatisfy` isPrefixOf "millrace: cannot serve .: Permission denied\n"
    it "a directory that it may not enter" . withDirectory $ \directory -> do
      write directory "closed/index.html" ""
      (program, arguments) <- nobodys directory
      let closing = ["-c", "chmod 0 \"$1\" && shift && exec \"$@\"", "bash", directory </> "closed", program]
      (code, _, errors) <-
        within
          20
          "millrace to end"
          (readProcessWithExitCode "bash" (closing ++ arguments ++ ["serve", directory </> "closed", "--port", "0"]) "")
      code `shouldBe` ExitFailure 1
      errors `shouldSatisfy` isPrefixOf ("millrace: cannot serve " ++ directory </> "closed" ++ ": Permission denied\n")
    it "a backend that does not exist" $ do
      outcome <- runMillrace [] ["pong", "--backend", "select"]
      outcomeExit outcome `shouldBe` ExitFailure 2
      outcomeErrors outcome `shouldSatisfy` isInfixOf "auto, hybrid, epoll"
    it "a backend that does not exist, in the environment" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "select")] ["pong", "--port", "0"]
      outcome
        `failsWith` [ "cannot start the I/O manager with MILLRACE_BACKEND=select: there is no such backend",
                      "millrace doctor"
                    ]

  describe "informs" $ do
    it "--version" $ do
      outcome <- runMillrace [] ["--version"]
      (outcomeExit outcome, take 9 (outcomeOutput outcome)) `shouldBe` (ExitSuccess, "millrace ")
    it "--help" $ do
      outcome <- runMillrace [] ["--help"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "Available commands:"
    it "doctor" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitSuccess
      forM_ ["kernel              Linux ", "descriptors ", "backend epoll       works", "a server would use  "] $
        \text ->
          outcomeOutput outcome `shouldSatisfy` isInfixOf text
    it "doctor does not touch what was not asked for" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "epoll")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "backend io_uring    not tried"
      outcomeOutput outcome `shouldSatisfy` isInfixOf "epoll (asked for by MILLRACE_BACKEND)"
    it "doctor --json" $ do
      outcome <- runMillrace [] ["doctor", "--json", "--backend", "epoll"]
      outcomeExit outcome `shouldBe` ExitSuccess
      outcomeOutput outcome `shouldSatisfy` isInfixOf "\"chosen\": \"epoll\",\n  \"reason\": \"asked for by --backend\""
    forM_ [["doctor"], ["--help"], ["serve", "--help"], ["--version"], ["--bash-completion-script", "millrace"]] $
      \arguments ->
        it (unwords arguments <> ", or says that it could not") $ do
          (code, _, errors) <- redirected "> /dev/full" arguments
          code `shouldBe` ExitFailure 1
          errors `shouldSatisfy` isPrefixOf "millrace: cannot write to standard output: No space left on device\n"
    it "of wrong usage by its exit status, too, if nobody takes what it says" $
      redirected "2> /dev/full" ["serve", "--bogus"] `shouldReturn` (ExitFailure 2, "", "")
    it "of wrong usage, also if the locale has no characters for it" $ do
      outcome <- runMillrace [("LC_ALL", "C")] ["serve", "--\233"]
      outcomeExit outcome `shouldBe` ExitFailure 2
      outcomeErrors outcome `shouldSatisfy` isPrefixOf "Invalid option `--\233'\n"
    it "doctor that nothing would work" $ do
      outcome <- runMillrace [("MILLRACE_BACKEND", "select")] ["doctor"]
      outcomeExit outcome `shouldBe` ExitFailure 1
      outcomeOutput outcome
        `shouldSatisfy` isInfixOf
          "a server would use  nothing, it cannot start the I/O manager with MILLRACE_BACKEND=select"

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
                let seconds name = [parseHttpDate (Char8.take 29 value) | line <- answer, Just value <- [ByteString.stripPrefix name line]]
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
    it "logs while the log is being read" $ \_ -> withLargeFile $ \directory _ -> do
      let path = directory </> "large"
          isThere = ByteString.isInfixOf "GET /missing HTTP/1.1" . ByteString.drop 24000000 <$> ByteString.readFile path
      withServer ["serve", directory, "--port", "0", "--access-log", path] $ \server ->
        withClient server $ \client -> do
          Network.sendAll client "GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-0,2-\r\n\r\n"
          begun <- Network.recv client 1000
          begun `shouldSatisfy` ByteString.isPrefixOf "HTTP/1.1 206 "
          curl ["-o", "/dev/null", serverUrl server <> "/missing"] `shouldReturn` ""
          timeout 20000000 (untilTrue isThere) `shouldReturn` Just ()
    it "goes on, and stops, when nobody takes its log" $ \_ ->
      withServer ["pong", "--port", "0", "--access-log", "-"] $ \server -> do
        askOften server
        signalServer sigTERM server
        -- The drain's nine seconds are for busy connections.
        waitForExit 8 server `shouldReturn` ExitSuccess
    it "tells how much of its log was dropped" $ \_ ->
      withServer ["pong", "--port", "0", "--access-log", "-"] $ \server -> do
        askOften server
        bracket (forkIO (forever (nextLine server))) killThread $ \_ ->
          nextErrorLine server >>= (`shouldSatisfy` isInfixOf " lines of the access log dropped")
        signalServer sigTERM server
        waitForExit 8 server `shouldReturn` ExitSuccess
    it "explains a log that cannot be written" $ \site -> do
      outcome <- runMillrace [] ["serve", site, "--port", "0", "--access-log", site </> "no/log"]
      outcome `failsWith` ["cannot write the access log " <> site </> "no/log: ", "'access-log' names a file"]
    it "says once a second that its log cannot be written, however much there is to write" $ \site -> do
      let directory = site </> "logs"
      createDirectory directory
      withServer ["pong", "--port", "0", "--access-log", directory </> "log"] $ \server -> do
        removeDirectoryRecursive directory
        begun <- getMonotonicTime
        askOften server
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
        seconds <- subtract begun <$> getMonotonicTime
        complaints <- filter (isInfixOf "cannot write the access log") . lines <$> hGetContents (serverErrors server)
        fromIntegral (length complaints) `shouldSatisfy` (\count -> count >= 1 && count <= seconds + 2)
    it "begins another line of its log behind what a full disk has left of one" $ \site -> do
      path <- millracePath
      let file = site </> "access.log"
          -- As on a disk of a kilobyte.
          confined = "ulimit -S -f 1; exec \"$@\""
          askFor server name = curl ["-o", "/dev/null", serverUrl server <> name] `shouldReturn` ""
      withCommand "bash" ["-c", confined, "bash", path, "pong", "--port", "0", "--access-log", file] $ \server -> do
        forM_ [1 .. 20 :: Int] $ \number -> askFor server ("/before-" <> show number)
        nextErrorLine server
          >>= (`shouldSatisfy` isPrefixOf ("millrace: cannot write the access log " <> file <> ": File too large; "))
        getPid (serverProcess server)
          >>= mapM_ (\number -> callProcess "prlimit" ["--pid", show number, "--fsize=unlimited:"])
        askFor server "/after"
        signalServer sigTERM server
        waitForExit 20 server `shouldReturn` ExitSuccess
      written <- lines <$> readFile file
      length written `shouldSatisfy` (> 5)
      last written `shouldSatisfy` \line ->
        "127.0.0.1 - - [" `isPrefixOf` line && "GET /after HTTP/1.1" `isInfixOf` line
    forM_ [("file", ""), ("file of which several ranges are sent", "Range: bytes=0-9,20-\r\n")] $ \(what, field) ->
      it ("tells of a " <> what <> " that became shorter meanwhile") $ \_ -> withLargeFile $ \directory _ ->
        withServer ["serve", directory, "--port", "0"] $ \server -> do
          _ <- withBegunDownloadOf field server $ \client _ -> do
            setFileSize (directory </> "large") 1000000
            receiveToEnd client
          nextErrorLine server `shouldReturn` "millrace: GET /large: the file became shorter while it was sent"
    it "says nothing of a client that is gone" $ \_ -> withLargeFile $ \directory _ ->
      withServer ["serve", directory, "--port", "0"] $ \server -> do
        forM_ [1 .. 10 :: Int] . const . withBegunDownload server $ \client _ ->
          Network.setSockOpt client Network.Linger (Network.StructLinger 1 0) -- closing resets the connection
        signalServer sigTERM server
        nextErrorLine server >>= (`shouldStartWith` "stopping ")
    it "follows links when asked" $ \site ->
      withServer ["serve", site </> "root", "--port", "0", "--follow-links"] $ \server ->
        curl [serverUrl server <> "/outside"] `shouldReturn` "secret"
    it "does not list what it may not read" $ \site -> do
      writeOld site "root/private/file" "secret"
      -- Not even for its owner, who may run these tests.
      let unlisted = bracket_ (setFileMode (site </> "root/private") 0o311) (setFileMode (site </> "root/private") 0o755)
      unlisted . asNobody site ["serve", site </> "root", "--port", "0", "--listing"] $ \server ->
        curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/private/"] `shouldReturn` "403"
    it "does not serve what it may not read" $ \site -> do
      setFileMode (site </> "root/hello.txt") 0o000
      asNobody site ["serve", site </> "root", "--port", "0"] $ \server -> do
        curl ["-o", "/dev/null", "-w", "%{http_code}", serverUrl server <> "/hello.txt"] `shouldReturn` "403"
        curl [serverUrl server <> "/"] `shouldReturn` "<p>index"
  where
    redirected redirection arguments = do
      path <- millracePath
      readProcessWithExitCode "bash" (["-c", "\"$@\" " <> redirection, "bash", path] ++ arguments) ""
    failsWith outcome texts = do
      outcomeExit outcome `shouldBe` ExitFailure 1
      outcomeOutput outcome `shouldBe` ""
      forM_ ("millrace: " : texts) $ \text -> outcomeErrors outcome `shouldSatisfy` isInfixOf text

machineHasIPv6 :: IO Bool
machineHasIPv6 = either failed (const True) <$> try (bracket open Network.close (`Network.bind` address))
  where
    open = Network.socket Network.AF_INET6 Network.Stream 0
    address = Network.SockAddrInet6 0 0 (Network.tupleToHostAddress6 (0, 0, 0, 0, 0, 0, 0, 1)) 0
    failed :: IOException -> Bool
    failed _ = False

-- | How many lines begin with this text, in any case of letters.
countLines :: String -> String -> Int
countLines text = length . filter (isPrefixOf text) . lines . map lower
  where
    lower character = if character `elem` ['A' .. 'Z'] then toEnum (fromEnum character + 32) else character

withSite :: (FilePath -> IO a) -> IO a
withSite use = withDirectory $ \site -> do
  writeOld site "root/hello.txt" "Hello, world\n"
  writeOld site "root/index.html" "<p>index"
  writeOld site "root/sub/index.html" "<p>sub"
  writeOld site "root/.hidden" "secret"
  writeOld site "secret" "secret"
  createSymbolicLink "../secret" (site </> "root/outside")
  use site

-- | 24 MB: more than all socket buffers on the way take.
withLargeFile :: (FilePath -> ByteString.ByteString -> IO a) -> IO a
withLargeFile use = withDirectory $ \directory -> do
  let content = Lazy.toStrict (toLazyByteString (foldMap (\n -> intDec n <> char7 '\n') [1 .. 3300000]))
  writeOld directory "large" content
  use directory content

-- | Asks for the large file and reads no more than the beginning of it. The file is too large for the buffers on the
-- way.
withBegunDownload :: Server -> (Network.Socket -> ByteString.ByteString -> IO a) -> IO a
withBegunDownload = withBegunDownloadOf ""

-- | The same with fields in the request, each with its end of line.
withBegunDownloadOf :: ByteString.ByteString -> Server -> (Network.Socket -> ByteString.ByteString -> IO a) -> IO a
withBegunDownloadOf fields server action = withClient server $ \client -> do
  Network.sendAll client ("GET /large HTTP/1.1\r\nHost: localhost\r\n" <> fields <> "\r\n")
  Network.recv client 1000 >>= action client

-- Signals that come within a tenth of a second count as one.
pauseBetweenSignals :: IO ()
pauseBetweenSignals = threadDelay 200000

-- A server that may have 64 descriptors.
withConfined :: [String] -> (Server -> IO a) -> IO a
withConfined arguments use = do
  path <- millracePath
  withCommand "bash" (["-c", "ulimit -n 64; exec \"$@\"", "bash", path] ++ arguments) use

-- This many clients are in the middle of their first request.
withBusyClients :: Network.PortNumber -> Int -> IO a -> IO a
withBusyClients port count action =
  foldr (\_ others -> withClientOf port (\client -> Network.sendAll client "GET / HT" >> others)) action [1 .. count]

-- | A connection to the server.
withClient :: Server -> (Network.Socket -> IO a) -> IO a
withClient = withClientOf . fromIntegral . serverPort

withClientOf :: Network.PortNumber -> (Network.Socket -> IO a) -> IO a
withClientOf port use =
  bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \client -> do
    Network.connect client (Network.SockAddrInet port (Network.tupleToHostAddress (127, 0, 0, 1)))
    use client

-- | So often that the log has ten megabytes to tell.
askOften :: Server -> IO ()
askOften server = withClient server $ \client -> do
  let request = "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: " <> Char8.replicate 5000 'u' <> "\r\n\r\n"
      answered left = when (left > 0) $ do
        bytes <- Network.recv client 65536
        ByteString.null bytes `shouldBe` False
        answered (left - Char8.count '!' bytes)
  forM_ [1 .. 100 :: Int] $ \_ -> do
    Network.sendAll client (ByteString.concat (replicate 20 request))
    timeout 20000000 (answered 20) `shouldReturn` Just ()

-- | A port that nobody else gets meanwhile, for a server with @--reuse-port@.
withReservedPort :: (Network.PortNumber -> IO a) -> IO a
withReservedPort use = bracket (Network.socket Network.AF_INET Network.Stream 0) Network.close $ \reserving -> do
  Network.setSocketOption reserving Network.ReusePort 1
  Network.bind reserving (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
  Network.socketPort reserving >>= use

-- | Does anybody listen there?
isAccepted :: Network.PortNumber -> IO Bool
isAccepted port = either refused (const True) <$> try (withClientOf port (const (pure ())))
  where
    refused :: IOException -> Bool
    refused _ = False

-- | Returns when nobody can connect any more.
untilRefused :: Server -> IO ()
untilRefused server = untilTrue (not <$> isAccepted (fromIntegral (serverPort server)))

-- | Asks again and again.
untilTrue :: IO Bool -> IO ()
untilTrue ask = do
  answer <- ask
  if answer then pure () else threadDelay 50000 >> untilTrue ask

-- | A status that the server answers itself, a request that gets it, and the line of the log behind the time.
refusals :: [(Int, ByteString.ByteString, String)]
refusals =
  [ (400, "GET / HTTP/1.1\r\n\r\n", " \"GET / HTTP/1.1\" 400 11 \"-\" \"-\""),
    (400, "\x16\x03\x01\"\r\n", " \"\\x16\\x03\\x01\\x22\" 400 11 \"-\" \"-\""),
    ( 414,
      "GET /"
        <> long
        <> " HTTP/1.1\r\nHost: a\r\n\r\n",
      " \"GET /"
        <> Char8.unpack long
        <> " HTTP/1.1\" 414 20 \"-\" \"-\""
    ),
    ( 417,
      "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nExpect: wonders\r\n\r\n",
      " \"GET /x HTTP/1.1\" 417 18 \"-\" \"u\""
    ),
    ( 431,
      "GET / HTTP/1.1\r\nHost: a\r\n"
        <> Char8.concat (replicate 200 "A: b\r\n")
        <> "\r\n",
      " \"GET / HTTP/1.1\" 431 31 \"-\" \"-\""
    ),
    ( 501,
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
      " \"POST / HTTP/1.1\" 501 15 \"-\" \"-\""
    ),
    (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n", " \"GET / HTTP/2.0\" 505 26 \"-\" \"-\"")
  ]
  where
    long = Char8.replicate 8200 'x'

receiveToEnd :: Network.Socket -> IO ByteString.ByteString
receiveToEnd client = ByteString.concat <$> go
  where
    go = do
      bytes <- Network.recv client 65536
      if ByteString.null bytes then pure [] else (bytes :) <$> go
