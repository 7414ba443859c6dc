-- |
-- Which part of a file answers a request: conditional requests and ranges (RFC 9110, sections 13 and 14). Pure. Knows
-- nothing of connections and descriptors.
module Millrace.Http.File (Selection (..), FileFacts (..), selectPart, lastModified, contentRange) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import qualified Data.CaseInsensitive as CI
import Data.Char (isDigit)
import Data.Int (Int64)
import Data.Maybe (isJust, isNothing)
import Foreign.Ptr (castPtr)
import Millrace.Http.Wire (dateLength, readDate, writeDate)
import Network.HTTP.Types
import Network.HTTP.Types.Header (hIfMatch, hIfNoneMatch, hIfUnmodifiedSince)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | Length in bytes and time of modification in seconds since 1970.
data FileFacts = FileFacts !Int64 !Int64

-- | What to send.
data Selection
  = -- | 200.
    Whole
  | -- | 206: offset and count, at least 1.
    Part !Int64 !Int64
  | -- | 304.
    NotModified
  | -- | 412.
    PreconditionFailed
  | -- | 416.
    Unsatisfiable
  deriving (Eq, Show)

-- | Evaluates preconditions in the order of RFC 9110, section 13.2.2, then the range. Dates only: the server makes no
-- entity tags, so those of a request are left to the application, and an If-Range with one gets the whole file.
selectPart :: Method -> RequestHeaders -> FileFacts -> Selection
selectPart method fields facts@(FileFacts _ modified)
  | not isRead = Whole
  | Just date <- dateOf hIfUnmodifiedSince, absent hIfMatch, modified > date = PreconditionFailed
  | Just date <- dateOf hIfModifiedSince, absent hIfNoneMatch, modified <= date = NotModified
  | method == methodGet, Just range <- lookup hRange fields, rangeWanted = selectRange range facts
  | otherwise = Whole
  where
    isRead = method == methodGet || method == methodHead
    absent name = isNothing (lookup name fields)
    dateOf name = lookup name fields >>= parseDate
    rangeWanted = maybe True (\value -> parseDate value == Just modified) (lookup hIfRange fields)

-- One range. A set of several is ignored, as section 14.2 allows; so is what is no range at all.
selectRange :: ByteString -> FileFacts -> Selection
selectRange value (FileFacts size _) = case B.break (== 0x3d) value of
  (unit, rest)
    | CI.mk unit == CI.mk (C8.pack "bytes"),
      Just (first, final) <- parseRange (B.drop 1 rest) ->
      case (first, final) of
        (Just start, Nothing) | start < size -> part start (size - 1)
        (Just start, Just end)
          | end < start -> Whole
          | start < size -> part start (min end (size - 1))
        (Nothing, Just count) | count > 0 && size > 0 -> part (max 0 (size - count)) (size - 1)
        _ -> Unsatisfiable
  _ -> Whole
  where
    part start end = Part start (end - start + 1)

-- first "-" [last], or "-" suffix length
parseRange :: ByteString -> Maybe (Maybe Int64, Maybe Int64)
parseRange text = case C8.break (== '-') (C8.map blank text) of
  (before, after)
    | B.null after -> Nothing
    | otherwise -> do
      first <- number (trim before)
      final <- number (trim (B.drop 1 after))
      if isJust first || isJust final then Just (first, final) else Nothing
  where
    blank '\t' = ' '
    blank character = character
    trim = C8.dropWhile (== ' ') . fst . C8.spanEnd (== ' ')
    number digits
      | B.null digits = Just Nothing
      | C8.all isDigit digits = Just (Just (bounded digits))
      | otherwise = Nothing
    -- Beyond what a file can hold, all numbers are alike.
    bounded digits = case C8.readInteger digits of
      Just (value, _) -> fromInteger (min value (fromIntegral (maxBound :: Int64)))
      Nothing -> 0

parseDate :: ByteString -> Maybe Int64
parseDate text = case unsafeDupablePerformIO (BU.unsafeUseAsCStringLen text (\(at, size) -> readDate (castPtr at) size)) of
  -1 -> Nothing
  seconds -> Just seconds

-- | The value of Last-Modified.
lastModified :: FileFacts -> ByteString
lastModified (FileFacts _ modified) = BI.unsafeCreate dateLength (writeDate (max 0 modified))

-- | The value of Content-Range: the part, or none if it is unsatisfiable.
contentRange :: Maybe (Int64, Int64) -> Int64 -> ByteString
contentRange selected size = C8.pack ("bytes " ++ maybe "*" range selected ++ "/" ++ show size)
  where
    range (start, count) = show start ++ "-" ++ show (start + count - 1)
