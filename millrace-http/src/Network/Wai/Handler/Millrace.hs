-- |
-- Runs WAI applications over HTTP\/1.0 and HTTP\/1.1 on the Millrace I\/O manager. Names, types and defaults are those
-- of Warp's interface.
--
-- > {-# LANGUAGE OverloadedStrings #-}
-- > import Network.HTTP.Types (status200)
-- > import Network.Wai (responseLBS)
-- > import Network.Wai.Handler.Millrace (run)
-- >
-- > main :: IO ()
-- > main = run 3000 $ \_ respond -> respond (responseLBS status200 [("Content-Type", "text/plain")] "Hello!")
--
-- The program must be linked with @-threaded@.
--
-- What to know beyond WAI:
--
-- * A time limit never throws an exception into an application that is busy. Reading the request body throws
--   'RequestTimedOut' when the client is too slow, in the thread that reads.
-- * A request body that is cut off makes reading throw 'ConnectionClosedByPeer'; it never just ends.
-- * Framing is the server's. Content-Length is believed only if it is the length of the body; Transfer-Encoding other
--   than @chunked@ is refused; header names must be tokens; CR, LF and NUL in values become spaces.
-- * Names of common header fields are spelled in their usual way in 'Network.Wai.requestHeaders', whatever the client's
--   spelling.
-- * The responses to pipelined requests are sent together, when no further complete request has arrived.
module Network.Wai.Handler.Millrace
  ( -- * Running a server
    run,
    runSettings,
    runSettingsSocket,
    runSettingsListener,

    -- * Settings
    Settings,
    defaultSettings,
    setPort,
    setHost,
    setTimeout,
    setOnException,
    setOnExceptionResponse,
    setOnOpen,
    setOnClose,
    setBeforeMainLoop,
    setInstallShutdownHandler,
    setGracefulShutdownTimeout,
    setServerName,
    setMaximumBodyFlush,
    setMaxTotalHeaderLength,
    setSlowlorisSize,
    getPort,
    getHost,
    getOnOpen,
    getOnClose,
    getOnException,
    getGracefulShutdownTimeout,
    Port,
    HostPreference,

    -- * Exceptions
    InvalidRequest (..),
    InvalidResponse (..),
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,
  )
where

import Control.Exception (SomeException, bracket, finally)
import Data.ByteString (ByteString)
import qualified Data.Streaming.Network as Streaming
import Millrace.Http.Exception
import Millrace.Http.Listener (openListener)
import Millrace.Http.Server (runListener)
import Millrace.Http.Settings
import Millrace.Socket (Socket, close, fromNetworkSocket)
import Network.Socket (SockAddr)
import qualified Network.Socket as Network
import Network.Wai (Application, Request, Response)

-- | Which interface to listen on: @\"*\"@ any, @\"*4\"@ any with IPv4 preferred, @\"!4\"@ IPv4 only, @\"*6\"@ and
-- @\"!6\"@ likewise, or a host name or address. The type of the streaming-commons package, as in Warp.
--
-- @since 0.1.0
type HostPreference = Streaming.HostPreference

-- | Serves an application on a port, with 'defaultSettings' otherwise. Blocks as long as the server runs. Throws an
-- 'IOError' if the port cannot be bound.
--
-- @since 0.1.0
run :: Port -> Application -> IO ()
run port = runSettings (setPort port defaultSettings)

-- | Serves an application. Blocks until the listening socket is closed (see 'setInstallShutdownHandler') and the
-- connections have ended. Throws an 'IOError' if no address can be bound.
--
-- @since 0.1.0
runSettings :: Settings -> Application -> IO ()
runSettings settings application =
  bracket (openListener (settingsPort settings) (settingsHost settings)) close $ \listener ->
    runListener settings listener application

-- | Serves an application on a socket that listens already, TCP or Unix. Takes the socket over: it must not be used
-- otherwise any more, and is closed at the end. Port and host of the settings are ignored.
--
-- @since 0.1.0
runSettingsSocket :: Settings -> Network.Socket -> Application -> IO ()
runSettingsSocket settings listener application =
  bracket (fromNetworkSocket listener) close $ \taken -> runListener settings taken application

-- | The same on a socket of "Millrace.Socket", which is closed at the end.
--
-- @since 0.1.0
runSettingsListener :: Settings -> Socket -> Application -> IO ()
runSettingsListener settings listener application = runListener settings listener application `finally` close listener

-- | The TCP port to listen on. Default: 3000. 0 lets the system choose.
--
-- @since 0.1.0
setPort :: Port -> Settings -> Settings
setPort value settings = settings {settingsPort = value}

-- | The interface to listen on. Default: @\"*4\"@, any, IPv4 preferred.
--
-- @since 0.1.0
setHost :: HostPreference -> Settings -> Settings
setHost value settings = settings {settingsHost = value}

-- | Seconds that a client may take: to send a request head from its first byte on, for its next 2048 bytes of request
-- body ('setSlowlorisSize'), to accept the next piece of a response, or to be idle between requests. Default: 30.
-- 0 or less: no limit. Never concerns the time that the application takes.
--
-- @since 0.1.0
setTimeout :: Int -> Settings -> Settings
setTimeout value settings = settings {settingsTimeoutSeconds = value}

-- | What to do with exceptions of applications (with their request) and of connections. Default:
-- 'defaultOnException'.
--
-- @since 0.1.0
setOnException :: (Maybe Request -> SomeException -> IO ()) -> Settings -> Settings
setOnException value settings = settings {settingsOnException = value}

-- | The response to send when an application throws before any of its response was sent, and to requests that cannot
-- be served. Default: 'defaultOnExceptionResponse'.
--
-- @since 0.1.0
setOnExceptionResponse :: (SomeException -> Response) -> Settings -> Settings
setOnExceptionResponse value settings = settings {settingsOnExceptionResponse = value}

-- | Runs when a connection is accepted; @False@ closes it at once. Default: @const (return True)@.
--
-- @since 0.1.0
setOnOpen :: (SockAddr -> IO Bool) -> Settings -> Settings
setOnOpen value settings = settings {settingsOnOpen = value}

-- | Runs when a connection is over. Default: nothing.
--
-- @since 0.1.0
setOnClose :: (SockAddr -> IO ()) -> Settings -> Settings
setOnClose value settings = settings {settingsOnClose = value}

-- | Runs when the socket listens, before the first connection is accepted. Default: nothing.
--
-- @since 0.1.0
setBeforeMainLoop :: IO () -> Settings -> Settings
setBeforeMainLoop value settings = settings {settingsBeforeMainLoop = value}

-- | Receives the action that ends the server: it closes the listening socket, idle connections are closed, the others
-- after their current response, and then 'runSettings' returns. The action returns at once and may be run from any
-- thread, a signal handler's included. Default: nothing.
--
-- > setInstallShutdownHandler (\stop -> void (installHandler sigTERM (Catch stop) Nothing)) defaultSettings
--
-- @since 0.1.0
setInstallShutdownHandler :: (IO () -> IO ()) -> Settings -> Settings
setInstallShutdownHandler value settings = settings {settingsInstallShutdownHandler = value}

-- | Seconds to wait for connections to end after the listening socket was closed; those that are left then are cut
-- off. Default: @Nothing@, as long as it takes.
--
-- @since 0.1.0
setGracefulShutdownTimeout :: Maybe Int -> Settings -> Settings
setGracefulShutdownTimeout value settings = settings {settingsGracefulShutdownSeconds = value}

-- | The Server field of responses whose application gives none. Empty: no Server field, whatever the application
-- gives. Default: @Millrace/VERSION@.
--
-- @since 0.1.0
setServerName :: ByteString -> Settings -> Settings
setServerName value settings = settings {settingsServerName = value}

-- | Most bytes of request body that are read and dropped, when the application did not read them, to keep the
-- connection. @Nothing@: any number. Default: @Just 8192@. 0 or less: none.
--
-- @since 0.1.0
setMaximumBodyFlush :: Maybe Int -> Settings -> Settings
setMaximumBodyFlush value settings = settings {settingsMaximumBodyFlush = fmap (max 0) value}

-- | Most bytes of a request head; more gets a 431. Default: 51200.
--
-- @since 0.1.0
setMaxTotalHeaderLength :: Int -> Settings -> Settings
setMaxTotalHeaderLength value settings = settings {settingsMaxTotalHeaderLength = max 64 value}

-- | Bytes of request body that renew the time limit of 'setTimeout'. Default: 2048.
--
-- @since 0.1.0
setSlowlorisSize :: Int -> Settings -> Settings
setSlowlorisSize value settings = settings {settingsSlowlorisSize = max 1 value}

-- | The port.
--
-- @since 0.1.0
getPort :: Settings -> Port
getPort = settingsPort

-- | The host preference.
--
-- @since 0.1.0
getHost :: Settings -> HostPreference
getHost = settingsHost

-- | The action for new connections.
--
-- @since 0.1.0
getOnOpen :: Settings -> SockAddr -> IO Bool
getOnOpen = settingsOnOpen

-- | The action for ended connections.
--
-- @since 0.1.0
getOnClose :: Settings -> SockAddr -> IO ()
getOnClose = settingsOnClose

-- | The action for exceptions.
--
-- @since 0.1.0
getOnException :: Settings -> Maybe Request -> SomeException -> IO ()
getOnException = settingsOnException

-- | The time limit of a shutdown, in seconds.
--
-- @since 0.1.0
getGracefulShutdownTimeout :: Settings -> Maybe Int
getGracefulShutdownTimeout = settingsGracefulShutdownSeconds
