{-# LANGUAGE OverloadedStrings #-}

-- | Runs each example program, and connects to the servers with plain sockets.
module Main (main) where

import ArenaSpec (arenaSpec)
import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (bracket, finally)
import Control.Monad (forM_, replicateM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import GrpcSpec (grpcSpec)
import GuestBookSpec (guestBookSpec)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import NoticeBoardSpec (noticeBoardSpec)
import Support (connectWhenReady, running, stop)
import System.Directory (createDirectory, getTemporaryDirectory, removeFile, renameFile)
import System.Exit (ExitCode (..))
import System.IO (hGetContents, hGetLine)
import System.Process
import System.Timeout (timeout)
import Test.Hspec
import TestSupport.ByteStream (receiveAllBy)
import TestSupport.Folder (freePort, withTemporaryFolder)
import TestSupport.Time (within)

main :: IO ()
main = hspec $ do
  describe "hello-wai" $
    it "greets" . running "hello-wai" $ \connection -> do
      sendAll connection "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      answer <- receiveAll connection
      answer `shouldSatisfy` ByteString.isPrefixOf "HTTP/1.1 200 OK\r\n"
      answer `shouldSatisfy` ByteString.isInfixOf "Content-Type: text/plain\r\n"
      answer `shouldSatisfy` ByteString.isSuffixOf "\r\n\r\nHello from Millrace\n"
  describe "echo-tcp" $
    it "sends back what it receives" . running "echo-tcp" $ \connection -> do
      forM_ ["a", "bc", Char8.replicate 100000 'd'] $ \message -> do
        sendAll connection message
        receive connection (ByteString.length message) `shouldReturn` message
      shutdown connection ShutdownSend
      receiveAll connection `shouldReturn` ""
  noticeBoardSpec
  guestBookSpec
  grpcSpec
  arenaSpec inFolder withCertificate
  describe "sleep-in-c" $
    it "sleeps a thousand times at once" $
      within 20 "the sleepers" (readProcess "sleep-in-c" [] "") `shouldReturn` "0\nNothing\n"

  describe "timers" $
    it "wakes all threads, times out, and moves a timer" $
      within 20 "the timers" (readProcess "timers" [] "") `shouldReturn` "Nothing\nfired\n"
  describe "reader-server" $
    it "numbers the lines of all clients" . running "reader-server" $ \connection -> do
      sendAll connection "one\ntwo\n"
      receive connection 12 `shouldReturn` "1 one\n2 two\n"
  describe "line-server" $
    it "answers lines that arrive in pieces, until bye" . running "line-server" $ \connection -> do
      sendAll connection "one\ntw"
      receive connection 4 `shouldReturn` "ONE\n"
      sendAll connection "o\nbye\n"
      receiveAll connection `shouldReturn` "TWO\nBYE\n"
  describe "simulated-lines" $
    it "gives no wrong answer on a thousand machines" $
      within 20 "the machines" (readProcess "simulated-lines" [] "") `shouldReturn` "(True,True)\n"
  describe "crashing-counter" $
    it "repeats no number on a thousand machines whose power fails" $
      within 20 "the machines" (readProcess "crashing-counter" [] "") `shouldReturn` "(True,True)\n"
  describe "production-wai" $
    it "answers, logs, and ends on SIGTERM" $ do
      port <- freePort
      (_, Just output, _, process) <- createProcess (proc "production-wai" [show port]) {std_out = CreatePipe}
      within 20 "the start" (hGetLine output) `shouldReturn` "ready"
      bracket (connectWhenReady port) close $ \connection -> do
        sendAll connection "GET /here HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer <- within 20 "the answer" (receiveAll connection)
        answer `shouldSatisfy` ByteString.isSuffixOf "\r\n\r\nIn production\n"
      terminateProcess process
      within 20 "the end" (waitForProcess process) `shouldReturn` ExitSuccess
      hGetContents output `shouldReturn` "(200,Just \"/here\",Just 14)\n"
  describe "migrated-wai" $
    it "sends a body back, and answers for an application that fails" . running "migrated-wai" $ \connection -> do
      sendAll connection "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
      sendAll connection "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      answers <- receiveAll connection
      answers `shouldSatisfy` ByteString.isInfixOf "Server: migrated\r\n"
      answers `shouldSatisfy` ByteString.isInfixOf "\r\n\r\nbodyHTTP/1.1 500 "
      answers `shouldSatisfy` ByteString.isSuffixOf "\r\n\r\nSorry\n"
  describe "read-in-c" $
    it "gives up at its deadline" $
      within 20 "the read" (readProcess "read-in-c" [] "") `shouldReturn` "(-1,True)\n"
  describe "echo-tls and ask-tls" $
    it "talk to each other over TLS" . withCertificate $ \certificate key -> do
      port <- freePort
      bracket (createProcess (proc "echo-tls" [show port, certificate, key])) (\(_, _, _, process) -> stop process) $
        \_ ->
          do
            connectWhenReady port >>= close
            within 20 "the answer" (readProcess "ask-tls" [show port, certificate, "over TLS"] "")
              `shouldReturn` "Tls13\nover TLS\n"
  describe "get-url" $
    it "prints what hello-wai serves" $ do
      port <- freePort
      bracket (createProcess (proc "hello-wai" [show port])) (\(_, _, _, process) -> stop process) $ \_ -> do
        connectWhenReady port >>= close
        within 20 "the answer" (readProcess "get-url" ["http://127.0.0.1:" ++ show port ++ "/"] "")
          `shouldReturn` "Hello from Millrace\n"
  describe "https-wai" $
    it "answers over TLS" . withCertificate $ \certificate key -> do
      port <- freePort
      bracket (createProcess (proc "https-wai" [show port, certificate, key])) (\(_, _, _, process) -> stop process) $
        \_ ->
          do
            connectWhenReady port >>= close
            within
              20
              "the answer"
              ( readProcess
                  "curl"
                  ["--silent", "--noproxy", "*", "--cacert", certificate, "https://localhost:" <> show port]
                  ""
              )
              `shouldReturn` "over TLS\n"
  describe "counters" $
    it "counts a thousand timers" $ do
      said <- within 20 "the counters" (readProcess "counters" [] "")
      said `shouldStartWith` "backend: "
      said `shouldContain` "in flight: 0"

  describe "follow-log" $
    it "prints what is appended, also when the file was replaced" . inFolder $ \folder -> do
      let path = folder <> "/log"
      writeFile path "one\n"
      (_, Just output, _, process) <- createProcess (proc "follow-log" [path]) {std_out = CreatePipe}
      flip finally (stop process) $ do
        within 20 "the first line" (hGetLine output) `shouldReturn` "one"
        appendFile path "two\n"
        within 20 "the second line" (hGetLine output) `shouldReturn` "two"
        renameFile path (path <> ".1")
        writeFile path "three\n"
        within 20 "the third line" (hGetLine output) `shouldReturn` "three"
  describe "forward-port" $
    it "carries both directions to another port" . running "echo-tcp" $ \direct -> do
      target <- getPeerName direct
      port <- freePort
      case target of
        SockAddrInet there _ ->
          bracket
            (createProcess (proc "forward-port" [show port, "127.0.0.1", show there]))
            (\(_, _, _, process) -> stop process)
            $ \_ ->
              bracket (connectWhenReady port) close $ \connection -> do
                sendAll connection "through"
                receive connection 7 `shouldReturn` "through"
                shutdown connection ShutdownSend
                receiveAll connection `shouldReturn` ""
        other -> expectationFailure (show other)
  describe "checksum-tree" $
    it "prints the checksum of every file" . inFolder $ \folder -> do
      createDirectory (folder <> "/inside")
      writeFile (folder <> "/inside/file") "Wikipedia"
      within 20 "the checksums" (readProcess "checksum-tree" [folder] "")
        `shouldReturn` ("11e60398 " <> folder <> "/inside/file\n")
  describe "supervise" $
    it "starts a program again until it succeeds" . inFolder $ \folder -> do
      let script = "echo x >> " <> folder <> "/runs; [ $(wc -l < " <> folder <> "/runs) -ge 3 ]"
      said <- within 20 "the supervisor" (readProcess "supervise" ["sh", "-c", script] "")
      lines said
        `shouldBe` [ "it ended: Exited 1; again in 100 ms",
                     "it ended: Exited 1; again in 200 ms",
                     "ending: succeeded"
                   ]
  describe "chat-server" $ do
    it "sends every line to all others" $ do
      port <- freePort
      bracket (createProcess (proc "chat-server" [show port, "20"])) (\(_, _, _, process) -> stop process) $ \_ ->
        bracket (connectWhenReady port) close $ \one -> bracket (connectWhenReady port) close $ \other -> do
          -- Before both are in the room, a line may have no receiver.
          sendAll other "ready?\n"
          sendAll one "hello\n"
          answer <- within 20 "the line" (receiveUntil "again\n" other (sendAll one "again\n"))
          answer `shouldSatisfy` ByteString.isSuffixOf "again\n"
    it "sends what was said before to a client that has ended its side" $ do
      taken <- chatting "20" $ \slow -> shutdown slow ShutdownSend
      taken `shouldSatisfy` ByteString.isSuffixOf "x\n"
    it "gives up a client that takes nothing" $ do
      taken <- chatting "1" $ \_ -> threadDelay 5000000
      taken `shouldSatisfy` ByteString.isInfixOf "x\n"
  describe "receive-files" $
    it "stores what each client sends" . inFolder $ \folder -> do
      port <- freePort
      bracket (createProcess (proc "receive-files" [show port, folder])) (\(_, _, _, process) -> stop process) $ \_ ->
        forM_ [("1", "one"), ("2", Char8.replicate 1000000 'x')] $ \(name, bytes) ->
          bracket (connectWhenReady port) close $ \connection -> do
            sendAll connection bytes
            shutdown connection ShutdownSend
            receiveAll connection `shouldReturn` Char8.pack (show (ByteString.length bytes) <> " bytes\n")
            ByteString.readFile (folder <> "/" <> name) `shouldReturn` bytes
  describe "check-names" $
    it "prints the addresses of names" $
      within 20 "the names" (readProcess "check-names" [] "127.0.0.1\n127.0.0.2\n")
        `shouldReturn` "127.0.0.1: 127.0.0.1\n127.0.0.2: 127.0.0.2\n"
  describe "copy-tree" $
    it "copies what is new or has changed" . inFolder $ \folder -> do
      createDirectory (folder <> "/from")
      createDirectory (folder <> "/from/inside")
      writeFile (folder <> "/from/inside/one") "1"
      writeFile (folder <> "/from/two") "22"
      let copying = within 20 "the copies" (readProcess "copy-tree" [folder <> "/from", folder <> "/to"] "")
      copying `shouldReturn` "2 files copied\n"
      copying `shouldReturn` "0 files copied\n"
      writeFile (folder <> "/from/two") "333"
      copying `shouldReturn` "1 files copied\n"
      readFile (folder <> "/to/inside/one") `shouldReturn` "1"
      readFile (folder <> "/to/two") `shouldReturn` "333"

-- More lines than the system buffers go to a client that does not read, while another client takes all of them. Then an
-- action runs, and after it the client reads. Returns what it has got until its end.
chatting :: String -> (Socket -> IO ()) -> IO ByteString
chatting time act = do
  port <- freePort
  bracket (createProcess (proc "chat-server" [show port, time])) (\(_, _, _, process) -> stop process) $ \_ -> do
    bracket (connectWhenReady port) close $ \_ -> pure ()
    bracket (connectWithSmallBuffer port) close $ \slow ->
      bracket (connectWhenReady port) close $ \quick -> bracket (connectWhenReady port) close $ \talker -> do
        forM_ [slow, quick] $ \one -> within 20 "a line" (receiveUntil "ready\n" one (sendAll talker "ready\n"))
        -- No more at once than a client's queue holds.
        replicateM_ 6 $
          withAsync (sendAll talker (ByteString.concat (replicate count line))) $ \_ ->
            within 20 "the lines" (receiveLines quick 0)
        act slow
        within 20 "the end" (receiveAll slow)
  where
    count = 900
    line = Char8.replicate 990 'x' <> "\n"
    receiveLines quick received
      | received >= count * (ByteString.length line - 1) = pure ()
      | otherwise = recv quick 65536 >>= \bytes -> receiveLines quick (received + Char8.count 'x' bytes)
    connectWithSmallBuffer port = do
      slow <- socket AF_INET Stream defaultProtocol
      setSocketOption slow RecvBuffer 4096
      slow <$ connect slow (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))

-- Repeats an action until the received bytes end with this.
receiveUntil :: ByteString -> Socket -> IO () -> IO ByteString
receiveUntil end connection again = go ""
  where
    go soFar
      | end `ByteString.isSuffixOf` soFar = pure soFar
      | otherwise = again >> timeout 200000 (recv connection 65536) >>= maybe (go soFar) (go . (soFar <>))

-- A folder that is removed afterwards.
inFolder :: (FilePath -> IO a) -> IO a
inFolder = withTemporaryFolder "millrace-example"

-- A self-signed certificate for localhost and its key: two files.
withCertificate :: (FilePath -> FilePath -> IO a) -> IO a
withCertificate use = do
  folder <- getTemporaryDirectory
  port <- freePort :: IO Int
  let certificate = folder <> "/millrace-example-" <> show port <> ".pem"
      key = certificate <> ".key"
  flip finally (mapM_ removeFile [certificate, key]) $ do
    callProcess
      "openssl"
      ( words "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
          <> ["-out", certificate, "-keyout", key]
      )
    use certificate key

receive :: Socket -> Int -> IO ByteString
receive connection size
  | size <= 0 = pure ""
  | otherwise = do
    bytes <- recv connection (min size 65536)
    if ByteString.null bytes then pure "" else (bytes <>) <$> receive connection (size - ByteString.length bytes)

receiveAll :: Socket -> IO ByteString
receiveAll connection = receiveAllBy (recv connection 65536)
