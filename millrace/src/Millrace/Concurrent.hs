-- | Threads, variables, waiting and times in one import: "Control.Concurrent" and "Control.Concurrent.STM" with
-- Millrace's functions in the place of those that would use GHC's own I\/O manager. A program that imports
-- "Control.Concurrent" and forgets to hide @threadDelay@ compiles, and its delays go through GHC's one queue of timers,
-- without a word. One that imports this module cannot forget.
--
-- In the place of those of base and stm: 'threadDelay', 'threadWaitRead', 'threadWaitWrite', 'threadWaitReadSTM',
-- 'threadWaitWriteSTM', 'registerDelay' and "System.Timeout"'s 'timeout'. Beside them, 'sleep' and 'timeoutAfter' take
-- a 'Duration'.
--
-- >>> done <- newEmptyMVar :: IO (MVar String)
-- >>> _ <- forkIO (sleep (milliseconds 1) >> putMVar done "slept")
-- >>> timeoutAfter (seconds 60) (takeMVar done)
-- Just "slept"
module Millrace.Concurrent
  ( module Control.Concurrent,
    module Control.Concurrent.STM,
    module Millrace.Duration,
    sleep,
    threadDelay,
    timeout,
    timeoutAfter,
    registerDelay,
    threadWaitRead,
    threadWaitWrite,
    threadWaitReadSTM,
    threadWaitWriteSTM,
  )
where

import Control.Concurrent hiding
  ( threadDelay,
    threadWaitRead,
    threadWaitReadSTM,
    threadWaitWrite,
    threadWaitWriteSTM,
  )
import Control.Concurrent.STM hiding (registerDelay)
import Millrace.Duration
import Millrace.Timer (registerDelay, sleep, threadDelay, timeout, timeoutAfter)
import Millrace.Wait (threadWaitRead, threadWaitReadSTM, threadWaitWrite, threadWaitWriteSTM)
