{-# LANGUAGE BangPatterns #-}
-- wai before 3.2.4 has no other name for setting the body.
{-# OPTIONS_GHC -Wno-deprecations #-}

-- |
-- A WAI request from a parsed head. Must not know: connections, responses.
--
-- The head is copied once, together with the parser's table of fields; path, query and header values are slices of
-- that copy. What is larger than a slice is made when the application asks for it.
module Millrace.Http.Http1.Request (makeRequest, keepTarget) where

import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Http.HeadCopy
import Millrace.Http.Http1.Wire
import Millrace.Http.Transport (Transport, isProtected, transportPeer)
import Network.HTTP.Types (Method, decodePathSegments, http10, http11, methodOptions, parseQuery)
import Network.Wai (Request, defaultRequest)
import qualified Network.Wai.Internal as Wai

-- | @makeRequest parser head length transport vault body bodyLength@: the request whose head was parsed completely and
-- starts at
-- @head@. Copies what it needs.
makeRequest ::
  Ptr Parser -> Ptr Word8 -> Int -> Transport -> Vault -> IO ByteString -> Wai.RequestBodyLength -> IO Request
makeRequest parser bytes size transport vault body bodyLength = do
  fieldsSize <- parserFieldsSize parser
  count <- headFieldCount parser
  memory <- mallocPlainForeignPtrBytes (fieldsSize + size)
  copyHead parser bytes size (unsafeForeignPtrToPtr memory)
  touchForeignPtr memory
  let copy = HeadCopy memory fieldsSize count
  code <- headMethod parser
  (methodOffset, methodLength) <- headMethodSlice parser
  (pathOffset, pathLength) <- headPathSlice parser
  (queryOffset, queryLength) <- headQuerySlice parser
  flags <- headFlags parser
  host <- headHost parser
  range <- headRange parser
  referer <- headReferer parser
  userAgent <- headUserAgent parser
  -- Values that are smaller than the thunk that would make them are made at once. That saves a fifth of the allocation
  -- of a small request.
  let !path = if pathLength == 0 then pathOfNone method queryLength else slice copy pathOffset pathLength
      !query = if queryLength == 0 then C8.empty else slice copy queryOffset queryLength
      !method = if code == methodOther then slice copy methodOffset methodLength else methodNumbered (fromIntegral code)
      !version = if flags .&. flagVersion11 /= 0 then http11 else http10
      !hostValue = valueAt copy host
      !rangeValue = valueAt copy range
      !refererValue = valueAt copy referer
      !userAgentValue = valueAt copy userAgent
      !secure = isProtected transport
      !peer = transportPeer transport
  return
    defaultRequest
      { Wai.requestMethod = method,
        Wai.httpVersion = version,
        Wai.rawPathInfo = path,
        Wai.rawQueryString = query,
        Wai.requestHeaders = fieldsOf copy,
        Wai.isSecure = secure,
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

-- | The same request with scheme and authority in its path, if the client has sent them. Call it while the head is
-- still in the input.
keepTarget :: Ptr Parser -> Ptr Word8 -> Request -> IO Request
keepTarget parser bytes request = do
  (methodOffset, methodLength) <- headMethodSlice parser
  (pathOffset, pathLength) <- headPathSlice parser
  let start = methodOffset + methodLength + 1
  target <- C8.packCStringLen (castPtr bytes `plusPtr` start, pathOffset + pathLength - start)
  return request {Wai.rawPathInfo = target}

-- | The path of a request target without a path: "/" (RFC 9112, section 3.2.1), or "*" for OPTIONS without a query,
-- which then concerns the whole server (section 3.2.4).
pathOfNone :: Method -> Int -> ByteString
pathOfNone method queryLength = C8.pack (if method == methodOptions && queryLength == 0 then "*" else "/")
{-# NOINLINE pathOfNone #-}
