{-# LANGUAGE OverloadedStrings #-}

-- Must not know: connections.

-- | Makes the field Sec-WebSocket-Accept, which a client of HTTP\/1.1 expects when its WebSocket is accepted, and which
-- a target that speaks HTTP\/2 does not send.
module Millrace.Proxy.WebSocketAccept (acceptField) where

import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Base64 as Base64
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Word (Word8)
import Foreign.C.Types (CSize (..))
import Foreign.Ptr (Ptr, castPtr)
import Network.HTTP.Types (ResponseHeaders)
import Network.Wai (Request, requestHeaders)

-- In OpenSSL's libcrypto.
foreign import ccall unsafe "SHA1" c_sha1 :: Ptr Word8 -> CSize -> Ptr Word8 -> IO (Ptr Word8)

-- | The field for the request's key (RFC 6455, section 4.2.2), if it asks for a WebSocket. Otherwise no field.
acceptField :: ByteString -> Request -> IO ResponseHeaders
acceptField protocol request = case [value | ("sec-websocket-key", value) <- requestHeaders request] of
  key : _
    | protocol == "websocket" ->
      (\digest -> [("Sec-WebSocket-Accept", Base64.encode digest)])
        <$> sha1 (key <> "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
  _ -> return []

sha1 :: ByteString -> IO ByteString
sha1 bytes =
  Internal.create 20 $ \buffer ->
    Unsafe.unsafeUseAsCStringLen bytes $ \(start, size) -> void (c_sha1 (castPtr start) (fromIntegral size) buffer)
