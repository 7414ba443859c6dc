{-# LANGUAGE LambdaCase #-}

-- | The files in which another file is stored in a coding: @NAME.br@ beside @NAME@. Must not know: servers, requests.
module Millrace.Cli.CodedFile (withCoded, alternativesOf, codedNames, isOfSameState) where

import Data.ByteString (ByteString)
import Millrace.Cli.ContentCoding (Coding (..))
import Millrace.Cli.Entry
import Millrace.Cli.Root
import Millrace.Cli.Variant

-- | Hands over the file in this coding, if there is one beside a file with these names.
--
-- @since 0.1.0
withCoded :: Root -> [ByteString] -> OpenFile -> Coding -> (OpenFile -> IO a) -> IO (Maybe a)
withCoded root names file coding use =
  withEntry root (codedNames names coding) $ \case
    Right (File found) | found `isOfSameState` file -> Just <$> use found
    _ -> pure Nothing

-- | Whether clients get a file that has stored variants, or has none, in other forms.
--
-- @since 0.1.0
alternativesOf :: Bool -> Alternatives
alternativesOf hasOthers = if hasOthers then StoredForClient else SameForAll

-- | The names of a file in a coding.
--
-- @since 0.1.0
codedNames :: [ByteString] -> Coding -> [ByteString]
codedNames names coding = init names ++ [last names <> codingExtension coding]

-- | A coded file that is older belongs to an earlier state of the file. Two seconds are allowed, because both may have been copied
-- without their times: cp -r has an order of its own, and takes a second for some thousand files. Some compressors (brotli 1.0.9,
-- pigz) copy whole seconds of the file's time, and some archives (zip) even seconds.
--
-- @since 0.1.0
isOfSameState :: OpenFile -> OpenFile -> Bool
isOfSameState found file = modified found + 2000000000 >= modified file
  where
    modified = toInteger . stateModified . openFileState
