{-# LANGUAGE BangPatterns #-}

-- | Delays and timeouts with the names of "Control.Concurrent", "System.Timeout" and "GHC.Event". They use the timers
-- of the capability's loop: without locks or system calls, and sharing nothing between capabilities.
--
-- 1. No timer fires early.
-- 2. On an idle machine a timer fires at most a millisecond late.
-- 3. Setting, moving and cancelling a timer take constant time.
--
-- >>> import Control.Concurrent (MVar, newEmptyMVar, putMVar, takeMVar)
-- >>> import Millrace.Duration
-- >>> timeoutAfter (milliseconds 1) (sleep (minutes 1))
-- Nothing
-- >>> timeoutAfter (minutes 1) (return "done")
-- Just "done"
-- >>> manager <- getSystemTimerManager
-- >>> fired <- newEmptyMVar :: IO (MVar String)
-- >>> timer <- registerTimeout manager 60000000 (putMVar fired "fired")
-- >>> updateTimeout manager timer 1000
-- >>> takeMVar fired
-- "fired"
module Millrace.Timer
  ( -- * Threads
    sleep,
    threadDelay,
    timeoutAfter,
    timeout,
    liftableTimeout,
    Timeout,
    registerDelay,

    -- * Actions with a deadline
    finishBefore,
    finishBeforeOr,

    -- * Callbacks
    TimerManager,
    TimeoutKey,
    TimeoutCallback,
    getSystemTimerManager,
    registerTimeout,
    updateTimeout,
    unregisterTimeout,
  )
where

import Control.Concurrent (ThreadId, forkOn, killThread, myThreadId, threadCapability, throwTo)
import Control.Concurrent.MVar (MVar, isEmptyMVar, newEmptyMVar, takeMVar, tryPutMVar)
import Control.Concurrent.STM (TVar, atomically, newTVarIO, writeTVar)
import Control.Exception
  ( AsyncException,
    Exception (..),
    SomeException,
    asyncExceptionFromException,
    asyncExceptionToException,
    catch,
    mask,
    mask_,
    throwIO,
    uninterruptibleMask_,
  )
import Control.Monad (unless, void, when)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import qualified Data.Map.Strict as Map
import Millrace.Deadline (Deadline)
import Millrace.Duration
import Millrace.Internal.InTime (inTime)
import Millrace.Internal.Timer
import Millrace.Internal.TimerTable (Action (..))
import System.IO.Unsafe (unsafePerformIO)

-- | Suspends the thread for at least the given time. No time only yields. Interruptible.
sleep :: Duration -> IO ()
sleep time = threadDelay (durationMicroseconds time)
{-# INLINE sleep #-}

-- | Suspends the thread for at least the given number of microseconds, as base's does; 'sleep' takes a 'Duration'. Zero
-- or less only yields. Interruptible.
threadDelay :: Int -> IO ()
threadDelay !delayMicros = mask_ $ do
  woken <- newEmptyMVar
  timer <- startTimer delayMicros (Wake woken)
  takeMVar woken `catch` \exception -> do
    void (stopTimer timer)
    throwIO (exception :: SomeException)

-- | The exception by which 'timeout' interrupts its action. Each call has its own, so that nested ones are not
-- confused. It is asynchronous. If an action swallows it, the timeout has no effect.
newtype Timeout = Timeout (MVar ThreadId)
  deriving (Eq)

instance Show Timeout where
  show _ = "<<timeout>>"

instance Exception Timeout where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Runs an action, and interrupts it after the given time; the result is then 'Nothing'. No time returns 'Nothing' at
-- once. After it has returned, its exception can no longer arrive. It can
-- be nested, and works with @bracket@: if the action was interrupted, the result is 'Nothing', however long the
-- clean-up takes.
--
-- For operations on sockets a deadline ("Millrace.Deadline") is cheaper, and involves no asynchronous exception.
timeoutAfter :: Duration -> IO a -> IO (Maybe a)
timeoutAfter limit action = liftableTimeout limit (const action)

-- | 'timeoutAfter' with a number of microseconds, as base's 'System.Timeout.timeout' takes it. A negative number is no
-- limit.
timeout :: Int -> IO a -> IO (Maybe a)
timeout limitMicros action
  | limitMicros < 0 = Just <$> action
  | otherwise = interruptedAfter limitMicros (const action)

-- | Runs an action with a limit on its time, as 'timeoutAfter' does. The action may find that it needs longer: it gets
-- another action, which removes the limit unless it has already passed.
--
-- > liftableTimeout (seconds 1) (\lift -> do { answer <- ask; when (isLong answer) lift; receive answer })
liftableTimeout :: Duration -> (IO () -> IO a) -> IO (Maybe a)
liftableTimeout limit action
  | limit == unlimited = Just <$> action (return ())
  | otherwise = interruptedAfter (durationMicroseconds limit) action
{-# INLINE liftableTimeout #-}

interruptedAfter :: Int -> (IO () -> IO a) -> IO (Maybe a)
interruptedAfter limitMicros action
  | limitMicros == 0 = return Nothing
  | otherwise = mask $ \restore -> do
    caller <- myThreadId
    lock <- newEmptyMVar
    timer <- startTimer limitMicros (Perform (expire caller lock))
    -- 'Just' is made in masked state: see 'Millrace.Internal.Park.handOver'.
    result <-
      (Just <$> restore (action (mask_ (void (stopTimer timer))))) `catch` \problem -> do
        disarm timer lock
        if fromException problem == Just (Timeout lock) then return Nothing else throwIO (problem :: SomeException)
    -- Masked: 'disarm' stops this timeout's exception if it comes now. If the action was interrupted, 'disarm' has run
    -- already.
    maybe (return ()) (const (disarm timer lock)) result
    return result
{-# INLINE interruptedAfter #-}

-- The timer has fired. A new thread throws the exception, because throwing waits until the target can receive it.
--
-- GHC 9.0 corrupts threads that get an exception while another one waits for them, if one of them comes from another
-- capability. So it is thrown on the target's capability, and one after the other.
expire :: ThreadId -> MVar ThreadId -> IO ()
expire caller lock = do
  isWanted <- isEmptyMVar lock
  when isWanted $ do
    isAlone <- atomicModifyIORef' pendingTimeouts $ \all' -> case Map.lookup caller all' of
      Nothing -> (Map.insert caller [] all', True)
      Just later -> (Map.insert caller (later ++ [lock]) all', False)
    when isAlone (throwFromNewThread caller lock)

-- For each thread to which a timeout's exception is being thrown: the timeouts whose exceptions follow that one.
pendingTimeouts :: IORef (Map.Map ThreadId [MVar ThreadId])
pendingTimeouts = unsafePerformIO (newIORef Map.empty)
{-# NOINLINE pendingTimeouts #-}

-- Throws it in a new thread, and the next one when that was received, or was not wanted any more. The first to fill the
-- lock wins: this thread, with its ThreadId, or 'disarm', which may kill this thread, but not the next one.
throwFromNewThread :: ThreadId -> MVar ThreadId -> IO ()
throwFromNewThread caller lock = do
  (capability, _) <- threadCapability caller
  void . mask_ . forkOn capability $ do
    self <- myThreadId
    isFirst <- tryPutMVar lock self
    when isFirst (throwTo caller (Timeout lock) `catch` endedByDisarm)
    next <- atomicModifyIORef' pendingTimeouts $ \all' -> case Map.lookup caller all' of
      Just (first : later) -> (Map.insert caller later all', Just first)
      _ -> (Map.delete caller all', Nothing)
    mapM_ (throwFromNewThread caller) next
  where
    endedByDisarm :: AsyncException -> IO ()
    endedByDisarm _ = return ()

-- Call it masked. After it returns, this timeout's exception can no longer arrive. It waits uninterruptibly, and only
-- for a thread that is about to throw: that one is killed before it throws, or has thrown already.
disarm :: Timer -> MVar ThreadId -> IO ()
disarm timer lock = do
  stopping <- stopTimer timer
  when (stopping == MayFire) $
    uninterruptibleMask_ $ do
      self <- myThreadId
      isFirst <- tryPutMVar lock self
      unless isFirst $ takeMVar lock >>= killThread

-- | Runs an action until a deadline. If it has not ended by then, it throws an 'IOError'
-- ('Millrace.Deadline.isDeadlineError') at once, even if the action waits uninterruptibly, for instance for a disk: the
-- action is interrupted, and ends later. Use it for functions on files and directories that take no deadline.
--
-- The action runs masked, in a separate thread. If the caller is interrupted, so is the action. For actions on sockets,
-- "Millrace.Deadline" is cheaper.
--
-- >>> import Millrace.Deadline
-- >>> soon <- deadlineAfter (milliseconds 10)
-- >>> nothingIfLate (finishBefore soon (sleep (minutes 1)))
-- Nothing
finishBefore :: Deadline -> IO a -> IO a
finishBefore deadline = finishBeforeOr deadline (\_ -> return ())

-- | Runs an action until a deadline, as 'finishBefore' does, and releases a result that comes too late for the caller,
-- such as an open file: @finishBeforeOr deadline closeFile (openFile path ForReading)@. The first action gets such a
-- result, masked, in a separate thread.
finishBeforeOr :: Deadline -> (a -> IO ()) -> IO a -> IO a
finishBeforeOr deadline = inTime deadline "Millrace.Timer.finishBefore" "an action"

-- | Makes a variable that becomes 'True' after the given number of microseconds, as stm's does.
registerDelay :: Int -> IO (TVar Bool)
registerDelay !delayMicros = do
  variable <- newTVarIO False
  mask_ $ void $ startTimer delayMicros (Perform (atomically (writeTVar variable True)))
  return variable

-- | Stands for all managers. There is only one value, without any state. It is there for programs that were written for
-- "GHC.Event".
data TimerManager = TimerManager

-- | Identifies a registered timeout, also after it has fired.
newtype TimeoutKey = TimeoutKey Timer
  deriving (Eq, Ord)

-- | The action that runs when the time has come. It runs unmasked, in a thread that runs callbacks. It may block
-- without delaying other callbacks. An exception is reported as for any thread. The thread continues with other
-- callbacks, so do not keep its 'ThreadId'. It is pinned to the capability that registered the timeout, so fork a
-- thread for long computations.
type TimeoutCallback = IO ()

-- | Returns the 'TimerManager'.
getSystemTimerManager :: IO TimerManager
getSystemTimerManager = return TimerManager

-- | Arranges for a callback to run once, after the given number of microseconds, in another thread. For 0 it may run
-- before the caller continues (GHC.Event then runs it at once, in the calling thread). Does not block. O(1).
registerTimeout :: TimerManager -> Int -> TimeoutCallback -> IO TimeoutKey
registerTimeout TimerManager !delayMicros callback = mask_ $ TimeoutKey <$> startTimer delayMicros (Callback callback)

-- | Moves a timeout to the given number of microseconds from now. Does nothing if it has fired or was unregistered.
-- O(1).
updateTimeout :: TimerManager -> TimeoutKey -> Int -> IO ()
updateTimeout TimerManager (TimeoutKey timer) = moveTimer timer

-- | Cancels a timeout. Does nothing if it has fired: the callback then runs, perhaps later, behind
-- others. On another capability than the one that registered the timeout, it takes effect a moment later. O(1).
unregisterTimeout :: TimerManager -> TimeoutKey -> IO ()
unregisterTimeout TimerManager (TimeoutKey timer) = mask_ (void (stopTimer timer))
