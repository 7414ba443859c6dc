{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The limits of the settings, converted to the units in which they are applied.
module Millrace.Http.Server.Limits
  ( Limits (..),
    Rate (..),
    limitsOf,
    boundedMicros,
    secondsInMicros,
    millisInMicros,
  )
where

import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Millrace.Duration (Duration, durationMicroseconds, unlimited)
import Millrace.Http.Http1.Wire (allowBareLineFeed, allowFolding, allowNoHost, allowNonAscii)
import Millrace.Http.Server.Settings (Settings (..))

-- | Times are in microseconds, where 0 means no limit. For sizes and counts 'maxBound' means no limit.
data Limits = Limits
  { headMicros :: !Int,
    -- | Between requests.
    idleMicros :: !Int,
    -- | For each step of a new connection until its first request: the longer one of the two above.
    freshMicros :: !Int,
    sendMicros :: !Int,
    totalMicros :: !Int,
    -- | Without a byte of body.
    bodyMicros :: !Int,
    -- | The least rate of a request body.
    bodyRate :: !Rate,
    -- | The least rate of a response, if there is one.
    sendRate :: !(Maybe Rate),
    bodyBytesMax :: !Int,
    -- | The largest part of a request body that is read and dropped.
    skippedBytesMax :: !Int,
    requestsMax :: !Int,
    -- | The largest number of field lines in a head, and the largest sizes of a head and of a target.
    fieldsMax :: !Int,
    headMax :: !Int,
    targetMax :: !Int,
    -- | Flags of the head parser: which deviations from the standard it accepts.
    headAllowed :: !Word32
  }

-- | @Rate bytes micros@: at least this many bytes in this many microseconds. 0 microseconds: no limit.
data Rate = Rate !Int !Int

-- | Computes the limits from the settings.
limitsOf :: Settings -> Limits
limitsOf settings =
  Limits
    { headMicros = phase settingsHeaderTimeout,
      idleMicros = phase settingsIdleTimeout,
      freshMicros = longer (phase settingsHeaderTimeout) (phase settingsIdleTimeout),
      sendMicros = phase settingsSendTimeout,
      totalMicros = limitMicros (settingsTotalTimeout settings),
      bodyMicros = phase settingsBodyTimeout,
      bodyRate =
        maybe (Rate (settingsSlowlorisSize settings) (phase settingsBodyTimeout)) rate (settingsMinimumRate settings),
      sendRate = rate <$> settingsMinimumRate settings,
      bodyBytesMax = orNone settingsMaximumBodySize,
      skippedBytesMax = orNone settingsMaximumBodyFlush,
      requestsMax = orNone settingsMaximumRequests,
      fieldsMax = settingsMaximumHeaderCount settings,
      headMax = settingsMaxTotalHeaderLength settings,
      targetMax = min (settingsMaxTotalHeaderLength settings) (settingsMaximumTargetLength settings),
      headAllowed =
        sum
          [ allowance
            | (allowance, wanted) <-
                [ (allowBareLineFeed, settingsAllowBareLineFeed),
                  (allowFolding, settingsAllowFolding),
                  (allowNoHost, settingsAllowMissingHost),
                  (allowNonAscii, settingsAllowNonAsciiTarget)
                ],
              wanted settings
          ]
    }
  where
    phase own = maybe (secondsInMicros (settingsTimeoutSeconds settings)) limitMicros (own settings)
    limitMicros limit = if limit == unlimited then 0 else max 1 (boundedMicros limit)
    rate (bytesPerSecond, window) =
      let micros = boundedMicros window
          bytes = toInteger bytesPerSecond * toInteger micros `quot` 1000000
       in Rate (fromInteger (min (toInteger (maxBound :: Int)) bytes)) micros
    longer one other = if one == 0 || other == 0 then 0 else max one other
    orNone limit = fromMaybe maxBound (limit settings)

-- | A duration in microseconds, a century at most, so that sums do not overflow.
boundedMicros :: Duration -> Int
boundedMicros = min (secondsInMicros centurySeconds) . durationMicroseconds

-- | Whole seconds or milliseconds in microseconds. Negative values become 0. Values above a century become a century,
-- so that the product does not overflow: users write 'maxBound'.
secondsInMicros, millisInMicros :: Int -> Int
secondsInMicros seconds = 1000000 * max 0 (min centurySeconds seconds)
millisInMicros millis = 1000 * max 0 (min (1000 * centurySeconds) millis)

centurySeconds :: Int
centurySeconds = 100 * 366 * 86400
