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
  copy <- copyHead stream
  -- One part at a time: a frame with all offsets and lengths would not fit into the first kilobyte of a thread's stack (decision 9).
  method <- methodOf stream copy
  given <- part copy streamPathSlice
  query <- part copy streamQuerySlice
  host <- value copy streamHost
  range <- value copy streamRange
  referer <- value copy streamReferer
  userAgent <- value copy streamUserAgent
  protocol <- part copy streamProtocolSlice
  let path = if C8.null given then C8.pack "/" else given
      request =
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
            Wai.requestHeaderHost = host,
            Wai.requestHeaderRange = range,
            Wai.requestHeaderReferer = referer,
            Wai.requestHeaderUserAgent = userAgent
          }
  return (request, if C8.null protocol then Nothing else Just protocol)
  where
    part = partOf stream
    value = valueOf stream

copyHead :: Ptr Stream -> IO HeadCopy
copyHead stream = do
  count <- streamFieldCount stream
  size <- streamTextLength stream
  let table = count * fieldSize
  memory <- mallocPlainForeignPtrBytes (table + size)
  copyStreamHead stream (unsafeForeignPtrToPtr memory)
  touchForeignPtr memory
  return (HeadCopy memory table count)
{-# NOINLINE copyHead #-}

methodOf :: Ptr Stream -> HeadCopy -> IO ByteString
methodOf stream copy = do
  code <- streamMethod stream
  if code == methodOther then partOf stream copy streamMethodSlice else return $! methodNumbered (fromIntegral code)
{-# NOINLINE methodOf #-}

partOf :: Ptr Stream -> HeadCopy -> (Ptr Stream -> IO (Int, Int)) -> IO ByteString
partOf stream copy place = do
  (offset, size) <- place stream
  return $! if size == 0 then C8.empty else slice copy offset size
{-# NOINLINE partOf #-}

valueOf :: Ptr Stream -> HeadCopy -> (Ptr Stream -> IO Int) -> IO (Maybe ByteString)
valueOf stream copy place = place stream >>= \index -> return $! valueAt copy index
{-# NOINLINE valueOf #-}
