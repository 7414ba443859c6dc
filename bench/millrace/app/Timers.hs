{-# LANGUAGE CPP #-}

-- | The timer workloads. One source serves both sides: with MILLRACE defined the timers are Millrace's, without it
-- GHC's own. Prints the seconds that the work took. The first timer, which starts managers, is armed before.
--
-- > timers sleepers N              N threads sleep 1 ms: the time until all have woken
-- > timers floor N                 N threads wait for an MVar instead: the cost of the threads alone
-- > timers callbacks N             N callbacks after 1 ms, without threads: the time until all have run
-- > timers timeouts THREADS CALLS  each thread makes CALLS calls of @timeout 10s yield@
-- > timers brief THREADS CALLS     the same around nothing: the cost of the timeout alone
-- > timers arm N                   a timer of 10 s is armed and cancelled, N times
-- > timers lateness N              N threads sleep 1 to 100 ms, ten times each: how late they wake (99th percentile)
-- > timers rearm TIMERS ROUNDS     each of TIMERS live timers is moved to 10 s from now, ROUNDS times
-- > timers deadline N              the deadline of a socket with a waiting receive is set to 10 s from now, N times;
-- >                                only with Millrace
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
import Millrace.Deadline (deadlineAfter, microseconds)
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

-- | An action that n threads call once each, and an action that waits until all have called it.
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

-- What a server does for each request if a request has ten seconds.
setDeadlines :: Int -> IO Double
#ifdef MILLRACE
setDeadlines n = do
  (near, _far) <- socketPair AF_UNIX Stream defaultProtocol
  _ <- forkIO (void (recv near 1))
  yield
  timed (replicateM_ n (deadlineAfter (microseconds tenSeconds) >>= setReadDeadline near))
#else
setDeadlines _ = error "deadline: only Millrace's sockets have deadlines"
#endif

-- The delays differ, so that few threads wake at the same time.
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
  threadDelay millisecond -- starts the managers
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
    _ ->
      error $
        "usage: timers sleepers|floor|callbacks|arm|lateness|deadline N, timeouts|brief THREADS CALLS, "
          ++ "rearm TIMERS ROUNDS"
  printf "%.6f\n" seconds
