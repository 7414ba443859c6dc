{-# LANGUAGE OverloadedStrings #-}

-- | The head of a response, parsed strictly (RFC 9112). What two programs could read differently is refused: a response that
-- this proxy took for shorter or longer than the target meant would make the rest of the connection the answer to somebody
-- else's request. Must not know: sockets.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Proxy.ResponseHead
  ( ResponseHead (..),
    Framing (..),
    Keeping (..),
    Parsed (..),
    parseResponseHead,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import Data.Char (isDigit)
import Millrace.Proxy.Field
import Network.HTTP.Types (Header, HeaderName, ResponseHeaders, Status, mkStatus)

-- | A head without the fields that concern only the connection.
data ResponseHead = ResponseHead
  { headStatus :: !Status,
    -- | In their order.
    headFields :: ResponseHeaders,
    headFraming :: !Framing,
    headKeeping :: !Keeping,
    -- | The protocols of the field Upgrade, in lower case.
    headUpgrade :: [ByteString]
  }
  deriving (Eq, Show)

-- | Where the body ends, if the status and the method allow one.
data Framing
  = -- | After this number of bytes.
    Counted !Int
  | Chunked
  | -- | With the connection.
    UntilEnd
  deriving (Eq, Show)

-- | May another request follow?
data Keeping = MayStay | MustClose
  deriving (Eq, Show)

-- | What came of parsing.
data Parsed
  = -- | More bytes are needed.
    Incomplete
  | -- | And why.
    Malformed !String
  | -- | The head, and how many bytes it has.
    Parsed !ResponseHead !Int
  deriving (Eq, Show)

-- What was found so far.
data Found = Found
  { foundFields :: [Header],
    foundLength :: !(Maybe Int),
    foundCoding :: !Coding,
    foundOptions :: [ByteString],
    foundUpgrade :: [ByteString]
  }

data Coding = NoCoding | ChunkedCoding
  deriving (Eq)

-- | Parses a head at the beginning of these bytes.
--
-- >>> parseResponseHead "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"
-- Malformed "two Content-Length fields"
parseResponseHead :: ByteString -> Parsed
parseResponseHead bytes = onLine 0 bytes $ \line next -> case parseStatusLine line of
  Left problem -> Malformed problem
  Right (version, status) -> fieldsFrom bytes next version status (Found [] Nothing NoCoding [] [])

-- The line at an offset, without its end, and the offset of the next one. Only CR LF ends a line.
onLine :: Int -> ByteString -> (ByteString -> Int -> Parsed) -> Parsed
onLine at bytes use = case ByteString.elemIndex 10 rest of
  Nothing -> Incomplete
  Just index
    | index == 0 || Unsafe.unsafeIndex rest (index - 1) /= 13 -> Malformed "a line ends with LF alone"
    | otherwise -> use (Unsafe.unsafeTake (index - 1) rest) (at + index + 1)
  where
    rest = Unsafe.unsafeDrop at bytes
{-# INLINE onLine #-}

fieldsFrom :: ByteString -> Int -> Version -> Status -> Found -> Parsed
fieldsFrom bytes at version status found = onLine at bytes $ \line next ->
  if ByteString.null line
    then either Malformed (`Parsed` next) (conclude version status found)
    else case parseFieldLine line >>= (`takeField` found) of
      Left problem -> Malformed problem
      Right more -> fieldsFrom bytes next version status more

data Version = Version10 | Version11
  deriving (Eq)

-- The blank behind the status code is missing in the responses of some servers without a reason phrase.
parseStatusLine :: ByteString -> Either String (Version, Status)
parseStatusLine line
  | ByteString.length line < 12 = wrong
  | otherwise = do
    version <- case ByteString.take 9 line of
      "HTTP/1.1 " -> Right Version11
      "HTTP/1.0 " -> Right Version10
      _ -> wrong
    code <- if Char8.all isDigit digits && Char8.head digits /= '0' then maybe wrong (Right . fst) (Char8.readInt digits) else wrong
    reason <- case Char8.uncons rest of
      Nothing -> Right ByteString.empty
      Just (' ', text) | isFieldText text -> Right text
      _ -> wrong
    Right (version, mkStatus code reason)
  where
    wrong = Left "the status line is none of HTTP/1.0 or 1.1"
    (digits, rest) = ByteString.splitAt 3 (ByteString.drop 9 line)

takeField :: Header -> Found -> Either String Found
takeField field@(name, value) found = case ByteString.length folded of
  14 | folded == "content-length" -> takeLength
  17 | folded == "transfer-encoding" -> takeCoding
  10
    | folded == "connection" -> Right found {foundOptions = tokensOf value ++ foundOptions found}
    | folded == "keep-alive" -> Right found
  7
    | folded == "upgrade" -> Right found {foundUpgrade = foundUpgrade found ++ tokensOf value}
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
  | not (ByteString.null value) && ByteString.length value <= 18 && ByteString.all (\byte -> byte >= 48 && byte <= 57) value = Just (ByteString.foldl' (\sum' byte -> 10 * sum' + fromIntegral byte - 48) 0 value)
  | otherwise = Nothing

conclude :: Version -> Status -> Found -> Either String ResponseHead
conclude version status found = do
  framing <- case (foundCoding found, foundLength found) of
    (ChunkedCoding, Just _) -> Left "both Content-Length and Transfer-Encoding"
    (ChunkedCoding, Nothing)
      | version == Version10 -> Left "Transfer-Encoding in a response of HTTP/1.0"
      | otherwise -> Right Chunked
    (NoCoding, Just count) -> Right (Counted count)
    (NoCoding, Nothing) -> Right UntilEnd
  Right
    ResponseHead
      { headStatus = status,
        headFields = withoutNamed options (reverse (foundFields found)),
        headFraming = framing,
        headKeeping = keeping,
        headUpgrade = foundUpgrade found
      }
  where
    options = foundOptions found
    keeping
      | "close" `elem` options = MustClose
      | version == Version10 && "keep-alive" `notElem` options = MustClose
      | otherwise = MayStay
