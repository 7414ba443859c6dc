-- |
-- A request of a connection that carries many at a time, and what its protocol can do for it: HTTP\/2 and HTTP\/3. All that reads and
-- answers such a request works on this interface. Must not know: connections, sockets.
--
-- The functions on it are compiled anew for each protocol (@-fspecialise-aggressively@), so that the interface costs nothing.
module Millrace.Http.Multiplexed.Stream
  ( Multiplexed (..),
    Common (..),
    newCommon,
    stateOf,
    lifeOf,
    dataOf,
    limitsFor,
    remainingMicros,
    isOverdue,
    shorter,
    limitOf,
    expectationOf,
    throwLost,
    readTrailersOf,
    awaitEvent,
    flushStream,
    abortStream,
    resetStream,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (ThreadId, myThreadId)
import Control.Exception (throwIO)
import Control.Monad (when)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.CaseInsensitive as CI
import Data.IORef (IORef, newIORef)
import Data.Word (Word32, Word8)
import Foreign.C.Error (Errno, errnoToIOError)
import Foreign.Ptr (Ptr)
import Millrace.Deadline (deadlineAfter, deadlineFromNanoseconds, deadlineNanoseconds, monotonicNanoseconds, noDeadline)
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Expectation (Expectation (..))
import Millrace.Http.Field (readField, writeField)
import Millrace.Http.Http1.Wire (methodCodeConnect)
import Millrace.Http.Multiplexed.Head (Head, headMethod)
import Millrace.Http.Multiplexed.Life (Life, newLife)
import Millrace.Http.Multiplexed.Piece (Piece)
import Millrace.Http.Multiplexed.Rows
import Millrace.Http.Multiplexed.State (StreamState, expectationWord, newStreamState, totalDeadline)
import Millrace.Http.Server.Context (ServerContext (..))
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Threads.Waiters (Waited)
import Millrace.Http.Trailers (HTTP2Data, mayBeTrailer)
import Millrace.Http.Transport (Negotiated, SockAddr)
import Network.HTTP.Types (RequestHeaders)

-- | What is the same for all protocols.
data Common = Common
  { -- | The thread that serves the request.
    commonThread :: !ThreadId,
    commonState :: !StreamState,
    -- | What other threads do on the stream, they do while the request is alive.
    commonLife :: !Life,
    -- | The 'HTTP2Data' of the response.
    commonData :: !(IORef (Maybe HTTP2Data)),
    -- | Whether the client has sent CONNECT.
    commonIsConnect :: !Bool
  }

-- | For a request that this thread begins to serve.
newCommon :: Limits -> Ptr Head -> IO Common
newCommon limits at = do
  thread <- myThreadId
  state <- newStreamState
  life <- newLife
  code <- headMethod at
  said <- newIORef Nothing
  when (totalMicros limits > 0) (deadlineAfter (totalMicros limits) >>= writeField state totalDeadline)
  return (Common thread state life said (code == methodCodeConnect))

-- | A protocol's streams.
class Multiplexed stream where
  commonOf :: stream -> Common
  serverOf :: stream -> ServerContext

  -- | The address of the client, and what was negotiated with it.
  clientOf :: stream -> SockAddr

  negotiatedOf :: stream -> Maybe Negotiated

  -- | The head of the request, and its copy, which is made once: the fields and the text.
  headOf :: stream -> Ptr Head

  copyHeadOf :: stream -> Ptr Word8 -> IO ()

  -- | The client and the stream, for messages.
  describeStream :: stream -> String

  -- | Notes that a thread throws an exception because the client is gone.
  tellLossOf :: stream -> IO ()

  -- | @awaitEventOf stream prepare event micros attempt@ waits for an event of the stream, as 'Millrace.Http.Threads.Waiters.waitFor'.
  awaitEventOf :: stream -> IO () -> Event -> Maybe Int -> IO (Maybe a) -> IO (Waited a)

  -- | Sends what waits, at once, or unless another thread is about to.
  flushOf, flushIfNeededOf :: stream -> IO ()

  -- | Wakes the threads for which the engine has notices.
  wakeOf :: stream -> IO ()

  -- | Whether the client has ended its side; whether the stream is closed; whether that was before its end; whether the client has left.
  hasEndedOf, isClosedOf, wasResetOf, isLeftOf :: stream -> IO Bool

  -- | Whether the stream is closed. If it is not, there will be a notice.
  awaitCloseOf :: stream -> IO Bool

  -- | The number of unread bytes of the request's body; of bytes that have arrived; of the response's body's bytes that were sent.
  unreadOf, receivedOf, sentOf :: stream -> IO Int

  -- | A number that grows while the client takes what it can of the response.
  progressOf :: stream -> IO Int

  -- | At most this many bytes of the request's body.
  readOf :: stream -> Ptr Word8 -> Int -> IO ReadResult

  -- | Makes all further reads fail.
  endReadingOf :: stream -> IO ()

  -- | The client's trailers.
  trailersOf :: stream -> IO [(ByteString, ByteString)]

  -- | @answerOf stream status fields contentLength firstBytes@ answers, with the first bytes of a body or the whole. Also returns the
  -- length that the fields give. Does nothing if the whole body has another length.
  answerOf :: stream -> Int -> Rows -> ContentLength -> FirstBytes -> IO (Outcome, Maybe Int)

  -- | Takes the answer back. False if part of it was sent.
  takeBackOf :: stream -> IO Bool

  -- | An interim response.
  informOf :: stream -> Int -> Rows -> IO Outcome

  -- | Adds to the body.
  writeOf :: stream -> Ptr Word8 -> Int -> IO Outcome

  -- | Adds the first bytes of a piece to the body, and takes the piece.
  writePieceOf :: stream -> Ptr Piece -> Int -> IO Outcome

  -- | The number of waiting bytes with which a writer may continue.
  outputLowOf :: stream -> Int

  -- | 'Full' while more than this many bytes of the body wait to be sent. There will be a notice.
  awaitOutputOf :: stream -> Int -> IO Outcome

  -- | How many more bytes of the body the client's windows take, at least 1. If they take none, there will be a notice.
  awaitWindowOf :: stream -> IO ReadResult

  -- | Ends the body, with these trailers.
  finishOf :: stream -> Rows -> IO Outcome

  -- | Resets the stream at once: the client does not take what is sent.
  cancelOf :: stream -> IO ()

  -- | Resets the stream at once with an error code of HTTP\/2. False if the protocol has other codes.
  resetOf :: stream -> Word32 -> IO Bool
  resetOf _ _ = return False

  -- | Resets the stream because its handler has failed. What was flushed is sent first.
  failOf :: stream -> IO ()

  -- | What was answered so far can no longer be taken back.
  markFlushedOf :: stream -> IO ()

-- | What the handler has done so far.
stateOf :: Multiplexed stream => stream -> StreamState
stateOf = commonState . commonOf
{-# INLINE stateOf #-}

-- | Whether the request is alive.
lifeOf :: Multiplexed stream => stream -> Life
lifeOf = commonLife . commonOf
{-# INLINE lifeOf #-}

-- | What the application has asked for with @setHTTP2Data@.
dataOf :: Multiplexed stream => stream -> IORef (Maybe HTTP2Data)
dataOf = commonData . commonOf
{-# INLINE dataOf #-}

-- | The limits of the server.
limitsFor :: Multiplexed stream => stream -> Limits
limitsFor = serverLimits . serverOf
{-# INLINE limitsFor #-}

-- | Whether the client waits for 100 (Continue).
expectationOf :: Multiplexed stream => stream -> Expectation
expectationOf = Expectation . expectationWord . stateOf
{-# INLINE expectationOf #-}

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
throwLost :: Multiplexed stream => stream -> Errno -> IO a
throwLost stream errno = do
  tellLossOf stream
  throwIO (errnoToIOError sendingResponse errno Nothing (Just (describeStream stream)))
{-# INLINEABLE throwLost #-}

-- | The trailers of the request, as far as they have come.
readTrailersOf :: Multiplexed stream => stream -> IO RequestHeaders
readTrailersOf stream = filter (mayBeTrailer . fst) . map (first CI.mk) <$> trailersOf stream
{-# INLINEABLE readTrailersOf #-}

-- | Waits for an event of the stream, as 'Millrace.Http.Threads.Waiters.waitFor'. Sends pending output before it parks, because the event may depend on
-- it. For threads that the end of the request waits for.
awaitEvent :: Multiplexed stream => stream -> Event -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
awaitEvent stream = awaitEventOf stream (flushOf stream)
{-# INLINE awaitEvent #-}

-- | Sends what waits. From here on the answer cannot be taken back.
flushStream :: Multiplexed stream => stream -> IO ()
flushStream stream = markFlushedOf stream >> flushOf stream
{-# INLINEABLE flushStream #-}

-- | Ends the stream; only what was flushed is still sent. Threads that wait for the stream find it closed.
abortStream :: Multiplexed stream => stream -> IO ()
abortStream stream = do
  failOf stream
  wakeOf stream
  flushOf stream
{-# INLINEABLE abortStream #-}

-- | Ends the stream with an error code of HTTP\/2. False if the protocol has other codes.
resetStream :: Multiplexed stream => stream -> Word32 -> IO Bool
resetStream stream code = do
  done <- resetOf stream code
  done <$ when done (wakeOf stream >> flushOf stream)
{-# INLINEABLE resetStream #-}
