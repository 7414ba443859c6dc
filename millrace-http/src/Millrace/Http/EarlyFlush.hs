{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Sends the responses that wait in a connection's output when the application goes on after it has responded, or is to
-- give the next one, and does not come to an end at once. Must not know: connections.
--
-- How long an application will take cannot be known, but whether it gives up the processor can: the manager of the
-- capability looks after all threads that can run have had their turn, and not before. Mostly it finds that nothing is
-- to be done any more. What is to be sent is sent by a second thread, pinned to the same capability, for it may have to
-- wait for the client. If the manager sleeps, as when something else has woken the application, that thread looks.
--
-- The threads are kept for the next time, because a fork asks the scheduler to switch threads soon, in the middle of a
-- batch of requests, and a wake-up does not. The state is a word that all change by compare-and-swap, because a modified
-- @IORef@ allocates. Without both a pipelined request cost half as much again (decision 16).
module Millrace.Http.EarlyFlush
  ( FlushesEarly (..),
    Sender,
    newSender,
    armFlush,
    settleFlush,
    retireFlush,
  )
where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask_, try)
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.IORef
import Data.Primitive.ByteArray (MutableByteArray (..), readByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#)
import GHC.IO (IO (..))
import Millrace.Http.Threads
import Millrace.Manager (atNextTurn)

-- | What an early flush needs of a connection.
class FlushesEarly c where
  -- | The index of the word with the flush's state, which is 0 at first.
  flushState :: c -> (MutableByteArray RealWorld, Int)

  flushSender :: c -> IORef Sender
  flushThreads :: c -> Threads

  -- | Sends. Must not throw.
  flushNow :: c -> IO ()

-- | The MVar that the sending thread fills when it is done, if there is such a thread.
type Sender = Maybe (MVar ())

-- | Nobody sends.
newSender :: IO (IORef Sender)
newSender = newIORef Nothing

newtype State = State Int
  deriving (Eq)

-- The states: no check is scheduled; one is, and will do nothing; one is, and will send; a thread sends.
unarmed, disarmed, armed, sending :: State
unarmed = State 0
disarmed = State 1
armed = State 2
sending = State 3

-- Compare-and-swap of the state: replaces the first state by the second. True if it did. A full barrier.
change :: FlushesEarly c => c -> State -> State -> IO Bool
change early (State (I# old)) (State (I# new)) = case flushState early of
  (MutableByteArray array, I# index) -> IO $ \s ->
    case casIntArray# array index old new s of (# s', found #) -> (# s', State (I# found) == State (I# old) #)
{-# INLINE change #-}

readState :: FlushesEarly c => c -> IO State
readState early = State <$> uncurry readByteArray (flushState early)
{-# INLINE readState #-}

-- | Schedules the output to be sent, masked and at most once, when this thread waits for something. Call it only after
-- the last early flush was settled by 'settleFlush'.
armFlush :: FlushesEarly c => c -> IO ()
armFlush early = do
  willBeSeen <- change early disarmed armed
  unless willBeSeen (announce early)
{-# INLINE armFlush #-}

-- Masked, so that an exception cannot prevent the check after the state says that it is scheduled.
announce :: FlushesEarly c => c -> IO ()
announce early = mask_ $ do
  uncurry writeByteArray (flushState early) word
  willLook <- atNextTurn (look early)
  unless willLook (runInOther early)
  where
    State word = armed
{-# INLINEABLE announce #-}

-- What the manager does.
look :: FlushesEarly c => c -> IO ()
look early = do
  ended <- change early disarmed unarmed
  unless ended (runInOther early)
{-# INLINEABLE look #-}

runInOther :: FlushesEarly c => c -> IO ()
runInOther early = runHere (flushThreads early) (run early)
{-# INLINEABLE runInOther #-}

-- Runs until the state says that there is nothing to do, or that this thread sends.
run :: FlushesEarly c => c -> IO ()
run early = do
  ended <- change early disarmed unarmed
  unless ended $ do
    done <- newEmptyMVar
    writeIORef (flushSender early) (Just done)
    begun <- change early armed sending
    if begun then send done else run early
  where
    send done = do
      void (try (flushNow early) :: IO (Either SomeException ()))
      writeIORef (flushSender early) Nothing
      void (change early sending unarmed)
      putMVar done ()
{-# INLINEABLE run #-}

-- | Cancels the early flush, or waits until it is done. Afterwards the output belongs to the caller. Costs one read if
-- nothing was scheduled.
settleFlush :: FlushesEarly c => c -> IO ()
settleFlush early = do
  state <- readState early
  when (state == armed || state == sending) (settle early (return ()))
{-# INLINE settleFlush #-}

-- | The same, but if the flush has begun, first runs the given action, which should make it end.
retireFlush :: FlushesEarly c => c -> IO () -> IO ()
retireFlush = settle

-- There is no sender to find if it has just ended.
settle :: FlushesEarly c => c -> IO () -> IO ()
settle early hasten = do
  calledOff <- change early armed disarmed
  state <- readState early
  when (not calledOff && state == sending) $ do
    readIORef (flushSender early) >>= maybe yield (\done -> hasten >> readMVar done)
    settle early hasten
{-# INLINEABLE settle #-}
