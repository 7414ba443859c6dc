-- Must not know: listeners.

-- |
-- Serves an HTTP\/2 connection.
--
-- One thread is the driver: it sends, receives, and runs the applications of the requests that have arrived. If an
-- application gives up the processor, another thread becomes the driver ("Millrace.Http.Threads.OnYield"), and the
-- first one only ends its request. While that happens often, requests get threads at once.
--
-- The loop of the driver is tail-recursive, so that nothing is on the stack while it waits.
module Millrace.Http.Http2.Session
  ( Session,
    runSession,
    isIdle,
    isInLastHead,
    isLeaving,
    askToEnd,
    requestCount,
    Asked (..),
  )
where

import Control.Concurrent (yield)
import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.IORef
import Data.Maybe (isJust, isNothing)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Answer.Application (withinTotalTime)
import Millrace.Http.Delivery (linger, lingerMicros)
import Millrace.Http.Exception
import Millrace.Http.Field
import Millrace.Http.Http2.Connection
import Millrace.Http.Http2.Engine
import Millrace.Http.Multiplexed.Engine (streamKey)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import qualified Millrace.Http.Multiplexed.Exchange as Exchange
import Millrace.Http.Multiplexed.Head (Security (..))
import Millrace.Http.Multiplexed.Stream (Protocol (..), newStream)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Threads.OnYield
import Millrace.Http.Transport
import Network.HTTP.Types (http20)
import qualified Network.Wai as Wai

-- | A connection, its application, and the state that only the driver uses.
data Session = Session
  { sessionConnection :: !Connection,
    sessionApplication :: !Wai.Application,
    sessionState :: !SessionState
  }

-- The state that only the driver uses, a machine word for each field.
type SessionState = Words SessionField

data SessionField
  = SlowBatchesLeft
  | StageNow
  | StageSince
  | HeadSince
  | RequestsBegun
  | IsWaiting
  | WasIdle
  | IdleSince
  | NextTimeoutAt
  deriving (Bounded, Enum)

-- For how many batches requests get threads at once.
slowBatchesLeft :: Field SessionState Int
slowBatchesLeft = named SlowBatchesLeft

-- The stage of the end, and the time in nanoseconds when it was entered.
stage :: Field SessionState ShutdownStage
stage = named StageNow

stageSince :: Field SessionState Int
stageSince = named StageSince

-- When the first byte of an incomplete head arrived, in nanoseconds.
headSince :: Field SessionState (Maybe Int)
headSince = named HeadSince

-- How many requests have begun.
requestsBegun :: Field SessionState Int
requestsBegun = named RequestsBegun

-- Whether the driver waits for bytes.
isWaiting :: Field SessionState Bool
isWaiting = named IsWaiting

-- Whether nothing was served when the driver began to wait.
wasIdle :: Field SessionState Bool
wasIdle = named WasIdle

-- Since when there has been no request, in nanoseconds, if that is known: at first since the beginning. Frames that
-- belong to no request do not change it.
idleSince :: Field SessionState (Maybe Int)
idleSince = named IdleSince

-- When 'checkTimeouts' is to run, in nanoseconds, even if bytes come. Otherwise a client that sends something now and
-- then would put off what is done to it.
nextTimeoutAt :: Field SessionState (Maybe Int)
nextTimeoutAt = named NextTimeoutAt

newSessionState :: IO SessionState
newSessionState = do
  state <- newWords
  writeField state headSince Nothing
  monotonicNanoseconds >>= writeField state idleSince . Just . fromIntegral
  writeField state nextTimeoutAt Nothing
  return state

get :: Unboxed a => Session -> Field SessionState a -> IO a
get session = readField (sessionState session)
{-# INLINE get #-}

set :: Unboxed a => Session -> Field SessionState a -> a -> IO ()
set session = writeField (sessionState session)
{-# INLINE set #-}

-- The stages of a connection's end.
data ShutdownStage = Open | Noticed | Last
  deriving (Eq, Enum)

instance Unboxed ShutdownStage where
  toWord = fromEnum
  {-# INLINE toWord #-}
  fromWord = toEnum
  {-# INLINE fromWord #-}

enter :: Session -> ShutdownStage -> IO ()
enter session next = do
  now <- monotonicNanoseconds
  set session stage next
  set session stageSince (fromIntegral now)

------------------------------------------------------------------------------------------------------------------------
-- Sessions

-- | Serves a connection that begins with these bytes, until it is over and no thread works on it any more. Reports
-- exceptions through the settings. Throws only asynchronous ones. The transport stays open. The action gets the session
-- when it begins, and 'Nothing' when it is over: from then on no other thread may ask anything of the session.
runSession :: ServerContext -> Transport -> ByteString -> Wai.Application -> (Maybe Session -> IO ()) -> IO ()
runSession server transport input application publish = mask $ \restore -> do
  session <- openSession server transport application
  publish (Just session)
  outcome <- try (restore (begin session input))
  closeSession publish session outcome

openSession :: ServerContext -> Transport -> Wai.Application -> IO Session
openSession server transport application = do
  engine <- withEngineSettings (serverEngine server) (\settings -> openEngine settings (securityOf transport))
  when (engine == nullPtr) (throwIO (userError "HTTP/2: no memory for a connection"))
  connection <- newConnection server transport engine
  Session connection (withinTotalTime (serverLimits server) application) <$> newSessionState

-- Takes only what is in the frame of a thread that serves a connection: its stack is to fit into the first kilobyte
-- (decision 9).
closeSession :: (Maybe Session -> IO ()) -> Session -> Either SomeException DriverEnd -> IO ()
closeSession publish session outcome = do
  endDriving session outcome
  tellLimit session
  (awaitQuiet connection >> reportLoss connection)
    `finally` (publish Nothing >> freeEngine (connectionEngine connection))
  -- The engine uses the settings until here.
  withEngineSettings (serverEngine (connectionServer connection)) (const (return ()))
  either (\failure -> when (isAsynchronous failure) (throwIO failure)) (const (return ())) outcome
  where
    connection = sessionConnection session
{-# NOINLINE closeSession #-}

securityOf :: Transport -> Security
securityOf transport = if isJust (negotiated transport) then Protected else ClearText

begin :: Session -> ByteString -> IO DriverEnd
begin session input = do
  now <- monotonicNanoseconds
  flags <- BU.unsafeUseAsCStringLen input $ \(bytes, size) -> feed (engineOf session) (castPtr bytes) size now
  attend session flags

-- How a thread ends its work as the driver.
data DriverEnd
  = -- | The connection is over.
    Ended
  | -- | Another thread is the driver.
    HandedOver

-- The driver has ended. Unless it has handed its role over, no other thread sends or receives any more.
endDriving :: Session -> Either SomeException DriverEnd -> IO ()
endDriving session outcome = case outcome of
  Right HandedOver -> return ()
  Right Ended -> conclude farewell
  Left failure -> do
    unless (isAsynchronous failure) (noteFailure connection failure)
    when (isAsynchronous failure) (killTasks connection)
    conclude (return ())
  where
    connection = sessionConnection session
    transport = connectionTransport connection
    -- Closing with unread input would reset the connection, so the client gets time to stop sending. A connection that
    -- gave way while it was idle, and on which nothing has come since, needs none. It closes at once, or another one
    -- would have to give way, too.
    farewell = do
      wanted <- shutdownRequest connection
      idle <- get session wasIdle
      more <- if wanted == EndNow && idle then hasArrived transport else return True
      if more then linger transport lingerMicros else endSending transport
    conclude say = do
      closeEngine (connectionEngine connection)
      wakeNow connection
      void (try say :: IO (Either SomeException ()))
      abort transport
      leave connection

engineOf :: Session -> Ptr Engine
engineOf = connectionEngine . sessionConnection
{-# INLINE engineOf #-}

limitsOfSession :: Session -> Limits
limitsOfSession = connectionLimits . sessionConnection
{-# INLINE limitsOfSession #-}

------------------------------------------------------------------------------------------------------------------------
-- The driver

-- Bytes have come.
attend :: Session -> Flags -> IO DriverEnd
attend session flags = do
  noteHead session flags
  when (hasLimit `has` flags) (tellLimit session)
  set session wasIdle False
  due <- get session nextTimeoutAt >>= maybe (return False) (fmap (<= 0) . microsUntil)
  goOn <- if due then checkTimeouts session else return True
  if goOn then serveArrived else return Ended
  where
    serveArrived
      | hasRequests `has` flags = do
        set session idleSince Nothing
        slow <- get session slowBatchesLeft
        when (slow > 0) (set session slowBatchesLeft (slow - 1))
        serveBatch session
      | otherwise = do
        -- Time passes for an idle connection whatever its client sends.
        wasIdleTooLong <- isIdleTooLong session
        if wasIdleTooLong then endIdle session >> return Ended else drive session

-- Tells, once, that the connection ends because of a limit.
tellLimit :: Session -> IO ()
tellLimit session =
  takeLimit (engineOf session)
    >>= mapM_ (reportLimit (connectionServer connection) (transportPeer (connectionTransport connection)))
  where
    connection = sessionConnection session

-- There is one deadline for a whole head, from its first byte on, and one for the preface.
noteHead :: Session -> Flags -> IO ()
noteHead session flags
  | inHead `has` flags = do
    since <- get session headSince
    when (isNothing since) (monotonicNanoseconds >>= set session headSince . Just . fromIntegral)
  | otherwise = set session headSince Nothing

-- Sends pending output, and receives.
drive :: Session -> IO DriverEnd
drive session = do
  set session isWaiting True
  arrival <- sendAndReceive connection (patience session)
  set session isWaiting False
  case arrival of
    Arrived flags -> attend session flags
    EndOfInput -> endOfInput session
    Finished -> return Ended
    NoInput -> do
      goOn <- checkTimeouts session
      if goOn then drive session else return Ended
  where
    connection = sessionConnection session

-- The client has ended its side, and may still receive. The requests that have arrived are answered, as far as the
-- windows permit. Their applications learn that it has left, as over HTTP/1, because most clients have.
endOfInput :: Session -> IO DriverEnd
endOfInput session = do
  endInput engine
  wakeNow connection
  flush connection
  Ended <$ waitFor connection restKey Nothing ((\rests -> if rests then Just () else Nothing) <$> isAtRest engine)
  where
    connection = sessionConnection session
    engine = connectionEngine connection

-- Serves the requests that have arrived, in this thread if they are quick.
serveBatch :: Session -> IO DriverEnd
serveBatch session = do
  slow <- get session slowBatchesLeft
  if slow > 0 then spread session >> yield >> drive session else serveHere session

serveHere :: Session -> IO DriverEnd
serveHere session = do
  stream <- nextRequest (engineOf session)
  if stream == nullPtr
    then drive session
    else do
      ticket <- beginHere session
      outcome <- try (serveStream session stream)
      continueHere session ticket outcome

-- These two are apart because of the stack, as 'closeSession'.
beginHere :: Session -> IO Ticket
beginHere session = do
  ticket <- armTicketed session
  ticket <$ join' connection
  where
    connection = sessionConnection session
{-# NOINLINE beginHere #-}

continueHere :: Session -> Ticket -> Either SomeException () -> IO DriverEnd
continueHere session ticket outcome = do
  keeps <- callOff session ticket
  case outcome of
    Right () | keeps -> set session idleSince Nothing >> leave connection >> serveHere session
    Left failure | keeps -> leave connection >> throwIO failure
    _ -> HandedOver <$ endServing session outcome
  where
    connection = sessionConnection session
{-# NOINLINE continueHere #-}

instance OnYield Session where
  yieldWord = connectionRole . sessionConnection
  yieldThreads = serverThreads . connectionServer . sessionConnection
  onYield session = finish session >> takeOver session

-- Another thread becomes the driver. It gives each waiting request a thread, because each would otherwise wait for
-- another iteration of the manager, and so would those that follow.
takeOver :: Session -> IO ()
takeOver session = do
  set session slowBatchesLeft slowBatches
  outcome <- newIORef (Right HandedOver)
  asTask connection (serveBatch session >>= writeIORef outcome . Right) $ \ended -> do
    known <- readIORef outcome
    -- No other thread reports an asynchronous exception.
    forM_ (either Just (const Nothing) ended) $ \failure -> when (isAsynchronous failure) (reportEnd connection failure)
    endDriving session (ended >> known)
  where
    slowBatches = 8
    connection = sessionConnection session

-- Gives each request that has arrived a thread.
spread :: Session -> IO ()
spread session = do
  stream <- nextRequest (engineOf session)
  unless (stream == nullPtr) $ do
    mask_
      ( task
          connection
          (serveStream session stream)
          (\outcome -> either (reportEnd connection) return outcome >> continueServing session)
      )
    spread session
  where
    connection = sessionConnection session

-- A request has ended in the thread that was the driver. If the thread was killed, the server ends.
endServing :: Session -> Either SomeException () -> IO ()
endServing session outcome = do
  forM_ (either Just (const Nothing) outcome) $ \failure -> do
    reportEnd connection failure
    killTasks connection
    abort (connectionTransport connection)
  continueServing session
  leave connection
  where
    connection = sessionConnection session

-- A request has ended in a thread that is not the driver. This thread sends the answer, and starts requests that had to
-- wait because too many were being served.
continueServing :: Session -> IO ()
continueServing session = do
  now <- monotonicNanoseconds
  set session idleSince (Just (fromIntegral now))
  flushIfNeeded (sessionConnection session)
  -- The driver may be waiting for longer.
  stop <- stopDue (engineOf session)
  when (isJust stop) (interruptDriver (sessionConnection session))
  spread session

------------------------------------------------------------------------------------------------------------------------
-- Time

-- How long the driver may wait for bytes, in microseconds; 0: no limit. To be called immediately before it waits. While
-- requests are served: no longer than the time of an idle connection, because another thread may end the last one
-- without waking the driver.
patience :: Session -> IO Int
patience session = do
  reached <- get session stage
  since <- get session headSince
  noted <- isJust <$> get session idleSince
  open <- streamCount (engineOf session)
  -- Another thread may end the last one from here on, and note it.
  when (open > 0 && noted) (set session idleSince Nothing)
  set session wasIdle (open == 0)
  stop <- if open > 0 then stopDue (engineOf session) else return Nothing
  due <- maybe id (\moment -> Just . maybe moment (min moment)) stop <$> nextTimeout reached open
  set session nextTimeoutAt due
  untilTimeout <- maybe (return 0) (fmap (max 1) . microsUntil) due
  case (reached, since) of
    (Noticed, _) -> return untilTimeout
    (_, Just begun) -> sooner untilTimeout <$> left (headMicros limits) begun
    _
      | open == 0 -> idleLimit session >>= leftOfIdling
      | otherwise -> return (sooner untilTimeout (idleMicros limits))
  where
    limits = limitsOfSession session
    leftOfIdling limit = get session idleSince >>= maybe (limit <$ beginIdling) (left limit)
    beginIdling = monotonicNanoseconds >>= set session idleSince . Just . fromIntegral
    left 0 _ = return 0
    left micros moment = (\elapsed -> max 1 (micros - elapsed)) <$> microsSince moment
    nextTimeout Noticed _ = Just . (+ 1000 * noticeMicros) <$> get session stageSince
    nextTimeout _ open
      | open == 0 || sendMicros limits == 0 = return Nothing
      | otherwise = do
        known <- get session nextTimeoutAt
        maybe (Just . (+ 500 * sendMicros limits) . fromIntegral <$> monotonicNanoseconds) (return . Just) known

-- The shorter of two times, where 0 means no limit.
sooner :: Int -> Int -> Int
sooner 0 other = other
sooner one 0 = one
sooner one other = min one other

microsSince, microsUntil :: Int -> IO Int
microsSince moment = (\now -> (fromIntegral now - moment) `quot` 1000) <$> monotonicNanoseconds
microsUntil moment = negate <$> microsSince moment

-- Time for requests that were on their way when the end was announced.
noticeMicros :: Int
noticeMicros = 250000

-- How long the connection may be without a request, in microseconds; 0: no limit.
idleLimit :: Session -> IO Int
idleLimit session = do
  begun <- get session requestsBegun
  return (if begun == 0 then freshMicros limits else idleMicros limits)
  where
    limits = limitsOfSession session

-- Whether it has been without a request for longer.
isIdleTooLong :: Session -> IO Bool
isIdleTooLong session = do
  limit <- idleLimit session
  since <- get session idleSince
  case since of
    Just moment | limit > 0 -> do
      elapsed <- microsSince moment
      open <- streamCount (engineOf session)
      return (open == 0 && elapsed >= limit)
    _ -> return False

endIdle :: Session -> IO ()
endIdle session = announceEnd (engineOf session) EndLast >> flush (sessionConnection session)

-- The time for waiting is over, or another thread has interrupted the wait. False: the connection ends.
checkTimeouts :: Session -> IO Bool
checkTimeouts session = do
  set session nextTimeoutAt Nothing
  wanted <- shutdownRequest connection
  reached <- get session stage
  hasSlowHead <- get session headSince >>= maybe (return False) (isOver' (headMicros limits))
  noticed <- get session stageSince >>= microsSince
  wasLongIdle <- isIdleTooLong session
  stopped <- monotonicNanoseconds >>= stopClients engine
  when (stopped > 0) (flush connection)
  open <- streamCount engine
  inLastHead <- hasOnlyHead session
  let next
        | wanted == EndNow && reached /= Last = announce EndLast Last
        | wanted == EndSoon && reached == Open = announce EndNotice Noticed
        | reached == Noticed = if noticed >= noticeMicros then announce EndLast Last else return True
        | hasSlowHead = endCalm engine >> flush connection >> return False
        | open == 0 && reached == Last = flush connection >> return False
        | wanted == EndNow && inLastHead = flush connection >> return False
        | wasLongIdle = do
          -- On a busy machine a request may have come before this thread could run.
          arrived <- hasArrived (connectionTransport connection)
          if arrived then return True else endIdle session >> return False
        | open == 0 = return True
        | sendMicros limits == 0 = return True
        | otherwise = do
          now <- monotonicNanoseconds
          count <- resetStalled engine now (1000 * fromIntegral (sendMicros limits))
          -- These streams have not moved for that time. If they were the last ones, the connection has been idle since
          -- then.
          when (count > 0) $ do
            set session idleSince (Just (fromIntegral now - 1000 * sendMicros limits))
            wakeNow connection
            flush connection
          return True
  next
  where
    connection = sessionConnection session
    engine = connectionEngine connection
    limits = limitsOfSession session
    isOver' micros moment = (\elapsed -> micros > 0 && elapsed >= micros) <$> microsSince moment
    announce end next = do
      announceEnd engine end
      enter session next
      return True

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- Serves a request and releases its stream. Throws only asynchronous exceptions.
serveStream :: Session -> Ptr Engine.Stream -> IO ()
serveStream session at = do
  count <- get session requestsBegun
  set session requestsBegun (count + 1)
  when (count + 1 >= requestsMax limits) (requestShutdown connection EndSoon)
  number <- streamKey at
  stream <- newStream http2 (ServedStream connection number) at
  Exchange.serveRequest
    (Exchange.Serving http20 (securityOf (connectionTransport connection)) (sessionApplication session))
    stream
    `finally` (releaseStream at >>= wakeNoticed connection)
  where
    connection = sessionConnection session
    limits = limitsOfSession session

------------------------------------------------------------------------------------------------------------------------
-- Others

-- | A request to end a connection.
data Asked
  = -- | Answer the requests that have arrived, and then end.
    ToFinish
  | -- | End at once, if no request is being served.
    ToGiveWay

-- | Whether the connection waits without a request to serve, and is not about to end.
isIdle :: Session -> IO Bool
isIdle session = do
  waits <- get session isWaiting
  reached <- get session stage
  open <- if waits then streamCount (engineOf session) else return 1
  return (waits && open == 0 && reached /= Last)

-- | Whether the last GOAWAY was sent, and all that is left is a stream whose head is incomplete.
isInLastHead :: Session -> IO Bool
isInLastHead session = do
  waits <- get session isWaiting
  if waits then hasOnlyHead session else return False

hasOnlyHead :: Session -> IO Bool
hasOnlyHead session = do
  reached <- get session stage
  since <- get session headSince
  -- There is one incomplete head at a time: a client must not send other frames within it.
  open <- if reached == Last && isJust since then streamCount (engineOf session) else return 0
  return (open == 1)

-- | Whether the last GOAWAY was sent.
isLeaving :: Session -> IO Bool
isLeaving session = (== Last) <$> get session stage

-- | The number of requests that have begun.
requestCount :: Session -> IO Int
requestCount session = get session requestsBegun

-- | Asks the connection to end.
askToEnd :: Session -> Asked -> IO ()
askToEnd session asked = requestShutdown (sessionConnection session) $ case asked of
  ToFinish -> EndSoon
  ToGiveWay -> EndNow

------------------------------------------------------------------------------------------------------------------------
-- Streams

-- | A connection and the number of one of its streams.
data ServedStream = ServedStream !Connection !Int

-- | HTTP\/2.
http2 :: Protocol ServedStream
http2 =
  Protocol
    { protocolServer = \(ServedStream connection _) -> connectionServer connection,
      protocolClient = \(ServedStream connection _) -> transportPeer (connectionTransport connection),
      protocolNegotiated = \(ServedStream connection _) -> negotiated (connectionTransport connection),
      protocolDescribes =
        \(ServedStream connection number) ->
          describeTransport (connectionTransport connection) ++ ", stream " ++ show number,
      protocolTellLoss = \(ServedStream connection _) -> tellLoss connection,
      protocolAwait = \(ServedStream connection _) -> waitForWith connection,
      protocolFlush = \(ServedStream connection _) -> flush connection,
      protocolFlushIfNeeded = \(ServedStream connection _) -> flushIfNeeded connection,
      protocolWake = \(ServedStream connection _) -> wakeNow connection,
      protocolHasRead = \_ -> return (),
      protocolErrorCode = fromIntegral
    }
