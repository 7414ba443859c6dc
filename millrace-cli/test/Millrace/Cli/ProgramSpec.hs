{-# LANGUAGE OverloadedStrings #-}

-- | The executable: what it answers, what it works without, and what it reports.
module Millrace.Cli.ProgramSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (filterM, forM_, when)
import qualified Data.ByteString as ByteString
import Data.Char (isDigit)
import Data.List (isInfixOf, isPrefixOf, stripPrefix)
import Data.Maybe (isJust, isNothing, mapMaybe)
import Millrace.Manager (Backend (..), backendName, probeBackend)
import qualified Network.Socket.ByteString as Network
import Program
import ProgramClients
import Site
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (WriteMode), hClose, hGetLine, withFile)
import System.Posix.Signals (sigTERM, signalProcess)
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
    it "says which backend of the environment does not work" $ do
      missing <- filterM (fmap isJust . probeBackend) [minBound ..]
      forM_ missing $ \backend -> do
        outcome <- runMillrace [("MILLRACE_BACKEND", backendName backend)] ["pong", "--port", "0"]
        outcome `failsWith` ["cannot start the I/O manager with MILLRACE_BACKEND=" <> backendName backend <> ": "]
    it "says which address it cannot listen on" $ do
      -- On which link it is would have to be said.
      linkLocal <- runMillrace [] ["pong", "--port", "0", "--host", "fe80::1"]
      linkLocal `failsWith` ["cannot listen on [fe80::1]:0: ", "Try another --host or --port."]
    it "says that some ports are not for every user" . withDirectory $ \directory -> do
      (program, arguments) <- nobodys directory
      firstFree <- read <$> readFile "/proc/sys/net/ipv4/ip_unprivileged_port_start"
      when (firstFree < (2 :: Int)) $ pendingWith "every user may listen on every port here"
      (code, _, errors) <-
        within 20 "millrace to end" (readProcessWithExitCode program (arguments ++ ["pong", "--port", "1"]) "")
      code `shouldBe` ExitFailure 1
      errors `shouldContain` "cannot listen on 127.0.0.1:1: permission denied"
      errors `shouldContain` "choose a higher one with --port"

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
      let confined =
            ["-c", "unset MILLRACE_BACKEND; ulimit -S -l \"$1\" 2>&- ; shift; exec \"$@\"", "bash", kilobytes, program]
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
