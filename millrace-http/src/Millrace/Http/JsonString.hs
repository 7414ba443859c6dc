{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- |
-- Strings of JSON (RFC 8259). They are ASCII, so they are the same in every encoding.
module Millrace.Http.JsonString (jsonString, quote) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (Builder, byteString, char7, string7)
import Data.Char (ord)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Numeric (showHex)

-- | A text as a JSON string, in ASCII.
quote :: String -> String
quote text = "\"" <> concatMap escape text <> "\""

-- | A string with its quotes, from bytes that are probably UTF-8. Bytes that are not UTF-8 become U+FFFD. O(length).
jsonString :: ByteString -> Builder
jsonString bytes
  | ByteString.all isPlain bytes = char7 '"' <> byteString bytes <> char7 '"'
  | otherwise = string7 (quote (Text.unpack (Text.decodeUtf8With Text.lenientDecode bytes)))
  where
    isPlain byte = byte >= 0x20 && byte < 0x7f && byte /= 0x22 && byte /= 0x5c

escape :: Char -> String
escape character
  | character `elem` "\"\\" = ['\\', character]
  | code > 0xffff = unit (0xd7c0 + code `div` 0x400) <> unit (0xdc00 + code `mod` 0x400)
  | code < 0x20 || code > 0x7e = unit code
  | otherwise = [character]
  where
    code = ord character
    unit number = "\\u" <> replicate (4 - length (showHex number "")) '0' <> showHex number ""
