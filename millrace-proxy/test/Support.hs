{-# LANGUAGE OverloadedStrings #-}

-- | What the tests share: targets that answer as a test wants, proxies in front of them, and clients.
module Support
  ( -- * Targets
    withTarget,
    withUnixTarget,
    withApplicationBehind,
    receiveHead,
    receiveCount,
    answerOf,
    answerWith,
    answering,

    -- * Proxies
    quiet,
    withFront,

    -- * Clients
    ask,
    withClient,
    receiveUntil,
    statusOf,
    bodyOf,

    -- * Time
    within,
    eventually,
  )
where

import Control.Concurrent (forkFinally, forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Proxy
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAll)
import qualified Millrace.Timer as Timer
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (testWithApplication, withApplication)

-- | Runs a handler for each connection, with the number of the connection, counted from 1.
withTarget :: (Int -> Socket -> IO ()) -> (Target -> IO a) -> IO a
withTarget handler use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  serving listener handler $ do
    port <- socketPort listener
    use (Target Http (AtHost "127.0.0.1" (fromIntegral port)))

-- | The same on a Unix socket at this path.
withUnixTarget :: FilePath -> (Int -> Socket -> IO ()) -> (Target -> IO a) -> IO a
withUnixTarget path handler use = bracket (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrUnix path)
  serving listener handler (use (Target Http (AtPath path)))

serving :: Socket -> (Int -> Socket -> IO ()) -> IO a -> IO a
serving listener handler use = do
  listen listener 64
  open <- newIORef []
  let accepting number = do
        (peer, _) <- accept listener
        done <- newEmptyMVar
        runner <- forkFinally (handler number peer `finally` close peer) (const (putMVar done ()))
        modifyIORef' open ((runner, done) :)
        accepting (number + 1)
  bracket (forkIO (accepting 1 `catch` ignore)) killThread (const use)
    `finally` (readIORef open >>= mapM_ (\(runner, done) -> killThread runner >> readMVar done))
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()

-- | A server of millrace-http.
withApplicationBehind :: Application -> (Target -> IO a) -> IO a
withApplicationBehind application use =
  testWithApplication (return application) $ \port -> use (Target Http (AtHost "127.0.0.1" port))

-- | The head of a request, or nothing at the end. What is behind it must not have arrived yet.
receiveHead :: Socket -> IO (Maybe ByteString)
receiveHead peer = go ""
  where
    go earlier
      | "\r\n\r\n" `ByteString.isInfixOf` earlier = return (Just earlier)
      | otherwise = do
        bytes <- recv peer 16384
        if ByteString.null bytes then return Nothing else go (earlier <> bytes)

-- | The given number of bytes, or fewer at the end.
receiveCount :: Socket -> Int -> IO ByteString
receiveCount peer count
  | count <= 0 = return ""
  | otherwise = do
    bytes <- recv peer (min 65536 count)
    if ByteString.null bytes then return "" else (bytes <>) <$> receiveCount peer (count - ByteString.length bytes)

answerOf :: ByteString -> ByteString
answerOf body =
  "HTTP/1.1 200 OK\r\nContent-Length: " <> Char8.pack (show (ByteString.length body)) <> "\r\n\r\n" <> body

answerWith :: Socket -> ByteString -> IO ()
answerWith peer = sendAll peer . answerOf

-- | Answers each request on a connection with a text that its number and its head make.
answering :: (Int -> ByteString -> ByteString) -> Int -> Socket -> IO ()
answering text number peer =
  receiveHead peer >>= mapM_ (\request -> answerWith peer (text number request) >> answering text number peer)

-- | Settings without identifiers, so that a head is always the same.
quiet :: Settings
quiet = defaultSettings {tracing = PassIdentifiers, forwarding = PassForwarded}

-- | A proxy for these targets, on a free port.
withFront :: Settings -> [Target] -> (Int -> IO a) -> IO a
withFront settings targets use = withProxy settings targets $ \proxy -> withApplication (return proxy) use

-- | Sends these bytes on a connection of its own and receives until the end.
ask :: Int -> ByteString -> IO ByteString
ask port bytes = within 20 "an answer" . withClient port $ \client -> do
  sendAll client bytes
  receiveCount client maxBound

withClient :: Int -> (Socket -> IO a) -> IO a
withClient port use = bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
  connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
  use client

-- | Receives until these bytes have come, or the end.
receiveUntil :: ByteString -> Socket -> IO ByteString
receiveUntil mark client = within 20 ("receiving " ++ show mark) (go "")
  where
    go earlier
      | mark `ByteString.isInfixOf` earlier = return earlier
      | otherwise = do
        bytes <- recv client 4096
        if ByteString.null bytes then return earlier else go (earlier <> bytes)

-- | The code in an answer.
statusOf :: ByteString -> ByteString
statusOf = ByteString.take 3 . ByteString.drop 9

bodyOf :: ByteString -> ByteString
bodyOf = ByteString.drop 4 . snd . ByteString.breakSubstring "\r\n\r\n"

-- | Fails when the action takes longer than this number of seconds.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  Timer.timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

-- | Waits until the condition holds.
eventually :: String -> IO Bool -> IO ()
eventually what check = within 20 what go
  where
    go = check >>= \so -> unless so (Timer.threadDelay 10000 >> go)
