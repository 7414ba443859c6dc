-- |
-- The thread that serves a connection, as seen by threads that have to end it. Must not know: connections.
module Millrace.Http.Threads.Worker (Worker, newWorker, atWork, isThisThread, killWorker, interruptWorker) where

import Control.Concurrent (ThreadId, forkIO, mkWeakThreadId, myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (ThreadKilled), Exception, SomeException, catch, finally, mask_, try)
import Control.Monad (void)
import System.Mem.Weak (Weak, deRefWeak, finalize)

-- | Full while the thread may be killed. A thread that kills it empties the MVar for that moment. The reference is
-- weak: a strong one would keep a thread that waits for ever from getting @BlockedIndefinitelyOnMVar@.
newtype Worker = Worker (MVar (Weak ThreadId))
  deriving (Eq)

-- | A worker that has not begun.
newWorker :: IO Worker
newWorker = Worker <$> newEmptyMVar

-- | Runs an action in this thread and returns how it ended. Does not throw. 'killWorker' can interrupt only this
-- action, and nothing before or after it, because the thread may belong to somebody else and continue. Call it once,
-- masked.
atWork :: Worker -> IO a -> IO (Either SomeException a)
atWork (Worker running) action = do
  myThreadId >>= mkWeakThreadId >>= putMVar running
  outcome <- try action
  (outcome <*) <$> leave
  where
    -- Waits only if another thread is just killing this one. That exception interrupts the wait, and so may others.
    --
    -- GHC keeps a weak reference as long as the thread lives, used or not, and visits it in every collection. Threads
    -- of a pool live on, so it is ended here.
    leave = (Right () <$ (takeMVar running >>= finalize)) `catch` \failure -> Left failure <$ leave

-- | Whether the calling thread is the one that runs the action.
isThisThread :: Worker -> IO Bool
isThisThread (Worker running) = do
  self <- myThreadId
  tryReadMVar running >>= maybe (return False) (fmap (== Just self) . deRefWeak)

-- | Throws @ThreadKilled@ to the thread if it runs its action: see 'interruptWorker'.
killWorker :: Worker -> IO ()
killWorker = interruptWorker ThreadKilled

-- | Throws an exception to the thread if it runs its action. Does so from a new thread, because @throwTo@ blocks
-- until the target can receive the exception, and that may be never.
interruptWorker :: Exception failure => failure -> Worker -> IO ()
interruptWorker failure (Worker running) = void . forkIO . mask_ $ tryTakeMVar running >>= mapM_ interrupt
  where
    interrupt thread = (deRefWeak thread >>= mapM_ (`throwTo` failure)) `finally` putMVar running thread
