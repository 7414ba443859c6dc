-- Must not know: HTTP.

-- | Writes JSON (RFC 8259).
module Millrace.Cli.Base.Json
  ( Json (..),
    renderJson,
    jsonString,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (Builder, byteString, char7, string7)
import Data.Char (ord)
import Data.List (intercalate)
import qualified Data.Text as Text
import qualified Data.Text.Encoding as Text
import qualified Data.Text.Encoding.Error as Text
import Numeric (showHex)

-- | A JSON value.
data Json
  = Null
  | Bool Bool
  | Number Integer
  | String String
  | Array [Json]
  | Object [(String, Json)]
  deriving (Eq, Show)

-- | A value as text, with objects and arrays indented, but arrays of numbers in one line. The text is ASCII, so it is
-- the same in every encoding.
renderJson :: Json -> String
renderJson = render 0

render :: Int -> Json -> String
render depth value = case value of
  Null -> "null"
  Bool True -> "true"
  Bool False -> "false"
  Number number -> show number
  String text -> quote text
  Array items@(_ : _) | all isNumber items -> "[" <> intercalate ", " (map (render depth) items) <> "]"
  Array items -> block depth "[" "]" (map (render (depth + 1)) items)
  Object members -> block depth "{" "}" [quote key <> ": " <> render (depth + 1) member | (key, member) <- members]

isNumber :: Json -> Bool
isNumber value = case value of
  Number _ -> True
  _ -> False

block :: Int -> String -> String -> [String] -> String
block _ open close [] = open <> close
block depth open close items =
  open <> line (depth + 1) <> intercalate ("," <> line (depth + 1)) items <> line depth <> close
  where
    line indentation = '\n' : replicate (2 * indentation) ' '

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
