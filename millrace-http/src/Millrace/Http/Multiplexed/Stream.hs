{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections, sockets.

-- |
-- A request of a connection that carries many at a time: HTTP\/2 and HTTP\/3. All code that reads and answers such a
-- request works on this type.
--
-- Both protocols handle a stream in memory in the same way ("Millrace.Http.Multiplexed.Engine"). Each protocol adds the
-- functions that differ, as a 'Protocol'.
module Millrace.Http.Multiplexed.Stream
  ( Stream,
    Protocol (..),
    newStream,
    serverOf,
    limitsFor,
    clientOf,
    negotiatedOf,
    describeStream,

    -- * What a stream has
    streamEngine,
    threadOf,
    stateOf,
    lifeOf,
    dataOf,
    isConnect,
    expectationOf,

    -- * Time
    remainingMicros,
    isOverdue,
    shorter,
    limitOf,

    -- * What a handler does
    tellLossOf,
    throwLost,
    readOf,
    readTrailersOf,
    awaitEventOf,
    awaitEvent,
    flushOf,
    flushIfNeededOf,
    wakeOf,
    flushStream,
    abortStream,
    cancelOf,
    resetStream,

    -- * The state of a request
    StreamState,
    newStreamState,
    responseBytes,
    declaredLength,
    isStreaming,
    reading,
    totalDeadline,
    writerWaited,
    sentBefore,
    writeIsPartial,
    expectationWord,
    ReadLimits (..),

    -- * The life of a request
    Life,
    newLife,
    whileAlive,
    isAlive,
    endLife,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (ThreadId, myThreadId)
import Control.Concurrent.MVar (MVar, newMVar, putMVar, readMVar, takeMVar, withMVar)
import Control.Exception (throwIO, uninterruptibleMask_)
import Control.Monad (when)
import Data.Bifunctor (first)
import qualified Data.CaseInsensitive as CI
import Data.IORef (IORef, newIORef)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Error (Errno, errnoToIOError)
import Foreign.Ptr (Ptr)
import Millrace.Deadline
  ( Deadline,
    deadlineAfter,
    deadlineFromNanoseconds,
    deadlineNanoseconds,
    microseconds,
    monotonicNanoseconds,
    noDeadline,
  )
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Expectation (Expectation (..))
import Millrace.Http.Field
import Millrace.Http.Http1.Wire (methodCodeConnect)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Head (headMethod)
import Millrace.Http.Multiplexed.Rows (Event, ReadResult)
import Millrace.Http.Server.Context (ServerContext (..))
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Threads (Waited)
import Millrace.Http.Trailers (HTTP2Data, mayBeTrailer)
import Millrace.Http.Transport (Negotiated, SockAddr)
import Millrace.Internal.AtomicWord (AtomicWord)
import Network.HTTP.Types (RequestHeaders)

-- | The functions of a protocol for its streams. Each stream has a value of this type.
data Protocol own = Protocol
  { protocolServer :: own -> ServerContext,
    -- | The address of the client, and what was negotiated with it.
    protocolClient :: own -> SockAddr,
    protocolNegotiated :: own -> Maybe Negotiated,
    -- | The client and the stream, for messages.
    protocolDescribes :: own -> String,
    -- | Notes that a thread throws an exception because the client is gone.
    protocolTellLoss :: own -> IO (),
    -- | @protocolAwait own prepare key micros attempt@ waits for a notice with this key, as
    -- 'Millrace.Http.Threads.waitFor'.
    protocolAwait :: forall a. own -> IO () -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a),
    -- | Sends what waits, at once, or unless another thread is about to.
    protocolFlush, protocolFlushIfNeeded :: own -> IO (),
    -- | Wakes the threads for which the engine has notices.
    protocolWake :: own -> IO (),
    -- | Bytes of the request's body were read, which may open the client's window.
    protocolHasRead :: own -> IO (),
    -- | Its error code that means the same as this one of HTTP\/2 (RFC 9113, section 7).
    protocolErrorCode :: Word32 -> Word64
  }

-- | A request that is served.
data Stream = forall own.
  Stream
  { streamProtocol :: !(Protocol own),
    streamOwn :: !own,
    -- | Its record in C.
    streamEngine :: !(Ptr Engine.Stream),
    -- | Under which threads wait for its events.
    streamNoticeKey :: !Int,
    -- | The server.
    serverOf :: !ServerContext,
    -- | The thread that serves the request.
    threadOf :: !ThreadId,
    -- | What the handler has done so far.
    stateOf :: !StreamState,
    -- | Whether the request is alive. Other threads may use the stream only while it is.
    lifeOf :: !Life,
    -- | What the application has asked for with @setHTTP2Data@.
    dataOf :: !(IORef (Maybe HTTP2Data)),
    -- | Whether the client has sent CONNECT.
    isConnect :: !Bool
  }

-- | For a request that this thread begins to serve.
newStream :: Protocol own -> own -> Ptr Engine.Stream -> IO Stream
newStream protocol own at = do
  key <- Engine.streamKey at
  thread <- myThreadId
  state <- newStreamState
  life <- newLife
  code <- headMethod (Engine.streamHead at)
  said <- newIORef Nothing
  when (totalMicros limits > 0) (deadlineAfter (microseconds (totalMicros limits)) >>= writeField state totalDeadline)
  return (Stream protocol own at key server thread state life said (code == methodCodeConnect))
  where
    server = protocolServer protocol own
    limits = serverLimits server

-- A function of the protocol.
byProtocol :: (forall own. Protocol own -> own -> a) -> Stream -> a
byProtocol use Stream {streamProtocol = protocol, streamOwn = own} = use protocol own
{-# INLINE byProtocol #-}

-- | The limits of the server.
limitsFor :: Stream -> Limits
limitsFor = serverLimits . serverOf

-- | The address of the client.
clientOf :: Stream -> SockAddr
clientOf = byProtocol protocolClient

-- | What was negotiated with it.
negotiatedOf :: Stream -> Maybe Negotiated
negotiatedOf = byProtocol protocolNegotiated

-- | The client and the stream, for messages.
describeStream :: Stream -> String
describeStream = byProtocol protocolDescribes

-- | Notes that a thread throws an exception because the client is gone.
tellLossOf :: Stream -> IO ()
tellLossOf = byProtocol protocolTellLoss

-- | Sends what waits, at once, or unless another thread is about to.
flushOf, flushIfNeededOf :: Stream -> IO ()
flushOf = byProtocol protocolFlush
flushIfNeededOf = byProtocol protocolFlushIfNeeded

-- | Wakes the threads for which the engine has notices.
wakeOf :: Stream -> IO ()
wakeOf = byProtocol protocolWake

-- | @awaitEventOf stream prepare event micros attempt@ waits for an event of the stream, as
-- 'Millrace.Http.Threads.waitFor'.
awaitEventOf :: Stream -> IO () -> Event -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
awaitEventOf Stream {streamProtocol = protocol, streamOwn = own, streamNoticeKey = key} prepare event =
  protocolAwait protocol own prepare (Engine.noticeKey key event)

-- | At most this many bytes of the request's body.
readOf :: Stream -> Ptr Word8 -> Int -> IO ReadResult
readOf stream target size = Engine.readStream (streamEngine stream) target size <* byProtocol protocolHasRead stream

-- | Resets the stream at once: the client does not take what is sent.
cancelOf :: Stream -> IO ()
cancelOf stream = resetWith stream 8 -- CANCEL

resetWith :: Stream -> Word32 -> IO ()
resetWith stream code =
  Engine.resetStreamWith (streamEngine stream) (byProtocol (\protocol _ -> protocolErrorCode protocol) stream code)

-- | Whether the client waits for 100 (Continue).
expectationOf :: Stream -> Expectation
expectationOf = Expectation . expectationWord . stateOf

-- | How long a wait for the client may take, in microseconds; at least 1. 'Nothing': no limit.
remainingMicros :: StreamState -> IO (Maybe Int)
remainingMicros state = do
  deadline <- readField state totalDeadline
  if deadline == noDeadline
    then return Nothing
    else do
      now <- monotonicNanoseconds
      return (Just (max 1 ((fromIntegral (deadlineNanoseconds deadline) - fromIntegral now) `quot` 1000)))

-- | Whether the deadline of all waiting has passed.
isOverdue :: StreamState -> IO Bool
isOverdue state = do
  deadline <- readField state totalDeadline
  now <- monotonicNanoseconds
  return (deadline <= deadlineFromNanoseconds now)

-- | The shorter of two limits, if there is one.
shorter :: Maybe Int -> Maybe Int -> Maybe Int
shorter (Just one) (Just other) = Just (min one other)
shorter one other = one <|> other

-- | A limit of the settings, where 0 means no limit.
limitOf :: Int -> Maybe Int
limitOf 0 = Nothing
limitOf micros = Just micros

-- | Throws the error of sending to a client that does not receive.
throwLost :: Stream -> Errno -> IO a
throwLost stream errno = do
  tellLossOf stream
  throwIO (errnoToIOError sendingResponse errno Nothing (Just (describeStream stream)))

-- | The trailers of the request, as far as they have come.
readTrailersOf :: Stream -> IO RequestHeaders
readTrailersOf stream = filter (mayBeTrailer . fst) . map (first CI.mk) <$> Engine.readTrailers (streamEngine stream)

-- | Waits for an event of the stream, as 'Millrace.Http.Threads.waitFor'. Sends pending output before it parks,
-- because the event may depend on it. For threads that the end of the request waits for.
awaitEvent :: Stream -> Event -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
awaitEvent stream = awaitEventOf stream (flushOf stream)
{-# INLINE awaitEvent #-}

-- | Sends what waits. From here on the answer cannot be taken back.
flushStream :: Stream -> IO ()
flushStream stream = Engine.markFlushed (streamEngine stream) >> flushOf stream

-- | Ends the stream; only what was flushed is still sent. Threads that wait for the stream find it closed.
abortStream :: Stream -> IO ()
abortStream stream = do
  Engine.failStream (streamEngine stream)
  wakeOf stream
  flushOf stream

-- | Ends the stream with the error code that means the same as this one of HTTP\/2.
resetStream :: Stream -> Word32 -> IO ()
resetStream stream code = do
  resetWith stream code
  wakeOf stream
  flushOf stream

------------------------------------------------------------------------------------------------------------------------
-- The state of a request

-- | The state of one request and its response.
type StreamState = Words StreamField

-- | The names of its words.
data StreamField
  = ResponseBytes
  | DeclaredLength
  | IsStreaming
  | ExpectationWord
  | ReadingNow
  | TotalDeadline
  | WriterWaited
  | SentBefore
  | WriteIsPartial
  deriving (Bounded, Enum)

-- | The state of a new request: no response, no limits.
newStreamState :: IO StreamState
newStreamState = do
  state <- newWords
  writeField state responseBytes Nothing
  writeField state declaredLength Nothing
  return state

-- | The number of the response's body's bytes so far, if it has a body.
responseBytes :: Field StreamState (Maybe Int)
responseBytes = named ResponseBytes

-- | The length that the response's head declares, if it declares one.
declaredLength :: Field StreamState (Maybe Int)
declaredLength = named DeclaredLength

-- | Whether the application's code for a stream runs in the thread that serves the request.
isStreaming :: Field StreamState Bool
isStreaming = named IsStreaming

-- | The word of "Millrace.Http.Expectation".
expectationWord :: StreamState -> AtomicWord
expectationWord = atomicWord ExpectationWord

-- | The rule for reading the request's body.
reading :: Field StreamState ReadLimits
reading = named ReadingNow

-- | The deadline of all waiting for the client.
totalDeadline :: Field StreamState Deadline
totalDeadline = named TotalDeadline

-- | The nanoseconds for which the response's writer has waited for the client since the last check of its rate, and the
-- progress until then, in bytes.
writerWaited, sentBefore :: Field StreamState Int
writerWaited = named WriterWaited
sentBefore = named SentBefore

-- | Whether a write of the application has passed a part of its bytes on, and not yet the rest.
writeIsPartial :: Field StreamState Bool
writeIsPartial = named WriteIsPartial

-- | The time limits for reading the request's body.
data ReadLimits
  = WithinTimeLimits
  | WithoutTimeLimits
  | -- | The request is over. Another thread of the application may still wait for more.
    Over
  deriving (Eq, Enum)

instance Unboxed ReadLimits where
  toWord = fromEnum
  {-# INLINE toWord #-}
  fromWord = toEnum
  {-# INLINE fromWord #-}

------------------------------------------------------------------------------------------------------------------------
-- The life of a request

-- | The life of one request.
newtype Life = Life (MVar LifeState)

data LifeState
  = Alive
  | -- | The trailers of the request.
    Ended RequestHeaders

-- | The life of a new request.
newLife :: IO Life
newLife = Life <$> newMVar Alive

-- | @whileAlive life ended action@ runs the action if the request is alive, which it stays meanwhile. Otherwise runs
-- @ended@, with the trailers that the request had. Any thread may call this. The action must be short, because the end
-- waits for it, and must not use the life.
whileAlive :: Life -> (RequestHeaders -> IO a) -> IO a -> IO a
whileAlive (Life state) ended action = withMVar state choose
  where
    choose Alive = action
    choose (Ended trailers) = ended trailers
{-# INLINEABLE whileAlive #-}

-- | Whether it is alive. Only the thread that ends the life knows that it stays so.
isAlive :: Life -> IO Bool
isAlive (Life state) = alive <$> readMVar state
  where
    alive Alive = True
    alive (Ended _) = False

-- | Ends the life. The action reads the trailers.
endLife :: Life -> IO RequestHeaders -> IO ()
endLife (Life state) readLast = uninterruptibleMask_ (takeMVar state >> readLast >>= putMVar state . Ended)
{-# INLINEABLE endLife #-}
