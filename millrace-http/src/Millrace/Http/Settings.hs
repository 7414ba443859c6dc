-- |
-- What a server can be told. Knows nothing of how it is done.
module Millrace.Http.Settings (Settings (..), defaultSettings, Port) where

import Control.Exception (SomeException)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Streaming.Network (HostPreference)
import Data.String (fromString)
import Data.Version (showVersion)
import Millrace.Http.Exception (defaultOnException, defaultOnExceptionResponse)
import Network.Socket (SockAddr)
import Network.Wai (Request, Response)
import Paths_millrace_http (version)

-- | A TCP port number.
--
-- @since 0.1.0
type Port = Int

-- | The settings of a server. Start from 'defaultSettings' and use the setters.
--
-- @since 0.1.0
data Settings = Settings
  { settingsPort :: !Port,
    settingsHost :: !HostPreference,
    settingsTimeoutSeconds :: !Int,
    settingsOnException :: !(Maybe Request -> SomeException -> IO ()),
    settingsOnExceptionResponse :: !(SomeException -> Response),
    settingsOnOpen :: !(SockAddr -> IO Bool),
    settingsOnClose :: !(SockAddr -> IO ()),
    settingsBeforeMainLoop :: !(IO ()),
    settingsInstallShutdownHandler :: !(IO () -> IO ()),
    settingsGracefulShutdownSeconds :: !(Maybe Int),
    settingsServerName :: !ByteString,
    settingsMaximumBodyFlush :: !(Maybe Int),
    settingsMaxTotalHeaderLength :: !Int,
    settingsSlowlorisSize :: !Int
  }

-- | Warp's defaults, but for the server name: @Millrace/VERSION@.
--
-- @since 0.1.0
defaultSettings :: Settings
defaultSettings =
  Settings
    { settingsPort = 3000,
      settingsHost = fromString "*4",
      settingsTimeoutSeconds = 30,
      settingsOnException = defaultOnException,
      settingsOnExceptionResponse = defaultOnExceptionResponse,
      settingsOnOpen = const (return True),
      settingsOnClose = const (return ()),
      settingsBeforeMainLoop = return (),
      settingsInstallShutdownHandler = const (return ()),
      settingsGracefulShutdownSeconds = Nothing,
      settingsServerName = C8.pack ("Millrace/" ++ showVersion version),
      settingsMaximumBodyFlush = Just 8192,
      settingsMaxTotalHeaderLength = 51200,
      settingsSlowlorisSize = 2048
    }
