-- Must not know: sockets, responses, listeners.

-- |
-- One connection: its transport, the memory it works in, and the moving of bytes between the two under time limits.
--
-- A connection that waits for a request has no memory but a few words ('ConnectionState'). When bytes arrive it holds
-- two borrowed buffers until it waits again. One is the input. The other one is the arena: it has the 'Buffers', the
-- 'RequestState', the state of the C parsers, the table of fields, and the output. Both are the buffers that were given
-- back last, by this connection or another one, and so are still in the cache.
--
-- The arena is another one after each wait. An application may keep body readers and writers for longer than its
-- request: they must make sure that the request is still being served before they touch the arena.
module Millrace.Http.Http1.Connection
  ( Connection (..),
    newConnection,
    connectionPeer,

    -- * Waiting and working
    isIdle,
    isInHead,
    becomeIdle,
    becomeBusy,
    giveWay,
    noteGivingWay,
    hasGivenWay,
    isWorking,
    startWork,
    beginWork,
    endWork,
    startNextRequest,
    Arrival (..),
    readStage,
    writeStage,
    Stage (..),
    countRequest,
    requestCount,
    Output,
    acquireOutput,
    emptyOutput,
    releaseOutput,
    retireEarlyFlush,
    connectionExpectation,
    report,

    -- * The current request
    readRequest,
    writeRequest,
    modifyRequest,
    countSends,
    noteSend,

    -- * C state
    parser,
    chunks,
    headWriter,

    -- * Input
    inputBytes,
    inputCount,
    dropInput,
    fillInput,

    -- * Output
    outputBuffer,
    outputEnd,
    setOutputEnd,
    outputCapacity,
    growOutput,
    flushOutput,
    flushLast,
    flushAhead,
    flushEarlier,
    breakConnection,
    sendBytes,
    sendPieces,
    sendString,
    sendDetached,
    sendFilePart,

    -- * Time limits
    connectionLimits,
    startTotalDeadline,
    clearTotalDeadline,
    setTotalDeadline,
    totalDeadline,
    phaseDeadline,
  )
where

import Control.Exception (SomeException, mask_, onException, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.IORef (IORef, newIORef)
import Data.Int (Int32, Int64)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Millrace.Deadline (Deadline, deadlineAfter, earlier, microseconds, noDeadline)
import Millrace.Http.Delivery
import Millrace.Http.Exchange (Belongings, newBelongings)
import Millrace.Http.Expectation
import Millrace.Http.Field
import Millrace.Http.Http1.Head (Head, headSize)
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Threads (Worker)
import Millrace.Http.Threads.OnYield
import Millrace.Http.Transport
import Network.Wai (Request)
import System.Posix.Types (Fd (..))

-- | An open connection.
data Connection = Connection
  { connectionServer :: !ServerContext,
    connectionTransport :: !Transport,
    -- | The thread that serves it.
    connectionWorker :: !Worker,
    -- | The thread that sends the output early, while an application runs.
    connectionSender :: !Runner,
    connectionBelongings :: !Belongings,
    -- | Threads that wait for something during a request.
    connectionWatchers :: !(IORef [Worker]),
    connectionState :: !ConnectionState
  }

-- | Whether the connection waits for a request of which no byte has come. Any thread may call this.
isIdle :: Connection -> IO Bool
isIdle connection = readField (connectionState connection) isIdleNow

-- | Whether a part of a request's head has come, or empty lines before it, and the connection waits for the rest. Any
-- thread may call this.
isInHead :: Connection -> IO Bool
isInHead connection = do
  reached <- readStage connection
  waits <- isIdle connection
  return (reached == InHead || (reached == BetweenRequests && not waits))

-- | Marks the connection as waiting for a request.
becomeIdle :: Connection -> IO ()
becomeIdle connection = writeField (connectionState connection) isIdleNow True
{-# INLINE becomeIdle #-}

-- | Marks the connection as not waiting.
becomeBusy :: Connection -> IO ()
becomeBusy connection = writeField (connectionState connection) isIdleNow False
{-# INLINE becomeBusy #-}

-- | Receives nothing any more, so that an idle connection ends. A request that has just been received is still
-- answered. Any thread may call this.
giveWay :: Connection -> IO ()
giveWay connection = noteGivingWay connection >> endReceiving (connectionTransport connection)

-- | Notes that the server has ended what is received.
noteGivingWay :: Connection -> IO ()
noteGivingWay connection = writeField (connectionState connection) givesWay True

-- | Was 'giveWay' called?
hasGivenWay :: Connection -> IO Bool
hasGivenWay connection = readField (connectionState connection) givesWay

-- | The phase of the current request, for the case that an exception ends it. Any thread may call this.
readStage :: Connection -> IO Stage
readStage connection = readField (connectionState connection) stage

writeStage :: Connection -> Stage -> IO ()
writeStage connection = writeField (connectionState connection) stage
{-# INLINE writeStage #-}

-- | Counts a complete request head.
countRequest :: Connection -> IO ()
countRequest connection = modifyField (connectionState connection) requestsBegun (+ 1)
{-# INLINE countRequest #-}

-- | The number of complete request heads.
requestCount :: Connection -> IO Int
requestCount connection = readField (connectionState connection) requestsBegun
{-# INLINE requestCount #-}

-- | Whether the connection has its arena. Without it there is neither input nor output.
isWorking :: Connection -> IO Bool
isWorking connection = (/= nullPtr) <$> arena connection
{-# INLINE isWorking #-}

-- | Marks the output as used by this thread alone.
newtype Output = Output Connection

-- | Takes the output back from an early flush, if it was released: cancels the flush, or waits until it is done. The
-- unsent rest of the output has then moved to its beginning, so read its end again. Costs one read if nothing was
-- released.
acquireOutput :: Connection -> IO Output
acquireOutput connection = do
  settle connection (connectionSender connection)
  sent <- readBuffers connection flushedBytes
  when (sent > 0) (dropSent connection sent)
  return (Output connection)
{-# INLINE acquireOutput #-}

-- | The output if there is nothing in it. Then it was not released: costs no more than a look at its end.
emptyOutput :: Connection -> IO (Maybe Output)
emptyOutput connection = do
  end <- outputEnd connection
  return (if end == 0 then Just (Output connection) else Nothing)
{-# INLINE emptyOutput #-}

-- | Lets another thread send the present output as soon as this thread waits for something: see 'arm'. Does
-- nothing if the output is empty. More may be appended meanwhile.
releaseOutput :: Output -> IO ()
releaseOutput (Output connection) = do
  end <- outputEnd connection
  when (end > 0) (releaseUntil connection end)
{-# INLINE releaseOutput #-}

-- Not inlined, to keep the stack small (decision 16).
releaseUntil :: Connection -> Int -> IO ()
releaseUntil connection end = writeBuffers connection flushEnd end >> arm connection
{-# NOINLINE releaseUntil #-}

-- A response that is just being composed must not be sent: it can still be taken back.
dropSent :: Connection -> Int -> IO ()
dropSent connection sent = do
  output <- outputBuffer connection
  end <- outputEnd connection
  start <- readRequest connection responseStart
  moveBytes output (output `plusPtr` sent) (end - sent)
  setOutputEnd connection (end - sent)
  writeRequest connection responseStart (max 0 (start - sent))
  writeBuffers connection flushedBytes 0
{-# NOINLINE dropSent #-}

instance OnYield Connection where
  yieldWord = earlyFlushWord . connectionState
  {-# INLINE yieldWord #-}
  yieldThreads = serverThreads . connectionServer
  onYield connection = runAwaited connection (connectionSender connection) (flushEarly connection)

-- Must not run while another thread sends or takes the output. What precedes the current response is not part of it.
flushEarly :: Connection -> IO ()
flushEarly connection = do
  buffer <- outputBuffer connection
  stop <- readBuffers connection flushEnd
  start <- readRequest connection responseStart
  writeBuffers connection flushedBytes stop
  (if stop > start then sendBytes else sendUnnoted NothingFollows) connection buffer stop

-- | Ends the early flush when the connection is over. Does not wait for the client.
retireEarlyFlush :: Connection -> IO ()
retireEarlyFlush connection =
  uninterruptibleMask_ $ retire connection (connectionSender connection) (abort (connectionTransport connection))

-- | Whether the client waits for 100 (Continue).
connectionExpectation :: Connection -> Expectation
connectionExpectation = Expectation . expectationWord . connectionState
{-# INLINE connectionExpectation #-}

-- | Reports an exception, with the request that was being served: see 'reportTo'.
report :: Connection -> Maybe Request -> SomeException -> IO ()
report = reportTo . connectionServer

------------------------------------------------------------------------------------------------------------------------
-- The arena

arena :: Connection -> IO (Ptr Word8)
arena connection = readField (connectionState connection) arenaAddress
{-# INLINE arena #-}

buffers :: Connection -> IO Buffers
buffers connection = Buffers <$> arena connection
{-# INLINE buffers #-}

readBuffers :: Unboxed a => Connection -> Field Buffers a -> IO a
readBuffers connection field = buffers connection >>= \record -> readField record field
{-# INLINE readBuffers #-}

writeBuffers :: Unboxed a => Connection -> Field Buffers a -> a -> IO ()
writeBuffers connection field value = buffers connection >>= \record -> writeField record field value
{-# INLINE writeBuffers #-}

-- HTTP/1 serves one request at a time: there is one record, and the next request uses it again.
currentRequest :: Connection -> IO RequestState
currentRequest connection = RequestState <$> inArena connection requestOffset
{-# INLINE currentRequest #-}

-- | A field of the request that is being served.
readRequest :: Unboxed a => Connection -> Field RequestState a -> IO a
readRequest connection field = currentRequest connection >>= \record -> readField record field
{-# INLINE readRequest #-}

-- | Writes a field of the request that is being served.
writeRequest :: Unboxed a => Connection -> Field RequestState a -> a -> IO ()
writeRequest connection field value = currentRequest connection >>= \record -> writeField record field value
{-# INLINE writeRequest #-}

-- | Changes a field of the request that is being served with a function.
modifyRequest :: Unboxed a => Connection -> Field RequestState a -> (a -> a) -> IO ()
modifyRequest connection field change = currentRequest connection >>= \record -> modifyField record field change
{-# INLINE modifyRequest #-}

-- The layout of the arena: buffers, request, C state, the table of fields, output.
requestOffset, parserOffset, chunksOffset, headOffset, fieldsOffset :: Int
requestOffset = buffersSize
parserOffset = aligned (requestOffset + requestStateSize)
chunksOffset = aligned (parserOffset + parserSize)
headOffset = aligned (chunksOffset + chunksSize)
fieldsOffset = aligned (headOffset + headSize)

outputOffset :: Connection -> Int
outputOffset connection = fieldsOffset + fieldsMax (connectionLimits connection) * fieldSize
{-# INLINE outputOffset #-}

aligned :: Int -> Int
aligned size = (size + 7) `div` 8 * 8

-- | The parser of request heads. Its result stays valid until the next head.
parser :: Connection -> IO (Ptr Parser)
parser connection = inArena connection parserOffset
{-# INLINE parser #-}

-- | The state of a chunked request body.
chunks :: Connection -> IO (Ptr Chunks)
chunks connection = inArena connection chunksOffset
{-# INLINE chunks #-}

-- | The writer of response heads.
headWriter :: Connection -> IO (Ptr Head)
headWriter connection = inArena connection headOffset
{-# INLINE headWriter #-}

inArena :: Connection -> Int -> IO (Ptr a)
inArena connection offset = (`plusPtr` offset) <$> arena connection
{-# INLINE inArena #-}

-- | A connection on a transport, which the caller must close, and that this thread serves. It has neither input nor
-- output.
newConnection :: ServerContext -> Transport -> Worker -> IO Connection
newConnection server transport worker = do
  sender <- newRunner
  belongings <- newBelongings
  watchers <- newIORef []
  state <- newConnectionState
  return $! Connection server transport worker sender belongings watchers state

-- | The result of waiting for the first bytes of a request.
data Arrival
  = -- | Bytes have arrived, and the connection works.
    Arrived
  | -- | The client has ended its side. The connection waits.
    Ended
  | -- | Nothing was received, because the transport has not taken all of the output. The connection still works. The
    -- rest is in the output, and the input is empty.
    Unsent

-- | Parks a waiting connection until the first bytes of a request arrive, and makes it work on them. Throws
-- @TimeExpired@ after the time limit for idle connections. Before the first request the limit is that for new ones.
beginWork :: Connection -> IO Arrival
beginWork connection = do
  requests <- requestCount connection
  receiveFirst
    (connectionTransport connection)
    (if requests == 0 then freshMicros limits else idleMicros limits)
    (startWork connection)
  where
    limits = connectionLimits connection

-- | Makes a waiting connection work on these bytes. Call it masked, so that the buffer is not lost.
startWork :: Connection -> Received -> IO Arrival
startWork _ EndOfStream = return Ended
startWork connection (Received input count) = do
  own <- borrow `onException` giveBack input
  writeField (connectionState connection) borrowedInput (borrowedBytes input)
  writeField (connectionState connection) arenaAddress (borrowedBytes own)
  layOut connection (borrowedBytes input) count
  return Arrived

-- | Does what 'flushOutput', 'endWork' and 'beginWork' do, with one wake-up for all three if the transport takes the
-- output at once.
startNextRequest :: Connection -> IO Arrival
startNextRequest connection = do
  end <- outputEnd connection
  output <- outputBuffer connection
  inside <- inArena connection (outputOffset connection)
  if end > 0 && output == inside && not (isPaced (connectionPace connection))
    then sendThenBegin connection end
    else flushOutput connection >> endWork connection >> beginWork connection
{-# INLINE startNextRequest #-}

sendThenBegin :: Connection -> Int -> IO Arrival
sendThenBegin connection end = mask_ $ do
  own <- arena connection
  releaseInput connection
  writeField (connectionState connection) arenaAddress nullPtr
  sendThenReceive
    (connectionTransport connection)
    (idleMicros (connectionLimits connection))
    (Slice (borrowedAt own) (outputOffset connection) end)
    (continue own)
  where
    continue own (NotSent sent) = keepRemaining connection own end sent
    continue _ (Sent received) = startWork connection received

-- This many bytes of the output were sent. The connection owns the arena again. It does not own the input, which
-- therefore must not be returned.
keepRemaining :: Connection -> Ptr Word8 -> Int -> Int -> IO Arrival
keepRemaining connection own end sent = do
  writeField (connectionState connection) borrowedInput nullPtr
  writeField (connectionState connection) arenaAddress own
  writeBuffers connection inputBase nullPtr
  output <- outputBuffer connection
  moveBytes output (output `plusPtr` sent) (end - sent)
  setOutputEnd connection (end - sent)
  return Unsent
{-# NOINLINE keepRemaining #-}

layOut :: Connection -> Ptr Word8 -> Int -> IO ()
layOut connection input count = do
  writeBuffers connection inputBase input
  writeBuffers connection inputCapacity borrowedSize
  writeBuffers connection inputStart 0
  writeBuffers connection inputEnd count
  inArena connection (outputOffset connection) >>= writeBuffers connection outputBase
  writeBuffers connection outputSize (borrowedSize - outputOffset connection)
  setOutputEnd connection 0
  writeBuffers connection flushedBytes 0
  writeBuffers connection sendCount 0
  writeRequest connection bodyUnread (UnreadBytes 0)
  writeRequest connection isStreaming False
  clearTotalDeadline connection
  fields <- inArena connection fieldsOffset
  state <- parser connection
  initParser state fields (fieldsMax limits) (headMax limits) (targetMax limits) (headAllowed limits)
  where
    limits = connectionLimits connection

-- | Returns the connection's buffers: it waits from now on. Unsent output and unused input are lost.
endWork :: Connection -> IO ()
endWork connection = mask_ $ do
  own <- arena connection
  when (own /= nullPtr) $ do
    releaseInput connection
    freeOutput connection
    writeField (connectionState connection) arenaAddress nullPtr
    giveBack (borrowedAt own)

-- The input is a borrowed buffer, or allocated memory if it has outgrown that.
releaseInput :: Connection -> IO ()
releaseInput connection = do
  borrowed <- readField (connectionState connection) borrowedInput
  if borrowed /= nullPtr then giveBack (borrowedAt borrowed) else readBuffers connection inputBase >>= free

-- The output is a part of the arena, or allocated memory if it has outgrown that.
freeOutput :: Connection -> IO ()
freeOutput connection = do
  output <- readBuffers connection outputBase
  inside <- inArena connection (outputOffset connection)
  when (output /= inside) (free output)

-- | The first unused byte of the input.
inputBytes :: Connection -> IO (Ptr Word8)
inputBytes connection = plusPtr <$> readBuffers connection inputBase <*> readBuffers connection inputStart
{-# INLINE inputBytes #-}

-- | The number of unused bytes of the input.
inputCount :: Connection -> IO Int
inputCount connection = (-) <$> readBuffers connection inputEnd <*> readBuffers connection inputStart
{-# INLINE inputCount #-}

-- | Removes bytes from the beginning of the input.
dropInput :: Connection -> Int -> IO ()
dropInput connection count = do
  start <- readBuffers connection inputStart
  writeBuffers connection inputStart (start + count)
{-# INLINE dropInput #-}

-- | Receives more bytes. Parks until some arrive. Returns their number, 0 at the end of the stream. Throws
-- @TimeExpired@ when the deadline passes.
fillInput :: Connection -> Deadline -> IO Int
fillInput connection deadline = do
  start <- readBuffers connection inputStart
  stop <- readBuffers connection inputEnd
  capacity <- readBuffers connection inputCapacity
  if start == stop
    then when (start > 0) (writeBuffers connection inputStart 0 >> writeBuffers connection inputEnd 0)
    else when (stop == capacity) (makeInputRoom connection start stop capacity)
  input <- readBuffers connection inputBase
  end <- readBuffers connection inputEnd
  size <- readBuffers connection inputCapacity
  count <- receiveInto (connectionTransport connection) deadline (input `plusPtr` end) (size - end)
  writeBuffers connection inputEnd (end + count)
  return count

-- A head may fill the whole buffer; the parser's limit keeps this from growing without bounds.
makeInputRoom :: Connection -> Int -> Int -> Int -> IO ()
makeInputRoom connection start stop capacity = do
  old <- readBuffers connection inputBase
  if start > 0
    then moveBytes old (old `plusPtr` start) count
    else do
      new <- mallocBytes (2 * capacity)
      copyBytes new old count
      mask_ $ do
        releaseInput connection
        writeBuffers connection inputBase new
        writeField (connectionState connection) borrowedInput nullPtr
      writeBuffers connection inputCapacity (2 * capacity)
  writeBuffers connection inputStart 0
  writeBuffers connection inputEnd count
  where
    count = stop - start

-- | Where the output is composed.
outputBuffer :: Connection -> IO (Ptr Word8)
outputBuffer connection = readBuffers connection outputBase
{-# INLINE outputBuffer #-}

-- | The number of bytes of output that are not sent yet.
outputEnd :: Connection -> IO Int
outputEnd connection = readBuffers connection outputStop
{-# INLINE outputEnd #-}

setOutputEnd :: Connection -> Int -> IO ()
setOutputEnd connection = writeBuffers connection outputStop
{-# INLINE setOutputEnd #-}

-- | The capacity of the output.
outputCapacity :: Connection -> IO Int
outputCapacity connection = readBuffers connection outputSize
{-# INLINE outputCapacity #-}

-- The largest chunk that its size line can announce: a grown output is sent as one chunk.
chunkBytesMax :: Int
chunkBytesMax = 0xffffffff

-- | Doubles the output's capacity until it holds this many bytes, and keeps its content. False if that is more than
-- 'settingsMaxBuilderResponseBufferSize'.
growOutput :: Connection -> Int -> IO Bool
growOutput connection wanted
  | wanted > chunkBytesMax
      || wanted > settingsMaxBuilderResponseBufferSize (serverSettings (connectionServer connection)) =
    return False
  | otherwise = do
    capacity <- outputCapacity connection
    when (wanted > capacity) $ do
      let size = until (>= wanted) (* 2) capacity
      old <- outputBuffer connection
      new <- mallocBytes size
      end <- outputEnd connection
      copyBytes new old end
      mask_ $ do
        freeOutput connection
        writeBuffers connection outputBase new
      writeBuffers connection outputSize size
    return True

-- | Sends the output. Parks until the kernel has taken it.
flushOutput :: Connection -> IO ()
flushOutput = flushBy sendBytes
{-# INLINE flushOutput #-}

-- | Sends the output, when nothing is sent after it.
flushLast :: Connection -> IO ()
flushLast = flushBy (sendBy EndFollows)
{-# NOINLINE flushLast #-}

-- | Sends the output, when more is sent right afterwards: the two can go into one packet.
flushAhead :: Connection -> IO ()
flushAhead = flushBy (sendBy MoreFollows)

-- | Sends the output, when it contains only responses before the current one.
flushEarlier :: Connection -> IO ()
flushEarlier = flushBy (sendUnnoted NothingFollows)

flushBy :: (Connection -> Ptr Word8 -> Int -> IO ()) -> Connection -> IO ()
flushBy sending connection = do
  _ <- acquireOutput connection
  end <- outputEnd connection
  when (end > 0) $ do
    buffer <- outputBuffer connection
    setOutputEnd connection 0
    sending connection buffer end
{-# INLINE flushBy #-}

-- | Ends the connection in both directions, because later bytes would not be where the client expects them.
breakConnection :: Connection -> IO ()
breakConnection connection = do
  writeRequest connection keepsOpen False
  abort (connectionTransport connection)
{-# NOINLINE breakConnection #-}

-- After a send that failed or was interrupted it is unknown how much was sent, and an application may continue in spite
-- of it.
orBreak :: Connection -> IO a -> IO a
orBreak connection action = action `onException` breakConnection connection
{-# INLINE orBreak #-}

-- | Sends bytes from the connection's own memory.
sendBytes :: Connection -> Ptr Word8 -> Int -> IO ()
sendBytes = sendBy NothingFollows

sendBy :: Following -> Connection -> Ptr Word8 -> Int -> IO ()
sendBy following connection bytes count = noteSend connection >> sendUnnoted following connection bytes count
{-# INLINE sendBy #-}

sendUnnoted :: Following -> Connection -> Ptr Word8 -> Int -> IO ()
sendUnnoted following connection bytes count = do
  delivery <- deliveryOf connection
  orBreak connection (deliver delivery following (Piece bytes count))
{-# INLINE sendUnnoted #-}

-- | Sends the output together with more bytes. Returns how many of the latter were sent.
sendPieces :: Connection -> Progress -> ByteString -> IO ()
sendPieces connection progress bytes = do
  _ <- acquireOutput connection
  noteSend connection
  waiting <- outputBuffer connection
  count <- outputEnd connection
  setOutputEnd connection 0
  delivery <- deliveryOf connection
  orBreak connection (deliverTwo delivery (progress . max 0 . subtract count) (Piece waiting count) bytes)

-- | Sends bytes that do not belong to the response. Does not change the output.
sendString :: Connection -> ByteString -> IO ()
sendString connection bytes =
  BU.unsafeUseAsCStringLen bytes $ \(at, count) -> sendUnnoted NothingFollows connection (castPtr at) count

-- | Sends bytes without the arena, for an application that has taken over the connection. Its threads may continue
-- after the connection is over, and then get the transport's error.
sendDetached :: Connection -> ByteString -> IO ()
sendDetached connection bytes =
  BU.unsafeUseAsCStringLen
    bytes
    (\(at, count) -> deliver (deliveryUntil connection noDeadline) NothingFollows (Piece (castPtr at) count))
    `onException` abort (connectionTransport connection)

-- | @sendFilePart connection progress descriptor offset count@ returns the number of bytes sent, which is smaller only
-- if the file ended.
sendFilePart :: Connection -> Progress -> Int32 -> Int64 -> Int64 -> IO Int64
sendFilePart connection progress descriptor offset count = do
  delivery <- deliveryOf connection
  orBreak connection (deliverFile delivery progress (FileSlice (Fd (fromIntegral descriptor)) offset count))

deliveryOf :: Connection -> IO Delivery
deliveryOf connection = deliveryUntil connection <$> totalDeadline connection
{-# INLINE deliveryOf #-}

deliveryUntil :: Connection -> Deadline -> Delivery
deliveryUntil connection = Delivery (connectionTransport connection) (connectionPace connection) (window connection)
{-# INLINE deliveryUntil #-}

connectionPace :: Connection -> Pace
connectionPace = serverPace . connectionServer
{-# INLINE connectionPace #-}

-- | The client's address.
connectionPeer :: Connection -> SockAddr
connectionPeer = transportPeer . connectionTransport
{-# INLINE connectionPeer #-}

window :: Connection -> Window
window = uncurry Window . paceWords . connectionState
{-# INLINE window #-}

-- | Notes that output is handed to the transport, and so cannot be taken back.
noteSend :: Connection -> IO ()
noteSend connection = buffers connection >>= \record -> modifyField record sendCount (+ 1)
{-# INLINE noteSend #-}

-- | The number of times that output was handed to the transport.
countSends :: Connection -> IO Int
countSends connection = readBuffers connection sendCount
{-# INLINE countSends #-}

connectionLimits :: Connection -> Limits
connectionLimits = serverLimits . connectionServer
{-# INLINE connectionLimits #-}

-- | Starts the time limit of the request, if there is one.
startTotalDeadline :: Connection -> IO ()
startTotalDeadline connection = when (micros > 0) $ do
  deadline <- deadlineAfter (microseconds micros)
  writeRequest connection totalDeadlineAt deadline
  where
    micros = totalMicros (connectionLimits connection)
{-# INLINE startTotalDeadline #-}

-- | Lifts the time limit of the request.
clearTotalDeadline :: Connection -> IO ()
clearTotalDeadline connection = setTotalDeadline connection noDeadline
{-# INLINE clearTotalDeadline #-}

-- | Changes the deadline of the current request.
setTotalDeadline :: Connection -> Deadline -> IO ()
setTotalDeadline connection = writeRequest connection totalDeadlineAt
{-# INLINE setTotalDeadline #-}

-- | The deadline of the current request.
totalDeadline :: Connection -> IO Deadline
totalDeadline connection = readRequest connection totalDeadlineAt
{-# INLINE totalDeadline #-}

-- | The deadline of an operation that starts now and may take this many microseconds (0: no limit). It is never later
-- than the request's own deadline.
phaseDeadline :: Connection -> Int -> IO Deadline
phaseDeadline connection micros = do
  total <- totalDeadline connection
  if micros == 0
    then return total
    else
      if total == noDeadline
        then deadlineAfter (microseconds micros)
        else
          earlier total
            <$> deadlineAfter (microseconds micros)
{-# INLINE phaseDeadline #-}
