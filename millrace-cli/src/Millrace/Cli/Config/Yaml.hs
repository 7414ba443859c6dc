{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, files.

-- | Parses a text in YAML into a tree whose nodes have positions. The library libyaml does the work.
module Millrace.Cli.Config.Yaml
  ( Position (..),
    Node (..),
    Scalar (..),
    positionOf,
    parseYaml,
    NotYaml (..),
  )
where

import Conduit (runConduitRes, sinkList, (.|))
import Control.Exception (try)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isDigit, isHexDigit, isOctDigit)
import Data.List (isInfixOf)
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Data.Text (Text)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import qualified Data.Text.Read as Read
import System.IO.Unsafe (unsafePerformIO)
import Text.Libyaml
  ( Event (..),
    MarkedEvent (..),
    Style (..),
    Tag (..),
    YamlException (..),
    YamlMark (..),
    decodeMarked,
  )

-- | A position in a text. Lines and columns, which are characters, count from 1.
data Position = Position
  { positionLine :: !Int,
    positionColumn :: !Int
  }
  deriving (Eq, Ord, Show)

-- | A part of a text, and the position at which it begins. The keys of a mapping are in the order of the text, and no
-- scalar is a key twice.
data Node
  = Scalar !Position !Scalar
  | Sequence !Position [Node]
  | Mapping !Position [(Node, Node)]
  deriving (Eq, Show)

-- | A value that is neither a list nor a mapping, classified by the core schema of YAML 1.2.
data Scalar
  = Null
  | Truth !Bool
  | Whole !Integer
  | -- | A number that is not a whole one.
    Fraction !Text
  | Text !Text
  deriving (Eq, Ord, Show)

-- | The position at which a part begins.
positionOf :: Node -> Position
positionOf part = case part of
  Scalar position _ -> position
  Sequence position _ -> position
  Mapping position _ -> position

-- | The position at which a text is not YAML, and the reason.
data NotYaml = NotYaml !Position !String
  deriving (Eq, Show)

-- | The documents of a text. Takes time in proportion to its length, about 0.4 s for a megabyte.
parseYaml :: ByteString -> Either NotYaml [Node]
parseYaml bytes = case eventsOf bytes of
  Left problem -> Left (explained bytes problem)
  Right events -> documents events

-- libyaml's state lives as long as this call, and the result depends on the text alone.
eventsOf :: ByteString -> Either YamlException [MarkedEvent]
eventsOf bytes = unsafePerformIO (try (runConduitRes (decodeMarked bytes .| sinkList)))
{-# NOINLINE eventsOf #-}

explained :: ByteString -> YamlException -> NotYaml
explained bytes problem = case problem of
  YamlException said -> NotYaml (Position 1 1) ("this is not YAML: " <> said)
  YamlParseException said context mark
    | "scanning an alias" `isInfixOf` context -> NotYaml (starBefore bytes (positionAt mark)) starNeedsQuotes
    | otherwise ->
      NotYaml (positionAt mark) ("this is not YAML: " <> said <> (if null context then "" else ", " <> context))

starNeedsQuotes :: String
starNeedsQuotes = "a text that begins with * must be in quotes"

-- libyaml reports the end of an alias. Messages name the position of its star.
starBefore :: ByteString -> Position -> Position
starBefore bytes (Position line column) = case Text.breakOnEnd "*" (Text.take column text) of
  ("", _) -> Position line column
  (before, _) -> Position line (Text.length before)
  where
    text = foldMap (decodeUtf8With lenientDecode) (take 1 (drop (line - 1) (Char8.lines bytes)))

positionAt :: YamlMark -> Position
positionAt mark = Position (yamlLine mark + 1) (yamlColumn mark + 1)

------------------------------------------------------------------------------------------------------------------------
-- From events to trees

-- The part that has been read, and the events after it.
type Step a = Either NotYaml (a, [MarkedEvent])

-- The parts that have names, for those that refer to them.
type Anchors = Map String Node

documents :: [MarkedEvent] -> Either NotYaml [Node]
documents events = case events of
  [] -> Right []
  MarkedEvent EventDocumentStart _ _ : inside -> do
    ((found, _), others) <- node Map.empty inside
    (found :) <$> documents others
  _ : others -> documents others

node :: Anchors -> [MarkedEvent] -> Step (Node, Anchors)
node anchors events = case events of
  MarkedEvent event mark _ : others -> case event of
    EventScalar bytes tag style anchor -> do
      scalar <- scalarOf position tag style (decodeUtf8With lenientDecode bytes)
      Right (named anchor anchors (Scalar position scalar), others)
    EventSequenceStart _ _ anchor -> do
      ((found, inner), rest) <- elements anchors others
      Right (named anchor inner (Sequence position found), rest)
    EventMappingStart _ _ anchor -> do
      ((found, inner), rest) <- entries anchors Set.empty others
      Right (named anchor inner (Mapping position found), rest)
    EventAlias name ->
      maybe
        (Left (NotYaml position starNeedsQuotes))
        (\found -> Right ((moved found, anchors), others))
        (Map.lookup name anchors)
    _ -> Left (NotYaml position "this is not YAML")
    where
      position = positionAt mark
      -- Mistakes in it are reported here, where it is used.
      moved found = case found of
        Scalar _ scalar -> Scalar position scalar
        Sequence _ inner -> Sequence position inner
        Mapping _ inner -> Mapping position inner
  [] -> Left (NotYaml (Position 1 1) "this is not YAML")

named :: Maybe String -> Anchors -> Node -> (Node, Anchors)
named anchor anchors found = (found, maybe anchors (\name -> Map.insert name found anchors) anchor)

elements :: Anchors -> [MarkedEvent] -> Step ([Node], Anchors)
elements anchors events = case events of
  MarkedEvent EventSequenceEnd _ _ : others -> Right (([], anchors), others)
  _ -> do
    ((found, known), others) <- node anchors events
    ((more, all'), rest) <- elements known others
    Right ((found : more, all'), rest)

entries :: Anchors -> Set.Set Scalar -> [MarkedEvent] -> Step ([(Node, Node)], Anchors)
entries anchors keys events = case events of
  MarkedEvent EventMappingEnd _ _ : others -> Right (([], anchors), others)
  _ -> do
    ((key, known), afterKey) <- node anchors events
    keys' <- case key of
      Scalar position scalar
        | scalar `Set.member` keys -> Left (NotYaml position "this key is already in the mapping")
        | otherwise -> Right (Set.insert scalar keys)
      _ -> Right keys
    ((value, known'), afterValue) <- node known afterKey
    ((more, all'), rest) <- entries known' keys' afterValue
    Right (((key, value) : more, all'), rest)

scalarOf :: Position -> Tag -> Style -> Text -> Either NotYaml Scalar
scalarOf position tag style text = case tag of
  NoTag -> Right (if style `elem` [Plain, PlainNoTag, Any] then resolved text else Text text)
  StrTag -> Right (Text text)
  UriTag "!" -> Right (Text text)
  UriTag name -> Left (NotYaml position ("the tag " <> name <> " has no meaning here"))
  _ -> Right (resolved text)

-- The core schema (YAML 1.2.2, section 10.3).
resolved :: Text -> Scalar
resolved text
  | text `elem` ["", "~", "null", "Null", "NULL"] = Null
  | text `elem` ["true", "True", "TRUE"] = Truth True
  | text `elem` ["false", "False", "FALSE"] = Truth False
  | Just digits <- Text.stripPrefix "0x" text, isAll isHexDigit digits = Whole (valueOf Read.hexadecimal digits)
  | Just digits <- Text.stripPrefix "0o" text,
    isAll isOctDigit digits =
    Whole (Text.foldl' (\value digit -> value * 8 + fromIntegral (fromEnum digit - fromEnum '0')) 0 digits)
  | isAll isDigit unsigned = Whole (valueOf (Read.signed Read.decimal) text)
  | isFraction unsigned || unsigned `elem` [".inf", ".Inf", ".INF"] || text `elem` [".nan", ".NaN", ".NAN"] =
    Fraction text
  | otherwise = Text text
  where
    unsigned = if Text.take 1 text `elem` ["-", "+"] then Text.drop 1 text else text
    valueOf reader = either (const 0) fst . reader

isAll :: (Char -> Bool) -> Text -> Bool
isAll test text = not (Text.null text) && Text.all test text

-- Digits with a point among them or before them, or with an exponent.
isFraction :: Text -> Bool
isFraction text = isNumber && hasGoodExponent
  where
    (mantissa, exponent') = Text.break (`elem` ("eE" :: String)) text
    (whole, point) = Text.span isDigit mantissa
    fraction = Text.drop 1 point
    isNumber
      | Text.null point = not (Text.null whole)
      | otherwise =
        Text.isPrefixOf "." point && Text.all isDigit fraction && not (Text.null whole && Text.null fraction)
    hasGoodExponent
      | Text.null exponent' = True
      | otherwise = isAll isDigit (if Text.take 1 digits `elem` ["-", "+"] then Text.drop 1 digits else digits)
    digits = Text.drop 1 exponent'
