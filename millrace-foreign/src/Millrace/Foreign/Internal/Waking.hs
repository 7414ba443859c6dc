-- | The wakers: one thread for each capability that has made a call. It wakes the threads whose calls have ended or
-- request a callback.
--
-- Waking a thread from outside takes a lock and, if its capability is idle, a switch between OS threads. So only the
-- waker is woken from outside, and it then wakes all the others.
module Millrace.Foreign.Internal.Waking (ensureWaker) where

import Control.Concurrent (forkOn)
import Control.Concurrent.MVar (MVar, newEmptyMVar, takeMVar, tryPutMVar)
import Control.Exception (mask_)
import Control.Monad (unless, void, when)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.StablePtr (StablePtr, deRefStablePtr)
import Foreign.Storable (peek)
import GHC.Conc (PrimMVar, newStablePtrPrimMVar)
import Millrace.Foreign.Internal.Bindings

-- | Starts the waker of a capability unless it runs already.
ensureWaker :: CInt -> IO ()
ensureWaker capability = do
  missing <- c_waker_is_missing capability
  when (missing /= 0) . mask_ $ do
    bell <- newEmptyMVar
    void (forkOn (fromIntegral capability) (work capability bell))

-- This thread gets no exceptions: no other thread has its ThreadId, and its MVar stays reachable.
work :: CInt -> MVar () -> IO ()
work capability bell = do
  newStablePtrPrimMVar bell >>= serve capability
  takeMVar bell
  work capability bell

-- Repeats until there is no call to wake. Then waits for the MVar, which C fills at the next call.
serve :: CInt -> StablePtr PrimMVar -> IO ()
serve capability bell = do
  first <- c_wanted_take capability bell
  unless (first == nullPtr) $ do
    with first wakeAll
    serve capability bell

wakeAll :: Ptr (Ptr Wanted) -> IO ()
wakeAll list = do
  signal <- c_wanted_next list >>= deRefStablePtr
  void (tryPutMVar signal ())
  left <- peek list
  unless (left == nullPtr) (wakeAll list)
