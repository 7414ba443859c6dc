{-# LANGUAGE BangPatterns #-}

-- | Starting, moving and stopping the timers of the capability's loop.
--
-- A timer is reserved, gets its action, and is started, so it cannot fire before its action is there. The manager, when
-- the timer has fired, or 'stopTimer' takes the action out again. Whichever does so releases the timer.
--
-- 'startTimer' and 'stopTimer' must be called masked: after an exception between their steps no thread would release
-- the timer. Once the timer is reserved no step can be interrupted. They do not mask themselves, because most callers
-- are masked already, and looking at the masking state takes as long as arming.
module Millrace.Internal.Timer
  ( Timer (..),
    startTimer,
    moveTimer,
    Stopping (..),
    stopTimer,
    withTimer,
    microsUntil,
  )
where

import Control.Exception (onException)
import Millrace.Deadline (Deadline, deadlineNanoseconds, monotonicNanoseconds, noDeadline)
import Millrace.Internal.CoreCalls
import Millrace.Internal.Kind (kindTimeout)
import Millrace.Internal.Manager
import Millrace.Internal.Park (reserveToken)
import Millrace.Internal.TimerTable

-- | The token of a timer. It may be kept after the timer's end: it means another timer only after its record has been
-- used
-- 33.5 million times more.
newtype Timer = Timer Token
  deriving (Eq, Ord)

-- | Starts a timer that performs its action after a number of microseconds; zero or less: soon. Does not block. Throws
-- when there is no memory for it. Call it masked.
startTimer :: Int -> Action -> IO Timer
startTimer !delayMicros action = do
  -- evaluated first: if it threw later, the token would be lost
  token <- reserveToken kindTimeout
  table <- timerTableOf token
  setAction table (numberOf token) action
  c_start_after token (fromIntegral delayMicros)
  return (Timer token)
{-# INLINE startTimer #-}

-- | Moves a timer to a number of microseconds from now, unless it has fired or was stopped.
moveTimer :: Timer -> Int -> IO ()
moveTimer (Timer token) delayMicros = c_move_after token (fromIntegral delayMicros)
{-# INLINE moveTimer #-}

-- | The result of stopping a timer.
data Stopping
  = -- | Its action will not be performed.
    Stopped
  | -- | It has fired, or it belongs to another capability, which stops it in a moment unless it fires before.
    MayFire
  deriving (Eq)

-- | Stops a timer. Call it masked.
stopTimer :: Timer -> IO Stopping
stopTimer (Timer token) = do
  isStopped <- c_stop token
  if isStopped == 0
    then return MayFire
    else do
      table <- timerTableOf token
      _ <- takeAction table (numberOf token)
      c_release token
      return Stopped
{-# INLINE stopTimer #-}

-- | Starts a timer, runs an action, and stops the timer, whatever exception comes. Starting it can fail, and can be
-- interrupted: it may have to start a manager. So what the caller has taken before must be protected around all of
-- this, not only around the action. Call it masked.
withTimer :: Int -> Action -> IO a -> IO a
withTimer delayMicros atTheTime action = do
  timer <- startTimer delayMicros atTheTime
  result <- action `onException` stopTimer timer
  result <$ stopTimer timer

-- | The time until the deadline, rounded up, so that no timer fires early.
microsUntil :: Deadline -> IO Int
microsUntil deadline
  | deadline == noDeadline = return maxBound
  | otherwise = do
    now <- monotonicNanoseconds
    let end = deadlineNanoseconds deadline
    return (if end <= now then 0 else fromIntegral ((end - now + 999) `div` 1000))
