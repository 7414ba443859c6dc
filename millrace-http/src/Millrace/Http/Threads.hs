{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The threads of a server: a pool of parked threads, threads that others may end, and threads that wait for events.
--
-- A fork makes the scheduler switch threads soon, in the middle of a batch of requests; waking a parked thread does
-- not. So work that another thread has to do goes to a parked one.
module Millrace.Http.Threads
  ( Threads,
    newThreads,
    runOn,
    runHere,

    -- * A thread that others may end
    Worker,
    newWorker,
    atWork,
    isThisThread,
    killWorker,
    interruptWorker,

    -- * Threads that wait for events
    Waiters,
    newWaiters,
    waitFor,
    wake,
    Waited (..),
    takeWithin,

    -- * Threads that work on one thing
    Crew,
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

import Control.Concurrent (ThreadId, forkIO, forkOn, getNumCapabilities, mkWeakThreadId, myThreadId, threadCapability)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (void, when)
import Data.Array (Array, bounds, inRange, listArray, (!))
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Millrace.Internal.AtomicWord
import Millrace.Timer (getSystemTimerManager, registerTimeout, unregisterTimeout)
import System.Mem.Weak (Weak, deRefWeak, finalize)

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
    Just job -> putMVar job action
    Nothing -> do
      job <- newEmptyMVar
      void (forkOn capability (serve job action))
  where
    unpark (Parked count (first : others)) = (Parked (count - 1) others, Just first)
    unpark none = (none, Nothing)
    serve job first = do
      first
      kept <- maybe (return False) (`atomicModifyIORef'` park job) (parkedOn threads capability)
      when kept (takeMVar job >>= serve job)
    park job (Parked count others)
      | count < parkedMax = (Parked (count + 1) (job : others), True)
      | otherwise = (Parked count others, False)

-- | Runs an action in a thread of the pool on this thread's capability.
runHere :: Threads -> IO () -> IO ()
runHere threads action = do
  (capability, _) <- threadCapability =<< myThreadId
  runOn threads capability action

------------------------------------------------------------------------------------------------------------------------
-- A thread that others may end

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
  (outcome <*) <$> stop
  where
    -- Waits only if another thread is just killing this one. That exception interrupts the wait, and so may others.
    --
    -- GHC keeps a weak reference as long as the thread lives, used or not, and visits it in every collection. Threads
    -- of a pool live on, so it is ended here.
    stop = (Right () <$ (takeMVar running >>= finalize)) `catch` \failure -> Left failure <$ stop

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

------------------------------------------------------------------------------------------------------------------------
-- Threads that wait for events

-- | The waiting threads, by the number of their event. Several may wait for the same one, such as those of nested
-- @onDisconnect@s.
newtype Waiters = Waiters (IORef (IntMap [MVar ()]))

-- | No threads.
newWaiters :: IO Waiters
newWaiters = Waiters <$> newIORef IntMap.empty

-- | The result of waiting.
data Waited a = Came a | TookTooLong

-- | @waitFor waiters prepare number micros attempt@ repeats an attempt until it has a result. An attempt without a
-- result must have the effect that somebody calls 'wake' with this number later. @prepare@ runs before the thread
-- parks. 'Nothing': no limit.
waitFor :: Waiters -> IO () -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitFor (Waiters waiters) prepare number micros attempt = do
  waker <- newEmptyMVar
  bracket_ (register waker) (unregister waker) (go waker)
  where
    register waker = atomicModifyIORef' waiters (\all' -> (IntMap.insertWith (++) number [waker] all', ()))
    unregister waker = atomicModifyIORef' waiters (\all' -> (IntMap.update (without waker) number all', ()))
    without waker wakers = case filter (/= waker) wakers of
      [] -> Nothing
      others -> Just others
    go waker = attempt >>= maybe (prepare >> park waker) (return . Came)
    park waker = do
      woken <- takeWithin micros waker
      if woken then go waker else attempt >>= maybe (return TookTooLong) (return . Came)

-- | Waits for the variable to be filled, at most this many microseconds. False if the time was over. Something else may
-- fill it: then the caller must look again.
takeWithin :: Maybe Int -> MVar () -> IO Bool
takeWithin Nothing waker = True <$ takeMVar waker
takeWithin (Just micros) waker = do
  late <- newIORef False
  timers <- getSystemTimerManager
  bracket
    (registerTimeout timers micros (writeIORef late True >> void (tryPutMVar waker ())))
    (unregisterTimeout timers)
    (const (takeMVar waker))
  not <$> readIORef late

-- | Wakes the threads that wait for this event.
wake :: Waiters -> Int -> IO ()
wake (Waiters waiters) number = readIORef waiters >>= mapM_ (`tryPutMVar` ()) . IntMap.findWithDefault [] number

------------------------------------------------------------------------------------------------------------------------
-- Threads that work on one thing

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

-- | Runs an action as 'task' does, in this thread, which is one of the pool.
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
