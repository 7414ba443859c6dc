-- Must not know: connections.

-- | Ends servers at signals.
--
-- >>> import Millrace.Signal
-- >>> import Network.Wai.Handler.Millrace
-- >>> let settings = setPort 0 (setBeforeMainLoop (raiseSignal Terminate) defaultSettings)
-- >>> untilSignal (\ending -> runSettings (ending settings) (\_ _ -> fail "no requests"))
-- Orderly
module Network.Wai.Millrace.Shutdown (untilSignal, ServersEnd (..)) where

import Control.Concurrent (forkIOWithUnmask, killThread, myThreadId, throwTo)
import Control.Concurrent.MVar (modifyMVar, newMVar)
import Control.Exception
  ( Exception (..),
    asyncExceptionFromException,
    asyncExceptionToException,
    catch,
    finally,
    mask,
  )
import Control.Monad (forM_, join)
import Data.IORef (newIORef, readIORef, writeIORef)
import Millrace.Http.Exception (ConnectionsCutOff (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Signal (Signal (Interrupt, Terminate), nextSignal, withSignals)

-- | Runs servers until SIGTERM, or SIGINT (the interrupt key), comes. Then they end in an orderly way, as
-- 'Network.Wai.Handler.Millrace.setInstallShutdownHandler' describes it: each gets its settings through the function
-- that is passed. A second signal interrupts them, and whatever else the action does. Returns when the action has
-- ended, and how it did. Afterwards the signals have their earlier effects again.
--
-- > main = do
-- >   end <- untilSignal $ \ending -> runSettings (ending (setPort 3000 defaultSettings)) application
-- >   when (end /= Orderly) exitFailure
--
-- A server that begins after the first signal ends at once. Servers of all kinds may be run, and several of them:
--
-- > main = untilSignal $ \ending ->
-- >   runTLS tls (ending (setPort 443 defaultSettings)) application
-- >     `concurrently_` runSettings (ending (setPort 80 defaultSettings)) redirect
untilSignal :: ((Settings -> Settings) -> IO ()) -> IO ServersEnd
untilSignal run = withSignals [Terminate, Interrupt] $ \signals -> mask $ \restore -> do
  caller <- myThreadId
  servers <- newMVar (Running [])
  end <- newIORef Orderly
  let install settings stop = do
        join (modifyMVar servers (return . begun stop))
        settingsInstallShutdownHandler settings stop
      note settings request failure = do
        forM_ (fromException failure) $ \(ConnectionsCutOff _) -> writeIORef end CutOff
        settingsOnException settings request failure
      ending settings =
        settings {settingsInstallShutdownHandler = install settings, settingsOnException = note settings}
      watch = do
        _ <- nextSignal signals
        join (modifyMVar servers (return . ended))
        _ <- nextSignal signals
        throwTo caller Hurried
  watcher <- forkIOWithUnmask (\unmask -> unmask watch)
  ((restore (run ending) `finally` killThread watcher) >> readIORef end) `catch` \Hurried -> return Interrupted

-- | How servers have ended.
data ServersEnd
  = -- | All requests that had begun were answered. Servers that have ended by themselves are orderly, too.
    Orderly
  | -- | The time of 'Network.Wai.Handler.Millrace.setGracefulShutdownTimeout' was over, and a response was incomplete.
    CutOff
  | -- | The second signal has interrupted them.
    Interrupted
  deriving (Eq, Show)

-- The actions that end the servers, or that the signal has come.
data Servers
  = Running [IO ()]
  | Ending

begun :: IO () -> Servers -> (Servers, IO ())
begun stop servers = case servers of
  Running others -> (Running (stop : others), return ())
  Ending -> (Ending, stop)

ended :: Servers -> (Servers, IO ())
ended servers = case servers of
  Running stops -> (Ending, sequence_ stops)
  Ending -> (Ending, return ())

-- The second signal has come. It is asynchronous, so that applications do not take it for an exception of their own.
data Hurried = Hurried
  deriving (Show)

instance Exception Hurried where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
