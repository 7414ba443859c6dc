-- |
-- A pool of parked threads. A fork makes the scheduler switch threads soon, in the middle of a batch of requests;
-- waking a parked thread does not. Must not know: connections.
module Millrace.Http.Threads (Threads, newThreads, runOn, runHere) where

import Control.Concurrent (forkOn, getNumCapabilities, myThreadId, threadCapability)
import Control.Concurrent.MVar
import Control.Monad (void, when)
import Data.Array (Array, bounds, inRange, listArray, (!))
import Data.IORef

-- | The parked threads of a server, by capability. Threads of capabilities that are added later are not kept.
newtype Threads = Threads (Array Int (IORef Parked))

-- The number of parked threads, and for each the MVar that gets its next action.
data Parked = Parked !Int [MVar (IO ())]

-- | A pool without threads. Parked threads end when the pool is garbage.
newThreads :: IO Threads
newThreads = do
  count <- getNumCapabilities
  Threads . listArray (0, count - 1) <$> mapM (const (newIORef (Parked 0 []))) [1 .. count]

-- The most parked threads of a capability. Each takes a kilobyte.
parkedMax :: Int
parkedMax = 1024

parkedOn :: Threads -> Int -> Maybe (IORef Parked)
parkedOn (Threads parked) capability
  | inRange (bounds parked) capability = Just (parked ! capability)
  | otherwise = Nothing

-- | Runs an action in a thread of this capability. The action must not throw. Call this masked, so that no thread is
-- lost.
runOn :: Threads -> Int -> IO () -> IO ()
runOn threads capability action = do
  parked <- maybe (return Nothing) (`atomicModifyIORef'` unpark) (parkedOn threads capability)
  case parked of
    Just place -> putMVar place action
    Nothing -> do
      place <- newEmptyMVar
      void (forkOn capability (serve place action))
  where
    unpark (Parked count (first : others)) = (Parked (count - 1) others, Just first)
    unpark none = (none, Nothing)
    serve place first = do
      first
      kept <- maybe (return False) (`atomicModifyIORef'` park place) (parkedOn threads capability)
      when kept (takeMVar place >>= serve place)
    park place (Parked count others)
      | count < parkedMax = (Parked (count + 1) (place : others), True)
      | otherwise = (Parked count others, False)

-- | The same on this thread's capability.
runHere :: Threads -> IO () -> IO ()
runHere threads action = do
  (capability, _) <- threadCapability =<< myThreadId
  runOn threads capability action
