-- |
-- One connection: its transport, the memory it works in, and the moving of bytes between the two under time limits. Must
-- not know: requests, responses.
--
-- A connection that waits for a request has no memory but a few words. When bytes arrive it holds two borrowed buffers until
-- it waits again: the input, and the /arena/, which has the registers, the state of the C parsers and the output. Both
-- are the ones that were given back last, by this connection or another one, and so are still in the cache.
--
-- The registers are unboxed words, because they change with every request: in an @IORef@ each change would allocate a box
-- and mark the reference for the collector. Whatever an application may keep for longer than its request (body readers
-- and writers) must not touch them without asking first whether its request is still being served.
module Millrace.Http.Http1.Connection
  ( Connection (..),
    newConnection,
    connectionPeer,

    -- * Waiting and working
    isIdle,
    setIdle,
    isWorking,
    beginWork,
    endWork,
    startNextRequest,
    noteOpened,
    wasOpened,
    readPhase,
    writePhase,
    betweenRequests,
    inHead,
    inRequest,
    inResponse,
    inFarewell,
    countRequest,
    requestCount,
    armEarlyFlush,
    settleEarlyFlush,
    retireEarlyFlush,
    connectionExpectation,
    report,

    -- * Registers
    Register,
    readRegister,
    writeRegister,
    keepRegister,
    bodyPendingRegister,
    bodyBudgetRegister,
    bodyProgressRegister,
    responseStartRegister,
    responseSendsRegister,
    sendsRegister,
    streamModeRegister,
    streamLeftRegister,
    chunkStartRegister,
    closeOptionRegister,
    responseBytesRegister,
    bodyReceivedRegister,
    bodyIsOverRegister,
    streamingRegister,

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
    totalDeadline,
    phaseDeadline,
  )
where

import Control.Exception (SomeException, mask_, onException, uninterruptibleMask_)
import Control.Monad (when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.IORef (IORef)
import Data.Int (Int32, Int64)
import Data.Primitive.ByteArray (MutableByteArray, newByteArray, readByteArray, setByteArray, writeByteArray)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, nullPtr, plusPtr, ptrToIntPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Deadline (Deadline, deadlineAfter, deadlineFromNanoseconds, deadlineNanoseconds, earlier, noDeadline)
import Millrace.Http.Delivery
import Millrace.Http.EarlyFlush
import Millrace.Http.Expectation
import Millrace.Http.Http1.Wire
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.Worker (Worker, newWorker)
import Millrace.Http.Transport
import Millrace.Http.Transport.Buffer
import Network.Wai (Request)
import System.Posix.Types (Fd (..))

-- | An open connection.
data Connection = Connection
  { connectionServer :: !ServerContext,
    connectionTransport :: !Transport,
    -- | The thread that serves it.
    connectionWorker :: !Worker,
    -- | Who sends the output while an application is at work.
    connectionSender :: !(IORef Sender),
    -- | What outlives a request, by 'Place'.
    connectionPlaces :: !(MutableByteArray RealWorld)
  }

-- Where in 'connectionPlaces' a word is.
newtype Place = Place Int

-- The address of the arena, 0: the connection waits; and that of the borrowed input buffer, 0: there is none, or the input
-- has outgrown it.
arenaPlace, inputPlace :: Place
arenaPlace = Place 0
inputPlace = Place 1

-- Is it waiting for a request, of which there is nothing yet? Where in the life of a request is it? How many have there
-- been?
idlePlace, phasePlace, requestsPlace :: Place
idlePlace = Place 2
phasePlace = Place 3
requestsPlace = Place 4

-- The state of the early flush.
flushPlace :: Int
flushPlace = 5

-- Two words for the pace of sending.
windowPlace :: Int
windowPlace = 6

-- Has setOnOpen's action let it in?
openedPlace :: Place
openedPlace = Place 8

-- Does the client wait for 100 (Continue)?
expectationPlace :: Int
expectationPlace = 9

placeCount :: Int
placeCount = 10

readPlace :: Connection -> Place -> IO Int
readPlace connection (Place index) = readByteArray (connectionPlaces connection) index
{-# INLINE readPlace #-}

writePlace :: Connection -> Place -> Int -> IO ()
writePlace connection (Place index) = writeByteArray (connectionPlaces connection) index
{-# INLINE writePlace #-}

-- | Is the connection waiting for a request, of which there is nothing yet? May be asked by any thread.
isIdle :: Connection -> IO Bool
isIdle connection = (/= 0) <$> readPlace connection idlePlace

setIdle :: Connection -> Bool -> IO ()
setIdle connection idle = writePlace connection idlePlace (fromEnum idle)
{-# INLINE setIdle #-}

-- | Who opened the connection will have it closed. (Not in an @IORef@ on its thread's stack: with another word that no longer
-- fits into what a thread starts with, see decision 9.)
noteOpened :: Connection -> IO ()
noteOpened connection = writePlace connection openedPlace 1

-- | Was it?
wasOpened :: Connection -> IO Bool
wasOpened connection = (/= 0) <$> readPlace connection openedPlace

-- | Where in the life of a request the connection is, for when an exception ends it.
readPhase :: Connection -> IO Int
readPhase connection = readPlace connection phasePlace

writePhase :: Connection -> Int -> IO ()
writePhase connection = writePlace connection phasePlace
{-# INLINE writePhase #-}

-- | The phases of a connection.
betweenRequests, inHead, inRequest, inResponse, inFarewell :: Int
betweenRequests = 0
inHead = 1
inRequest = 2
inResponse = 3
inFarewell = 4

-- | Counts a complete request head.
countRequest :: Connection -> IO ()
countRequest connection = requestCount connection >>= writePlace connection requestsPlace . (+ 1)
{-# INLINE countRequest #-}

-- | How many request heads were complete.
requestCount :: Connection -> IO Int
requestCount connection = readPlace connection requestsPlace
{-# INLINE requestCount #-}

-- | Does the connection have its arena? Without it there is neither input nor output.
isWorking :: Connection -> IO Bool
isWorking connection = (/= 0) <$> readPlace connection arenaPlace
{-# INLINE isWorking #-}

-- | Sends what the output holds now as soon as the thread waits for something, unless that is settled before: see 'armFlush'.
-- More may be appended meanwhile.
armEarlyFlush :: Connection -> IO ()
armEarlyFlush connection = do
  outputEnd connection >>= writeRegister connection earlyStop
  armFlush connection
{-# INLINE armEarlyFlush #-}

-- | Calls it off, or waits until it is done. What is left of the output is at its beginning then: whoever was about to
-- append must look anew where.
settleEarlyFlush :: Connection -> IO ()
settleEarlyFlush connection = do
  settleFlush connection
  sent <- readRegister connection earlySent
  when (sent > 0) (dropSent connection sent)
{-# INLINE settleEarlyFlush #-}

-- A response that is just being composed stays one that can be taken back.
dropSent :: Connection -> Int -> IO ()
dropSent connection sent = do
  output <- outputBuffer connection
  end <- outputEnd connection
  start <- readRegister connection responseStartRegister
  moveBytes output (output `plusPtr` sent) (end - sent)
  setOutputEnd connection (end - sent)
  writeRegister connection responseStartRegister (max 0 (start - sent))
  writeRegister connection earlySent 0
{-# NOINLINE dropSent #-}

instance FlushesEarly Connection where
  flushState connection = (connectionPlaces connection, flushPlace)
  {-# INLINE flushState #-}
  flushSender = connectionSender
  flushFlushers = serverFlushers . connectionServer
  flushNow = flushEarly

-- Not to be run while anybody else sends or takes the output away. What comes before the current response is no part of it.
flushEarly :: Connection -> IO ()
flushEarly connection = do
  buffer <- outputBuffer connection
  stop <- readRegister connection earlyStop
  start <- readRegister connection responseStartRegister
  writeRegister connection earlySent stop
  (if stop > start then sendBytes else sendUnnoted NothingFollows) connection buffer stop

-- | The same when the connection is over: the client is not waited for.
retireEarlyFlush :: Connection -> IO ()
retireEarlyFlush connection = uninterruptibleMask_ $ retireFlush connection (abort (connectionTransport connection))

-- | Does the client wait for 100 (Continue)?
connectionExpectation :: Connection -> Expectation
connectionExpectation connection = Expectation (connectionPlaces connection) expectationPlace
{-# INLINE connectionExpectation #-}

-- | Reports an exception, with the request that was being served: see 'reportTo'.
report :: Connection -> Maybe Request -> SomeException -> IO ()
report = reportTo . connectionServer

pointer :: Int -> Ptr a
pointer = intPtrToPtr . IntPtr
{-# INLINE pointer #-}

address :: Ptr a -> Int
address place = let IntPtr number = ptrToIntPtr place in number
{-# INLINE address #-}

arena :: Connection -> IO (Ptr Word8)
arena connection = pointer <$> readPlace connection arenaPlace
{-# INLINE arena #-}

-- | A word of the arena.
newtype Register = Register Int

readRegister :: Connection -> Register -> IO Int
readRegister connection (Register offset) = arena connection >>= \base -> peekByteOff base offset
{-# INLINE readRegister #-}

writeRegister :: Connection -> Register -> Int -> IO ()
writeRegister connection (Register offset) value = arena connection >>= \base -> pokeByteOff base offset value
{-# INLINE writeRegister #-}

register :: Int -> Register
register number = Register (8 * number)

-- Input: address, capacity, and the part that holds bytes.
inputAddress, inputCapacity, inputStart, inputStop :: Register
inputAddress = register 0
inputCapacity = register 1
inputStart = register 2
inputStop = register 3

-- Output: address, capacity, and the end of what is to be sent.
outputAddress, outputSize, outputStop :: Register
outputAddress = register 4
outputSize = register 5
outputStop = register 6

-- How far an early flush of it may go, and how far one has come: what is to be sent begins there.
earlyStop, earlySent :: Register
earlyStop = register 24
earlySent = register 25

-- | Does the connection stay open after the current response?
keepRegister :: Register
keepRegister = register 7

-- | Bytes of request body that were not read yet: exact, or -1 for an unfinished chunked body.
bodyPendingRegister :: Register
bodyPendingRegister = register 9

-- | Microseconds that the client may still take for its next bytes of body, and bytes since this was last refilled.
bodyBudgetRegister, bodyProgressRegister :: Register
bodyBudgetRegister = register 10
bodyProgressRegister = register 11

-- | Where in the output the current response starts, and the value of 'sendsRegister' then: while that has not
-- changed, nothing of the response was sent.
responseStartRegister, responseSendsRegister :: Register
responseStartRegister = register 12
responseSendsRegister = register 13

-- | Number of times that output was handed to the socket; interim responses do not count.
sendsRegister :: Register
sendsRegister = register 14

-- | How the body being streamed is framed, how many bytes it still may have, and where in the output the size line of
-- its open chunk is (-1: none).
streamModeRegister, streamLeftRegister, chunkStartRegister :: Register
streamModeRegister = register 15
streamLeftRegister = register 16
chunkStartRegister = register 17

-- | Where in the output a head may still be told to say that the connection ends (-1: that is settled).
closeOptionRegister :: Register
closeOptionRegister = register 18

-- | Bytes of body of the last response.
responseBytesRegister :: Register
responseBytesRegister = register 19

-- | Bytes of request body that the application was given.
bodyReceivedRegister :: Register
bodyReceivedRegister = register 20

-- | Has the request ended while a thread of the application's waits for more of its body?
bodyIsOverRegister :: Register
bodyIsOverRegister = register 8

-- | Does the application's code for a stream run, in the connection's own thread?
streamingRegister :: Register
streamingRegister = register 23

-- When the current request must be over; 0: there is no limit.
totalDeadlineRegister :: Register
totalDeadlineRegister = register 21

-- How the arena is laid out: registers, C state, the table of fields, output.
parserOffset, chunksOffset, headOffset, fieldsOffset :: Int
parserOffset = 8 * 26
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

-- | A connection on a transport, which stays the caller's to close. It waits, nobody is at work on it, and it has neither input
-- nor output.
newConnection :: ServerContext -> Transport -> IO Connection
newConnection server transport = do
  worker <- newWorker
  places <- newByteArray (8 * placeCount)
  setByteArray places 0 placeCount (0 :: Int)
  sender <- newSender
  return $! Connection server transport worker sender places

-- | Parks a waiting connection until the first bytes of a request arrive, and makes it work on them. Their number, 0 at
-- the end of the stream: it then goes on waiting. Throws @TimeExpired@ after the time limit for idle connections.
beginWork :: Connection -> IO Int
beginWork connection =
  receiveFirst (connectionTransport connection) (idleMicros (connectionLimits connection)) (startWork connection)

-- Masked, for the buffer's sake.
startWork :: Connection -> Received -> IO Int
startWork _ EndOfStream = return 0
startWork connection (Received input count) = do
  place <- borrow `onException` giveBack input
  writePlace connection inputPlace (address (borrowedBytes input))
  writePlace connection arenaPlace (address (borrowedBytes place))
  layOut connection (borrowedBytes input) count
  return count

-- | 'flushOutput', 'endWork' and 'beginWork' with one wake-up for all three, if the socket takes the output at once. If not,
-- the result is -1, and the connection still works: what has not gone is in the output, and the input is empty.
startNextRequest :: Connection -> IO Int
startNextRequest connection = do
  end <- outputEnd connection
  output <- outputBuffer connection
  inside <- inArena connection (outputOffset connection)
  if end > 0 && output == inside && not (isPaced (connectionPace connection))
    then exchange connection end
    else flushOutput connection >> endWork connection >> beginWork connection
{-# INLINE startNextRequest #-}

exchange :: Connection -> Int -> IO Int
exchange connection end = mask_ $ do
  place <- readPlace connection arenaPlace
  releaseInput connection
  writePlace connection arenaPlace 0
  sendThenReceive
    (connectionTransport connection)
    (idleMicros (connectionLimits connection))
    (Slice (borrowedAt (pointer place)) (outputOffset connection) end)
    (continue place)
  where
    continue place (NotSent sent) = keepRemaining connection place end sent
    continue _ (Sent received) = startWork connection received

-- The arena is ours again; the input is not, and nothing is to be given back for it.
keepRemaining :: Connection -> Int -> Int -> Int -> IO Int
keepRemaining connection place end sent = do
  writePlace connection inputPlace 0
  writePlace connection arenaPlace place
  writeAddress connection inputAddress nullPtr
  output <- outputBuffer connection
  moveBytes output (output `plusPtr` sent) (end - sent)
  setOutputEnd connection (end - sent)
  return (-1)
{-# NOINLINE keepRemaining #-}

layOut :: Connection -> Ptr Word8 -> Int -> IO ()
layOut connection input count = do
  writeAddress connection inputAddress input
  writeRegister connection inputCapacity borrowedSize
  writeRegister connection inputStart 0
  writeRegister connection inputStop count
  inArena connection (outputOffset connection) >>= writeAddress connection outputAddress
  writeRegister connection outputSize (borrowedSize - outputOffset connection)
  setOutputEnd connection 0
  writeRegister connection earlySent 0
  writeRegister connection sendsRegister 0
  writeRegister connection bodyPendingRegister 0
  writeRegister connection streamingRegister 0
  clearTotalDeadline connection
  fields <- inArena connection fieldsOffset
  state <- parser connection
  initParser state fields (fieldsMax limits) (headMax limits) (targetMax limits) (headAllowed limits)
  where
    limits = connectionLimits connection

-- | Gives back what the connection works with: from here on it waits. What was not sent and not used is lost.
endWork :: Connection -> IO ()
endWork connection = mask_ $ do
  place <- readPlace connection arenaPlace
  when (place /= 0) $ do
    releaseInput connection
    releaseOutput connection
    writePlace connection arenaPlace 0
    giveBack (borrowedAt (pointer place))

-- The input is in a borrowed buffer, or has outgrown that.
releaseInput :: Connection -> IO ()
releaseInput connection = do
  borrowed <- readPlace connection inputPlace
  if borrowed /= 0 then giveBack (borrowedAt (pointer borrowed)) else readAddress connection inputAddress >>= free

-- The output is a part of the arena, or has outgrown it.
releaseOutput :: Connection -> IO ()
releaseOutput connection = do
  output <- readAddress connection outputAddress
  inside <- inArena connection (outputOffset connection)
  when (output /= inside) (free output)

readAddress :: Connection -> Register -> IO (Ptr Word8)
readAddress connection number = pointer <$> readRegister connection number
{-# INLINE readAddress #-}

writeAddress :: Connection -> Register -> Ptr Word8 -> IO ()
writeAddress connection number = writeRegister connection number . address
{-# INLINE writeAddress #-}

-- | The first byte that was received and not used yet.
inputBytes :: Connection -> IO (Ptr Word8)
inputBytes connection = plusPtr <$> readAddress connection inputAddress <*> readRegister connection inputStart
{-# INLINE inputBytes #-}

-- | How many bytes were received and not used yet.
inputCount :: Connection -> IO Int
inputCount connection = (-) <$> readRegister connection inputStop <*> readRegister connection inputStart
{-# INLINE inputCount #-}

-- | Takes bytes off the input.
dropInput :: Connection -> Int -> IO ()
dropInput connection count = do
  start <- readRegister connection inputStart
  writeRegister connection inputStart (start + count)
{-# INLINE dropInput #-}

-- | Receives more bytes; parks until some arrive. Their number, 0 at the end of the stream. Throws @TimeExpired@ when
-- the deadline passes.
fillInput :: Connection -> Deadline -> IO Int
fillInput connection deadline = do
  start <- readRegister connection inputStart
  stop <- readRegister connection inputStop
  capacity <- readRegister connection inputCapacity
  if start == stop
    then when (start > 0) (writeRegister connection inputStart 0 >> writeRegister connection inputStop 0)
    else when (stop == capacity) (makeInputRoom connection start stop capacity)
  input <- readAddress connection inputAddress
  end <- readRegister connection inputStop
  size <- readRegister connection inputCapacity
  count <- receiveInto (connectionTransport connection) deadline (input `plusPtr` end) (size - end)
  writeRegister connection inputStop (end + count)
  return count

-- A head may fill the whole buffer; the parser's limit keeps this from growing without bounds.
makeInputRoom :: Connection -> Int -> Int -> Int -> IO ()
makeInputRoom connection start stop capacity = do
  old <- readAddress connection inputAddress
  if start > 0
    then moveBytes old (old `plusPtr` start) count
    else do
      new <- mallocBytes (2 * capacity)
      copyBytes new old count
      mask_ $ do
        releaseInput connection
        writeAddress connection inputAddress new
        writePlace connection inputPlace 0
      writeRegister connection inputCapacity (2 * capacity)
  writeRegister connection inputStart 0
  writeRegister connection inputStop count
  where
    count = stop - start

-- | Where the output is composed.
outputBuffer :: Connection -> IO (Ptr Word8)
outputBuffer connection = readAddress connection outputAddress
{-# INLINE outputBuffer #-}

-- | Bytes of output that wait to be sent.
outputEnd :: Connection -> IO Int
outputEnd connection = readRegister connection outputStop
{-# INLINE outputEnd #-}

setOutputEnd :: Connection -> Int -> IO ()
setOutputEnd connection = writeRegister connection outputStop
{-# INLINE setOutputEnd #-}

-- | Bytes that the output can hold.
outputCapacity :: Connection -> IO Int
outputCapacity connection = readRegister connection outputSize
{-# INLINE outputCapacity #-}

-- What the size line of a chunk can say: a grown output is sent as one.
chunkBytesMax :: Int
chunkBytesMax = 0xffffffff

-- | Doubles the output until it holds so many bytes, keeping what waits. False if that is more than
-- 'settingsMaxBuilderResponseBufferSize'.
growOutput :: Connection -> Int -> IO Bool
growOutput connection wanted
  | wanted > chunkBytesMax || wanted > settingsMaxBuilderResponseBufferSize (serverSettings (connectionServer connection)) = return False
  | otherwise = do
    capacity <- outputCapacity connection
    when (wanted > capacity) $ do
      let size = head (filter (>= wanted) (iterate (* 2) capacity))
      old <- outputBuffer connection
      new <- mallocBytes size
      end <- outputEnd connection
      copyBytes new old end
      mask_ $ do
        releaseOutput connection
        writeAddress connection outputAddress new
      writeRegister connection outputSize size
    return True

-- | Sends what waits. Parks until the kernel has taken it.
flushOutput :: Connection -> IO ()
flushOutput = flushBy sendBytes
{-# INLINE flushOutput #-}

-- | The same, when more is to be sent at once: the two can go together.
flushAhead :: Connection -> IO ()
flushAhead = flushBy (sendBy MoreFollows)

-- | The same when all that waits comes before the current response, of which nothing is sent by this.
flushEarlier :: Connection -> IO ()
flushEarlier = flushBy (sendUnnoted NothingFollows)

flushBy :: (Connection -> Ptr Word8 -> Int -> IO ()) -> Connection -> IO ()
flushBy sending connection = do
  settleEarlyFlush connection
  end <- outputEnd connection
  when (end > 0) $ do
    buffer <- outputBuffer connection
    setOutputEnd connection 0
    sending connection buffer end
{-# INLINE flushBy #-}

-- | Ends the connection in both directions: nothing that follows would be where the client expects it.
breakConnection :: Connection -> IO ()
breakConnection connection = do
  writeRegister connection keepRegister 0
  abort (connectionTransport connection)
{-# NOINLINE breakConnection #-}

-- Nobody knows how much has gone when sending fails or is interrupted, and an application may go on all the same.
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

-- | Sends what waits together with more bytes. Says how many have gone of the latter.
sendPieces :: Connection -> Progress -> ByteString -> IO ()
sendPieces connection progress bytes = do
  settleEarlyFlush connection
  noteSend connection
  waiting <- outputBuffer connection
  count <- outputEnd connection
  setOutputEnd connection 0
  delivery <- deliveryOf connection
  orBreak connection (deliverTwo delivery (progress . max 0 . subtract count) (Piece waiting count) bytes)

-- | Sends bytes that are no part of the response, and leaves the output alone.
sendString :: Connection -> ByteString -> IO ()
sendString connection bytes = BU.unsafeUseAsCStringLen bytes $ \(at, count) -> sendUnnoted NothingFollows connection (castPtr at) count

-- | The same without the arena, for an application that has the connection to itself: its threads may go on after the
-- connection is over, and then get the transport's error.
sendDetached :: Connection -> ByteString -> IO ()
sendDetached connection bytes =
  BU.unsafeUseAsCStringLen bytes (\(at, count) -> deliver (deliveryUntil connection noDeadline) NothingFollows (Piece (castPtr at) count))
    `onException` abort (connectionTransport connection)

-- | @sendFilePart connection progress descriptor offset count@ returns how many bytes went; fewer only if the file ended.
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

-- | The client's address, as far as it is known.
connectionPeer :: Connection -> SockAddr
connectionPeer = transportPeer . connectionTransport
{-# INLINE connectionPeer #-}

window :: Connection -> Window
window connection = Window (connectionPlaces connection) windowPlace
{-# INLINE window #-}

noteSend :: Connection -> IO ()
noteSend connection = do
  sends <- readRegister connection sendsRegister
  writeRegister connection sendsRegister (sends + 1)
{-# INLINE noteSend #-}

connectionLimits :: Connection -> Limits
connectionLimits = serverLimits . connectionServer
{-# INLINE connectionLimits #-}

-- | From now on the time of a request runs, if it is limited.
startTotalDeadline :: Connection -> IO ()
startTotalDeadline connection = when (micros > 0) $ do
  deadline <- deadlineAfter micros
  writeRegister connection totalDeadlineRegister (fromIntegral (deadlineNanoseconds deadline))
  where
    micros = totalMicros (connectionLimits connection)
{-# INLINE startTotalDeadline #-}

-- | From now on it is not limited.
clearTotalDeadline :: Connection -> IO ()
clearTotalDeadline connection = writeRegister connection totalDeadlineRegister 0
{-# INLINE clearTotalDeadline #-}

-- | When the current request must be over.
totalDeadline :: Connection -> IO Deadline
totalDeadline connection = deadlineFromNanoseconds . fromIntegral <$> readRegister connection totalDeadlineRegister
{-# INLINE totalDeadline #-}

-- | The time limit of an operation that starts now and may take so many microseconds; 0: there is none. The request's
-- own limit holds in any case.
phaseDeadline :: Connection -> Int -> IO Deadline
phaseDeadline connection micros = do
  total <- totalDeadline connection
  if micros == 0
    then return total
    else if total == noDeadline then deadlineAfter micros else earlier total <$> deadlineAfter micros
{-# INLINE phaseDeadline #-}
