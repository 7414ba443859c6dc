{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets, WAI.

-- |
-- The C code of streams as Haskell functions: a request of HTTP\/2 or HTTP\/3 and its response, in memory, and what the
-- engines of both protocols have in common.
--
-- No function blocks, except on the lock of an engine, which is never held for long.
module Millrace.Http.Multiplexed.Engine
  ( -- * Calls of an engine
    Flags (..),
    has,
    hasRequests,
    hasNotices,
    isOver,
    isBusy,
    hasEnded,
    outputCount,
    Sender (..),
    senderNumber,
    End (..),
    endNumber,
    noticed,

    -- * Streams
    Stream,
    streamKey,
    streamHead,
    streamHasEnded,
    streamIsClosed,
    streamWasReset,
    streamIsLeft,
    streamWasCancelled,
    streamUnread,
    streamReceived,
    streamSent,
    streamProgress,
    copyStreamHead,
    resetStreamWith,
    failStream,
    markFlushed,
    releaseWith,

    -- * Waiting
    noticeKey,
    awaitClose,

    -- * Bodies
    readStream,
    endReading,
    readTrailers,

    -- * Answers
    answerStream,
    takeBackStream,
    writeStream,
    writePiece,
    awaitOutput,
    awaitWindow,
    outputLow,
    finishStream,
    informStream,
  )
where

#include "http_stream.h"

import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff)
import Millrace.Http.Multiplexed.Head (Head)
import Millrace.Http.Multiplexed.Rows

-- | The result of a call: flags, and a number.
newtype Flags = Flags Word64

instance Semigroup Flags where
  Flags one <> Flags other = Flags (one .|. other)
  {-# INLINE (<>) #-}

instance Monoid Flags where
  mempty = Flags 0

-- | Whether the flag is among them.
has :: Flags -> Flags -> Bool
has (Flags flag) (Flags flags) = flags .&. flag /= 0
{-# INLINE has #-}

-- | Flags: requests wait to be served; threads must be woken; nothing more is to be sent or received; another thread
-- sends; the caller no longer has the right to send.
hasRequests, hasNotices, isOver, isBusy, hasEnded :: Flags
hasRequests = Flags #{const HTTP_HAS_REQUESTS}
hasNotices = Flags #{const HTTP_HAS_NOTICES}
isOver = Flags #{const HTTP_IS_OVER}
isBusy = Flags #{const HTTP_IS_BUSY}
hasEnded = Flags #{const HTTP_HAS_ENDED}

-- | The amount of output that a call has written: bytes of HTTP\/2, or batches of datagrams of HTTP\/3.
outputCount :: Flags -> Int
outputCount (Flags flags) = fromIntegral (flags .&. 0xffffffff)
{-# INLINE outputCount #-}

-- | The part in sending of a thread that collects output.
data Sender
  = -- | It asks for the right to send.
    Newly
  | -- | It has the right, and has sent the output that it got.
    Again
  | -- | It is the receiving thread, and asks for the right.
    Driver
  deriving (Eq)

-- | The number of the C code.
senderNumber :: Sender -> CInt
senderNumber sender = case sender of
  Newly -> #{const HTTP_SENDER_NEW}
  Again -> #{const HTTP_SENDER_AGAIN}
  Driver -> #{const HTTP_SENDER_DRIVER}
{-# INLINE senderNumber #-}

-- | How to announce the end of a connection.
data End
  = -- | Ask the client to begin no more requests.
    EndNotice
  | -- | Serve no further requests.
    EndLast

-- | The number of the C code.
endNumber :: End -> CInt
endNumber end = case end of
  EndNotice -> #{const HTTP_END_NOTICE}
  EndLast -> #{const HTTP_END_LAST}

-- | The key ('noticeKey') of a thread that has to be woken, as the C code returns it.
noticed :: Int64 -> Maybe Int
noticed key
  | key < 0 = Nothing
  | otherwise = Just (fromIntegral key)

-- | A request, from the moment when it is taken until it is released.
data Stream

-- | The number of the stream in its engine.
streamKey :: Ptr Stream -> IO Int
streamKey stream = (fromIntegral :: Word64 -> Int) <$> #{peek http_stream, key} stream

-- | The head of the request.
streamHead :: Ptr Stream -> Ptr Head
streamHead stream = stream `plusPtr` #{offset http_stream, head}
{-# INLINE streamHead #-}

-- | Whether the client has ended its side; whether the stream is closed; whether it was closed before its end; whether
-- the client has ended its side of the connection; whether it has cancelled the request while its handler ran.
streamHasEnded, streamIsClosed, streamWasReset, streamIsLeft, streamWasCancelled :: Ptr Stream -> IO Bool
streamHasEnded stream = (/= (0 :: Word8)) <$> #{peek http_stream, has_ended} stream
streamIsClosed stream = (/= (0 :: Word8)) <$> #{peek http_stream, is_closed} stream
streamWasReset stream = (/= (0 :: Word8)) <$> #{peek http_stream, was_reset} stream
streamIsLeft stream = (/= (0 :: Word8)) <$> #{peek http_stream, has_left} stream
streamWasCancelled stream = (/= (0 :: Word8)) <$> #{peek http_stream, cancellation.is_one} stream

-- | The number of unread bytes of the request's body; of bytes that have arrived; and of the response's body's bytes
-- that the transport has got.
streamUnread, streamReceived, streamSent :: Ptr Stream -> IO Int
streamUnread stream = (fromIntegral :: Word64 -> Int) <$> #{peek http_stream, unread} stream
streamReceived stream = (fromIntegral :: Word64 -> Int) <$> #{peek http_stream, received} stream
streamSent stream = fromIntegral <$> c_sent stream

foreign import ccall unsafe "http_stream_sent"
  c_sent :: Ptr Stream -> IO Word64

foreign import ccall unsafe "http_stream_progress"
  c_progress :: Ptr Stream -> IO Word64

-- | A number that grows while the client takes what it can of the response: the bytes that were sent of it, and those
-- of other streams behind which it had to wait although the client's window of this stream was open.
streamProgress :: Ptr Stream -> IO Int
streamProgress stream = fromIntegral <$> c_progress stream

-- | Copies the fields and the text. Call this once.
foreign import ccall unsafe "http_stream_copy_head"
  copyStreamHead :: Ptr Stream -> Ptr Word8 -> IO ()

-- | Resets the stream at once, with an error code of its protocol.
foreign import ccall unsafe "http_stream_reset"
  resetStreamWith :: Ptr Stream -> Word64 -> IO ()

-- | Resets the stream because its handler has failed. What was flushed is sent first.
foreign import ccall unsafe "http_stream_abort"
  failStream :: Ptr Stream -> IO ()

-- | Keeps the answer up to here: it can no longer be taken back, and is sent even if the stream is aborted.
foreign import ccall unsafe "http_stream_flush"
  markFlushed :: Ptr Stream -> IO ()

-- | @releaseWith release clock stream@ gives a stream back by its protocol's function, which gets the time if the
-- client has cancelled the request, and otherwise 0: a handler that runs on after that has wasted work. The stream must
-- not be used any more.
releaseWith :: (Ptr Stream -> Word64 -> IO Word64) -> IO Word64 -> Ptr Stream -> IO Flags
releaseWith release clock stream = do
  cancelled <- streamWasCancelled stream
  now <- if cancelled then clock else return 0
  Flags <$> release stream now
{-# INLINE releaseWith #-}

-- | The key under which a thread waits for an event of the stream with this number.
noticeKey :: Int -> Event -> Int
noticeKey number event = 4 * number + kind
  where
    kind = case event of
      Readable -> #{const HTTP_READABLE}
      Writable -> #{const HTTP_WRITABLE}
      Closed -> #{const HTTP_CLOSED}

foreign import ccall unsafe "http_stream_await_close"
  c_awaitClose :: Ptr Stream -> IO CInt

-- | Whether the stream is closed. If it is not, the engine will give a notice.
awaitClose :: Ptr Stream -> IO Bool
awaitClose stream = (== #{const HTTP_GONE}) <$> c_awaitClose stream

foreign import ccall unsafe "http_stream_read"
  c_read :: Ptr Stream -> Ptr Word8 -> CSize -> CInt -> IO Int64

-- | At most this many bytes of the request's body.
readStream :: Ptr Stream -> Ptr Word8 -> Int -> IO ReadResult
readStream stream target size = transferred <$> c_read stream target (fromIntegral size) 1

transferred :: Int64 -> ReadResult
transferred count
  | count >= 0 = Bytes (fromIntegral count)
  | negate count == #{const HTTP_WAIT} = MustWait
  | otherwise = Broken

-- | Makes all further reads fail.
foreign import ccall unsafe "http_stream_end_reading"
  endReading :: Ptr Stream -> IO ()

foreign import ccall unsafe "http_stream_trailers"
  c_trailers :: Ptr Stream -> Ptr Word8 -> CSize -> IO CSize

-- | The client's trailers: names and values.
readTrailers :: Ptr Stream -> IO [(ByteString, ByteString)]
readTrailers stream = do
  size <- fromIntegral <$> c_trailers stream nullPtr 0
  if size == 0
    then return []
    else allocaBytes size $ \memory -> c_trailers stream memory (fromIntegral size) >> readRows memory size

outcomeOf :: CInt -> WriteOutcome
outcomeOf number
  | number == #{const HTTP_OK} = Done
  | number == #{const HTTP_WAIT} = Full
  | number == #{const HTTP_GONE} = Gone
  | otherwise = BadFields number

foreign import ccall unsafe "http_stream_answer"
  c_answer :: Ptr Stream -> CInt -> Ptr Word8 -> Int64 -> Ptr Word8 -> CSize -> CInt -> Ptr Int64 -> IO CInt

-- | @answerStream stream status fields contentLength firstBytes@ answers, with the first bytes of a body or the whole.
-- Also returns the length that the fields give. Does nothing if the whole body has another length.
answerStream :: Ptr Stream -> Int -> Rows -> ContentLength -> FirstBytes -> IO (WriteOutcome, Maybe Int)
answerStream stream status rows@(Rows fields) size (FirstBytes body count extent) = do
  let isWhole = if extent == Whole then 1 else 0
  result <- c_answer stream (fromIntegral status) fields (announcedLength size) body (fromIntegral count) isWhole given
  declared <- if result == #{const HTTP_OK} then peek given else return (-1)
  return (outcomeOf result, if declared < 0 then Nothing else Just (fromIntegral declared))
  where
    given = givenLengthAt rows

foreign import ccall unsafe "http_stream_take_back"
  c_takeBack :: Ptr Stream -> IO CInt

-- | Takes the answer back. False if part of it was sent.
takeBackStream :: Ptr Stream -> IO Bool
takeBackStream stream = (== #{const HTTP_OK}) <$> c_takeBack stream

foreign import ccall unsafe "http_stream_write"
  c_write :: Ptr Stream -> Ptr Word8 -> CSize -> IO CInt

-- | Adds to the body.
writeStream :: Ptr Stream -> Ptr Word8 -> Int -> IO WriteOutcome
writeStream stream bytes count = outcomeOf <$> c_write stream bytes (fromIntegral count)

foreign import ccall unsafe "http_stream_await_output"
  c_awaitOutput :: Ptr Stream -> Word32 -> IO CInt

-- | 'Full' while more than this many bytes of the body wait to be sent. The engine will give a notice.
awaitOutput :: Ptr Stream -> Int -> IO WriteOutcome
awaitOutput stream most = outcomeOf <$> c_awaitOutput stream (fromIntegral most)

foreign import ccall unsafe "http_stream_await_window"
  c_awaitWindow :: Ptr Stream -> IO Int64

-- | The number of bytes of the body that the client's windows take now. If that is none, the engine will give a notice.
awaitWindow :: Ptr Stream -> IO ReadResult
awaitWindow stream = transferred <$> c_awaitWindow stream

foreign import ccall unsafe "http_stream_write_piece"
  c_writePiece :: Ptr Stream -> Ptr Piece -> CSize -> IO CInt

-- | Adds the first bytes of a piece to the body, without copying them, and takes the piece.
writePiece :: Ptr Stream -> Ptr Piece -> Int -> IO WriteOutcome
writePiece stream piece count = outcomeOf <$> c_writePiece stream piece (fromIntegral count)

-- | The number of waiting bytes with which a writer may continue.
outputLow :: Int
outputLow = #{const HTTP_OUTPUT_LOW}

foreign import ccall unsafe "http_stream_finish"
  c_finish :: Ptr Stream -> Ptr Word8 -> IO CInt

-- | Ends the body, with these trailers.
finishStream :: Ptr Stream -> Rows -> IO WriteOutcome
finishStream stream (Rows trailers) = outcomeOf <$> c_finish stream trailers

foreign import ccall unsafe "http_stream_inform"
  c_inform :: Ptr Stream -> CInt -> Ptr Word8 -> IO CInt

-- | An interim response.
informStream :: Ptr Stream -> Int -> Rows -> IO WriteOutcome
informStream stream status (Rows fields) = outcomeOf <$> c_inform stream (fromIntegral status) fields
