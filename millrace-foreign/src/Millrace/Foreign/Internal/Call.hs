-- | One call: a fiber that runs C, and the Haskell thread that waits for it, serves its callbacks and interrupts it.
module Millrace.Foreign.Internal.Call
  ( CallOptions (..),
    defaultCall,
    Argument (..),
    perform,
    startCarriers,
    carrierCount,
  )
where

import Control.Concurrent (forkOn, myThreadId, threadCapability)
import Control.Concurrent.MVar (MVar, modifyMVar_, newEmptyMVar, putMVar, takeMVar, tryPutMVar, withMVar)
import Control.Exception
  ( Exception (fromException),
    SomeException,
    evaluate,
    mask,
    mask_,
    onException,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (unless, void, when, zipWithM_)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Maybe (isJust, isNothing)
import Foreign.C.Error (Errno (..), eALREADY, eINTR, eTIMEDOUT, errnoToIOError)
import Foreign.C.String (withCString)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (newForeignPtr)
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (FunPtr, Ptr, nullPtr)
import Foreign.StablePtr (StablePtr, castStablePtrToPtr, deRefStablePtr, newStablePtr)
import Foreign.Storable (peek)
import GHC.Conc (PrimMVar, newStablePtrPrimMVar)
import Millrace.Deadline (Deadline, deadlineAfter, deadlineNanoseconds, noDeadline, seconds)
import Millrace.Foreign.Internal.Bindings
import Millrace.Foreign.Internal.CType (CKind, kindCode)
import Millrace.Foreign.Internal.Callback (runFrame)
import Millrace.Manager (backendName, chosenBackend)
import qualified Millrace.Timer as Timer
import System.IO.Unsafe (unsafePerformIO)
import qualified System.Timeout as Base

-- | How a call is made. Begin with 'defaultCall'.
data CallOptions = CallOptions
  { -- | When it passes, the current wait of the C code, or its next one, fails with @ETIMEDOUT@. The call returns the
    -- function's result.
    callDeadline :: !Deadline,
    -- | The errno with which the C code's wait fails when an asynchronous exception interrupts the call. (Timeouts
    -- always use @ETIMEDOUT@.) Choose @ETIMEDOUT@ for libraries that continue after @EINTR@, as libpq does.
    callInterruption :: !Errno,
    -- | The size of the C stack. Memory is taken as it is touched. 0 for 256 KiB.
    callStackBytes :: !Int
  }

-- | No deadline, @EINTR@, a stack of 256 KiB.
defaultCall :: CallOptions
defaultCall = CallOptions {callDeadline = noDeadline, callInterruption = eINTR, callStackBytes = 0}

-- | An argument: its kind, and an action that writes it to memory. Evaluating an 'Argument' evaluates the argument
-- itself.
data Argument = Argument !CKind (Ptr () -> IO ())

-- ----------------------------------------------------------------------------------------------------- carriers --- --

-- | Starts this number of carriers, the operating system threads on which C functions run. They stay until the process
-- ends. Without this, the first call starts one for each processor. Throws an 'IOError' (@EALREADY@) if there are
-- carriers already, and 'Millrace.Manager.NotThreaded' without @-threaded@.
--
-- > main = startCarriers 2 >> ...
startCarriers :: Int -> IO ()
startCarriers count = mask_ $ do
  result <- beginCarriers count
  when (result < 0) $ throwIO (failure "Millrace.Foreign.startCarriers" result)

-- | The number of carriers; 0 before the first call. Does not block.
carrierCount :: IO Int
carrierCount = fromIntegral <$> c_carriers_count

beginCarriers :: Int -> IO CInt
beginCarriers count = do
  backend <- chosenBackend -- throws if no backend works
  closeAtExit
  withCString (backendName backend) (c_start_carriers (fromIntegral (max 0 count)))

-- The child of a fork begins without carriers.
ensureCarriers :: IO ()
ensureCarriers = do
  count <- c_carriers_count
  when (count == 0) $ do
    result <- beginCarriers 0
    when (result < 0 && Errno (negate result) /= eALREADY) $
      throwIO (failure "Millrace.Foreign: starting carriers" result)

-- At the program's end the run-time system first runs finalizers of C, and then frees what waking a thread needs. The
-- stable pointer keeps this finalizer from running before that.
closeAtExit :: IO ()
closeAtExit = do
  isFirst <- atomicModifyIORef' closesAtExit (\done -> (True, not done))
  when isFirst $ newForeignPtr c_close nullPtr >>= void . newStablePtr

closesAtExit :: IORef Bool
closesAtExit = unsafePerformIO (newIORef False)
{-# NOINLINE closesAtExit #-}

failure :: String -> CInt -> IOError
failure attempted result = errnoToIOError attempted (Errno (negate result)) Nothing Nothing

-- -------------------------------------------------------------------------------------------------------- a call ---
-- --

-- | Runs a C function on a fiber, and waits until it has returned. Then throws the exception that arrived meanwhile, if
-- any. errno is that of the function: nothing between the end of the call and the caller's @getErrno@ changes it.
perform :: CallOptions -> FunPtr f -> [Argument] -> CKind -> (Ptr () -> IO r) -> IO r
perform options function arguments resultKind readResult =
  evaluated
    >> mask
      ( \restore -> do
          ensureCarriers
          capability <- currentCapability
          call <- c_call_create function (fromIntegral (length arguments)) (kindCode resultKind) capability
          when (call == nullPtr) $ throwIO (userError "Millrace.Foreign: no memory for a call")
          woken <- signalOf call
          callOff <-
            ( zipWithM_ (pass call) [0 ..] arguments
                >> beginBefore (callDeadline options) call (begin options call capability)
              )
              `onException` c_call_end call
          interruption <- attend restore options call woken
          callOff
          result <- c_call_result call >>= readResult
          c_call_end call
          maybe (return result) throwIO interruption
      )
  where
    -- Unmasked, because this may take long and must be interruptible.
    evaluated = evaluate options >> evaluate function >> mapM_ evaluate arguments
    pass call index (Argument kind write) = c_call_argument call index (kindCode kind) >>= write

-- A record that is used again already has one.
signalOf :: Ptr Call -> IO (MVar ())
signalOf call = do
  known <- c_call_signal call
  if castStablePtrToPtr known /= nullPtr
    then deRefStablePtr known
    else do
      signal <- newEmptyMVar
      newStablePtr signal >>= c_call_set_signal call
      return signal

begin :: CallOptions -> Ptr Call -> CInt -> IO ()
begin options call capability = do
  ensureWaker capability
  result <- c_call_start call (fromIntegral (callStackBytes options))
  when (result < 0) $ throwIO (failure "Millrace.Foreign: starting a fiber" result)

currentCapability :: IO CInt
currentCapability = fromIntegral . fst <$> (myThreadId >>= threadCapability)

-- | Waits for the end, and runs callbacks until then. Returns the exception that has ended the wait or a callback. The
-- first exception interrupts the C code; later ones stay pending.
attend :: (IO () -> IO ()) -> CallOptions -> Ptr Call -> MVar () -> IO (Maybe SomeException)
attend restore options call woken = go Nothing
  where
    go interruption = do
      now <- attempt interruption id (takeMVar woken)
      -- If an interruption came first, it is handled before the reason for waking.
      unless (isJust interruption || isNothing now) $ uninterruptibleMask_ (takeMVar woken)
      frame <- c_call_frame call
      if frame == nullPtr
        then return now
        else do
          afterwards <- attempt now restore (runFrame frame)
          capability <- currentCapability
          ensureWaker capability
          c_call_resume call capability
          go afterwards
    attempt interruption@(Just _) _ action = interruption <$ (uninterruptibleMask_ (try action) >>= ignore)
    attempt Nothing unmask action = try (unmask action) >>= either interrupt (const (return Nothing))
    interrupt problem = Just problem <$ c_call_interrupt call (errnoFor options problem)
    ignore :: Either SomeException () -> IO ()
    ignore _ = return ()

errnoFor :: CallOptions -> SomeException -> CInt
errnoFor options problem
  | isJust (fromException problem :: Maybe Base.Timeout) = timedOut
  | isJust (fromException problem :: Maybe Timer.Timeout) = timedOut
  | otherwise = code (callInterruption options)
  where
    timedOut = code eTIMEDOUT
    code (Errno number) = number

-- | Begins a call that is interrupted if its deadline passes first, and returns the action that cancels the timer. The
-- timer is armed before the call begins: arming may have to start a manager first, which may fail or be interrupted,
-- and once C runs neither may happen. The timer may fire before the call has begun, and for a moment after it was
-- cancelled. So a lock says whether the call exists.
beginBefore :: Deadline -> Ptr Call -> IO () -> IO (IO ())
beginBefore deadline call start
  | deadline == noDeadline = return () <$ start
  | otherwise = do
    present <- newEmptyMVar
    manager <- Timer.getSystemTimerManager
    delayMicros <- microsecondsUntil deadline
    alarm <- Timer.registerTimeout manager delayMicros $
      withMVar present $ \isPresent ->
        when isPresent $ c_call_interrupt call timedOut
    start `onException` (putMVar present False >> Timer.unregisterTimeout manager alarm)
    putMVar present True
    return $ do
      uninterruptibleMask_ $ modifyMVar_ present (const (return False))
      Timer.unregisterTimeout manager alarm
  where
    Errno timedOut = eTIMEDOUT

-- Rounded up, so that it is not before the deadline.
microsecondsUntil :: Deadline -> IO Int
microsecondsUntil deadline = do
  now <- deadlineNanoseconds <$> deadlineAfter (seconds 0)
  let until_ = deadlineNanoseconds deadline
  return $ if until_ <= now then 0 else fromIntegral (((until_ - now) + 999) `div` 1000)

------------------------------------------------------------------------------------------------------------------------
-- The wakers: one thread for each capability that has made a call, which wakes the threads whose calls have ended or
-- request a callback. Waking a thread from outside takes a lock and, if its capability is idle, a switch between OS
-- threads. So only the waker is woken from outside, and it then wakes all the others.

-- Starts the waker of a capability unless it runs already.
ensureWaker :: CInt -> IO ()
ensureWaker capability = do
  missing <- c_waker_is_missing capability
  when (missing /= 0) . mask_ $ do
    bell <- newEmptyMVar
    void (forkOn (fromIntegral capability) (runWaker capability bell))

-- This thread gets no exceptions: no other thread has its ThreadId, and its MVar stays reachable.
runWaker :: CInt -> MVar () -> IO ()
runWaker capability bell = do
  newStablePtrPrimMVar bell >>= wakeWanted capability
  takeMVar bell
  runWaker capability bell

-- Repeats until there is no call to wake. Then waits for the MVar, which C fills at the next call.
wakeWanted :: CInt -> StablePtr PrimMVar -> IO ()
wakeWanted capability bell = do
  first <- c_wanted_take capability bell
  unless (first == nullPtr) $ do
    with first wakeAll
    wakeWanted capability bell

wakeAll :: Ptr (Ptr Wanted) -> IO ()
wakeAll list = do
  signal <- c_wanted_next list >>= deRefStablePtr
  void (tryPutMVar signal ())
  left <- peek list
  unless (left == nullPtr) (wakeAll list)
