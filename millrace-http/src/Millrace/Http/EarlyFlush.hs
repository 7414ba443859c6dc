-- |
-- Sends the responses that wait in a connection's output when the application that is to give the next one does not do
-- so at once. Knows nothing of connections: it is told what to run.
--
-- How long an application will take cannot be known, but whether it gives up the processor can: a second thread, pinned
-- to the same capability, runs as soon as the application's thread is parked or has used up its time slice, and not
-- before. One thread serves a whole batch of pipelined requests, and finds nothing to do if they were all answered at
-- once.
module Millrace.Http.EarlyFlush (EarlyFlush, newEarlyFlush, armFlush, settleFlush, retireFlush) where

import Control.Concurrent (ThreadId, forkOn, killThread, myThreadId, threadCapability)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask_, try, uninterruptibleMask_)
import Control.Monad (void, when)
import Data.IORef

-- | Of one connection.
newtype EarlyFlush = EarlyFlush (IORef State)

-- The thread exists in all states but the first.
data State
  = Unarmed
  | Armed
  | -- | It will do nothing when it runs.
    Disarmed
  | -- | It is sending, and fills the variable when it has done so.
    Sending !ThreadId !(MVar ())

-- | Nothing is armed.
newEarlyFlush :: IO EarlyFlush
newEarlyFlush = EarlyFlush <$> newIORef Unarmed

-- | Arranges for an action to be run, masked and at most once, as soon as this thread waits for something. To be called
-- when the last one was settled. The action must not throw.
armFlush :: EarlyFlush -> IO () -> IO ()
armFlush (EarlyFlush ref) flush = do
  needed <- atomicModifyIORef' ref arm
  when needed $ do
    (capability, _) <- threadCapability =<< myThreadId
    mask_ (void (forkOn capability (run ref flush)))
  where
    arm Disarmed = (Armed, False)
    arm _ = (Armed, True)

{-# NOINLINE armFlush #-}

run :: IORef State -> IO () -> IO ()
run ref flush = do
  self <- myThreadId
  done <- newEmptyMVar
  wanted <- atomicModifyIORef' ref (begin self done)
  when wanted $ do
    void (try flush :: IO (Either SomeException ()))
    atomicWriteIORef ref Unarmed
    putMVar done ()
  where
    begin self done Armed = (Sending self done, True)
    begin _ _ _ = (Unarmed, False)

-- | Calls the action off, or waits until it is done: afterwards the output is the caller's. One read if nothing was
-- armed.
settleFlush :: EarlyFlush -> IO ()
settleFlush (EarlyFlush ref) = do
  state <- readIORef ref
  case state of
    Unarmed -> return ()
    _ -> settle ref
{-# INLINE settleFlush #-}

settle :: IORef State -> IO ()
settle ref = callOff ref >>= mapM_ (readMVar . snd)
{-# NOINLINE settle #-}

callOff :: IORef State -> IO (Maybe (ThreadId, MVar ()))
callOff ref = atomicModifyIORef' ref change
  where
    change Armed = (Disarmed, Nothing)
    change state@(Sending thread done) = (state, Just (thread, done))
    change state = (state, Nothing)

-- | The same, but interrupts the action if it has begun.
retireFlush :: EarlyFlush -> IO ()
retireFlush (EarlyFlush ref) = uninterruptibleMask_ $ do
  sending <- callOff ref
  mapM_ (\(thread, done) -> killThread thread >> readMVar done) sending
