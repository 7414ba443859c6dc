{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The settings that HTTP\/2 and HTTP\/3 have in common, for the C code.
module Millrace.Http.Multiplexed.EngineLimits
  ( EngineLimits (..),
    engineLimits,
    pokeLimits,
    settingWord,
  )
where

#include "http_settings.h"

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.Word (Word32)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (pokeByteOff)
import Millrace.Http.FieldSyntax (harmless)
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Allowance (..), Http2Settings (..), Settings (..))

-- | The limits of a connection, as in @http_settings.h@.
data EngineLimits = EngineLimits
  { limitStreams :: !Int,
    limitFields :: !Int,
    limitHead :: !Int,
    limitTarget :: !Int,
    limitStreamWindow :: !Int,
    limitConnectionWindow :: !Int,
    limitWindow :: !Int,
    limitTable :: !Int,
    limitSkipped :: !Int,
    limitResets :: !Allowance,
    limitFrames :: !Allowance,
    limitAllowed :: !Word32,
    -- | Empty: no field.
    limitServerName :: !ByteString
  }

-- | The limits that a server's settings ask for. Those of HTTP\/2 count for HTTP\/3, too. The first window of a
-- connection has at least the given number of bytes.
engineLimits :: Int -> Settings -> Limits -> EngineLimits
engineLimits leastWindow settings limits =
  EngineLimits
    { limitStreams = http2MaximumStreams own,
      limitFields = fieldsMax limits,
      limitHead = headMax limits,
      limitTarget = targetMax limits,
      limitStreamWindow = http2StreamWindow own,
      limitConnectionWindow = connectionWindow,
      limitWindow = maximum [http2MaximumWindow own, http2StreamWindow own, connectionWindow],
      limitTable = http2CompressionTable own,
      limitSkipped = skippedBytesMax limits,
      limitResets = http2Resets own,
      limitFrames = http2Frames own,
      limitAllowed = headAllowed limits,
      limitServerName = harmless (settingsServerName settings)
    }
  where
    own = settingsHttp2 settings
    connectionWindow = max leastWindow (http2ConnectionWindow own)

-- | Stores the limits at the address of an @http_settings@.
pokeLimits :: Ptr () -> EngineLimits -> IO ()
pokeLimits at limits = do
  #{poke http_settings, streams_max} at (settingWord (limitStreams limits))
  #{poke http_settings, fields_max} at (min 60000 (settingWord (limitFields limits)))
  #{poke http_settings, head_max} at (min 16777216 (settingWord (limitHead limits)))
  #{poke http_settings, target_max} at (settingWord (limitTarget limits))
  #{poke http_settings, stream_window} at (settingWord (limitStreamWindow limits))
  #{poke http_settings, connection_window} at (settingWord (limitConnectionWindow limits))
  #{poke http_settings, window_max} at (settingWord (limitWindow limits))
  #{poke http_settings, table_max} at (settingWord (limitTable limits))
  #{poke http_settings, skipped_max} at (settingWord (limitSkipped limits))
  #{poke http_settings, allowances.resets_max} at (settingWord resets)
  #{poke http_settings, allowances.resets_per_second} at (settingWord resetsPerSecond)
  #{poke http_settings, allowances.frames_max} at (settingWord frames)
  #{poke http_settings, allowances.frames_per_second} at (settingWord framesPerSecond)
  #{poke http_settings, allowed} at (limitAllowed limits)
  #{poke http_settings, server_name_length} at (settingWord (B.length name))
  BU.unsafeUseAsCStringLen name $ \(bytes, size) ->
    copyBytes (at `plusPtr` #{offset http_settings, server_name}) bytes size
  where
    Allowance resets resetsPerSecond = limitResets limits
    Allowance frames framesPerSecond = limitFrames limits
    name = B.take #{const HTTP_SERVER_NAME_MAX} (limitServerName limits)

-- | A number of a setting for C, as far as it fits.
settingWord :: Int -> Word32
settingWord = fromIntegral . max 0 . min 2147483647
