-- | The memory in which the run-time system allocates (its option @-A@). An operating system provides a page only when the page is
-- first written to; this module asks for all pages at once. Must not know: servers.
module Millrace.Cli.AllocationArea (newPopulation) where

import Control.Concurrent (forkIO)
import Control.Monad (void, when)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Foreign.ForeignPtr (mallocForeignPtrBytes, withForeignPtr)
import Millrace.Cli.System (takeMapping)

-- | An action that counts its calls. At the call with this number it asks for the memory, once. So a program that has little to do
-- does not take memory that it does not need.
--
-- @since 0.1.0
newPopulation :: Int -> IO (IO ())
newPopulation enough = do
  begun <- newIORef 0
  pure $ do
    -- All capabilities share this reference. After the last count it is only read.
    before <- readIORef begun
    when (before < enough) $ do
      count <- atomicModifyIORef' begun (\others -> (others + 1, others + 1))
      when (count == enough) (void (forkIO populate))

-- Asks for the memory of all allocation areas, which lie in one mapping with the rest of the heap. Other threads continue
-- meanwhile. Otherwise the first requests would take that time.
populate :: IO ()
populate = mallocForeignPtrBytes 1 >>= (`withForeignPtr` takeMapping)
