-- Must not know: files.

-- | Runs a WAI application on the Millrace I/O manager until a signal stops it.
module Millrace.Cli.Serve.Server
  ( serve,
    serveWith,
    Running (..),
  )
where

import Control.Concurrent (forkIO, killThread, setNumCapabilities)
import Control.Concurrent.MVar (MVar, isEmptyMVar, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar)
import Control.Exception (SomeException, bracket, finally, fromException, throwIO, try)
import Control.Monad (forM_, join, unless, void, when, zipWithM)
import Data.Foldable (find, toList)
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.List (nub, stripPrefix)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (fromMaybe, listToMaybe)
import Foreign.C (Errno (..), eNOMEM)
import GHC.IO.Exception (IOErrorType (ResourceExhausted), IOException (..))
import Millrace.Cli.Base.Address (addressUrl)
import Millrace.Cli.Base.Backend (startManager)
import Millrace.Cli.Base.Failure (Failure (..), newSeldomTeller, reasonOf, sayIfTaken, tell)
import Millrace.Cli.Base.RequestName (requestName)
import Millrace.Cli.Base.System (Hangup (..), ignoreFileSizeLimit, ignoreRotation, onTermination, raiseDescriptorLimit)
import Millrace.Cli.Config.Limit
import Millrace.Cli.Config.Options (ListenOptions (..), ProxyHeader (..), ServerOptions (..), Speaking (..), TlsOptions)
import Millrace.Cli.Middleware.Redirect (redirecting)
import Millrace.Cli.Observe.AccessLog (withAccessLogAt)
import Millrace.Cli.Observe.Metrics
import Millrace.Cli.Observe.Status (statusPages)
import Millrace.Cli.Observe.Upstream (Upstream)
import Millrace.Cli.Serve.Http3Sidecar (Origin (..), Service (..), withHttp3Sidecars)
import Millrace.Cli.Serve.Listener
import Millrace.Cli.Serve.Processors (usualCores)
import Millrace.Cli.Serve.ReverseProxy (failureResponse, isOfLeavingClient)
import Millrace.Cli.Serve.ServiceManager
import Millrace.Cli.Serve.Tls (Tls (..), withTls)
import Millrace.Manager
import Millrace.Socket (PortNumber, getSocketName, socketPortSafe)
import Network.Wai (Application, Middleware)
import Network.Wai.Handler.Millrace

-- | Serves until SIGINT, SIGQUIT, SIGTERM or SIGHUP arrives. Then it finishes the open requests, within
-- 'serverDrainSeconds'. A second signal ends the process at once, after the last lines of the access log are written.
-- Prints on standard output where it listens, and which backend it uses, and tells the service manager when it is
-- ready.
--
-- Blocks. Throws 'Millrace.Cli.Failure.Failure'. Must be called once, before anything has used the I/O manager, because
-- it sets the number of capabilities and the backend.
serve :: ServerOptions -> Application -> IO ()
serve options application = serveWith options HangupEnds (pure []) (\_ use -> use application id)

-- | Serves as 'serve' does, with an application that exists only while an action runs. The application is made when the
-- I/O manager runs, and before anything listens. It comes with a function that is called around serving: by then the
-- server listens, and nothing else can fail. SIGHUP need not end the server. The first action returns the targets of
-- proxies, for the status page.
serveWith ::
  ServerOptions -> Hangup -> IO [Upstream] -> (Running -> (Application -> (IO () -> IO ()) -> IO ()) -> IO ()) -> IO ()
serveWith options hangup upstreams withApplication' = do
  stop <- newStop
  stopOnSignals hangup stop
  ignoreRotation -- The log is opened again for each write.
  ignoreFileSizeLimit -- A log that cannot be written must not end the server.
  raiseDescriptorLimit
  setNumCapabilities =<< maybe usualCores pure (serverCores options)
  backend <- startManager (serverBackend options)
  reporting <- newReporting
  serviceManager <- findServiceManager
  tls <- newEmptyMVar
  -- Everything that can fail comes before listening. Otherwise clients that come to a port shared with another server
  -- would be lost.
  withApplication' (Running (\chosen -> readMVar tls >>= (`replacing` chosen))) $ \application whileServing ->
    withInherited $ \inherited ->
      observing options stop $ \metrics telling -> protected options metrics (putMVar tls) $ \protection -> do
        let sharing = setReusePort (serverReusePort options || not (null inherited))
        withEndpoints options inherited $ \endpoints -> do
          urls <- mapM urlsOf endpoints
          mapM_ (refuseSamePort endpoints) (serverStatusPort options)
          loops <- loopCount
          securePort <- portOfHttps endpoints
          withStatusServer (reporting . sharing) (serverStatusPort options) (flip statusPages upstreams <$> metrics) $
            \status -> do
              let notices =
                    Notices
                      { whenReady =
                          announce (concat urls) backend loops status
                            >> notifyReady serviceManager (map snd (concat urls)),
                        whenStopping = notifyStopping serviceManager
                      }
                  service endpoint said = do
                    (state, chosen) <- makeServerState (adapted endpoint said)
                    mapM_ (`addServer` state) metrics
                    pure
                      ( Service
                          (endpointOptions endpoint)
                          (endpointOrigin endpoint)
                          (endpointListeners endpoint)
                          chosen
                          (maybe id countActive metrics (applicationAt securePort endpoint application))
                      )
                  adapted endpoint said =
                    protectionAt
                      endpoint
                      (maybe id protecting protection)
                      (telling (reporting (sharing (settings options (endpointOptions endpoint) stop said))))
              services <- zipWithM service endpoints (notices : repeat (Notices (pure ()) (pure ())))
              withHttp3Sidecars options protection services $
                whileServing
                  . withWatchdog serviceManager
                  . runTogether
                  . map
                    ( \found ->
                        runSettingsListeners (serviceSettings found) (serviceListeners found) (serviceApplication found)
                    )
  awaitMessage stop

-- | Changes of a server that runs.
newtype Running = Running
  { -- | Makes new connections use these certificates. Waits until the server has read its first ones. Throws
    -- 'Millrace.Cli.Failure.Failure', and then nothing has changed. There must be https.
    useCertificates :: TlsOptions -> IO ()
  }

-- | Listening sockets with the same options.
data Endpoint = Endpoint
  { endpointOptions :: ListenOptions,
    endpointOrigin :: Origin,
    endpointListeners :: [Listener]
  }

-- The sockets to listen on. Inherited ones replace those that the options ask for: each gets the options for its port,
-- and otherwise those of the first address. Then only sockets that send clients to https are opened, if they were not
-- inherited.
withEndpoints :: ServerOptions -> [Listener] -> ([Endpoint] -> IO a) -> IO a
withEndpoints options inherited use
  | null inherited = opened (toList asked) []
  | otherwise = do
    ports <- mapM (socketPortSafe . listenerSocket) inherited
    let wayOf port = fromMaybe (NonEmpty.head asked) (find ((== port) . Just . listenPort) asked)
        found = zip (map wayOf ports) inherited
        endpoints =
          [ Endpoint wanted Inherited listeners
            | wanted <-
                toList asked,
              let listeners = [listener | (way, listener) <- found, way == wanted],
              not (null listeners)
          ]
    opened
      ( NonEmpty.filter
          (\wanted -> listenSpeaking wanted == RedirectToHttps && wanted `notElem` map endpointOptions endpoints)
          asked
      )
      (reverse endpoints)
  where
    asked = serverListens options
    opened [] found = use (reverse found)
    opened (wanted : others) found =
      withListeners
        (listenSaidBy wanted)
        (setReusePort (serverReusePort options) defaultSettings)
        (listenHost wanted)
        (listenPort wanted)
        $ \listeners ->
          opened others (Endpoint wanted OpenedHere listeners : found)

-- The protocol and the URLs of an endpoint, for messages.
urlsOf :: Endpoint -> IO [(Speaking, String)]
urlsOf endpoint = map ((,) speaking . inScheme) <$> mapM urlOf (endpointListeners endpoint)
  where
    speaking = listenSpeaking (endpointOptions endpoint)
    inScheme = if speaking == Https then withTlsScheme else id

urlOf :: Listener -> IO String
urlOf = fmap addressUrl . getSocketName . listenerSocket

applicationAt :: PortNumber -> Endpoint -> Middleware
applicationAt securePort endpoint =
  if listenSpeaking (endpointOptions endpoint) == RedirectToHttps then redirecting securePort else id

-- The port that clients are sent to.
portOfHttps :: [Endpoint] -> IO PortNumber
portOfHttps endpoints = fromMaybe 443 . join . listToMaybe <$> mapM (socketPortSafe . listenerSocket) secure
  where
    secure = concatMap endpointListeners (filter ((== Https) . listenSpeaking . endpointOptions) endpoints)

protectionAt :: Endpoint -> (Settings -> Settings) -> Settings -> Settings
protectionAt endpoint protection = if listenSpeaking (endpointOptions endpoint) == Https then protection else id

-- Runs servers until all have ended. If one fails, the others end, too.
runTogether :: [IO ()] -> IO ()
runTogether [] = pure ()
runTogether (server : others) = bracket begin (killThread . fst) $ \(_, outcome) ->
  runTogether others >> takeMVar outcome >>= either (throwIO :: SomeException -> IO ()) pure
  where
    begin = do
      outcome <- newEmptyMVar
      thread <- forkIO (try server >>= putMVar outcome)
      pure (thread, outcome)

-- Refuses a status port on which the server listens. The system would allow that for a shared port.
refuseSamePort :: [Endpoint] -> PortNumber -> IO ()
refuseSamePort endpoints port = do
  taken <- mapM (socketPortSafe . listenerSocket) (concatMap endpointListeners endpoints)
  when (Just port `elem` taken) . throwIO $
    Failure
      { failureAttempt = "serve the status on port " <> show port,
        failureReason = "the server itself listens there",
        failureRemedy = "Choose another port with --status (0 takes any free one)."
      }

-- Makes the observers that the options ask for, and no others, because each costs time.
observing :: ServerOptions -> Stop -> (Maybe Metrics -> (Settings -> Settings) -> IO a) -> IO a
observing options stop use = do
  metrics <- traverse (const newMetrics) (serverStatusPort options)
  let telling observers = maybe id countConnections metrics . tellAll (maybe id ((:) . countAnswer) metrics observers)
  case serverAccessLog options of
    Nothing -> use metrics (telling [])
    Just path -> withAccessLogAt (serverLogFormat options) path $ \endAccessLog logAnswer -> do
      writeIORef (stopLastWords stop) endAccessLog
      use metrics (telling [logAnswer])

-- Reads the certificates, if there is https. The action gets what makes connections use TLS.
protected :: ServerOptions -> Maybe Metrics -> (Tls -> IO ()) -> (Maybe Tls -> IO a) -> IO a
protected options metrics found use = case serverTls options of
  Nothing -> use Nothing
  Just chosen -> withTls chosen (countHandshake <$> metrics) (\tls -> found tls >> use (Just tls))

withTlsScheme :: String -> String
withTlsScheme url = maybe url ("https://" <>) (stripPrefix "http://" url)

onOpening :: IO () -> Settings -> Settings
onOpening action before = setOnOpen (\peer -> action >> getOnOpen before peer) before

tellAll :: [Answer -> IO ()] -> Settings -> Settings
tellAll [] = id
tellAll observers = setOnAnswer (forM_ observers . flip id)

countConnections :: Metrics -> Settings -> Settings
countConnections metrics =
  onOpening (countOpened metrics)
    . setOnClose (const (countClosed metrics))
    . setOnLimit (\limit _ -> countLimit metrics limit)

-- Serves the status pages beside the server, on the loopback interface. The action gets their URL. The port is shared
-- like that of the server itself: during a restart the next server needs it while this one still has it.
withStatusServer :: (Settings -> Settings) -> Maybe PortNumber -> Maybe Application -> (Maybe String -> IO a) -> IO a
withStatusServer adapted (Just port) (Just pages) use =
  withListeners "--status" (adapted defaultSettings) "127.0.0.1" port $ \listeners -> do
    urls <- mapM urlOf (take 1 listeners)
    bracket (forkIO (runSettingsListeners (adapted defaultSettings) listeners pages)) killThread $ \_ ->
      use (listToMaybe urls)
withStatusServer _ _ _ use = use Nothing

-- The events that a server reports about itself.
data Notices = Notices
  { whenReady :: IO (),
    whenStopping :: IO ()
  }

settings :: ServerOptions -> ListenOptions -> Stop -> Notices -> Settings
settings options endpoint stop notices =
  setBeforeMainLoop (whenReady notices)
    . setInstallShutdownHandler (\end -> void (forkIO (readMVar (stopAsked stop) >> whenStopping notices >> end)))
    . setGracefulShutdownTimeout (Just (serverDrainSeconds options))
    . (if listenProxyHeader endpoint == ProxyHeaderRequired then setProxyProtocolRequired else id)
    . setOnExceptionResponse failureResponse
    . limiting (serverLimits options)
    $ defaultSettings

limiting :: LimitOptions -> Settings -> Settings
limiting options =
  foldr
    (.)
    id
    [ limit (setMaximumConnections . Just) LimitConnections,
      limit (setReservedDescriptors . Just) LimitReservedDescriptors,
      limit setMaxTotalHeaderLength LimitHeadBytes,
      limit setMaximumTargetLength LimitUrlBytes,
      -- People type such targets, and some programs send them.
      setAllowNonAsciiTarget True,
      limit setMaximumHeaderCount LimitFields,
      limit (setMaximumBodySize . Just) LimitBodyBytes,
      limit (setHeaderTimeout . seconds) LimitHeadSeconds,
      limit (setBodyTimeout . seconds) LimitBodySeconds,
      limit (setSendTimeout . seconds) LimitSendSeconds,
      limit (setIdleTimeout . seconds) LimitIdleSeconds,
      limit (setTotalTimeout . seconds) LimitTotalSeconds,
      maybe id (`setMinimumRate` seconds (10 `or'` LimitRateSeconds)) (limitOf options LimitBytesPerSecond),
      limit setHTTP2MaximumStreams LimitStreams,
      limit setHTTP2CompressionTable LimitCompressionTable,
      resets,
      frames,
      windows
    ]
  where
    limit set name = maybe id set (limitOf options name)
    or' known name = fromMaybe known (limitOf options name)
    resets usual =
      let (burst, rate) = getHTTP2MaximumResets usual
       in setHTTP2MaximumResets
            (burst `or'` LimitResets)
            (rate `or'` LimitResetsPerSecond)
            usual
    frames usual =
      let (burst, rate) = getHTTP2MaximumFrames usual
       in setHTTP2MaximumFrames
            (burst `or'` LimitUselessFrames)
            (rate `or'` LimitUselessFramesPerSecond)
            usual
    windows usual =
      let (stream, connection, largest) = getHTTP2Windows usual
       in setHTTP2Windows
            (stream `or'` LimitStreamWindow)
            (connection `or'` LimitConnectionWindow)
            (largest `or'` LimitLargestWindow)
            usual

-- Reports exceptions of the server on standard error, not more than one in a second: a failing disk raises one for
-- every request.
newReporting :: IO (Settings -> Settings)
newReporting = (\telling -> setOnException (report telling) . setOnCrowding (tell . crowded)) <$> newSeldomTeller
  where
    crowded news =
      "millrace: " <> case news of
        ClientsWait (MaximumConnections most) ->
          "clients wait: "
            <> show most
            <> (if most == 1 then " connection is" else " connections are")
            <> " open, as many as 'connections' allows"
        ClientsWait OpenDescriptors -> "clients wait: too many open files (ulimit -n)"
        ClientsWaitNoMore (MaximumConnections _) -> "clients no longer wait for connections"
        ClientsWaitNoMore OpenDescriptors -> "clients no longer wait for open files"
    report telling request failure =
      when (defaultShouldDisplayException failure && not (isOfLeavingClient failure)) $ case request of
        Just found -> telling ("millrace: " <> requestName found <> ": " <> described failure)
        Nothing
          | maybe False isOutOfMemory (fromException failure) ->
            telling
              "millrace: connections end, because there is no memory for them; 'connections' in 'limits' bounds it"
          | otherwise -> tell ("millrace: " <> described failure)
    -- Of the system, or of C's allocator, which has no number.
    isOutOfMemory failure = maybe (ioe_type failure == ResourceExhausted) ((== eNOMEM) . Errno) (ioe_errno failure)
    -- The path by which the file was opened names a descriptor, which says nothing to the user.
    described failure
      | Just (FileTruncated _) <- fromException failure = "the file became shorter while it was sent"
      | otherwise = reasonOf failure

-- The variables by which the signal handlers stop the server.
data Stop = Stop
  { stopAsked :: MVar (),
    stopReported :: MVar (),
    -- | Runs before a second signal ends the process.
    stopLastWords :: IORef (IO ())
  }

newStop :: IO Stop
newStop = Stop <$> newEmptyMVar <*> newEmptyMVar <*> newIORef (pure ())

-- The handlers are installed before the socket is opened, so that no signal is lost. A signal counts even if the
-- message cannot be written, for example because Ctrl-C has ended the reader of the pipe as well.
stopOnSignals :: Hangup -> Stop -> IO ()
stopOnSignals hangup stop = onTermination hangup asked (join (readIORef (stopLastWords stop)))
  where
    asked = do
      void (tryPutMVar (stopAsked stop) ())
      tell "stopping when the open requests are done; a second signal stops at once"
        `finally` tryPutMVar (stopReported stop) ()

-- Waits until the message about stopping is written. The program's end would cut it off.
awaitMessage :: Stop -> IO ()
awaitMessage stop = isEmptyMVar (stopAsked stop) >>= \running -> unless running (readMVar (stopReported stop))

-- If the announcement cannot be written, the server runs nevertheless.
announce :: [(Speaking, String)] -> Backend -> Int -> Maybe String -> IO ()
announce urls backend loops status = sayIfTaken (unlines (endpoints ++ [with] ++ foldMap endpoint status ++ redirects))
  where
    -- A shared port has a socket for each loop.
    endpoints = nub ["listening on " <> url | (speaking, url) <- urls, speaking /= RedirectToHttps]
    redirects = nub ["redirecting from " <> url | (RedirectToHttps, url) <- urls]
    with = "backend " <> backendName backend <> ", " <> show loops <> (if loops == 1 then " loop" else " loops")
    endpoint statusUrl = ["status on " <> statusUrl <> "/, " <> statusUrl <> "/status and " <> statusUrl <> "/metrics"]
