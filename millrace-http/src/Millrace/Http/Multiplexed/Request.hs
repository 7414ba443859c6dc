-- wai before 3.2.4 has no other name for setting the body.
{-# OPTIONS_GHC -Wno-deprecations #-}

-- |
-- A WAI request from the head of a request of HTTP\/2 or HTTP\/3. Must not know: connections, responses.
module Millrace.Http.Multiplexed.Request (makeRequest) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Http.HeadCopy
import Millrace.Http.Http1.Wire (fieldSize, methodOther)
import Millrace.Http.Multiplexed.Head
import Millrace.Http.Transport (SockAddr)
import Network.HTTP.Types (HttpVersion, decodePathSegments, parseQuery)
import Network.Wai (Request, defaultRequest)
import qualified Network.Wai.Internal as Wai

-- | @makeRequest version head copy peer security vault body bodyLength@: the request of a stream, and the protocol that
-- it asks for by an extended CONNECT. @copy@ makes the copy of the head in memory. To be called once.
makeRequest ::
  HttpVersion ->
  Ptr Head ->
  (Ptr Word8 -> IO ()) ->
  SockAddr ->
  Security ->
  Vault ->
  IO ByteString ->
  Wai.RequestBodyLength ->
  IO (Request, Maybe ByteString)
makeRequest version seen copyTo peer security vault body bodyLength = do
  copy <- copyHead seen copyTo
  -- One part at a time: a frame with all offsets and lengths would not fit into the first kilobyte of a thread's stack
  -- (decision 9).
  method <- methodOf seen copy
  given <- part copy headPathSlice
  query <- part copy headQuerySlice
  host <- value copy headHost
  range <- value copy headRange
  referer <- value copy headReferer
  userAgent <- value copy headUserAgent
  protocol <- part copy headProtocolSlice
  let path = if C8.null given then C8.pack "/" else given
      request =
        defaultRequest
          { Wai.requestMethod = method,
            Wai.httpVersion = version,
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
    part = partOf seen
    value = valueOf seen

copyHead :: Ptr Head -> (Ptr Word8 -> IO ()) -> IO HeadCopy
copyHead seen copyTo = do
  count <- headFieldCount seen
  size <- headTextLength seen
  let table = count * fieldSize
  memory <- mallocPlainForeignPtrBytes (table + size)
  copyTo (unsafeForeignPtrToPtr memory)
  touchForeignPtr memory
  return (HeadCopy memory table count)
{-# NOINLINE copyHead #-}

methodOf :: Ptr Head -> HeadCopy -> IO ByteString
methodOf seen copy = do
  code <- headMethod seen
  if code == methodOther then partOf seen copy headMethodSlice else return $! methodNumbered (fromIntegral code)
{-# NOINLINE methodOf #-}

partOf :: Ptr Head -> HeadCopy -> (Ptr Head -> IO (Int, Int)) -> IO ByteString
partOf seen copy place = do
  (offset, size) <- place seen
  return $! if size == 0 then C8.empty else slice copy offset size
{-# NOINLINE partOf #-}

valueOf :: Ptr Head -> HeadCopy -> (Ptr Head -> IO Int) -> IO (Maybe ByteString)
valueOf seen copy place = place seen >>= \index -> return $! valueAt copy index
{-# NOINLINE valueOf #-}
