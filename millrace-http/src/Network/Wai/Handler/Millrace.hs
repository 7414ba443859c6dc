-- | Runs WAI applications over HTTP\/1.0, HTTP\/1.1 and HTTP\/2 on the Millrace I\/O manager. Names, types and defaults
-- are those of Warp. The description of 'defaultSettings' has the differences.
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
-- * No time limit throws an exception into a running application, except 'setTotalTimeout', which is off by default.
--   Reading the request body throws 'RequestTimedOut' when the client is too slow, in the thread that reads. When the
--   server ends, applications may be interrupted: see 'runSettings'.
-- * If a request body is incomplete, reading it throws 'ConnectionClosedByPeer'. It never looks complete.
-- * The server decides about framing. It uses a Content-Length only if it is the length of the body, and refuses a
--   Transfer-Encoding other than @chunked@; header names must be tokens; CR, LF and NUL in values become spaces.
-- * Names of common header fields are spelled in their usual way in 'Network.Wai.requestHeaders', whatever the client's
--   spelling.
-- * The responses to pipelined requests are sent together, when no further complete request has arrived, or when the
--   application that is to answer the next one waits for something.
-- * A small response may be sent after @respond@ has returned, but not later than when the application waits for
--   something or has used up its time slice. What an application does after it has responded does not keep the client
--   waiting. One that ends the program there (@exitImmediately@, @executeFile@, a signal that nobody handles, @main@
--   that returns) must wait for something before, say @threadDelay 1000@, or the client may get nothing; the action of
--   'setInstallShutdownHandler' needs no care.
-- * A response may be given by another thread than the one that the application was called in. If the application
--   throws while that one is sending, the connection ends, and sending fails there.
-- * A client that begins with the preface of HTTP\/2 gets HTTP\/2. There, what is said of connections concerns streams.
-- * Of "Network.Wai.Handler.Warp" there is all but what needs TLS (@clientCertificate@) and server push; of
--   @Network.Wai.Handler.Warp.Internal@ there is nothing. 'setManager' and 'setServerPushLogger' are accepted without
--   effect. @warpVersion@ is 'millraceVersion' here.
--
-- A server on a free port, and a request of it:
--
-- >>> import Millrace
-- >>> import qualified Data.ByteString.Char8 as Char8
-- >>> import Network.HTTP.Types (status200)
-- >>> import Network.Wai (rawPathInfo, responseLBS)
-- >>> let text = Data.String.fromString . show
-- >>> let application request respond = respond (responseLBS status200 [] (text (rawPathInfo request)))
-- >>> :{
-- testWithApplication (return application) $ \port -> do
--   client <- socket AF_INET Stream defaultProtocol
--   connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
--   sendAll client "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
--   answer <- recv client 4096
--   Char8.putStrLn (Char8.takeWhile (/= '\r') answer)
--   Char8.putStrLn (last (Char8.lines answer))
-- :}
-- HTTP/1.1 200 OK
-- "/hello"
module Network.Wai.Handler.Millrace
  ( -- * Running a server
    run,
    runEnv,
    runSettings,
    runSettingsSocket,
    runSettingsListener,
    runSettingsUnix,
    runSettingsInherited,

    -- ** Step by step
    Listener,
    listenerSocket,
    openListeners,
    inheritedListeners,
    closeListener,
    runSettingsListeners,

    -- * Settings
    Settings,
    defaultSettings,

    -- ** What to listen on
    setPort,
    setHost,
    setBacklog,
    setReusePort,
    setAccept,
    setProxyProtocolNone,
    setProxyProtocolRequired,
    setProxyProtocolOptional,

    -- ** What to do when
    setBeforeMainLoop,
    setOnOpen,
    setOnClose,
    setOnException,
    setOnExceptionResponse,
    setFork,
    setLogger,
    setOnAnswer,
    Answer (..),
    RefusalReason (..),

    -- ** Time
    setTimeout,
    setHeaderTimeout,
    setBodyTimeout,
    setIdleTimeout,
    setSendTimeout,
    setTotalTimeout,
    setMinimumRate,
    setSlowlorisSize,
    module Millrace.Duration,

    -- ** Size and number
    setMaxTotalHeaderLength,
    setMaximumHeaderCount,
    setMaximumTargetLength,
    setMaximumBodySize,
    setMaximumBodyFlush,
    setMaximumConnections,
    setReservedDescriptors,
    setOnCrowding,
    setOnLimit,
    Crowding (..),
    Bound (..),
    setMaximumRequests,
    setMaxBuilderResponseBufferSize,

    -- ** HTTP\/2
    setHTTP2Disabled,
    setHTTP1Disabled,
    setHTTP2MaximumStreams,
    setHTTP2Windows,
    setHTTP2CompressionTable,
    setHTTP2MaximumResets,
    setHTTP2MaximumFrames,
    getHTTP2MaximumResets,
    getHTTP2MaximumFrames,
    getHTTP2Windows,

    -- ** Requests and responses
    setNoParsePath,
    setServerName,
    setAltSvc,
    setFdCacheDuration,
    setFileInfoCacheDuration,

    -- ** Less strict
    -- $lenience
    setAllowBareLineFeed,
    setAllowFolding,
    setAllowMissingHost,
    setAllowNonAsciiTarget,

    -- ** Shutting down
    setInstallShutdownHandler,
    setGracefulShutdownTimeout,
    setGracefulCloseTimeout1,
    setGracefulCloseTimeout2,

    -- ** Without effect
    setManager,
    setServerPushLogger,

    -- ** Getters
    getPort,
    getHost,
    getOnOpen,
    getOnClose,
    getOnException,
    getGracefulShutdownTimeout,
    getGracefulCloseTimeout1,
    getGracefulCloseTimeout2,

    -- * State
    ServerState,
    makeServerState,
    makeSettingsAndServerState,
    makeSettingsAndCounter,
    getServerState,
    currentOpenConnections,
    currentOpenConnectionsSTM,
    ConnectionStates (..),
    currentConnectionStates,
    currentShuttingDownState,
    currentShuttingDownStateSTM,
    Counter,
    getCount,
    getOpenConnectionCounter,

    -- * In an application
    limitTime,
    requestDeadline,
    pauseTimeout,
    limitBody,
    FileInfo (..),
    getFileInfo,
    sendEarlyHints,
    sendInterim,
    resetRequest,
    isServerEnding,
    isConnected,
    Presence (..),
    getPresence,
    probeClient,
    onDisconnect,
    onLoss,
    belongingOfConnection,
    extendedConnect,
    getRequestTrailers,

    -- ** Trailers
    HTTP2Data,
    http2dataPushPromise,
    http2dataTrailers,
    defaultHTTP2Data,
    getHTTP2Data,
    setHTTP2Data,
    modifyHTTP2Data,
    TrailersMaker,
    NextTrailersMaker (..),
    mayBeTrailer,
    PushPromise,
    promisedPath,
    promisedFile,
    promisedResponseHeaders,
    promisedWeight,
    defaultPushPromise,

    -- * Conditional requests and ranges
    Representation,
    bytesRepresentation,
    fileRepresentation,
    respondWith,
    Validators (..),
    EntityTag (..),
    Strength (..),

    -- * Exceptions
    InvalidRequest (..),
    InvalidResponse (..),
    FailedWithAnswer (..),
    ConnectionsCutOff (..),
    ConnectionLimit (..),
    ConnectionLimitExceeded (..),
    HandshakeFailed (..),
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,

    -- * For tests
    withApplication,
    withApplicationSettings,
    testWithApplication,
    testWithApplicationSettings,
    openFreePort,

    -- * Names
    Port,
    HostPreference,
    millraceVersion,
  )
where

import Data.Version (showVersion)
import Millrace.Duration
import Millrace.Http.Answer.Observer
import Millrace.Http.Context
import Millrace.Http.EntityTag (EntityTag (..), Strength (..))
import Millrace.Http.Exception
import Millrace.Http.FileCache (FileInfo (..))
import Millrace.Http.Multiplexed.TakeOver (extendedConnect)
import Millrace.Http.Precondition (Validators (..))
import Millrace.Http.Representation
import Millrace.Http.RequestLimits (limitBody, limitTime, pauseTimeout, requestDeadline)
import Millrace.Http.Server.Admission (currentConnectionStates)
import Millrace.Http.Server.Listener
import Millrace.Http.Server.Run
import Millrace.Http.Server.Settings
import Millrace.Http.Server.State
import Millrace.Http.Trailers
import Millrace.Http.Transport (Presence (..))
import Paths_millrace_http (version)

-- $lenience
-- For the few clients that need it. None of these changes how the end of a message is found. Everything else that RFC
-- 9110 and RFC 9112 tell a server to refuse is always refused: two lengths, a length and a coding, a blank before a
-- colon, a bare CR and their like have no reading that all programs on the way share.

-- | The version of this package.
millraceVersion :: String
millraceVersion = showVersion version
