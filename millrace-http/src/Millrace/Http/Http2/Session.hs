-- |
-- Serves an HTTP\/2 connection. Must not know: listeners.
--
-- One thread is the driver: it sends, receives, and runs the applications of the requests that have arrived. If an
-- application gives up the processor, another thread becomes the driver ("Millrace.Http.HandOver"), and the first one
-- only ends its request. While that happens often, requests get threads at once.
--
-- The loop of the driver is tail-recursive, so that nothing is on the stack while it waits.
module Millrace.Http.Http2.Session (Control, newControl, runSession, isIdle, isLeaving, askToEnd, requestCount, Asked (..)) where

import Control.Concurrent (myThreadId, yield)
import Control.Exception
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.IORef
import Data.Maybe (isJust)
import Data.Primitive.ByteArray (MutableByteArray, newByteArray, readByteArray, writeByteArray)
import Data.Word (Word32)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds)
import Millrace.Http.Answer.Application (Refusal (..), Service, answerByApplication, answerRefused, newService, withinTotalTime)
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Expectation (startExpecting)
import Millrace.Http.Farewell (linger, lingerMicros)
import Millrace.Http.Field (writeField)
import Millrace.Http.HandOver
import Millrace.Http.Http1.Wire (flagExpectContinue, flagExpectOther, flagHttps, methodCodeConnect)
import Millrace.Http.Http2.Body
import Millrace.Http.Http2.Connection
import Millrace.Http.Http2.Engine hiding (Done, Stream)
import qualified Millrace.Http.Http2.Engine as Engine
import Millrace.Http.Http2.Exchange
import Millrace.Http.Http2.Request (makeRequest)
import Millrace.Http.Http2.State (newStreamState, totalDeadline)
import Millrace.Http.Http2.Stream
import Millrace.Http.Http2.TakeOver (asUpgrade)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Transport hiding (hasEnded)
import qualified Network.Wai as Wai
import Network.Wai.Internal (RequestBodyLength (..))

-- | What other threads can ask of a connection. Empty before the connection uses HTTP\/2.
newtype Control = Control (IORef (Maybe Session))

-- | Not yet.
newControl :: IO Control
newControl = Control <$> newIORef Nothing

-- A connection, its service, and the driver's own words.
data Session = Session
  { sessionConnection :: !Connection,
    sessionApplication :: !Wai.Application,
    sessionWords :: !(MutableByteArray RealWorld)
  }

-- The driver's words: for how many batches requests get threads at once; the stage of the end; when that was entered;
-- when the first byte of an incomplete head arrived, in nanoseconds (0: there is none); how many requests have begun;
-- and whether the driver waits for bytes and serves nothing.
slowAt, stageAt, stageSinceAt, headSinceAt, requestsAt, idleAt, wordCount :: Int
slowAt = 0
stageAt = 1
stageSinceAt = 2
headSinceAt = 3
requestsAt = 4
idleAt = 5
wordCount = 6

word :: Session -> Int -> IO Int
word session = readByteArray (sessionWords session)
{-# INLINE word #-}

setWord :: Session -> Int -> Int -> IO ()
setWord session = writeByteArray (sessionWords session)
{-# INLINE setWord #-}

-- The stages of a connection's end.
data Stage = Open | Noticed | Last
  deriving (Eq, Enum)

stage :: Session -> IO Stage
stage session = toEnum <$> word session stageAt

enter :: Session -> Stage -> IO ()
enter session next = do
  now <- monotonicNanoseconds
  setWord session stageAt (fromEnum next)
  setWord session stageSinceAt (fromIntegral now)

------------------------------------------------------------------------------------------------------------------------
-- Sessions

-- | Serves a connection that begins with these bytes, until it is over and no thread works on it any more. Reports
-- exceptions through the settings. Throws only asynchronous ones. The transport stays open.
runSession :: ServerContext -> Control -> Transport -> ByteString -> Wai.Application -> IO ()
runSession server (Control place) transport input application = mask $ \restore ->
  withEngineSettings (serverEngine server) $ \settings -> do
    engine <- openEngine settings (securityOf transport)
    when (engine == nullPtr) (throwIO (userError "HTTP/2: no memory for a connection"))
    connection <- newConnection server transport engine
    words' <- newByteArray (8 * wordCount)
    mapM_ (\index -> writeByteArray words' index (0 :: Int)) [0 .. wordCount - 1]
    let session = Session connection (withinTotalTime (serverLimits server) application) words'
    writeIORef place (Just session)
    outcome <- try (restore (begin session input))
    endDriving session outcome
    awaitQuiet connection `finally` (writeIORef place Nothing >> freeEngine engine)
    either (\failure -> when (isAsynchronous failure) (throwIO failure)) (const (return ())) outcome

securityOf :: Transport -> Security
securityOf transport = if isJust (negotiated transport) then Protected else ClearText

begin :: Session -> ByteString -> IO Ending
begin session input = do
  now <- monotonicNanoseconds
  flags <- BU.unsafeUseAsCStringLen input $ \(bytes, size) -> feed (engineOf session) (castPtr bytes) size now
  attend session flags

-- How a thread ends its work as the driver.
data Ending
  = -- | The connection is over.
    Ended
  | -- | Another thread is the driver.
    HandedOver

-- The driver has ended. Unless it has handed its role over, no other thread sends or receives any more.
endDriving :: Session -> Either SomeException Ending -> IO ()
endDriving session outcome = case outcome of
  Right HandedOver -> return ()
  Right Ended -> conclude (linger transport lingerMicros)
  Left failure -> do
    unless (isAsynchronous failure) (reportTo server Nothing failure)
    when (isAsynchronous failure) (killTasks connection)
    conclude (return ())
  where
    connection = sessionConnection session
    server = connectionServer connection
    transport = connectionTransport connection
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
attend :: Session -> Flags -> IO Ending
attend session flags = do
  noteHead session flags
  if hasRequests `has` flags
    then do
      slow <- word session slowAt
      when (slow > 0) (setWord session slowAt (slow - 1))
      serveBatch session
    else drive session

-- There is one deadline for a whole head, from its first byte on, and one for the preface.
noteHead :: Session -> Flags -> IO ()
noteHead session flags
  | inHead `has` flags = do
    since <- word session headSinceAt
    when (since == 0) (monotonicNanoseconds >>= setWord session headSinceAt . fromIntegral)
  | otherwise = setWord session headSinceAt 0

-- Sends pending output, and receives.
drive :: Session -> IO Ending
drive session = do
  micros <- patience session
  setWord session idleAt 1
  arrival <- sendAndReceive connection micros
  setWord session idleAt 0
  case arrival of
    Arrived flags -> attend session flags
    EndOfInput -> endOfInput session
    AllSaid -> return Ended
    Silent -> do
      goOn <- keepOrder session
      if goOn then drive session else return Ended
  where
    connection = sessionConnection session

-- The client has ended its side. Present requests are still answered, as far as the windows permit.
endOfInput :: Session -> IO Ending
endOfInput session = do
  flush (sessionConnection session)
  return Ended

-- Serves the requests that have arrived, in this thread if they are quick.
serveBatch :: Session -> IO Ending
serveBatch session = do
  slow <- word session slowAt
  if slow > 0 then spread session >> yield >> drive session else serveHere session

serveHere :: Session -> IO Ending
serveHere session = do
  stream <- nextRequest (engineOf session)
  if stream == nullPtr
    then drive session
    else do
      ticket <- armHandOver (connectionRole connection) (takeOver session)
      join' connection
      outcome <- try (serveStream session stream)
      keeps <- keepsRole (connectionRole connection) ticket
      case outcome of
        Right () | keeps -> leave connection >> serveHere session
        Left failure | keeps -> leave connection >> throwIO (failure :: SomeException)
        _ -> HandedOver <$ endServing session outcome
  where
    connection = sessionConnection session

-- Another thread becomes the driver. It gives each waiting request a thread, because each would otherwise wait for
-- another iteration of the manager, and so would those that follow.
takeOver :: Session -> IO ()
takeOver session = do
  setWord session slowAt slowBatches
  outcome <- newIORef (Right HandedOver)
  asTask (sessionConnection session) (serveBatch session >>= writeIORef outcome . Right) $ \ended -> do
    known <- readIORef outcome
    endDriving session (ended >> known)
  where
    slowBatches = 8

-- Gives each request that has arrived a thread.
spread :: Session -> IO ()
spread session = do
  stream <- nextRequest (engineOf session)
  unless (stream == nullPtr) $ do
    mask_ (task connection (serveStream session stream) (const (continueServing session)))
    spread session
  where
    connection = sessionConnection session

-- A request has ended in the thread that was the driver. If the thread was killed, the server ends.
endServing :: Session -> Either SomeException () -> IO ()
endServing session outcome = do
  when (either (const True) (const False) outcome) $ do
    abort (connectionTransport (sessionConnection session))
    killTasks (sessionConnection session)
  continueServing session
  leave (sessionConnection session)

-- A request has ended in a thread that is not the driver. This thread sends the answer, and starts requests that had to
-- wait because too many were being served.
continueServing :: Session -> IO ()
continueServing session = do
  flushIfNeeded (sessionConnection session)
  spread session

------------------------------------------------------------------------------------------------------------------------
-- Time

-- How long the driver may wait for bytes, in microseconds; 0: no limit.
patience :: Session -> IO Int
patience session = do
  reached <- stage session
  since <- word session headSinceAt
  open <- streamCount (engineOf session)
  case reached of
    Noticed -> return noticeMicros
    _
      | since /= 0 -> do
        now <- monotonicNanoseconds
        return (if headMicros limits == 0 then 0 else max 1 (headMicros limits - (fromIntegral now - since) `quot` 1000))
      | open == 0 -> return (idleMicros limits)
      | sendMicros limits == 0 -> return 0
      | otherwise -> return (max 1 (sendMicros limits `quot` 2))
  where
    limits = limitsOfSession session

-- Time for requests that were on their way when the end was announced.
noticeMicros :: Int
noticeMicros = 250000

-- No bytes have come for so long, or another thread has interrupted the wait. False: the connection ends.
keepOrder :: Session -> IO Bool
keepOrder session = do
  wanted <- readWish connection
  reached <- stage session
  now <- monotonicNanoseconds
  since <- word session headSinceAt
  entered <- word session stageSinceAt
  open <- streamCount engine
  let elapsed moment = (fromIntegral now - moment) `quot` 1000
      hasSlowHead = since /= 0 && headMicros limits > 0 && elapsed since >= headMicros limits
      next
        | wanted == EndNow && reached /= Last = announce EndLast Last
        | wanted == EndSoon && reached == Open = announce EndNotice Noticed
        | reached == Noticed = if elapsed entered >= noticeMicros then announce EndLast Last else return True
        | hasSlowHead = announceEnd engine EndCalm >> flush connection >> return False
        | open == 0 && reached == Last = flush connection >> return False
        | open == 0 = announceEnd engine EndLast >> flush connection >> return False
        | otherwise = do
          count <- resetStalled engine now (1000 * fromIntegral (sendMicros limits))
          when (count > 0) (wakeNow connection)
          return True
  next
  where
    connection = sessionConnection session
    engine = connectionEngine connection
    limits = limitsOfSession session
    announce end next = do
      announceEnd engine end
      enter session next
      return True

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- Serves a request and releases its stream. Throws only asynchronous exceptions.
serveStream :: Session -> Ptr Engine.Stream -> IO ()
serveStream session at = do
  count <- word session requestsAt
  setWord session requestsAt (count + 1)
  thread <- myThreadId
  number <- streamNumber at
  when (count + 1 >= requestsMax limits) (wish connection EndSoon)
  state <- newStreamState
  flags <- streamFlags at
  ended <- streamHasEnded at
  code <- streamMethod at
  said <- newIORef Nothing
  let stream = Stream connection at number thread state said (code == methodCodeConnect)
  when (flags .&. flagExpectContinue /= 0 && not ended) (startExpecting (expectationOf stream))
  when (totalMicros limits > 0) (deadlineAfter (totalMicros limits) >>= writeField state totalDeadline)
  (if ended then serveWithoutBody else serveWithBody) session stream flags `onException` releaseStream at
  void (releaseStream at)
  where
    connection = sessionConnection session
    limits = limitsOfSession session

serveWithoutBody, serveWithBody :: Session -> Stream -> Word32 -> IO ()
serveWithoutBody session stream flags = do
  size <- streamUnread (streamEngine stream)
  if size > 0 then serveWithBody session stream flags else serve session stream flags Nothing
serveWithBody session stream flags = do
  body <- newBodyReader stream (tellToContinue stream)
  serve session stream flags (Just body) `onException` abandonBody body
  endBody body

serve :: Session -> Stream -> Word32 -> Maybe BodyReader -> IO ()
serve session stream flags body = do
  problem <- streamError at
  size <- streamContentLength at
  let known = maybe (KnownLength 0) (const (maybe ChunkedBody (KnownLength . fromIntegral) size)) body
      exchange = exchangeOf (Request stream body)
      service = newService server exchange
      vault = contextVault (Context exchange (serverFiles server))
  (request, protocol) <- makeRequest at (transportPeer transport) (securityOf transport) vault (maybe (return B.empty) readBody body) known
  case refusalOf problem size of
    Just reason -> refuse service request reason
    Nothing -> answerByApplication service (sessionApplication session) (maybe id asUpgrade protocol request) `catch` failed
  where
    at = streamEngine stream
    connection = sessionConnection session
    server = connectionServer connection
    transport = connectionTransport connection
    limits = limitsOfSession session
    refusalOf problem size
      | problem /= 0 = Just (invalidRequestFromError problem)
      | flags .&. flagHttps /= 0 = Just MisdirectedRequest
      | flags .&. flagExpectOther /= 0 = Just UnsupportedExpectation
      | any ((> bodyBytesMax limits) . fromIntegral) size = Just PayloadTooLarge
      | otherwise = Nothing
    refuse :: Service -> Wai.Request -> InvalidRequest -> IO ()
    refuse service request reason = do
      reportTo server Nothing (toException reason)
      answerRefused service (Refusal reason (Wai.requestMethod request) (return (Just request, B.empty))) `catch` failed
    -- The client has gone, or does not take the answer.
    failed failure
      | isAsynchronous failure = throwIO failure
      | otherwise = reportTo server Nothing (failure :: SomeException)

------------------------------------------------------------------------------------------------------------------------
-- Others

-- | A request to end a connection.
data Asked
  = -- | Answer the requests that have arrived, and then end.
    ToFinish
  | -- | End at once, if no request is being served.
    ToGiveWay

withSession :: Control -> a -> (Session -> IO a) -> IO a
withSession (Control place) otherwise' use = readIORef place >>= maybe (return otherwise') use

-- | Whether the connection serves nothing and waits. Nothing before it uses HTTP\/2.
isIdle :: Control -> IO (Maybe Bool)
isIdle control = withSession control Nothing $ \session -> do
  waits <- word session idleAt
  open <- if waits /= 0 then streamCount (engineOf session) else return 1
  return (Just (waits /= 0 && open == 0))

-- | Has all been said?
isLeaving :: Control -> IO Bool
isLeaving control = withSession control False (fmap (== Last) . stage)

-- | The number of requests that have begun.
requestCount :: Control -> IO Int
requestCount control = withSession control 0 (`word` requestsAt)

-- | Asks the connection to end. False before it uses HTTP\/2.
askToEnd :: Control -> Asked -> IO Bool
askToEnd control asked = withSession control False $ \session -> do
  wish (sessionConnection session) $ case asked of
    ToFinish -> EndSoon
    ToGiveWay -> EndNow
  return True
