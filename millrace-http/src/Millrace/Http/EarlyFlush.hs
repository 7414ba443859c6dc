{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Sends the responses that wait in a connection's output when the application that is to give the next one does not do
-- so at once. Knows nothing of connections: it is told what to run.
--
-- How long an application will take cannot be known, but whether it gives up the processor can: a second thread, pinned
-- to the same capability, runs as soon as the application's thread is parked or has used up its time slice, and not
-- before. One such thread serves a whole batch of pipelined requests, and finds nothing to do if they were all answered
-- at once.
--
-- The threads are kept for the next batch, because a fork asks the scheduler to switch threads soon, in the middle of the
-- batch, and a wake-up does not. The state is a word that both threads change by compare-and-swap, because a modified
-- @IORef@ allocates. Without both a pipelined request cost half as much again.
module Millrace.Http.EarlyFlush
  ( -- * Threads
    Flushers,
    newFlushers,

    -- * Flushing
    EarlyFlush (..),
    Sender,
    newSender,
    armFlush,
    settleFlush,
    retireFlush,
  )
where

import Control.Concurrent (forkOn, getNumCapabilities, myThreadId, threadCapability, yield)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask_, try)
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.Array (Array, bounds, inRange, listArray, (!))
import Data.IORef
import Data.Primitive.ByteArray (MutableByteArray (..), readByteArray, writeByteArray)
import GHC.Exts (Int (..), casIntArray#)
import GHC.IO (IO (..))

-- | The parked threads of a server, by capability. Those of capabilities that come later are not kept.
newtype Flushers = Flushers (Array Int (IORef [Flusher]))

-- Where a parked thread is told what to run.
type Flusher = MVar (IO ())

-- | No threads yet. Those that are parked end when nobody has the value any more.
newFlushers :: IO Flushers
newFlushers = do
  count <- getNumCapabilities
  Flushers . listArray (0, count - 1) <$> mapM (const (newIORef [])) [1 .. count]

-- As many batches as one poll may bring.
parkedMax :: Int
parkedMax = 64

parkedOn :: Flushers -> Int -> Maybe (IORef [Flusher])
parkedOn (Flushers parked) capability
  | inRange (bounds parked) capability = Just (parked ! capability)
  | otherwise = Nothing

-- Has an action run by a thread of this capability. Masked, so that no thread is lost.
runOn :: Flushers -> Int -> IO () -> IO ()
runOn flushers capability action = do
  parked <- maybe (return Nothing) (`atomicModifyIORef'` unpark) (parkedOn flushers capability)
  case parked of
    Just flusher -> putMVar flusher action
    Nothing -> do
      flusher <- newEmptyMVar
      void (forkOn capability (serve flusher action))
  where
    unpark (first : others) = (others, Just first)
    unpark [] = ([], Nothing)
    serve flusher first = do
      first
      kept <- maybe (return False) (`atomicModifyIORef'` park flusher) (parkedOn flushers capability)
      when kept (takeMVar flusher >>= serve flusher)
    park flusher others = if length others < parkedMax then (flusher : others, True) else (others, False)

-- | Of one connection: where the word with its state is, 0 at first, and who sends.
data EarlyFlush = EarlyFlush !(MutableByteArray RealWorld) !Int !(IORef Sender)

-- | What the thread that sends, if one does, fills when it has done so.
type Sender = Maybe (MVar ())

-- | Nobody sends.
newSender :: IO (IORef Sender)
newSender = newIORef Nothing

newtype State = State Int
  deriving (Eq)

-- No thread will run; one will, and do nothing; one will, and send; one sends.
unarmed, disarmed, armed, sending :: State
unarmed = State 0
disarmed = State 1
armed = State 2
sending = State 3

-- Puts a state in the place of another one, if that is the present one. True if so. A full barrier.
change :: EarlyFlush -> State -> State -> IO Bool
change (EarlyFlush (MutableByteArray array) (I# index) _) (State (I# old)) (State (I# new)) = IO $ \s ->
  case casIntArray# array index old new s of (# s', found #) -> (# s', State (I# found) == State (I# old) #)
{-# INLINE change #-}

readState :: EarlyFlush -> IO State
readState (EarlyFlush array index _) = State <$> readByteArray array index
{-# INLINE readState #-}

-- | Arranges for an action to be run, masked and at most once, as soon as this thread waits for something. To be called
-- when the last one was settled. The action must not throw.
armFlush :: Flushers -> EarlyFlush -> IO () -> IO ()
armFlush flushers early@(EarlyFlush array index _) flush = do
  willRun <- change early disarmed armed
  unless willRun $ do
    (capability, _) <- threadCapability =<< myThreadId
    mask_ (writeByteArray array index word >> runOn flushers capability (run early flush))
  where
    State word = armed
{-# NOINLINE armFlush #-}

-- Until the state says that nothing is to be done, or that this thread sends.
run :: EarlyFlush -> IO () -> IO ()
run early@(EarlyFlush _ _ sender) flush = do
  ended <- change early disarmed unarmed
  unless ended $ do
    done <- newEmptyMVar
    writeIORef sender (Just done)
    begun <- change early armed sending
    if begun then send done else run early flush
  where
    send done = do
      void (try flush :: IO (Either SomeException ()))
      writeIORef sender Nothing
      void (change early sending unarmed)
      putMVar done ()

-- | Calls the action off, or waits until it is done: afterwards the output is the caller's. One read if nothing was
-- armed.
settleFlush :: EarlyFlush -> IO ()
settleFlush early = do
  state <- readState early
  when (state == armed || state == sending) (settle early (return ()))
{-# INLINE settleFlush #-}

-- | The same, but if the action has begun, this runs first, which is to make it end.
retireFlush :: EarlyFlush -> IO () -> IO ()
retireFlush = settle

-- Who sends is not known when it has just ended.
settle :: EarlyFlush -> IO () -> IO ()
settle early@(EarlyFlush _ _ sender) hasten = do
  calledOff <- change early armed disarmed
  state <- readState early
  when (not calledOff && state == sending) $ do
    readIORef sender >>= maybe yield (\done -> hasten >> readMVar done)
    settle early hasten
{-# NOINLINE settle #-}
