-- | A witness of the run-time system's end, which wakes the managers then.
--
-- @hs_exit@ ends all threads but those in foreign calls, and waits for these: for a manager that sleeps, for ever. It
-- says nothing to them, but it collects the garbage when the threads have ended, and runs the finalizers that are written
-- in C, before it waits. So a thread that waits for nothing holds something that has such a finalizer. Woken, the
-- managers find the run-time system ending, and end with it. To be woken without need does them no harm.
module Millrace.Internal.Witness
  ( postWitness,
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
import Millrace.Internal.Foreign (c_wake_all)

-- | For the loops of this epoch. A fork ends the witness in the child; the loops of later epochs have others.
postWitness :: Int64 -> IO ()
postWitness epoch = do
  never <- newEmptyMVar :: IO (MVar ())
  void (newStablePtr never) -- or the thread would be told that it waits in vain
  held <- newForeignPtr c_wake_all (nullPtr `plusPtr` fromIntegral epoch)
  witness <- forkIO (takeMVar never >> touchForeignPtr held)
  labelThread witness "Millrace witness"
