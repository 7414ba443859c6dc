-- | JSON output (RFC 8259). Writes only.
module Millrace.Cli.Json
  ( Json (..)
  , renderJson
  ) where

import Data.Char (ord)
import Data.List (intercalate)
import Numeric (showHex)

-- | A value.
--
-- @since 0.1.0
data Json
  = Null
  | Bool Bool
  | Number Integer
  | String String
  | Array [Json]
  | Object [(String, Json)]
  deriving (Eq, Show)

-- | A value as text, objects and arrays indented, in ASCII: it reads the same in every encoding.
--
-- @since 0.1.0
renderJson :: Json -> String
renderJson = render 0

render :: Int -> Json -> String
render depth value = case value of
  Null -> "null"
  Bool True -> "true"
  Bool False -> "false"
  Number number -> show number
  String text -> quote text
  Array items -> block depth "[" "]" (map (render (depth + 1)) items)
  Object members -> block depth "{" "}" [quote key <> ": " <> render (depth + 1) member | (key, member) <- members]

block :: Int -> String -> String -> [String] -> String
block _ open close [] = open <> close
block depth open close items =
  open <> line (depth + 1) <> intercalate ("," <> line (depth + 1)) items <> line depth <> close
  where
    line indentation = '\n' : replicate (2 * indentation) ' '

quote :: String -> String
quote text = "\"" <> concatMap escape text <> "\""

escape :: Char -> String
escape character
  | character `elem` "\"\\" = ['\\', character]
  | code > 0xffff = unit (0xd7c0 + code `div` 0x400) <> unit (0xdc00 + code `mod` 0x400)
  | code < 0x20 || code > 0x7e = unit code
  | otherwise = [character]
  where
    code = ord character
    unit number = "\\u" <> replicate (4 - length (showHex number "")) '0' <> showHex number ""
