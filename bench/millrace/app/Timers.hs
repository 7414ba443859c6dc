{-# LANGUAGE CPP #-}
-- | The timer workloads. One source for both sides: with MILLRACE defined the timers are Millrace's, without it
-- they are GHC's own. Prints the seconds that the work took.
--
-- > timers sleepers N              N threads sleep 1 ms; until all have woken
-- > timers floor N                 N threads wait on an MVar instead, which is then filled: what threads alone cost
-- > timers callbacks N             N callbacks after 1 ms, without threads; until all have run
-- > timers timeouts THREADS CALLS  each thread calls @timeout 10s yield@ so many times
-- > timers rearm TIMERS ROUNDS     TIMERS live timers of 10 s, each re-armed so many times; arming is not counted
module Main (main) where

import Control.Concurrent.MVar
import Control.Monad (replicateM, replicateM_, when)
import Data.IORef
import GHC.Clock (getMonotonicTime)
import System.Environment (getArgs)
import Text.Printf (printf)
#ifdef MILLRACE
import Control.Concurrent (forkIO, yield)
import Millrace.Timer (getSystemTimerManager, registerTimeout, threadDelay, timeout, updateTimeout)
#else
import Control.Concurrent (forkIO, threadDelay, yield)
import GHC.Event (getSystemTimerManager, registerTimeout, updateTimeout)
import System.Timeout (timeout)
#endif

millisecond, tenSeconds :: Int
millisecond = 1000
tenSeconds = 10 * 1000 * millisecond

-- | Counts to n; the last one opens the gate.
newCountdown :: Int -> IO (IO (), IO ())
newCountdown n = do
  left <- newIORef n
  gate <- newEmptyMVar
  let arrive = do
        now <- atomicModifyIORef' left (\k -> (k - 1, k - 1))
        when (now == 0) (putMVar gate ())
  pure (arrive, readMVar gate)

threads :: Int -> IO () -> IO ()
threads n body = do
  (arrive, wait) <- newCountdown n
  replicateM_ n (forkIO (body >> arrive))
  wait

sleepers :: Int -> IO ()
sleepers n = threads n (threadDelay millisecond)

floorOfThreads :: Int -> IO ()
floorOfThreads n = do
  gate <- newEmptyMVar
  (ready, allReady) <- newCountdown n
  (done, allDone) <- newCountdown n
  replicateM_ n (forkIO (ready >> readMVar gate >> done))
  allReady
  putMVar gate ()
  allDone

callbacks :: Int -> IO ()
callbacks n = do
  manager <- getSystemTimerManager
  (arrive, wait) <- newCountdown n
  replicateM_ n (registerTimeout manager millisecond arrive)
  wait

timeouts :: Int -> Int -> IO ()
timeouts n calls = threads n (replicateM_ calls (timeout tenSeconds yield))

timed :: IO () -> IO Double
timed work = do
  begin <- getMonotonicTime
  work
  end <- getMonotonicTime
  pure (end - begin)

rearm :: Int -> Int -> IO Double
rearm n rounds = do
  manager <- getSystemTimerManager
  keys <- replicateM n (registerTimeout manager tenSeconds (pure ()))
  timed (replicateM_ rounds (mapM_ (\key -> updateTimeout manager key tenSeconds) keys))

main :: IO ()
main = do
  arguments <- getArgs
  seconds <- case arguments of
    ["sleepers", n] -> timed (sleepers (read n))
    ["floor", n] -> timed (floorOfThreads (read n))
    ["callbacks", n] -> timed (callbacks (read n))
    ["timeouts", n, calls] -> timed (timeouts (read n) (read calls))
    ["rearm", n, rounds] -> rearm (read n) (read rounds)
    _ -> error "usage: timers sleepers|floor|callbacks N, timeouts THREADS CALLS, rearm TIMERS ROUNDS"
  printf "%.6f\n" seconds
