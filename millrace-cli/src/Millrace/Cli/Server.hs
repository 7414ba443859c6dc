-- | Runs a WAI application on the Millrace I/O manager until a signal stops it. Must not know: files.
module Millrace.Cli.Server
  ( serve,
    serveWith,
  )
where

import Control.Concurrent (forkIO, killThread, setNumCapabilities)
import Control.Concurrent.MVar (MVar, isEmptyMVar, newEmptyMVar, readMVar, tryPutMVar)
import Control.Exception (bracket, finally, fromException, throwIO)
import Control.Monad (forM_, join, unless, void, when)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.List (nub, stripPrefix)
import Data.Maybe (fromMaybe, listToMaybe)
import Foreign.C (Errno (..), eMFILE)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.AccessLog (endAccessLog, logAnswer, withAccessLog)
import Millrace.Cli.Address (addressUrl)
import Millrace.Cli.Backend (startManager)
import Millrace.Cli.Command (ServerOptions (..), TlsOptions (..))
import Millrace.Cli.Failure (Failure (..), newSeldomTeller, reasonOf, sayIfTaken, tell)
import Millrace.Cli.Listener
import Millrace.Cli.Metrics
import Millrace.Cli.Processors (usualCores)
import Millrace.Cli.Redirect (redirecting)
import Millrace.Cli.ServiceManager
import Millrace.Cli.System (ignoreFileSizeLimit, ignoreRotation, onTermination, raiseDescriptorLimit)
import Millrace.Cli.Tls (Tls (..), withTls)
import Millrace.Manager
import Millrace.Socket (PortNumber, getSocketName, socketPortSafe)
import Network.Wai (Application, rawPathInfo)
import Network.Wai.Handler.Millrace

-- | Serves until SIGINT, SIGQUIT, SIGTERM or SIGHUP arrives. Then it finishes the open requests, within nine seconds. A second
-- signal ends the process at once, after the last lines of the access log are written. Prints on standard output where it
-- listens, and which backend it uses, and tells the service manager when it is ready.
--
-- Blocks. Throws 'Millrace.Cli.Failure.Failure'. Must be called once, before anything has used the I/O manager, because it sets
-- the number of capabilities and the backend.
--
-- @since 0.1.0
serve :: ServerOptions -> Application -> IO ()
serve options application = serveWith options ($ application)

-- | The same with an application that is there only while an action runs. It is made when the I/O manager runs, and before anything
-- listens.
--
-- @since 0.1.0
serveWith :: ServerOptions -> ((Application -> IO ()) -> IO ()) -> IO ()
serveWith options withApplication' = do
  stop <- newStop
  stopOnSignals stop
  ignoreRotation -- The log is opened again for each write.
  ignoreFileSizeLimit -- A log that cannot be written must not end the server.
  raiseDescriptorLimit
  setNumCapabilities =<< maybe usualCores pure (serverCores options)
  backend <- startManager (serverBackend options)
  reporting <- newReporting
  serviceManager <- findServiceManager
  withApplication' $ \application -> withInherited $ \inherited -> do
    let sharing = setReusePort (serverReusePort options || not (null inherited))
    listening options inherited $ \listeners -> do
      urls <- map (maybe id (const withTlsScheme) (serverTls options)) <$> mapM urlOf listeners
      mapM_ (refuseSamePort listeners) (serverStatusPort options)
      loops <- loopCount
      observing options stop $ \metrics telling -> withStatusServer (reporting . sharing) (serverStatusPort options) metrics $ \status ->
        protected options metrics $ \protection -> withRedirect (reporting . sharing) options listeners application $ \redirect -> do
          let ready = announce urls backend loops status redirect >> notifyReady serviceManager urls
              stopping = notifyStopping serviceManager
          withWatchdog serviceManager $
            runSettingsListeners (protection (telling (reporting (settings options stop ready stopping)))) listeners (maybe id countActive metrics application)
  awaitTold stop

-- If the process has inherited sockets, they replace --host and --port.
listening :: ServerOptions -> [Listener] -> ([Listener] -> IO a) -> IO a
listening options inherited use
  | null inherited =
    withListeners "--port" (setReusePort (serverReusePort options) defaultSettings) (serverHost options) (serverPort options) use
  | otherwise = use inherited

urlOf :: Listener -> IO String
urlOf = fmap addressUrl . getSocketName . listenerSocket

-- A port that can be shared can be shared with the status server too, by mistake.
refuseSamePort :: [Listener] -> PortNumber -> IO ()
refuseSamePort listeners port = do
  taken <- mapM (socketPortSafe . listenerSocket) listeners
  when (Just port `elem` taken) . throwIO $
    Failure
      { failureAttempt = "serve the status on port " <> show port,
        failureReason = "the server itself listens there",
        failureRemedy = "Choose another port with --status (0 takes any free one)."
      }

-- Observers cost something, so there are only those that the options ask for.
observing :: ServerOptions -> Stop -> (Maybe Metrics -> (Settings -> Settings) -> IO a) -> IO a
observing options stop use = do
  metrics <- traverse (const newMetrics) (serverStatusPort options)
  let telling observers = maybe id countConnections metrics . tellAll (maybe id ((:) . countAnswer) metrics observers)
  case serverAccessLog options of
    Nothing -> use metrics (telling [])
    Just path -> withAccessLog (serverLogFormat options) path $ \accessLog -> do
      writeIORef (stopLastWords stop) (endAccessLog accessLog)
      use metrics (telling [logAnswer accessLog])

-- The action gets what makes the server's connections protected ones.
protected :: ServerOptions -> Maybe Metrics -> ((Settings -> Settings) -> IO a) -> IO a
protected options metrics use = case serverTls options of
  Nothing -> use id
  Just tls -> withTls tls (countHandshake <$> metrics) (use . protecting)

-- A server without TLS that sends clients to the one with TLS. The action gets its URL.
withRedirect :: (Settings -> Settings) -> ServerOptions -> [Listener] -> Application -> (Maybe String -> IO a) -> IO a
withRedirect adapted options secure application use = case serverTls options >>= tlsRedirectPort of
  Nothing -> use Nothing
  Just port -> withListeners "--tls-redirect" (adapted defaultSettings) (serverHost options) port $ \listeners -> do
    urls <- mapM urlOf (take 1 listeners)
    target <- fromMaybe 443 . join . listToMaybe <$> mapM (socketPortSafe . listenerSocket) secure
    bracket (forkIO (runSettingsListeners (adapted defaultSettings) listeners (redirecting target application))) killThread $ \_ -> use (listToMaybe urls)

withTlsScheme :: String -> String
withTlsScheme url = maybe url ("https://" <>) (stripPrefix "http://" url)

onOpening :: IO () -> Settings -> Settings
onOpening action before = setOnOpen (\peer -> action >> getOnOpen before peer) before

tellAll :: [Answer -> IO ()] -> Settings -> Settings
tellAll [] = id
tellAll observers = setOnAnswer (forM_ observers . flip id)

countConnections :: Metrics -> Settings -> Settings
countConnections metrics = onOpening (countOpened metrics) . setOnClose (const (countClosed metrics))

-- Serves the status pages beside the server, on the loopback interface. The action gets their URL. The port is shared like that
-- of the server itself: during a restart the next server needs it while this one still has it.
withStatusServer :: (Settings -> Settings) -> Maybe PortNumber -> Maybe Metrics -> (Maybe String -> IO a) -> IO a
withStatusServer adapted (Just port) (Just metrics) use =
  withListeners "--status" (adapted defaultSettings) "127.0.0.1" port $ \listeners -> do
    urls <- mapM urlOf (take 1 listeners)
    bracket (forkIO (runSettingsListeners (adapted defaultSettings) listeners (statusPages metrics))) killThread $ \_ -> use (listToMaybe urls)
withStatusServer _ _ _ use = use Nothing

settings :: ServerOptions -> Stop -> IO () -> IO () -> Settings
settings options stop ready stopping =
  setBeforeMainLoop ready
    . setInstallShutdownHandler (\end -> void (forkIO (readMVar (stopAsked stop) >> stopping >> end)))
    . setGracefulShutdownTimeout (Just drainSeconds)
    . (if serverProxyProtocol options then setProxyProtocolRequired else id)
    $ defaultSettings

-- Exceptions of the server go where its other messages go, not too many of them: a failing disk raises one for every request.
newReporting :: IO (Settings -> Settings)
newReporting = setOnException . report <$> newSeldomTeller
  where
    report telling request failure =
      when (defaultShouldDisplayException failure) $ case request of
        Just found -> telling ("millrace: " <> Char8.unpack (rawPathInfo found) <> ": " <> described failure)
        Nothing | maybe False isOutOfDescriptors (fromException failure) -> telling "millrace: clients wait: too many open files (ulimit -n)"
        Nothing -> tell ("millrace: " <> described failure)
    isOutOfDescriptors failure = maybe False ((== eMFILE) . Errno) (ioe_errno failure)
    -- The path by which the file was opened names a descriptor, and would tell the user nothing.
    described failure
      | Just (FileTruncated _) <- fromException failure = "the file became shorter while it was sent"
      | otherwise = reasonOf failure

-- Longer than a usual request takes. Together with the rest of the shutdown it must be shorter than service managers wait before
-- they kill: Docker waits ten seconds.
drainSeconds :: Int
drainSeconds = 9

-- The channel from the signal handlers to the server.
data Stop = Stop
  { stopAsked :: MVar (),
    stopTold :: MVar (),
    -- | Runs before a second signal ends the process.
    stopLastWords :: IORef (IO ())
  }

newStop :: IO Stop
newStop = Stop <$> newEmptyMVar <*> newEmptyMVar <*> newIORef (pure ())

-- The handlers are installed before the socket is opened, so that no signal is lost. A signal counts even if the message cannot
-- be written, for example because Ctrl-C has ended the reader of the pipe as well.
stopOnSignals :: Stop -> IO ()
stopOnSignals stop = onTermination asked (join (readIORef (stopLastWords stop)))
  where
    asked = do
      void (tryPutMVar (stopAsked stop) ())
      tell "stopping when the open requests are done; a second signal stops at once" `finally` tryPutMVar (stopTold stop) ()

-- Waits until the message about stopping is written. The program's end would cut it off.
awaitTold :: Stop -> IO ()
awaitTold stop = isEmptyMVar (stopAsked stop) >>= \running -> unless running (readMVar (stopTold stop))

-- If the announcement cannot be written, the server runs nevertheless.
announce :: [String] -> Backend -> Int -> Maybe String -> Maybe String -> IO ()
announce urls backend loops status redirect = sayIfTaken (unlines (places ++ [with] ++ foldMap place status ++ foldMap leading redirect))
  where
    -- A shared port has a socket for each loop.
    places = map ("listening on " <>) (nub urls)
    with = "backend " <> backendName backend <> ", " <> show loops <> (if loops == 1 then " loop" else " loops")
    leading url = ["redirecting from " <> url]
    place statusUrl = ["status on " <> statusUrl <> "/status and " <> statusUrl <> "/metrics"]
