{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE CPP #-}
-- wai before 3.2.4 has no other name for setting the body.
{-# OPTIONS_GHC -Wno-deprecations #-}

-- Must not know: connections, responses.

-- |
-- The WAI request of a head that the C code has parsed, for all protocols.
--
-- The head is copied once, together with the parser's table of fields. Path, query and header values are slices of that
-- copy. What is larger than a slice is made when the application asks for it.
module Millrace.Http.Request
  ( -- * HTTP\/1
    makeRequest,
    keepTarget,

    -- * HTTP\/2 and HTTP\/3
    makeStreamRequest,
  )
where

import Data.Array (Array, listArray)
import Data.Array.Base (unsafeAt)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Internal as BI
import Data.CaseInsensitive (CI)
import qualified Data.CaseInsensitive as CI
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
#if MIN_VERSION_wai(3,2,5)
import Millrace.Http.Context (earlyHintsBy)
#endif
import Millrace.Http.Http1.Wire
import Millrace.Http.Multiplexed.Head (Security (..))
import qualified Millrace.Http.Multiplexed.Head as Stream
import Millrace.Http.Transport (SockAddr, Transport, isProtected, transportPeer)
import Network.HTTP.Types
  ( HttpVersion,
    Method,
    RequestHeaders,
    decodePathSegments,
    http10,
    http11,
    methodOptions,
    parseQuery,
  )
import Network.Wai (Request, defaultRequest)
import qualified Network.Wai.Internal as Wai
import System.IO.Unsafe (unsafeDupablePerformIO)

------------------------------------------------------------------------------------------------------------------------
-- The copy of a head

-- The copy of a head: its memory, where the text begins behind the table of fields, and the number of fields.
data HeadCopy = HeadCopy !(ForeignPtr Word8) !Int !Int

-- A part of the text: its offset and length.
slice :: HeadCopy -> Int -> Int -> ByteString
slice (HeadCopy memory text _) offset = BI.fromForeignPtr memory (text + offset)
{-# INLINE slice #-}

-- The value of the field with this index plus 1.
valueAt :: HeadCopy -> Int -> Maybe ByteString
valueAt _ 0 = Nothing
valueAt copy index = Just (snd (fieldAt copy (index - 1)))

-- All fields. Names and values are made when they are looked at.
fieldsOf :: HeadCopy -> RequestHeaders
fieldsOf copy@(HeadCopy _ _ count) = go 0
  where
    go index
      | index == count = []
      | otherwise = fieldAt copy index : go (index + 1)

fieldAt :: HeadCopy -> Int -> (CI ByteString, ByteString)
fieldAt copy@(HeadCopy memory _ _) index = unsafeDupablePerformIO $ do
  let field = castPtr (unsafeForeignPtrToPtr memory) `plusPtr` (index * fieldSize) :: Ptr FieldLine
  number <- fieldName field
  (nameOffset, nameLength) <- fieldNameSlice field
  (valueOffset, valueLength) <- fieldValueSlice field
  touchForeignPtr memory
  let name = if number == 0 then CI.mk (slice copy nameOffset nameLength) else unsafeAt knownNames number
      value = slice copy valueOffset valueLength
  return (name, value)

-- The spelling and the folded form of each known name, made once.
knownNames :: Array Int (CI ByteString)
knownNames = listArray (0, nameCount - 1) [CI.mk (C8.pack (nameText number)) | number <- [0 .. nameCount - 1]]
{-# NOINLINE knownNames #-}

methods :: Array Int ByteString
methods = listArray (0, length methodNames) (C8.empty : map snd methodNames)
{-# NOINLINE methods #-}

-- The method with this number.
methodNumbered :: Int -> ByteString
methodNumbered = unsafeAt methods
{-# INLINE methodNumbered #-}

-- The request with the function that WAI has for early hints since 3.2.5.
hinting :: Vault -> Request -> Request
#if MIN_VERSION_wai(3,2,5)
hinting vault request = request {Wai.requestSendEarlyHints = earlyHintsBy vault}
#else
hinting _ request = request
#endif
{-# INLINE hinting #-}

------------------------------------------------------------------------------------------------------------------------
-- HTTP/1

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
  return . hinting vault $
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

-- | Puts scheme and authority into the path of a request, if the client has sent them. Call it while the head is
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

------------------------------------------------------------------------------------------------------------------------
-- HTTP/2 and HTTP/3

-- | @makeStreamRequest version head copy peer security vault body bodyLength@: the request of a stream, and the
-- protocol that it asks for by an extended CONNECT. @copy@ makes the copy of the head in memory. To be called once.
makeStreamRequest ::
  HttpVersion ->
  Ptr Stream.Head ->
  (Ptr Word8 -> IO ()) ->
  SockAddr ->
  Security ->
  Vault ->
  IO ByteString ->
  Wai.RequestBodyLength ->
  IO (Request, Maybe ByteString)
makeStreamRequest version seen copyTo peer security vault body bodyLength = do
  copy <- copyStreamHead seen copyTo
  -- One part at a time: a frame with all offsets and lengths would not fit into the first kilobyte of a thread's stack
  -- (decision 9).
  method <- methodOf seen copy
  given <- part copy Stream.headPathSlice
  query <- part copy Stream.headQuerySlice
  host <- value copy Stream.headHost
  range <- value copy Stream.headRange
  referer <- value copy Stream.headReferer
  userAgent <- value copy Stream.headUserAgent
  protocol <- part copy Stream.headProtocolSlice
  let path = if C8.null given then C8.pack "/" else given
      request =
        hinting vault $
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

copyStreamHead :: Ptr Stream.Head -> (Ptr Word8 -> IO ()) -> IO HeadCopy
copyStreamHead seen copyTo = do
  count <- Stream.headFieldCount seen
  size <- Stream.headTextLength seen
  let table = count * fieldSize
  memory <- mallocPlainForeignPtrBytes (table + size)
  copyTo (unsafeForeignPtrToPtr memory)
  touchForeignPtr memory
  return (HeadCopy memory table count)
{-# NOINLINE copyStreamHead #-}

methodOf :: Ptr Stream.Head -> HeadCopy -> IO ByteString
methodOf seen copy = do
  code <- Stream.headMethod seen
  if code == methodOther then partOf seen copy Stream.headMethodSlice else return $! methodNumbered (fromIntegral code)
{-# NOINLINE methodOf #-}

partOf :: Ptr Stream.Head -> HeadCopy -> (Ptr Stream.Head -> IO (Int, Int)) -> IO ByteString
partOf seen copy locate = do
  (offset, size) <- locate seen
  return $! if size == 0 then C8.empty else slice copy offset size
{-# NOINLINE partOf #-}

valueOf :: Ptr Stream.Head -> HeadCopy -> (Ptr Stream.Head -> IO Int) -> IO (Maybe ByteString)
valueOf seen copy locate = locate seen >>= \index -> return $! valueAt copy index
{-# NOINLINE valueOf #-}
