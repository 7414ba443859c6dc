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

-- | What has output that is sent early: a connection.
class FlushesEarly c where
  -- | Where the word with its state is, 0 at first.
  flushState :: c -> (MutableByteArray RealWorld, Int)

  flushSender :: c -> IORef Sender
  flushThreads :: c -> Threads

  -- | Sends. Must not throw.
  flushNow :: c -> IO ()

-- | What the thread that sends, if one does, fills when it has done so.
type Sender = Maybe (MVar ())

-- | Nobody sends.
newSender :: IO (IORef Sender)
newSender = newIORef Nothing

newtype State = State Int
  deriving (Eq)

-- Nobody will look; somebody will, and do nothing; somebody will, and send; a thread sends.
unarmed, disarmed, armed, sending :: State
unarmed = State 0
disarmed = State 1
armed = State 2
sending = State 3

-- Puts a state in the place of another one, if that is the present one. True if so. A full barrier.
change :: FlushesEarly c => c -> State -> State -> IO Bool
change early (State (I# old)) (State (I# new)) = case flushState early of
  (MutableByteArray array, I# index) -> IO $ \s ->
    case casIntArray# array index old new s of (# s', found #) -> (# s', State (I# found) == State (I# old) #)
{-# INLINE change #-}

readState :: FlushesEarly c => c -> IO State
readState early = State <$> uncurry readByteArray (flushState early)
{-# INLINE readState #-}

-- | Arranges for the output to be sent, masked and at most once, when this thread waits for something. To be called when
-- the last time was settled.
armFlush :: FlushesEarly c => c -> IO ()
armFlush early = do
  willBeSeen <- change early disarmed armed
  unless willBeSeen (announce early)
{-# INLINE armFlush #-}

-- Masked, so that somebody looks at what has been armed.
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

-- Until the state says that nothing is to be done, or that this thread sends.
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

-- | Calls the action off, or waits until it is done: afterwards the output is the caller's. One read if nothing was
-- armed.
settleFlush :: FlushesEarly c => c -> IO ()
settleFlush early = do
  state <- readState early
  when (state == armed || state == sending) (settle early (return ()))
{-# INLINE settleFlush #-}

-- | The same, but if the action has begun, this runs first, which is to make it end.
retireFlush :: FlushesEarly c => c -> IO () -> IO ()
retireFlush = settle

-- Who sends is not known when it has just ended.
settle :: FlushesEarly c => c -> IO () -> IO ()
settle early hasten = do
  calledOff <- change early armed disarmed
  state <- readState early
  when (not calledOff && state == sending) $ do
    readIORef (flushSender early) >>= maybe yield (\done -> hasten >> readMVar done)
    settle early hasten
{-# INLINEABLE settle #-}
