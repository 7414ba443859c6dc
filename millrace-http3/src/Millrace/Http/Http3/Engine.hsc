-- Must not know: the clock, WAI.

-- |
-- The C code of HTTP\/3 as Haskell functions: all connections of one port, purely in memory.
--
-- No function blocks, except on the lock of an endpoint, which is never held for longer than a batch of datagrams
-- takes.
module Millrace.Http.Http3.Engine
  ( libraries,

    -- * Certificates
    Credentials,
    Pem (..),
    newCredentials,

    -- * Endpoints
    Engine,
    EngineSettings,
    newEngineSettings,
    PortLimits (..),
    Early (..),
    openEngine,
    openBeside,
    setCredentials,
    closeEngine,
    freeEngine,

    -- ** Flags
    Flags,
    has,
    hasRequests,
    hasNotices,
    hasChanges,
    isBusy,
    hasEnded,
    isForeign,
    outputCount,

    -- ** Datagrams
    endpointIdOf,
    receiveBatch,
    expiry,
    handleExpiry,
    batchSize,
    peekBatch,
    Locality (..),
    collectMin,
    Sender (..),
    collect,
    stopSending,
    needsSender,

    -- ** Connections
    End (..),
    announceEnd,
    endIdle,
    endConnection,
    resetStalled,
    resetUnfinished,
    restQuiet,
    connectionCount,
    streamCount,
    Change (..),
    nextChange,

    -- ** Requests
    nextRequest,
    nextNotice,

    -- * Streams
    streamNumber,
    streamConnectionNumber,
    streamClient,
    releaseStream,
    rejectStream,
    errorCode,
  )
where

#include "http3_engine.h"

import Control.Exception (mask_, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.Int (Int32, Int64)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.String (CString, peekCString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, mallocForeignPtrBytes, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Http.Exception (ConnectionLimit)
import Millrace.Http.Multiplexed.Engine
import Millrace.Http.Multiplexed.Limit (limitNumbered)
import Millrace.Http.Multiplexed.EngineLimits (EngineLimits, pokeLimits, settingWord)
import Millrace.Socket.Gso (Path (..), GsoBatch (..))
import Network.Socket (SockAddr)
import Network.Socket.Address (peekSocketAddress)

foreign import ccall unsafe "http3_libraries"
  c_libraries :: CString -> CSize -> IO ()

-- | The libraries that are used, with their versions.
libraries :: IO String
libraries = allocaBytes size $ \text -> c_libraries text (fromIntegral size) >> peekCString text
  where
    size = 256

------------------------------------------------------------------------------------------------------------------------
-- Certificates

-- | The certificates of a server.
newtype Credentials = Credentials (ForeignPtr ())

-- | A certificate with its chain, and its key.
data Pem = Pem
  { pemChain :: !ByteString,
    pemKey :: !ByteString
  }

foreign import ccall unsafe "http3_credentials_new"
  c_newCredentials :: IO (Ptr ())

foreign import ccall unsafe "&http3_credentials_free"
  c_freeCredentials :: FinalizerPtr ()

foreign import ccall unsafe "http3_credentials_add"
  c_addCredentials :: Ptr () -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> CString -> CSize -> IO CInt

foreign import ccall unsafe "http3_error_text"
  c_errorText :: CInt -> IO CString

-- | Makes them of certificates, each for the names in it. The first one is also for clients that ask for another name,
-- or for none. Throws an @IOError@ if GnuTLS cannot use them.
newCredentials :: [Pem] -> IO Credentials
newCredentials pems = do
  credentials <- mask_ $ do
    made <- c_newCredentials
    when (made == nullPtr) (throwIO (userError "HTTP/3: no memory for certificates"))
    newForeignPtr c_freeCredentials made
  withForeignPtr credentials $ \at -> mapM_ (add at) pems
  return (Credentials credentials)
  where
    add at (Pem chain key) = do
      result <- withBytes chain $ \chainAt chainSize -> withBytes key $ \keyAt keySize ->
        c_addCredentials at chainAt chainSize keyAt keySize nullPtr 0
      unless (result == 0) $ do
        text <- c_errorText result >>= peekCString
        throwIO (userError ("HTTP/3: GnuTLS cannot use a certificate or its key: " ++ text))
    withBytes bytes use = BU.unsafeUseAsCStringLen bytes $ \(start, size) -> use (castPtr start) (fromIntegral size)

------------------------------------------------------------------------------------------------------------------------
-- Endpoints

-- | All connections of one port.
data Engine

-- | The settings of an endpoint.
newtype EngineSettings = EngineSettings (ForeignPtr ())

-- | The settings of a port. Times are in milliseconds.
data PortLimits = PortLimits
  { -- | The limits that HTTP\/2 has, too.
    limitsInCommon :: !EngineLimits,
    -- | Requests of a connection.
    limitRequests :: !(Maybe Int),
    limitConnections :: !(Maybe Int),
    -- | 0: no limit.
    limitIdle :: !Int,
    limitHandshake :: !Int,
    -- | Bytes of the largest datagram to be tried.
    limitDatagram :: !Int,
    limitEarly :: !Early,
    -- | The beginning of connection IDs.
    limitEndpointId :: !Word16
  }

-- | Whether requests that change nothing are served when they come in 0-RTT.
data Early = ServesNothingEarly | ServesEarly

foreign import ccall unsafe "http3_settings_default"
  c_settingsDefault :: Ptr () -> IO CInt

-- | The defaults of the C code, with these limits. Throws an @IOError@ if the system has no random bytes.
newEngineSettings :: PortLimits -> IO EngineSettings
newEngineSettings limits = do
  memory <- mallocForeignPtrBytes #{size http3_settings}
  withForeignPtr memory $ \at -> do
    result <- c_settingsDefault at
    unless (result == 0) (throwIO (userError "HTTP/3: the system gives no random bytes"))
    pokeLimits (at `plusPtr` #{offset http3_settings, common}) (limitsInCommon limits)
    mapM_ (#{poke http3_settings, requests_max} at . settingWord) (limitRequests limits)
    mapM_ (#{poke http3_settings, connections_max} at . settingWord) (limitConnections limits)
    #{poke http3_settings, idle_ms} at (settingWord (limitIdle limits))
    #{poke http3_settings, handshake_ms} at (settingWord (limitHandshake limits))
    #{poke http3_settings, datagram_max} at (settingWord (limitDatagram limits))
    #{poke http3_settings, early} at $ case limitEarly limits of
      ServesNothingEarly -> 0 :: Word32
      ServesEarly -> 1
    #{poke http3_settings, endpoint_id} at (limitEndpointId limits)
  return (EngineSettings memory)

foreign import ccall unsafe "http3_open"
  c_open :: Ptr () -> Ptr () -> IO (Ptr Engine)

-- | Makes an endpoint. @nullPtr@ without memory.
openEngine :: EngineSettings -> Credentials -> IO (Ptr Engine)
openEngine (EngineSettings settings) (Credentials credentials) =
  withForeignPtr settings (withForeignPtr credentials . c_open)

-- | Makes another endpoint of the port of the first one, with its own beginning of connection IDs. @nullPtr@ without
-- memory.
foreign import ccall unsafe "http3_open_beside"
  openBeside :: Ptr Engine -> Word16 -> IO (Ptr Engine)

foreign import ccall unsafe "http3_set_credentials"
  c_setCredentials :: Ptr Engine -> Ptr () -> IO ()

-- | Replaces the certificates. Later handshakes use the new ones.
setCredentials :: Ptr Engine -> Credentials -> IO ()
setCredentials engine (Credentials credentials) = withForeignPtr credentials (c_setCredentials engine)

foreign import ccall unsafe "http3_close"
  c_close :: Ptr Engine -> Word64 -> Word64 -> IO ()

-- | Ends all connections, at this time, and takes no new ones. The caller will send what is to be said about it.
closeEngine :: Ptr Engine -> Word64 -> IO ()
closeEngine engine = c_close engine #{const HTTP3_NO_ERROR}

-- | Frees a closed one. All streams must have been released.
foreign import ccall unsafe "http3_free"
  freeEngine :: Ptr Engine -> IO ()

-- | Flags: connections have opened or ended; a datagram is the first one of a client, and was not taken because the
-- endpoint is ending.
hasChanges, isForeign :: Flags
hasChanges = Flags #{const HTTP3_HAS_CHANGES}
isForeign = Flags #{const HTTP3_IS_FOREIGN}

foreign import ccall unsafe "http3_endpoint_id_of"
  c_endpointIdOf :: Ptr Word8 -> CSize -> IO Int32

-- | 'limitEndpointId' of the endpoint that a datagram's connection ID names; -1: it names none. If the client has
-- chosen the ID, it may be any number.
endpointIdOf :: ByteString -> IO Int32
endpointIdOf bytes =
  BU.unsafeUseAsCStringLen bytes $ \(start, size) -> c_endpointIdOf (castPtr start) (fromIntegral size)

foreign import ccall unsafe "http3_receive"
  c_receive :: Ptr Engine -> Ptr () -> Word64 -> IO Word64

-- | @receiveBatch engine (local, size) (remote, size) batch now@ takes datagrams, whose bytes are overwritten. The
-- addresses are those of the batch. The caller will call 'collect'.
receiveBatch :: Ptr Engine -> (Ptr (), Int) -> (Ptr (), Int) -> GsoBatch -> Word64 -> IO Flags
receiveBatch engine (local, localSize) (remote, remoteSize) (GsoBatch _ ecn segment bytes) now =
  BU.unsafeUseAsCStringLen bytes $ \(start, size) -> allocaBytes #{size http3_datagrams} $ \datagrams -> do
    #{poke http3_datagrams, local} datagrams local
    #{poke http3_datagrams, local_length} datagrams (fromIntegral localSize :: Word32)
    #{poke http3_datagrams, remote} datagrams remote
    #{poke http3_datagrams, remote_length} datagrams (fromIntegral remoteSize :: Word32)
    #{poke http3_datagrams, ecn} datagrams (fromIntegral (fromEnum ecn) :: Word32)
    #{poke http3_datagrams, bytes} datagrams start
    #{poke http3_datagrams, length} datagrams (fromIntegral size :: CSize)
    #{poke http3_datagrams, segment} datagrams (fromIntegral segment :: CSize)
    Flags <$> c_receive engine datagrams now

-- | When 'handleExpiry' must be called, in nanoseconds. 'maxBound': never.
foreign import ccall unsafe "http3_expiry"
  expiry :: Ptr Engine -> IO Word64

foreign import ccall unsafe "http3_handle_expiry"
  c_handleExpiry :: Ptr Engine -> Word64 -> IO Word64

-- | Does what is due. The caller will call 'collect'.
handleExpiry :: Ptr Engine -> Word64 -> IO Flags
handleExpiry engine now = Flags <$> c_handleExpiry engine now

-- | The size of the description of a GSO batch.
batchSize :: Int
batchSize = #{size http3_gso_batch}

-- | The addresses of a socket.
data Locality
  = -- | It sends from the address that it is bound to.
    OneAddress
  | -- | It is bound to all addresses of the machine, so each datagram must say from which one it is sent.
    AllAddresses
  deriving (Eq)

-- | @peekBatch locality output at@ reads the batch with this description. Its bytes stay in the output.
peekBatch :: Locality -> Ptr Word8 -> Ptr () -> IO GsoBatch
peekBatch locality output at = do
  offset <- word <$> #{peek http3_gso_batch, offset} at
  size <- word <$> #{peek http3_gso_batch, length} at
  segment <- word <$> #{peek http3_gso_batch, segment} at
  ecn <- word <$> #{peek http3_gso_batch, ecn} at
  remote <- peekSocketAddress (at `plusPtr` #{offset http3_gso_batch, remote})
  local <- case locality of
    OneAddress -> return Nothing
    AllAddresses -> Just <$> peekSocketAddress (at `plusPtr` #{offset http3_gso_batch, local})
  GsoBatch (Path remote local) (toEnum ecn) segment <$> BU.unsafePackCStringLen (castPtr output `plusPtr` offset, size)
  where
    word :: Word32 -> Int
    word = fromIntegral

-- | The least size of the memory for 'collect'.
collectMin :: Int
collectMin = #{const HTTP3_COLLECT_MIN}

foreign import ccall unsafe "http3_collect"
  c_collect :: Ptr Engine -> Ptr () -> Word32 -> Ptr Word8 -> CSize -> Word64 -> CInt -> IO Word64

-- | @collect engine (batches, most) (output, size) now sender@ writes datagrams, and descriptions of at most this many
-- batches of them.
collect :: Ptr Engine -> (Ptr (), Int) -> (Ptr Word8, Int) -> Word64 -> Sender -> IO Flags
collect engine (batches, most) (output, size) now sender =
  Flags <$> c_collect engine batches (fromIntegral most) output (fromIntegral size) now (senderNumber sender)
{-# INLINE collect #-}

-- | Gives up the right to send.
foreign import ccall unsafe "http3_stop_sending"
  stopSending :: Ptr Engine -> IO ()

foreign import ccall unsafe "http3_needs_sender"
  c_needsSender :: Ptr Engine -> IO CInt

-- | Whether there is output that no thread is about to send.
needsSender :: Ptr Engine -> IO Bool
needsSender engine = (/= 0) <$> c_needsSender engine

foreign import ccall unsafe "http3_announce_end"
  c_announceEnd :: Ptr Engine -> CInt -> IO ()

-- | Announces the end of all connections. The caller will call 'collect'.
announceEnd :: Ptr Engine -> End -> IO ()
announceEnd engine = c_announceEnd engine . endNumber

foreign import ccall unsafe "http3_end_idle"
  c_endIdle :: Ptr Engine -> Word64 -> Word64 -> Word64 -> IO Word32

-- | @endIdle engine now nanoseconds fresh@ ends the connections that have had no request for that time. The last number
-- counts instead for those that had none at all. 0: no limit.
endIdle :: Ptr Engine -> Word64 -> Word64 -> Word64 -> IO Int
endIdle engine now limit fresh = fromIntegral <$> c_endIdle engine now limit fresh

foreign import ccall unsafe "http3_end_one"
  c_endOne :: Ptr Engine -> Word64 -> Word64 -> IO ()

-- | @endConnection engine now number@ ends a connection with all its requests.
endConnection :: Ptr Engine -> Word64 -> Word64 -> IO ()
endConnection engine now number = c_endOne engine number now

foreign import ccall unsafe "http3_rest_quiet"
  c_restQuiet :: Ptr Engine -> Word64 -> Word64 -> Word32 -> IO Word32

-- | @restQuiet engine now nanoseconds most@ packs the memory of connections that have been quiet for that time, at most
-- of this many. Returns their number.
restQuiet :: Ptr Engine -> Word64 -> Word64 -> Int -> IO Int
restQuiet engine now quiet most = fromIntegral <$> c_restQuiet engine now quiet (fromIntegral most)

foreign import ccall unsafe "http3_reset_stalled"
  c_resetStalled :: Ptr Engine -> Word64 -> Word64 -> IO Word32

-- | @resetStalled engine now nanoseconds@ resets the streams whose output has not moved for that time. Returns their
-- number.
resetStalled :: Ptr Engine -> Word64 -> Word64 -> IO Int
resetStalled engine now limit = fromIntegral <$> c_resetStalled engine now limit

foreign import ccall unsafe "http3_reset_unfinished"
  c_resetUnfinished :: Ptr Engine -> Word64 -> Word64 -> IO Word32

-- | @resetUnfinished engine now nanoseconds@ resets the requests whose heads have been incomplete for that time.
-- Returns their number.
resetUnfinished :: Ptr Engine -> Word64 -> Word64 -> IO Int
resetUnfinished engine now limit = fromIntegral <$> c_resetUnfinished engine now limit

foreign import ccall unsafe "http3_connection_count"
  c_connectionCount :: Ptr Engine -> IO Word32

foreign import ccall unsafe "http3_stream_count"
  c_streamCount :: Ptr Engine -> IO Word32

-- | The number of connections, and that of streams that are open or are served.
connectionCount, streamCount :: Ptr Engine -> IO Int
connectionCount engine = fromIntegral <$> c_connectionCount engine
streamCount engine = fromIntegral <$> c_streamCount engine

-- | An event of a connection, with its number and client: its handshake is complete; it will end because of a
-- limit; it has ended.
data Change
  = Opened !Word64 !SockAddr
  | Limited !ConnectionLimit !SockAddr
  | Ended !Word64 !SockAddr

foreign import ccall unsafe "http3_next_change"
  c_nextChange :: Ptr Engine -> Ptr () -> IO CInt

-- | The next change, oldest first.
nextChange :: Ptr Engine -> IO (Maybe Change)
nextChange engine = allocaBytes #{size http3_change} $ \at -> do
  found <- c_nextChange engine at
  if found == 0
    then return Nothing
    else do
      number <- #{peek http3_change, connection} at
      kind <- #{peek http3_change, kind} at
      limit <- #{peek http3_change, limit} at
      client <- peekSocketAddress (at `plusPtr` #{offset http3_change, remote})
      return . Just $ case (kind :: Word32, limitNumbered (fromIntegral (limit :: Word32))) of
        (#{const HTTP3_OPENED}, _) -> Opened number client
        (#{const HTTP3_LIMITED}, Just exceeded) -> Limited exceeded client
        _ -> Ended number client

-- | The next request, or @nullPtr@.
foreign import ccall unsafe "http3_next_request"
  nextRequest :: Ptr Engine -> IO (Ptr Stream)

foreign import ccall unsafe "http3_next_notice"
  c_nextNotice :: Ptr Engine -> IO Int64

-- | The key ('Millrace.Http.Multiplexed.Engine.noticeKey') of a thread that has to be woken.
nextNotice :: Ptr Engine -> IO (Maybe Int)
nextNotice engine = noticed <$> c_nextNotice engine

------------------------------------------------------------------------------------------------------------------------
-- Streams

-- | The number of the stream in its connection.
streamNumber :: Ptr Stream -> IO Int64
streamNumber = #{peek http3_stream, id}

-- | The number of the connection.
streamConnectionNumber :: Ptr Stream -> IO Word64
streamConnectionNumber = #{peek http3_stream, connection_number}

-- | The address that the request came from.
streamClient :: Ptr Stream -> IO SockAddr
streamClient stream = peekSocketAddress (stream `plusPtr` #{offset http3_stream, remote})

foreign import ccall unsafe "http3_release"
  c_release :: Ptr Stream -> Word64 -> IO Word64

-- | The request is over. The stream must not be used any more. The action returns the time.
releaseStream :: Ptr Stream -> IO Word64 -> IO Flags
releaseStream stream clock = releaseWith c_release clock stream

-- | Resets the stream at once: the request was not worked on.
rejectStream :: Ptr Stream -> IO ()
rejectStream stream = resetStreamWith stream (errorCode 7)

-- | The error code that means the same as this one of HTTP\/2 (RFC 9113, section 7; RFC 9114, section 8.1).
errorCode :: Word32 -> Word64
errorCode code = case code of
  0 -> #{const HTTP3_NO_ERROR}
  1 -> #{const HTTP3_MESSAGE_ERROR}
  7 -> #{const HTTP3_REQUEST_REJECTED}
  8 -> #{const HTTP3_REQUEST_CANCELLED}
  10 -> #{const HTTP3_CONNECT_ERROR}
  11 -> #{const HTTP3_EXCESSIVE_LOAD}
  13 -> #{const HTTP3_VERSION_FALLBACK}
  _ -> #{const HTTP3_INTERNAL_ERROR}
