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
    closingRequest,
    decimal,
    withClient,
    receiveUntil,
    statusOf,
    bodyOf,

    -- * Time
    within,
    eventually,
  )
where

import Control.Exception
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Proxy
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAll)
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (testWithApplication, withApplication)
import TestSupport.ByteStream (receiveCountBy)
import TestSupport.Message (answerOf, bodyOf, statusOf)
import TestSupport.Sockets (receiveHead, receiveUntil, serving, withConnectionTo, withTcpServer)
import TestSupport.Time (eventually, within)

-- | Runs a handler for each connection, with the number of the connection, counted from 1.
withTarget :: (Int -> Socket -> IO ()) -> (Target -> IO a) -> IO a
withTarget handler use =
  withTcpServer handler $ \port -> use (Target Http (AtHost "127.0.0.1" (fromIntegral port)))

-- | Listens on a Unix socket at this path, and runs a handler for each connection, with the number of the connection.
withUnixTarget :: FilePath -> (Int -> Socket -> IO ()) -> (Target -> IO a) -> IO a
withUnixTarget path handler use = bracket (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrUnix path)
  listen listener 64
  serving listener handler (use (Target Http (AtPath path)))

-- | A server of millrace-http.
withApplicationBehind :: Application -> (Target -> IO a) -> IO a
withApplicationBehind application use =
  testWithApplication (return application) $ \port -> use (Target Http (AtHost "127.0.0.1" port))

-- | Receives a number of bytes, or fewer at the end.
receiveCount :: Socket -> Int -> IO ByteString
receiveCount = receiveCountBy . recv

-- | Sends a response with this body.
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

-- | Sends these bytes on a new connection and receives until the end.
ask :: Int -> ByteString -> IO ByteString
ask port bytes = within 20 "an answer" . withClient port $ \client -> do
  sendAll client bytes
  receiveCount client maxBound

-- | Connects to a port of the loopback interface for the time of an action.
withClient :: Int -> (Socket -> IO a) -> IO a
withClient = withConnectionTo . fromIntegral

-- | A request for @\/@, after which the connection is closed.
closingRequest :: ByteString
closingRequest = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

-- | A number as text.
decimal :: Int -> ByteString
decimal = Char8.pack . show
