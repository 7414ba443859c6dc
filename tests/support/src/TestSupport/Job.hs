-- | Jobs: threads whose outcome the test asks for.
--
-- A job ends with its result or its exception, and 'finish' passes that on. So failures are reported in the test's own
-- thread.
module TestSupport.Job
  ( Job,
    start,
    startOn,
    jobThread,
    finish,
    outcomeOf,
    isOver,
    stop,
    interrupt,
    withThread,
  )
where

import Control.Concurrent
import Control.Exception (Exception, SomeException, bracket, mask_, throwIO, try)
import Control.Monad (void, (>=>))

-- | A thread and its outcome.
data Job a = Job ThreadId (MVar (Either SomeException a))

-- | Runs an action in a new thread.
start :: IO a -> IO (Job a)
start action = startBy (\run -> forkIOWithUnmask (\unmask -> run (unmask action)))

-- | Runs an action in a new thread, on the capability with this number. The thread stays there.
startOn :: Int -> IO a -> IO (Job a)
startOn capability action = startBy (\run -> forkOnWithUnmask capability (\unmask -> run (unmask action)))

startBy :: ((IO a -> IO ()) -> IO ThreadId) -> IO (Job a)
startBy fork = do
  outcome <- newEmptyMVar
  thread <- mask_ (fork (try >=> putMVar outcome))
  return (Job thread outcome)

-- | The thread that runs the action.
jobThread :: Job a -> ThreadId
jobThread (Job thread _) = thread

-- | Waits for the result. Throws the job's exception if it ended with one.
finish :: Job a -> IO a
finish job = outcomeOf job >>= either throwIO return

-- | Waits for the result or the exception.
outcomeOf :: Job a -> IO (Either SomeException a)
outcomeOf (Job _ outcome) = readMVar outcome

-- | Whether the job has ended.
isOver :: Job a -> IO Bool
isOver (Job _ outcome) = not <$> isEmptyMVar outcome

-- | Kills the thread and waits for its end.
stop :: Job a -> IO ()
stop job = killThread (jobThread job) >> void (outcomeOf job)

-- | Throws an exception to the job's thread.
interrupt :: Exception e => Job a -> e -> IO ()
interrupt = throwTo . jobThread

-- | Runs the first action in another thread while the second one runs, and then kills that thread.
withThread :: IO () -> (ThreadId -> IO a) -> IO a
withThread action use = bracket (start action) stop (use . jobThread)
