-- Must not know: servers.

-- | Writes values as the text of a file in YAML, one key on each line.
module Millrace.Cli.Config.YamlText
  ( Value (..),
    rendered,
    texts,
  )
where

import Data.Char (isAlpha, isAlphaNum, isAscii, isPrint)
import Data.List (intercalate)

-- | A value to write.
data Value
  = Text String
  | Number Int
  | Truth Bool
  | Items [Value]
  | Keys [(String, Value)]
  deriving (Eq, Show)

-- | All texts in a value, keys too.
texts :: Value -> [String]
texts value = case value of
  Text found -> [found]
  Items values -> concatMap texts values
  Keys entries -> concatMap (\(key, inner) -> key : texts inner) entries
  Number _ -> []
  Truth _ -> []

-- | The lines of a value. A list of single values takes one line.
rendered :: Value -> [String]
rendered value = case value of
  Keys entries -> concatMap entry entries
  Items values ->
    maybe (concatMap item values) (\words' -> ["[" <> intercalate ", " words' <> "]"]) (traverse single values)
  Text found -> [quotedIfNeeded found]
  Number found -> [show found]
  Truth found -> [if found then "true" else "false"]
  where
    entry (key, inner) = case onOneLine inner of
      Just line -> [quotedIfNeeded key <> ": " <> line]
      Nothing -> (quotedIfNeeded key <> ":") : map ("  " <>) (rendered inner)
    item inner = case rendered inner of
      [] -> ["- {}"]
      first : others -> ("- " <> first) : map ("  " <>) others

onOneLine :: Value -> Maybe String
onOneLine value = case (value, rendered value) of
  (Keys _, _) -> Nothing
  (Items values, [line]) | Just _ <- traverse single values -> Just line
  (Items _, _) -> Nothing
  (_, lines') -> Just (concat lines')

single :: Value -> Maybe String
single value = case value of
  Keys _ -> Nothing
  Items _ -> Nothing
  _ -> Just (concat (rendered value))

-- Without quotes only if it cannot be taken for anything but a text. Between single quotes nothing is an escape, so
-- that paths stay as they are.
quotedIfNeeded :: String -> String
quotedIfNeeded found
  | isPlain = found
  | all isPrint found = "'" <> concatMap (\letter -> if letter == '\'' then "''" else [letter]) found <> "'"
  | otherwise = "\"" <> concatMap escaped found <> "\""
  where
    isPlain =
      any beginsText (take 1 found)
        && all isUsual found
        && found `notElem` ["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"]
    beginsText letter = isAscii letter && isAlpha letter || letter == '/'
    isUsual letter = isAscii letter && isAlphaNum letter || letter `elem` "-_./"
    escaped letter
      | letter `elem` "\"\\" = ['\\', letter]
      | isPrint letter = [letter]
      | otherwise = "\\U" <> hexadecimal (fromEnum letter)
    hexadecimal code = reverse (take 8 (map (\rest -> "0123456789ABCDEF" !! (rest `mod` 16)) (iterate (`div` 16) code)))
