{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections, listeners.

-- | The settings of a server and their setters. It exports everything; "Network.Wai.Handler.Millrace" lists what users
-- get.
module Millrace.Http.Server.Settings where

import Control.Concurrent (forkIOWithUnmask)
import Control.Exception (SomeException)
import Control.Monad (void)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.Streaming.Network as Streaming
import Data.String (fromString)
import Data.Version (showVersion)
import Millrace.Duration (Duration, seconds, unlimited)
import Millrace.Http.Answer.Observer (Answer)
import Millrace.Http.Exception (ConnectionLimit, defaultOnException, defaultOnExceptionResponse)
import Millrace.Http.Server.State
import Millrace.Http.Transport (Protection)
import Network.HTTP.Types (Status)
import Network.Socket (SockAddr, Socket)
import Network.Wai (Request, Response)
import Paths_millrace_http (version)
import System.TimeManager (Manager)

-- | A TCP port number.
type Port = Int

-- | Which interface to listen on: @\"*\"@ any, @\"*4\"@ any with IPv4 preferred, @\"!4\"@ IPv4 only, @\"*6\"@ and
-- @\"!6\"@ likewise, or a host name or address. The type of the streaming-commons package, as in Warp.
type HostPreference = Streaming.HostPreference

-- | Whole seconds. As a limit, 0 or less is none.
type Seconds = Int

-- | Whether a header of the PROXY protocol precedes the first request.
data ProxyProtocol
  = ProxyProtocolNone
  | ProxyProtocolRequired
  | ProxyProtocolOptional
  deriving (Eq, Show)

-- | The settings of a server. Start from 'defaultSettings' and use the setters.
data Settings = Settings
  { settingsPort :: !Port,
    settingsHost :: !HostPreference,
    settingsOnException :: !(Maybe Request -> SomeException -> IO ()),
    settingsOnExceptionResponse :: !(SomeException -> Response),
    settingsOnOpen :: !(SockAddr -> IO Bool),
    settingsOnClose :: !(SockAddr -> IO ()),
    settingsOnLimit :: !(ConnectionLimit -> SockAddr -> IO ()),
    settingsTimeoutSeconds :: !Seconds,
    -- | The next four: Nothing stands for settingsTimeoutSeconds.
    settingsHeaderTimeout :: !(Maybe Duration),
    settingsBodyTimeout :: !(Maybe Duration),
    settingsIdleTimeout :: !(Maybe Duration),
    settingsSendTimeout :: !(Maybe Duration),
    settingsTotalTimeout :: !Duration,
    -- | Bytes per second, and the seconds over which they are averaged.
    settingsMinimumRate :: !(Maybe (Int, Duration)),
    settingsFdCacheSeconds :: !Seconds,
    settingsFileInfoCacheSeconds :: !Seconds,
    settingsBeforeMainLoop :: !(IO ()),
    settingsFork :: !(((forall a. IO a -> IO a) -> IO ()) -> IO ()),
    -- | Nothing: Millrace's own function.
    settingsAccept :: !(Maybe (Socket -> IO (Socket, SockAddr))),
    -- | Nothing: connections are not protected.
    settingsProtection :: !(Maybe Protection),
    settingsNoParsePath :: !Bool,
    settingsInstallShutdownHandler :: !(IO () -> IO ()),
    settingsGracefulShutdownSeconds :: !(Maybe Seconds),
    settingsGracefulClose1Millis :: !Int,
    settingsGracefulClose2Millis :: !Int,
    settingsServerName :: !ByteString,
    settingsAltSvc :: !(Maybe ByteString),
    settingsMaximumBodyFlush :: !(Maybe Int),
    settingsMaxTotalHeaderLength :: !Int,
    settingsMaxBuilderResponseBufferSize :: !Int,
    settingsSlowlorisSize :: !Int,
    settingsProxyProtocol :: !ProxyProtocol,
    -- | If the next two are Nothing, responses are not counted.
    settingsLogger :: !(Maybe (Request -> Status -> Maybe Integer -> IO ())),
    settingsOnAnswer :: !(Maybe (Answer -> IO ())),
    settingsServerState :: !(Maybe ServerState),
    settingsMaximumConnections :: !(Maybe Int),
    settingsReservedDescriptors :: !(Maybe Int),
    -- | Nothing: only waiting for descriptors is reported, as an exception.
    settingsOnCrowding :: !(Maybe (Crowding -> IO ())),
    settingsMaximumRequests :: !(Maybe Int),
    settingsMaximumHeaderCount :: !Int,
    settingsMaximumTargetLength :: !Int,
    settingsMaximumBodySize :: !(Maybe Int),
    settingsBacklog :: !Int,
    settingsReusePort :: !Bool,
    settingsAllowBareLineFeed :: !Bool,
    settingsAllowFolding :: !Bool,
    settingsAllowMissingHost :: !Bool,
    settingsAllowNonAsciiTarget :: !Bool,
    settingsProtocols :: !Protocols,
    settingsHttp2 :: !Http2Settings
  }

-- | Whether new connections have to wait.
data Crowding
  = ClientsWait Bound
  | ClientsWaitNoMore Bound
  deriving (Eq, Show)

-- | What bounds the number of open connections.
data Bound
  = -- | 'setMaximumConnections'.
    MaximumConnections Int
  | -- | The limit of the process, without those of 'setReservedDescriptors'.
    OpenDescriptors
  deriving (Eq, Show)

-- | The versions of HTTP that are served.
data Protocols
  = OnlyHttp1
  | OnlyHttp2
  | AllProtocols
  deriving (Eq, Show)

-- | What concerns HTTP\/2 alone.
data Http2Settings = Http2Settings
  { http2MaximumStreams :: !Int,
    http2StreamWindow :: !Int,
    http2ConnectionWindow :: !Int,
    http2MaximumWindow :: !Int,
    http2CompressionTable :: !Int,
    http2Resets :: !Allowance,
    http2Frames :: !Allowance
  }

-- | How many at once, and how many per second.
data Allowance = Allowance !Int !Int

-- | Warp's defaults, except for the server name, @Millrace/VERSION@, and for two limits that Warp does not have:
-- 'setMaximumHeaderCount' and 'setMaximumTargetLength'.
defaultSettings :: Settings
defaultSettings =
  Settings
    { settingsPort = 3000,
      settingsHost = fromString "*4",
      settingsOnException = defaultOnException,
      settingsOnExceptionResponse = defaultOnExceptionResponse,
      settingsOnOpen = const (return True),
      settingsOnClose = const (return ()),
      settingsOnLimit = \_ _ -> return (),
      settingsTimeoutSeconds = 30,
      settingsHeaderTimeout = Nothing,
      settingsBodyTimeout = Nothing,
      settingsIdleTimeout = Nothing,
      settingsSendTimeout = Nothing,
      settingsTotalTimeout = unlimited,
      settingsMinimumRate = Nothing,
      settingsFdCacheSeconds = 0,
      settingsFileInfoCacheSeconds = 0,
      settingsBeforeMainLoop = return (),
      settingsFork = defaultFork,
      settingsAccept = Nothing,
      settingsProtection = Nothing,
      settingsNoParsePath = False,
      settingsInstallShutdownHandler = const (return ()),
      settingsGracefulShutdownSeconds = Nothing,
      settingsGracefulClose1Millis = 0,
      settingsGracefulClose2Millis = 2000,
      settingsServerName = C8.pack ("Millrace/" ++ showVersion version),
      settingsAltSvc = Nothing,
      settingsMaximumBodyFlush = Just 8192,
      settingsMaxTotalHeaderLength = 51200,
      settingsMaxBuilderResponseBufferSize = 1049000000,
      settingsSlowlorisSize = 2048,
      settingsProxyProtocol = ProxyProtocolNone,
      settingsLogger = Nothing,
      settingsOnAnswer = Nothing,
      settingsServerState = Nothing,
      settingsMaximumConnections = Nothing,
      settingsReservedDescriptors = Nothing,
      settingsOnCrowding = Nothing,
      settingsMaximumRequests = Nothing,
      settingsMaximumHeaderCount = 128,
      settingsMaximumTargetLength = 8192,
      settingsMaximumBodySize = Nothing,
      settingsBacklog = 2048,
      settingsReusePort = False,
      settingsAllowBareLineFeed = False,
      settingsAllowFolding = False,
      settingsAllowMissingHost = False,
      settingsAllowNonAsciiTarget = False,
      settingsProtocols = AllProtocols,
      settingsHttp2 =
        Http2Settings
          { http2MaximumStreams = 128,
            http2StreamWindow = 262144,
            http2ConnectionWindow = 1048576,
            http2MaximumWindow = 25165824,
            http2CompressionTable = 4096,
            http2Resets = Allowance 1000 100,
            http2Frames = Allowance 4000 500
          }
    }

-- | A thread for each connection, by 'forkIOWithUnmask'.
defaultFork :: ((forall a. IO a -> IO a) -> IO ()) -> IO ()
defaultFork serve = void (forkIOWithUnmask serve)

------------------------------------------------------------------------------------------------------------------------
-- As in Warp

-- | The TCP port to listen on. Default: 3000. 0 lets the system choose.
setPort :: Port -> Settings -> Settings
setPort value settings = settings {settingsPort = value}

-- | The interface to listen on. Default: @\"*4\"@, any, IPv4 preferred.
setHost :: HostPreference -> Settings -> Settings
setHost value settings = settings {settingsHost = value}

-- | Seconds that a client may take in each phase: the default of 'setHeaderTimeout', 'setBodyTimeout', 'setIdleTimeout'
-- and 'setSendTimeout'. Default: 30. 0 or less: no limit. It does not limit the time of the application, or the time
-- that a raw response waits for its client; use 'Millrace.Timer.timeout' for that.
setTimeout :: Int -> Settings -> Settings
setTimeout value settings = settings {settingsTimeoutSeconds = value}

-- | Handles exceptions of applications (with their request), of connections, and of opening a response's file without
-- free descriptors or memory (with the request; the client gets a 503). Default: 'defaultOnException'.
setOnException :: (Maybe Request -> SomeException -> IO ()) -> Settings -> Settings
setOnException value settings = settings {settingsOnException = value}

-- | The response if an application throws before any part of its response was sent, and for requests that cannot be
-- served. Default: 'defaultOnExceptionResponse'.
setOnExceptionResponse :: (SomeException -> Response) -> Settings -> Settings
setOnExceptionResponse value settings = settings {settingsOnExceptionResponse = value}

-- | Runs when a connection is accepted; @False@ closes it at once. It runs with asynchronous exceptions masked.
-- Default: @const (return True)@.
setOnOpen :: (SockAddr -> IO Bool) -> Settings -> Settings
setOnOpen value settings = settings {settingsOnOpen = value}

-- | Runs when a connection has ended: once for each connection whose 'setOnOpen' action returned (either value), and
-- not if that action threw. Default: nothing.
setOnClose :: (SockAddr -> IO ()) -> Settings -> Settings
setOnClose value settings = settings {settingsOnClose = value}

-- | Called when a connection of HTTP\/2 or HTTP\/3 ends because its client has gone beyond a limit: once for each
-- connection. 'setOnException' gets a 'Network.Wai.Handler.Millrace.ConnectionLimitExceeded' besides, at most once a
-- second. It must not wait. Default: nothing.
--
-- > setOnLimit (\limit client -> print (limit, client))
setOnLimit :: (ConnectionLimit -> SockAddr -> IO ()) -> Settings -> Settings
setOnLimit value settings = settings {settingsOnLimit = value}

-- | Has no effect. In Warp the manager's limit replaces that of 'setTimeout'. But a manager only interrupts threads and
-- does not reveal its limit, and here limits are deadlines of operations. The limit of 'setTimeout' applies.
setManager :: Manager -> Settings -> Settings
setManager _ settings = settings

-- | Seconds for which the descriptors of sent files stay open. During that time a replaced file is not noticed, but a
-- file that is written in place is. Default: 0, not at all.
setFdCacheDuration :: Int -> Settings -> Settings
setFdCacheDuration value settings = settings {settingsFdCacheSeconds = max 0 value}

-- | Seconds for which 'Network.Wai.Handler.Millrace.getFileInfo' keeps its results, including failures. Default: 0, not
-- at all.
setFileInfoCacheDuration :: Int -> Settings -> Settings
setFileInfoCacheDuration value settings = settings {settingsFileInfoCacheSeconds = max 0 value}

-- | Runs after the socket listens and before the first connection is accepted. Default: nothing.
setBeforeMainLoop :: IO () -> Settings -> Settings
setBeforeMainLoop value settings = settings {settingsBeforeMainLoop = value}

-- | How to start a connection's thread. The function gets the action to run, which takes the function that unmasks
-- exceptions. Default: @\\serve -> void (forkIOWithUnmask serve)@.
setFork :: (((forall a. IO a -> IO a) -> IO ()) -> IO ()) -> Settings -> Settings
setFork value settings = settings {settingsFork = value}

-- | Accepts a connection from a listening socket. The function gets a duplicate of the socket, on which the functions
-- of "Network.Socket" work, and should fail when that is closed. Other failures with an @IOError@ are reported, and the
-- function is called again a tenth of a second later. Any other exception ends its accepting thread, of which each
-- capability has one. When the last of them has ended, the server ends with that exception. Default: Millrace's own
-- ('Millrace.Socket.accept'), which needs no duplicate and continues after a lack of descriptors.
setAccept :: (Socket -> IO (Socket, SockAddr)) -> Settings -> Settings
setAccept value settings = settings {settingsAccept = Just value}

-- | Whether 'Network.Wai.rawPathInfo' keeps the scheme and authority of a request target in absolute form. For proxies.
-- Default: False.
setNoParsePath :: Bool -> Settings -> Settings
setNoParsePath value settings = settings {settingsNoParsePath = value}

-- | Receives the action that shuts the server down. The server then accepts the connections in the listening socket's
-- queue and closes the socket. It closes connections without a request and without traffic in the last quarter of a
-- second, and the others after their next response, which has @Connection: close@. A part of
-- a head or of a handshake ends a connection when no more of it has come for a second, and at the latest after five
-- seconds: there is no answer under way. A client that has sent a part of a body is waited for as long as at other
-- times ('setBodyTimeout'). Then 'Network.Wai.Handler.Millrace.runSettings' returns.
-- The action returns at once and may run in any thread, also in that of a signal handler. Default: nothing.
--
-- On Linux, "Network.Wai.Millrace.Shutdown" has it ready for SIGTERM.
--
-- > setInstallShutdownHandler (\stop -> void (installHandler sigTERM (Catch stop) Nothing)) defaultSettings
setInstallShutdownHandler :: (IO () -> IO ()) -> Settings -> Settings
setInstallShutdownHandler value settings = settings {settingsInstallShutdownHandler = value}

-- | Seconds to wait for connections to end after the listening socket was closed. Then the server closes the remaining
-- ones, and applications that still run get 'Control.Exception.ThreadKilled'. 'setOnException' gets the number of
-- connections whose response was incomplete ('Network.Wai.Handler.Millrace.ConnectionsCutOff'). Default: @Nothing@, no
-- limit.
--
-- Idle connections do not take that long: the server closes them when they have been quiet for a quarter of a second,
-- or for five seconds before their first request.
setGracefulShutdownTimeout :: Maybe Int -> Settings -> Settings
setGracefulShutdownTimeout value settings = settings {settingsGracefulShutdownSeconds = value}

-- | Milliseconds to wait for the client to close its side whenever the server ends a connection. Default: 0. If the
-- client may still be sending, a close could destroy the response on its way. Then the server waits for up to five
-- seconds in any case.
setGracefulCloseTimeout1 :: Int -> Settings -> Settings
setGracefulCloseTimeout1 value settings = settings {settingsGracefulClose1Millis = max 0 value}

-- | Warp's time for HTTP\/2. It has no effect: clients of HTTP\/2 always learn in time that their connection ends.
-- Default:
-- 2000.
setGracefulCloseTimeout2 :: Int -> Settings -> Settings
setGracefulCloseTimeout2 value settings = settings {settingsGracefulClose2Millis = max 0 value}

-- | The Server field of responses, unless the application gives one. If it is empty, no response has a Server field. An
-- application that gives
-- an empty field leaves it out of its response.
-- Default: @Millrace/VERSION@.
setServerName :: ByteString -> Settings -> Settings
setServerName value settings = settings {settingsServerName = value}

-- | The value of an Alt-Svc field in every response (RFC 7838). Default: none.
setAltSvc :: ByteString -> Settings -> Settings
setAltSvc value settings = settings {settingsAltSvc = Just value}

-- | The largest number of bytes of an unread request body that the server reads and drops in order to keep the
-- connection. @Nothing@: any number. Default: @Just 8192@. 0 or less: none.
setMaximumBodyFlush :: Maybe Int -> Settings -> Settings
setMaximumBodyFlush value settings = settings {settingsMaximumBodyFlush = fmap (max 0) value}

-- | The largest size of a request head in bytes, at most a gigabyte. A larger one gets a 431. Default: 51200.
setMaxTotalHeaderLength :: Int -> Settings -> Settings
setMaxTotalHeaderLength value settings = settings {settingsMaxTotalHeaderLength = max 64 (min longestHead value)}

-- | The largest limit of a head, in bytes: the parser counts with 32 bits.
longestHead :: Int
longestHead = 1073741824

-- | The largest buffer in bytes that the builder of a response body may request. A larger one is an error. Default:
-- 1049000000, as in Warp.
setMaxBuilderResponseBufferSize :: Int -> Settings -> Settings
setMaxBuilderResponseBufferSize value settings = settings {settingsMaxBuilderResponseBufferSize = value}

-- | The number of bytes of a request body after which the time limit of 'setBodyTimeout' starts again. Default: 2048.
setSlowlorisSize :: Int -> Settings -> Settings
setSlowlorisSize value settings = settings {settingsSlowlorisSize = max 1 value}

-- | Connections begin with a request. The default.
setProxyProtocolNone :: Settings -> Settings
setProxyProtocolNone settings = settings {settingsProxyProtocol = ProxyProtocolNone}

-- | Connections begin with a header of the PROXY protocol, version 1 or 2, which sets 'Network.Wai.remoteHost'. Other
-- connections get a 400. Use it only if nobody but the proxy can reach the server.
setProxyProtocolRequired :: Settings -> Settings
setProxyProtocolRequired settings = settings {settingsProxyProtocol = ProxyProtocolRequired}

-- | Connections may begin with a header of the PROXY protocol. Every client can then claim any address.
setProxyProtocolOptional :: Settings -> Settings
setProxyProtocolOptional settings = settings {settingsProxyProtocol = ProxyProtocolOptional}

-- | Runs after each response, with its status and the size of its body (Nothing if it has none). Default: none, which
-- costs nothing.
--
-- It also runs for refused requests. If there is no complete and valid head, the logger gets
-- 'Network.Wai.defaultRequest' with the client's address, as in Warp. 'setOnAnswer' distinguishes such a request from a
-- real one. Unlike Warp's it also runs after raw responses, such as WebSockets, when the application has ended with
-- them.
setLogger :: (Request -> Status -> Maybe Integer -> IO ()) -> Settings -> Settings
setLogger value settings = settings {settingsLogger = Just value}

-- | Runs once after each final response, with everything known about it: after responses of the application, and after
-- the server's own, to refused requests and for failed applications. It runs in the connection's thread. The response
-- does not wait for it, but the next request does. Its exceptions go to 'setOnException'. A raw response, such as a
-- WebSocket, is over when the application has ended with it. Default: none, which costs nothing.
--
-- > setOnAnswer (\answer -> when (isJust (answerRefusal answer)) (hPutStrLn stderr (show (answerClient answer))))
setOnAnswer :: (Answer -> IO ()) -> Settings -> Settings
setOnAnswer value settings = settings {settingsOnAnswer = Just value}

-- | Serves HTTP\/1 alone. The preface of HTTP\/2 is refused like any other malformed request.
setHTTP2Disabled :: Settings -> Settings
setHTTP2Disabled settings = settings {settingsProtocols = OnlyHttp1}

-- | Serves HTTP\/2 alone, for example behind a proxy or for gRPC. A request of HTTP\/1 gets a 505.
setHTTP1Disabled :: Settings -> Settings
setHTTP1Disabled settings = settings {settingsProtocols = OnlyHttp2}

-- | The number of HTTP\/2 streams that a client may have open on a connection, and of requests of a connection that are
-- served at a time. A request whose stream was reset counts until its application returns. Default: 128.
setHTTP2MaximumStreams :: Int -> Settings -> Settings
setHTTP2MaximumStreams value = changeHttp2 (\own -> own {http2MaximumStreams = max 1 (min 1000000 value)})

-- | How many bytes of request bodies an HTTP\/2 client may send before the application has read them: on a stream at
-- first, on a connection at first, and on a connection at most. The two grow while the application reads everything
-- that arrives and the client could send more within a round trip, and a stream's to no more than half of the last one.
-- So the last one bounds the memory for request bodies of a connection. Default: 262144, 1048576, 25165824.
--
-- While streams that nobody reads hold more than half of the connection's window, other bodies on the connection may
-- wait, too. So the first one should be less than half of the second one.
setHTTP2Windows :: Int -> Int -> Int -> Settings -> Settings
setHTTP2Windows stream connection most =
  changeHttp2
    ( \own ->
        own
          { http2StreamWindow =
              window stream,
            http2ConnectionWindow = window connection,
            http2MaximumWindow = window most
          }
    )
  where
    window = max 65535 . min 2147483647

-- | Bytes of memory for each HTTP\/2 connection in which the server remembers fields of its responses, to send them in
-- a byte or two the next time. Default: 4096.
setHTTP2CompressionTable :: Int -> Settings -> Settings
setHTTP2CompressionTable value = changeHttp2 (\own -> own {http2CompressionTable = max 0 (min 65536 value)})

-- | How many streams of an HTTP\/2 or HTTP\/3 connection may be reset at once in a way that wastes work, and how many
-- per second on average: requests that the client cancels before there is an answer, and whose handler then runs on for
-- more than 100 ms, and streams that it makes the server reset. All else that a client cancels is free. A client that
-- goes beyond that gets GOAWAY with ENHANCE_YOUR_CALM (over HTTP\/3, H3_EXCESSIVE_LOAD at the end): what was begun is
-- finished, and its connection ends. Default: 1000, 100.
setHTTP2MaximumResets :: Int -> Int -> Settings -> Settings
setHTTP2MaximumResets burst perSecond =
  changeHttp2 (\own -> own {http2Resets = Allowance (max 1 burst) (max 0 perSecond)})

-- | How many frames without use an HTTP\/2 client may send at once, and how many per second on average: PING, SETTINGS,
-- PRIORITY, empty DATA, unknown ones, RST_STREAM, and requests that are cancelled before a handler begins.
-- WINDOW_UPDATE counts only if it gives back less than four bytes, or more than was sent. Frames of use, such as a
-- request, or data in either direction, allow for more. A client that goes beyond that gets GOAWAY with
-- ENHANCE_YOUR_CALM: what was begun is finished, and its connection ends. A client that does not stop is disconnected
-- at once. Over HTTP\/3, packets count instead of frames, four of them for one. Default: 4000, 500.
setHTTP2MaximumFrames :: Int -> Int -> Settings -> Settings
setHTTP2MaximumFrames burst perSecond =
  changeHttp2 (\own -> own {http2Frames = Allowance (max 1 burst) (max 0 perSecond)})

-- | What 'setHTTP2MaximumResets', 'setHTTP2MaximumFrames' and 'setHTTP2Windows' have set.
getHTTP2MaximumResets, getHTTP2MaximumFrames :: Settings -> (Int, Int)
getHTTP2MaximumResets settings =
  let Allowance burst perSecond = http2Resets (settingsHttp2 settings) in (burst, perSecond)
getHTTP2MaximumFrames settings =
  let Allowance burst perSecond = http2Frames (settingsHttp2 settings) in (burst, perSecond)

-- | See 'getHTTP2MaximumResets'.
getHTTP2Windows :: Settings -> (Int, Int, Int)
getHTTP2Windows settings = (http2StreamWindow own, http2ConnectionWindow own, http2MaximumWindow own)
  where
    own = settingsHttp2 settings

-- | Changes the settings that are only HTTP\/2's.
changeHttp2 :: (Http2Settings -> Http2Settings) -> Settings -> Settings
changeHttp2 change settings = settings {settingsHttp2 = change (settingsHttp2 settings)}

-- | Never runs: only HTTP\/2 can push.
setServerPushLogger :: (Request -> ByteString -> Integer -> IO ()) -> Settings -> Settings
setServerPushLogger _ settings = settings

-- | The port.
getPort :: Settings -> Port
getPort = settingsPort

-- | The host preference.
getHost :: Settings -> HostPreference
getHost = settingsHost

-- | The action for new connections.
getOnOpen :: Settings -> SockAddr -> IO Bool
getOnOpen = settingsOnOpen

-- | The action for ended connections.
getOnClose :: Settings -> SockAddr -> IO ()
getOnClose = settingsOnClose

-- | The action for exceptions.
getOnException :: Settings -> Maybe Request -> SomeException -> IO ()
getOnException = settingsOnException

-- | The time limit of a shutdown, in seconds.
getGracefulShutdownTimeout :: Settings -> Maybe Int
getGracefulShutdownTimeout = settingsGracefulShutdownSeconds

-- | The value of 'setGracefulCloseTimeout1'.
getGracefulCloseTimeout1 :: Settings -> Int
getGracefulCloseTimeout1 = settingsGracefulClose1Millis

-- | The value of 'setGracefulCloseTimeout2'.
getGracefulCloseTimeout2 :: Settings -> Int
getGracefulCloseTimeout2 = settingsGracefulClose2Millis

-- | The state made by 'makeServerState'.
getServerState :: Settings -> Maybe ServerState
getServerState = settingsServerState

-- | The counter of open connections, if 'makeServerState' has made one.
getOpenConnectionCounter :: Settings -> Maybe Counter
getOpenConnectionCounter = fmap openConnectionCounter . settingsServerState

-- | Makes the state of a server available: how many connections are open, and whether it is shutting down. Settings
-- that have a state keep it.
--
-- > (state, settings) <- makeServerState defaultSettings
-- > _ <- forkIO (runSettings settings application)
-- > currentOpenConnections state >>= print
makeServerState :: Settings -> IO (ServerState, Settings)
makeServerState settings = do
  state <- maybe newServerState return (settingsServerState settings)
  return (state, settings {settingsServerState = Just state})

-- | 'makeServerState' of 'defaultSettings', with Warp's name and type.
makeSettingsAndServerState :: IO (ServerState, Settings)
makeSettingsAndServerState = makeServerState defaultSettings

-- | 'makeSettingsAndServerState' with only the counter of open connections.
makeSettingsAndCounter :: IO (Counter, Settings)
makeSettingsAndCounter = first openConnectionCounter <$> makeSettingsAndServerState

------------------------------------------------------------------------------------------------------------------------
-- Beyond Warp

-- | The time from the first byte of a request head to its last. After that the client gets a 408. Default: as
-- 'setTimeout'.
setHeaderTimeout :: Duration -> Settings -> Settings
setHeaderTimeout value settings = settings {settingsHeaderTimeout = Just value}

-- | The time that the server waits for the next 'setSlowlorisSize' bytes of a request body while the application reads
-- it. After that reading throws @RequestTimedOut@, which the server answers with a 408. Default: as 'setTimeout'.
setBodyTimeout :: Duration -> Settings -> Settings
setBodyTimeout value settings = settings {settingsBodyTimeout = Just value}

-- | The time that a connection may be without a request after its first one. Over HTTP\/2 and 3 only requests count:
-- PING and other frames do not prolong this time. A new connection has as long as 'setHeaderTimeout' says for each of
-- its steps, if that is longer: the first byte, and the first request after a handshake. Behind a load balancer this
-- must be longer than the balancer's own limit, because otherwise the balancer sends requests on connections that are
-- being closed. Empty lines restart the limit once; from the second time on 'setHeaderTimeout' applies. Default: as
-- 'setTimeout'.
setIdleTimeout :: Duration -> Settings -> Settings
setIdleTimeout value settings = settings {settingsIdleTimeout = Just value}

-- | The time during which a client may acknowledge no byte of a response. A client that reads slowly but steadily keeps
-- its connection; limit that with 'setMinimumRate'. Default: as 'setTimeout'.
setSendTimeout :: Duration -> Settings -> Settings
setSendTimeout value settings = settings {settingsSendTimeout = Just value}

-- | The time from the first byte of a request to the last byte of its response, including the application's work. After
-- that, reading throws @RequestTimedOut@, and sending throws an @IOError@ of type @TimeExpired@. An application that
-- does neither is interrupted by an asynchronous exception, and the client gets a 503 if nothing was sent.
-- 'Network.Wai.Handler.Millrace.pauseTimeout' removes the limit for one request. Default: 'unlimited'.
setTotalTimeout :: Duration -> Settings -> Settings
setTotalTimeout value settings = settings {settingsTotalTimeout = value}

-- | @setMinimumRate bytesPerSecond window@: in every window of waiting of that length, a second at least, a client must
-- send or receive this many bytes per second on average. Otherwise its time limit counts as passed. For request bodies
-- this replaces 'setSlowlorisSize'. The default is a rate of 0, no minimum.
setMinimumRate :: Int -> Duration -> Settings -> Settings
setMinimumRate rate window settings =
  settings {settingsMinimumRate = if rate > 0 then Just (rate, max (seconds 1) window) else Nothing}

-- | The largest number of open connections. To make room for the next one, the server closes the oldest connection that
-- is idle between two requests. If there is none, it closes the oldest one that has not sent a request, if it has been
-- silent for five seconds. Otherwise the next connection waits. Default: @Nothing@, as many as there are descriptors
-- for ('setReservedDescriptors').
setMaximumConnections :: Maybe Int -> Settings -> Settings
setMaximumConnections value settings = settings {settingsMaximumConnections = fmap (max 1) value}

-- | How many descriptors connections leave to files, logs and connections to other servers. When new connections have
-- come so far, each further one is made room for as with 'setMaximumConnections', among the idle connections of all
-- servers of the process. What counts is how many descriptors the process has open, whatever they are for. Default:
-- @Nothing@, an eighth of the process's soft limit when the server starts, at least 16 and at most 1024.
setReservedDescriptors :: Maybe Int -> Settings -> Settings
setReservedDescriptors value settings = settings {settingsReservedDescriptors = fmap (max 0) value}

-- | Called when new connections wait because as many as allowed are open and all are busy, and when that is over: none
-- had to wait for ten seconds. Each is called once for each time that it happens. Default: nothing, except that waiting
-- for descriptors is reported to 'setOnException', as an 'IOError' of @EMFILE@ without a request.
--
-- > setOnCrowding print
setOnCrowding :: (Crowding -> IO ()) -> Settings -> Settings
setOnCrowding value settings = settings {settingsOnCrowding = Just value}

-- | The largest number of requests on one connection, which is closed after the last. Default: @Nothing@, any number.
setMaximumRequests :: Maybe Int -> Settings -> Settings
setMaximumRequests value settings = settings {settingsMaximumRequests = fmap (max 1) value}

-- | The largest number of field lines in a request head, at most 512. More get a 431. Default: 128.
setMaximumHeaderCount :: Int -> Settings -> Settings
setMaximumHeaderCount value settings = settings {settingsMaximumHeaderCount = max 1 (min 512 value)}

-- | The largest size of a request target in bytes. The rest of a request line is always short. A longer one gets a 414.
-- Default: 8192.
setMaximumTargetLength :: Int -> Settings -> Settings
setMaximumTargetLength value settings = settings {settingsMaximumTargetLength = max 1 value}

-- | The largest size of a request body in bytes. A larger one gets a 413: before the application runs if its length is
-- announced, and otherwise when the application has read that many bytes and reading throws @PayloadTooLarge@. Default:
-- @Nothing@, any number.
setMaximumBodySize :: Maybe Int -> Settings -> Settings
setMaximumBodySize value settings = settings {settingsMaximumBodySize = fmap (max 0) value}

-- | The number of connections that the system queues until they are accepted. The system limits it to
-- @net.core.somaxconn@; the maximum is 65535. Default: 2048.
setBacklog :: Int -> Settings -> Settings
setBacklog value settings = settings {settingsBacklog = max 1 (min 65535 value)}

-- | Whether every capability has its own listening socket (@SO_REUSEPORT@). The system then distributes the
-- connections, and another process of the same user can listen on the port too. Default: False, one socket for all.
-- Applies to 'Network.Wai.Handler.Millrace.run' and 'Network.Wai.Handler.Millrace.runSettings'.
--
-- This allows a restart without losing a connection: start the next server, wait until it listens, then end the old
-- one. The old server ignores new handshakes and accepts the connections in its queue before it closes its sockets. A
-- client whose first segment reached the old server in that quarter of a second tries again after a second, and reaches
-- the new one. This needs no privileges. 'Network.Wai.Handler.Millrace.runSettingsInherited' avoids the delay.
setReusePort :: Bool -> Settings -> Settings
setReusePort value settings = settings {settingsReusePort = value}

-- | Whether LF alone may end a line of a request head, as RFC 9112, section 2.2, permits. For requests typed by hand
-- and small devices. Lines of chunked bodies must always end with CR LF. A connection that needed it is closed after
-- the response: to a proxy that does not see a line end there, the rest might belong to another client. Default: False.
setAllowBareLineFeed :: Bool -> Settings -> Settings
setAllowBareLineFeed value settings = settings {settingsAllowBareLineFeed = value}

-- | Whether the value of a header field may continue on a line that begins with a blank. RFC 9112, section 5.2, lets a
-- server replace the line end by spaces instead of refusing the request. For proxies that send clients' certificates in
-- several lines. Not for fields that the server itself uses: Host, Content-Length, Transfer-Encoding, Connection,
-- Expect, Upgrade, Range. A connection that needed it is closed after the response. Default: False.
setAllowFolding :: Bool -> Settings -> Settings
setAllowFolding value settings = settings {settingsAllowFolding = value}

-- | Whether an HTTP\/1.1 request may lack Host. RFC 9112, section 3.2, demands a 400. For health checks and scripts.
-- Use it only if nothing depends on the host's name. Two Host fields, or an invalid one, are always refused. Default:
-- False.
setAllowMissingHost :: Bool -> Settings -> Settings
setAllowMissingHost value settings = settings {settingsAllowMissingHost = value}

-- | Whether a request target may contain bytes outside ASCII that are not percent-encoded. RFC 3986, section 2, does
-- not allow them, and RFC 9112, section 3.2, recommends a 400. For clients that send plain UTF-8. Control characters
-- and spaces are always refused. Default: False.
setAllowNonAsciiTarget :: Bool -> Settings -> Settings
setAllowNonAsciiTarget value settings = settings {settingsAllowNonAsciiTarget = value}
