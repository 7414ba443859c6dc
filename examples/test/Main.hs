{-# LANGUAGE OverloadedStrings #-}

-- | Runs each example program, and connects to the servers with plain sockets.
module Main (main) where

import Control.Concurrent (threadDelay)
import Control.Exception (IOException, bracket, bracketOnError, finally, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.Directory (getTemporaryDirectory, removeFile)
import System.Exit (ExitCode (..))
import System.IO (hGetContents, hGetLine)
import System.Process
import System.Timeout (timeout)
import Test.Hspec

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
  describe "sleep-in-c" $
    it "sleeps a thousand times at once" $
      within "the sleepers" (readProcess "sleep-in-c" [] "") `shouldReturn` "0\nNothing\n"

  describe "timers" $
    it "wakes all threads, times out, and moves a timer" $
      within "the timers" (readProcess "timers" [] "") `shouldReturn` "Nothing\nfired\n"
  describe "line-server" $
    it "answers lines that arrive in pieces, until bye" . running "line-server" $ \connection -> do
      sendAll connection "one\ntw"
      receive connection 4 `shouldReturn` "ONE\n"
      sendAll connection "o\nbye\n"
      receiveAll connection `shouldReturn` "TWO\nBYE\n"
  describe "simulated-lines" $
    it "gives no wrong answer on a thousand machines" $
      within "the machines" (readProcess "simulated-lines" [] "") `shouldReturn` "(True,True)\n"
  describe "production-wai" $
    it "answers, logs, and ends on SIGTERM" $ do
      port <- freePort
      (_, Just output, _, process) <- createProcess (proc "production-wai" [show port]) {std_out = CreatePipe}
      within "the start" (hGetLine output) `shouldReturn` "ready"
      bracket (connectWhenReady port) close $ \connection -> do
        sendAll connection "GET /here HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer <- within "the answer" (receiveAll connection)
        answer `shouldSatisfy` ByteString.isSuffixOf "\r\n\r\nIn production\n"
      terminateProcess process
      within "the end" (waitForProcess process) `shouldReturn` ExitSuccess
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
      within "the read" (readProcess "read-in-c" [] "") `shouldReturn` "(-1,True)\n"
  describe "echo-tls and ask-tls" $
    it "talk to each other over TLS" . withCertificate $ \certificate key -> do
      port <- freePort
      bracket (createProcess (proc "echo-tls" [show port, certificate, key])) (\(_, _, _, process) -> stop process) $ \_ -> do
        connectWhenReady port >>= close
        within "the answer" (readProcess "ask-tls" [show port, certificate, "over TLS"] "") `shouldReturn` "Tls13\nover TLS\n"
  describe "get-url" $
    it "prints what hello-wai serves" $ do
      port <- freePort
      bracket (createProcess (proc "hello-wai" [show port])) (\(_, _, _, process) -> stop process) $ \_ -> do
        connectWhenReady port >>= close
        within "the answer" (readProcess "get-url" ["http://127.0.0.1:" ++ show port ++ "/"] "") `shouldReturn` "Hello from Millrace\n"
  describe "https-wai" $
    it "answers over TLS" . withCertificate $ \certificate key -> do
      port <- freePort
      bracket (createProcess (proc "https-wai" [show port, certificate, key])) (\(_, _, _, process) -> stop process) $ \_ -> do
        connectWhenReady port >>= close
        within "the answer" (readProcess "curl" ["--silent", "--noproxy", "*", "--cacert", certificate, "https://localhost:" <> show port] "") `shouldReturn` "over TLS\n"
  describe "counters" $
    it "counts a thousand timers" $ do
      said <- within "the counters" (readProcess "counters" [] "")
      said `shouldStartWith` "backend: "
      said `shouldContain` "in flight: 0"

-- Runs an example on a free port and connects to it.
running :: String -> (Socket -> IO a) -> IO a
running program talk = do
  port <- freePort
  bracket (createProcess (proc program [show port])) (\(_, _, _, process) -> stop process) $ \_ ->
    within "the conversation" (bracket (connectWhenReady port) close talk)

stop :: ProcessHandle -> IO ()
stop process = terminateProcess process >> void (waitForProcess process)

-- A certificate for localhost that has issued itself, and its key: two files.
withCertificate :: (FilePath -> FilePath -> IO a) -> IO a
withCertificate use = do
  folder <- getTemporaryDirectory
  port <- freePort
  let certificate = folder <> "/millrace-example-" <> show port <> ".pem"
      key = certificate <> ".key"
  flip finally (mapM_ removeFile [certificate, key]) $ do
    callProcess "openssl" (words "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost" <> ["-out", certificate, "-keyout", key])
    use certificate key

within :: String -> IO a -> IO a
within what action = timeout 20000000 action >>= maybe (fail (what <> " took longer than 20 s")) pure

freePort :: IO PortNumber
freePort = bracket (socket AF_INET Stream defaultProtocol) close $ \probe -> do
  bind probe (loopback 0)
  socketPort probe

connectWhenReady :: PortNumber -> IO Socket
connectWhenReady port = try attempt >>= either again pure
  where
    attempt = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \connection -> do
      connect connection (loopback port)
      pure connection
    again :: IOException -> IO Socket
    again _ = threadDelay 20000 >> connectWhenReady port

loopback :: PortNumber -> SockAddr
loopback port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

receive :: Socket -> Int -> IO ByteString
receive connection size
  | size <= 0 = pure ""
  | otherwise = do
    bytes <- recv connection (min size 65536)
    if ByteString.null bytes then pure "" else (bytes <>) <$> receive connection (size - ByteString.length bytes)

receiveAll :: Socket -> IO ByteString
receiveAll connection = do
  bytes <- recv connection 65536
  if ByteString.null bytes then pure "" else (bytes <>) <$> receiveAll connection
