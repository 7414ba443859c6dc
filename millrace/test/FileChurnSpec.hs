{-# LANGUAGE CApiFFI #-}

-- | GHC retires operating system threads while reads that they submitted wait for the disk. The reads must complete
-- nevertheless.
--
-- Reads must wait for the disk, as those of a file that is larger than the memory. This file is small, so that the test
-- is short: what the system keeps of it in memory is dropped every five milliseconds, and half of the readers read past
-- the memory (O_DIRECT). In the end the test asks the system how much came from the disk.
module FileChurnSpec (spec) where

import Control.Exception (bracket_, finally, try)
import Control.Monad (forM, forM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr)
import Data.IORef
import Foreign.C.Error (eINVAL)
import Foreign.C.Types (CInt (..), CLong (..), CUInt (..))
import Millrace.File
import Millrace.File.Access
import qualified Millrace.Timer as Timer
import Support
import System.Directory (createDirectory, getCurrentDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd (..))
import Test.Hspec hiding (after, before)

foreign import capi safe "unistd.h usleep" c_usleep :: CUInt -> IO CInt

foreign import capi safe "fcntl.h posix_fadvise" c_fadvise :: CInt -> CLong -> CLong -> CInt -> IO CInt

spec :: Spec
spec = describe "reads of a file that is not in memory, while threads end" $
  it "all return what was written" $ do
    (isOnDisk, fromDisk) <- withoutLeaks $
      inDirectory $ \directory -> do
        let path = directory </> "large"
        over <- newIORef False
        withFile path ForWriting $ \file -> do
          forM_ [0 .. blocks `div` 16 - 1] $ \i -> writeAt file (fromIntegral (i * 65536)) (bytesAt (i * 65536) 65536)
          sync file
        withFile path ForReading $ \file -> withPastMemory path file $ \other -> do
          probe <- directMemory 4096
          unread <- readFromDisk
          void (readIntoMemory other 0 probe 4096)
          before <- readFromDisk
          churners <- forM [1 .. 100] $ \seed -> start $ do
            random <- newRandom seed
            untilTrue over $ do
              void $ between random 2000 20000 >>= c_usleep . fromIntegral
              between random 1 3000 >>= Timer.threadDelay
          forgetter <- start $ untilTrue over $ forget file >> Timer.threadDelay 5000
          readers <- forM churnedReaders $ \seed -> start $ do
            random <- newRandom (1000 + seed)
            count <- newIORef (0 :: Int)
            memory <- directMemory 4096
            untilTrue over $ do
              block <- below random blocks
              let offset = fromIntegral (block * 4096)
              bytes <-
                if even seed
                  then readAt file offset 4096
                  else fromForeignPtr memory 0 <$> readIntoMemory other offset memory 4096
              void $ checkFrom (block * 4096) bytes
              require (ByteString.length bytes == 4096) "a block that is not whole"
              modifyIORef' count (+ 1)
            readIORef count
          -- However busy the machine is, the test ends after this time.
          pause 2000000 `finally` writeIORef over True
          mapM_ finish (forgetter : churners)
          counts <- mapM finish readers
          minimum counts `shouldSatisfy` (> 0)
          after <- readFromDisk
          return (before > unread, (after - before) `div` 4096)
    -- How many reads find their block in memory depends on how busy the machine is.
    if isOnDisk
      then fromDisk `shouldSatisfy` (> length churnedReaders)
      else pendingWith "all reads were right, but this file system does not tell that it reads from a disk"

blocks :: Int
blocks = 8192

-- Half of the readers, by their seeds, read past the memory.
churnedReaders :: [Int]
churnedReaders = [1 .. 32]

-- | Drops what the system keeps of the file in memory.
forget :: File -> IO ()
forget file = case fileDescriptor file of
  Fd number -> void (c_fadvise number 0 0 dontNeed)
  where
    dontNeed = 4

-- | Opens the file to be read past the memory where the file system can.
withPastMemory :: FilePath -> File -> (File -> IO a) -> IO a
withPastMemory path file use = do
  opened <- try (openFileWith path ReadOnly [Direct])
  case opened of
    Right other -> use other `finally` closeFile other
    Left problem -> if hasCode eINVAL problem then use file else ioError problem

-- | How many bytes were read from disks for this process; 0 if the system does not tell.
readFromDisk :: IO Int
readFromDisk = do
  known <- try (readFile "/proc/self/io" >>= \text -> length text `seq` return text) :: IO (Either IOError String)
  return (sum [read value | text <- either (const []) pure known, ["read_bytes:", value] <- map words (lines text)])

untilTrue :: IORef Bool -> IO () -> IO ()
untilTrue over action = do
  done <- readIORef over
  unless done (action >> untilTrue over action)

-- Not in /tmp, which may be in memory.
inDirectory :: (FilePath -> IO a) -> IO a
inDirectory test = do
  here <- getCurrentDirectory
  process <- getProcessID
  let directory = here </> ("millrace-churn-" ++ show process)
  bracket_ (createDirectory directory) (removeDirectoryRecursive directory) (test directory)
