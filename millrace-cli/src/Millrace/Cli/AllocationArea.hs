-- | The memory in which the run-time system allocates (its @-A@), and when it becomes real: an operating system gives a
-- page when it is first written to. Knows nothing of servers.
module Millrace.Cli.AllocationArea
  ( newPopulation
  , populate
  ) where

import Control.Concurrent (forkOn, getNumCapabilities)
import Control.Monad (forM_, when)
import Data.IORef (atomicModifyIORef', newIORef, readIORef, writeIORef)
import Foreign.Storable (sizeOf)
import GHC.RTS.Flags (getGCFlags, minAllocAreaSize)

-- | An action to be run whenever something begins. When as many things have begun as the number says, it starts 'populate'
-- on every capability, once: a program that has little to do does not take the memory before it needs it.
--
-- @since 0.1.0
newPopulation :: Int -> IO (IO ())
newPopulation enough = do
  begun <- newIORef 0
  pure $ do
    -- Afterwards only read: it is shared by all capabilities.
    before <- readIORef begun
    when (before < enough) $ do
      count <- atomicModifyIORef' begun (\others -> (others + 1, others + 1))
      when (count == enough) $ do
        capabilities <- getNumCapabilities
        forM_ [0 .. capabilities - 1] (`forkOn` populate)

-- | Writes to the whole allocation area of the capability on which it runs, which does nothing else meanwhile: for eleven
-- milliseconds, for 32 MiB on a virtual machine. Without it the same time is spent by those whose requests come first, a
-- microsecond and a half for each two of them.
--
-- @since 0.1.0
populate :: IO ()
populate = do
  bytes <- (* blockBytes) . fromIntegral . minAllocAreaSize <$> getGCFlags
  latest <- newIORef []
  forM_ [1 .. bytes `quot` cellBytes] $ \number -> writeIORef latest [number]
  where
    blockBytes = 4096 :: Int
    cellBytes = 5 * sizeOf blockBytes -- a list's cell and a boxed number
