{-# LANGUAGE ScopedTypeVariables #-}

-- Must not know: responses.

-- |
-- The body of a request, which is read when the application asks for it.
--
-- An application may use the reader in another thread, and keep it after it has returned. So all reading happens under
-- a lock. At the end of the request the reader is disabled under the same lock, and never touches the connection's
-- memory again.
module Millrace.Http.Http1.Body
  ( BodyReader,
    newBodyReader,
    readBody,
    Use (..),
    foreseeEnd,
    finishBody,
    forsakeBody,
    sendContinue,
  )
where

import Control.Concurrent.MVar (MVar, modifyMVar, newMVar, putMVar, takeMVar, tryTakeMVar)
import Control.Exception
  ( SomeException,
    fromException,
    mask_,
    onException,
    throwIO,
    toException,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Internal as BI
import Data.Maybe (isNothing)
import Data.Word (Word64)
import Foreign.Marshal.Utils (copyBytes)
import Millrace.Deadline (Deadline, deadlineAfter, earlier, microseconds, monotonicNanoseconds, noDeadline, seconds)
import Millrace.Http.Exception
import Millrace.Http.Expectation (fulfil)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire
  ( TrailerSection (..),
    chunksConsumed,
    chunksEnd,
    chunksForeseen,
    foreseeChunks,
    initChunks,
    nextChunk,
  )
import Millrace.Http.Server.Limits (Limits (..), Rate (..))
import Millrace.Http.Transport (arrivedBytes, borrowedSize, receiveInto, setReceiveDeadline)

-- | The body of one request.
newtype BodyReader = BodyReader (MVar State)

data State
  = -- | This many bytes are still missing.
    Counted !Int
  | Chunked
  | Finished
  | Failed SomeException

-- | The body of a request whose head has just been taken from the input: of a known length, or chunked.
newBodyReader :: Connection -> Maybe Int -> IO BodyReader
newBodyReader connection size = do
  writeRequest connection bodyReceived 0
  writeRequest connection bodyIsOver False
  refillBudget connection
  case size of
    Just count -> writeRequest connection bodyUnread (UnreadBytes count)
    Nothing -> writeRequest connection bodyUnread UnreadChunks >> (chunks connection >>= (`initChunks` TrailersSkipped))
  BodyReader <$> newMVar (maybe Chunked Counted size)

-- | The next piece of the body, empty at its end. Parks until some of it has arrived. Throws 'ConnectionClosedByPeer'
-- if the body is incomplete, 'BadRequest' if its framing is wrong, and @RequestTimedOut@ if the client is too slow.
-- Later calls throw the same again.
readBody :: Connection -> BodyReader -> IO ByteString
readBody connection (BodyReader variable) = mask_ $ do
  result <- modifyMVar variable $ \state -> case state of
    Finished -> return (Finished, Right B.empty)
    Failed reason -> return (state, Left reason)
    _ -> do
      outcome <- try (step connection state)
      case outcome of
        Right (next, bytes) -> return (next, Right bytes)
        Left failure
          | isAsynchronous failure -> throwIO failure
          | otherwise -> do
            isOver <- readRequest connection bodyIsOver
            let reason = if isOver then toException UsedTooLate else explain failure
            writeRequest connection keepsOpen False -- It is unknown where the next request begins.
            return (Failed reason, Left reason)
  either throwIO return result

explain :: SomeException -> SomeException
explain failure
  | isTimeExpired failure = toException RequestTimedOut
  | otherwise = failure

step :: Connection -> State -> IO (State, ByteString)
step connection state = case state of
  Counted 0 -> return (Finished, B.empty)
  Counted left | left > bodyBytesMax (connectionLimits connection) -> throwIO PayloadTooLarge
  Counted left -> do
    bytes <- takePiece connection left
    let rest = left - B.length bytes
    writeRequest connection bodyUnread (UnreadBytes rest)
    _ <- countReceived connection (B.length bytes)
    return (if rest == 0 then Finished else Counted rest, bytes)
  Chunked -> stepChunked connection
  _ -> return (state, B.empty)

stepChunked :: Connection -> IO (State, ByteString)
stepChunked connection = do
  input <- inputBytes connection
  count <- inputCount connection
  state <- chunks connection
  result <- nextChunk state input count
  chunksConsumed state >>= dropInput connection
  case compare result 0 of
    GT -> do
      received <- countReceived connection result
      when (received > bodyBytesMax (connectionLimits connection)) (throwIO PayloadTooLarge)
      (,) Chunked <$> takeInput connection result
    EQ -> fillBody connection >> stepChunked connection
    LT
      | result == chunksEnd -> writeRequest connection bodyUnread (UnreadBytes 0) >> return (Finished, B.empty)
      | otherwise -> throwIO (invalidRequestFromError result)

-- The size of the body up to the end of this piece.
countReceived :: Connection -> Int -> IO Int
countReceived connection count = do
  received <- (+ count) <$> readRequest connection bodyReceived
  writeRequest connection bodyReceived received
  return received

-- Some of these bytes. More than a buffer holds is received into a separate string, so that it is not copied.
takePiece :: Connection -> Int -> IO ByteString
takePiece connection left = do
  held <- inputCount connection
  arrived <- if held == 0 && left > borrowedSize then arrivedBytes transport else return 0
  if arrived > borrowedSize
    then receivePiece (min left (min pieceMax arrived))
    else available1 connection >>= takeInput connection . min left
  where
    receivePiece size =
      BI.createUptoN size (\target -> receiveBody connection (\deadline -> receiveInto transport deadline target size))
    transport = connectionTransport connection
    pieceMax = 65536

takeInput :: Connection -> Int -> IO ByteString
takeInput connection count = do
  input <- inputBytes connection
  bytes <- BI.create count (\target -> copyBytes target input count)
  dropInput connection count
  return bytes

available1 :: Connection -> IO Int
available1 connection = do
  count <- inputCount connection
  if count > 0 then return count else fillBody connection >> inputCount connection

fillBody :: Connection -> IO ()
fillBody connection = void (receiveBody connection (fillInput connection))

-- Receives more of the body, and returns how much. The client's time runs only while the server waits for it. It starts
-- again whenever the client has sent enough. So a client that sends byte by byte is limited, and an application that
-- reads slowly is not.
receiveBody :: Connection -> (Deadline -> IO Int) -> IO Int
receiveBody connection receive = do
  sendContinue connection
  budget <- readRequest connection bodyBudget
  silence <- phaseDeadline connection (bodyMicros limits)
  deadline <-
    if windowMicros > 0
      then
        earlier silence
          <$> deadlineAfter (microseconds (max 0 budget))
      else return silence
  before <- monotonicNanoseconds
  count <- receive deadline
  after <- monotonicNanoseconds
  when (count == 0) (throwIO ConnectionClosedByPeer)
  progress <- (+ count) <$> readRequest connection bodyProgress
  if progress >= windowBytes
    then refillBudget connection
    else do
      writeRequest connection bodyBudget (budget - microsBetween before after)
      writeRequest connection bodyProgress progress
  return count
  where
    limits = connectionLimits connection
    Rate windowBytes windowMicros = bodyRate limits

refillBudget :: Connection -> IO ()
refillBudget connection = do
  writeRequest connection bodyBudget windowMicros
  writeRequest connection bodyProgress 0
  where
    Rate _ windowMicros = bodyRate (connectionLimits connection)

microsBetween :: Word64 -> Word64 -> Int
microsBetween before after = fromIntegral ((after - before) `div` 1000)

-- | What a response does with the request's body while it is being made.
data Use = MayRead | ReadsNothing
  deriving (Eq)

-- | Call this before a response begins. If the part of the body that has arrived is broken, or is too long to be
-- skipped and the response is not made from it, closes the connection after the response, so that the response can say
-- so (RFC 9112, section 9.6). Another thread that reads the body at this moment decides the same itself.
foreseeEnd :: Connection -> BodyReader -> Use -> IO ()
foreseeEnd connection (BodyReader variable) use =
  mask_ (tryTakeMVar variable >>= mapM_ (\state -> look state >> putMVar variable state))
  where
    look Chunked = do
      result <- foresee connection
      size <- chunks connection >>= chunksForeseen
      received <- readRequest connection bodyReceived
      let isTooLong = size > min (skippedBytesMax limits) (bodyBytesMax limits - received)
      when
        ((result < 0 && result /= chunksEnd) || (isTooLong && use == ReadsNothing))
        (writeRequest connection keepsOpen False)
    look _ = return ()
    limits = connectionLimits connection

-- The state of a chunked body after the bytes that are there: 0 if more must come, 'chunksEnd', or an error.
foresee :: Connection -> IO Int
foresee connection = do
  input <- inputBytes connection
  count <- inputCount connection
  state <- chunks connection
  foreseeChunks state input count

-- | Sends 100 (Continue) if the client waits for it (RFC 9110, section 10.1.1). Only when the application reads the
-- body, and never after the final response has begun. A response that is being made from the body, and of which nothing
-- was sent, has not begun.
sendContinue :: Connection -> IO ()
sendContinue connection = fulfil (connectionExpectation connection) $ do
  _ <- acquireOutput connection
  sendString connection continueResponse

continueResponse :: ByteString
continueResponse = C8.pack "HTTP/1.1 100 Continue\r\n\r\n"

-- | Ends the body when its response is complete: drops the unread part, if that is at most @setMaximumBodyFlush@ bytes.
-- True if the input is now at the next request. Later uses of the reader throw 'UsedTooLate'.
finishBody :: Connection -> BodyReader -> IO Bool
finishBody connection (BodyReader variable) = mask_ $ do
  free <- tryTakeMVar variable
  state <- maybe (takeBack connection variable) return free
  complete <- dropRest state `onException` putMVar variable state
  complete <$ putMVar variable (Failed (toException UsedTooLate))
  where
    dropRest state = case state of
      Finished -> return True
      Failed _ -> return False
      _ -> dropBody connection state

-- Takes the body back from another thread of the application, which waits for more of it. Meanwhile the client may wait
-- for the response; so this sends it. If the connection is to end, also ends the other thread's wait.
takeBack :: Connection -> MVar State -> IO State
takeBack connection variable = do
  flushOutput connection
  keep <- readRequest connection keepsOpen
  if keep
    then takeMVar variable
    else do
      writeRequest connection bodyIsOver True
      deadlineAfter (seconds 0) >>= setReceiveDeadline transport
      takeMVar variable <* setReceiveDeadline transport noDeadline
  where
    transport = connectionTransport connection

-- | Ends the body when an exception ends the session. Later uses of the reader throw 'UsedTooLate'. If another thread
-- of the application waits for more, wakes it with the end of the stream and waits for it, because the connection's
-- memory is released next.
forsakeBody :: Connection -> BodyReader -> IO ()
forsakeBody connection (BodyReader variable) = uninterruptibleMask_ $ do
  state <- tryTakeMVar variable
  when (isNothing state) (breakConnection connection >> void (takeMVar variable))
  putMVar variable (Failed (toException UsedTooLate))

dropBody :: Connection -> State -> IO Bool
dropBody connection state = do
  keep <- readRequest connection keepsOpen
  if not keep
    then return False
    else do
      -- The client may wait for the response before it sends the rest.
      whole <- isWhole connection state
      unless whole (flushOutput connection)
      go state (skippedBytesMax (connectionLimits connection))
  where
    go Finished _ = return True
    go (Counted left) limit | left > limit = return False
    go _ limit | limit < 0 = return False
    go current limit = do
      outcome <- try (step connection current)
      case outcome of
        Right (next, bytes) -> go next (limit - B.length bytes)
        Left failure
          | Just (_ :: InvalidRequest) <- fromException failure -> return False
          | isTimeExpired failure -> return False
          | otherwise -> throwIO failure

-- Whether the whole rest of the body has arrived, provided that it is well-formed.
isWhole :: Connection -> State -> IO Bool
isWhole connection state = case state of
  Counted left -> (>= left) <$> inputCount connection
  Chunked -> (/= 0) <$> foresee connection
  _ -> return True
