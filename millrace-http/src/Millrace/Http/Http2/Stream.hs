-- |
-- A request of an HTTP\/2 connection while it is served. Must not know: sockets, servers.
module Millrace.Http.Http2.Stream
  ( Stream (..),
    awaitEvent,
    remainingMicros,
    isOverdue,
    shorter,
    limitOf,
    expectationOf,
    throwLost,
    withRowsOf,
    flushStream,
    abortStream,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (ThreadId)
import Control.Exception (throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.CaseInsensitive (foldedCase)
import Data.IORef (IORef)
import Data.Int (Int32)
import Data.Word (Word32, Word8)
import Foreign.C.Error (Errno, errnoToIOError)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (pokeByteOff)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Deadline (deadlineFromNanoseconds, deadlineNanoseconds, monotonicNanoseconds, noDeadline)
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Expectation (Expectation (..))
import Millrace.Http.Field (readField)
import Millrace.Http.Http2.Connection
import Millrace.Http.Http2.Engine (Event, Rows, failStream, markFlushed, noticeKey, putRows, rowsHead)
import qualified Millrace.Http.Http2.Engine as Engine
import Millrace.Http.Http2.State (StreamState, expectationWord, totalDeadline)
import Millrace.Http.Trailers (HTTP2Data)
import Millrace.Http.Transport (describeTransport)
import Network.HTTP.Types (ResponseHeaders)

-- | A request that is served.
data Stream = Stream
  { streamConnection :: !Connection,
    streamEngine :: !(Ptr Engine.Stream),
    streamId :: !Int32,
    -- | The thread that serves it.
    streamThread :: !ThreadId,
    streamState :: !StreamState,
    -- | The 'HTTP2Data' of the response.
    streamData :: !(IORef (Maybe HTTP2Data)),
    -- | Whether the client has sent CONNECT.
    streamIsConnect :: !Bool
  }

-- | Whether the client waits for 100 (Continue).
expectationOf :: Stream -> Expectation
expectationOf = uncurry Expectation . expectationWord . streamState

-- | How long a wait for the client may take, in microseconds; at least 1. 'Nothing': no limit.
remainingMicros :: Stream -> IO (Maybe Int)
remainingMicros stream = do
  deadline <- readField (streamState stream) totalDeadline
  if deadline == noDeadline
    then return Nothing
    else do
      now <- monotonicNanoseconds
      return (Just (max 1 ((fromIntegral (deadlineNanoseconds deadline) - fromIntegral now) `quot` 1000)))

-- | Whether the deadline of all waiting has passed.
isOverdue :: Stream -> IO Bool
isOverdue stream = do
  deadline <- readField (streamState stream) totalDeadline
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

-- | Waits for an event of the stream: see 'waitFor'.
awaitEvent :: Stream -> Event -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
awaitEvent stream event = waitFor (streamConnection stream) (noticeKey (streamId stream) event)

-- | Throws the error of sending to a client that does not receive.
throwLost :: Stream -> Errno -> IO a
throwLost stream errno = do
  tellLoss (streamConnection stream)
  throwIO (errnoToIOError sendingResponse errno Nothing (Just (describeTransport (connectionTransport (streamConnection stream)) ++ ", stream " ++ show (streamId stream))))

-- | Sends what waits. From here on the answer cannot be taken back.
flushStream :: Stream -> IO ()
flushStream stream = markFlushed (streamEngine stream) >> flush (streamConnection stream)

-- | Ends the stream; only what was flushed is still sent. Threads that wait for the stream find it closed.
abortStream :: Stream -> IO ()
abortStream stream = do
  failStream (streamEngine stream)
  wakeNow (streamConnection stream)
  flush (streamConnection stream)

-- | Writes fields to memory for the engine. There is room for so many bytes besides.
withRowsOf :: Int -> ResponseHeaders -> (Ptr Word8 -> Rows -> IO a) -> IO a
withRowsOf room fields use = do
  memory <- mallocPlainForeignPtrBytes (rowsHead + room + size)
  let start = unsafeForeignPtrToPtr memory
      first = start `plusPtr` (rowsHead + room)
  putAll first fields
  rows <- putRows start first size (length fields)
  result <- use (start `plusPtr` rowsHead) rows
  touchForeignPtr memory
  return result
  where
    size = sum [8 + B.length (foldedCase name) + B.length value | (name, value) <- fields]
    putAll _ [] = return ()
    putAll at ((name, value) : others) = do
      let lower = foldedCase name
      pokeByteOff at 0 (fromIntegral (B.length lower) :: Word32)
      pokeByteOff at 4 (fromIntegral (B.length value) :: Word32)
      put (at `plusPtr` 8) lower
      put (at `plusPtr` (8 + B.length lower)) value
      putAll (at `plusPtr` (8 + B.length lower + B.length value)) others
{-# INLINE withRowsOf #-}

put :: Ptr Word8 -> ByteString -> IO ()
put at bytes = BU.unsafeUseAsCStringLen bytes $ \(source, count) -> copyBytes at (castPtr source) count
{-# INLINE put #-}
