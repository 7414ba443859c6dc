-- | Prints what is appended to a file, like tail -F: also after the file was replaced, as in log rotation.
module Main (main) where

import Control.Exception (bracket, catch)
import Control.Monad (unless, void, when)
import qualified Data.ByteString as ByteString
import Data.Int (Int64)
import Millrace.Directory (Status (..), fileStatus, status)
import Millrace.File
import Millrace.Terminal (writeStandardOutput)
import Millrace.Watch
import System.Environment (getArgs)
import System.FilePath (takeDirectory)

main :: IO ()
main = do
  [path] <- getArgs
  -- The directory is watched before the file is opened, so that no change is missed.
  withWatch [takeDirectory path] Flat (`followAll` path)

followAll :: Watch -> FilePath -> IO ()
followAll watch path = do
  exists <- bracket (openFile path ForReading) closeFile (\file -> True <$ follow watch path file 0) `catch` missing
  unless exists (void (nextEvents watch))
  followAll watch path
  where
    missing :: IOError -> IO Bool
    missing _ = return False

-- Until the path refers to another file.
follow :: Watch -> FilePath -> File -> Int64 -> IO ()
follow watch path file offset = do
  bytes <- readAt file offset 65536
  if not (ByteString.null bytes)
    then writeStandardOutput bytes >> follow watch path file (offset + fromIntegral (ByteString.length bytes))
    else do
      here <- fileStatus file
      isSame <- (\there -> statusInode there == statusInode here) <$> status path
      -- If the file was truncated, begins again.
      let next = if statusSize here < offset then 0 else offset
      when isSame (nextEvents watch >> follow watch path file next)
