-- |
-- The ways to start a server. Must not know: sessions.
module Millrace.Http.Server.Run
  ( run,
    runEnv,
    runSettings,
    runSettingsSocket,
    runSettingsListener,
    runSettingsListeners,
    runSettingsUnix,
    runSettingsInherited,
    withApplication,
    withApplicationSettings,
    testWithApplication,
    testWithApplicationSettings,
    openFreePort,
  )
where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (mfilter, void, when)
import Data.Either (fromLeft)
import Millrace.Http.Exception (defaultShouldDisplayException)
import Millrace.Http.Server.Accept (runListeners)
import Millrace.Http.Server.Listener
import Millrace.Http.Server.NetworkSocket (awaitClose, closeTheirs, ours)
import Millrace.Http.Server.Settings
import Millrace.Socket (Socket, close)
import qualified Network.Socket as Network
import Network.Wai (Application)
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

-- | Serves an application on a port, with 'defaultSettings' otherwise. Blocks as long as the server runs. Throws an
-- @IOError@ if the port cannot be bound. An exception thrown to the calling thread ends the server as 'runSettings' says.
--
-- @since 0.1.0
run :: Port -> Application -> IO ()
run port = runSettings (setPort port defaultSettings)

-- | Serves an application on the port that the environment variable PORT names, or else on the one given. Throws an
-- @IOError@ if PORT is no number, or the number of no port.
--
-- @since 0.1.0
runEnv :: Port -> Application -> IO ()
runEnv port application = do
  named <- lookupEnv "PORT"
  case named of
    Nothing -> run port application
    Just text -> maybe (ioError (userError ("PORT is no port number: " ++ show text))) (`run` application) (portNumber text)
  where
    portNumber text = fromInteger <$> mfilter isPort (readMaybe text)

-- | Serves an application. Blocks until the listening socket is closed (see 'setInstallShutdownHandler') and the
-- connections have ended. Throws an @IOError@ if no address can be bound.
--
-- An exception thrown to the calling thread ends the server at once: connections are cut off, and applications that are
-- busy get 'ThreadKilled', as they do after 'setGracefulShutdownTimeout'. The server waits a quarter of a second at most
-- for what they do about it.
--
-- @since 0.1.0
runSettings :: Settings -> Application -> IO ()
runSettings settings application =
  bracket (openListeners settings) (mapM_ closeListener) $ \listeners -> runListeners settings listeners application

-- | Serves an application on a socket that listens already, TCP or Unix, and closes it at the end. Port and host of the
-- settings are ignored. Throws an @IOError@ if it does not listen. The socket may still be asked for its name, and closing
-- it begins the shutdown that 'setInstallShutdownHandler' speaks of:
--
-- > (port, listener) <- openFreePort
-- > server <- async (runSettingsSocket defaultSettings listener application)
-- > ...
-- > Network.Socket.close listener >> wait server
--
-- @since 0.1.0
runSettingsSocket :: Settings -> Network.Socket -> Application -> IO ()
runSettingsSocket settings theirs application =
  bracket (ours "runSettingsSocket" theirs) (\served -> close served >> closeTheirs theirs) $ \served -> do
    listener <- givenListener "runSettingsSocket" served
    runListeners (endedByClosing theirs settings) [listener] application

-- As long as either is open the kernel takes connections, which only the server would serve. Who waits here for the
-- socket to be closed is woken at the latest when the server closes it.
endedByClosing :: Network.Socket -> Settings -> Settings
endedByClosing theirs settings = settings {settingsInstallShutdownHandler = install}
  where
    install stop = do
      void (forkIO (awaitClose theirs >> stop))
      settingsInstallShutdownHandler settings (stop >> closeTheirs theirs)

-- | The same on a socket of "Millrace.Socket", which is closed at the end.
--
-- @since 0.1.0
runSettingsListener :: Settings -> Socket -> Application -> IO ()
runSettingsListener settings given application = do
  listener <- givenListener "runSettingsListener" given `onException` close given
  runSettingsListeners settings [listener] application

-- | The same on listeners from 'openListeners' or 'inheritedListeners', which are closed at the end; for programs that
-- want to know their addresses beforehand.
--
-- @since 0.1.0
runSettingsListeners :: Settings -> [Listener] -> Application -> IO ()
runSettingsListeners settings listeners application =
  runListeners settings listeners application `finally` mapM_ closeListener listeners

-- | Serves an application on a Unix socket at a path, which is removed when the server is told to end: the next one may
-- begin while it still finishes what is under way. A socket that a server left there when it died is replaced (not on
-- Windows); throws an @IOError@ if somebody listens on it, or there is another file.
--
-- @since 0.1.0
runSettingsUnix :: Settings -> FilePath -> Application -> IO ()
runSettingsUnix settings path application =
  bracket (openUnixListener settings path) closeListener $ \listener -> runListeners settings [listener] application

-- | Serves an application on the listening sockets that the process was started with, as systemd's socket activation
-- passes them (LISTEN_FDS, LISTEN_PID); or, if there are none, like 'runSettings'. The sockets are only closed at the
-- end: whoever holds them goes on listening, and no connection is lost between two servers.
--
-- This is the best way to restart: connections wait in the queue until the next server takes them, or two servers share
-- it for a while. The next best is 'setReusePort'.
--
-- @since 0.1.0
runSettingsInherited :: Settings -> Application -> IO ()
runSettingsInherited settings application = bracket inheritedListeners (mapM_ closeListener) $ \listeners ->
  if null listeners then runSettings settings application else runListeners settings listeners application

-- | Serves an application on a free port of the loopback interface while an action, which gets the port, runs in a thread
-- of its own. Throws what ends the server before its time, and then ends the action; so it does if the server cannot
-- begin ('setBeforeMainLoop'), and, as Warp does, with an 'ErrorCall' if the server just ends, say because the action
-- has told it to (see 'setInstallShutdownHandler'). Exceptions are masked in the action as they are for the caller.
--
-- > withApplication (return application) $ \port -> get ("http://127.0.0.1:" ++ show port)
--
-- Within "Millrace.Simulation" the socket is a real one, that of the network package: use 'runSettingsListeners' with a
-- socket of "Millrace.Socket" there.
--
-- @since 0.1.0
withApplication :: IO Application -> (Port -> IO a) -> IO a
withApplication = withApplicationSettings defaultSettings

-- | The same with settings, whose port and host are ignored.
--
-- @since 0.1.0
withApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
withApplicationSettings settings makeApplication action = do
  application <- makeApplication
  outcome <- newEmptyMVar
  serveMeanwhile settings application outcome action

-- | Like 'withApplication', for tests: an exception that the application throws, and that is no client's fault, is
-- thrown to the caller too, and ends the action.
--
-- @since 0.1.0
testWithApplication :: IO Application -> (Port -> IO a) -> IO a
testWithApplication = testWithApplicationSettings defaultSettings

-- | The same with settings, whose port and host are ignored.
--
-- @since 0.1.0
testWithApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
testWithApplicationSettings settings makeApplication action = do
  application <- makeApplication
  outcome <- newEmptyMVar
  let watched request respond =
        application request respond `catch` \failure -> do
          when (defaultShouldDisplayException failure) (settle outcome (Left failure))
          throwIO failure
  serveMeanwhile settings watched outcome action

-- How an action ends beside which something else may fail. What comes first counts.
type Outcome a = MVar (Either SomeException a)

settle :: Outcome a -> Either SomeException a -> IO ()
settle outcome = void . tryPutMVar outcome

-- Waits for the ends of both, so that the port is free again. The action is masked as its caller is, though it runs in another
-- thread.
serveMeanwhile :: Settings -> Application -> Outcome a -> (Port -> IO a) -> IO a
serveMeanwhile settings application outcome action =
  mask $ \asCaller -> asCaller . bracket openFreePort (closeTheirs . snd) $ \(port, listener) -> do
    ready <- newEmptyMVar
    let signalling = settings {settingsBeforeMainLoop = settingsBeforeMainLoop settings >> putMVar ready ()}
        serve = try (runSettingsSocket signalling listener application) >>= settle outcome . Left . fromLeft hasEnded
        act = try (takeMVar ready >> asCaller (action port)) >>= settle outcome
    withThread serve . withThread act $ takeMVar outcome >>= either throwIO return

hasEnded :: SomeException
hasEnded = toException (ErrorCall "Network.Wai.Handler.Millrace: the server has ended while withApplication's action ran")

withThread :: IO () -> IO a -> IO a
withThread background action = do
  ended <- newEmptyMVar
  bracket
    (forkIOWithUnmask (\unmask -> unmask background `finally` putMVar ended ()))
    (\thread -> killThread thread >> readMVar ended)
    (const action)

-- | A socket that listens on a free port of the loopback interface.
--
-- @since 0.1.0
openFreePort :: IO (Port, Network.Socket)
openFreePort = bracketOnError (Network.socket Network.AF_INET Network.Stream Network.defaultProtocol) closeTheirs $ \listener -> do
  Network.bind listener (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
  Network.listen listener Network.maxListenQueue
  port <- Network.socketPort listener
  return (fromIntegral port, listener)
