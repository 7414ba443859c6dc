-- | What other packages use of Warp's internal interface: the fields of the settings, connections that a program makes
-- itself, and the caches. What is within Warp's own loops (@http2server@, @withII@, @serveConnection@, @recvRequest@,
-- @sendResponse@) has nothing like it here, and is not there: using it is an error when the program is compiled.
module Network.Wai.Handler.Warp.Internal
  ( -- * Settings
    Settings
      ( Settings,
        settingsPort,
        settingsHost,
        settingsOnException,
        settingsOnExceptionResponse,
        settingsOnOpen,
        settingsOnClose,
        settingsTimeout,
        settingsManager,
        settingsFdCacheDuration,
        settingsFileInfoCacheDuration,
        settingsBeforeMainLoop,
        settingsFork,
        settingsAccept,
        settingsNoParsePath,
        settingsInstallShutdownHandler,
        settingsServerName,
        settingsMaximumBodyFlush,
        settingsProxyProtocol,
        settingsSlowlorisSize,
        settingsHTTP2Enabled,
        settingsLogger,
        settingsServerPushLogger,
        settingsGracefulShutdownTimeout,
        settingsGracefulCloseTimeout1,
        settingsGracefulCloseTimeout2,
        settingsMaxTotalHeaderLength,
        settingsAltSvc,
        settingsMaxBuilderResponseBufferSize,
        settingsConnectionCounter,
        settingsServerState,
        settingsOfMillrace
      ),
    ProxyProtocol (..),
    makeSettingsAndCounter,
    makeSettingsAndServerState,

    -- ** The server's state
    Counter,
    getCount,
    ServerState,
    makeServerState,

    -- * Servers on connections that a program makes
    runSettingsConnection,
    runSettingsConnectionMaker,
    runSettingsConnectionMakerSecure,
    Transport (..),

    -- * Connections
    Connection (..),
    socketConnection,
    Recv,
    makeGracefulRecv,
    RecvBuf,
    Buffer,
    BufSize,
    WriteBuffer (..),
    createWriteBuffer,
    allocateBuffer,
    freeBuffer,
    copy,

    -- ** Files
    FileId (..),
    SendFile,
    sendFile,
    readSendFile,

    -- * Caches
    module Millrace.Compat.WarpCaches,

    -- * Time limits
    module System.TimeManager,

    -- * Other
    warpVersion,
    HeaderValue,
    setSocketCloseOnExec,
    windowsThreadBlockHack,
  )
where

import Data.ByteString (ByteString)
import Millrace.Compat.WarpCaches
import Millrace.Compat.WarpConnection
import Millrace.Compat.WarpSettings
import Network.Socket (Socket, withFdSocket)
import Network.Wai.Handler.Millrace (Counter, ServerState, getCount, makeServerState)
import Network.Wai.Handler.Warp (makeSettingsAndCounter, makeSettingsAndServerState, warpVersion)
import System.TimeManager

-- | The value of a header field.
type HeaderValue = ByteString

-- | Programs that the process starts do not get this socket.
setSocketCloseOnExec :: Socket -> IO ()
setSocketCloseOnExec s = withFdSocket s (setFileCloseOnExec . fromIntegral)

-- | Runs the action. On Windows, Warp's one makes it interruptible; Millrace's sockets are.
windowsThreadBlockHack :: IO a -> IO a
windowsThreadBlockHack = id
