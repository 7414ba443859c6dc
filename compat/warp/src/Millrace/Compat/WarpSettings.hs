{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE ViewPatterns #-}

-- Must not know: connections.

-- | Millrace's settings with the fields of Warp's, for programs that read or update fields instead of calling setters.
module Millrace.Compat.WarpSettings
  ( Settings,
    pattern Settings,
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
    settingsOfMillrace,
    defaultSettings,
    ProxyProtocol (..),
  )
where

import Control.Exception (SomeException)
import Data.ByteString (ByteString)
import Data.Maybe (fromMaybe)
import Millrace.Http.Server.Settings (HostPreference, Port, Protocols (..), ProxyProtocol (..), Settings)
import qualified Millrace.Http.Server.Settings as Millrace
import Millrace.Http.Server.State (openConnectionCounter)
import Network.HTTP.Types (Status)
import Network.Socket (SockAddr, Socket)
import qualified Network.Socket as Network
import Network.Wai (Request, Response)
import Network.Wai.Handler.Millrace (Counter, ServerState, setAllowBareLineFeed, setAllowMissingHost)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem.StableName (eqStableName, makeStableName)
import System.TimeManager (Manager)

-- | Millrace's default settings, which are Warp's, and two lenient ones: requests of HTTP\/1.1 without a Host field and
-- lines that end with a line feed alone are accepted, because tests of applications send them.
defaultSettings :: Settings
defaultSettings = setAllowMissingHost True (setAllowBareLineFeed True Millrace.defaultSettings)

-- | The fields of Warp's record. The last one has what Millrace's settings say beyond them, so that an update keeps it.
-- 'settingsManager', 'settingsServerPushLogger' and 'settingsConnectionCounter' can be set without effect.
pattern Settings ::
  Port ->
  HostPreference ->
  (Maybe Request -> SomeException -> IO ()) ->
  (SomeException -> Response) ->
  (SockAddr -> IO Bool) ->
  (SockAddr -> IO ()) ->
  Int ->
  Maybe Manager ->
  Int ->
  Int ->
  IO () ->
  (((forall a. IO a -> IO a) -> IO ()) -> IO ()) ->
  (Socket -> IO (Socket, SockAddr)) ->
  Bool ->
  (IO () -> IO ()) ->
  ByteString ->
  Maybe Int ->
  ProxyProtocol ->
  Int ->
  Bool ->
  (Request -> Status -> Maybe Integer -> IO ()) ->
  (Request -> ByteString -> Integer -> IO ()) ->
  Maybe Int ->
  Int ->
  Int ->
  Int ->
  Maybe ByteString ->
  Int ->
  Maybe Counter ->
  Maybe ServerState ->
  Settings ->
  Settings
pattern Settings
  { settingsPort,
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
  } <-
  ( fields ->
      Fields
        { port = settingsPort,
          host = settingsHost,
          onException = settingsOnException,
          onExceptionResponse = settingsOnExceptionResponse,
          onOpen = settingsOnOpen,
          onClose = settingsOnClose,
          timeout = settingsTimeout,
          manager = settingsManager,
          fdCacheDuration = settingsFdCacheDuration,
          fileInfoCacheDuration = settingsFileInfoCacheDuration,
          beforeMainLoop = settingsBeforeMainLoop,
          fork = settingsFork,
          accept = settingsAccept,
          noParsePath = settingsNoParsePath,
          installShutdownHandler = settingsInstallShutdownHandler,
          serverName = settingsServerName,
          maximumBodyFlush = settingsMaximumBodyFlush,
          proxyProtocol = settingsProxyProtocol,
          slowlorisSize = settingsSlowlorisSize,
          http2Enabled = settingsHTTP2Enabled,
          logger = settingsLogger,
          serverPushLogger = settingsServerPushLogger,
          gracefulShutdownTimeout = settingsGracefulShutdownTimeout,
          gracefulCloseTimeout1 = settingsGracefulCloseTimeout1,
          gracefulCloseTimeout2 = settingsGracefulCloseTimeout2,
          maxTotalHeaderLength = settingsMaxTotalHeaderLength,
          altSvc = settingsAltSvc,
          maxBuilderResponseBufferSize = settingsMaxBuilderResponseBufferSize,
          connectionCounter = settingsConnectionCounter,
          serverState = settingsServerState,
          ofMillrace = settingsOfMillrace
        }
    )
  where
    Settings a b c d e f g h i j k l m n o p q r s t u v w x y z a1 b1 c1 d1 e1 =
      settingsFrom (Fields a b c d e f g h i j k l m n o p q r s t u v w x y z a1 b1 c1 d1 e1)

{-# COMPLETE Settings #-}

-- A record pattern binds the fields of a value, so the value that it looks at has them.
data Fields = Fields
  { port :: Port,
    host :: HostPreference,
    onException :: Maybe Request -> SomeException -> IO (),
    onExceptionResponse :: SomeException -> Response,
    onOpen :: SockAddr -> IO Bool,
    onClose :: SockAddr -> IO (),
    timeout :: Int,
    manager :: Maybe Manager,
    fdCacheDuration :: Int,
    fileInfoCacheDuration :: Int,
    beforeMainLoop :: IO (),
    fork :: ((forall a. IO a -> IO a) -> IO ()) -> IO (),
    accept :: Socket -> IO (Socket, SockAddr),
    noParsePath :: Bool,
    installShutdownHandler :: IO () -> IO (),
    serverName :: ByteString,
    maximumBodyFlush :: Maybe Int,
    proxyProtocol :: ProxyProtocol,
    slowlorisSize :: Int,
    http2Enabled :: Bool,
    logger :: Request -> Status -> Maybe Integer -> IO (),
    serverPushLogger :: Request -> ByteString -> Integer -> IO (),
    gracefulShutdownTimeout :: Maybe Int,
    gracefulCloseTimeout1 :: Int,
    gracefulCloseTimeout2 :: Int,
    maxTotalHeaderLength :: Int,
    altSvc :: Maybe ByteString,
    maxBuilderResponseBufferSize :: Int,
    connectionCounter :: Maybe Counter,
    serverState :: Maybe ServerState,
    ofMillrace :: Settings
  }

fields :: Settings -> Fields
fields settings =
  Fields
    { port = Millrace.settingsPort settings,
      host = Millrace.settingsHost settings,
      onException = Millrace.settingsOnException settings,
      onExceptionResponse = Millrace.settingsOnExceptionResponse settings,
      onOpen = Millrace.settingsOnOpen settings,
      onClose = Millrace.settingsOnClose settings,
      timeout = Millrace.settingsTimeoutSeconds settings,
      manager = Nothing,
      fdCacheDuration = Millrace.settingsFdCacheSeconds settings,
      fileInfoCacheDuration = Millrace.settingsFileInfoCacheSeconds settings,
      beforeMainLoop = Millrace.settingsBeforeMainLoop settings,
      fork = Millrace.settingsFork settings,
      accept = fromMaybe usualAccept (Millrace.settingsAccept settings),
      noParsePath = Millrace.settingsNoParsePath settings,
      installShutdownHandler = Millrace.settingsInstallShutdownHandler settings,
      serverName = Millrace.settingsServerName settings,
      maximumBodyFlush = Millrace.settingsMaximumBodyFlush settings,
      proxyProtocol = Millrace.settingsProxyProtocol settings,
      slowlorisSize = Millrace.settingsSlowlorisSize settings,
      http2Enabled = hasHttp2 settings,
      logger = fromMaybe noLogger (Millrace.settingsLogger settings),
      serverPushLogger = \_ _ _ -> return (),
      gracefulShutdownTimeout = Millrace.settingsGracefulShutdownSeconds settings,
      gracefulCloseTimeout1 = Millrace.settingsGracefulClose1Millis settings,
      gracefulCloseTimeout2 = Millrace.settingsGracefulClose2Millis settings,
      maxTotalHeaderLength = Millrace.settingsMaxTotalHeaderLength settings,
      altSvc = Millrace.settingsAltSvc settings,
      maxBuilderResponseBufferSize = Millrace.settingsMaxBuilderResponseBufferSize settings,
      connectionCounter = openConnectionCounter <$> Millrace.settingsServerState settings,
      serverState = Millrace.settingsServerState settings,
      ofMillrace = settings
    }

-- By the setters where they check what they get.
settingsFrom :: Fields -> Settings
settingsFrom given =
  Millrace.setFdCacheDuration (fdCacheDuration given)
    . Millrace.setFileInfoCacheDuration (fileInfoCacheDuration given)
    . Millrace.setMaximumBodyFlush (maximumBodyFlush given)
    . Millrace.setSlowlorisSize (slowlorisSize given)
    . Millrace.setGracefulCloseTimeout1 (gracefulCloseTimeout1 given)
    . Millrace.setGracefulCloseTimeout2 (gracefulCloseTimeout2 given)
    . Millrace.setMaxTotalHeaderLength (maxTotalHeaderLength given)
    $ (ofMillrace given)
      { Millrace.settingsPort = port given,
        Millrace.settingsHost = host given,
        Millrace.settingsOnException = onException given,
        Millrace.settingsOnExceptionResponse = onExceptionResponse given,
        Millrace.settingsOnOpen = onOpen given,
        Millrace.settingsOnClose = onClose given,
        Millrace.settingsTimeoutSeconds = timeout given,
        Millrace.settingsBeforeMainLoop = beforeMainLoop given,
        Millrace.settingsFork = fork given,
        Millrace.settingsAccept = unlessUsual usualAccept (accept given),
        Millrace.settingsNoParsePath = noParsePath given,
        Millrace.settingsInstallShutdownHandler = installShutdownHandler given,
        Millrace.settingsServerName = serverName given,
        Millrace.settingsProxyProtocol = proxyProtocol given,
        Millrace.settingsProtocols = protocols (http2Enabled given) (ofMillrace given),
        Millrace.settingsLogger = unlessUsual noLogger (logger given),
        Millrace.settingsGracefulShutdownSeconds = gracefulShutdownTimeout given,
        Millrace.settingsAltSvc = altSvc given,
        Millrace.settingsMaxBuilderResponseBufferSize = maxBuilderResponseBufferSize given,
        Millrace.settingsServerState = serverState given
      }

hasHttp2 :: Settings -> Bool
hasHttp2 settings = Millrace.settingsProtocols settings /= OnlyHttp1

protocols :: Bool -> Settings -> Protocols
protocols isWanted settings
  | isWanted == hasHttp2 settings = Millrace.settingsProtocols settings
  | isWanted = AllProtocols
  | otherwise = OnlyHttp1

usualAccept :: Socket -> IO (Socket, SockAddr)
usualAccept = Network.accept
{-# NOINLINE usualAccept #-}

noLogger :: Request -> Status -> Maybe Integer -> IO ()
noLogger _ _ _ = return ()
{-# NOINLINE noLogger #-}

-- Without one of these functions the server is faster than with one that does the usual thing. An update of another
-- field gives back the function that was read from the record: it is recognised and left out. If it were not
-- recognised, the server would do the same, slower.
unlessUsual :: a -> a -> Maybe a
unlessUsual usual given = unsafePerformIO $ do
  expected <- makeStableName $! usual
  actual <- makeStableName $! given
  return (if eqStableName expected actual then Nothing else Just given)
{-# NOINLINE unlessUsual #-}
