{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: files.

-- | The Range header (RFC 9110 section 14).
module Millrace.Http.ByteRange
  ( ByteRange (..),
    Selection (..),
    selectRanges,
    rangeLength,
    contentRange,
    unsatisfiedRange,
  )
where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.Char (isDigit)
import qualified Data.List as List
import Millrace.Http.FieldSyntax (listMembers)

-- | Positions of the first and of the last byte.
data ByteRange = ByteRange
  { firstByte :: !Integer,
    lastByte :: !Integer
  }
  deriving (Eq, Show)

-- | The bytes that a Range header asks for.
data Selection
  = -- | The answer is as if there were no Range header.
    Whole
  | -- | The answer is a 416.
    Unsatisfiable
  | Part ByteRange
  | -- | Two or more ranges that do not touch, in the order of the request.
    Parts [ByteRange]
  deriving (Eq, Show)

-- A range before the size is known.
data Spec
  = FromTo Integer Integer
  | From Integer
  | Suffix Integer

-- More ranges than this in one request are ignored, as RFC 9110 section 14.2 allows: each costs a seek and some hundred
-- bytes of framing.
maximumRanges :: Int
maximumRanges = 32

-- | The bytes that a Range header selects from a representation of this size. A malformed header, an unknown unit and
-- too many ranges select the whole. Ranges that overlap or touch are joined, so that no byte is sent twice.
--
-- >>> selectRanges 1000 "bytes=0-99,-100"
-- Parts [ByteRange {firstByte = 0, lastByte = 99},ByteRange {firstByte = 900, lastByte = 999}]
selectRanges :: Integer -> ByteString -> Selection
selectRanges size header = case parseSpecs header of
  Nothing -> Whole
  Just specs
    | length specs > maximumRanges -> Whole
    -- No Content-Range can express zero bytes. All of nothing is sent as such, as other servers do.
    | size == 0 && any beginsWithin specs -> Whole
    | not (any (isSatisfiable size) specs) -> Unsatisfiable
    | otherwise -> case List.foldl' join [] (map (resolve size) (filter (isSatisfiable size) specs)) of
      [range] -> Part range
      ranges -> Parts ranges

-- Does it begin where an empty representation ends?
beginsWithin :: Spec -> Bool
beginsWithin spec = case spec of
  FromTo start _ -> start == 0
  From start -> start == 0
  Suffix count -> count > 0

isSatisfiable :: Integer -> Spec -> Bool
isSatisfiable size spec = case spec of
  FromTo start _ -> start < size
  From start -> start < size
  Suffix count -> count > 0

resolve :: Integer -> Spec -> ByteRange
resolve size spec = case spec of
  FromTo start end -> ByteRange start (min end (size - 1))
  From start -> ByteRange start (size - 1)
  Suffix count -> ByteRange (max 0 (size - count)) (size - 1)

-- Joins a range with those that it touches, at the position of the first of them, or adds it at the end.
join :: [ByteRange] -> ByteRange -> [ByteRange]
join ranges range = case break (touches range) ranges of
  (before, []) -> before ++ [range]
  (before, touched : after) -> List.foldl' join before (union touched range : after)

touches :: ByteRange -> ByteRange -> Bool
touches left right = firstByte left <= lastByte right + 1 && firstByte right <= lastByte left + 1

union :: ByteRange -> ByteRange -> ByteRange
union left right = ByteRange (min (firstByte left) (firstByte right)) (max (lastByte left) (lastByte right))

parseSpecs :: ByteString -> Maybe [Spec]
parseSpecs header = do
  let (unit, rest) = Char8.break (== '=') header
  guard (CI.mk unit == "bytes" && not (Char8.null rest))
  specs <- listMembers [Char8.drop 1 rest] >>= traverse parseSpec
  guard (not (null specs))
  Just specs

parseSpec :: ByteString -> Maybe Spec
parseSpec text = do
  let (start, rest) = Char8.break (== '-') text
  end <- Char8.stripPrefix "-" rest
  case (Char8.null start, Char8.null end) of
    (True, _) -> Suffix <$> parsePosition end
    (False, True) -> From <$> parsePosition start
    (False, False) -> do
      range@(FromTo low high) <- FromTo <$> parsePosition start <*> parsePosition end
      guard (low <= high)
      Just range

-- Beyond any file size the value does not matter. Converting a long row of digits would take time quadratic in its
-- length.
parsePosition :: ByteString -> Maybe Integer
parsePosition digits = do
  guard (not (Char8.null digits) && Char8.all isDigit digits)
  let significant = Char8.dropWhile (== '0') digits
  Just (if Char8.length significant > 18 then 10 ^ (18 :: Int) else maybe 0 fst (Char8.readInteger significant))

-- | In bytes.
rangeLength :: ByteRange -> Integer
rangeLength range = lastByte range - firstByte range + 1

-- | The Content-Range header of a part of a representation of this size.
contentRange :: Integer -> ByteRange -> ByteString
contentRange size (ByteRange start end) = Char8.pack ("bytes " <> show start <> "-" <> show end <> "/" <> show size)

-- | The Content-Range header of a 416 answer.
unsatisfiedRange :: Integer -> ByteString
unsatisfiedRange size = Char8.pack ("bytes */" <> show size)
