{-# LANGUAGE BangPatterns #-}

-- | Submitting an operation and waiting for its end: the only module in which exceptions and operations meet.
--
-- These rules hold, whatever exception comes at whatever moment:
--
-- 1. A thread waits for every operation that it has submitted. The operation's buffer stays alive until then, because
--    the frame that keeps it alive is below ours on the stack.
-- 2. Its slot is released exactly once, by the thread that took its result, after taking it.
-- 3. A result that comes too late for its caller is handed to 'keepLate', so that no received bytes are lost.
module Millrace.Internal.Park
  ( Request (..),
    request,
    perform,
    performKeeping,
    performMasked,
    Hooks (..),
    keeping,
    performOnce,
    performEnding,
    waitFor,
    handOver,
    reserveToken,
    startCallback,
  )
where

import Control.Concurrent (forkOn, getNumCapabilities, killThread, myThreadId, threadCapability)
import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Exception (SomeException, catch, mask_, onException, throwIO, try, uninterruptibleMask_)
import Control.Monad (void)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.Error (Errno)
import Foreign.C.Types (CInt, CUInt)
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Internal.CoreCalls
import Millrace.Internal.Manager
import Millrace.Internal.SlotTable

-- | An operation that is not submitted yet: an @mr_request@. If it succeeds, its result has the type @r@.
data Request r = Request
  { requestKind :: !CInt,
    requestFlags :: !CUInt,
    requestHandle :: !Word64,
    requestBuffer :: !(Ptr ()),
    requestLength :: !Word64,
    -- | @deadline_ns@ of @mr_request@.
    requestTime :: !Word64,
    -- | Read by 'Millrace.Operation.sendFileRequest' only.
    requestFile :: !CInt,
    requestOffset :: !Word64,
    -- | Converts a result that is not an error.
    requestMeaning :: !(Int64 -> r)
  }

-- | A request that has a kind, a handle and a meaning only.
request :: CInt -> Word64 -> (Int64 -> r) -> Request r
request kind handle = Request kind 0 handle nullPtr 0 0 0 0
{-# INLINE request #-}

-- | Performs an operation whose late result may be dropped, and returns its result, or the error that it failed with.
-- If an asynchronous exception arrives first, 'perform' cancels the operation, waits for its end, and throws the
-- exception again. Interruptible.
--
-- > ready <- perform (waitReadableRequest (foreignHandle fd))
perform :: Request r -> IO (Either Errno r)
perform what = mask_ (performMasked (\_ -> return ()) what)
{-# INLINE perform #-}

-- | Performs an operation like 'perform', and loses no result: if it has one although an asynchronous exception
-- arrived, the result is given to the first argument before the exception is thrown again. That function runs masked
-- and must not wait for long.
performKeeping :: (Either Errno r -> IO ()) -> Request r -> IO (Either Errno r)
performKeeping keep what = handOver keep (performMasked (mapM_ keep . outcome what) what)
{-# INLINE performKeeping #-}

-- | Runs an action masked, and gives its result to the caller or, if an exception is faster, to @keep@.
--
-- An exception that is pending when a mask ends is raised there and then. At that point the action has returned the
-- result, and the caller does not have it yet. So the result is stored before, and the handler is outside the mask.
-- After the handler's frame is popped, no exception can arrive before the caller continues. Call this last: an
-- exception can arrive wherever code after it allocates.
handOver :: (a -> IO ()) -> IO a -> IO a
handOver keep action = do
  finished <- newIORef Nothing
  mask_ (note finished) `catch` \exception -> do
    readIORef finished >>= mapM_ keep
    throwIO (exception :: SomeException)
  where
    note finished = do
      result <- action
      writeIORef finished (Just result)
      return result
{-# INLINE handOver #-}

-- | 'performKeeping' for callers that are masked already and handle the result themselves.
performMasked :: (Value -> IO ()) -> Request r -> IO (Either Errno r)
performMasked keep what = begin
  where
    begin = performOnce (keeping keep) what >>= maybe begin return . outcome what
{-# INLINE performMasked #-}

-- 'Nothing' if the operation must be submitted again.
outcome :: Request r -> Value -> Maybe (Either Errno r)
outcome what value = case ended (requestMeaning what) value of
  Retry -> Nothing
  Failed code -> Just (Left code)
  Ended result -> Just (Right result)
{-# INLINE outcome #-}

-- | Actions of the caller that run at certain points of the wait. None of them may wait or throw.
data Hooks = Hooks
  { -- | Runs when an exception comes before there is an operation.
    whenNotBegun :: IO (),
    -- | Runs when the operation has begun and has not ended.
    whenWaiting :: IO (),
    -- | Runs with the result of an operation whose thread was interrupted.
    keepLate :: Value -> IO ()
  }

-- | The hooks of a caller that only keeps late results.
keeping :: (Value -> IO ()) -> Hooks
keeping = Hooks (return ()) (return ())
{-# INLINE keeping #-}

-- | Performs an operation, and returns its result as the core reports it, which may be 'Retry'. Call it masked.
performOnce :: Hooks -> Request r -> IO Value
performOnce hooks = performEnding hooks return (keepLate hooks) $ \ticket -> do
  value <- waitFor (keepLate hooks) ticket
  value <$ c_end_wait ticket
{-# INLINE performOnce #-}

-- | @performEnding hooks finish keep endWait what@ performs an operation. If it ends at once, its value is given to
-- @finish@. Otherwise @endWait@ must call 'waitFor' and then end the wait ('c_end_wait', 'c_end_receive'). @keep@ is
-- 'keepLate' for what these two return. Call it masked.
performEnding :: Hooks -> (Value -> IO a) -> (a -> IO ()) -> (Ticket -> IO a) -> Request r -> IO a
performEnding hooks finish keep endWait what = attempt
  where
    -- Between the submission and 'takeMVar', which is interruptible, no exception can come.
    attempt = do
      answer <-
        c_submit
          (requestKind what)
          (requestFlags what)
          (requestHandle what)
          (requestBuffer what)
          (requestLength what)
          (requestTime what)
          (requestFile what)
          (requestOffset what)
      case submission answer of
        Completed value -> finish value
        Pending ticket -> whenWaiting hooks >> endWait ticket
        NoLoop -> (startHere `onException` whenNotBegun hooks) >>= again
        Disabled -> again SwitchedOff
    again Running = attempt
    again SwitchedOff = performElsewhere (performEnding hooks finish keep endWait what) keep
{-# INLINE performEnding #-}

-- Whether a capability has a loop that threads on it may use.
data Permission = Running | SwitchedOff

-- The capability had no loop. Now it has one, unless it is switched off.
startHere :: IO Permission
startHere = do
  ensureManagers
  (here, _) <- myThreadId >>= threadCapability
  count <- getNumCapabilities
  return (if here < count then Running else SwitchedOff)
{-# NOINLINE startHere #-}

-- | Waits for the end of an operation and returns its value. The caller must end the wait. If an exception comes, the
-- wait is ended here, and the value is given to the first argument. Call it masked.
waitFor :: (Value -> IO ()) -> Ticket -> IO Value
waitFor keep ticket = do
  table <- slotTableOf token
  signal <- resultVariable table (numberOf token)
  -- If 'takeMVar' returns, the result is ours, and an exception that is on its way finds us in masked state: it stays
  -- pending until the mask ends (see 'handOver'). If it throws, the result has not been taken.
  takeMVar signal `catch` abandon keep ticket signal
  where
    token = tokenOf ticket

-- Uninterruptible: a second exception must not free the buffer under the operation. It does not wait long: the end of
-- a cancelled operation takes one poll.
abandon :: (Value -> IO ()) -> Ticket -> MVar Value -> SomeException -> IO Value
abandon keep ticket signal exception = uninterruptibleMask_ $ do
  c_cancel (tokenOf ticket)
  value <- takeMVar signal
  c_end_wait ticket
  keep value
  throwIO exception
{-# NOINLINE abandon #-}

-- A bound thread stays on its capability even when setNumCapabilities switches that off, but must not touch its loop
-- then (see @may_own@ in @cbits\/capability.c@): an ordinary thread performs the operation for it.
performElsewhere :: IO a -> (a -> IO ()) -> IO a
performElsewhere performHere keep = do
  count <- getNumCapabilities
  done <- newEmptyMVar
  helper <- forkOn (count - 1) (try performHere >>= putMVar done)
  -- If we are interrupted, the helper must be done with the buffer before we return. The helper keeps the bytes that it
  -- has received, or we do if it had just finished.
  result <-
    readMVar done `catch` \exception -> uninterruptibleMask_ $ do
      killThread helper
      readMVar done >>= either ignore keep
      throwIO (exception :: SomeException)
  either (throwIO :: SomeException -> IO a) return result
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE performElsewhere #-}

-- | Reserves a token for an operation of this kind on the loop of this capability. Call it masked. Throws when
-- there is no memory for it.
reserveToken :: CInt -> IO Token
reserveToken kind = attempt
  where
    attempt = do
      answer <- c_reserve kind
      case reservation answer of
        Right (Ended token) -> return token
        Right _ -> throwIO (userError "Millrace: no memory for another operation")
        Left NoLoop -> startHere >>= again
        Left _ -> again SwitchedOff
    again Running = attempt
    again SwitchedOff = reserveElsewhere kind
{-# INLINE reserveToken #-}

reserveElsewhere :: CInt -> IO Token
reserveElsewhere kind = uninterruptibleMask_ $ do
  count <- getNumCapabilities
  done <- newEmptyMVar
  void $ forkOn (count - 1) (try (reserveToken kind) >>= putMVar done)
  takeMVar done >>= either (throwIO :: SomeException -> IO Token) return
{-# NOINLINE reserveElsewhere #-}

-- | Starts a wait for a descriptor whose end runs a callback in a manager thread. Returns its token. Throws when there
-- is no memory for a slot. The callback is installed before the operation can end.
startCallback :: CInt -> Word64 -> Callback -> IO Token
startCallback !kind !handle callback = mask_ $ do
  -- evaluated first: if they threw later, the token would be lost
  token <- reserveToken kind
  table <- slotTableOf token
  setCallback table (numberOf token) callback
  c_start token kind handle
  return token
