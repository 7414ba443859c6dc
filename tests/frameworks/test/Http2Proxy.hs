{-# LANGUAGE OverloadedStrings #-}

-- | A proxy that takes requests of HTTP/1 and passes them on by HTTP/2, WebSockets by extended CONNECT (RFC 8441). So
-- clients that speak HTTP/1 only can test a server over HTTP/2.
module Http2Proxy (withHttp2Proxy) where

import Carrier (Ends (..))
import Control.Concurrent (forkFinally)
import Control.Concurrent.Async (race_, withAsync)
import Control.Exception (bracket, onException)
import Control.Monad (forever, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Base64 as Base64
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Char (isSpace)
import Data.Digest.Pure.SHA (bytestringDigest, sha1)
import Data.IORef
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import SpeakingHttp2 (speakingHttp2)

-- | The port of a proxy for the server on a port of the loopback interface.
withHttp2Proxy :: Int -> (Int -> IO a) -> IO a
withHttp2Proxy server use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (local 0)
  listen listener 1024
  port <- socketPort listener
  withAsync (forever (accept listener >>= passOn . fst)) (const (use (fromIntegral port)))
  where
    local port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))
    passOn client = void (forkFinally (withServer (relay client)) (const (close client))) `onException` close client
    withServer act = bracket (socket AF_INET Stream defaultProtocol) close $ \opened -> do
      setSocketOption opened NoDelay 1
      connect opened (local (fromIntegral server))
      act opened

-- Forwards in both directions until one side ends.
relay :: Socket -> Socket -> IO ()
relay client server =
  speakingHttp2 (Ends (sendAll server) (shutdown server ShutdownSend) (recv server)) $ \(Ends put _ get) -> do
    key <- newIORef Nothing
    let toServer = do
          bytes <- recv client 65536
          unless (B.null bytes) (maybe (return ()) (writeIORef key . Just) (keyIn bytes) >> put bytes >> toServer)
        toClient = do
          bytes <- get 65536
          asked <- readIORef key
          unless (B.null bytes) (sendAll client (maybe id accepting asked bytes) >> toClient)
    race_ toServer toClient

-- The key of a client that asks for a WebSocket.
keyIn :: ByteString -> Maybe ByteString
keyIn bytes = case B.breakSubstring mark bytes of
  (_, "") -> Nothing
  (_, rest) -> Just (C8.takeWhile (not . isSpace) (B.drop (B.length mark) rest))
  where
    mark = "Sec-WebSocket-Key: "

-- The answer to the key (RFC 6455, section 4.2.2), which HTTP/2 does not have.
accepting :: ByteString -> ByteString -> ByteString
accepting key bytes = case B.stripPrefix switching bytes of
  Just rest -> B.concat [switching, "Sec-WebSocket-Accept: ", Base64.encode digest, "\r\n", rest]
  Nothing -> bytes
  where
    switching = "HTTP/1.1 101 Switching Protocols\r\n"
    digest = L.toStrict (bytestringDigest (sha1 (L.fromStrict (key <> "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))))
