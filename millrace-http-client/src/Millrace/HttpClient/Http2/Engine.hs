-- | The C code of an HTTP\/2 client as Haskell functions: one connection's protocol, purely in memory. Must not know:
-- sockets.
--
-- No function blocks, except on the lock of a connection, which is never held for long.
module Millrace.HttpClient.Http2.Engine
  ( -- * Connections
    Engine,
    EngineSettings (..),
    openEngine,
    endEngine,
    feed,
    collect,
    collectRoom,
    needsWriter,
    EngineState (..),
    engineState,
    streamCount,
    streamsMax,
    nextNotice,
    Notice (..),
    sendPing,
    leave,

    -- * Streams
    Stream,
    Start (..),
    Part (..),
    Secrecy (..),
    startStream,
    releaseStream,
    resetStream,
    writeStream,
    awaitOutput,
    finishStream,
    Reading (..),
    takeHead,
    readBody,
    readTrailers,
    Failure (..),
    streamFailure,
  )
where

import Data.Bits (shiftL, testBit, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Internal
import qualified Data.ByteString.Unsafe as Unsafe
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (FunPtr, Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, pokeByteOff)

-- | A connection of the C code.
newtype Engine = Engine (ForeignPtr Engine)

-- | Bytes of windows, heads and waiting output, and the number of interim responses.
data EngineSettings = EngineSettings
  { engineStreamWindow :: !Int,
    engineConnectionWindow :: !Int,
    engineHeadMax :: !Int,
    engineInterimMax :: !Int,
    engineOutputMax :: !Int
  }

-- | A stream of the C code. It is valid until it is released, and as long as its engine is.
data Stream = Stream !Engine !(Ptr Stream)

foreign import ccall unsafe "http2_client_open" c_open :: Ptr Word32 -> IO (Ptr Engine)

foreign import ccall unsafe "&http2_client_free" c_free :: FunPtr (Ptr Engine -> IO ())

-- | A new connection. 'Nothing' without memory.
openEngine :: EngineSettings -> IO (Maybe Engine)
openEngine settings = allocaBytes 20 $ \place -> do
  mapM_ (\(index, value) -> pokeByteOff place (4 * index) (fromIntegral value :: Word32)) (zip [0 ..] values)
  made <- c_open place
  if made == nullPtr then return Nothing else Just . Engine <$> newForeignPtr c_free made
  where
    values =
      [engineStreamWindow settings, engineConnectionWindow settings, engineHeadMax settings, engineInterimMax settings, engineOutputMax settings]

using :: Engine -> (Ptr Engine -> IO a) -> IO a
using (Engine pointer) = withForeignPtr pointer
{-# INLINE using #-}

on :: Stream -> (Ptr Stream -> IO a) -> IO a
on (Stream engine stream) use = using engine (const (use stream))
{-# INLINE on #-}

foreign import ccall unsafe "http2_client_end" c_end :: Ptr Engine -> IO ()

-- | The connection is over. All streams are closed.
endEngine :: Engine -> IO ()
endEngine engine = using engine c_end

foreign import ccall unsafe "http2_client_feed" c_feed :: Ptr Engine -> Ptr Word8 -> CSize -> IO ()

-- | Processes received bytes.
feed :: Engine -> ByteString -> IO ()
feed engine bytes =
  using engine $ \pointer ->
    Unsafe.unsafeUseAsCStringLen bytes $ \(start, count) -> c_feed pointer (castPtr start) (fromIntegral count)

foreign import ccall unsafe "http2_client_collect" c_collect :: Ptr Engine -> Ptr Word8 -> CSize -> IO CSize

-- | Bytes to send. None: the writer sleeps until 'needsWriter' has said so.
collect :: Engine -> IO ByteString
collect engine = using engine $ \pointer -> allocaBytes collectRoom $ \place -> do
  count <- fromIntegral <$> c_collect pointer place (fromIntegral collectRoom)
  if count == 0 then return ByteString.empty else Internal.create count (\to -> copyBytes to place count)

-- | The largest number of bytes that 'collect' returns.
collectRoom :: Int
collectRoom = 32768

foreign import ccall unsafe "http2_client_needs_writer" c_needs_writer :: Ptr Engine -> IO CInt

-- | Must the caller wake the writer?
needsWriter :: Engine -> IO Bool
needsWriter engine = (/= 0) <$> using engine c_needs_writer

-- | What is known of a connection.
data EngineState = EngineState
  { -- | The server's settings have arrived.
    isReady :: !Bool,
    -- | It takes no further requests.
    isLeaving :: !Bool,
    isOver :: !Bool,
    -- | The server has violated the protocol.
    hasFailed :: !Bool,
    -- | The server takes extended CONNECT (RFC 8441).
    canConnect :: !Bool
  }

foreign import ccall unsafe "http2_client_state" c_state :: Ptr Engine -> IO Word32

engineState :: Engine -> IO EngineState
engineState engine = make <$> using engine c_state
  where
    make flags = EngineState (testBit flags 0) (testBit flags 1) (testBit flags 2) (testBit flags 3) (testBit flags 4)

foreign import ccall unsafe "http2_client_stream_count" c_stream_count :: Ptr Engine -> IO Word32

-- | The number of open streams.
streamCount :: Engine -> IO Int
streamCount engine = fromIntegral <$> using engine c_stream_count

foreign import ccall unsafe "http2_client_streams_max" c_streams_max :: Ptr Engine -> IO Word32

-- | How many streams the server allows.
streamsMax :: Engine -> IO Int
streamsMax engine = fromIntegral <$> using engine c_streams_max

-- | Whom to wake: those that wait for the connection's state, or a stream's reader or writer, by its token.
data Notice
  = StateChanged
  | WakeReader !Int
  | WakeWriter !Int

foreign import ccall unsafe "http2_client_next_notice" c_next_notice :: Ptr Engine -> IO Int64

nextNotice :: Engine -> IO (Maybe Notice)
nextNotice engine = make <$> using engine c_next_notice
  where
    make number
      | number < 0 = Nothing
      | number < 2 = Just StateChanged
      | even number = Just (WakeReader (fromIntegral (number `quot` 2)))
      | otherwise = Just (WakeWriter (fromIntegral (number `quot` 2)))

foreign import ccall unsafe "http2_client_ping" c_ping :: Ptr Engine -> IO ()

sendPing :: Engine -> IO ()
sendPing engine = using engine c_ping

foreign import ccall unsafe "http2_client_leave" c_leave :: Ptr Engine -> IO ()

-- | Announces the end. Open streams go on.
leave :: Engine -> IO ()
leave engine = using engine c_leave

------------------------------------------------------------------------------------------------------------------------
-- Streams

-- | What came of beginning a request.
data Start
  = Started !Stream
  | -- | The server allows no further stream now.
    Full
  | -- | The server allows no stream at all.
    Barred
  | Leaving
  | InvalidFields

-- | What follows a head.
data Part = NothingFollows | BodyFollows
  deriving (Eq, Show)

foreign import ccall unsafe "http2_client_start"
  c_start ::
    Ptr Engine -> Word32 -> Ptr Word8 -> Word32 -> CInt -> Ptr (Ptr Stream) -> IO CInt

-- | Begins a request: its token, its fields with the pseudo-fields first, and whether a body follows. A secret field is
-- not kept for compression.
startStream :: Engine -> Int -> [(ByteString, ByteString, Secrecy)] -> Part -> IO Start
startStream engine token fields part = using engine $ \pointer -> withRows fields $ \rows count -> alloca $ \place -> do
  result <- c_start pointer (fromIntegral token) rows count (if part == NothingFollows then 1 else 0) place
  case result of
    0 -> Started . Stream engine <$> peek place
    -3 -> return Full
    -4 -> return Leaving
    -6 -> return Barred
    _ -> return InvalidFields

-- | Whether a field is kept for the compression of others.
data Secrecy = Kept | Secret
  deriving (Eq, Show)

withRows :: [(ByteString, ByteString, Secrecy)] -> (Ptr Word8 -> Word32 -> IO a) -> IO a
withRows fields use = allocaBytes (max 1 size) $ \start -> put start fields >> use start (fromIntegral (length fields))
  where
    size = sum [8 + ByteString.length name + ByteString.length value | (name, value, _) <- fields]
    put _ [] = return ()
    put at ((name, value, secret) : others) = do
      pokeByteOff
        at
        0
        ((fromIntegral (ByteString.length name) :: Word32) .|. (if secret == Secret then 1 `shiftL` 31 else 0))
      pokeByteOff at 4 (fromIntegral (ByteString.length value) :: Word32)
      copy (at `plusPtr` 8) name
      copy (at `plusPtr` (8 + ByteString.length name)) value
      put (at `plusPtr` (8 + ByteString.length name + ByteString.length value)) others
    copy to bytes = Unsafe.unsafeUseAsCStringLen bytes (\(from, count) -> copyBytes to (castPtr from) count)

foreign import ccall unsafe "http2_client_release" c_release :: Ptr Stream -> IO ()

-- | Gives the stream back, and resets it if it is not complete. Call it once.
releaseStream :: Stream -> IO ()
releaseStream stream = on stream c_release

foreign import ccall unsafe "http2_client_reset" c_reset :: Ptr Stream -> Word32 -> IO ()

-- | Resets the stream with an error code of RFC 9113, section 7.
resetStream :: Stream -> Word32 -> IO ()
resetStream stream code = on stream (`c_reset` code)

foreign import ccall unsafe "http2_client_write" c_write :: Ptr Stream -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall unsafe "http2_client_await_output" c_await_output :: Ptr Stream -> IO CInt

foreign import ccall unsafe "http2_client_finish" c_finish :: Ptr Stream -> Ptr Word8 -> Word32 -> IO CInt

-- | What came of a try. After 'MustWait' there will be a notice.
data Reading a
  = Ready a
  | MustWait
  | -- | The stream is closed.
    Gone

-- | Adds to the body. 'MustWait': call 'awaitOutput' before the next piece.
writeStream :: Stream -> ByteString -> IO (Reading ())
writeStream stream bytes = on stream $ \pointer ->
  Unsafe.unsafeUseAsCStringLen bytes $ \(start, count) -> plain <$> c_write pointer (castPtr start) (fromIntegral count)

-- | Is there room for the next piece?
awaitOutput :: Stream -> IO (Reading ())
awaitOutput stream = plain <$> on stream c_await_output

-- | Ends the request with these trailers.
finishStream :: Stream -> [(ByteString, ByteString)] -> IO (Reading ())
finishStream stream trailers = on stream $ \pointer ->
  withRows [(name, value, Kept) | (name, value) <- trailers] (\rows count -> plain <$> c_finish pointer rows count)

plain :: CInt -> Reading ()
plain result = case result of
  0 -> Ready ()
  -1 -> MustWait
  _ -> Gone

foreign import ccall unsafe "http2_client_await_head" c_await_head :: Ptr Stream -> IO Int64

foreign import ccall unsafe "http2_client_take_head"
  c_take_head ::
    Ptr Stream -> Ptr Word8 -> Ptr Word32 -> Ptr Word32 -> IO CInt

-- | The next head: its status, its fields, and whether a body follows.
takeHead :: Stream -> IO (Reading (Int, [(ByteString, ByteString)], Part))
takeHead stream = on stream $ \pointer -> do
  size <- c_await_head pointer
  case size of
    -1 -> return MustWait
    _ | size < 0 -> return Gone
    _ -> allocaBytes 8 $ \numbers -> do
      (rows, status) <-
        createWith (fromIntegral size) (\place -> c_take_head pointer place numbers (numbers `plusPtr` 4))
      count <- peek numbers
      ends <- peekByteOff numbers 4
      fields <- fieldsOf rows (fromIntegral count)
      return (Ready (fromIntegral status, fields, if (ends :: Word32) /= 0 then NothingFollows else BodyFollows))

createWith :: Int -> (Ptr Word8 -> IO a) -> IO (ByteString, a)
createWith size fill = do
  place <- Internal.mallocByteString size
  result <- withForeignPtr place fill
  return (Internal.fromForeignPtr place 0 size, result)

-- The fields share the memory of the rows.
fieldsOf :: ByteString -> Int -> IO [(ByteString, ByteString)]
fieldsOf _ 0 = return []
fieldsOf rows count = Unsafe.unsafeUseAsCString rows $ \start -> do
  nameLength <- fromIntegral <$> (peekByteOff start 0 :: IO Word32)
  valueLength <- fromIntegral <$> (peekByteOff start 4 :: IO Word32)
  let name = Unsafe.unsafeTake nameLength (Unsafe.unsafeDrop 8 rows)
      behind = Unsafe.unsafeDrop (8 + nameLength) rows
  ((name, Unsafe.unsafeTake valueLength behind) :) <$> fieldsOf (Unsafe.unsafeDrop valueLength behind) (count - 1)

foreign import ccall unsafe "http2_client_await_body" c_await_body :: Ptr Stream -> IO Int64

foreign import ccall unsafe "http2_client_read" c_read :: Ptr Stream -> Ptr Word8 -> CSize -> IO CSize

-- | Bytes of the body, at most this many; empty at the end.
readBody :: Stream -> Int -> IO (Reading ByteString)
readBody stream most = on stream $ \pointer -> do
  size <- c_await_body pointer
  case size of
    -1 -> return MustWait
    0 -> return (Ready ByteString.empty)
    _ | size < 0 -> return Gone
    _ ->
      Ready
        <$> Internal.createAndTrim
          (min most (fromIntegral size))
          (\place -> fromIntegral <$> c_read pointer place (fromIntegral (min most (fromIntegral size))))

foreign import ccall unsafe "http2_client_trailers_length" c_trailers_length :: Ptr Stream -> IO CSize

foreign import ccall unsafe "http2_client_copy_trailers" c_copy_trailers :: Ptr Stream -> Ptr Word8 -> IO Word32

-- | The trailers, once the body has ended.
readTrailers :: Stream -> IO [(ByteString, ByteString)]
readTrailers stream = on stream $ \pointer -> do
  size <- fromIntegral <$> c_trailers_length pointer
  if size == 0
    then return []
    else do
      (rows, count) <- createWith size (c_copy_trailers pointer)
      fieldsOf rows (fromIntegral count)

-- | Why a stream is closed.
data Failure
  = -- | Both sides have ended.
    Complete
  | -- | The server has not worked on the request, which may be sent again.
    Refused
  | -- | The server has reset it, with this error code.
    Reset !Word32
  | -- | The response is malformed.
    Broken
  | -- | The head is too long, or there are too many.
    TooLong
  | -- | The connection is over.
    Lost

foreign import ccall unsafe "http2_client_failure" c_failure :: Ptr Stream -> Ptr Word32 -> IO CInt

streamFailure :: Stream -> IO Failure
streamFailure stream = on stream $ \pointer -> alloca $ \place -> do
  cause <- c_failure pointer place
  code <- peek place
  return $ case cause of
    0 -> Complete
    1 -> Refused
    2 -> Reset code
    3 -> Broken
    4 -> TooLong
    _ -> Lost
