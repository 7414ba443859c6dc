{-# LANGUAGE RankNTypes #-}

-- Must not know: loops, timers.

-- | Callbacks that are due, and the threads that run them.
--
-- One thread runs them one after the other, as long as each ends before the manager looks again. A thread for each
-- would cost several times as much as most callbacks. When one blocks or computes for long, another thread runs those
-- behind it.
--
-- The threads are pinned to the capability of the manager, because the manager's @yield@ lets only threads of the same
-- capability run. When they could migrate, a manager alone on its capability started thread after thread for nothing: a
-- million callbacks on two cores took between 0.2 and 19 s.
module Millrace.Internal.CallbackQueue
  ( CallbackQueue,
    newCallbackQueue,
    enqueue,
    WaitingCallbacks (..),
    attend,
  )
where

import Control.Concurrent (forkOnWithUnmask, myThreadId, threadCapability)
import Control.Exception (catch, mask_)
import Control.Monad (unless, void, when)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import GHC.Conc (childHandler)

data QueuedCallbacks = QueuedCallbacks
  { -- | the number of callbacks that have been taken so far
    taken :: !Int,
    first :: [IO ()],
    -- | the last one first
    later :: [IO ()]
  }

data CallbackQueue = CallbackQueue
  { waiting :: !(IORef QueuedCallbacks),
    -- | threads that take callbacks
    running :: !(IORef Int),
    -- | its value at the last 'attend'; only the manager uses it
    takenBefore :: !(IORef Int)
  }

newCallbackQueue :: IO CallbackQueue
newCallbackQueue = CallbackQueue <$> newIORef (QueuedCallbacks 0 [] []) <*> newIORef 0 <*> newIORef 0

-- | Adds callbacks, the last one first. Does not block.
enqueue :: CallbackQueue -> [IO ()] -> IO ()
enqueue queue callbacks = unless (null callbacks) $
  atomicModifyIORef' (waiting queue) $ \now -> (now {later = callbacks ++ later now}, ())

-- | Whether callbacks wait to be run. If so, the manager must not sleep.
data WaitingCallbacks = NoneWait | SomeWait
  deriving (Eq)

-- | The manager calls this whenever the other threads have run. Starts a thread for waiting callbacks if none makes
-- progress.
attend :: CallbackQueue -> IO WaitingCallbacks
attend queue = do
  now <- readIORef (waiting queue)
  if null (first now) && null (later now)
    then return NoneWait
    else do
      before <- readIORef (takenBefore queue)
      threads <- readIORef (running queue)
      when (threads == 0 || taken now == before) $ startThread queue
      writeIORef (takenBefore queue) (taken now)
      return SomeWait
{-# INLINE attend #-}

startThread :: CallbackQueue -> IO ()
startThread queue = mask_ $ do
  atomicModifyIORef' (running queue) (\n -> (n + 1, ()))
  (here, _) <- myThreadId >>= threadCapability
  void $ forkOnWithUnmask here (runCallbacks queue)

runCallbacks :: CallbackQueue -> (forall a. IO a -> IO a) -> IO ()
runCallbacks queue unmask = go
  where
    go = do
      next <- atomicModifyIORef' (waiting queue) takeOne
      case next of
        Nothing -> atomicModifyIORef' (running queue) (\n -> (n - 1, ()))
        -- Its exceptions are reported as at the end of any thread.
        Just callback -> (unmask callback `catch` childHandler) >> go

takeOne :: QueuedCallbacks -> (QueuedCallbacks, Maybe (IO ()))
takeOne now = case first now of
  callback : rest -> (now {taken = taken now + 1, first = rest}, Just callback)
  [] -> case reverse (later now) of
    callback : rest -> (QueuedCallbacks (taken now + 1) rest [], Just callback)
    [] -> (now, Nothing)
