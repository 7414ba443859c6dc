-- |
-- The limits of the settings, once worked out, in the units in which they are applied. Must not know: connections.
module Millrace.Http.Server.Limits (Limits (..), Rate (..), limitsOf, secondsInMicros, millisInMicros) where

import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Millrace.Http.Http1.Wire (allowBareLineFeed, allowFolding, allowNoHost, allowNonAscii)
import Millrace.Http.Server.Settings (Settings (..))

-- | Time limits in microseconds, 0 meaning none; sizes and numbers, 'maxBound' meaning none; and what is no limit.
data Limits = Limits
  { headMicros :: !Int,
    idleMicros :: !Int,
    sendMicros :: !Int,
    totalMicros :: !Int,
    -- | Without a byte of body.
    bodyMicros :: !Int,
    -- | For so many bytes of body.
    bodyRate :: !Rate,
    -- | For so many bytes of response, if there is a minimum.
    sendRate :: !(Maybe Rate),
    bodyBytesMax :: !Int,
    -- | Of body that is skipped.
    skippedBytesMax :: !Int,
    requestsMax :: !Int,
    -- | Field lines of a head, and bytes of a head and of a target.
    fieldsMax :: !Int,
    headMax :: !Int,
    targetMax :: !Int,
    -- | What the parser of heads lets pass.
    headAllowed :: !Word32
  }

-- | So many bytes in so many microseconds (0: no limit).
data Rate = Rate !Int !Int

-- | The limits that the settings set.
limitsOf :: Settings -> Limits
limitsOf settings =
  Limits
    { headMicros = phase settingsHeaderSeconds,
      idleMicros = phase settingsIdleSeconds,
      sendMicros = phase settingsSendSeconds,
      totalMicros = secondsInMicros (settingsTotalSeconds settings),
      bodyMicros = phase settingsBodySeconds,
      bodyRate = maybe (Rate (settingsSlowlorisSize settings) (phase settingsBodySeconds)) rate (settingsMinimumRate settings),
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
    phase own = secondsInMicros (fromMaybe (settingsTimeoutSeconds settings) (own settings))
    rate (bytesPerSecond, window) = Rate (bytesPerSecond * min centurySeconds window) (secondsInMicros window)
    orNone limit = fromMaybe maxBound (limit settings)

-- | Microseconds of whole seconds or milliseconds. A century stands for all that is longer, as whoever writes 'maxBound'
-- means it: the product must not overflow. What is negative is 0.
secondsInMicros, millisInMicros :: Int -> Int
secondsInMicros seconds = 1000000 * max 0 (min centurySeconds seconds)
millisInMicros millis = 1000 * max 0 (min (1000 * centurySeconds) millis)

centurySeconds :: Int
centurySeconds = 100 * 366 * 86400
