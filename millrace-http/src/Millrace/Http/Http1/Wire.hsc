{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets, WAI.

-- |
-- HTTP\/1's C code as Haskell functions: parsing of request heads and chunked bodies.
--
-- Exposed for the package's own tests. Not covered by the version policy: programs use "Network.Wai.Handler.Millrace".
module Millrace.Http.Http1.Wire
  ( -- * Request heads
    Parser,
    FieldLine,
    parserSize,
    fieldSize,
    initParser,
    resetParser,
    parserIsIdle,
    runParser,
    parserFieldsSize,
    copyHead,
    headFieldCount,
    headMethod,
    headMethodSlice,
    headPathSlice,
    headQuerySlice,
    headContentLength,
    headFlags,
    headHost,
    headRange,
    headReferer,
    headUserAgent,
    fieldName,
    fieldNameSlice,
    fieldValueSlice,

    -- ** What may pass
    allowBareLineFeed,
    allowFolding,
    allowNoHost,
    allowNonAscii,

    -- ** What a request asks for
    flagKeepAlive,
    flagChunked,
    flagExpectContinue,
    flagExpectOther,
    flagVersion11,
    flagHttps,

    -- ** Methods known by number
    methodOther,
    methodCodeHead,
    methodCodeConnect,
    methodNames,
    methodLengthMax,

    -- ** Field names known by number
    nameCount,
    nameText,
    findName,

    -- ** Errors
    errorStatus,
    errorText,
    errorRequestLine,
    errorTarget,

    -- * Chunked bodies
    Chunks,
    chunksSize,
    TrailerSection (..),
    initChunks,
    nextChunk,
    foreseeChunks,
    chunksForeseen,
    chunksConsumed,
    chunksRemaining,
    chunksEnd,
  )
where

#include "http_parser.h"
#include "http_chunks.h"

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Int (Int64)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.String (CString, peekCString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | The state of a parser of request heads, @parserSize@ bytes of memory.
data Parser

-- | One parsed field line, @fieldSize@ bytes of memory.
data FieldLine

-- | Bytes of a 'Parser'.
parserSize :: Int
parserSize = #{size http_parser}

-- | Bytes of a 'FieldLine'.
fieldSize :: Int
fieldSize = #{size http_field}

foreign import ccall unsafe "http_parser_init"
  c_init :: Ptr Parser -> Ptr FieldLine -> Word32 -> Word32 -> Word32 -> Word32 -> IO ()

-- | @initParser parser fields fieldsMax headMax targetMax allowed@: a new parser with its limits, in fields and bytes,
-- and the deviations from the standard that it accepts ('allowBareLineFeed' and so on, added up). Limits beyond 2^31
-- are 2^31: offsets in a head have 32 bits.
initParser :: Ptr Parser -> Ptr FieldLine -> Int -> Int -> Int -> Word32 -> IO ()
initParser parser fields fieldsMax headMax targetMax =
  c_init parser fields (limit fieldsMax) (limit headMax) (limit targetMax)
  where
    limit = fromIntegral . max 0 . min 2147483648

-- | LF alone ends a line; a value continues on the next line; HTTP\/1.1 without Host; bytes beyond ASCII in a target.
allowBareLineFeed, allowFolding, allowNoHost, allowNonAscii :: Word32
allowBareLineFeed = #{const HTTP_ALLOW_BARE_LF}
allowFolding = #{const HTTP_ALLOW_FOLDING}
allowNoHost = #{const HTTP_ALLOW_NO_HOST}
allowNonAscii = #{const HTTP_ALLOW_NON_ASCII}

-- | Makes the parser ready for the next head.
foreign import ccall unsafe "http_parser_reset"
  resetParser :: Ptr Parser -> IO ()

-- | Not 0 if no byte of a head has come except empty lines.
foreign import ccall unsafe "http_parser_is_idle"
  parserIsIdle :: Ptr Parser -> IO CInt

foreign import ccall unsafe "http_parser_run"
  c_run :: Ptr Parser -> Ptr Word8 -> CSize -> IO Int64

-- | Parses a head of which this many bytes have arrived. Returns its length if it is complete, 0 if it is not, or a
-- negative error ('errorStatus'). May be called again with more bytes; reads each byte once.
runParser :: Ptr Parser -> Ptr Word8 -> Int -> IO Int
runParser parser bytes count = fromIntegral <$> c_run parser bytes (fromIntegral count)
{-# INLINE runParser #-}

-- | Bytes that the fields of a complete head take at the start of the memory filled by 'copyHead'.
parserFieldsSize :: Ptr Parser -> IO Int
parserFieldsSize parser = (fieldSize *) <$> headFieldCount parser
{-# INLINE parserFieldsSize #-}

foreign import ccall unsafe "http_parser_copy"
  c_copy :: Ptr Parser -> Ptr Word8 -> CSize -> Ptr Word8 -> IO ()

-- | @copyHead parser head length destination@ copies the fields ('parserFieldsSize' bytes) and then the text.
copyHead :: Ptr Parser -> Ptr Word8 -> Int -> Ptr Word8 -> IO ()
copyHead parser bytes count = c_copy parser bytes (fromIntegral count)
{-# INLINE copyHead #-}

word32 :: IO Word32 -> IO Int
word32 = fmap fromIntegral
{-# INLINE word32 #-}

word16 :: IO Word16 -> IO Int
word16 = fmap fromIntegral
{-# INLINE word16 #-}

-- | Number of field lines.
headFieldCount :: Ptr Parser -> IO Int
headFieldCount parser = word32 (#{peek http_parser, field_count} parser)

-- | The method's number, or 'methodOther'.
headMethod :: Ptr Parser -> IO Word8
headMethod = #{peek http_parser, method}
{-# INLINE headMethod #-}

-- | Offset and length of the method.
headMethodSlice :: Ptr Parser -> IO (Int, Int)
headMethodSlice parser =
  (,) <$> word32 (#{peek http_parser, method_offset} parser) <*> word32 (#{peek http_parser, method_length} parser)
{-# INLINE headMethodSlice #-}

-- | Offset and length of the path, without scheme, authority and query.
headPathSlice :: Ptr Parser -> IO (Int, Int)
headPathSlice parser =
  (,) <$> word32 (#{peek http_parser, path_offset} parser) <*> word32 (#{peek http_parser, path_length} parser)
{-# INLINE headPathSlice #-}

-- | Offset and length of the query with its question mark; length 0 if there is none.
headQuerySlice :: Ptr Parser -> IO (Int, Int)
headQuerySlice parser =
  (,) <$> word32 (#{peek http_parser, query_offset} parser) <*> word32 (#{peek http_parser, query_length} parser)
{-# INLINE headQuerySlice #-}

-- | Content-Length, or -1.
headContentLength :: Ptr Parser -> IO Int64
headContentLength = #{peek http_parser, content_length}
{-# INLINE headContentLength #-}

-- | The set of 'flagKeepAlive' and the other flags.
headFlags :: Ptr Parser -> IO Word32
headFlags = #{peek http_parser, flags}
{-# INLINE headFlags #-}

-- | Index of the first Host field plus 1; 0 if there is none. Likewise for the next three.
headHost, headRange, headReferer, headUserAgent :: Ptr Parser -> IO Int
headHost parser = word16 (#{peek http_parser, host} parser)
headRange parser = word16 (#{peek http_parser, range} parser)
headReferer parser = word16 (#{peek http_parser, referer} parser)
headUserAgent parser = word16 (#{peek http_parser, user_agent} parser)
{-# INLINE headHost #-}
{-# INLINE headRange #-}
{-# INLINE headReferer #-}
{-# INLINE headUserAgent #-}

-- | The number of a field's name; 0 if it is none of the known ones.
fieldName :: Ptr FieldLine -> IO Int
fieldName field = word16 (#{peek http_field, name} field)

-- | Offset and length of a field's name.
fieldNameSlice :: Ptr FieldLine -> IO (Int, Int)
fieldNameSlice field =
  (,) <$> word32 (#{peek http_field, name_offset} field) <*> word16 (#{peek http_field, name_length} field)

-- | Offset and length of a field's value.
fieldValueSlice :: Ptr FieldLine -> IO (Int, Int)
fieldValueSlice field =
  (,) <$> word32 (#{peek http_field, value_offset} field) <*> word32 (#{peek http_field, value_length} field)

-- | Members of 'headFlags'.
flagKeepAlive, flagChunked, flagExpectContinue, flagExpectOther, flagVersion11, flagHttps :: Word32
flagKeepAlive = #{const HTTP_REQUEST_KEEP_ALIVE}
flagChunked = #{const HTTP_REQUEST_CHUNKED}
flagExpectContinue = #{const HTTP_REQUEST_EXPECT_CONTINUE}
flagExpectOther = #{const HTTP_REQUEST_EXPECT_OTHER}
flagVersion11 = #{const HTTP_REQUEST_VERSION_1_1}
flagHttps = #{const HTTP_REQUEST_HTTPS}

-- | Some numbers of methods.
methodOther, methodCodeHead, methodCodeConnect :: Word8
methodOther = #{const HTTP_METHOD_OTHER}
methodCodeHead = #{const HTTP_METHOD_HEAD}
methodCodeConnect = #{const HTTP_METHOD_CONNECT}

-- | Most bytes that a method may have.
methodLengthMax :: Int
methodLengthMax = #{const HTTP_METHOD_LENGTH_MAX}

-- | The known methods with their numbers.
methodNames :: [(Word8, ByteString)]
methodNames =
  [ (#{const HTTP_METHOD_GET}, C8.pack "GET"),
    (#{const HTTP_METHOD_HEAD}, C8.pack "HEAD"),
    (#{const HTTP_METHOD_POST}, C8.pack "POST"),
    (#{const HTTP_METHOD_PUT}, C8.pack "PUT"),
    (#{const HTTP_METHOD_DELETE}, C8.pack "DELETE"),
    (#{const HTTP_METHOD_OPTIONS}, C8.pack "OPTIONS"),
    (#{const HTTP_METHOD_CONNECT}, C8.pack "CONNECT"),
    (#{const HTTP_METHOD_TRACE}, C8.pack "TRACE"),
    (#{const HTTP_METHOD_PATCH}, C8.pack "PATCH")
  ]

-- | Known names have numbers from 1 to @nameCount - 1@.
nameCount :: Int
nameCount = #{const HTTP_NAME_COUNT}

foreign import ccall unsafe "http_name_text"
  c_nameText :: CInt -> IO CString

-- | The spelling of a known name.
nameText :: Int -> String
nameText number = unsafeDupablePerformIO (c_nameText (fromIntegral number) >>= peekCString)

foreign import ccall unsafe "http_name_find"
  c_findName :: Ptr Word8 -> CSize -> IO CInt

-- | The number of a name; 0 if it is not known. O(length).
findName :: Ptr Word8 -> Int -> IO Int
findName name size = fromIntegral <$> c_findName name (fromIntegral size)

foreign import ccall unsafe "http_error_status"
  c_errorStatus :: CInt -> CInt

foreign import ccall unsafe "http_error_text"
  c_errorText :: CInt -> IO CString

-- | The status code that answers an error of 'runParser' or 'nextChunk'.
errorStatus :: Int -> Int
errorStatus = fromIntegral . c_errorStatus . fromIntegral

-- | What was wrong, in a few words.
errorText :: Int -> String
errorText number = unsafeDupablePerformIO (c_errorText (fromIntegral number) >>= peekCString)

-- | Errors of the request line.
errorRequestLine, errorTarget :: Int
errorRequestLine = #{const HTTP_ERROR_REQUEST_LINE}
errorTarget = #{const HTTP_ERROR_TARGET}

-- | The state of a chunked body, @chunksSize@ bytes of memory.
data Chunks

-- | Bytes of a 'Chunks'.
chunksSize :: Int
chunksSize = #{size http_chunks}

-- | What happens to the trailer section of a chunked body.
data TrailerSection
  = -- | It is checked, and not returned.
    TrailersSkipped
  | -- | The body ends before it. The rest of the input is the lines of trailers and a blank line.
    TrailersLeft
  deriving (Eq)

foreign import ccall unsafe "http_chunks_init"
  c_initChunks :: Ptr Chunks -> CInt -> IO ()

-- | Makes it ready for a new body.
initChunks :: Ptr Chunks -> TrailerSection -> IO ()
initChunks chunks trailers = c_initChunks chunks $
  if trailers == TrailersSkipped
    then #{const HTTP_CHUNKS_TRAILERS_SKIPPED}
    else #{const HTTP_CHUNKS_TRAILERS_LEFT}

foreign import ccall unsafe "http_chunks_next"
  c_next :: Ptr Chunks -> Ptr Word8 -> CSize -> IO Int64

-- | Skips framing ('chunksConsumed' bytes of it) and returns the number of data bytes that follow; 0: more input is
-- needed; 'chunksEnd': the body is over; otherwise a negative error.
nextChunk :: Ptr Chunks -> Ptr Word8 -> Int -> IO Int
nextChunk chunks input size = fromIntegral <$> c_next chunks input (fromIntegral size)

foreign import ccall unsafe "http_chunks_foresee"
  c_foresee :: Ptr Chunks -> Ptr Word8 -> CSize -> IO Int64

-- | The result that 'nextChunk' will have after all data in this input: 0, 'chunksEnd' or a negative error. Changes
-- nothing.
foreseeChunks :: Ptr Chunks -> Ptr Word8 -> Int -> IO Int
foreseeChunks chunks input size = fromIntegral <$> c_foresee chunks input (fromIntegral size)

-- | The number of data bytes that 'foreseeChunks' has seen, or seen announced.
chunksForeseen :: Ptr Chunks -> IO Int
chunksForeseen chunks = fromIntegral <$> (#{peek http_chunks, foreseen} chunks :: IO Word64)

-- | The number of framing bytes that the last 'nextChunk' has skipped.
chunksConsumed :: Ptr Chunks -> IO Int
chunksConsumed chunks = fromIntegral <$> (#{peek http_chunks, consumed} chunks :: IO Word64)

-- | How many bytes of the current chunk were not returned yet.
chunksRemaining :: Ptr Chunks -> IO Int
chunksRemaining chunks = fromIntegral <$> (#{peek http_chunks, remaining} chunks :: IO Word64)

-- | Marks a chunked body as complete.
chunksEnd :: Int
chunksEnd = #{const HTTP_CHUNKS_END}
