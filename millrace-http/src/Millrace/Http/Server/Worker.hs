-- |
-- The thread that serves a connection, for whoever has to end it. Must not know: connections.
module Millrace.Http.Server.Worker (Worker, newWorker, atWork, isThisThread, killWorker) where

import Control.Concurrent (ThreadId, forkIO, killThread, mkWeakThreadId, myThreadId)
import Control.Concurrent.MVar
import Control.Exception (SomeException, catch, finally, mask_, try)
import Control.Monad (void)
import System.Mem.Weak (Weak, deRefWeak)

-- | Filled while the thread may be killed, but for the moment in which somebody does so. A reference that is not weak
-- would keep a thread that waits for what nobody will give it from being told so.
newtype Worker = Worker (MVar (Weak ThreadId))

-- | One that is not at work yet.
newWorker :: IO Worker
newWorker = Worker <$> newEmptyMVar

-- | Runs an action in this thread, and says how it ended: does not throw. 'killWorker' reaches it meanwhile, and neither what
-- comes before it nor what follows: the thread may be somebody's who goes on. To be called once, masked.
atWork :: Worker -> IO a -> IO (Either SomeException a)
atWork (Worker place) action = do
  myThreadId >>= mkWeakThreadId >>= putMVar place
  outcome <- try action
  (outcome <*) <$> leave
  where
    -- Waits for nobody but one who is killing us. He interrupts that, and others may.
    leave = (Right () <$ takeMVar place) `catch` \failure -> Left failure <$ leave

-- | Is it this thread that is at work?
isThisThread :: Worker -> IO Bool
isThisThread (Worker place) = do
  self <- myThreadId
  tryReadMVar place >>= maybe (return False) (fmap (== Just self) . deRefWeak)

-- | Throws @ThreadKilled@ to the thread if it is at work, by a thread of its own: throwing waits until the target can
-- receive it, and that may be never.
killWorker :: Worker -> IO ()
killWorker (Worker place) = void . forkIO . mask_ $ tryTakeMVar place >>= mapM_ kill
  where
    kill thread = (deRefWeak thread >>= mapM_ killThread) `finally` putMVar place thread
