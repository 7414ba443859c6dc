-- |
-- Threads that are kept for the next thing to do. A fork asks the scheduler to switch threads soon, in the middle of a batch of
-- requests; waking a kept thread does not. Must not know: connections.
module Millrace.Http.Threads (Threads, newThreads, runOn, runHere) where

import Control.Concurrent (forkOn, getNumCapabilities, myThreadId, threadCapability)
import Control.Concurrent.MVar
import Control.Monad (void, when)
import Data.Array (Array, bounds, inRange, listArray, (!))
import Data.IORef

-- | The parked threads of a server, by capability. Those of capabilities that come later are not kept.
newtype Threads = Threads (Array Int (IORef Parked))

-- How many there are, and where each of them is told what to run.
data Parked = Parked !Int [MVar (IO ())]

-- | No threads yet. Those that are parked end when nobody has the value any more.
newThreads :: IO Threads
newThreads = do
  count <- getNumCapabilities
  Threads . listArray (0, count - 1) <$> mapM (const (newIORef (Parked 0 []))) [1 .. count]

-- A parked thread holds a kilobyte.
parkedMax :: Int
parkedMax = 1024

parkedOn :: Threads -> Int -> Maybe (IORef Parked)
parkedOn (Threads parked) capability
  | inRange (bounds parked) capability = Just (parked ! capability)
  | otherwise = Nothing

-- | Has an action run by a thread of this capability. The action must not throw. To be called masked, so that no thread is lost.
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
