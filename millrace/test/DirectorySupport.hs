{-# LANGUAGE OverloadedStrings #-}

-- | Files and folders for the specs of directories, files and watches.
module DirectorySupport (contents, inTree, readAll, write) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Millrace.File
import Millrace.File.Temporary
import Support

write :: FilePath -> ByteString -> IO ()
write path bytes = withFile path ForWriting (\file -> writeAt file 0 bytes)

contents :: FilePath -> IO ByteString
contents path = withFile path ForReading (`readAll` 0)

readAll :: File -> Int -> IO ByteString
readAll file from = ByteString.concat <$> go (fromIntegral from)
  where
    go offset = do
      part <- readAt file offset 1000000
      if ByteString.null part then return [] else (part :) <$> go (offset + fromIntegral (ByteString.length part))

-- Makes a folder on the disk of the working directory, because /tmp may be in memory.
inTree :: (FilePath -> IO ()) -> IO ()
inTree test = withoutLeaks (withTemporaryDirectory "." "millrace-test" test)
