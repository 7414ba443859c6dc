-- |
-- The threads that work on something that must not be freed before all of them have ended: a connection, or all
-- connections of a port.
-- Those that the crew has started can be killed. Must not know: connections.
module Millrace.Http.Threads.Crew
  ( Crew,
    newCrew,
    join',
    leave,
    task,
    asTask,
    killTasks,
    wereKilled,
    awaitQuiet,
  )
where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (void, when)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Millrace.Http.Threads
import Millrace.Http.Threads.Worker
import Millrace.Internal.AtomicWord

-- | The threads that work on something.
data Crew = Crew
  { crewThreads :: !Threads,
    -- Threads besides those that joined by themselves, by number.
    crewTasks :: !(IORef (IntMap Worker)),
    -- Full when no thread works any more.
    crewQuiet :: !(MVar ()),
    crewWords :: !AtomicWords
  }

-- The number of threads at work, the number of the next task, and how often all tasks were killed.
workers, nextTask, killings :: Crew -> AtomicWord
workers crew = AtomicWord (crewWords crew) 0
nextTask crew = AtomicWord (crewWords crew) 1
killings crew = AtomicWord (crewWords crew) 2

-- | A crew of one: the calling thread.
newCrew :: Threads -> IO Crew
newCrew threads = do
  crew <- Crew threads <$> newIORef IntMap.empty <*> newEmptyMVar <*> newAtomicWords 3
  crew <$ writeWord (workers crew) 1

-- | Counts a thread that begins to work.
join' :: Crew -> IO ()
join' crew = void (fetchAdd (workers crew) 1)
{-# INLINE join' #-}

-- | Counts a thread that has ended its work. The last one must not touch the common object afterwards.
leave :: Crew -> IO ()
leave crew = do
  before' <- fetchAdd (workers crew) (-1)
  when (before' == 1) (putMVar (crewQuiet crew) ())

-- | Waits until no thread works any more. If an exception interrupts that, kills all tasks, runs the action, still
-- waits for them, and then throws the exception again.
awaitQuiet :: Crew -> IO () -> IO ()
awaitQuiet crew interrupted =
  takeMVar (crewQuiet crew) `catch` \failure -> do
    killTasks crew
    interrupted
    awaitQuiet crew interrupted
    throwIO (failure :: SomeException)

-- | Runs an action in a thread of the pool. The thread works and can be killed meanwhile. @ended@ gets the outcome.
-- Call this masked.
task :: Crew -> IO () -> (Either SomeException () -> IO ()) -> IO ()
task crew action ended = do
  join' crew
  runHere (crewThreads crew) (asJoined crew action ended)

-- | The same in this thread, which is one of the pool.
asTask :: Crew -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asTask crew action ended = join' crew >> asJoined crew action ended

asJoined :: Crew -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asJoined crew action ended = do
  worker <- newWorker
  number <- fetchAdd (nextTask crew) 1
  atomicModifyIORef' (crewTasks crew) (\tasks -> (IntMap.insert number worker tasks, ()))
  outcome <- atWork worker (interruptible action)
  atomicModifyIORef' (crewTasks crew) (\tasks -> (IntMap.delete number tasks, ()))
  void (try (ended outcome) :: IO (Either SomeException ()))
  leave crew

-- | Throws @ThreadKilled@ to all tasks.
killTasks :: Crew -> IO ()
killTasks crew = fetchAdd (killings crew) 1 >> readIORef (crewTasks crew) >>= mapM_ killWorker . IntMap.elems

-- | Whether all tasks were killed once.
wereKilled :: Crew -> IO Bool
wereKilled crew = (> 0) <$> readWord (killings crew)
