-- | What another thread does when this one gives up the processor.
module OnYieldSpec (spec) where

import Control.Concurrent
import Control.Exception (MaskingState (..), getMaskingState)
import Control.Monad (replicateM, replicateM_, void, when, (>=>))
import Data.IORef
import Millrace.Http.Threads
import Millrace.Http.Threads.OnYield
import Millrace.Internal.AtomicWord
import Support (within)
import Test.Hspec

data Awaited = Awaited
  { awaitedWord :: AtomicWord,
    awaitedRunner :: Runner,
    awaitedThreads :: Threads,
    awaitedAction :: IO ()
  }

instance OnYield Awaited where
  yieldWord = awaitedWord
  yieldThreads = awaitedThreads
  onYield awaited = runAwaited awaited (awaitedRunner awaited) (awaitedAction awaited)

-- A role that passes on: the action, and who has the role.
data Role = Role AtomicWord Threads (IO ())

instance OnYield Role where
  yieldWord (Role word _ _) = word
  yieldThreads (Role _ threads _) = threads
  onYield role@(Role _ _ action) = finish role >> action

spec :: Spec
spec = describe "an action for when a thread yields" $ do
  it "runs once, masked, when the thread that has armed it waits" $ do
    runs <- newIORef []
    awaited <- newThreads >>= newAwaited (getMaskingState >>= \state -> modifyIORef runs (state :))
    arm awaited
    threadDelay 20000
    settleAwaited awaited
    readIORef runs `shouldReturn` [MaskedInterruptible]
  it "is waited for by who settles it" $ do
    begun <- newEmptyMVar
    ended <- newIORef False
    awaited <- newThreads >>= newAwaited (putMVar begun () >> threadDelay 50000 >> writeIORef ended True)
    arm awaited
    takeMVar begun
    within "the end of the action" (settleAwaited awaited)
    readIORef ended `shouldReturn` True
  it "that has begun is hastened by who retires it" $ do
    (begun, gate) <- (,) <$> newEmptyMVar <*> newEmptyMVar
    awaited <- newThreads >>= newAwaited (putMVar begun () >> takeMVar gate)
    arm awaited
    takeMVar begun
    within "the end of the action" (retire awaited (awaitedRunner awaited) (putMVar gate ()))
    tryTakeMVar gate `shouldReturn` Nothing
  it "is never run and settled both, on any capability" $ do
    threads <- newThreads
    outcomes <- replicateM 8 (forkedResult (replicateM 2000 (oneConnection threads)))
    mapM_ (takeMVar >=> (`shouldSatisfy` and)) outcomes
  it "is run by the same few threads, batch after batch" $
    runInBoundThread $ do
      threads <- newThreads
      seenIn <- newIORef []
      replicateM_ 500 $ do
        ran <- newEmptyMVar
        awaited <- newAwaited (myThreadId >>= \self -> modifyIORef seenIn (self :) >> putMVar ran ()) threads
        arm awaited
        takeMVar ran
        settleAwaited awaited
      seen <- readIORef seenIn
      length (distinct seen) `shouldSatisfy` (<= 8)
  it "passes a role on to exactly one thread, on any capability" $ do
    threads <- newThreads
    outcomes <- replicateM 8 (forkedResult (replicateM 2000 (oneRole threads)))
    mapM_ (takeMVar >=> (`shouldSatisfy` and)) outcomes
  where
    settleAwaited awaited = settle awaited (awaitedRunner awaited)
    newAwaited action threads = do
      word <- newAtomicWord
      runner <- newRunner
      return (Awaited word runner threads action)
    -- Both threads increment a plain counter: two runs at once would lose an increment, and one after settling would
    -- add one.
    oneConnection threads = do
      steps <- newIORef (0 :: Int)
      awaited <- newAwaited (readIORef steps >>= writeIORef steps . (+ 1)) threads
      and <$> mapM (attempt awaited steps) [1 .. 5 :: Int]
    attempt awaited steps batch = do
      count <- readIORef steps
      arm awaited
      when (odd batch) yield
      settleAwaited awaited
      settled <- readIORef steps
      yield
      later <- readIORef steps
      return (settled == later && settled - count <= 1)
    -- Whoever arms has the role until the action has begun. So either it is called off, or the action runs, once.
    oneRole threads = do
      word <- newAtomicWord
      passed <- newEmptyMVar
      let role = Role word threads (putMVar passed ())
      and <$> mapM (pass role passed) [1 .. 5 :: Int]
    pass role passed batch = do
      ticket <- armTicketed role
      when (odd batch) yield
      keeps <- callOff role ticket
      if keeps
        then yield >> isEmptyMVar passed
        else takeMVar passed >> not <$> callOff role ticket
    forkedResult action = do
      result <- newEmptyMVar
      void (forkIO (action >>= putMVar result))
      return result
    distinct (first : others) = first : distinct (filter (/= first) others)
    distinct [] = []
