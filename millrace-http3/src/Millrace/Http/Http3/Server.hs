{-# LANGUAGE OverloadedStrings #-}

-- Must not know: requests.

-- |
-- HTTP\/3 beside a server of HTTP\/1.1 and HTTP\/2: its sockets, its certificates, and how it ends with the other.
--
-- Not covered by the version policy.
module Millrace.Http.Http3.Server
  ( HTTP3,
    UnsupportedSetting (..),
    withHTTP3,
    besideHTTP3,
    announcingHTTP3,
    reloadHTTP3,
    replaceHTTP3,
    librariesOfHTTP3,
  )
where

import Control.Concurrent (ThreadId, forkIO, forkIOWithUnmask, getNumCapabilities, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.Either (fromLeft)
import Data.IORef
import Data.List (nub)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (catMaybes, mapMaybe)
import Millrace.Directory (Entry (..), list)
import Millrace.Duration (unlimited)
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.Http3.ConnectionIdRouting
import Millrace.Http.Http3.Endpoint (localityOf)
import Millrace.Http.Http3.Engine (Credentials, Locality (..), libraries, newEngineSettings)
import Millrace.Http.Http3.PeerProcesses
import Millrace.Http.Http3.Port
import Millrace.Http.Http3.Session
import Millrace.Http.Http3.Settings
import Millrace.Http.Server.Context (ServerContext (..), newServerContext)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.State (newServerState)
import Millrace.Http.Tls.TlsSettings (EarlyData (..), Reload (..), TLSSettings (..), watchedFiles)
import Millrace.Socket
import Millrace.Socket.Batch (setJoining)
import Millrace.Socket.Gso (setEcnReport, setLocalReport)
import Millrace.Socket.Option (setReceiveBuffer, setSendBuffer)
import Millrace.Tls.FileChanges (watchFiles)
import Network.HTTP.Types (HeaderName)
import Network.Wai (Application, Middleware, mapResponseHeaders, responseHeaders)
import Network.Wai.Handler.Millrace (Listener, listenerSocket)
import Text.Read (readMaybe)

-- | HTTP\/3 that is served.
data HTTP3 = HTTP3
  { http3Chosen :: !(MVar Chosen),
    http3Settings :: !Settings,
    http3Sessions :: ![Session],
    -- How many of them have not ended.
    http3Running :: !(IORef Int),
    -- The value of Alt-Svc.
    http3Announcement :: !ByteString
  }

-- The settings whose certificates are used, and the thread that watches their files.
data Chosen = Chosen !TLSSettings !(Maybe ThreadId)

-- | @withHTTP3 tls settings listeners application action@ serves the application over HTTP\/3 during the action: over
-- UDP, on the addresses of these listeners, which serve it over TCP. When the action has returned, requests that have
-- begun are still answered, as 'Network.Wai.Handler.Millrace.setGracefulShutdownTimeout' says. An exception ends them
-- at once. Throws an 'UnsupportedSetting' if the settings demand what HTTP\/3 cannot do, and an @IOError@ if the
-- certificates cannot be used, or if an address is taken.
--
-- > withTLS (offering settings tls) $ \protection -> withHTTP3 tls settings listeners application $ \http3 ->
-- >   let overTcp = besideHTTP3 http3 (protectedBy protection settings)
-- >    in runSettingsListeners overTcp listeners (announcingHTTP3 http3 application)
withHTTP3 :: TLSSettings -> Settings -> [Listener] -> Application -> (HTTP3 -> IO a) -> IO a
withHTTP3 tls settings listeners application use = mask $ \restore -> do
  refuseUnsupported tls settings
  credentials <- restore (credentialsOf tls)
  state <- maybe newServerState return (settingsServerState settings)
  let shared = settings {settingsServerState = Just state}
  addresses <- nub . catMaybes <$> mapM (boundTo settings) listeners
  running <- newIORef 0
  chosen <- newEmptyMVar
  started <- startAll shared credentials running addresses
  let http3 =
        HTTP3
          { http3Chosen = chosen,
            http3Settings = shared,
            http3Sessions = concatMap fst started,
            http3Running = running,
            http3Announcement =
              C8.intercalate
                ", "
                ( nub
                    [ C8.pack ("h3=\":" ++ show port ++ "\"; ma=86400")
                      | LocalAddress name _ <-
                          addresses,
                        Just port <- [portOf name]
                    ]
                )
          }
  watching http3 tls >>= putMVar chosen
  outcome <- try (restore (use http3))
  modifyMVarMasked_ chosen (\(Chosen last' watcher) -> Chosen last' Nothing <$ mapM_ killThread watcher)
  case outcome of
    Right result -> do
      endAll (Gracefully (settingsGracefulShutdownSeconds settings)) started
      return result
    Left failure -> do
      endAll AtOnce started
      throwIO (failure :: SomeException)
  where
    startAll _ _ _ [] = return []
    startAll shared credentials running (bound : others) = do
      first <- start tls shared credentials application running bound
      (first :) <$> startAll shared credentials running others `onException` endAll AtOnce [first]
    endAll stop started = do
      forM_ started (\(sessions, _) -> mapM_ (`stopSession` stop) sessions)
      forM_ started (\(sessions, ended) -> readMVar ended `onException` mapM_ (`stopSession` AtOnce) sessions)

-- Where a UDP socket is bound, and its options.
data LocalAddress = LocalAddress !SockAddr ![(SocketOption, Int)]
  deriving (Eq)

-- The UDP address beside a listener that has a port. Another process may have it, too, if that is so for the listener.
boundTo :: Settings -> Listener -> IO (Maybe LocalAddress)
boundTo settings listener = do
  name <- getSocketName (listenerSocket listener)
  case name of
    SockAddrInet {} -> return (Just (LocalAddress name (shared ++ unfragmented)))
    SockAddrInet6 {} -> do
      only <- getSocketOption (listenerSocket listener) IPv6Only
      return (Just (LocalAddress name (shared ++ (IPv6Only, only) : unfragmented6 : unfragmented)))
    _ -> return Nothing
  where
    shared = [(ReusePort, 1) | settingsReusePort settings]
    -- IP_MTU_DISCOVER and IPV6_MTU_DISCOVER of Linux, and IP_PMTUDISC_PROBE, which is the same number for both. No
    -- datagram is sent in fragments: QUIC finds out by itself how large they may be.
    unfragmented = [(SockOpt 0 10, probing)]
    unfragmented6 = (SockOpt 41 23, probing)
    probing = 3

portOf :: SockAddr -> Maybe Int
portOf name = case name of
  SockAddrInet port _ -> Just (fromIntegral port)
  SockAddrInet6 port _ _ _ -> Just (fromIntegral port)
  _ -> Nothing

-- Starts serving at an address. The variable is full when that has ended. Masked.
start :: TLSSettings -> Settings -> Credentials -> Application -> IORef Int -> LocalAddress -> IO ([Session], MVar ())
start tls settings credentials application running bound@(LocalAddress address options) = do
  server <- newServerContext settings
  peers <- if isShared options then openPeerProcesses address else return Nothing
  let own = EndpointId (maybe Unknown peersProcess peers) (Loop 0)
      prepare datagram =
        (,) <$> newEngineSettings (portLimits (endpointIdNumber own) datagram tls settings)
          <*> (openAll bound =<< endpointsFor tls)
  (limits, sockets) <- (largestDatagram address >>= prepare) `onException` mapM_ closePeerProcesses peers
  begun <- newEmptyMVar
  ended <- newEmptyMVar
  let isReady sessions = do
        atomicModifyIORef' running (\count -> (count + 1, ()))
        putMVar begun (Right sessions)
      serve = do
        outcome <- try (runPort server peers sockets limits credentials application isReady)
        first <- tryPutMVar begun (Left (fromLeft (toException (userError "HTTP/3: ended before it began")) outcome))
        unless first $ do
          atomicModifyIORef' running (\count -> (count - 1, ()))
          either
            (\failure -> settingsOnException settings Nothing (failure :: SomeException) `catch` ignore)
            return
            outcome
        closeFileCache (serverFiles server) `catch` ignore
        putMVar ended ()
  void (forkIO serve)
  outcome <- takeMVar begun
  either throwIO (\sessions -> return (sessions, ended)) outcome
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()

-- An endpoint for each capability. But what was accepted in 0-RTT is in the register of one endpoint, so then there is
-- one.
endpointsFor :: TLSSettings -> IO Int
endpointsFor tls = case tlsEarlyData tls of
  NoEarlyData -> min loopsMax <$> getNumCapabilities
  SafeEarlyData -> return 1

-- Whether other processes may have the port, too.
isShared :: [(SocketOption, Int)] -> Bool
isShared = elem (ReusePort, 1)

-- Opens this many sockets, at least one, on one address. If no other process may have the address, this throws if one
-- has it.
openAll :: LocalAddress -> Int -> IO (NonEmpty Socket)
openAll bound@(LocalAddress address options) count = bracketOnError (openDatagrams bound) close $ \first -> do
  -- Only now may others of this process bind, and those that ask for the same.
  when (count > 1) (setSocketOption first ReusePort 1)
  (first :|) <$> go (count - 1)
  where
    next = LocalAddress address (if isShared options then options else (ReusePort, 1) : options)
    go left
      | left <= 0 = return []
      | otherwise = bracketOnError (openDatagrams next) close $ \opened -> (opened :) <$> go (left - 1)

openDatagrams :: LocalAddress -> IO Socket
openDatagrams (LocalAddress address options) =
  bracketOnError (socket family Datagram defaultProtocol) close $ \opened -> do
    forM_ options (uncurry (setSocketOption opened))
    -- As far as the system lets it.
    setReceiveBuffer opened bufferBytes
    setSendBuffer opened bufferBytes
    setEcnReport opened True
    when (localityOf address == AllAddresses) (setLocalReport opened True)
    -- An old kernel does not join.
    setJoining opened True `catch` \problem -> let _ = problem :: IOException in return ()
    bind opened address
    return opened
  where
    family = case address of
      SockAddrInet6 {} -> AF_INET6
      _ -> AF_INET
    bufferBytes = 2097152

-- | Settings of a server of HTTP\/1.1 and HTTP\/2 that runs beside: it ends together with HTTP\/3, and counts
-- connections together.
besideHTTP3 :: HTTP3 -> Settings -> Settings
besideHTTP3 http3 settings =
  settings
    { settingsServerState = settingsServerState (http3Settings http3),
      settingsInstallShutdownHandler = \stop -> settingsInstallShutdownHandler settings (stop >> stopHere)
    }
  where
    stopHere = forM_ (http3Sessions http3) (`stopSession` Gracefully (settingsGracefulShutdownSeconds settings))

-- | Tells clients of other versions that there is HTTP\/3 (Alt-Svc, RFC 7838), in responses that do not have this field
-- already.
announcingHTTP3 :: HTTP3 -> Middleware
announcingHTTP3 http3 application request respond = application request $ \response -> do
  running <- readIORef (http3Running http3)
  respond $
    if running == 0 || any ((== hAltSvc) . fst) (responseHeaders response)
      then response
      else mapResponseHeaders ((hAltSvc, http3Announcement http3) :) response

hAltSvc :: HeaderName
hAltSvc = "Alt-Svc"

-- | Reads the certificates again. The next handshakes use them. If they cannot be used, the old ones stay, and this
-- throws what 'withHTTP3' throws. Files are also watched, as 'Network.Wai.Handler.MillraceTLS.tlsWatchInterval' says.
reloadHTTP3 :: HTTP3 -> IO ()
reloadHTTP3 http3 =
  -- Within the lock, or what was read before 'replaceHTTP3' could be used after it.
  withMVar (http3Chosen http3) $ \(Chosen tls _) -> credentialsOf tls >>= useCredentials http3

-- | Reads the certificates of other settings, and returns an action that has the next handshakes use them, and has
-- their files watched instead. The action cannot fail, so that several servers can change together:
--
-- > commit <- replaceHTTP3 http3 choices
-- > replaceTLS tls choices
-- > commit
--
-- All other settings stay as they were. Throws what 'withHTTP3' throws, and then nothing has changed.
replaceHTTP3 :: HTTP3 -> TLSSettings -> IO (IO ())
replaceHTTP3 http3 tls = do
  credentials <- credentialsOf tls
  return . modifyMVarMasked_ (http3Chosen http3) $ \(Chosen _ watcher) -> do
    useCredentials http3 credentials
    next <- watching http3 tls
    next <$ forkIO (mapM_ killThread watcher) -- The watcher may be waiting for this, to read the files again.

useCredentials :: HTTP3 -> Credentials -> IO ()
useCredentials http3 credentials = forM_ (http3Sessions http3) (`replaceCredentials` credentials)

-- Watches the files of these settings, if there are any. The other server watches the same files, and tells of success.
-- Must be called with asynchronous exceptions masked.
watching :: HTTP3 -> TLSSettings -> IO Chosen
watching http3 tls
  | tlsWatchInterval tls /= unlimited && not (null (watchedFiles tls)) =
    Chosen tls . Just <$> forkIOWithUnmask (\unmask -> unmask watch)
  | otherwise = return (Chosen tls Nothing)
  where
    watch =
      watchFiles
        (tlsWatchInterval tls)
        (watchedFiles tls)
        (try (reloadHTTP3 http3) >>= either (tlsOnReload tls . NotReloaded) return)

-- | The libraries that speak HTTP\/3, with their versions: @ngtcp2 1.11.0, nghttp3 1.8.0, GnuTLS 3.8.9@.
librariesOfHTTP3 :: IO String
librariesOfHTTP3 = libraries

------------------------------------------------------------------------------------------------------------------------
-- How large the datagrams to clients may be: what the machine's interfaces send in one packet

-- What every network of Ethernet carries, in bytes: the default of the engine.
ordinaryDatagram :: Int
ordinaryDatagram = 1452

-- The largest datagram that is worth a try with clients of a server at this address, in bytes. Whether a path carries
-- it, and whether the client takes it, each connection finds out. More than 1,452 bytes only if an interface has larger
-- packets: those of loopback are for a server that only this machine reaches.
largestDatagram :: SockAddr -> IO Int
largestDatagram address = do
  found <- try (list interfaces >>= mapM sizeOf . filter counts . map entryName)
  return
    ( either
        none
        (\sizes -> maximum (ordinaryDatagram : map (min most . subtract heads) (mapMaybe readMaybe sizes)))
        found
    )
  where
    none :: IOException -> Int
    none _ = ordinaryDatagram
    interfaces = "/sys/class/net"
    sizeOf name = readFile (interfaces ++ "/" ++ name ++ "/mtu")
    counts name = (name == "lo") == isLoopback
    isLoopback = case address of
      SockAddrInet _ host -> (\(first, _, _, _) -> first == 127) (hostAddressToTuple host)
      SockAddrInet6 _ _ host _ -> host == (0, 0, 0, 1)
      _ -> False
    -- Of IPv6 and UDP.
    heads = 48
    -- Larger ones were hardly cheaper.
    most = 16332
