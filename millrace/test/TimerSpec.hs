{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | Delays and callbacks: never early, soon after, and with the meaning that base gives them.
module TimerSpec (spec) where

import Control.Concurrent (myThreadId, threadCapability, yield)
import Control.Concurrent.MVar
import Control.Concurrent.STM hiding (registerDelay)
import Control.Exception
import Control.Monad (forM, forM_, replicateM, replicateM_, unless, void, when, (>=>))
import Data.IORef
import Data.List (sort)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Conc (ThreadStatus (..), threadStatus)
import Millrace.Timer
import Scenario (scenarioPrints)
import Support
import System.Mem (performMajorGC)
import System.Mem.Weak (deRefWeak)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Timer" $ do
  describe "threadDelay" $ do
    it "is never early, and soon after" $ do
      random <- newRandom 1
      latenesses <- replicateM 150 (between random 0 10000 >>= lateness . threadDelaying)
      forM_ latenesses (`shouldSatisfy` (>= 0))
      median latenesses `shouldSatisfy` (< 3000)
    it "of many threads ends in the order of their ends" $ do
      -- Where the system takes the processor away while they start, those that start later also end later.
      order <- untilQuick $ do
        ended <- newIORef []
        (jobs, startSeconds) <- timed $ do
          jobs <- forM [20, 19 .. 1 :: Int] $ \n -> startOn 0 $ do
            threadDelay (n * 8000)
            atomicModifyIORef' ended (\old -> (n : old, ()))
          mapM_ awaitBlocked jobs
          return jobs
        mapM_ finish jobs
        inOrder <- reverse <$> readIORef ended
        return (if startSeconds < 0.006 then Just inOrder else Nothing)
      order `shouldBe` [1 .. 20]
    it "of zero or less returns soon" $ within 5 "the delays" $ mapM_ threadDelay [0, -1, minBound]
    it "of the longest time can be interrupted" $
      withoutLeaks $ do
        job <- start (threadDelay maxBound)
        pause 10000
        isOver job `shouldReturn` False
        stop job
    it "of 100,000 threads at once ends for each, never early" $
      within 60 "all threads" $
        withoutLeaks $ do
          random <- newRandom 2
          jobs <- replicateM 100000 $ do
            delay <- between random 1 700000
            start (lateness (threadDelaying delay))
          earliest <- minimum <$> mapM finish jobs
          earliest `shouldSatisfy` (>= 0)
  describe "registerDelay" $ do
    it "sets its variable when the time has come, and not before" $ do
      before <- getMonotonicTimeNSec
      variable <- registerDelay 20000
      readTVarIO variable `shouldReturn` False
      within 5 "the variable" (atomically (readTVar variable >>= check))
      after <- getMonotonicTimeNSec
      (after - before) `shouldSatisfy` (>= 20000000)
    it "of zero sets it soon" $ do
      variable <- registerDelay 0
      within 5 "the variable" (atomically (readTVar variable >>= check))
  describe "callbacks" callbacks

-- | Waits until the thread waits, or is over.
awaitBlocked :: Job a -> IO ()
awaitBlocked job = do
  status <- threadStatus (jobThread job)
  when (status == ThreadRunning) (yield >> awaitBlocked job)

-- | An action with the time in microseconds that it should take.
data Timed = Timed Int (IO ())

threadDelaying :: Int -> Timed
threadDelaying delayMicros = Timed delayMicros (threadDelay delayMicros)

-- | Runs an action, and returns by how many microseconds it took too long.
lateness :: Timed -> IO Int
lateness (Timed expectedMicros action) = do
  before <- getMonotonicTimeNSec
  action
  after <- getMonotonicTimeNSec
  return $! (fromIntegral (after - before) - expectedMicros * 1000) `quotRoundingDown` 1000
  where
    quotRoundingDown a b = a `div` (b :: Int)

median :: Ord a => [a] -> a
median values = sort values !! (length values `div` 2)

-- | How many completions a manager takes at a time.
batch :: Int
batch = 256

-- | Keeps the capability busy for this many nanoseconds.
spin :: Word64 -> IO ()
spin ns = getMonotonicTimeNSec >>= go
  where
    go begun = do
      now <- getMonotonicTimeNSec
      when (now - begun < ns) (go begun)

-- The action of a timer must be garbage as soon as the timer is cancelled.
keepsNothing :: (IO () -> IO ()) -> IO ()
keepsNothing armAndCancel = do
  weak <- do
    held <- newIORef 'x'
    armAndCancel (void (readIORef held))
    mkWeakIORef held (return ())
  performMajorGC
  deRefWeak weak >>= maybe (return ()) (const (expectationFailure "what a cancelled timer refers to is kept"))

callbacks :: Spec
callbacks = do
  it "that were cancelled are garbage at once" $ do
    manager <- getSystemTimerManager
    keepsNothing (registerTimeout manager 60000000 >=> unregisterTimeout manager)
  it "that were cancelled from another capability are garbage a moment later" $
    withoutLeaks $ do
      manager <- getSystemTimerManager
      keepsNothing $ \callback -> do
        key <- startOn 0 (registerTimeout manager 60000000 callback) >>= finish
        startOn 1 (unregisterTimeout manager key) >>= finish
        inFlightNow `shouldBecome` 0
  it "that have run are garbage" $ do
    manager <- getSystemTimerManager
    keepsNothing $ \callback -> do
      done <- newEmptyMVar
      void (registerTimeout manager 1000 (callback >> putMVar done ()))
      within 5 "the callback" (takeMVar done)
      pause 20000
  it "whose time cannot be computed, because that throws, are garbage" $ do
    manager <- getSystemTimerManager
    keepsNothing $ \callback -> do
      problem <- failsWith (registerTimeout manager (error "no time") callback)
      show (problem :: ErrorCall) `shouldContain` "no time"
  it "armed and cancelled a million times need no memory" $ do
    manager <- getSystemTimerManager
    let armAndCancel n = forM_ [1 .. n :: Int] $ \i ->
          registerTimeout manager (1000000 + i) (void (evaluate i)) >>= unregisterTimeout manager
    armAndCancel 1000
    before <- performMajorGC >> residentKilobytes
    armAndCancel 1000000
    after <- performMajorGC >> residentKilobytes
    (after - before) `shouldSatisfy` (< 20000)
  it "run also if they fill a batch just before the manager would sleep" $ do
    manager <- getSystemTimerManager
    job <- startOn 0 $
      replicateM_ 5 $ do
        left <- newIORef batch
        allRun <- newEmptyMVar
        threadDelay 1000
        yield -- the manager's next poll finds nothing, and the one after that is its last before it sleeps
        replicateM_ batch $
          registerTimeout manager 0 $ do
            last' <- (== 0) <$> atomicModifyIORef' left (\n -> (n - 1, n - 1))
            when last' (putMVar allRun ())
        spin 2000000 -- until all are due
        within 5 "the callbacks" (takeMVar allRun)
    finish job
  it "run once, not early" $ do
    manager <- getSystemTimerManager
    runs <- newMVar (0 :: Int)
    fired <- newEmptyMVar
    before <- getMonotonicTimeNSec
    void $ registerTimeout manager 20000 (modifyMVar_ runs (return . (+ 1)) >> getMonotonicTimeNSec >>= putMVar fired)
    after <- within 5 "the callback" (takeMVar fired)
    (after - before) `shouldSatisfy` (>= 20000000)
    pause 20000
    readMVar runs `shouldReturn` 1
  it "run on time although others throw" $ scenarioPrints [] "throwing-callback" "thrown by a callback"
  it "run on time although others block" $ do
    manager <- getSystemTimerManager
    gate <- newEmptyMVar :: IO (MVar ())
    count <- newMVar (0 :: Int)
    replicateM_ 100 $ registerTimeout manager 5000 (readMVar gate >> modifyMVar_ count (return . (+ 1)))
    pause 20000
    lateness' <- lateness (threadDelaying 5000)
    lateness' `shouldSatisfy` (< 500000)
    putMVar gate ()
    readMVar count `shouldBecome` 100
  it "run on the capability that registered them" $
    forM_ [0, 1] $ \capability -> do
      manager <- getSystemTimerManager
      result <- newEmptyMVar
      void $
        startOn capability (registerTimeout manager 1000 (myThreadId >>= threadCapability >>= putMVar result))
          >>= finish
      within 5 "the callback" (takeMVar result) >>= (`shouldBe` (capability, True))
  it "can be moved forwards and backwards, from any capability" $
    forM_ [0, 1] $ \capability -> do
      manager <- getSystemTimerManager
      fired <- newEmptyMVar
      key <- registerTimeout manager 5000 (getMonotonicTimeNSec >>= putMVar fired)
      before <- getMonotonicTimeNSec
      startOn capability (updateTimeout manager key 60000) >>= finish
      pause 30000
      isEmptyMVar fired `shouldReturn` True
      after <- within 5 "the callback" (takeMVar fired)
      (after - before) `shouldSatisfy` (>= 60000000)
      late <- registerTimeout manager 60000000 (getMonotonicTimeNSec >>= putMVar fired)
      startOn capability (updateTimeout manager late 5000) >>= finish
      void (within 5 "the callback that was moved forwards" (takeMVar fired))
      updateTimeout manager late 1000 -- has fired: nothing happens
      unregisterTimeout manager late
      pause 10000
      isEmptyMVar fired `shouldReturn` True
  it "can be unregistered, from any capability, and then never run" $
    withoutLeaks $ do
      manager <- getSystemTimerManager
      runs <- newMVar (0 :: Int)
      keys <- forM [0 .. 999 :: Int] $ \number ->
        startOn
          number
          (registerTimeout manager 10000000 (modifyMVar_ runs (return . (+ 1))))
          >>= finish
      jobs <- forM (zip [0 ..] keys) $ \(number, key) ->
        startOn (number `div` 2) (replicateM_ 2 (unregisterTimeout manager key))
      mapM_ finish jobs
      -- Moving what is unregistered does not bring it back.
      forM_ keys $ \key -> updateTimeout manager key 1000
      inFlightNow `shouldBecome` 0
      pause 20000
      readMVar runs `shouldReturn` 0
  it "run or do not run, but never twice, when they are unregistered at their time" $
    within 30 "all" $
      withoutLeaks $ do
        manager <- getSystemTimerManager
        random <- newRandom 4
        runs <- forM [0 .. 1999 :: Int] $ \number -> do
          count <- newIORef (0 :: Int)
          key <- registerTimeout manager 300 (atomicModifyIORef' count (\n -> (n + 1, ())))
          between random 1 500 >>= threadDelay
          startOn number (unregisterTimeout manager key) >>= finish
          return count
        pause 20000
        counts <- mapM readIORef runs
        unless (all (<= 1) counts) $ expectationFailure ("ran " ++ show (maximum counts) ++ " times")
        sum counts `shouldSatisfy` (\n -> n > 50 && n < 1950)
