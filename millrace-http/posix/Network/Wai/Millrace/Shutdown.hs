-- Must not know: connections.

-- | Ends servers at signals.
--
-- >>> import Millrace.Signal
-- >>> import Network.Wai.Handler.Millrace
-- >>> let settings = setPort 0 (setBeforeMainLoop (raiseSignal Terminate) defaultSettings)
-- >>> untilSignal (\ending -> runSettings (ending settings) (\_ _ -> fail "no requests")) >> putStrLn "ended"
-- ended
module Network.Wai.Millrace.Shutdown (untilSignal) where

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
import Control.Monad (join)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Signal (Signal (Interrupt, Terminate), nextSignal, withSignals)

-- | Runs servers until SIGTERM, or SIGINT (the interrupt key), comes. Then they end in an orderly way, as
-- 'Network.Wai.Handler.Millrace.setInstallShutdownHandler' describes it: each gets its settings through the function
-- that is passed. A second signal interrupts them, and whatever else the action does. Returns when the action has ended,
-- in either way. Afterwards the signals have their earlier effects again.
--
-- > main = untilSignal $ \ending -> runSettings (ending (setPort 3000 defaultSettings)) application
--
-- A server that begins after the first signal ends at once. Servers of all kinds may be run, and several of them:
--
-- > main = untilSignal $ \ending ->
-- >   runTLS tls (ending (setPort 443 defaultSettings)) application
-- >     `concurrently_` runSettings (ending (setPort 80 defaultSettings)) redirect
untilSignal :: ((Settings -> Settings) -> IO ()) -> IO ()
untilSignal run = withSignals [Terminate, Interrupt] $ \signals -> mask $ \restore -> do
  caller <- myThreadId
  servers <- newMVar (Running [])
  let install settings stop = do
        join (modifyMVar servers (return . begun stop))
        settingsInstallShutdownHandler settings stop
      ending settings = settings {settingsInstallShutdownHandler = install settings}
      watch = do
        _ <- nextSignal signals
        join (modifyMVar servers (return . ended))
        _ <- nextSignal signals
        throwTo caller Hurried
  watcher <- forkIOWithUnmask (\unmask -> unmask watch)
  (restore (run ending) `finally` killThread watcher) `catch` \Hurried -> return ()

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
