{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets.

-- | The head of a response, parsed strictly (RFC 9112). A head that two programs could read differently is refused. If
-- this proxy took a response for shorter or longer than the target means it, the rest of the connection would become
-- the answer to another client's request.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Proxy.ResponseHead
  ( ResponseHead (..),
    Framing (..),
    Keeping (..),
    Parsed (..),
    parseResponseHead,
    parseFieldLine,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import Data.Maybe (fromMaybe)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff)
import Millrace.Proxy.Field
import Network.HTTP.Types
  ( Header
  , HeaderName
  , ResponseHeaders
  , Status
  , hConnection
  , hContentLength
  , hContentType
  , hDate
  , hLastModified
  , hLocation
  , hServer
  , mkStatus
  , status200
  , statusCode
  )
import Network.HTTP.Types.Header
  ( hAcceptRanges
  , hCacheControl
  , hContentEncoding
  , hETag
  , hSetCookie
  , hTransferEncoding
  , hVary
  )
import System.IO.Unsafe (unsafeDupablePerformIO)

#include "proxy_head.h"

-- | A head without the fields that concern only the connection.
data ResponseHead = ResponseHead
  { headStatus :: !Status,
    -- | In their order.
    headFields :: ResponseHeaders,
    headFraming :: !Framing,
    headKeeping :: !Keeping,
    -- | The names in the field Connection, in lower case. Trailers with these names are dropped, too.
    headOptions :: [ByteString],
    -- | The protocols of the field Upgrade, in lower case.
    headUpgrade :: [ByteString]
  }
  deriving (Eq, Show)

-- | The end of the body, if the status and the method allow one.
data Framing
  = -- | After this number of bytes.
    Counted !Int
  | Chunked
  | -- | With the connection.
    UntilEnd
  deriving (Eq, Show)

-- | Whether another request may follow on the connection.
data Keeping = MayStay | MustClose
  deriving (Eq, Show)

-- | The outcome of parsing.
data Parsed
  = -- | More bytes are needed.
    Incomplete
  | -- | The head is not valid. The text says why.
    Malformed !String
  | -- | The head, and how many bytes it has.
    Parsed !ResponseHead !Int
  deriving (Eq, Show)

-- The fields that were found so far.
data FoundFields = FoundFields
  { foundFields :: [Header],
    foundLength :: !(Maybe Int),
    foundCoding :: !TransferCoding,
    -- | The values of Connection, and those of Upgrade.
    foundOptions :: [ByteString],
    foundUpgrade :: [ByteString]
  }

data TransferCoding = NoCoding | ChunkedCoding
  deriving (Eq)

-- | Parses a head at the beginning of these bytes.
--
-- >>> parseResponseHead "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"
-- Malformed "two Content-Length fields"
parseResponseHead :: ByteString -> Parsed
parseResponseHead bytes = unsafeDupablePerformIO (parse usualRoom)
  where
    parse capacity = allocaBytes (#{size proxy_head} + capacity * #{size proxy_field}) $ \parsed -> do
      outcome <- Unsafe.unsafeUseAsCStringLen bytes $ \(start, size) ->
        c_parse (castPtr start) (fromIntegral size) parsed (fromIntegral capacity)
      case outcome of
        #{const PROXY_HEAD_COMPLETE} -> concluded bytes parsed
        #{const PROXY_HEAD_INCOMPLETE} -> return Incomplete
        -- A field has four bytes at least.
        #{const PROXY_HEAD_TOO_MANY} -> parse (ByteString.length bytes `quot` 4)
        _ -> return (Malformed (reasonFor outcome))
    usualRoom = 32

reasonFor :: CInt -> String
reasonFor outcome = case outcome of
  #{const PROXY_HEAD_BARE_LF} -> "a line ends with LF alone"
  #{const PROXY_HEAD_BAD_STATUS} -> "the status line is none of HTTP/1.0 or 1.1"
  #{const PROXY_HEAD_NO_COLON} -> "a field line without a colon"
  #{const PROXY_HEAD_BAD_NAME} -> "the name of a field is not a token"
  _ -> "the value of a field has a control character"

foreign import ccall unsafe "proxy_head_parse"
  c_parse :: Ptr Word8 -> CSize -> Ptr Head -> CSize -> IO CInt

-- proxy_head, or one proxy_field
data Head

-- | A field line without its end, such as one of the trailers. A line that begins with a blank continues another one
-- (obsolete folding), and is refused.
--
-- >>> parseFieldLine "a b: c"
-- Left "the name of a field is not a token"
parseFieldLine :: ByteString -> Either String Header
parseFieldLine line = unsafeDupablePerformIO . allocaBytes #{size proxy_field} $ \parsed -> do
  outcome <- Unsafe.unsafeUseAsCStringLen line $ \(start, size) ->
    c_parseField (castPtr start) (fromIntegral size) parsed
  case outcome of
    #{const PROXY_HEAD_COMPLETE} -> Right <$> fieldAt line parsed 0
    _ -> return (Left (reasonFor outcome))

foreign import ccall unsafe "proxy_field_parse"
  c_parseField :: Ptr Word8 -> CSize -> Ptr Head -> IO CInt

-- | A field, of which the parser has found the offsets in the bytes.
fieldAt :: ByteString -> Ptr Head -> Int -> IO Header
fieldAt bytes parsed at = do
  name <- partAt bytes parsed (at + #{offset proxy_field, name}) (at + #{offset proxy_field, name_size})
  value <- partAt bytes parsed (at + #{offset proxy_field, value}) (at + #{offset proxy_field, value_size})
  return (nameOf name, value)
{-# INLINE fieldAt #-}

wordAt :: Ptr Head -> Int -> IO Int
wordAt parsed at = fromIntegral <$> (peekByteOff parsed at :: IO Word32)
{-# INLINE wordAt #-}

partAt :: ByteString -> Ptr Head -> Int -> Int -> IO ByteString
partAt bytes parsed at sizeAt = do
  from <- wordAt parsed at
  count <- wordAt parsed sizeAt
  return $! Unsafe.unsafeTake count (Unsafe.unsafeDrop from bytes)
{-# INLINE partAt #-}

-- From the last field to the first one, so that the list has their order.
concluded :: ByteString -> Ptr Head -> IO Parsed
concluded bytes parsed = do
  minor <- word #{offset proxy_head, minor}
  code <- word #{offset proxy_head, status}
  reason <- partAt bytes parsed #{offset proxy_head, reason} #{offset proxy_head, reason_size}
  size <- word #{offset proxy_head, size}
  count <- word #{offset proxy_head, count}
  let version = if minor == 0 then Version10 else Version11
      status = if code == 200 && reason == "OK" then status200 else mkStatus code reason
      go index found
        | index < 0 = return (either Malformed (`Parsed` size) (conclude version status found))
        | otherwise = do
          field <- fieldAt bytes parsed (#{offset proxy_head, fields} + index * #{size proxy_field})
          either (return . Malformed) (go (index - 1)) (takeField field found)
  go (count - 1) (FoundFields [] Nothing NoCoding [] [])
  where
    word = wordAt parsed

-- The name of a field. Making one costs more than all other work on it, so the usual ones are made in advance.
nameOf :: ByteString -> HeaderName
nameOf name = case ByteString.length name of
  4 -> oneOf [hDate, hETag, hVary]
  6 -> oneOf [hServer]
  8 -> oneOf [hLocation]
  10 -> oneOf [hConnection, hSetCookie]
  12 -> oneOf [hContentType]
  13 -> oneOf [hLastModified, hCacheControl, hAcceptRanges]
  14 -> oneOf [hContentLength]
  16 -> oneOf [hContentEncoding]
  17 -> oneOf [hTransferEncoding]
  _ -> CI.mk name
  where
    oneOf (usual : others) = if CI.original usual == name then usual else oneOf others
    oneOf [] = CI.mk name

data Http1Version = Version10 | Version11
  deriving (Eq)

takeField :: Header -> FoundFields -> Either String FoundFields
takeField field@(name, value) found = case ByteString.length folded of
  14 | folded == "content-length" -> takeLength
  17 | folded == "transfer-encoding" -> takeCoding
  10
    | folded == "connection" -> Right found {foundOptions = value : foundOptions found}
    | folded == "keep-alive" -> Right found
  7
    | folded == "upgrade" -> Right found {foundUpgrade = value : foundUpgrade found}
    | folded == "trailer" -> Right found
  2 | folded == "te" -> Right found
  16 | folded == "proxy-connection" -> Right found
  18 | folded == "proxy-authenticate" -> Right found
  25 | folded == "proxy-authentication-info" -> Right found
  _ -> Right found {foundFields = field : foundFields found}
  where
    folded = CI.foldedCase name
    takeLength = case (foundLength found, digitsOf value) of
      (Just _, _) -> Left "two Content-Length fields"
      (Nothing, Nothing) -> Left "Content-Length is not a number"
      (Nothing, Just count) -> Right found {foundLength = Just count, foundFields = field : foundFields found}
    takeCoding
      | foundCoding found /= NoCoding = Left "two Transfer-Encoding fields"
      | CI.mk value == ("chunked" :: HeaderName) = Right found {foundCoding = ChunkedCoding}
      | otherwise = Left "a transfer coding other than chunked"

digitsOf :: ByteString -> Maybe Int
digitsOf value
  | not (ByteString.null value) && ByteString.length value <= 18 && ByteString.all isDigitByte value =
    Just (ByteString.foldl' (\sum' byte -> 10 * sum' + fromIntegral byte - 48) 0 value)
  | otherwise = Nothing
  where
    isDigitByte byte = byte >= 48 && byte <= 57

conclude :: Http1Version -> Status -> FoundFields -> Either String ResponseHead
conclude version status found = do
  framing <- case (foundCoding found, foundLength found) of
    (ChunkedCoding, Just _) -> Left "both Content-Length and Transfer-Encoding"
    (ChunkedCoding, Nothing)
      | version == Version10 -> Left "Transfer-Encoding in a response of HTTP/1.0"
      | otherwise -> Right Chunked
    (NoCoding, Just count) -> Right (Counted count)
    (NoCoding, Nothing) -> Right UntilEnd
  options <- optionsOf (foundOptions found)
  Right
    ResponseHead
      { headStatus = status,
        headFields = asked ++ withoutNamed options (foundFields found),
        headFraming = framing,
        headKeeping = keeping options,
        headOptions = options,
        headUpgrade = fromMaybe [] (tokensOf (foundUpgrade found))
      }
  where
    -- 426 (Upgrade Required) says to which protocols (RFC 9110, section 15.5.22). That concerns the client's
    -- connection.
    asked
      | statusCode status == 426 && not (null (foundUpgrade found)) =
        [(hConnection, "Upgrade"), ("Upgrade", joined (foundUpgrade found))]
      | otherwise = []
    keeping options
      | "close" `elem` options = MustClose
      | version == Version10 && "keep-alive" `notElem` options = MustClose
      | otherwise = MayStay
