{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: servers, files.

-- | Reads documents in YAML, and reports all mistakes in them together, with their positions.
module Millrace.Cli.Config.Document
  ( -- * Mistakes
    Mistake (..),
    mistakeAt,
    renderMistake,

    -- * Positions
    Position,
    positionsOfText,

    -- * Values
    Reader,
    readDocument,
    located,
    text,
    choice,
    yesOrNo,
    number,
    nonEmptyText,
    refined,
    oneOrMany,
    oneOrMore,
    list,
    pairs,
    alternatives,

    -- * Mappings
    Fields,
    mapping,
    required,
    optional,
    withDefault,
    section,
    anyOf,
    anyOrNone,
    checked,
    checkedAt,
  )
where

import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import Data.Foldable (toList)
import Data.List (intercalate, partition, sortOn)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import qualified Data.Text as Text
import Millrace.Cli.Config.Suggestion (didYouMean, nearest)
import Millrace.Cli.Config.Yaml

-- | A mistake in a document. Lines and columns count from 1.
data Mistake = Mistake
  { mistakeLine :: Int,
    mistakeColumn :: Int,
    mistakeText :: String
  }
  deriving (Eq, Ord, Show)

-- | A mistake at a position.
mistakeAt :: Position -> String -> Mistake
mistakeAt position = Mistake (positionLine position) (positionColumn position)

-- | @FILE:LINE:COLUMN: TEXT@, as compilers write it.
renderMistake :: FilePath -> Mistake -> String
renderMistake file mistake =
  intercalate ":" [file, show (mistakeLine mistake), show (mistakeColumn mistake)] <> ": " <> mistakeText mistake

-- | Reads a value.
newtype Reader a = Reader {runReader :: Node -> Checked a}

instance Functor Reader where
  fmap f (Reader run) = Reader (fmap f . run)

-- All mistakes are collected, not only the first one.
newtype Checked a = Checked (Either [Mistake] a)

instance Functor Checked where
  fmap f (Checked outcome) = Checked (fmap f outcome)

instance Applicative Checked where
  pure = Checked . Right
  Checked (Left these) <*> Checked (Left others) = Checked (Left (these <> others))
  Checked (Left these) <*> _ = Checked (Left these)
  Checked (Right f) <*> Checked outcome = Checked (fmap f outcome)

wrong :: Position -> String -> Checked a
wrong position said = Checked (Left [mistakeAt position said])

-- | Reads a document. The mistakes are in the order of their positions. A document without content is an empty mapping.
readDocument :: Reader a -> ByteString -> Either [Mistake] a
readDocument reader bytes = case parseYaml bytes of
  Left (NotYaml position said) -> Left [mistakeAt position said]
  Right [] -> readDocument reader "{}"
  Right [node] -> outcomeOf (runReader reader node)
  Right (_ : node : _) -> Left [mistakeAt (positionOf node) "a second document begins here; a file has one"]
  where
    outcomeOf (Checked outcome) = first (sortOn (\mistake -> (mistakeLine mistake, mistakeColumn mistake))) outcome

-- | The positions at which a document has this text as a value of one of these keys, in their order.
positionsOfText :: [String] -> String -> ByteString -> [Position]
positionsOfText keys wanted = either (const []) (concatMap (positions "")) . parseYaml
  where
    positions key node = case node of
      Scalar position (Text found) -> [position | Text.unpack found == wanted, Text.unpack key `elem` keys]
      Scalar _ _ -> []
      Sequence _ nodes -> concatMap (positions key) nodes
      Mapping _ entries -> concat [positions inner value | (Scalar _ (Text inner), value) <- entries]

-- | A value and its position.
located :: Reader a -> Reader (Position, a)
located (Reader run) = Reader (\node -> (,) (positionOf node) <$> run node)

-- | A text. YAML distinguishes numbers from texts. A whole number is taken for the text that was written.
text :: Reader String
text = Reader $ \node -> case node of
  Scalar _ (Text found) -> pure (Text.unpack found)
  Scalar _ (Whole found) -> pure (show found)
  _ -> wrong (positionOf node) ("a text is wanted here, not " <> described node)

described :: Node -> String
described node = case node of
  Scalar _ Null -> "nothing"
  Scalar _ (Truth _) -> "true or false (quotes make it a text)"
  Scalar _ (Fraction _) -> "a number with a fraction (quotes make it a text)"
  Scalar _ (Whole _) -> "a number"
  Scalar _ _ -> "a text"
  Mapping {} -> "a mapping"
  Sequence {} -> "a list"

-- | A text of at least one character.
nonEmptyText :: Reader String
nonEmptyText =
  refined text (\found -> if null found then Left "a text is wanted here; this one is empty" else Right found)

-- | A value that passes a check. For other values the check returns the text of the mistake.
refined :: Reader a -> (a -> Either String b) -> Reader b
refined (Reader run) check = Reader $ \node -> case run node of
  Checked (Left mistakes) -> Checked (Left mistakes)
  Checked (Right found) -> either (wrong (positionOf node)) pure (check found)

-- | One of several words.
choice :: [(String, a)] -> Reader a
choice words' = refined text $ \word -> maybe (Left (unknown word)) Right (lookup word words')
  where
    names = map fst words'
    unknown word = "'" <> word <> "' is none of: " <> intercalate ", " names <> foldMap meant (nearest names word)
    meant name = ". Did you mean '" <> name <> "'?"

-- | @true@ or @false@.
yesOrNo :: Reader Bool
yesOrNo = Reader $ \node -> case node of
  Scalar _ (Truth found) -> pure found
  _ -> wrong (positionOf node) "true or false is wanted here"

-- | A whole number from this one to that one.
number :: Integer -> Integer -> Reader Integer
number low high = Reader $ \node -> case node of
  Scalar _ (Whole found) | found >= low && found <= high -> pure found
  _ -> wrong (positionOf node) ("a number from " <> show low <> " to " <> show high <> " is wanted here")

-- | A list.
list :: Reader a -> Reader [a]
list (Reader run) = Reader $ \node -> case node of
  Sequence _ nodes -> traverse run nodes
  _ -> wrong (positionOf node) ("a list is wanted here, not " <> described node)

-- | A list, or one of its elements alone. Not empty.
oneOrMany :: Reader a -> Reader [a]
oneOrMany = fmap toList . oneOrMore

-- | A list, or one of its elements alone. The type says that there is at least one.
oneOrMore :: Reader a -> Reader (NonEmpty a)
oneOrMore (Reader run) = Reader $ \node -> case node of
  Sequence _ [] -> wrong (positionOf node) "this list is empty"
  Sequence _ (one : others) -> traverse run (one :| others)
  _ -> pure <$> run node

-- | A mapping from any keys, in the order in which it is written.
pairs :: Reader a -> Reader [(String, a)]
pairs (Reader run) = Reader $ \node -> case node of
  Mapping _ entries -> traverse pair entries
  _ -> wrong (positionOf node) ("a mapping is wanted here, not " <> described node)
  where
    pair (key, value) = (,) <$> runReader text key <*> run value

-- | The first reader for a single value, the second one for a mapping.
alternatives :: Reader a -> Reader a -> Reader a
alternatives (Reader single) (Reader mapped) = Reader $ \node -> case node of
  Mapping {} -> mapped node
  _ -> single node

-- | A reader of the keys of a mapping.
data Fields a = Fields [Text] (Position -> Map Text Node -> Checked a)

instance Functor Fields where
  fmap f (Fields names run) = Fields names (\position -> fmap f . run position)

instance Applicative Fields where
  pure value = Fields [] (\_ _ -> pure value)
  Fields names run <*> Fields others also =
    Fields (names <> others) (\position found -> run position found <*> also position found)

-- | A mapping with these keys and no others. The text says what it describes: @"a site"@.
mapping :: String -> Fields a -> Reader a
mapping what (Fields names run) = Reader $ \node -> case node of
  Mapping position entries -> do
    let (known, unknown) = partition (isKnown . fst) entries
    traverse (complain . fst) unknown
      *> run position (Map.fromList [(key, value) | (Scalar _ (Text key), value) <- known])
  _ -> wrong (positionOf node) (what <> " is a mapping, not " <> described node)
  where
    isKnown (Scalar _ (Text key)) = key `elem` names
    isKnown _ = False
    complain key = case key of
      Scalar position (Text name) ->
        wrong
          position
          (what <> " has no key '" <> Text.unpack name <> "'" <> others (Text.unpack name)) ::
          Checked ()
      _ -> wrong (positionOf key) (what <> " has no such key")
    others = didYouMean (map Text.unpack names)

-- | A key that must be there.
required :: Text -> Reader a -> Fields a
required name (Reader run) = Fields [name] $ \position found ->
  maybe (wrong position ("the key '" <> Text.unpack name <> "' is missing here")) run (Map.lookup name found)

-- | A key that may be missing.
optional :: Text -> Reader a -> Fields (Maybe a)
optional name (Reader run) = Fields [name] (\_ found -> traverse run (Map.lookup name found))

-- | A key that may be missing, and the value that it then has.
withDefault :: a -> Text -> Reader a -> Fields a
withDefault value name reader = fromMaybe value <$> optional name reader

-- | A key whose value is a mapping. If the key is missing, all keys of the mapping are. The text names the mapping.
section :: Text -> String -> Fields a -> Fields a
section name what fields@(Fields _ run) = Fields [name] $ \position found ->
  maybe (run position Map.empty) (runReader (mapping what fields)) (Map.lookup name found)

-- | Exactly one of several keys.
anyOf :: [(Text, Reader a)] -> Fields a
anyOf choices =
  checked (maybe (Left ("one of these keys is wanted here: " <> listed choices)) Right) (anyOrNone choices)

-- | At most one of several keys.
anyOrNone :: [(Text, Reader a)] -> Fields (Maybe a)
anyOrNone choices =
  Fields (map fst choices) $ \_ found ->
    case [(node, reader) | (name, reader) <- choices, Just node <- [Map.lookup name found]] of
      [] -> pure Nothing
      [(node, reader)] -> Just <$> runReader reader node
      _ : (node, _) : _ -> wrong (positionOf node) ("only one of these keys may be here: " <> listed choices)

listed :: [(Text, a)] -> String
listed = intercalate ", " . map (Text.unpack . fst)

-- | Fields that pass a check together. For others the check returns the text of the mistake, which is about the
-- whole mapping.
checked :: (a -> Either String b) -> Fields a -> Fields b
checked check = checkedAt (first (Nothing,) . check)

-- | Fields that pass a check together, which says where the mistake is. 'Nothing': in the whole mapping.
checkedAt :: (a -> Either (Maybe Position, String) b) -> Fields a -> Fields b
checkedAt check (Fields names run) = Fields names $ \position found -> case run position found of
  Checked (Left mistakes) -> Checked (Left mistakes)
  Checked (Right value) -> either (\(other, said) -> wrong (fromMaybe position other) said) pure (check value)
