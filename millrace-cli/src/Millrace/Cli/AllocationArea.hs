-- | The memory in which the run-time system allocates (its @-A@), and when it becomes real: an operating system gives a
-- page when it is first written to. Must not know: servers.
module Millrace.Cli.AllocationArea (newPopulation) where

import Control.Concurrent (forkIO)
import Control.Monad (void, when)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Foreign.ForeignPtr (mallocForeignPtrBytes, withForeignPtr)
import Millrace.Cli.System (takeMapping)

-- | An action to be run whenever something begins. When as many things have begun as the number says, it has the memory taken,
-- once: a program that has little to do does not take it before it needs it.
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
      when (count == enough) (void (forkIO populate))

-- Takes the memory of all allocation areas, which are in one mapping with whatever else the heap has. Other threads go on
-- meanwhile. Without it the same time is spent by those whose requests come first.
populate :: IO ()
populate = mallocForeignPtrBytes 1 >>= (`withForeignPtr` takeMapping)
