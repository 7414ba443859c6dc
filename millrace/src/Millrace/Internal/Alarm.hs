{-# LANGUAGE BangPatterns #-}

-- | Starting, moving and stopping the timers of the capability's loop.
--
-- A timer is reserved, gets its action, and is started: it cannot fire before its action is there. It belongs to whoever
-- takes the action out again, the manager when it has fired or 'stopAlarm', and that one releases it.
--
-- 'startAlarm' and 'stopAlarm' are to be called masked: an exception between their steps would leave the timer to nobody.
-- Once it is reserved no step can be interrupted. They do not mask themselves, since most callers have to in any case, and
-- looking at the masking state takes as long as arming.
module Millrace.Internal.Alarm
  ( Alarm (..),
    startAlarm,
    moveAlarm,
    stopAlarm,
  )
where

import Data.Word (Word64)
import Millrace.Internal.Constants (kindTimeout)
import Millrace.Internal.Foreign
import Millrace.Internal.Manager
import Millrace.Internal.Park (reserveToken)
import Millrace.Internal.TimerTable

-- | The token of a timer. It may be kept after the timer's end: it means another timer only after its record has been used
-- 33.5 million times more.
newtype Alarm = Alarm Word64
  deriving (Eq, Ord)

-- | Starts a timer that performs its action after so many microseconds; zero or less: soon. Does not block. Throws
-- when there is no memory for it. To be called masked.
startAlarm :: Int -> Action -> IO Alarm
startAlarm !delayMicros action = do
  -- evaluated first: it may throw, and nobody would have the token
  token <- reserveToken kindTimeout
  table <- timerTableOf token
  setAction table (numberOf token) action
  c_start_after token (fromIntegral delayMicros)
  return (Alarm token)
{-# INLINE startAlarm #-}

-- | Moves it to so many microseconds from now, unless it has fired or was stopped.
moveAlarm :: Alarm -> Int -> IO ()
moveAlarm (Alarm token) delayMicros = c_move_after token (fromIntegral delayMicros)
{-# INLINE moveAlarm #-}

-- | Stops it. 'True': it is gone, and its action will not be performed. 'False': it has fired, or it belongs to another
-- capability, which will stop it in a moment unless it fires before. To be called masked.
stopAlarm :: Alarm -> IO Bool
stopAlarm (Alarm token) = do
  isStopped <- c_stop token
  if isStopped == 0
    then return False
    else do
      table <- timerTableOf token
      _ <- takeAction table (numberOf token)
      c_release token
      return True
{-# INLINE stopAlarm #-}
