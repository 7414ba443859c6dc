{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | What is in a directory, for its listing. Must not know: servers, requests.
module Millrace.Cli.ListedDirectory (listed) where

import Control.Exception (try)
import Data.ByteString (ByteString)
import Millrace.Cli.Entry
import Millrace.Cli.Listing
import Millrace.Cli.RequestPath
import Millrace.Cli.Root
import System.IO.Error (isFullError, isPermissionError)

-- | The entries of a directory that would be served, and how many names were read if there are more.
--
-- @since 0.1.0
listed :: Root -> [ByteString] -> FilePath -> IO (Either Problem (Maybe Int, [Listed]))
listed root names directory = do
  found <- try (directoryNames (listedMax + 1) directory)
  case found of
    Left exception -> pure (Left (problemOf exception))
    Right all' -> do
      let (kept, others) = splitAt listedMax all'
          cut = if null others then Nothing else Just listedMax
      fmap (cut,) <$> examineAll [] (filter isServable kept)
  where
    -- Not mapM: its stack would be walked at every park.
    examineAll known [] = pure (Right known)
    examineAll known (name : names') = examine name >>= either (pure . Left) (\entry -> examineAll (maybe known (: known) entry) names')
    examine name =
      glimpse directory name >>= \case
        DirectorySeen modified -> pure (Right (Just (ListedDirectory name (Just (seconds modified)))))
        FileSeen size modified -> pure (Right (Just (file name size modified)))
        NothingSeen -> pure (Right Nothing)
        MustBeLookedUp -> lookedUp name
    lookedUp name = withEntry root (names ++ [name]) $ \case
      Right (Directory found) -> Right . Just . ListedDirectory name . changed <$> glimpse found "."
      Right (File found) -> pure (Right (Just (file name (stateSize (openFileState found)) (stateModified (openFileState found)))))
      Left OutOfDescriptors -> pure (Left OutOfDescriptors)
      Left _ -> pure (Right Nothing)
    changed seen = case seen of
      DirectorySeen modified -> Just (seconds modified)
      _ -> Nothing
    file name size modified = ListedFile name size (seconds modified)
    seconds = (`div` 1000000000)
    problemOf exception
      | isPermissionError exception = Unreadable
      | isFullError exception = OutOfDescriptors
      | otherwise = Faulty exception

-- How many names are read at most. Nobody reads a longer page, and each name costs a look-up.
listedMax :: Int
listedMax = 10000
