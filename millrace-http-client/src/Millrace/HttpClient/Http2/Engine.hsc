-- Must not know: sockets.

-- | The C code of an HTTP\/2 client as Haskell functions: one connection's protocol, purely in memory. Its streams are
-- those of the servers ("Millrace.Http.Multiplexed.Engine"), and what is the same for them has the same names here.
--
-- No function blocks, except on the lock of a connection, which is never held for long.
module Millrace.HttpClient.Http2.Engine
  ( -- * Connections
    Engine,
    EngineSettings (..),
    openEngine,
    closeEngine,
    feed,
    collect,
    collectMost,
    needsSender,
    EngineState (..),
    engineState,
    streamCount,
    streamsMax,
    nextNotice,
    stateKey,
    sendPing,
    announceEnd,

    -- * Streams
    Stream,
    streamKey,
    Request (..),
    Part (..),
    Secrecy (..),
    requestStream,
    releaseStream,
    resetStreamWith,
    writeStream,
    awaitOutput,
    finishStream,
    WriteOutcome (..),
    ReceiveResult (..),
    takeHead,
    readStream,
    readTrailers,
    Failure (..),
    streamFailure,
  )
where

#include "http2_client.h"

import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import qualified Data.CaseInsensitive as CI
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (FunPtr, Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, pokeByteOff)
import qualified Millrace.Http.Multiplexed.Engine as Shared
import Millrace.Http.Multiplexed.Rows (Event (..), WriteOutcome (..), withRowsOf)
import qualified Millrace.Http.Multiplexed.Rows as Rows

-- | The protocol of one connection.
newtype Engine = Engine (ForeignPtr Engine)

-- | Bytes of windows, heads and unsent output, and the number of interim responses.
data EngineSettings = EngineSettings
  { engineStreamWindow :: !Int,
    engineConnectionWindow :: !Int,
    engineHeadMax :: !Int,
    engineInterimMax :: !Int,
    engineOutputHigh :: !Int
  }

-- | A request and its response. It is valid until it is released.
data Stream = Stream !Engine !(Ptr Shared.Stream)

foreign import ccall unsafe "http2_client_open" c_open :: Ptr () -> IO (Ptr Engine)

foreign import ccall unsafe "&http2_client_free" c_free :: FunPtr (Ptr Engine -> IO ())

-- | Makes a connection. 'Nothing' without memory.
openEngine :: EngineSettings -> IO (Maybe Engine)
openEngine settings = allocaBytes #{size http2_client_settings} $ \at -> do
  #{poke http2_client_settings, stream_window} at (word (engineStreamWindow settings))
  #{poke http2_client_settings, connection_window} at (word (engineConnectionWindow settings))
  #{poke http2_client_settings, head_max} at (word (engineHeadMax settings))
  #{poke http2_client_settings, interim_max} at (word (engineInterimMax settings))
  #{poke http2_client_settings, output_high} at (word (engineOutputHigh settings))
  made <- c_open at
  if made == nullPtr then return Nothing else Just . Engine <$> newForeignPtr c_free made
  where
    word :: Int -> Word32
    word = fromIntegral

using :: Engine -> (Ptr Engine -> IO a) -> IO a
using (Engine pointer) = withForeignPtr pointer
{-# INLINE using #-}

on :: Stream -> (Ptr Shared.Stream -> IO a) -> IO a
on (Stream engine stream) use = using engine (const (use stream))
{-# INLINE on #-}

foreign import ccall unsafe "http2_client_close" c_close :: Ptr Engine -> IO ()

-- | Ends the connection: closes all streams.
closeEngine :: Engine -> IO ()
closeEngine engine = using engine c_close

foreign import ccall unsafe "http2_client_feed" c_feed :: Ptr Engine -> Ptr Word8 -> CSize -> IO ()

-- | Processes received bytes.
feed :: Engine -> ByteString -> IO ()
feed engine bytes =
  using engine $ \pointer ->
    Unsafe.unsafeUseAsCStringLen bytes $ \(start, count) -> c_feed pointer (castPtr start) (fromIntegral count)

foreign import ccall unsafe "http2_client_collect" c_collect :: Ptr Engine -> Ptr Word8 -> CSize -> IO CSize

-- | Bytes to send. Empty: the sending thread sleeps until 'needsSender' has returned true.
collect :: Engine -> IO ByteString
collect engine = using engine $ \pointer -> allocaBytes collectMost $ \memory -> do
  count <- fromIntegral <$> c_collect pointer memory (fromIntegral collectMost)
  if count == 0 then return ByteString.empty else Internal.create count (\to -> copyBytes to memory count)

-- | The largest number of bytes that 'collect' returns.
collectMost :: Int
collectMost = 32768

foreign import ccall unsafe "http2_client_needs_sender" c_needsSender :: Ptr Engine -> IO CInt

-- | Whether the caller must wake the sending thread.
needsSender :: Engine -> IO Bool
needsSender engine = (/= 0) <$> using engine c_needsSender

-- | The state of a connection.
data EngineState = EngineState
  { -- | The server's settings have arrived.
    isReady :: !Bool,
    -- | It takes no further requests.
    isLeaving :: !Bool,
    -- | Nothing more will be sent or received.
    isOver :: !Bool,
    -- | The server has violated the protocol.
    hasFailed :: !Bool,
    -- | The server takes extended CONNECT (RFC 8441).
    canConnect :: !Bool
  }

foreign import ccall unsafe "http2_client_state" c_state :: Ptr Engine -> IO Word32

-- | The connection's state now. A notice with 'stateKey' says that it has changed.
engineState :: Engine -> IO EngineState
engineState engine = make <$> using engine c_state
  where
    make flags =
      EngineState
        { isReady = flags `has` #{const HTTP2_CLIENT_IS_READY},
          isLeaving = flags `has` #{const HTTP2_CLIENT_IS_LEAVING},
          isOver = flags `has` #{const HTTP2_CLIENT_IS_OVER},
          hasFailed = flags `has` #{const HTTP2_CLIENT_HAS_FAILED},
          canConnect = flags `has` #{const HTTP2_CLIENT_CAN_CONNECT}
        }
    has flags flag = flags .&. flag /= 0

foreign import ccall unsafe "http2_client_stream_count" c_streamCount :: Ptr Engine -> IO Word32

-- | The number of open streams.
streamCount :: Engine -> IO Int
streamCount engine = fromIntegral <$> using engine c_streamCount

foreign import ccall unsafe "http2_client_streams_max" c_streamsMax :: Ptr Engine -> IO Word32

-- | The number of streams that the server allows.
streamsMax :: Engine -> IO Int
streamsMax engine = fromIntegral <$> using engine c_streamsMax

foreign import ccall unsafe "http2_client_next_notice" c_nextNotice :: Ptr Engine -> IO Int64

-- | The key ('Shared.noticeKey') of a thread that has to be woken.
nextNotice :: Engine -> IO (Maybe Int)
nextNotice engine = Shared.noticed <$> using engine c_nextNotice

-- | The key under which a thread waits for the connection's state to change.
stateKey :: Int
stateKey = Shared.noticeKey #{const HTTP_NO_STREAM} Readable

foreign import ccall unsafe "http2_client_ping" c_ping :: Ptr Engine -> IO ()

-- | Sends PING. The caller wakes the sending thread.
sendPing :: Engine -> IO ()
sendPing engine = using engine c_ping

foreign import ccall unsafe "http2_client_announce_end" c_announceEnd :: Ptr Engine -> IO ()

-- | Announces the end. Open streams continue.
announceEnd :: Engine -> IO ()
announceEnd engine = using engine c_announceEnd

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- | The result of 'requestStream'.
data Request
  = Requested !Stream
  | -- | The server allows no further stream now.
    AtLimit
  | -- | The server allows no stream at all.
    Barred
  | -- | The connection takes no further requests.
    Leaving
  | InvalidFields

-- | What follows a head.
data Part = NothingFollows | BodyFollows
  deriving (Eq, Show)

foreign import ccall unsafe "http2_client_request"
  c_request ::
    Ptr Engine -> Ptr Word8 -> Word32 -> CInt -> Ptr (Ptr Shared.Stream) -> IO CInt

-- | Begins a request with these fields, the pseudo-fields first.
requestStream :: Engine -> [(ByteString, ByteString, Secrecy)] -> Part -> IO Request
requestStream engine fields part = using engine $ \pointer -> withFields fields $ \rows count -> alloca $ \at -> do
  result <- c_request pointer rows count following at
  case result of
    #{const HTTP_OK} -> Requested . Stream engine <$> peek at
    #{const HTTP2_CLIENT_FULL} -> return AtLimit
    #{const HTTP2_CLIENT_LEAVING} -> return Leaving
    #{const HTTP2_CLIENT_BARRED} -> return Barred
    _ -> return InvalidFields
  where
    following = case part of
      NothingFollows -> #{const HTTP2_CLIENT_NOTHING_FOLLOWS}
      BodyFollows -> #{const HTTP2_CLIENT_BODY_FOLLOWS}

-- | Whether a field is kept for the compression of others.
data Secrecy = Kept | Secret
  deriving (Eq, Show)

withFields :: [(ByteString, ByteString, Secrecy)] -> (Ptr Word8 -> Word32 -> IO a) -> IO a
withFields fields use =
  allocaBytes (max 1 size) $ \start -> put start fields >> use start (fromIntegral (length fields))
  where
    size = sum [8 + ByteString.length name + ByteString.length value | (name, value, _) <- fields]
    put _ [] = return ()
    put at ((name, value, secrecy) : others) = do
      pokeByteOff at 0 (fromIntegral (ByteString.length name) .|. secretBit secrecy)
      pokeByteOff at 4 (fromIntegral (ByteString.length value) :: Word32)
      copy (at `plusPtr` 8) name
      copy (at `plusPtr` (8 + ByteString.length name)) value
      put (at `plusPtr` (8 + ByteString.length name + ByteString.length value)) others
    secretBit secrecy = if secrecy == Secret then #{const HTTP2_CLIENT_SECRET} else 0 :: Word32
    copy to bytes = Unsafe.unsafeUseAsCStringLen bytes (\(from, count) -> copyBytes to (castPtr from) count)

-- | The number of the stream, for 'Shared.noticeKey'.
streamKey :: Stream -> IO Int
streamKey stream = on stream Shared.streamKey

foreign import ccall unsafe "http2_client_release" c_release :: Ptr Shared.Stream -> IO ()

-- | Gives the stream back, and resets it if it is not complete. Call it once.
releaseStream :: Stream -> IO ()
releaseStream stream = on stream c_release

-- | Resets the stream with an error code of RFC 9113, section 7.
resetStreamWith :: Stream -> Word32 -> IO ()
resetStreamWith stream code = on stream (\pointer -> Shared.resetStreamWith pointer (fromIntegral code))

-- | Adds at most 1 MiB to the body. 'Full': call 'awaitOutput' before the next piece.
writeStream :: Stream -> ByteString -> IO WriteOutcome
writeStream stream bytes = on stream $ \pointer ->
  Unsafe.unsafeUseAsCStringLen bytes (\(start, count) -> Shared.writeStream pointer (castPtr start) count)

-- | 'Full' while more than this many bytes of the body are unsent. The engine will give a notice.
awaitOutput :: Stream -> Int -> IO WriteOutcome
awaitOutput stream most = on stream (`Shared.awaitOutput` most)

-- | Ends the request, with these trailers.
finishStream :: Stream -> [(ByteString, ByteString)] -> IO WriteOutcome
finishStream stream trailers = on stream $ \pointer ->
  withRowsOf 0 [(CI.mk name, value) | (name, value) <- trailers] (\_ rows -> Shared.finishStream pointer rows)

------------------------------------------------------------------------------------------------------------------------
-- Responses

-- | The result of an attempt to receive.
data ReceiveResult a
  = Ready a
  | -- | Nothing yet. The engine will give a notice.
    MustWait
  | -- | The stream has failed: 'streamFailure'.
    Broken

foreign import ccall unsafe "http2_client_await_head" c_awaitHead :: Ptr Shared.Stream -> IO Int64

foreign import ccall unsafe "http2_client_copy_head"
  c_copyHead ::
    Ptr Shared.Stream -> Ptr Word8 -> Ptr Word32 -> Ptr Word32 -> IO CInt

-- | The next head: its status, its fields, and what follows.
takeHead :: Stream -> IO (ReceiveResult (Int, [(ByteString, ByteString)], Part))
takeHead stream = on stream $ \pointer -> do
  size <- c_awaitHead pointer
  if size < 0
    then return (if negate size == #{const HTTP_WAIT} then MustWait else Broken)
    else allocaBytes 8 $ \numbers -> do
      (rows, status) <-
        createWith (fromIntegral size) (\memory -> c_copyHead pointer memory numbers (numbers `plusPtr` 4))
      count <- peek numbers
      part <- peekByteOff numbers 4
      fields <- fieldsOf rows (fromIntegral count)
      return (Ready (fromIntegral status, fields, partNumbered part))

partNumbered :: Word32 -> Part
partNumbered number = if number == #{const HTTP2_CLIENT_NOTHING_FOLLOWS} then NothingFollows else BodyFollows

createWith :: Int -> (Ptr Word8 -> IO a) -> IO (ByteString, a)
createWith size fill = do
  memory <- Internal.mallocByteString size
  result <- withForeignPtr memory fill
  return (Internal.fromForeignPtr memory 0 size, result)

-- The fields share the memory of the rows.
fieldsOf :: ByteString -> Int -> IO [(ByteString, ByteString)]
fieldsOf _ 0 = return []
fieldsOf rows count = Unsafe.unsafeUseAsCString rows $ \start -> do
  nameLength <- fromIntegral <$> (peekByteOff start 0 :: IO Word32)
  valueLength <- fromIntegral <$> (peekByteOff start 4 :: IO Word32)
  let name = Unsafe.unsafeTake nameLength (Unsafe.unsafeDrop 8 rows)
      behind = Unsafe.unsafeDrop (8 + nameLength) rows
  ((name, Unsafe.unsafeTake valueLength behind) :) <$> fieldsOf (Unsafe.unsafeDrop valueLength behind) (count - 1)

-- | At most this many bytes of the response's body; empty at the end.
readStream :: Stream -> Int -> IO (ReceiveResult ByteString)
readStream stream most = on stream $ \pointer -> do
  unread <- Shared.streamUnread pointer
  -- Bytes may arrive meanwhile. Then this reads as many of them as fit.
  let size = min most (if unread > 0 then unread else 1024)
  memory <- Internal.mallocByteString size
  result <- withForeignPtr memory (\to -> Shared.readStream pointer to size)
  return $ case result of
    Rows.Bytes count -> Ready (ByteString.take count (Internal.fromForeignPtr memory 0 size))
    Rows.MustWait -> MustWait
    Rows.Broken -> Broken

-- | The trailers, once the body has ended.
readTrailers :: Stream -> IO [(ByteString, ByteString)]
readTrailers stream = on stream Shared.readTrailers

-- | Why a stream has failed.
data Failure
  = -- | It has not failed: both sides have ended.
    Complete
  | -- | The server has not worked on the request, which may be sent again.
    Refused
  | -- | The server has reset it, with this error code.
    Reset !Word32
  | -- | The response is malformed, or this side has reset the stream.
    Malformed
  | -- | The head is too long, or there are too many.
    TooLong
  | -- | The connection is over.
    Lost

foreign import ccall unsafe "http2_client_failure" c_failure :: Ptr Shared.Stream -> Ptr Word32 -> IO CInt

-- | Why a stream has failed.
streamFailure :: Stream -> IO Failure
streamFailure stream = on stream $ \pointer -> alloca $ \at -> do
  cause <- c_failure pointer at
  code <- peek at
  return $ case cause of
    #{const HTTP2_CLIENT_COMPLETE} -> Complete
    #{const HTTP2_CLIENT_REFUSED} -> Refused
    #{const HTTP2_CLIENT_RESET} -> Reset code
    #{const HTTP2_CLIENT_BROKEN} -> Malformed
    #{const HTTP2_CLIENT_TOO_LONG} -> TooLong
    _ -> Lost
