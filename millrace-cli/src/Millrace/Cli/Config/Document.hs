{-# LANGUAGE OverloadedStrings #-}

-- | Documents in YAML whose mistakes are told with their places, all at once. Must not know: servers, files.
module Millrace.Cli.Config.Document
  ( -- * Mistakes
    Mistake (..),
    mistakeAt,
    renderMistake,

    -- * Places
    Place,
    placesOfText,

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

-- | What is wrong, and where. Lines and columns count from 1.
data Mistake = Mistake
  { mistakeLine :: Int,
    mistakeColumn :: Int,
    mistakeText :: String
  }
  deriving (Eq, Ord, Show)

-- | A mistake at a place.
mistakeAt :: Place -> String -> Mistake
mistakeAt place = Mistake (placeLine place) (placeColumn place)

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

wrong :: Place -> String -> Checked a
wrong place said = Checked (Left [mistakeAt place said])

-- | Reads a document. The mistakes are in the order of their places. A document without content is an empty mapping.
readDocument :: Reader a -> ByteString -> Either [Mistake] a
readDocument reader bytes = case parseYaml bytes of
  Left (NotYaml place said) -> Left [mistakeAt place said]
  Right [] -> readDocument reader "{}"
  Right [node] -> outcomeOf (runReader reader node)
  Right (_ : node : _) -> Left [mistakeAt (placeOf node) "a second document begins here; a file has one"]
  where
    outcomeOf (Checked outcome) = first (sortOn (\mistake -> (mistakeLine mistake, mistakeColumn mistake))) outcome

-- | Where a document has this text as a value, in the order of the places.
placesOfText :: String -> ByteString -> [Place]
placesOfText wanted = either (const []) (concatMap places) . parseYaml
  where
    places node = case node of
      Scalar place (Text found) -> [place | Text.unpack found == wanted]
      Scalar _ _ -> []
      Sequence _ nodes -> concatMap places nodes
      Mapping _ entries -> concatMap (places . snd) entries

-- | A value, and where it is.
located :: Reader a -> Reader (Place, a)
located (Reader run) = Reader (\node -> (,) (placeOf node) <$> run node)

-- | A text. Numbers and truth values, which YAML tells from texts, count as what was written, where that is
-- unambiguous.
text :: Reader String
text = Reader $ \node -> case node of
  Scalar _ (Text found) -> pure (Text.unpack found)
  Scalar _ (Whole found) -> pure (show found)
  _ -> wrong (placeOf node) ("a text is wanted here, not " <> described node)

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

-- | A value that passes a check. What the check says of others becomes the mistake.
refined :: Reader a -> (a -> Either String b) -> Reader b
refined (Reader run) check = Reader $ \node -> case run node of
  Checked (Left mistakes) -> Checked (Left mistakes)
  Checked (Right found) -> either (wrong (placeOf node)) pure (check found)

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
  _ -> wrong (placeOf node) "true or false is wanted here"

-- | A whole number from this one to that one.
number :: Integer -> Integer -> Reader Integer
number low high = Reader $ \node -> case node of
  Scalar _ (Whole found) | found >= low && found <= high -> pure found
  _ -> wrong (placeOf node) ("a number from " <> show low <> " to " <> show high <> " is wanted here")

-- | A list.
list :: Reader a -> Reader [a]
list (Reader run) = Reader $ \node -> case node of
  Sequence _ nodes -> traverse run nodes
  _ -> wrong (placeOf node) ("a list is wanted here, not " <> described node)

-- | A list, or one of its elements alone. Not empty.
oneOrMany :: Reader a -> Reader [a]
oneOrMany = fmap toList . oneOrMore

-- | The same, and its type says that there is one.
oneOrMore :: Reader a -> Reader (NonEmpty a)
oneOrMore (Reader run) = Reader $ \node -> case node of
  Sequence _ [] -> wrong (placeOf node) "this list is empty"
  Sequence _ (one : others) -> traverse run (one :| others)
  _ -> pure <$> run node

-- | A mapping from any keys, in the order in which it is written.
pairs :: Reader a -> Reader [(String, a)]
pairs (Reader run) = Reader $ \node -> case node of
  Mapping _ entries -> traverse pair entries
  _ -> wrong (placeOf node) ("a mapping is wanted here, not " <> described node)
  where
    pair (key, value) = (,) <$> runReader text key <*> run value

-- | The first reader for a single value, the second one for a mapping.
alternatives :: Reader a -> Reader a -> Reader a
alternatives (Reader single) (Reader mapped) = Reader $ \node -> case node of
  Mapping {} -> mapped node
  _ -> single node

-- | What is read from the keys of a mapping.
data Fields a = Fields [Text] (Place -> Map Text Node -> Checked a)

instance Functor Fields where
  fmap f (Fields names run) = Fields names (\place -> fmap f . run place)

instance Applicative Fields where
  pure value = Fields [] (\_ _ -> pure value)
  Fields names run <*> Fields others also =
    Fields (names <> others) (\place found -> run place found <*> also place found)

-- | A mapping with these keys and no others. The text says what it describes: @"a site"@.
mapping :: String -> Fields a -> Reader a
mapping what (Fields names run) = Reader $ \node -> case node of
  Mapping place entries -> do
    let (known, unknown) = partition (isKnown . fst) entries
    traverse (complain . fst) unknown *> run place (Map.fromList [(key, value) | (Scalar _ (Text key), value) <- known])
  _ -> wrong (placeOf node) (what <> " is a mapping, not " <> described node)
  where
    isKnown (Scalar _ (Text key)) = key `elem` names
    isKnown _ = False
    complain key = case key of
      Scalar place (Text name) ->
        wrong
          place
          (what <> " has no key '" <> Text.unpack name <> "'" <> didYouMean (map Text.unpack names) (Text.unpack name)) ::
          Checked ()
      _ -> wrong (placeOf key) (what <> " has no such key")

-- | A key that must be there.
required :: Text -> Reader a -> Fields a
required name (Reader run) = Fields [name] $ \place found ->
  maybe (wrong place ("the key '" <> Text.unpack name <> "' is missing here")) run (Map.lookup name found)

-- | A key that may be missing.
optional :: Text -> Reader a -> Fields (Maybe a)
optional name (Reader run) = Fields [name] (\_ found -> traverse run (Map.lookup name found))

-- | A key that has a value without being written.
withDefault :: a -> Text -> Reader a -> Fields a
withDefault value name reader = fromMaybe value <$> optional name reader

-- | A key with a mapping of its own. If it is missing, so are all keys of the mapping. The text says what it describes.
section :: Text -> String -> Fields a -> Fields a
section name what fields@(Fields _ run) = Fields [name] $ \place found ->
  maybe (run place Map.empty) (runReader (mapping what fields)) (Map.lookup name found)

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
      _ : (node, _) : _ -> wrong (placeOf node) ("only one of these keys may be here: " <> listed choices)

listed :: [(Text, a)] -> String
listed = intercalate ", " . map (Text.unpack . fst)

-- | Fields that pass a check together. What it says of others becomes a mistake of the whole mapping.
checked :: (a -> Either String b) -> Fields a -> Fields b
checked check = checkedAt (first ((,) Nothing) . check)

-- | Fields that pass a check together, which says where the mistake is. 'Nothing': in the whole mapping.
checkedAt :: (a -> Either (Maybe Place, String) b) -> Fields a -> Fields b
checkedAt check (Fields names run) = Fields names $ \place found -> case run place found of
  Checked (Left mistakes) -> Checked (Left mistakes)
  Checked (Right value) -> either (\(other, said) -> wrong (fromMaybe place other) said) pure (check value)
