-- | Signals as a stream.
--
-- > main = withSignals [Terminate, Interrupt] $ \signals ->
-- >   withRunningServer defaultServer (passive "7000") serve $ do
-- >     received <- nextSignal signals
-- >     putStrLn ("ending, because of " ++ show received)
--
-- While 'withSignals' runs, a signal that it names only appears in the stream. Afterwards it has its earlier effect
-- again. Several threads may name the same signal: each of them gets it. Equal signals that arrive before the first is
-- taken count as one, as in the system itself; different ones need not come in the order in which they were sent.
-- Waiting occupies no operating system thread and is interruptible.
--
-- GHC's run-time system receives the signals (as for "System.Posix.Signals", whose
-- 'System.Posix.Signals.installHandler' must not be used for them meanwhile). Within "Millrace.Simulation" no signals
-- are received or sent.
--
-- >>> withSignals [User1] (\signals -> raiseSignal User1 >> nextSignal signals)
-- User1
module Millrace.Signal
  ( Signal (..),
    signalNumber,
    Signals,
    withSignals,
    nextSignal,
    nextSignalBefore,
    raiseSignal,
    sendSignal,
  )
where

import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception (bracket, onException, throwIO, uninterruptibleMask_)
import Control.Monad (foldM, forM_, when)
import Data.List (nub)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Foreign.C.Error (eINVAL, eSRCH, eTIMEDOUT)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Constants.Signals
import Millrace.Internal.Errors (failure)
import Millrace.Internal.HelperJob (refuseSimulation)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Timer (microsUntil)
import Millrace.Internal.Units (saturated)
import Millrace.Timer (timeout)
import System.IO.Unsafe (unsafePerformIO)
import qualified System.Posix.Signals as Posix

-- GHC takes the handler that restores the terminal's mode for the default action, and has put back the default action.
foreign import ccall unsafe "mrh_terminal_guard" c_guard_terminal :: IO ()

-- | Signals that have arrived and were not taken yet.
newtype Signals = Signals (TVar (Set.Set Signal))

instance Eq Signals where
  Signals a == Signals b = a == b

-- The streams that get a signal, and its action before.
data Listeners = Listeners
  { _listenersBefore :: Posix.Handler,
    listenersAll :: [(Signal, TVar (Set.Set Signal))]
  }

listeners :: MVar (Map.Map Int Listeners)
listeners = unsafePerformIO (newMVar Map.empty)
{-# NOINLINE listeners #-}

-- | Runs an action with a stream of these signals. Throws for a signal that cannot be received (@SIGKILL@, @SIGSTOP@,
-- libc's own, and a number that means none); then all of them keep their earlier effects.
withSignals :: [Signal] -> (Signals -> IO a) -> IO a
withSignals wanted = bracket begin end
  where
    kinds = nub wanted
    begin = do
      refuseSimulation
      forM_ kinds $ \signal -> when (signalNumber signal `notElem` receivable) $ throwIO (refused signal)
      pending <- newTVarIO Set.empty
      changeListeners (addAll pending kinds)
      return (Signals pending)
    end (Signals pending) = changeListeners (\before -> foldM (remove pending) before kinds)
    -- installHandler does not say that the system has refused a signal. Libc's own ones are not in the full set.
    receivable =
      [ number
        | number <- [1 .. 64],
          Numbered number `notElem` [Kill, Stop],
          fromIntegral number `Posix.inSignalSet` Posix.fullSignalSet
      ]
    refused signal = failure "Millrace.Signal.withSignals" (show signal) eINVAL

-- Uninterruptible: a handler that stayed without listeners would swallow its signal for ever. No thread has the
-- listeners for long.
changeListeners :: (Map.Map Int Listeners -> IO (Map.Map Int Listeners)) -> IO ()
changeListeners = uninterruptibleMask_ . modifyMVar_ listeners

-- All of them or, if there is an exception, none.
addAll :: TVar (Set.Set Signal) -> [Signal] -> Map.Map Int Listeners -> IO (Map.Map Int Listeners)
addAll _ [] before = return before
addAll pending (signal : others) before = do
  after <- add pending before signal
  addAll pending others after `onException` remove pending after signal

add :: TVar (Set.Set Signal) -> Map.Map Int Listeners -> Signal -> IO (Map.Map Int Listeners)
add pending before signal = case Map.lookup number before of
  Just others -> return (Map.insert number others {listenersAll = (signal, pending) : listenersAll others} before)
  Nothing -> do
    meant <- Posix.installHandler (fromIntegral number) (Posix.Catch (deliver number)) Nothing
    return (Map.insert number (Listeners meant [(signal, pending)]) before)
  where
    number = signalNumber signal

remove :: TVar (Set.Set Signal) -> Map.Map Int Listeners -> Signal -> IO (Map.Map Int Listeners)
remove pending before signal = case Map.lookup number before of
  Nothing -> return before
  Just (Listeners meant everybody) -> case [listener | listener@(_, other) <- everybody, other /= pending] of
    [] -> do
      _ <- Posix.installHandler (fromIntegral number) meant Nothing
      Map.delete number before <$ c_guard_terminal
    others -> return (Map.insert number (Listeners meant others) before)
  where
    number = signalNumber signal

-- Runs in a thread that GHC starts for each signal.
deliver :: Int -> IO ()
deliver number = do
  now <- readMVar listeners
  atomically $
    mapM_
      (\(signal, pending) -> modifyTVar' pending (Set.insert signal))
      (maybe [] listenersAll (Map.lookup number now))

-- | Waits for the next signal, and takes it.
nextSignal :: Signals -> IO Signal
nextSignal (Signals pending) = atomically $ do
  now <- readTVar pending
  maybe retry (\(first, others) -> first <$ writeTVar pending others) (Set.minView now)

-- | 'nextSignal' with a deadline ('Millrace.Deadline.isDeadlineError'). If it throws, it has taken none.
nextSignalBefore :: Deadline -> Signals -> IO Signal
nextSignalBefore deadline signals@(Signals pending)
  | deadline == noDeadline = nextSignal signals
  | otherwise = handOver putBack $ do
    limit <- microsUntil deadline
    found <- timeout (max 1 limit) (nextSignal signals)
    maybe (throwIO (failure "Millrace.Signal.nextSignal" "a stream of signals" eTIMEDOUT)) return found
  where
    putBack signal = atomically (modifyTVar' pending (Set.insert signal))

-- | Sends a signal to this program.
raiseSignal :: Signal -> IO ()
raiseSignal signal = refuseSimulation >> Posix.raiseSignal (saturated (signalNumber signal))

-- | Sends a signal to another process, by its number ('Millrace.Process.signalProcess' cannot hit a wrong one).
sendSignal :: Signal -> Int -> IO ()
sendSignal signal process = do
  refuseSimulation
  -- Without its upper bits the number would mean another process.
  when (toInteger process /= toInteger (saturated process)) $
    throwIO (failure "Millrace.Signal.sendSignal" ("process " ++ show process) eSRCH)
  Posix.signalProcess (saturated (signalNumber signal)) (fromIntegral process)
