{-# LANGUAGE CApiFFI #-}

-- | GHC retires operating system threads while reads that they submitted wait for the disk; nobody may notice.
module FileChurnSpec (spec) where

import Control.Exception (bracket_, finally)
import Control.Monad (forM, forM_, unless, void)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.Types (CInt (..), CLong (..), CUInt (..))
import Millrace.File
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
  it "all return what was written" $
    withoutLeaks $
      inDirectory $ \directory -> do
        over <- newIORef False
        withFile (directory </> "large") ForWriting $ \file -> do
          forM_ [0 .. blocks `div` 16 - 1] $ \i -> writeAt file (fromIntegral (i * 65536)) (bytesAt (i * 65536) 65536)
          sync file
        counts <- withFile (directory </> "large") ForReading $ \file -> do
          churners <- forM [1 .. 100] $ \seed -> start $ do
            random <- newRandom seed
            untilTrue over $ do
              void $ between random 2000 20000 >>= c_usleep . fromIntegral
              between random 1 3000 >>= Timer.threadDelay
          forgetter <- start $ untilTrue over $ forget file >> Timer.threadDelay 5000
          readers <- forM [1 .. 32] $ \seed -> start $ do
            random <- newRandom (1000 + seed)
            count <- newIORef (0 :: Int)
            untilTrue over $ do
              block <- below random blocks
              bytes <- readAt file (fromIntegral (block * 4096)) 4096
              void $ checkFrom (block * 4096) bytes
              require (ByteString.length bytes == 4096) "a block that is not whole"
              modifyIORef' count (+ 1)
            readIORef count
          -- However busy the machine is, the test ends after this time.
          pause 2000000 `finally` writeIORef over True
          mapM_ finish (forgetter : churners)
          mapM finish readers
        minimum counts `shouldSatisfy` (> 0)

blocks :: Int
blocks = 8192

-- | Drops what the system keeps of the file in memory.
forget :: File -> IO ()
forget file = case fileDescriptor file of
  Fd number -> void (c_fadvise number 0 0 dontNeed)
  where
    dontNeed = 4

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
