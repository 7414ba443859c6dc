{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: files.

-- | Entity tags (RFC 9110 section 8.8.3) and lists of them.
module Millrace.Http.EntityTag
  ( EntityTag (..),
    Strength (..),
    TagList (..),
    renderTag,
    parseTag,
    parseTagList,
    sameStrong,
    sameWeak,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Http.FieldSyntax (membersMax)

-- | Whether equal tags promise equal bytes, or only an equal meaning.
data Strength = Strong | Weak
  deriving (Eq, Show)

-- | A tag, with the text between the quotes.
data EntityTag = EntityTag Strength ByteString
  deriving (Eq, Show)

-- | The value of If-Match or If-None-Match: @*@ or tags.
data TagList = AnyTag | Tags [EntityTag]
  deriving (Eq, Show)

-- | The tag as a header has it.
--
-- >>> renderTag (EntityTag Weak "a1")
-- "W/\"a1\""
renderTag :: EntityTag -> ByteString
renderTag (EntityTag Strong text) = "\"" <> text <> "\""
renderTag (EntityTag Weak text) = "W/\"" <> text <> "\""

-- | Reads exactly one tag.
parseTag :: ByteString -> Maybe EntityTag
parseTag text = case takeTag text of
  Just (tag, "") -> Just tag
  _ -> Nothing

-- | Reads a list. 'Nothing' if any part of it is malformed, or if there are more than 'membersMax' tags or commas. A
-- tag may contain a comma, so the list cannot be split first. Empty elements are skipped (RFC 9110 section 5.6.1.2).
-- O(length).
parseTagList :: ByteString -> Maybe TagList
parseTagList text
  | trim text == "*" = Just AnyTag
  | Char8.count '"' text > 2 * membersMax || Char8.count ',' text > membersMax = Nothing
  | otherwise = Tags <$> elements (skip text)
  where
    elements "" = Just []
    elements rest = do
      (tag, afterTag) <- takeTag rest
      case Char8.uncons (Char8.dropWhile isBlank afterTag) of
        Nothing -> Just [tag]
        Just (',', more) -> (tag :) <$> elements (skip more)
        Just _ -> Nothing
    skip = Char8.dropWhile (\c -> isBlank c || c == ',')
    trim = Char8.dropWhileEnd isBlank . Char8.dropWhile isBlank

isBlank :: Char -> Bool
isBlank c = c == ' ' || c == '\t'

takeTag :: ByteString -> Maybe (EntityTag, ByteString)
takeTag text = case Char8.stripPrefix "W/" text of
  Just quoted -> takeQuoted Weak quoted
  Nothing -> takeQuoted Strong text

takeQuoted :: Strength -> ByteString -> Maybe (EntityTag, ByteString)
takeQuoted strength quoted = do
  (inside, rest) <- Char8.span isTagCharacter <$> Char8.stripPrefix "\"" quoted
  afterQuote <- Char8.stripPrefix "\"" rest
  Just (EntityTag strength inside, afterQuote)
  where
    isTagCharacter c = c == '!' || (c >= '#' && c /= '\DEL')

-- | Strong comparison (RFC 9110 section 8.8.3.2): a weak tag is equal to nothing.
sameStrong :: EntityTag -> EntityTag -> Bool
sameStrong (EntityTag Strong left) (EntityTag Strong right) = left == right
sameStrong _ _ = False

-- | Weak comparison: the strength does not matter.
sameWeak :: EntityTag -> EntityTag -> Bool
sameWeak (EntityTag _ left) (EntityTag _ right) = left == right
