-- | Wakes the managers when the run-time system ends.
--
-- @hs_exit@ ends all threads except those in foreign calls, and waits for these. It would wait for a sleeping manager
-- for ever, because it does not notify it. But before it waits, it collects garbage and runs finalizers that are
-- written in C. So a thread that never runs again holds an object with such a finalizer, which wakes the managers. They
-- return from their foreign calls, and end with the run-time system. A wake-up without need is harmless.
module Millrace.Internal.RtsExit
  ( wakeManagersAtExit,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (MVar, newEmptyMVar, takeMVar)
import Control.Monad (void)
import Data.Int (Int64)
import Foreign.ForeignPtr (newForeignPtr, touchForeignPtr)
import Foreign.Ptr (nullPtr, plusPtr)
import Foreign.StablePtr (newStablePtr)
import GHC.Conc (labelThread)
import Millrace.Internal.CoreCalls (c_wake_all)

-- | Arranges that the managers of the loops of this epoch are woken. A fork ends this in the child; each later epoch
-- needs another call.
wakeManagersAtExit :: Int64 -> IO ()
wakeManagersAtExit epoch = do
  never <- newEmptyMVar :: IO (MVar ())
  void (newStablePtr never) -- or the thread would get BlockedIndefinitelyOnMVar
  held <- newForeignPtr c_wake_all (nullPtr `plusPtr` fromIntegral epoch)
  witness <- forkIO (takeMVar never >> touchForeignPtr held)
  labelThread witness "Millrace witness"
