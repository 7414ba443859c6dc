{-# LANGUAGE OverloadedStrings #-}

-- | One file as it is answered with: its headers, its validators, and where its bytes are. Must not know: paths.
module Millrace.Cli.Representation
  ( Representation,
    representationCoding,
    heldBytes,
    isCurrent,
    fromFile,
    hold,
    answerWith,
    noSniffing,
    refusal,
  )
where

import Control.Exception (IOException, throwIO, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString, char7, toLazyByteString, word64Hex)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Int (Int64)
import Data.Maybe (maybeToList)
import Millrace.Cli.ContentCoding (Coding (..))
import Millrace.Cli.Entry
import Millrace.File (Mode (ForReading), readAt, withFile)
import Millrace.Http.ByteRange
import Millrace.Http.Date (Seconds, formatHttpDate)
import Millrace.Http.EntityTag
import Millrace.Http.Multipart
import Millrace.Http.Precondition
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hContentRange, hETag, hVary)
import Network.Wai
import Network.Wai.Handler.Millrace (InvalidResponse (FileTruncated))

-- | What a file is answered with.
--
-- @since 0.1.0
data Representation = Representation
  { representationCoding :: Maybe Coding,
    representationValidators :: Validators,
    representationModified :: Nanoseconds,
    representationType :: ByteString,
    -- | of a 200, but for Content-Type
    representationHeaders :: ResponseHeaders,
    representationSize :: Integer,
    representationSource :: Source
  }

data Source
  = InFile OpenFile
  | InMemory ByteString

-- | The bytes that a representation holds in memory; 'Nothing' if they are in an open file.
--
-- @since 0.1.0
heldBytes :: Representation -> Maybe Int
heldBytes representation = case representationSource representation of
  InFile _ -> Nothing
  InMemory bytes -> Just (ByteString.length bytes)

-- | Is it still what it was made from? A file that is held open may be written to, or be gone from a network.
--
-- @since 0.1.0
isCurrent :: Representation -> IO Bool
isCurrent representation = case representationSource representation of
  InMemory _ -> pure True
  InFile file -> either unknown (isUnchanged representation) <$> try (openFileState file)
  where
    unknown :: IOException -> Bool
    unknown _ = False

isUnchanged :: Representation -> (Int64, Nanoseconds) -> Bool
isUnchanged representation (size, modified) =
  toInteger size == representationSize representation && modified == representationModified representation

-- | An open file at this time, of this Content-Type, whose content has this coding in any case, in this coding besides,
-- perhaps one of several codings to choose from. To be
-- used as long as the file is held open only.
--
-- A file that was changed less than two seconds ago may be changed again without its time of change showing it (some
-- file systems keep whole seconds, and the kernel's clock for this is coarse): until then its tag is weak. A time in
-- the future is not announced as Last-Modified (RFC 9110 section 8.8.2.1): the time given must be that of the Date field's
-- clock, which is a little late.
--
-- A tag is made of the time of change, to the nanosecond, the size and the coding, so that it is the same on every machine
-- that the file was copied to with its time. Another file of the same size and time has the same tag: tools that set the
-- times of files should not set those of different states alike. Where they do so by giving all files the same
-- ('modificationTime'), there is neither tag nor date.
--
-- @since 0.1.0
fromFile :: Seconds -> ByteString -> Maybe ByteString -> Maybe Coding -> Bool -> OpenFile -> Representation
fromFile now contentType own coding isOneOfSeveral file =
  Representation
    { representationCoding = coding,
      representationValidators = Validators (tag <$ lastModified) lastModified isSettled,
      representationModified = openFileModified file,
      representationType = contentType,
      representationHeaders =
        [(hAcceptRanges, "bytes"), noSniffing]
          ++ foldMap (\time -> [(hETag, renderTag tag), (hLastModified, formatHttpDate time)]) lastModified
          ++ [(hContentEncoding, ByteString.intercalate ", " applied) | not (null applied)]
          ++ [(hVary, "Accept-Encoding") | isOneOfSeveral],
      representationSize = toInteger (openFileSize file),
      representationSource = InFile file
    }
  where
    applied = maybeToList own ++ map codingName (maybeToList coding)
    modified = openFileModified file
    isSettled = modified < 1000000000 * now - 2000000000
    lastModified = min now <$> modificationTime (modified `div` 1000000000)
    tag = EntityTag (if isSettled then Strong else Weak) tagText
    tagText =
      Lazy.toStrict . toLazyByteString $
        word64Hex (fromIntegral modified)
          <> char7 '-'
          <> word64Hex (fromIntegral (openFileSize file))
          <> foldMap ((char7 '-' <>) . byteString . codingName) coding

-- | The same with its bytes in memory, valid for ever; 'Nothing' if the file was changed meanwhile.
--
-- @since 0.1.0
hold :: Representation -> IO (Maybe Representation)
hold representation = case representationSource representation of
  InMemory _ -> pure (Just representation)
  InFile file -> do
    bytes <- withFile (openFilePath file) ForReading $ \opened -> readAt opened 0 (max 1 (fromInteger (representationSize representation)))
    state <- openFileState file
    pure $
      if toInteger (ByteString.length bytes) == representationSize representation && isUnchanged representation state
        then Just representation {representationSource = InMemory bytes}
        else Nothing

-- | The answer to a GET or HEAD request: preconditions, then ranges (RFC 9110 sections 13 and 14).
--
-- @since 0.1.0
answerWith :: Representation -> Request -> IO Response
answerWith representation request
  | not (any (isDecisive . fst) headers) = pure (selected representation Whole) -- as almost always
  | otherwise = case precondition validators headers of
    PreconditionFailed -> pure (refusal preconditionFailed412 [])
    NotModified -> pure (responseLBS notModified304 (filter ((/= hContentEncoding) . fst) (representationHeaders representation)) "")
    Proceed -> case selectRepresentation validators size (requestMethod request) headers of
      Parts ranges -> severalParts representation ranges <$> newBoundary
      selection -> pure (selected representation selection)
  where
    headers = requestHeaders request
    validators = representationValidators representation
    size = representationSize representation
    isDecisive name = name `elem` [hRange, hIfModifiedSince, "If-None-Match", "If-Match", "If-Unmodified-Since"]

selected :: Representation -> Selection -> Response
selected representation selection = case selection of
  Part range -> bytesOf partialContent206 ((hContentRange, contentRange size range) : headers) range
  Unsatisfiable -> refusal requestedRangeNotSatisfiable416 [(hContentRange, unsatisfiedRange size)]
  _ -> bytesOf ok200 headers (ByteRange 0 (size - 1))
  where
    size = representationSize representation
    headers = (hContentType, representationType representation) : representationHeaders representation
    bytesOf status fields range = case representationSource representation of
      InFile file -> responseFile status fields (openFilePath file) (Just (FilePart (firstByte range) (rangeLength range) size))
      InMemory bytes ->
        responseBuilder status ((hContentLength, decimal (rangeLength range)) : fields) . byteString $
          ByteString.take (fromInteger (rangeLength range)) (ByteString.drop (fromInteger (firstByte range)) bytes)

severalParts :: Representation -> [ByteRange] -> Boundary -> Response
severalParts representation ranges boundary =
  responseStream partialContent206 headers $ \send flush -> case representationSource representation of
    InFile file -> withFile (openFilePath file) ForReading $ \opened -> multipartBody parts (reading (openFilePath file) opened) send flush
    InMemory bytes -> multipartBody parts (slice bytes) send flush
  where
    parts = multipart boundary (representationType representation) (representationSize representation) ranges
    headers =
      (hContentType, multipartType parts) :
      (hContentLength, decimal (multipartLength parts)) :
      representationHeaders representation
    -- The length has been announced: nothing else may take the place of what is not there any more.
    reading path opened offset count = do
      bytes <- readAt opened (fromInteger offset) count
      if ByteString.null bytes then throwIO (FileTruncated path) else pure bytes
    slice bytes offset count = pure (ByteString.take count (ByteString.drop (fromInteger offset) bytes))

decimal :: Integer -> ByteString
decimal = Char8.pack . show

-- | Browsers shall not guess that an upload named .txt is a page with scripts.
--
-- @since 0.1.0
noSniffing :: Header
noSniffing = ("X-Content-Type-Options", "nosniff")

-- | A short text that says the status.
--
-- @since 0.1.0
refusal :: Status -> ResponseHeaders -> Response
refusal status headers = responseBuilder status (described <> headers) (byteString body)
  where
    described = [(hContentType, "text/plain; charset=utf-8"), noSniffing, (hContentLength, lengthOf body)]
    lengthOf = decimal . toInteger . ByteString.length
    body = Char8.pack (show (statusCode status)) <> " " <> statusMessage status <> "\n"
