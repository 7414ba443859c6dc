-- Must not know: listeners.

-- |
-- Serves the requests that come to a UDP socket.
--
-- As in "Millrace.Http.Http2.Session", the driver runs applications itself, and hands its role over when one gives up
-- the processor ("Millrace.Http.Threads.OnYield"). While that happens often, requests get threads at once.
module Millrace.Http.Http3.Session (Session, runSession, replaceCredentials, deliver, Stop (..), stopSession) where

import Control.Concurrent (forkIO, yield)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Foreign.Ptr (Ptr, nullPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Answer.Application (withinTotalTime)
import Millrace.Http.Exception (ConnectionsCutOff (..), isAsynchronous)
import Millrace.Http.Http3.Endpoint
import Millrace.Http.Http3.Engine
import Millrace.Http.Http3.PeerProcesses (Delivery (..), Handed)
import Millrace.Http.Http3.Stream
import qualified Millrace.Http.Multiplexed.Engine as Engine
import qualified Millrace.Http.Multiplexed.Exchange as Serve
import Millrace.Http.Multiplexed.Head (Security (..))
import Millrace.Http.Multiplexed.Stream (newStream)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.State (countConnection, discountConnection)
import Millrace.Http.Threads (takeWithin)
import qualified Millrace.Http.Threads as Threads
import Millrace.Http.Threads.OnYield
import Millrace.Socket (Socket, close)
import Millrace.Timer (threadDelay)
import Network.HTTP.Types (HttpVersion (..))
import qualified Network.Wai as Wai

-- | An endpoint and its application.
data Session = Session
  { sessionEndpoint :: !Endpoint,
    sessionApplication :: !Wai.Application,
    -- | For how many batches requests get threads at once. Only the driver uses it.
    sessionSlowBatches :: !(IORef Int),
    -- | The numbers of the connections that are not served.
    sessionRefused :: !(IORef (IntMap.IntMap DeclinedConnection)),
    -- | Full while no thread takes 'nextChange's.
    sessionChanges :: !(MVar ()),
    -- | How the session is to end.
    sessionStop :: !(MVar Stop),
    -- | Whether the engine is there. Held while a thread that does not work on the endpoint uses it.
    sessionLife :: !(MVar Life)
  }

-- | The result of 'settingsOnOpen' for a connection that is not served.
data DeclinedConnection = HasDeclined | HasThrown
  deriving (Eq)

data Life = Alive | Dead
  deriving (Eq)

-- | How a session ends.
data Stop
  = -- | After the requests that have begun, and those that are on their way; at the latest after this many seconds.
    Gracefully !(Maybe Int)
  | AtOnce

-- | Ends the session. Any thread may call this; only the first call counts.
stopSession :: Session -> Stop -> IO ()
stopSession session = void . tryPutMVar (sessionStop session)

-- | Handshakes from now on use these certificates. Any thread may call this, at any time.
replaceCredentials :: Session -> Credentials -> IO ()
replaceCredentials session credentials = withMVar (sessionLife session) $ \life ->
  when (life == Alive) (setCredentials (endpointEngine (sessionEndpoint session)) credentials)

-- | Serves what comes to a socket, and what others hand on, until 'stopSession' is called. The action gets the session
-- when it is ready. Closes the socket, and frees the engine. Asynchronous exceptions end it at once.
runSession :: ServerContext -> Socket -> Maybe Others -> Ptr Engine -> Wai.Application -> (Session -> IO ()) -> IO ()
runSession server socket others engine application ready = mask $ \restore -> do
  endpoint <- newEndpoint server socket others engine `onException` (close socket >> freeEngine engine)
  session <-
    Session endpoint (withinTotalTime (serverLimits server) application)
      <$> newIORef 0
      <*> newIORef IntMap.empty
      <*> newMVar ()
      <*> newEmptyMVar
      <*> newMVar Alive
  outcome <- try $ do
    task endpoint (drive session) (driverEnded session)
    task endpoint (runClock endpoint (attendClock session) (checkTimeouts session)) (either (reportEnd endpoint) return)
    restore (ready session >> readMVar (sessionStop session) >>= drain session)
  -- From here on ends of the session's threads are not reported.
  stopSession session AtOnce
  uninterruptibleMask_ (end session)
  -- Handlers were killed. Some block where no exception reaches them.
  quiet <- newEmptyMVar
  void . forkIO $ do
    Threads.awaitQuiet (endpointCrew endpoint) (return ())
    noteChanges session
    freeEndpoint endpoint
    putMVar quiet ()
  void (takeWithin (Just lastMicros) quiet)
  either (\failure -> throwIO (failure :: SomeException)) return outcome

-- How long the end waits for handlers that were killed.
lastMicros :: Int
lastMicros = 250000

-- Lets the clients finish.
drain :: Session -> Stop -> IO ()
drain _ AtOnce = return ()
drain session (Gracefully seconds) = do
  start <- monotonicNanoseconds
  announceEnd engine EndNotice
  flush endpoint
  -- Time for requests that were on their way.
  _ <- waitUntil start (Just noticeMillis)
  announceEnd engine EndLast
  flush endpoint
  inTime <- waitUntil start (toMillis <$> seconds)
  unless inTime $ do
    left <- connectionCount engine
    reportTo (endpointServer endpoint) Nothing (toException (ConnectionsCutOff left))
  where
    endpoint = sessionEndpoint session
    engine = endpointEngine endpoint
    -- Beside other processes there is a next one, and it is worth the time that handshakes which have begun here also
    -- end here.
    noticeMillis :: Int
    noticeMillis = case othersCompany <$> endpointOthers endpoint of
      Just AlsoProcesses -> 1000
      _ -> 250
    -- At most a century, so that nothing overflows.
    toMillis limit = 1000 * min 3000000000 (max 0 limit)
    -- Whether all connections have ended.
    waitUntil start millis = do
      done <- (== 0) <$> connectionCount engine
      now <- monotonicNanoseconds
      let late = maybe False (\limit -> now >= start + 1000000 * fromIntegral limit) millis
      if done || late then return done else threadDelay 5000 >> waitUntil start millis

-- Ends what is left.
end :: Session -> IO ()
end session = do
  void (enterPhase (endpointServer endpoint) Over)
  now <- monotonicNanoseconds
  closeEngine engine now
  wakeNow endpoint
  flush endpoint
  noteChanges session
  close (endpointSocket endpoint)
  -- From now on no thread delivers.
  void (swapMVar (sessionLife session) Dead)
  Threads.killTasks (endpointCrew endpoint)
  leave endpoint
  where
    endpoint = sessionEndpoint session
    engine = endpointEngine endpoint

------------------------------------------------------------------------------------------------------------------------
-- The driver

-- Receives, until the socket is closed or the role is handed over.
drive :: Session -> IO ()
drive session = do
  outcome <- try (receive (sessionEndpoint session))
  case outcome of
    Right flags -> attend session flags
    Left failure -> do
      stopping <- isStopping session
      unless stopping $ do
        -- The system may have been short of memory.
        reportEnd (sessionEndpoint session) (toException (failure :: IOException))
        threadDelay retryMicros
        drive session
  where
    retryMicros = 100000

-- Datagrams have come.
attend :: Session -> Flags -> IO ()
attend session flags = do
  when (hasChanges `has` flags) (noteChanges session)
  if hasRequests `has` flags
    then do
      slow <- readIORef (sessionSlowBatches session)
      when (slow > 0) (writeIORef (sessionSlowBatches session) (slow - 1))
      serveBatch session
    else goOn session

-- Sends what there is to be sent about the datagrams and the requests, and receives again.
goOn :: Session -> IO ()
goOn session = flushReceived (sessionEndpoint session) >> drive session

-- Serves the requests that have arrived, in this thread if they are quick.
serveBatch :: Session -> IO ()
serveBatch session = do
  slow <- readIORef (sessionSlowBatches session)
  if slow > 0 then spread session >> yield >> goOn session else serveHere session

serveHere :: Session -> IO ()
serveHere session = do
  stream <- nextRequest (engineOf session)
  if stream == nullPtr
    then goOn session
    else do
      ticket <- armTicketed session
      outcome <- try (serveStream session stream)
      keeps <- callOff session ticket
      case outcome of
        Right () | keeps -> serveHere session
        Left failure | keeps -> throwIO (failure :: SomeException)
        _ -> do
          either (reportEnd endpoint) return outcome
          continueServing session
  where
    endpoint = sessionEndpoint session

instance OnYield Session where
  yieldWord = endpointRole . sessionEndpoint
  yieldThreads = serverThreads . endpointServer . sessionEndpoint
  onYield session = finish session >> takeOver session

-- Another thread becomes the driver. It gives each waiting request a thread, because each would otherwise wait for
-- another iteration of the manager, and so would those that follow.
takeOver :: Session -> IO ()
takeOver session = do
  writeIORef (sessionSlowBatches session) slowBatches
  asTask (sessionEndpoint session) (spread session >> goOn session) (driverEnded session)
  where
    slowBatches = 8

-- The driver has ended, or has handed its role over. If it was killed while it ran an application, the session ends.
driverEnded :: Session -> Either SomeException () -> IO ()
driverEnded session outcome = case outcome of
  Right () -> return ()
  Left failure -> do
    stopping <- isStopping session
    unless stopping $ do
      killed <- Threads.wereKilled (endpointCrew (sessionEndpoint session))
      unless killed $ do
        reportEnd (sessionEndpoint session) failure
        stopSession session AtOnce

isStopping :: Session -> IO Bool
isStopping session = not <$> isEmptyMVar (sessionStop session)

-- Gives each request that has arrived a thread.
spread :: Session -> IO ()
spread session = do
  stream <- nextRequest (engineOf session)
  unless (stream == nullPtr) $ do
    mask_
      ( task
          endpoint
          (serveStream session stream)
          (\outcome -> either (reportEnd endpoint) return outcome >> continueServing session)
      )
    spread session
  where
    endpoint = sessionEndpoint session

-- A request has ended in a thread that is not the driver. This thread sends the answer, and starts requests that had to
-- wait because too many were being served.
continueServing :: Session -> IO ()
continueServing session = flushIfNeeded (sessionEndpoint session) >> spread session

engineOf :: Session -> Ptr Engine
engineOf = endpointEngine . sessionEndpoint
{-# INLINE engineOf #-}

------------------------------------------------------------------------------------------------------------------------
-- Other endpoints

-- | Gives the session datagrams that another one has received. Any thread may call this, at any time.
deliver :: Session -> [Handed] -> IO Delivery
deliver session handed = mask $ \restore -> do
  life <- withMVar (sessionLife session) $ \life -> life <$ when (life == Alive) (join' endpoint)
  case life of
    Alive -> Delivered <$ (restore (attendHanded session handed) `finally` leave endpoint)
    Dead -> return Nobody
  where
    endpoint = sessionEndpoint session

attendHanded :: Session -> [Handed] -> IO ()
attendHanded session handed = do
  flags <- receiveFrom (sessionEndpoint session) handed
  flushReceived (sessionEndpoint session)
  attendClock session flags

------------------------------------------------------------------------------------------------------------------------
-- Connections

-- Connections have opened or ended. One thread at a time calls the settings' actions, in order. A change that comes
-- when that thread has just looked for the last time is reported within a second (checkTimeouts).
noteChanges :: Session -> IO ()
noteChanges session = mask $ \restore -> do
  free <- tryTakeMVar (sessionChanges session)
  when (free == Just ()) (restore noteAll `finally` putMVar (sessionChanges session) ())
  where
    noteAll = nextChange (engineOf session) >>= mapM_ (\change -> note change >> noteAll)
    server = endpointServer (sessionEndpoint session)
    settings = serverSettings server
    note (Opened number client) = do
      countConnection (serverState server)
      refusal <-
        reporting
          (Just HasThrown)
          ((\wanted -> if wanted then Nothing else Just HasDeclined) <$> settingsOnOpen settings client)
      forM_ refusal $ \why -> do
        atomicModifyIORef' (sessionRefused session) (\refused -> (IntMap.insert (fromIntegral number) why refused, ()))
        now <- monotonicNanoseconds
        endConnection (engineOf session) now number
        flushIfNeeded (sessionEndpoint session)
    note (Limited limit client) = reportLimit server client limit
    note (Ended number client) = do
      discountConnection (serverState server)
      refusal <-
        atomicModifyIORef'
          (sessionRefused session)
          (\refused -> (IntMap.delete (fromIntegral number) refused, IntMap.lookup (fromIntegral number) refused))
      unless (refusal == Just HasThrown) (reporting () (settingsOnClose settings client))
    reporting :: a -> IO a -> IO a
    reporting otherwise' action =
      action `catch` \failure ->
        if isAsynchronous failure
          then throwIO failure
          else otherwise' <$ reportTo server Nothing (failure :: SomeException)

-- Time has passed, which may end connections.
attendClock :: Session -> Flags -> IO ()
attendClock session flags = do
  when (hasChanges `has` flags) (noteChanges session)
  when (hasRequests `has` flags) (spread session)

-- What the clock does every second.
checkTimeouts :: Session -> IO ()
checkTimeouts session = do
  now <- monotonicNanoseconds
  stalled <- within (sendMicros limits) (resetStalled engine now)
  unfinished <- within (headMicros limits) (resetUnfinished engine now)
  ended <- endIdle engine now (nanoseconds (idleMicros limits)) (nanoseconds (freshMicros limits))
  when (stalled + unfinished + ended > 0) $ wakeNow endpoint >> flush endpoint
  -- Also those for which no thread came: connections that sending has ended, and what was left when two threads met in
  -- noteChanges.
  noteChanges session
  letRest
  where
    endpoint = sessionEndpoint session
    engine = engineOf session
    limits = endpointLimits endpoint
    -- A few at a time, because no thread can receive meanwhile.
    letRest = do
      now <- monotonicNanoseconds
      rested <- restQuiet engine now quietNanoseconds restsAtATime
      when (rested == restsAtATime) (yield >> letRest)
    quietNanoseconds = 2000000000
    restsAtATime = 32
    within micros action = if micros > 0 then action (nanoseconds micros) else return 0
    nanoseconds micros = 1000 * fromIntegral micros

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- Serves a request and releases its stream. Throws only asynchronous exceptions.
serveStream :: Session -> Ptr Engine.Stream -> IO ()
serveStream session at = do
  connection <- streamConnectionNumber at
  refused <- IntMap.member (fromIntegral connection) <$> readIORef (sessionRefused session)
  (if refused then rejectStream at else serve)
    `finally` (releaseStream at monotonicNanoseconds >>= wakeNoticed endpoint)
  where
    endpoint = sessionEndpoint session
    serve = do
      number <- streamNumber at
      client <- streamClient at
      stream <- newStream http3 (ServedStream endpoint client number) at
      Serve.serveRequest (Serve.Serving (HttpVersion 3 0) Protected (sessionApplication session)) stream
