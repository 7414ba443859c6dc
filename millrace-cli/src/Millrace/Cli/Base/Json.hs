-- Must not know: servers.

-- | Writes JSON (RFC 8259).
module Millrace.Cli.Base.Json
  ( Json (..),
    renderJson,
  )
where

import Data.List (intercalate)
import Millrace.Http.JsonString (quote)

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
