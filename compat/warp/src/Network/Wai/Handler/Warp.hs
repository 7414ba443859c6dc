-- | The interface of Warp 3.4.15, and Millrace's server behind it. What the functions do is said in
-- "Network.Wai.Handler.Millrace", and what Millrace has beyond them can be used beside them: the types are the same.
--
-- > main = run 3000 application
--
-- The program must be linked with @-threaded@. Requests of HTTP\/1.1 without a Host field are served, as Warp does.
module Network.Wai.Handler.Warp
  ( -- * Running a server
    run,
    runEnv,
    runSettings,
    runSettingsSocket,

    -- * Settings
    Settings,
    defaultSettings,

    -- ** Setters
    setPort,
    setHost,
    setOnException,
    setOnExceptionResponse,
    setOnOpen,
    setOnClose,
    setTimeout,
    setManager,
    setFdCacheDuration,
    setFileInfoCacheDuration,
    setBeforeMainLoop,
    setNoParsePath,
    setInstallShutdownHandler,
    setServerName,
    setMaximumBodyFlush,
    setFork,
    setAccept,
    setProxyProtocolNone,
    setProxyProtocolRequired,
    setProxyProtocolOptional,
    setSlowlorisSize,
    setHTTP2Disabled,
    setLogger,
    setServerPushLogger,
    setGracefulShutdownTimeout,
    setGracefulCloseTimeout1,
    setGracefulCloseTimeout2,
    setMaxTotalHeaderLength,
    setAltSvc,
    setMaxBuilderResponseBufferSize,

    -- ** Getters
    getPort,
    getHost,
    getOnOpen,
    getOnClose,
    getOnException,
    getGracefulShutdownTimeout,
    getGracefulCloseTimeout1,
    getGracefulCloseTimeout2,
    getOpenConnectionCounter,
    getServerState,

    -- ** The server's state
    ServerState,
    makeSettingsAndServerState,
    currentOpenConnections,
    currentShuttingDownState,
    currentOpenConnectionsSTM,
    currentShuttingDownStateSTM,
    makeSettingsAndCounter,
    Counter,
    getCount,

    -- ** Exceptions
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,

    -- * Types
    HostPreference,
    Port,
    InvalidRequest (..),

    -- * In an application
    pauseTimeout,
    FileInfo (..),
    getFileInfo,
    clientCertificate,

    -- * For tests
    withApplication,
    withApplicationSettings,
    testWithApplication,
    testWithApplicationSettings,
    openFreePort,

    -- * Version
    warpVersion,

    -- * HTTP\/2
    HTTP2Data,
    http2dataPushPromise,
    http2dataTrailers,
    defaultHTTP2Data,
    getHTTP2Data,
    setHTTP2Data,
    modifyHTTP2Data,
    PushPromise,
    promisedPath,
    promisedFile,
    promisedResponseHeaders,
    promisedWeight,
    defaultPushPromise,
  )
where

import Data.Version (showVersion)
import Data.X509 (CertificateChain (..), decodeSignedCertificate)
import Millrace.Compat.WarpSettings (defaultSettings)
import Millrace.Http.Context (requestNegotiated)
import Millrace.Http.Server.Run (portFromEnvironment)
import Millrace.Http.Transport (negotiatedPeerCertificate)
import Network.Wai (Application, Request)
import Network.Wai.Handler.Millrace hiding
  ( defaultSettings,
    makeSettingsAndCounter,
    makeSettingsAndServerState,
    run,
    runEnv,
    testWithApplication,
    withApplication,
  )
import Paths_warp (version)

-- | Serves an application on a port, with 'defaultSettings' otherwise. Blocks as long as the server runs. Throws an
-- @IOError@ if the port cannot be bound.
run :: Port -> Application -> IO ()
run port = runSettings (setPort port defaultSettings)

-- | Serves an application on the port that the environment variable PORT names, or else on the given one. Throws an
-- @IOError@ if PORT is not a number.
runEnv :: Port -> Application -> IO ()
runEnv port application = portFromEnvironment port >>= (`run` application)

-- | A state, and 'defaultSettings' that use it.
makeSettingsAndServerState :: IO (ServerState, Settings)
makeSettingsAndServerState = makeServerState defaultSettings

-- | A counter of open connections, and 'defaultSettings' that use it.
makeSettingsAndCounter :: IO (Counter, Settings)
makeSettingsAndCounter = do
  (_, settings) <- makeSettingsAndServerState
  case getOpenConnectionCounter settings of
    Just counter -> return (counter, settings)
    Nothing -> ioError (userError "Network.Wai.Handler.Warp.makeSettingsAndCounter: the settings have no state")

-- | Serves an application on a free port, with 'defaultSettings', while an action runs.
withApplication :: IO Application -> (Port -> IO a) -> IO a
withApplication = withApplicationSettings defaultSettings

-- | The same for tests: an exception of the application ends the action, and is thrown to the caller.
testWithApplication :: IO Application -> (Port -> IO a) -> IO a
testWithApplication = testWithApplicationSettings defaultSettings

-- | The certificate that the client has shown, if it was asked for one. The chain has one element: those between it and
-- the authority have served to verify it.
clientCertificate :: Request -> Maybe CertificateChain
clientCertificate request = do
  der <- requestNegotiated request >>= negotiatedPeerCertificate
  either (const Nothing) (\certificate -> Just (CertificateChain [certificate])) (decodeSignedCertificate der)

-- | The version of Warp whose interface this is.
warpVersion :: String
warpVersion = showVersion version
