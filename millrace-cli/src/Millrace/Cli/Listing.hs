{-# LANGUAGE OverloadedStrings #-}

-- | The page that lists a directory. Must not know: files.
module Millrace.Cli.Listing
  ( Listed (..),
    renderListing,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import Data.Int (Int64)
import Data.List (sortOn)
import Data.Time.Calendar (Day (..), toGregorian)
import Millrace.Cli.RequestPath (encodeSegment)
import Millrace.Http.Date (Seconds)

-- | A name in the directory.
--
-- @since 0.1.0
data Listed
  = ListedDirectory ByteString
  | -- | With its size in bytes and its time of change.
    ListedFile ByteString Int64 Seconds
  deriving (Eq, Show)

-- | @renderListing names cut entries@: the page for the directory with these names below the root. Directories come first, then
-- files, both sorted by name. Links are relative. Names are escaped, and taken for UTF-8. If only the first names were looked
-- at, @cut@ says how many, and so does the page. O(n log n).
--
-- @since 0.1.0
renderListing :: [ByteString] -> Maybe Int -> [Listed] -> Builder
renderListing names cut entries =
  "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>"
    <> title
    <> "</title></head>\n<body><h1>"
    <> title
    <> "</h1>\n<table>\n"
    <> (if null names then mempty else row "../" "../" "" "")
    <> foldMap render (sortOn key entries)
    <> "</table>\n"
    <> foldMap andMore cut
    <> "</body></html>\n"
  where
    title = escape ("/" <> ByteString.concat (map (<> "/") names))

andMore :: Int -> Builder
andMore count = "<p>&hellip; and more: a page shows the first " <> intDec count <> " names that the file system returns.</p>\n"

key :: Listed -> (Bool, ByteString)
key (ListedDirectory name) = (False, name)
key (ListedFile name _ _) = (True, name)

render :: Listed -> Builder
render entry = case entry of
  ListedDirectory name -> row (link name <> "/") (escape name <> "/") "" ""
  ListedFile name size modified -> row (link name) (escape name) (int64Dec size) (date modified)
  where
    -- With "./", a name that has a colon is not taken for a scheme.
    link name = "./" <> byteString (encodeSegment name)

-- Not formatTime, which would take longer than the rest of the page.
date :: Seconds -> Builder
date seconds = integerDec year <> dash <> two month <> dash <> two day <> char7 ' ' <> clock <> " UTC"
  where
    (days, second) = seconds `divMod` 86400
    (year, month, day) = toGregorian (ModifiedJulianDay (40587 + toInteger days)) -- 1970 began then
    clock = two (fromIntegral (second `div` 3600)) <> colon <> two (minute second) <> colon <> two (fromIntegral (second `mod` 60))
    minute = fromIntegral . (`mod` 60) . (`div` 60)
    dash = char7 '-'
    colon = char7 ':'
    two number = intDec (number `div` 10) <> intDec (number `mod` 10)

row :: Builder -> Builder -> Builder -> Builder -> Builder
row target text size changed =
  "<tr><td><a href=\"" <> target <> "\">" <> text <> "</a></td><td align=\"right\">" <> size <> "</td><td>" <> changed <> "</td></tr>\n"

escape :: ByteString -> Builder
escape text
  | Char8.all isPlain text = byteString text
  | otherwise = foldMap escapeCharacter (Char8.unpack text)
  where
    isPlain character = character /= '&' && character /= '<' && character /= '>' && character /= '"' && character /= '\''
    escapeCharacter character = case character of
      '&' -> "&amp;"
      '<' -> "&lt;"
      '>' -> "&gt;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      _ -> char8 character
