{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Connections whose handshake a program has done itself, with the package @tls@.
module Millrace.Compat.TlsAttach
  ( attachConn,
  )
where

import Control.Concurrent.STM (newTVarIO)
import Control.Exception
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.IORef (newIORef)
import Foreign.Ptr (nullPtr)
import Network.Socket (SockAddr)
import qualified Network.TLS as TLS
import Network.Wai.Handler.Warp.Internal (Connection (..), Transport (..), WriteBuffer (..), readSendFile)
import System.IO.Error (isEOFError)

-- | A connection, and what protects it, of a handshake that is over. The first argument is the server's address.
-- 'Network.Wai.Handler.Warp.Internal.runSettingsConnectionMakerSecure' serves it; the package @tls@ encrypts. The
-- connection has no buffer, and its @connRecvBuf@ throws.
attachConn :: SockAddr -> TLS.Context -> IO (Connection, Transport)
attachConn name context = do
  buffer <- newIORef (WriteBuffer nullPtr 0 (return ()))
  protocol <- TLS.getNegotiatedProtocol context
  isHttp2 <- newIORef (protocol == Just "h2")
  running <- newTVarIO 0
  let connection =
        Connection
          { connSendMany = TLS.sendData context . L.fromChunks,
            connSendAll = send,
            connSendFile = readSendFile nullPtr 0 send,
            connClose = end,
            connRecv = receive context,
            connRecvBuf = \_ _ -> ioError (userError "attachConn: use connRecv, not connRecvBuf"),
            connWriteBuffer = buffer,
            connHTTP2 = isHttp2,
            connMySockAddr = name,
            connAppsInProgress = running
          }
  (,) connection <$> protectionOf context protocol
  where
    send = TLS.sendData context . L.fromStrict
    -- The peer may have gone.
    end = void (try (TLS.bye context) :: IO (Either IOException ())) `finally` TLS.contextClose context

-- The end of a stream without TLS's own end is an end, too, as with WarpTLS.
receive :: TLS.Context -> IO ByteString
receive context =
  TLS.recvData context `catch` \failure ->
    if isEnd failure then return B.empty else throwIO failure
  where
    isEnd failure = maybe False isEndOfTls (fromException failure) || maybe False isEOFError (fromException failure)

#if MIN_VERSION_tls(1,8,0)
isEndOfTls :: TLS.TLSException -> Bool
isEndOfTls failure = case failure of
  TLS.PostHandshake TLS.Error_EOF -> True
  _ -> False
#else
isEndOfTls :: TLS.TLSError -> Bool
isEndOfTls failure = case failure of
  TLS.Error_EOF -> True
  _ -> False
#endif

protectionOf :: TLS.Context -> Maybe ByteString -> IO Transport
protectionOf context protocol = TLS.contextGetInformation context >>= maybe (return TCP) known
  where
    known information = do
      chain <- TLS.getClientCertificateChain context
      return
        TLS
          { tlsMajorVersion = 3,
            tlsMinorVersion = minorOf (TLS.infoVersion information),
            tlsNegotiatedProtocol = protocol,
            tlsChiperID = TLS.cipherID (TLS.infoCipher information),
            tlsClientCertificate = chain
          }
    -- As on the wire.
    minorOf version = case version of
      TLS.TLS10 -> 1
      TLS.TLS11 -> 2
      TLS.TLS12 -> 3
      TLS.TLS13 -> 4
      _ -> 0
