{-# LANGUAGE CPP #-}

-- | The timer workloads. One source for both sides: with MILLRACE defined the timers are Millrace's, without it
-- they are GHC's own. Prints the seconds that the work took; what starts with the first timer has started before.
--
-- > timers sleepers N              N threads sleep 1 ms; until all have woken
-- > timers floor N                 N threads wait on an MVar instead, which is then filled: what threads alone cost
-- > timers callbacks N             N callbacks after 1 ms, without threads; until all have run
-- > timers timeouts THREADS CALLS  each thread calls @timeout 10s yield@ so many times
-- > timers brief THREADS CALLS     the same around nothing: what the timeout alone costs
-- > timers arm N                   one timer of 10 s is armed and cancelled, N times
-- > timers lateness N              N threads sleep 1 to 100 ms, ten times each; prints by how much the 99th percentile woke late
-- > timers rearm TIMERS ROUNDS     TIMERS live timers of 10 s, each re-armed so many times; arming is not counted
-- > timers deadline N              the deadline of a socket that a thread receives from is set to 10 s from now, N times;
-- >                                Millrace only
module Main (main) where

import Control.Concurrent.MVar
import Control.Monad (forM, replicateM, replicateM_, when)
import Data.IORef
import Data.List (sort)
import GHC.Clock (getMonotonicTime)
import System.Environment (getArgs)
import Text.Printf (printf)
#ifdef MILLRACE
import Control.Concurrent (forkIO, yield)
import Control.Monad (void)
import Millrace.Deadline (deadlineAfter)
import Millrace.Socket (Family (..), SocketType (..), defaultProtocol, setReadDeadline, socketPair)
import Millrace.Socket.ByteString (recv)
import Millrace.Timer (getSystemTimerManager, registerTimeout, threadDelay, timeout, unregisterTimeout, updateTimeout)
#else
import Control.Concurrent (forkIO, threadDelay, yield)
import GHC.Event (getSystemTimerManager, registerTimeout, unregisterTimeout, updateTimeout)
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

timeouts :: IO () -> Int -> Int -> IO ()
timeouts action n calls = threads n (replicateM_ calls (timeout tenSeconds action))

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

armAndCancel :: Int -> IO ()
armAndCancel n = do
  manager <- getSystemTimerManager
  replicateM_ n (registerTimeout manager tenSeconds (pure ()) >>= unregisterTimeout manager)

-- What a server does that gives each request ten seconds.
setDeadlines :: Int -> IO Double
#ifdef MILLRACE
setDeadlines n = do
  (near, _far) <- socketPair AF_UNIX Stream defaultProtocol
  _ <- forkIO (void (recv near 1))
  yield
  timed (replicateM_ n (deadlineAfter tenSeconds >>= setReadDeadline near))
#else
setDeadlines _ = error "deadline: only Millrace's sockets have deadlines"
#endif

-- Delays that look random, spread so that few threads wake at once.
lateness :: Int -> IO Double
lateness n = do
  results <- forM [1 .. n] $ \number -> do
    result <- newEmptyMVar
    _ <- forkIO (mapM (late number) [1 .. 10] >>= putMVar result)
    pure result
  latenesses <- sort . concat <$> mapM takeMVar results
  when (any (< 0) latenesses) $ error "a thread woke early"
  pure (latenesses !! (length latenesses * 99 `div` 100))
  where
    late number turn = do
      let delay = millisecond + (number * 7919 + turn * 104729) `mod` (99 * millisecond)
      begin <- getMonotonicTime
      threadDelay delay
      end <- getMonotonicTime
      pure $! end - begin - fromIntegral delay / 1e6

main :: IO ()
main = do
  arguments <- getArgs
  threadDelay millisecond -- whatever must start first has started
  seconds <- case arguments of
    ["sleepers", n] -> timed (sleepers (read n))
    ["floor", n] -> timed (floorOfThreads (read n))
    ["arm", n] -> timed (armAndCancel (read n))
    ["lateness", n] -> lateness (read n)
    ["callbacks", n] -> timed (callbacks (read n))
    ["timeouts", n, calls] -> timed (timeouts yield (read n) (read calls))
    ["brief", n, calls] -> timed (timeouts (pure ()) (read n) (read calls))
    ["rearm", n, rounds] -> rearm (read n) (read rounds)
    ["deadline", n] -> setDeadlines (read n)
    _ -> error "usage: timers sleepers|floor|callbacks|arm|lateness|deadline N, timeouts|brief THREADS CALLS, rearm TIMERS ROUNDS"
  printf "%.6f\n" seconds
