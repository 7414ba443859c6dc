-- | Prints a checksum (Adler-32) of every file below a directory. Sixteen files are read at the same time.
module Main (main) where

import Control.Concurrent.Async (concurrently_, replicateConcurrently_)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Monad (replicateM_, unless, void)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Word (Word32)
import Millrace.Directory
import Millrace.File
import Numeric (showHex)
import System.Environment (getArgs)
import System.IO (hFlush, stdout)

main :: IO ()
main = do
  [root] <- getArgs
  waiting <- newTBQueueIO 64
  output <- newMVar ()
  concurrently_ (replicateConcurrently_ 16 (work waiting output)) $ do
    walk root Never $ \entry ->
      unless (entryKind entry /= RegularFile) (atomically (writeTBQueue waiting (Just (entryPath entry))))
    replicateM_ 16 (atomically (writeTBQueue waiting Nothing))
  hFlush stdout

work :: TBQueue (Maybe FilePath) -> MVar () -> IO ()
work waiting output = atomically (readTBQueue waiting) >>= mapM_ one
  where
    one path = do
      sum' <- withFile path ForReading (\file -> checksum file 0 1 0)
      withMVar output (\() -> putStrLn (showHex sum' "" ++ " " ++ path))
      void (work waiting output)

checksum :: File -> Int -> Word32 -> Word32 -> IO Word32
checksum file offset a b = do
  bytes <- readAt file (fromIntegral offset) 262144
  if ByteString.null bytes
    then return (b `shiftL` 16 .|. a)
    else let (a', b') = adler bytes a b in a' `seq` b' `seq` checksum file (offset + ByteString.length bytes) a' b'

adler :: ByteString -> Word32 -> Word32 -> (Word32, Word32)
adler bytes a b = ByteString.foldl' step (a, b) bytes
  where
    step (x, y) byte =
      let x' = (x + fromIntegral byte) `mod` 65521
          y' = (y + x') `mod` 65521
       in x' `seq` y' `seq` (x', y')
