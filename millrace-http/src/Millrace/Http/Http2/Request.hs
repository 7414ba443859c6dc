{-# LANGUAGE BangPatterns #-}
-- wai before 3.2.4 has no other name for setting the body.
{-# OPTIONS_GHC -Wno-deprecations #-}

-- |
-- A WAI request from the head of an HTTP\/2 request. Must not know: connections, responses.
module Millrace.Http.Http2.Request (makeRequest) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Vault.Lazy (Vault)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Http.HeadCopy
import Millrace.Http.Http1.Wire (fieldSize, methodOther)
import Millrace.Http.Http2.Engine
import Millrace.Http.Transport (SockAddr)
import Network.HTTP.Types (decodePathSegments, http20, parseQuery)
import Network.Wai (Request, defaultRequest)
import qualified Network.Wai.Internal as Wai

-- | @makeRequest stream peer security vault body bodyLength@: the request of a stream, and the protocol that it asks for by an extended
-- CONNECT. To be called once.
makeRequest :: Ptr Stream -> SockAddr -> Security -> Vault -> IO ByteString -> Wai.RequestBodyLength -> IO (Request, Maybe ByteString)
makeRequest stream peer security vault body bodyLength = do
  count <- streamFieldCount stream
  size <- streamTextLength stream
  let table = count * fieldSize
  memory <- mallocPlainForeignPtrBytes (table + size)
  copyStreamHead stream (unsafeForeignPtrToPtr memory)
  touchForeignPtr memory
  let copy = HeadCopy memory table count
  code <- streamMethod stream
  (methodOffset, methodLength) <- streamMethodSlice stream
  (pathOffset, pathLength) <- streamPathSlice stream
  (queryOffset, queryLength) <- streamQuerySlice stream
  (protocolOffset, protocolLength) <- streamProtocolSlice stream
  host <- streamHost stream
  range <- streamRange stream
  referer <- streamReferer stream
  userAgent <- streamUserAgent stream
  let !path = if pathLength == 0 then C8.pack "/" else slice copy pathOffset pathLength
      !query = if queryLength == 0 then C8.empty else slice copy queryOffset queryLength
      !method = if code == methodOther then slice copy methodOffset methodLength else methodNumbered (fromIntegral code)
      !hostValue = valueAt copy host
      !rangeValue = valueAt copy range
      !refererValue = valueAt copy referer
      !userAgentValue = valueAt copy userAgent
      protocol = if protocolLength == 0 then Nothing else Just (slice copy protocolOffset protocolLength)
  let request =
        defaultRequest
          { Wai.requestMethod = method,
            Wai.httpVersion = http20,
            Wai.rawPathInfo = path,
            Wai.rawQueryString = query,
            Wai.requestHeaders = fieldsOf copy,
            Wai.isSecure = security == Protected,
            Wai.remoteHost = peer,
            Wai.pathInfo = decodePathSegments path,
            Wai.queryString = parseQuery query,
            Wai.requestBody = body,
            Wai.vault = vault,
            Wai.requestBodyLength = bodyLength,
            Wai.requestHeaderHost = hostValue,
            Wai.requestHeaderRange = rangeValue,
            Wai.requestHeaderReferer = refererValue,
            Wai.requestHeaderUserAgent = userAgentValue
          }
  return (request, protocol)
