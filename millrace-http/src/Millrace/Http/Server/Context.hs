{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- What all connections of a server share.
module Millrace.Http.Server.Context
  ( ServerContext (..),
    Phase (..),
    newServerContext,
    enterPhase,
    reportTo,
    reportLimit,
    isKillOfServer,
  )
where

import Control.Exception (AsyncException (ThreadKilled), SomeException, catch, fromException, throwIO, toException)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Maybe (catMaybes, fromMaybe)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Answer.Observer (Answer (..))
import Millrace.Http.Delivery (Pace, makePace)
import Millrace.Http.Exception (ConnectionLimit, ConnectionLimitExceeded (..), isAsynchronous)
import Millrace.Http.FieldSyntax (harmless)
import Millrace.Http.FileCache (FileCache, newFileCache)
import Millrace.Http.Http2.Engine (EngineSettings, isSupported, newEngineSettings)
import Millrace.Http.Multiplexed.EngineLimits (engineLimits)
import Millrace.Http.Server.Limits (Limits, limitsOf, secondsInMicros)
import Millrace.Http.Server.Settings (Protocols (..), Settings (..))
import Millrace.Http.Server.State (ServerState, claimLimitReport, newServerState)
import Millrace.Http.Threads (Threads, newThreads)
import Network.Socket (SockAddr)
import Network.Wai (Request, defaultRequest, remoteHost)

-- | A server, as its connections see it.
data ServerContext = ServerContext
  { serverSettings :: !Settings,
    serverLimits :: !Limits,
    serverPace :: !Pace,
    -- | The complete Server line, with CR LF, or empty.
    serverNameLine :: !ByteString,
    -- | Actions that run after each answer.
    serverObservers :: ![Answer -> IO ()],
    serverPhase :: !(IORef Phase),
    serverState :: !ServerState,
    serverFiles :: !FileCache,
    serverThreads :: !Threads,
    -- | The settings for the HTTP\/2 engine.
    serverEngine :: !EngineSettings,
    -- | Whether HTTP\/2 is served. Not every system supports it.
    serverHasHttp2 :: !Bool
  }

-- | The phase of a server's life.
data Phase
  = Serving
  | -- | Shutting down: every response is the last one of its connection.
    Draining
  | -- | Connections are aborted.
    Over
  deriving (Eq, Ord)

-- | Makes the context of a server that is about to start.
newServerContext :: Settings -> IO ServerContext
newServerContext settings =
  ServerContext settings limits (makePace limits) (nameLine (settingsServerName settings)) (observers settings)
    <$> newIORef Serving
    <*> maybe newServerState return (settingsServerState settings)
    <*> newFileCache
      (secondsInMicros (settingsFdCacheSeconds settings))
      (secondsInMicros (settingsFileInfoCacheSeconds settings))
    <*> newThreads
    <*> newEngineSettings (engineLimits 0 settings limits)
    <*> fmap (&& settingsProtocols settings /= OnlyHttp1) isSupported
  where
    limits = limitsOf settings

-- | Moves the server on to this phase. Returns False if it was already in this phase or a later one.
enterPhase :: ServerContext -> Phase -> IO Bool
enterPhase server phase = atomicModifyIORef' (serverPhase server) $ \current ->
  (max current phase, current < phase)

-- | Calls the settings' action for exceptions, with the request that was being served. Ignores exceptions of that
-- action, such as a write to a closed pipe, so that the client is still served.
reportTo :: ServerContext -> Maybe Request -> SomeException -> IO ()
reportTo server request failure =
  settingsOnException (serverSettings server) request failure `catch` \second ->
    when (isAsynchronous second) (throwIO second)
{-# NOINLINE reportTo #-}

-- | Tells that a client's connection ends because of a limit. Many such connections make one report a second.
reportLimit :: ServerContext -> SockAddr -> ConnectionLimit -> IO ()
reportLimit server client limit = do
  settingsOnLimit (serverSettings server) limit client `catch` \second -> when (isAsynchronous second) (throwIO second)
  wanted <- monotonicNanoseconds >>= claimLimitReport (serverState server)
  when wanted (reportTo server Nothing (toException (ConnectionLimitExceeded limit client)))
{-# NOINLINE reportLimit #-}

-- | Whether the server itself has killed the thread, because it is over. Such a kill is not reported; a kill by
-- anybody else is.
isKillOfServer :: ServerContext -> SomeException -> IO Bool
isKillOfServer server failure =
  (\phase -> phase == Over && fromException failure == Just ThreadKilled) <$> readIORef (serverPhase server)

observers :: Settings -> [Answer -> IO ()]
observers settings = catMaybes [logged <$> settingsLogger settings, settingsOnAnswer settings]
  where
    logged logger answer = logger (asked answer) (answerStatus answer) (toInteger <$> answerBytes answer)
    asked answer = fromMaybe defaultRequest {remoteHost = answerClient answer} (answerRequest answer)

nameLine :: ByteString -> ByteString
nameLine name
  | C8.null name = C8.empty
  | otherwise = C8.concat [C8.pack "Server: ", harmless name, C8.pack "\r\n"]
