-- | The usual values of limits that the reference names are those of the library.
module Millrace.Cli.Config.UsualLimitSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Config.Limit
import Millrace.Duration (durationSeconds, unlimited)
import Millrace.Http.Server.Settings
import Test.Hspec

spec :: Spec
spec = forM_ [minBound ..] $ \limit ->
  it (limitName limit) $ limitUsual limit `shouldBe` usualOf limit

usualOf :: Limit -> String
usualOf limit = case limit of
  LimitConnections -> maybe "as many as descriptors allow" show (settingsMaximumConnections defaultSettings)
  LimitReservedDescriptors -> maybe "" show (settingsReservedDescriptors defaultSettings)
  LimitHeadBytes -> show (settingsMaxTotalHeaderLength defaultSettings)
  LimitUrlBytes -> show (settingsMaximumTargetLength defaultSettings)
  LimitFields -> show (settingsMaximumHeaderCount defaultSettings)
  LimitBodyBytes -> maybe "any size" show (settingsMaximumBodySize defaultSettings)
  LimitHeadSeconds -> secondsOf settingsHeaderTimeout
  LimitBodySeconds -> secondsOf settingsBodyTimeout
  LimitSendSeconds -> secondsOf settingsSendTimeout
  LimitIdleSeconds -> secondsOf settingsIdleTimeout
  LimitTotalSeconds -> if settingsTotalTimeout defaultSettings == unlimited then "any time" else "other"
  LimitBytesPerSecond -> maybe "0" (show . fst) (settingsMinimumRate defaultSettings)
  -- The library has no usual time for the rate. The command has.
  LimitRateSeconds -> "10"
  LimitStreams -> show (http2MaximumStreams http2)
  LimitResets -> atOnce (http2Resets http2)
  LimitResetsPerSecond -> perSecond (http2Resets http2)
  LimitUselessFrames -> atOnce (http2Frames http2)
  LimitUselessFramesPerSecond -> perSecond (http2Frames http2)
  LimitStreamWindow -> show (http2StreamWindow http2)
  LimitConnectionWindow -> show (http2ConnectionWindow http2)
  LimitLargestWindow -> show (http2MaximumWindow http2)
  LimitCompressionTable -> show (http2CompressionTable http2)
  where
    http2 = settingsHttp2 defaultSettings
    secondsOf part = show (maybe (settingsTimeoutSeconds defaultSettings) durationSeconds (part defaultSettings))
    atOnce (Allowance burst _) = show burst
    perSecond (Allowance _ rate) = show rate
