-- | Actions whose caller continues at a deadline, even while they wait uninterruptibly, for instance for a disk.
--
-- The action runs in a separate thread. So everything that it uses, for instance a buffer that the system writes into,
-- stays alive until the action has ended, even after its caller has continued.
module Millrace.Internal.InTime (inTime) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (newEmptyMVar, takeMVar, tryPutMVar)
import Control.Exception (SomeException, onException, throwIO, try)
import Control.Monad (void)
import Data.IORef (atomicModifyIORef', newIORef)
import Foreign.C.Error (eTIMEDOUT)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Errors (failure)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Timer (microsUntil, withTimer)
import Millrace.Internal.TimerTable (Action (..))

-- | The state of an action.
data ActionState r
  = Running
  | Over (Either SomeException r)
  | -- | No thread waits for it any more.
    Abandoned

-- | @inTime deadline attempted object dispose action@ runs an action masked, until the deadline. If the action has not
-- ended by then, or the caller is interrupted, the action is interrupted and its caller continues. If it returns a
-- result nevertheless, @dispose@ gets it, masked, in another thread.
inTime :: Deadline -> String -> String -> (r -> IO ()) -> IO r -> IO r
inTime deadline attempted object dispose action
  | deadline == noDeadline = action
  | otherwise = handOver release $ do
    stage <- newIORef Running
    signal <- newEmptyMVar
    let fire = void (tryPutMVar signal ())
    worker <- forkIO $ do
      outcome <- try action
      before <- atomicModifyIORef' stage (advance outcome)
      case before of
        Abandoned -> mapM_ release outcome
        _ -> fire
    let leave = do
          before <- atomicModifyIORef' stage abandon
          case before of
            Over outcome -> return (Just outcome)
            _ -> Nothing <$ forkIO (killThread worker)
        waitInTime = microsUntil deadline >>= \delay -> withTimer delay (Perform fire) (takeMVar signal)
    waitInTime `onException` (leave >>= mapM_ (mapM_ release))
    leave >>= maybe (throwIO (failure attempted object eTIMEDOUT)) (either throwIO return)
  where
    -- Dispose of it in a thread that nothing interrupts: the exception for the worker may still be on its way to the
    -- worker.
    release = void . forkIO . dispose
    abandon now = (Abandoned, now)
    advance outcome now = case now of
      Abandoned -> (Abandoned, Abandoned)
      _ -> (Over outcome, now)
