{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sessions.

-- |
-- The ways to start a server.
--
-- Exposed for compat/warp. Not covered by the version policy.
module Millrace.Http.Server.Run
  ( run,
    runEnv,
    portFromEnvironment,
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
import Millrace.Http.Server.Settings
import Millrace.Socket (Socket, close)
import qualified Network.Socket as Network
import Network.Wai (Application)
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

-- | Serves an application on a port, with 'defaultSettings' otherwise. Blocks as long as the server runs. Throws an
-- @IOError@ if the port cannot be bound. An exception thrown to the calling thread ends the server as 'runSettings'
-- says.
run :: Port -> Application -> IO ()
run port = runSettings (setPort port defaultSettings)

-- | Serves an application on the port that the environment variable PORT names, or else on the given one. Throws an
-- @IOError@ if PORT is not a port number.
runEnv :: Port -> Application -> IO ()
runEnv port application = portFromEnvironment port >>= (`run` application)

-- | The port that the environment variable PORT names, or else the given one. Throws an @IOError@ if PORT is not a port
-- number.
portFromEnvironment :: Port -> IO Port
portFromEnvironment port = lookupEnv "PORT" >>= maybe (return port) named
  where
    named text = maybe (ioError (userError ("PORT is not a port number: " ++ show text))) return (portNumber text)
    portNumber text = fromInteger <$> mfilter isPort (readMaybe text)

-- | Serves an application. Blocks until the listening socket is closed (see 'setInstallShutdownHandler') and the
-- connections have ended. Throws an @IOError@ if no address can be bound.
--
-- An exception thrown to the calling thread ends the server at once: it aborts all connections, and applications that
-- still run get 'ThreadKilled', as after 'setGracefulShutdownTimeout'. The server waits at most a quarter of a second
-- for them.
runSettings :: Settings -> Application -> IO ()
runSettings settings application =
  bracket (openListeners settings) (mapM_ closeListener) $ \listeners -> runListeners settings listeners application

-- | Serves an application on a socket that already listens, TCP or Unix, and closes it at the end. Ignores port and
-- host of the settings. Throws an @IOError@ if the socket does not listen. The caller may still ask the socket for its
-- name. Closing it begins a shutdown, as with 'setInstallShutdownHandler':
--
-- > (port, listener) <- openFreePort
-- > server <- async (runSettingsSocket defaultSettings listener application)
-- > ...
-- > Network.Socket.close listener >> wait server
runSettingsSocket :: Settings -> Network.Socket -> Application -> IO ()
runSettingsSocket settings theirs application =
  bracket (ours "runSettingsSocket" theirs) (\served -> close served >> closeTheirs theirs) $ \served -> do
    listener <- givenListener "runSettingsSocket" served
    runListeners (endedByClosing theirs settings) [listener] application

-- While either descriptor is open, the kernel accepts connections into the queue, and only this server would serve
-- them. The thread that waits here for the socket to be closed wakes at the latest when the server closes it.
endedByClosing :: Network.Socket -> Settings -> Settings
endedByClosing theirs settings = settings {settingsInstallShutdownHandler = install}
  where
    install stop = do
      void (forkIO (awaitClose theirs >> stop))
      settingsInstallShutdownHandler settings (stop >> closeTheirs theirs)

-- | Serves an application on a socket of "Millrace.Socket", which the server closes at the end.
runSettingsListener :: Settings -> Socket -> Application -> IO ()
runSettingsListener settings given application = do
  listener <- givenListener "runSettingsListener" given `onException` close given
  runSettingsListeners settings [listener] application

-- | Serves an application on listeners from 'openListeners' or 'inheritedListeners', which the server closes at the
-- end. For programs that need the addresses beforehand.
runSettingsListeners :: Settings -> [Listener] -> Application -> IO ()
runSettingsListeners settings listeners application =
  runListeners settings listeners application `finally` mapM_ closeListener listeners

-- | Serves an application on a Unix socket at a path. The path is removed when the shutdown begins, so that the next
-- server can start while this one still finishes its requests. Replaces a socket that a dead server has left (on
-- Linux). Throws an @IOError@ if somebody listens on the socket, or if another kind of file has that path.
runSettingsUnix :: Settings -> FilePath -> Application -> IO ()
runSettingsUnix settings path application =
  bracket (openUnixListener settings path) closeListener $ \listener -> runListeners settings [listener] application

-- | Serves an application on the listening sockets that the process has inherited, as with systemd's socket activation
-- (LISTEN_FDS, LISTEN_PID). If there are none, does the same as 'runSettings'. At the end the server only closes its
-- descriptors. Other processes that have the sockets go on listening, so no connection is lost between two servers.
--
-- This is the best way to restart: connections wait in the queue until the next server accepts them, or two servers
-- share the queue for a while. The next best is 'setReusePort'.
runSettingsInherited :: Settings -> Application -> IO ()
runSettingsInherited settings application = bracket inheritedListeners (mapM_ closeListener) $ \listeners ->
  if null listeners then runSettings settings application else runListeners settings listeners application

-- | Serves an application on a free port of the loopback interface while an action, which gets the port, runs in
-- another thread. If the server fails, ends the action and throws the server's exception; a failure to start counts
-- ('setBeforeMainLoop'). If the server ends without an exception, for example because the action has shut it down
-- ('setInstallShutdownHandler'), throws an 'ErrorCall', as Warp does. The action has the masking state of the caller.
--
-- > withApplication (return application) $ \port -> get ("http://127.0.0.1:" ++ show port)
--
-- Within "Millrace.Simulation" this still uses a real socket of the network package. Use 'runSettingsListeners' with a
-- socket of "Millrace.Socket" there.
withApplication :: IO Application -> (Port -> IO a) -> IO a
withApplication = withApplicationSettings defaultSettings

-- | 'withApplication' with settings, whose port and host are ignored.
withApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
withApplicationSettings settings makeApplication action = do
  application <- makeApplication
  outcome <- newEmptyMVar
  serveMeanwhile settings application outcome action

-- | Like 'withApplication', for tests. An exception of the application that no client has caused also ends the action
-- and is thrown to the caller.
testWithApplication :: IO Application -> (Port -> IO a) -> IO a
testWithApplication = testWithApplicationSettings defaultSettings

-- | 'testWithApplication' with settings, whose port and host are ignored.
testWithApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
testWithApplicationSettings settings makeApplication action = do
  application <- makeApplication
  outcome <- newEmptyMVar
  let watched request respond =
        application request respond `catch` \failure -> do
          when (defaultShouldDisplayException failure) (settle outcome (Left failure))
          throwIO failure
  serveMeanwhile settings watched outcome action

-- How 'withServer' ends: by its action, or by a failure beside it. The first of them counts.
type ServerEnd a = MVar (Either SomeException a)

settle :: ServerEnd a -> Either SomeException a -> IO ()
settle outcome = void . tryPutMVar outcome

-- Waits for both threads to end, so that the port is free again. The action's thread gets the caller's masking state.
serveMeanwhile :: Settings -> Application -> ServerEnd a -> (Port -> IO a) -> IO a
serveMeanwhile settings application outcome action =
  mask $ \asCaller -> asCaller . bracket openFreePort (closeTheirs . snd) $ \(port, listener) -> do
    ready <- newEmptyMVar
    let signalling = settings {settingsBeforeMainLoop = settingsBeforeMainLoop settings >> putMVar ready ()}
        serve = try (runSettingsSocket signalling listener application) >>= settle outcome . Left . fromLeft hasEnded
        act = try (takeMVar ready >> asCaller (action port)) >>= settle outcome
    withThread serve . withThread act $ takeMVar outcome >>= either throwIO return

hasEnded :: SomeException
hasEnded =
  toException (ErrorCall "Network.Wai.Handler.Millrace: the server has ended while withApplication's action ran")

withThread :: IO () -> IO a -> IO a
withThread background action = do
  ended <- newEmptyMVar
  bracket
    (forkIOWithUnmask (\unmask -> unmask background `finally` putMVar ended ()))
    (\thread -> killThread thread >> readMVar ended)
    (const action)

-- | A socket that listens on a free port of the loopback interface.
openFreePort :: IO (Port, Network.Socket)
openFreePort =
  bracketOnError (Network.socket Network.AF_INET Network.Stream Network.defaultProtocol) closeTheirs $ \listener -> do
    Network.bind listener (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
    Network.listen listener Network.maxListenQueue
    port <- Network.socketPort listener
    return (fromIntegral port, listener)
