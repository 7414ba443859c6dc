-- Must not know: the core.

-- | Durations: spans of time, and limits on how long something may take.
--
-- A duration is written with its unit. So a number of seconds cannot be mistaken for one of microseconds.
--
-- >>> [seconds 90, seconds 60 <> milliseconds 500, milliseconds 2500 <> unlimited]
-- [seconds 90,milliseconds 60500,unlimited]
-- >>> seconds 5 < milliseconds 5001 && hours 1000000 < unlimited
-- True
module Millrace.Duration
  ( Duration,

    -- * Writing durations
    nanoseconds,
    microseconds,
    milliseconds,
    seconds,
    minutes,
    hours,
    unlimited,

    -- * Durations in messages
    describeDuration,

    -- * Durations as numbers
    durationNanoseconds,
    durationMicroseconds,
    durationMilliseconds,
    durationSeconds,
    limitNanoseconds,
  )
where

import Data.List (dropWhileEnd)
import Data.Word (Word64)

-- | A span of time in nanoseconds, or 'unlimited', which is greater than all others. '<>' adds durations; a sum of more
-- than 584 years is 'unlimited'. 'mempty' is no time.
newtype Duration = Duration Word64
  deriving (Eq, Ord)

instance Semigroup Duration where
  Duration a <> Duration b = if b > maxBound - a then unlimited else Duration (a + b)

instance Monoid Duration where
  mempty = Duration 0

-- | Shows what one would write in a program, in the largest unit that needs no fraction. 'describeDuration' is for
-- messages.
instance Show Duration where
  showsPrec d (Duration ns)
    | Duration ns == unlimited = showString "unlimited"
    | ns == 0 = text "seconds" ns
    | otherwise = case [(unit, ns `quot` size) | (unit, size) <- units, ns `rem` size == 0] of
      (unit, count) : _ -> text unit count
      [] -> text "nanoseconds" ns
    where
      text unit count = showParen (d > 10) (showString unit . showChar ' ' . shows count)
      units =
        [ ("hours", 3600000000000),
          ("minutes", 60000000000),
          ("seconds", nanosecondsPerSecond),
          ("milliseconds", 1000000),
          ("microseconds", 1000)
        ]

-- Negative numbers are no time. Too large ones are unlimited.
multiple :: Word64 -> Int -> Duration
multiple unit count
  | count <= 0 = Duration 0
  | fromIntegral count > maxBound `quot` unit = unlimited
  | otherwise = Duration (fromIntegral count * unit)
{-# INLINE multiple #-}

-- | This many nanoseconds. Of this unit and of all others, a negative number is no time, and more than 584 years are
-- 'unlimited'.
nanoseconds :: Int -> Duration
nanoseconds = multiple 1
{-# INLINE nanoseconds #-}

-- | This many microseconds.
microseconds :: Int -> Duration
microseconds = multiple 1000
{-# INLINE microseconds #-}

-- | This many milliseconds.
milliseconds :: Int -> Duration
milliseconds = multiple 1000000
{-# INLINE milliseconds #-}

-- | This many seconds.
seconds :: Int -> Duration
seconds = multiple nanosecondsPerSecond
{-# INLINE seconds #-}

-- | This many minutes.
minutes :: Int -> Duration
minutes = multiple 60000000000
{-# INLINE minutes #-}

-- | This many hours.
hours :: Int -> Duration
hours = multiple 3600000000000
{-# INLINE hours #-}

-- | No limit: what may take this long never times out.
unlimited :: Duration
unlimited = Duration maxBound
{-# INLINE unlimited #-}

-- | A duration for people, in messages and logs. Below a minute it has at most three decimals, above it has whole
-- seconds; what is beyond them is left out. Microseconds are @us@, because not every terminal has other letters.
--
-- >>> map describeDuration [milliseconds 100, milliseconds 2500, seconds 90, minutes 120, microseconds 15, unlimited]
-- ["100 ms","2.5 s","1 min 30 s","2 h","15 us","unlimited"]
describeDuration :: Duration -> String
describeDuration (Duration ns)
  | Duration ns == unlimited = "unlimited"
  | ns >= minute =
    unwords
      [ show count ++ unit
        | (count, unit) <-
            [ (ns `quot` hour, " h"),
              (ns `rem` hour `quot` minute, " min"),
              (ns `rem` minute `quot` nanosecondsPerSecond, " s")
            ],
          count > 0
      ]
  | otherwise = case dropWhile ((> ns) . fst) units of
    (size, unit) : _ -> show (ns `quot` size) ++ decimals (ns `rem` size * 1000 `quot` size) ++ unit
    [] -> "0 s"
  where
    minute = 60 * nanosecondsPerSecond
    hour = 60 * minute
    units = [(nanosecondsPerSecond, " s"), (1000000, " ms"), (1000, " us"), (1, " ns")]
    decimals thousandths
      | thousandths == 0 = ""
      | otherwise = '.' : dropWhileEnd (== '0') (drop 1 (show (1000 + thousandths)))

-- | The duration in nanoseconds. 'unlimited' is 'maxBound'.
durationNanoseconds :: Duration -> Word64
durationNanoseconds (Duration ns) = ns
{-# INLINE durationNanoseconds #-}

-- | The duration in microseconds, rounded up. 'unlimited' is 'maxBound', which is never reached otherwise.
durationMicroseconds :: Duration -> Int
durationMicroseconds = inUnits 1000
{-# INLINE durationMicroseconds #-}

-- | The duration in milliseconds, rounded up. 'unlimited' is 'maxBound'.
durationMilliseconds :: Duration -> Int
durationMilliseconds = inUnits 1000000
{-# INLINE durationMilliseconds #-}

-- | The duration in seconds, rounded up. 'unlimited' is 'maxBound'.
durationSeconds :: Duration -> Int
durationSeconds = inUnits nanosecondsPerSecond
{-# INLINE durationSeconds #-}

inUnits :: Word64 -> Duration -> Int
inUnits unit (Duration ns)
  | ns == maxBound = maxBound
  | otherwise = fromIntegral (whole + (if whole * unit < ns then 1 else 0))
  where
    whole = ns `quot` unit
{-# INLINE inUnits #-}

-- | The duration as the core takes limits: a nanosecond more, which no clock shows, so that 0 is 'unlimited', and no
-- time is a limit that passes at once. "Millrace.Operation" needs it.
limitNanoseconds :: Duration -> Word64
limitNanoseconds (Duration ns) = ns + 1
{-# INLINE limitNanoseconds #-}

nanosecondsPerSecond :: Word64
nanosecondsPerSecond = 1000000000
