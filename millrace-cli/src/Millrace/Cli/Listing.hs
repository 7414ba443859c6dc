{-# LANGUAGE OverloadedStrings #-}

-- | The page that lists a directory. Knows nothing of file systems.
module Millrace.Cli.Listing
  ( Listed (..)
  , renderListing
  ) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import qualified Data.ByteString.Char8 as Char8
import Data.List (sortOn)
import Data.Time (defaultTimeLocale, formatTime)
import Data.Time.Clock.POSIX (POSIXTime, posixSecondsToUTCTime)
import Millrace.Cli.RequestPath (encodeSegment)

-- | A name in the directory.
--
-- @since 0.1.0
data Listed
  = ListedDirectory ByteString
  | -- | with its size in bytes and the time when it was changed
    ListedFile ByteString Integer POSIXTime
  deriving (Eq, Show)

-- | The page for the directory of these names below the root: directories first, then files, each by name. Links are
-- relative; names are escaped, and taken for UTF-8. O(n log n).
--
-- @since 0.1.0
renderListing :: [ByteString] -> [Listed] -> Builder
renderListing names entries =
  "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>"
    <> title
    <> "</title></head>\n<body><h1>"
    <> title
    <> "</h1>\n<table>\n"
    <> (if null names then mempty else row "../" "../" "" "")
    <> foldMap render (sortOn key entries)
    <> "</table></body></html>\n"
  where
    title = escape ("/" <> ByteString.concat (map (<> "/") names))

key :: Listed -> (Bool, ByteString)
key (ListedDirectory name) = (False, name)
key (ListedFile name _ _) = (True, name)

render :: Listed -> Builder
render entry = case entry of
  ListedDirectory name -> row (link name <> "/") (escape name <> "/") "" ""
  ListedFile name size modified -> row (link name) (escape name) (integerDec size) (date modified)
  where
    -- "./": a name with a colon is no scheme.
    link name = "./" <> byteString (encodeSegment name)
    date = string7 . formatTime defaultTimeLocale "%Y-%m-%d %H:%M:%S UTC" . posixSecondsToUTCTime

row :: Builder -> Builder -> Builder -> Builder -> Builder
row target text size date =
  "<tr><td><a href=\"" <> target <> "\">" <> text <> "</a></td><td align=\"right\">" <> size <> "</td><td>" <> date <> "</td></tr>\n"

escape :: ByteString -> Builder
escape = foldMap escapeCharacter . Char8.unpack
  where
    escapeCharacter character = case character of
      '&' -> "&amp;"
      '<' -> "&lt;"
      '>' -> "&gt;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      _ -> char8 character
