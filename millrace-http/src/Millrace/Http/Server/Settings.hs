{-# LANGUAGE RankNTypes #-}

-- |
-- The settings of a server, with the functions that set them. All of it is exported here: the list of what users get is in
-- "Network.Wai.Handler.Millrace". Must not know: connections, listeners.
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
import Millrace.Http.Answer.Observer (Answer)
import Millrace.Http.Exception (defaultOnException, defaultOnExceptionResponse)
import Millrace.Http.Server.State
import Network.HTTP.Types (Status)
import Network.Socket (SockAddr, Socket)
import Network.Wai (Request, Response)
import Paths_millrace_http (version)
import System.TimeManager (Manager)

-- | A TCP port number.
--
-- @since 0.1.0
type Port = Int

-- | Which interface to listen on: @\"*\"@ any, @\"*4\"@ any with IPv4 preferred, @\"!4\"@ IPv4 only, @\"*6\"@ and
-- @\"!6\"@ likewise, or a host name or address. The type of the streaming-commons package, as in Warp.
--
-- @since 0.1.0
type HostPreference = Streaming.HostPreference

-- | Whole seconds; where a limit is meant, 0 or less is none.
type Seconds = Int

-- | Does a header of the PROXY protocol precede the first request?
data ProxyProtocol
  = ProxyProtocolNone
  | ProxyProtocolRequired
  | ProxyProtocolOptional
  deriving (Eq, Show)

-- | The settings of a server. Start from 'defaultSettings' and use the setters.
--
-- @since 0.1.0
data Settings = Settings
  { settingsPort :: !Port,
    settingsHost :: !HostPreference,
    settingsOnException :: !(Maybe Request -> SomeException -> IO ()),
    settingsOnExceptionResponse :: !(SomeException -> Response),
    settingsOnOpen :: !(SockAddr -> IO Bool),
    settingsOnClose :: !(SockAddr -> IO ()),
    settingsTimeoutSeconds :: !Seconds,
    -- | These four: as settingsTimeoutSeconds if Nothing.
    settingsHeaderSeconds :: !(Maybe Seconds),
    settingsBodySeconds :: !(Maybe Seconds),
    settingsIdleSeconds :: !(Maybe Seconds),
    settingsSendSeconds :: !(Maybe Seconds),
    settingsTotalSeconds :: !Seconds,
    -- | Bytes per second, over so many seconds.
    settingsMinimumRate :: !(Maybe (Int, Seconds)),
    settingsFdCacheSeconds :: !Seconds,
    settingsFileInfoCacheSeconds :: !Seconds,
    settingsBeforeMainLoop :: !(IO ()),
    settingsFork :: !(((forall a. IO a -> IO a) -> IO ()) -> IO ()),
    -- | Nothing: Millrace's own.
    settingsAccept :: !(Maybe (Socket -> IO (Socket, SockAddr))),
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
    -- | These two Nothing: responses are not even counted.
    settingsLogger :: !(Maybe (Request -> Status -> Maybe Integer -> IO ())),
    settingsOnAnswer :: !(Maybe (Answer -> IO ())),
    settingsServerState :: !(Maybe ServerState),
    settingsMaximumConnections :: !(Maybe Int),
    settingsMaximumRequests :: !(Maybe Int),
    settingsMaximumHeaderCount :: !Int,
    settingsMaximumTargetLength :: !Int,
    settingsMaximumBodySize :: !(Maybe Int),
    settingsBacklog :: !Int,
    settingsReusePort :: !Bool,
    settingsAllowBareLineFeed :: !Bool,
    settingsAllowFolding :: !Bool,
    settingsAllowMissingHost :: !Bool,
    settingsAllowNonAsciiTarget :: !Bool
  }

-- | Warp's defaults, but for the server name, which is @Millrace/VERSION@, and for two limits that Warp has not:
-- 'setMaximumHeaderCount' and 'setMaximumTargetLength'.
--
-- @since 0.1.0
defaultSettings :: Settings
defaultSettings =
  Settings
    { settingsPort = 3000,
      settingsHost = fromString "*4",
      settingsOnException = defaultOnException,
      settingsOnExceptionResponse = defaultOnExceptionResponse,
      settingsOnOpen = const (return True),
      settingsOnClose = const (return ()),
      settingsTimeoutSeconds = 30,
      settingsHeaderSeconds = Nothing,
      settingsBodySeconds = Nothing,
      settingsIdleSeconds = Nothing,
      settingsSendSeconds = Nothing,
      settingsTotalSeconds = 0,
      settingsMinimumRate = Nothing,
      settingsFdCacheSeconds = 0,
      settingsFileInfoCacheSeconds = 0,
      settingsBeforeMainLoop = return (),
      settingsFork = defaultFork,
      settingsAccept = Nothing,
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
      settingsMaximumRequests = Nothing,
      settingsMaximumHeaderCount = 128,
      settingsMaximumTargetLength = 8192,
      settingsMaximumBodySize = Nothing,
      settingsBacklog = 2048,
      settingsReusePort = False,
      settingsAllowBareLineFeed = False,
      settingsAllowFolding = False,
      settingsAllowMissingHost = False,
      settingsAllowNonAsciiTarget = False
    }

defaultFork :: ((forall a. IO a -> IO a) -> IO ()) -> IO ()
defaultFork serve = void (forkIOWithUnmask serve)

------------------------------------------------------------------------------------------------------------------------
-- As in Warp

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

-- | Seconds that a client may take in each phase: what 'setHeaderTimeout', 'setBodyTimeout', 'setIdleTimeout' and
-- 'setSendTimeout' are unless they are set. Default: 30. 0 or less: no limit. Never concerns the time that the
-- application takes, nor how long a raw response waits for its client: what silence means there is for its protocol to
-- say, and 'Millrace.Timer.timeout' is there.
--
-- @since 0.1.0
setTimeout :: Int -> Settings -> Settings
setTimeout value settings = settings {settingsTimeoutSeconds = value}

-- | What to do with exceptions of applications (with their request), of opening a file of a response where descriptors or
-- memory are wanting (with their request, too; the client gets a 503), and of connections. Default: 'defaultOnException'.
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

-- | Runs when a connection is accepted; @False@ closes it at once. Exceptions are masked, so that one from outside can end
-- it only where it waits. Default: @const (return True)@.
--
-- @since 0.1.0
setOnOpen :: (SockAddr -> IO Bool) -> Settings -> Settings
setOnOpen value settings = settings {settingsOnOpen = value}

-- | Runs when a connection is over: once for each whose 'setOnOpen' action returned, whatever it said, and not for one
-- whose action threw. Default: nothing.
--
-- @since 0.1.0
setOnClose :: (SockAddr -> IO ()) -> Settings -> Settings
setOnClose value settings = settings {settingsOnClose = value}

-- | Accepted, and without effect. In Warp the manager's limit replaces that of 'setTimeout'; but a manager does not tell
-- its limit, it only interrupts threads when it has passed. Here time limits are deadlines of operations, and that of
-- 'setTimeout' applies all the same.
--
-- @since 0.1.0
setManager :: Manager -> Settings -> Settings
setManager _ settings = settings

-- | Seconds for which the descriptors of files that were sent are kept open. A file that is replaced meanwhile is not
-- noticed; one that is written to in place is. Default: 0, not at all.
--
-- @since 0.1.0
setFdCacheDuration :: Int -> Settings -> Settings
setFdCacheDuration value settings = settings {settingsFdCacheSeconds = max 0 value}

-- | Seconds for which 'Network.Wai.Handler.Millrace.getFileInfo' remembers its answers, the negative ones included.
-- Default: 0, not at all.
--
-- @since 0.1.0
setFileInfoCacheDuration :: Int -> Settings -> Settings
setFileInfoCacheDuration value settings = settings {settingsFileInfoCacheSeconds = max 0 value}

-- | Runs when the socket listens, before the first connection is accepted. Default: nothing.
--
-- @since 0.1.0
setBeforeMainLoop :: IO () -> Settings -> Settings
setBeforeMainLoop value settings = settings {settingsBeforeMainLoop = value}

-- | How to start a connection's thread. The function gets the action to run, which takes the function that unmasks
-- exceptions. Default: @\\serve -> void (forkIOWithUnmask serve)@.
--
-- @since 0.1.0
setFork :: (((forall a. IO a -> IO a) -> IO ()) -> IO ()) -> Settings -> Settings
setFork value settings = settings {settingsFork = value}

-- | How to take a connection from a listening socket. It gets a duplicate of the socket, on which the functions of
-- "Network.Socket" work; it should fail when that is closed. Another @IOError@ is reported, and it is called again a tenth
-- of a second later; any other exception ends the thread that has called it, of which there is one for each capability,
-- and with the last of them the server, which throws it. Default: Millrace's own ('Millrace.Socket.accept'), which needs
-- no duplicate and survives a lack of descriptors.
--
-- @since 0.1.0
setAccept :: (Socket -> IO (Socket, SockAddr)) -> Settings -> Settings
setAccept value settings = settings {settingsAccept = Just value}

-- | Should 'Network.Wai.rawPathInfo' keep scheme and authority of a request target in absolute form? For proxies.
-- Default: False.
--
-- @since 0.1.0
setNoParsePath :: Bool -> Settings -> Settings
setNoParsePath value settings = settings {settingsNoParsePath = value}

-- | Receives the action that ends the server: it serves what the listening socket's queue holds and closes it; idle
-- connections are closed at once, unless something has moved on them in the last quarter of a second; the others after
-- their next response, which says @Connection: close@; and then 'Network.Wai.Handler.Millrace.runSettings' returns. The
-- action returns at once and may be run from any thread, a signal handler's included. Default: nothing.
--
-- > setInstallShutdownHandler (\stop -> void (installHandler sigTERM (Catch stop) Nothing)) defaultSettings
--
-- @since 0.1.0
setInstallShutdownHandler :: (IO () -> IO ()) -> Settings -> Settings
setInstallShutdownHandler value settings = settings {settingsInstallShutdownHandler = value}

-- | Seconds to wait for connections to end after the listening socket was closed; those that are left then are cut
-- off, and applications that are busy get 'Control.Exception.ThreadKilled'; 'setOnException' is told on how many the
-- response was not complete ('Network.Wai.Handler.Millrace.ConnectionsCutOff'). Default: @Nothing@, as long as it takes.
--
-- @since 0.1.0
setGracefulShutdownTimeout :: Maybe Int -> Settings -> Settings
setGracefulShutdownTimeout value settings = settings {settingsGracefulShutdownSeconds = value}

-- | Milliseconds to wait, whenever the server ends a connection, for the client to close its side. Default: 0. Where
-- the client may still be sending, a close would destroy the response on its way; there the server waits up to five
-- seconds in any case.
--
-- @since 0.1.0
setGracefulCloseTimeout1 :: Int -> Settings -> Settings
setGracefulCloseTimeout1 value settings = settings {settingsGracefulClose1Millis = max 0 value}

-- | The same for HTTP\/2, which this version does not speak. Default: 2000.
--
-- @since 0.1.0
setGracefulCloseTimeout2 :: Int -> Settings -> Settings
setGracefulCloseTimeout2 value settings = settings {settingsGracefulClose2Millis = max 0 value}

-- | The Server field of responses whose application gives none. Empty: no Server field, whatever the application
-- gives. Default: @Millrace/VERSION@.
--
-- @since 0.1.0
setServerName :: ByteString -> Settings -> Settings
setServerName value settings = settings {settingsServerName = value}

-- | The value of an Alt-Svc field in every response (RFC 7838). Default: none.
--
-- @since 0.1.0
setAltSvc :: ByteString -> Settings -> Settings
setAltSvc value settings = settings {settingsAltSvc = Just value}

-- | Most bytes of request body that are read and dropped, when the application did not read them, to keep the
-- connection. @Nothing@: any number. Default: @Just 8192@. 0 or less: none.
--
-- @since 0.1.0
setMaximumBodyFlush :: Maybe Int -> Settings -> Settings
setMaximumBodyFlush value settings = settings {settingsMaximumBodyFlush = fmap (max 0) value}

-- | Most bytes of a request head, a gigabyte at most; more get a 431. Default: 51200.
--
-- @since 0.1.0
setMaxTotalHeaderLength :: Int -> Settings -> Settings
setMaxTotalHeaderLength value settings = settings {settingsMaxTotalHeaderLength = max 64 (min longestHead value)}

-- The parser counts in 32 bits.
longestHead :: Int
longestHead = 1073741824

-- | Most bytes of buffer that a response body's builder may ask for in one piece; more is an error. Default:
-- 1049000000, as in Warp.
--
-- @since 0.1.0
setMaxBuilderResponseBufferSize :: Int -> Settings -> Settings
setMaxBuilderResponseBufferSize value settings = settings {settingsMaxBuilderResponseBufferSize = value}

-- | Bytes of request body that renew the time limit of 'setBodyTimeout'. Default: 2048.
--
-- @since 0.1.0
setSlowlorisSize :: Int -> Settings -> Settings
setSlowlorisSize value settings = settings {settingsSlowlorisSize = max 1 value}

-- | Connections begin with a request. The default.
--
-- @since 0.1.0
setProxyProtocolNone :: Settings -> Settings
setProxyProtocolNone settings = settings {settingsProxyProtocol = ProxyProtocolNone}

-- | Connections begin with a header of the PROXY protocol, version 1 or 2, which tells
-- 'Network.Wai.remoteHost'. Others are refused with a 400. Only for servers that nobody but the proxy can reach.
--
-- @since 0.1.0
setProxyProtocolRequired :: Settings -> Settings
setProxyProtocolRequired settings = settings {settingsProxyProtocol = ProxyProtocolRequired}

-- | Connections may begin with a header of the PROXY protocol. Every client can then claim any address.
--
-- @since 0.1.0
setProxyProtocolOptional :: Settings -> Settings
setProxyProtocolOptional settings = settings {settingsProxyProtocol = ProxyProtocolOptional}

-- | Runs after each response, with its status and the bytes of its body (Nothing if it has none). Not for raw
-- responses. Default: none, at no cost.
--
-- Runs for refused requests, too. If there is no whole head of a valid request, the logger gets, as with Warp,
-- 'Network.Wai.defaultRequest' with the client's address; 'setOnAnswer' tells such a request from one of the kind.
--
-- @since 0.1.0
setLogger :: (Request -> Status -> Maybe Integer -> IO ()) -> Settings -> Settings
setLogger value settings = settings {settingsLogger = Just value}

-- | Runs after each final response, once, with all that is known of it: after those of the application and after those
-- that the server gives itself, to what it refuses and where the application has thrown. In the thread of the
-- connection, whose next request waits meanwhile, and the answer does not; an exception is reported to 'setOnException'.
-- Not for raw responses. Default: none, at no cost.
--
-- > setOnAnswer (\answer -> when (isJust (answerRefusal answer)) (hPutStrLn stderr (show (answerClient answer))))
--
-- @since 0.1.0
setOnAnswer :: (Answer -> IO ()) -> Settings -> Settings
setOnAnswer value settings = settings {settingsOnAnswer = Just value}

-- | Accepted, and without effect: this version speaks no HTTP\/2.
--
-- @since 0.1.0
setHTTP2Disabled :: Settings -> Settings
setHTTP2Disabled settings = settings

-- | Accepted, and never run: only HTTP\/2 can push.
--
-- @since 0.1.0
setServerPushLogger :: (Request -> ByteString -> Integer -> IO ()) -> Settings -> Settings
setServerPushLogger _ settings = settings

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

-- | The value of 'setGracefulCloseTimeout1'.
--
-- @since 0.1.0
getGracefulCloseTimeout1 :: Settings -> Int
getGracefulCloseTimeout1 = settingsGracefulClose1Millis

-- | The value of 'setGracefulCloseTimeout2'.
--
-- @since 0.1.0
getGracefulCloseTimeout2 :: Settings -> Int
getGracefulCloseTimeout2 = settingsGracefulClose2Millis

-- | What 'makeServerState' has put in.
--
-- @since 0.1.0
getServerState :: Settings -> Maybe ServerState
getServerState = settingsServerState

-- | The counter of open connections, if 'makeServerState' has put one in.
--
-- @since 0.1.0
getOpenConnectionCounter :: Settings -> Maybe Counter
getOpenConnectionCounter = fmap openConnectionCounter . settingsServerState

-- | Makes the state of a server visible from outside: how many connections are open, and whether it is shutting down.
--
-- > (state, settings) <- makeServerState defaultSettings
-- > _ <- forkIO (runSettings settings application)
-- > currentOpenConnections state >>= print
--
-- @since 0.1.0
makeServerState :: Settings -> IO (ServerState, Settings)
makeServerState settings = do
  state <- newServerState
  return (state, settings {settingsServerState = Just state})

-- | 'makeServerState' of 'defaultSettings', under the name and with the type that Warp has for it.
--
-- @since 0.1.0
makeSettingsAndServerState :: IO (ServerState, Settings)
makeSettingsAndServerState = makeServerState defaultSettings

-- | The same for those who want no more than the counter of open connections.
--
-- @since 0.1.0
makeSettingsAndCounter :: IO (Counter, Settings)
makeSettingsAndCounter = first openConnectionCounter <$> makeSettingsAndServerState

------------------------------------------------------------------------------------------------------------------------
-- Beyond Warp

-- | Seconds from the first byte of a request head to its last; then a 408. Default: as 'setTimeout'.
--
-- @since 0.1.0
setHeaderTimeout :: Int -> Settings -> Settings
setHeaderTimeout value settings = settings {settingsHeaderSeconds = Just value}

-- | Seconds that the server waits, while the application reads the request body, for the next 'setSlowlorisSize'
-- bytes; then reading throws @RequestTimedOut@, which is answered with a 408. Default: as 'setTimeout'.
--
-- @since 0.1.0
setBodyTimeout :: Int -> Settings -> Settings
setBodyTimeout value settings = settings {settingsBodySeconds = Just value}

-- | Seconds that a connection may be idle, before its first request and between requests. Behind a load balancer this
-- should be longer than the balancer's own limit, or it will send requests on connections that are being closed.
-- Empty lines renew it once; from the second time on 'setHeaderTimeout' counts. Default: as 'setTimeout'.
--
-- @since 0.1.0
setIdleTimeout :: Int -> Settings -> Settings
setIdleTimeout value settings = settings {settingsIdleSeconds = Just value}

-- | Seconds for which a client may acknowledge not a single byte of a response. A client that reads slowly, and
-- steadily, is not cut off; see 'setMinimumRate' for that. Default: as 'setTimeout'.
--
-- @since 0.1.0
setSendTimeout :: Int -> Settings -> Settings
setSendTimeout value settings = settings {settingsSendSeconds = Just value}

-- | Seconds from the first byte of a request to the last of its response, the application's work included. Past it,
-- reading throws @RequestTimedOut@ and sending an @IOError@ of type @TimeExpired@; an application that does neither is
-- interrupted by an asynchronous exception, and the client gets a 503 if nothing was sent.
-- 'Network.Wai.Handler.Millrace.pauseTimeout' lifts it for one request. Default: 0, no limit.
--
-- @since 0.1.0
setTotalTimeout :: Int -> Settings -> Settings
setTotalTimeout value settings = settings {settingsTotalSeconds = max 0 value}

-- | @setMinimumRate bytesPerSecond windowSeconds@: in every window of so many seconds that the server waits for a
-- client, it must send (or take) this many bytes per second on average; else it is treated as one that is too late.
-- For request bodies this replaces 'setSlowlorisSize'. A rate of 0: none, the default.
--
-- @since 0.1.0
setMinimumRate :: Int -> Int -> Settings -> Settings
setMinimumRate rate window settings = settings {settingsMinimumRate = if rate > 0 then Just (rate, max 1 window) else Nothing}

-- | Most connections at a time. To make room for the next, the oldest that is idle between two requests is closed; if
-- there is none, the oldest that has not had one, if it has been silent for five seconds; else the next waits. Default:
-- @Nothing@, as many as there are descriptors for: the process's soft limit when the server starts, less 16 and 8 for
-- each capability.
--
-- @since 0.1.0
setMaximumConnections :: Maybe Int -> Settings -> Settings
setMaximumConnections value settings = settings {settingsMaximumConnections = fmap (max 1) value}

-- | Most requests on one connection; it is closed after the last. Default: @Nothing@, any number.
--
-- @since 0.1.0
setMaximumRequests :: Maybe Int -> Settings -> Settings
setMaximumRequests value settings = settings {settingsMaximumRequests = fmap (max 1) value}

-- | Most field lines in a request head, at most 512; more get a 431. Default: 128.
--
-- @since 0.1.0
setMaximumHeaderCount :: Int -> Settings -> Settings
setMaximumHeaderCount value settings = settings {settingsMaximumHeaderCount = max 1 (min 512 value)}

-- | Most bytes of a request target, which is all of a request line that can be long; more get a 414. Default: 8192.
--
-- @since 0.1.0
setMaximumTargetLength :: Int -> Settings -> Settings
setMaximumTargetLength value settings = settings {settingsMaximumTargetLength = max 1 value}

-- | Most bytes of a request body; more get a 413, before the application runs if the length is announced, and else
-- when it has read so many: reading throws @PayloadTooLarge@. Default: @Nothing@, any number.
--
-- @since 0.1.0
setMaximumBodySize :: Maybe Int -> Settings -> Settings
setMaximumBodySize value settings = settings {settingsMaximumBodySize = fmap (max 0) value}

-- | Connections that the system may queue until they are accepted; it reduces the number to @net.core.somaxconn@, and
-- 65535 is the most. Default: 2048.
--
-- @since 0.1.0
setBacklog :: Int -> Settings -> Settings
setBacklog value settings = settings {settingsBacklog = max 1 (min 65535 value)}

-- | Should every capability have a listening socket of its own (@SO_REUSEPORT@)? The system then deals the connections
-- out; another process of the same user may listen on the port too. Default: False, one socket for all. Concerns
-- 'Network.Wai.Handler.Millrace.run' and 'Network.Wai.Handler.Millrace.runSettings'.
--
-- That is a way to restart: start the next server, wait until it listens, then end the old one. The old one lets no
-- handshake begin any more, and serves what its queue holds before it closes its sockets, so that no connection is
-- lost. A client whose first segment came to it in that quarter of a second tries again after a second, and reaches
-- the new one. 'Network.Wai.Handler.Millrace.runSettingsInherited' spares them that.
--
-- @since 0.1.0
setReusePort :: Bool -> Settings -> Settings
setReusePort value settings = settings {settingsReusePort = value}

-- | May LF alone end a line of a request head, as RFC 9112, section 2.2, permits? For clients typed by hand and small
-- devices. Lines of chunked bodies end in CR LF in any case. A connection on which it was needed is closed after the
-- response: behind a proxy that does not see a line end there, the rest might be somebody else's. Default: False.
--
-- @since 0.1.0
setAllowBareLineFeed :: Bool -> Settings -> Settings
setAllowBareLineFeed value settings = settings {settingsAllowBareLineFeed = value}

-- | May the value of a header field go on in a line that begins with a blank? RFC 9112, section 5.2, lets a server
-- replace the line end by spaces instead of refusing the request. For proxies that pass on certificates of clients in
-- several lines. Not for fields that the server itself goes by: Host, Content-Length, Transfer-Encoding, Connection,
-- Expect, Upgrade, Range. A connection on which it was needed is closed after the response. Default: False.
--
-- @since 0.1.0
setAllowFolding :: Bool -> Settings -> Settings
setAllowFolding value settings = settings {settingsAllowFolding = value}

-- | May an HTTP\/1.1 request lack Host? RFC 9112, section 3.2, says 400. For health checks and scripts. Only where
-- nothing depends on the name that the client asked for. Two of them, or an invalid one, are refused in any case.
-- Default: False.
--
-- @since 0.1.0
setAllowMissingHost :: Bool -> Settings -> Settings
setAllowMissingHost value settings = settings {settingsAllowMissingHost = value}

-- | May a request target have bytes beyond ASCII that are not percent-encoded? RFC 3986, section 2, knows none, and
-- RFC 9112, section 3.2, recommends a 400. For clients that send UTF-8 as it is. Control characters and spaces are
-- refused in any case. Default: False.
--
-- @since 0.1.0
setAllowNonAsciiTarget :: Bool -> Settings -> Settings
setAllowNonAsciiTarget value settings = settings {settingsAllowNonAsciiTarget = value}
