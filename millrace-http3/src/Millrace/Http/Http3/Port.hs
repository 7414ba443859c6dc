-- Must not know: listeners, requests.

-- |
-- All endpoints of a port in this process, one for each capability, and which endpoint gets a datagram.
--
-- The system gives all datagrams between two addresses to one of the sockets. So an endpoint usually receives the
-- datagrams of its connections. When a client's address changes, or the set of sockets, another endpoint receives them,
-- here or in another process, and hands them on.
module Millrace.Http.Http3.Port (runPort) where

import Control.Concurrent (forkIO, forkOn)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM, forM_, unless, void)
import Data.Either (fromLeft)
import Data.IORef
import Data.Int (Int32)
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List.NonEmpty (NonEmpty)
import qualified Data.List.NonEmpty as NonEmpty
import Data.Maybe (isNothing)
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Http.Http3.ConnectionIdRouting
import Millrace.Http.Http3.Endpoint (Company (..), Others (..))
import Millrace.Http.Http3.Engine
import Millrace.Http.Http3.PeerProcesses
import Millrace.Http.Http3.Session
import Millrace.Http.Server.Context
import Millrace.Http.Threads (Crew, takeWithin)
import qualified Millrace.Http.Threads as Threads
import Millrace.Socket (Socket, close)
import Millrace.Socket.Gso (GsoBatch (..))
import Millrace.Timer (threadDelay)
import Network.Wai (Application)

-- | The endpoints of this process, and other processes.
data Port = Port
  { portServer :: !ServerContext,
    portProcess :: !Process,
    portPeers :: !(Maybe PeerProcesses),
    -- | The number of endpoints.
    portLoops :: !Int,
    -- | By the number of their loop.
    portSessions :: !(IORef (IntMap Session))
  }

-- | Serves what comes to the sockets, an endpoint for each, and what other processes hand on, until each session has
-- ended. The action gets the sessions when all are ready. The first engine is made with these settings. Closes the
-- sockets, and leaves the other processes. Call it masked.
runPort ::
  ServerContext ->
  Maybe PeerProcesses ->
  NonEmpty Socket ->
  EngineSettings ->
  Credentials ->
  Application ->
  ([Session] -> IO ()) ->
  IO ()
runPort server peers sockets settings credentials application ready = (`finally` mapM_ closePeerProcesses peers) $ do
  port <-
    Port server (maybe Unknown peersProcess peers) peers (NonEmpty.length sockets)
      <$> newIORef IntMap.empty
  engines <- openEngines port settings credentials `onException` mapM_ close sockets
  begun <- forM (zip3 [0 ..] (NonEmpty.toList sockets) engines) $ \(loop, socket, engine) ->
    beginSession port loop socket engine application
  -- Each that has begun must end, also if others could not begin.
  outcome <- try (forM begun (\(StartedSession readiness _) -> readMVar readiness >>= either throwIO return))
  case outcome of
    Left failure -> forM_ begun cancel >> throwIO (failure :: SomeException)
    Right sessions -> do
      writeIORef (portSessions port) (IntMap.fromList (zip [0 ..] sessions))
      withPeers port (ready sessions >> forM_ begun awaitEnd)
  where
    awaitEnd (StartedSession _ ended) = readMVar ended >>= either (reportTo server Nothing) return
    cancel (StartedSession readiness ended) = do
      readMVar readiness >>= either (const (return ())) (`stopSession` AtOnce)
      void (readMVar ended)

-- A session that begins in its own thread: the session, and how it has ended.
data StartedSession = StartedSession !(MVar (Either SomeException Session)) !(MVar (Either SomeException ()))

-- All threads of a session stay on one capability.
beginSession :: Port -> Int -> Socket -> Ptr Engine -> Application -> IO StartedSession
beginSession port loop socket engine application = do
  begun <- StartedSession <$> newEmptyMVar <*> newEmptyMVar
  phase <- newIORef Serving
  void (forkOn loop (serve (portServer port) {serverPhase = phase} begun))
  return begun
  where
    serve server (StartedSession readiness ended) = do
      outcome <-
        try (runSession server socket (othersOf port (Loop loop)) engine application (putMVar readiness . Right))
      void (tryPutMVar readiness (Left (fromLeft (toException (userError "HTTP/3: ended before it began")) outcome)))
      putMVar ended outcome

-- An engine for each endpoint.
openEngines :: Port -> EngineSettings -> Credentials -> IO [Ptr Engine]
openEngines port settings credentials = do
  first <- openEngine settings credentials >>= existing []
  go [first] [endpointIdNumber (EndpointId (portProcess port) (Loop loop)) | loop <- [1 .. portLoops port - 1]]
  where
    go made [] = return (reverse made)
    go made (identifier : others) =
      openBeside (last made) identifier >>= existing made >>= \engine -> go (engine : made) others
    existing made engine
      | engine == nullPtr = mapM_ freeEngine made >> throwIO (userError "HTTP/3: no memory for an endpoint")
      | otherwise = return engine

------------------------------------------------------------------------------------------------------------------------
-- Handing on

-- The others, as this endpoint sees them, if there can be any.
othersOf :: Port -> Loop -> Maybe Others
othersOf port loop
  | portLoops port == 1 && isNothing (portPeers port) = Nothing
  | otherwise = Just (Others (fromIntegral (endpointIdNumber own)) company hand handFirst)
  where
    own = EndpointId (portProcess port) loop
    company = maybe OnlyEndpoints (const AlsoProcesses) (portPeers port)
    hand number handed = case endpointIdFrom number of
      Just named@(EndpointId process to)
        | named == own -> return Nobody
        | process == portProcess port -> sessionOf port to >>= maybe (return Nobody) (`deliver` [handed])
        | InSlot _ <- process -> maybe (return Nobody) (\others -> handTo others process handed) (portPeers port)
      _ -> return Nobody
    handFirst handed = mapM_ (`handToAny` handed) (portPeers port)

sessionOf :: Port -> Loop -> IO (Maybe Session)
sessionOf port (Loop loop) = IntMap.lookup loop <$> readIORef (portSessions port)

------------------------------------------------------------------------------------------------------------------------
-- Other processes

-- Takes the datagrams that other processes hand on, during the action.
withPeers :: Port -> IO () -> IO ()
withPeers port action = case portPeers port of
  Nothing -> action
  Just others -> do
    crew <- Threads.newCrew (serverThreads (portServer port))
    ending <- newIORef Serving
    let begin = Threads.task crew (acceptPeers port crew ending others) (reportUnlessOver port ending)
        finish = do
          writeIORef ending Over
          Threads.killTasks crew
          Threads.leave crew
          quiet <- newEmptyMVar
          void (forkIO (Threads.awaitQuiet crew (return ()) >> putMVar quiet ()))
          void (takeWithin (Just 250000) quiet)
    begin >> action `finally` finish

-- Reports that an exception has ended a thread, unless it was meant to end.
reportUnlessOver :: Port -> IORef Phase -> Either SomeException () -> IO ()
reportUnlessOver port ending = either report return
  where
    report failure = readIORef ending >>= \phase -> unless (phase == Over) (reportTo (portServer port) Nothing failure)

-- Each peer process has a thread here.
acceptPeers :: Port -> Crew -> IORef Phase -> PeerProcesses -> IO ()
acceptPeers port crew ending others = do
  met <- try (acceptPeer others)
  case met of
    Right from ->
      mask_
        ( Threads.task
            crew
            (receiveHanded from (takeHanded port))
            (\outcome -> close from >> report (unlessEnded outcome))
        )
    Left failure -> do
      report (Left (toException (failure :: IOException)))
      -- The system may have been short of memory.
      threadDelay 100000
  acceptPeers port crew ending others
  where
    report = reportUnlessOver port ending
    -- A connection to another process may end in the middle.
    unlessEnded outcome = case outcome of
      Left failure | Just problem <- fromException failure -> let _ = problem :: IOException in Right ()
      _ -> outcome

-- Gives each datagram to the endpoint that it is for. The first ones of clients, which another process does not take,
-- are for any, but those of a client for one: their IDs begin with the same number.
takeHanded :: Port -> [Handed] -> IO ()
takeHanded port handed = do
  numbers <- mapM (endpointIdOf . gsoBytes . handedBatch) handed
  sessions <- readIORef (portSessions port)
  let byLoop = IntMap.fromListWith (flip (++)) (zip (map loopFor numbers) (map (: []) handed))
  forM_ (IntMap.toList byLoop) $ \(loop, some) -> mapM_ (`deliver` some) (IntMap.lookup loop sessions)
  where
    loopFor :: Int32 -> Int
    loopFor number = case endpointIdFrom number of
      Just (EndpointId process (Loop loop)) | process == portProcess port && loop < portLoops port -> loop
      _ -> fromIntegral number `mod` portLoops port
