-- |
-- One connection: its socket, its two buffers and its registers, and the moving of bytes between socket and buffers
-- under deadlines. Knows nothing of requests and responses.
--
-- The registers are unboxed words in memory of the connection's own, because they change with every request: in an
-- @IORef@ each change would allocate a box and mark the reference for the collector. That memory and the buffers are
-- freed with the connection. Whatever an application may keep for longer (body readers and writers) must therefore not
-- touch them without asking first whether its request is still being served.
module Millrace.Http.Connection
  ( Connection (..),
    Endpoint (..),
    newConnection,
    freeConnection,

    -- * Registers
    Register,
    readRegister,
    writeRegister,
    phaseRegister,
    keepRegister,
    expectRegister,
    bodyPendingRegister,
    bodyBudgetRegister,
    bodyProgressRegister,
    responseStartRegister,
    responseSendsRegister,
    sendsRegister,
    requestsRegister,
    streamModeRegister,
    streamLeftRegister,
    chunkStartRegister,

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
    outputPiece,
    growOutput,
    flushOutput,
    sendBytes,
    sendPieces,

    -- * Deadlines
    operationDeadline,
    timeoutMicros,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.IORef (IORef)
import Data.Word (Word8)
import Foreign.ForeignPtr (newForeignPtr_)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Marshal.Utils (copyBytes, fillBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Deadline (Deadline, deadlineAfter, noDeadline)
import Millrace.Http.Settings (Settings (..))
import Millrace.Http.Wire
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (recvBufBefore, sendAllBefore, sendAllBufBefore, sendManyBefore)
import Network.Socket (SockAddr)

-- | What all connections of a server share.
data Endpoint = Endpoint
  { endpointSettings :: !Settings,
    -- | The whole Server line, CR LF included, or empty.
    endpointServerLine :: !ByteString,
    -- | The server is shutting down: no connection is kept.
    endpointClosing :: !(IORef Bool)
  }

-- | An open connection.
data Connection = Connection
  { connectionEndpoint :: !Endpoint,
    connectionSocket :: !Socket,
    connectionPeer :: !SockAddr,
    -- | Waits for a request, and has nothing of it yet.
    connectionIdle :: !(IORef Bool),
    connectionBlock :: !(Ptr Word8)
  }

-- | A word of a connection's own memory.
newtype Register = Register Int

readRegister :: Connection -> Register -> IO Int
readRegister connection (Register offset) = peekByteOff (connectionBlock connection) offset
{-# INLINE readRegister #-}

writeRegister :: Connection -> Register -> Int -> IO ()
writeRegister connection (Register offset) = pokeByteOff (connectionBlock connection) offset
{-# INLINE writeRegister #-}

register :: Int -> Register
register number = Register (8 * number)

-- Input: address, capacity, and the part that holds bytes.
inputAddress, inputCapacity, inputStart, inputStop :: Register
inputAddress = register 0
inputCapacity = register 1
inputStart = register 2
inputStop = register 3

-- Output: address, capacity, and the end of what is to be sent; it starts at 0.
outputAddress, outputSize, outputStop :: Register
outputAddress = register 4
outputSize = register 5
outputStop = register 6

-- | Where in the life of a request the connection is, for when an exception ends it.
phaseRegister :: Register
phaseRegister = register 7

-- | Does the connection stay open after the current response?
keepRegister :: Register
keepRegister = register 8

-- | Is the client waiting for 100 (Continue)?
expectRegister :: Register
expectRegister = register 9

-- | Bytes of request body that were not read yet: exact, or -1 for an unfinished chunked body.
bodyPendingRegister :: Register
bodyPendingRegister = register 10

-- | Microseconds that the client may still take for its next bytes of body, and bytes since this was last refilled.
bodyBudgetRegister, bodyProgressRegister :: Register
bodyBudgetRegister = register 11
bodyProgressRegister = register 12

-- | Where in the output the current response starts, and the value of 'sendsRegister' then: while that has not
-- changed, nothing of the response was sent.
responseStartRegister, responseSendsRegister :: Register
responseStartRegister = register 13
responseSendsRegister = register 14

-- | Number of times that output was handed to the socket.
sendsRegister :: Register
sendsRegister = register 15

-- | Number of complete request heads.
requestsRegister :: Register
requestsRegister = register 16

-- | How the body being streamed is framed, how many bytes it still may have, and where in the output the size line of
-- its open chunk is (-1: none).
streamModeRegister, streamLeftRegister, chunkStartRegister :: Register
streamModeRegister = register 17
streamLeftRegister = register 18
chunkStartRegister = register 19

registerCount, parserOffset, chunksOffset, headOffset, blockSize :: Int
registerCount = 20
parserOffset = 8 * registerCount
chunksOffset = aligned (parserOffset + parserSize)
headOffset = aligned (chunksOffset + chunksSize)
blockSize = aligned (headOffset + headSize)

aligned :: Int -> Int
aligned size = (size + 7) `div` 8 * 8

-- | The parser of request heads. Its result stays valid until the next head.
parser :: Connection -> Ptr Parser
parser connection = castPtr (connectionBlock connection `plusPtr` parserOffset)
{-# INLINE parser #-}

-- | The state of a chunked request body.
chunks :: Connection -> Ptr Chunks
chunks connection = castPtr (connectionBlock connection `plusPtr` chunksOffset)
{-# INLINE chunks #-}

-- | The writer of response heads.
headWriter :: Connection -> Ptr Head
headWriter connection = castPtr (connectionBlock connection `plusPtr` headOffset)
{-# INLINE headWriter #-}

fieldsMax, fieldsBytes, inputInitial, outputInitial, outputMax, targetMax :: Int
fieldsMax = 128
fieldsBytes = fieldsMax * fieldSize
inputInitial = 16384 - fieldsBytes
outputInitial = 16384
outputMax = 1048576
targetMax = 8192

-- | A connection on a socket, which stays the caller's to close. Allocates about 33 KB outside the Haskell heap.
newConnection :: Endpoint -> Socket -> SockAddr -> IORef Bool -> IO Connection
newConnection endpoint socket peer idle = do
  block <- mallocBytes blockSize
  fillBytes block 0 blockSize
  fields <- mallocBytes (fieldsBytes + inputInitial)
  output <- mallocBytes outputInitial
  let connection = Connection endpoint socket peer idle block
      headMax = settingsMaxTotalHeaderLength (endpointSettings endpoint)
  writeAddress connection inputAddress (fields `plusPtr` fieldsBytes)
  writeRegister connection inputCapacity inputInitial
  writeAddress connection outputAddress output
  writeRegister connection outputSize outputInitial
  initParser (parser connection) (castPtr fields) fieldsMax headMax (min targetMax headMax)
  return connection

-- | Frees the memory of a connection. It must not be used any more.
freeConnection :: Connection -> IO ()
freeConnection connection = do
  input <- readAddress connection inputAddress
  free (input `plusPtr` negate fieldsBytes)
  readAddress connection outputAddress >>= free
  free (connectionBlock connection)

readAddress :: Connection -> Register -> IO (Ptr Word8)
readAddress connection (Register offset) = peekByteOff (connectionBlock connection) offset
{-# INLINE readAddress #-}

writeAddress :: Connection -> Register -> Ptr Word8 -> IO ()
writeAddress connection (Register offset) = pokeByteOff (connectionBlock connection) offset

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
  address <- readAddress connection inputAddress
  end <- readRegister connection inputStop
  size <- readRegister connection inputCapacity
  count <- recvBufBefore deadline (connectionSocket connection) (address `plusPtr` end) (size - end)
  writeRegister connection inputStop (end + count)
  return count

-- A head may fill the whole buffer; the parser's limit keeps this from growing without bounds.
makeInputRoom :: Connection -> Int -> Int -> Int -> IO ()
makeInputRoom connection start stop capacity = do
  old <- readAddress connection inputAddress
  if start > 0
    then moveBytes old (old `plusPtr` start) count
    else do
      fields <- mallocBytes (fieldsBytes + 2 * capacity)
      copyBytes fields (old `plusPtr` negate fieldsBytes) (fieldsBytes + capacity)
      moveFields (parser connection) (castPtr fields)
      writeAddress connection inputAddress (fields `plusPtr` fieldsBytes)
      writeRegister connection inputCapacity (2 * capacity)
      free (old `plusPtr` negate fieldsBytes)
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

-- | The output that waits to be sent, without copying: valid until the output changes.
outputPiece :: Connection -> IO ByteString
outputPiece connection = do
  address <- outputBuffer connection >>= newForeignPtr_
  BI.fromForeignPtr address 0 <$> outputEnd connection

-- | Doubles the output until it holds so many bytes, keeping what waits. False if that is more than it may ever hold.
growOutput :: Connection -> Int -> IO Bool
growOutput connection wanted
  | wanted > outputMax = return False
  | otherwise = do
    capacity <- outputCapacity connection
    when (wanted > capacity) $ do
      let size = head (filter (>= wanted) (iterate (* 2) capacity))
      old <- outputBuffer connection
      new <- mallocBytes size
      end <- outputEnd connection
      copyBytes new old end
      writeAddress connection outputAddress new
      writeRegister connection outputSize size
      free old
    return True

-- | Sends what waits. Parks until the kernel has taken it.
flushOutput :: Connection -> IO ()
flushOutput connection = do
  end <- outputEnd connection
  when (end > 0) $ do
    buffer <- outputBuffer connection
    setOutputEnd connection 0
    sendBytes connection buffer end
{-# INLINE flushOutput #-}

-- | Sends bytes from the connection's own memory. Every 'pieceMax' bytes have the server's timeout to themselves: this
-- bounds slow readers without a limit on the size of a response.
sendBytes :: Connection -> Ptr Word8 -> Int -> IO ()
sendBytes connection bytes count = do
  sends <- readRegister connection sendsRegister
  writeRegister connection sendsRegister (sends + 1)
  go bytes count
  where
    go at left
      | left <= pieceMax = send at left
      | otherwise = send at pieceMax >> go (at `plusPtr` pieceMax) (left - pieceMax)
    send at size = do
      deadline <- operationDeadline connection
      sendAllBufBefore deadline (connectionSocket connection) at size

-- | Sends what waits together with more bytes.
sendPieces :: Connection -> ByteString -> IO ()
sendPieces connection bytes = do
  waiting <- outputPiece connection
  sends <- readRegister connection sendsRegister
  writeRegister connection sendsRegister (sends + 1)
  setOutputEnd connection 0
  deadline <- operationDeadline connection
  sendManyBefore deadline socket [waiting, BU.unsafeTake first bytes]
  go (BU.unsafeDrop first bytes)
  where
    first = min pieceMax (B.length bytes)
    socket = connectionSocket connection
    go rest
      | B.null rest = return ()
      | otherwise = do
        deadline <- operationDeadline connection
        sendAllBefore deadline socket (B.take pieceMax rest)
        go (B.drop pieceMax rest)

pieceMax :: Int
pieceMax = 131072

-- | The time limit of an operation that starts now.
operationDeadline :: Connection -> IO Deadline
operationDeadline connection
  | micros > 0 = deadlineAfter micros
  | otherwise = return noDeadline
  where
    micros = timeoutMicros connection
{-# INLINE operationDeadline #-}

-- | The server's time limit in microseconds; 0: none.
timeoutMicros :: Connection -> Int
timeoutMicros connection = max 0 (settingsTimeoutSeconds (endpointSettings (connectionEndpoint connection))) * 1000000
{-# INLINE timeoutMicros #-}
