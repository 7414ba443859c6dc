{-# LANGUAGE BangPatterns #-}

-- | Submitting an operation and waiting for its end: the one place where exceptions and operations meet.
--
-- What must hold, whatever exception comes at whatever moment:
--
-- 1. An operation that was submitted is waited for. Its buffer stays alive until then, because the frame that keeps it
--    alive is below ours on the stack.
-- 2. Its slot is released exactly once, after its result was taken, by whoever took it.
-- 3. A result that comes too late for its caller is handed to @keep@, so that nothing that was received is lost.
module Millrace.Internal.Park
  ( Request (..),
    request,
    perform,
    performKeeping,
    performMasked,
    performOnce,
    handOver,
    reserveToken,
    startCallback,
  )
where

import Control.Concurrent (forkOn, getNumCapabilities, killThread, myThreadId, threadCapability)
import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Exception (SomeException, catch, mask_, onException, throwIO, try, uninterruptibleMask_)
import Control.Monad (void)
import Data.Bits (unsafeShiftR, (.&.))
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.Types (CInt, CUInt)
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Internal.Constants
import Millrace.Internal.Foreign
import Millrace.Internal.Manager
import Millrace.Internal.SlotTable

-- | An @mr_request@.
data Request a = Request
  { requestKind :: !CInt,
    requestFlags :: !CUInt,
    requestHandle :: !Word64,
    requestBuffer :: !(Ptr a),
    requestLength :: !Word64,
    -- | in nanoseconds of the monotonic clock; 0: none
    requestDeadline :: !Word64,
    requestFile :: !CInt,
    requestOffset :: !Word64
  }

-- | A request that has a kind and a handle only.
request :: CInt -> Word64 -> Request a
request kind handle = Request kind 0 handle nullPtr 0 0 (-1) 0
{-# INLINE request #-}

-- | Performs an operation whose late result nobody would miss. Returns a count or a negative @errno@. If an asynchronous
-- exception arrives first, the operation is cancelled and waited for. Interruptible.
--
-- > result <- perform (waitReadableRequest (foreignHandle fd))
--
-- @since 0.1.0
perform :: Request a -> IO Int64
perform what = mask_ (performMasked ignoreLate what)
{-# INLINE perform #-}

ignoreLate :: Int64 -> IO ()
ignoreLate _ = return ()

-- | Performs an operation and returns its result: a count, or a negative @errno@. If an asynchronous exception arrives
-- first, the operation is cancelled and waited for; if it had a result all the same, or the exception comes before the
-- caller has the result, that is given to the first argument (which runs masked and must not wait for long), and the
-- exception is thrown again.
--
-- @since 0.1.0
performKeeping :: (Int64 -> IO ()) -> Request a -> IO Int64
performKeeping keep what = handOver keep (performMasked keep what)
{-# INLINE performKeeping #-}

-- | Runs an action masked, and gives its result to the caller or, if an exception is faster, to @keep@.
--
-- An exception that is pending when a mask ends is raised there and then, when the result is neither the action's any
-- more nor the caller's yet. So the result is noted before, and the handler stands outside the mask. Between the moment
-- at which the handler's frame is gone and the caller's next frame there is no point at which an exception can come.
-- Whoever uses this must call it last: anything that allocates after it is such a point.
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

-- | What 'performKeeping' does, for callers that are masked already and take care of the result themselves.
performMasked :: (Int64 -> IO ()) -> Request a -> IO Int64
performMasked keep what = begin
  where
    begin = performOnce (return ()) (return ()) keep what >>= \result -> if result == recalled then begin else return result
{-# INLINE performMasked #-}

-- | The same, with what is to be done when an exception comes before there is an operation, and what when it has begun and
-- is not done yet, which must neither wait nor throw. The result may be 'recalled'.
performOnce :: IO () -> IO () -> (Int64 -> IO ()) -> Request a -> IO Int64
performOnce unbegun begun keep what = attempt
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
          (requestDeadline what)
          (requestFile what)
          (requestOffset what)
      case answer .&. 3 of
        1 -> return (answer `unsafeShiftR` 2)
        0 -> begun >> park keep (fromIntegral (answer `unsafeShiftR` 2))
        2 -> (startHere `onException` unbegun) >>= \starts -> if starts then attempt else elsewhere
        _ -> elsewhere
    elsewhere = performElsewhere (performOnce unbegun begun keep what) keep
{-# INLINE performOnce #-}

-- The capability had no loop. Now it has one, unless it is switched off: 'False'.
startHere :: IO Bool
startHere = do
  ensureManagers
  (here, _) <- myThreadId >>= threadCapability
  count <- getNumCapabilities
  return (here < count)
{-# NOINLINE startHere #-}

-- The ticket is the token, and whether this thread is to stay on its capability until it has run again.
park :: (Int64 -> IO ()) -> Word64 -> IO Int64
park keep ticket = do
  table <- slotTableOf token
  place <- parkingPlace table (numberOf token)
  -- If 'takeMVar' returns, the result is ours and the exception, if one is on its way, finds us in masked state: it
  -- stays pending until the mask ends (see 'handOver'). If it throws, the result has not been taken.
  result <- takeMVar place `catch` abandon keep ticket place
  c_release ticket
  return result
  where
    token = tokenOf ticket

-- Uninterruptible: a second exception must not free the buffer under the operation. It does not wait long: the end of
-- a cancelled operation is a matter of one poll.
abandon :: (Int64 -> IO ()) -> Word64 -> MVar Int64 -> SomeException -> IO Int64
abandon keep ticket place exception = uninterruptibleMask_ $ do
  c_cancel (tokenOf ticket)
  result <- takeMVar place
  c_release ticket
  keep result
  throwIO exception
{-# NOINLINE abandon #-}

tokenOf :: Word64 -> Word64
tokenOf ticket = ticket .&. (ticketStays - 1)
{-# INLINE tokenOf #-}

-- A bound thread stays on its capability even when setNumCapabilities switches that off, but must not touch its loop
-- then (see @may_own@ in @cbits\/capability.c@): an ordinary thread performs the operation for it.
performElsewhere :: IO Int64 -> (Int64 -> IO ()) -> IO Int64
performElsewhere performHere keep = do
  count <- getNumCapabilities
  outcome <- newEmptyMVar
  helper <- forkOn (count - 1) (try performHere >>= putMVar outcome)
  -- If we are interrupted, the helper must have let go of the buffer before we return; what it received is kept by it,
  -- or, if it had just finished, by us.
  answer <-
    readMVar outcome `catch` \exception -> uninterruptibleMask_ $ do
      killThread helper
      readMVar outcome >>= either ignore keep
      throwIO (exception :: SomeException)
  either (throwIO :: SomeException -> IO Int64) return answer
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE performElsewhere #-}

-- | Reserves a token for an operation of this kind on the loop of this capability. To be called masked. Throws when
-- there is no memory for it.
reserveToken :: CInt -> IO Word64
reserveToken kind = attempt
  where
    attempt = do
      answer <- c_reserve kind
      case answer .&. 3 of
        1
          | answer >= 0 -> return (fromIntegral (answer `unsafeShiftR` 2))
          | otherwise -> throwIO (userError "Millrace: no memory for another operation")
        2 -> startHere >>= \starts -> if starts then attempt else reserveElsewhere kind
        _ -> reserveElsewhere kind
{-# INLINE reserveToken #-}

reserveElsewhere :: CInt -> IO Word64
reserveElsewhere kind = uninterruptibleMask_ $ do
  count <- getNumCapabilities
  outcome <- newEmptyMVar
  void $ forkOn (count - 1) (try (reserveToken kind) >>= putMVar outcome)
  takeMVar outcome >>= either (throwIO :: SomeException -> IO Word64) return
{-# NOINLINE reserveElsewhere #-}

-- | Starts a wait for a descriptor whose end runs a callback in a manager thread. Returns its token. Throws when there is
-- no memory for a slot. The callback is installed before the operation can end.
startCallback :: CInt -> Word64 -> Callback -> IO Word64
startCallback !kind !handle callback = mask_ $ do
  -- evaluated first: they may throw, and nobody would have the token
  token <- reserveToken kind
  table <- slotTableOf token
  setCallback table (numberOf token) callback
  c_start token kind handle
  return token
