-- Must not know: sockets, WAI.

-- |
-- The C code of HTTP\/2 as Haskell functions: one connection's protocol, purely in memory.
--
-- No function blocks, except on the lock of a connection, which is never held for long.
module Millrace.Http.Http2.Engine
  ( -- * Settings
    EngineSettings,
    withEngineSettings,
    newEngineSettings,
    isSupported,

    -- * Connections
    Engine,
    openEngine,
    closeEngine,
    freeEngine,

    -- ** Flags
    Flags,
    has,
    hasRequests,
    hasNotices,
    isOver,
    hasFailed,
    isBusy,
    hasEnded,
    inHead,
    hasLimit,
    takeLimit,
    outputCount,

    -- ** Bytes
    feed,
    Sender (..),
    collect,
    collectMin,
    hasMuch,
    collectMuch,
    allocOutput,
    freeOutput,
    stopSending,
    resumeSending,
    needsSender,
    isBacklogBelow,
    backlogKey,

    -- ** Streams of a connection
    nextRequest,
    streamCount,
    nextNotice,
    resetStalled,
    stopDue,
    stopClients,
    End (..),
    announceEnd,
    endCalm,
    endInput,
    isAtRest,
    restKey,
    releaseStream,
  )
where

#include "http2_engine.h"

import Data.Int (Int64)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (ForeignPtr, mallocForeignPtrBytes, withForeignPtr)
import Foreign.Ptr (Ptr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Exception (ConnectionLimit)
import Millrace.Http.Multiplexed.Engine
import Millrace.Http.Multiplexed.Head (Security (..))
import Millrace.Http.Multiplexed.Limit (limitNumbered)
import Millrace.Http.Multiplexed.Rows (Event (..))
import Millrace.Http.Multiplexed.EngineLimits (EngineLimits, pokeLimits)

------------------------------------------------------------------------------------------------------------------------
-- Settings

-- | The settings that all connections of a server share.
newtype EngineSettings = EngineSettings (ForeignPtr ())

-- | Copies limits into memory for the C code.
newEngineSettings :: EngineLimits -> IO EngineSettings
newEngineSettings limits = do
  memory <- mallocForeignPtrBytes #{size http_settings}
  withForeignPtr memory (`pokeLimits` limits)
  return (EngineSettings memory)

-- | Their address, which is valid during the action.
withEngineSettings :: EngineSettings -> (Ptr () -> IO a) -> IO a
withEngineSettings (EngineSettings memory) = withForeignPtr memory

foreign import ccall unsafe "http2_is_supported"
  c_isSupported :: IO CInt

-- | Whether this system supports HTTP\/2.
isSupported :: IO Bool
isSupported = (/= 0) <$> c_isSupported

------------------------------------------------------------------------------------------------------------------------
-- Connections

-- | The protocol of one connection.
data Engine

foreign import ccall unsafe "http2_open"
  c_open :: Ptr () -> CInt -> IO (Ptr Engine)

-- | Makes a connection. The settings must live as long as it does. @nullPtr@ without memory.
openEngine :: Ptr () -> Security -> IO (Ptr Engine)
openEngine settings security = c_open settings (if security == Protected then 1 else 0)

-- | Ends the connection: closes all streams.
foreign import ccall unsafe "http2_close"
  closeEngine :: Ptr Engine -> IO ()

-- | Frees a closed one. All streams must have been released.
foreign import ccall unsafe "http2_free"
  freeEngine :: Ptr Engine -> IO ()

-- | Flags: the client has violated the protocol; a request's head, or the preface, is incomplete; the client has gone
-- beyond a limit.
hasFailed, inHead, hasLimit :: Flags
hasFailed = Flags #{const HTTP2_HAS_FAILED}
inHead = Flags #{const HTTP2_IN_HEAD}
hasLimit = Flags #{const HTTP2_HAS_LIMIT}

foreign import ccall unsafe "http2_take_limit"
  c_takeLimit :: Ptr Engine -> IO CInt

-- | The limit for which the connection ends, the first time that this is called after that.
takeLimit :: Ptr Engine -> IO (Maybe ConnectionLimit)
takeLimit engine = limitNumbered <$> c_takeLimit engine

foreign import ccall unsafe "http2_feed"
  c_feed :: Ptr Engine -> Ptr Word8 -> CSize -> Word64 -> IO Word64

-- | @feed engine bytes count now@ takes received bytes. The caller will call 'collect'.
feed :: Ptr Engine -> Ptr Word8 -> Int -> Word64 -> IO Flags
feed engine bytes count now = Flags <$> c_feed engine bytes (fromIntegral count) now
{-# INLINE feed #-}

foreign import ccall unsafe "http2_collect"
  c_collect :: Ptr Engine -> Ptr Word8 -> CSize -> CInt -> IO Word64

-- | Writes bytes to be sent to memory of this size, at least 'collectMin'. If no other thread can have anything to
-- send, the call that returns the last bytes to 'Driver' also ends its right.
collect :: Ptr Engine -> Ptr Word8 -> Int -> Sender -> IO Flags
collect engine target size sender = Flags <$> c_collect engine target (fromIntegral size) (senderNumber sender)
{-# INLINE collect #-}

-- | The least size of the memory for 'collect'.
collectMin :: Int
collectMin = #{const HTTP2_COLLECT_MIN}

foreign import ccall unsafe "http2_has_much"
  c_hasMuch :: Ptr Engine -> IO CInt

-- | Whether bodies have more bytes to send than fit into memory of 'collectMin' bytes.
hasMuch :: Ptr Engine -> IO Bool
hasMuch engine = (/= 0) <$> c_hasMuch engine
{-# INLINE hasMuch #-}

-- | The size of the memory of 'allocOutput'.
collectMuch :: Int
collectMuch = #{const HTTP2_COLLECT_MUCH}

-- | Memory for a large 'collect'. @nullPtr@ if there is none.
foreign import ccall unsafe "http2_alloc_output"
  allocOutput :: IO (Ptr Word8)

-- | Frees it. Any thread may do that.
foreign import ccall unsafe "http2_free_output"
  freeOutput :: Ptr Word8 -> IO ()

-- | Gives up the right to send.
foreign import ccall unsafe "http2_stop_sending"
  stopSending :: Ptr Engine -> IO ()

-- | Takes the right back, when no other thread can have it.
foreign import ccall unsafe "http2_resume_sending"
  resumeSending :: Ptr Engine -> IO ()

foreign import ccall unsafe "http2_needs_sender"
  c_needsSender :: Ptr Engine -> IO CInt

-- | Whether there is output that no thread is about to send.
needsSender :: Ptr Engine -> IO Bool
needsSender engine = (/= 0) <$> c_needsSender engine

foreign import ccall unsafe "http2_await_backlog"
  c_awaitBacklog :: Ptr Engine -> Word32 -> IO CInt

-- | Whether at most this many frames wait to be sent, or no thread sends. If not, there will be a notice with
-- 'backlogKey'.
isBacklogBelow :: Ptr Engine -> Int -> IO Bool
isBacklogBelow engine most = (== #{const HTTP_OK}) <$> c_awaitBacklog engine (fromIntegral most)

-- | The key under which the driver waits for frames to be sent.
backlogKey :: Int
backlogKey = noticeKey #{const HTTP_NO_STREAM} Writable

-- | The next request, or @nullPtr@.
foreign import ccall unsafe "http2_next_request"
  nextRequest :: Ptr Engine -> IO (Ptr Stream)

foreign import ccall unsafe "http2_stream_count"
  c_streamCount :: Ptr Engine -> IO Word32

-- | The number of streams that are open or are served.
streamCount :: Ptr Engine -> IO Int
streamCount engine = fromIntegral <$> c_streamCount engine

foreign import ccall unsafe "http2_next_notice"
  c_nextNotice :: Ptr Engine -> IO Int64

-- | The key ('Millrace.Http.Multiplexed.Engine.noticeKey') of a thread that has to be woken.
nextNotice :: Ptr Engine -> IO (Maybe Int)
nextNotice engine = noticed <$> c_nextNotice engine

foreign import ccall unsafe "http2_stop_due"
  c_stopDue :: Ptr Engine -> IO Word64

-- | When 'stopClients' is to be called, in nanoseconds.
stopDue :: Ptr Engine -> IO (Maybe Int)
stopDue engine = (\due -> if due == 0 then Nothing else Just (fromIntegral due)) <$> c_stopDue engine

foreign import ccall unsafe "http2_stop_clients"
  c_stopClients :: Ptr Engine -> Word64 -> IO Word32

-- | @stopClients engine now@ resets streams whose clients still send much of a body, although they have had half a
-- second for reading their answer. Returns their number.
stopClients :: Ptr Engine -> Word64 -> IO Int
stopClients engine now = fromIntegral <$> c_stopClients engine now

foreign import ccall unsafe "http2_reset_stalled"
  c_resetStalled :: Ptr Engine -> Word64 -> Word64 -> IO Word32

-- | @resetStalled engine now nanoseconds@ resets the streams whose output has not moved for that time. Returns their
-- number.
resetStalled :: Ptr Engine -> Word64 -> Word64 -> IO Int
resetStalled engine now limit = fromIntegral <$> c_resetStalled engine now limit

foreign import ccall unsafe "http2_announce_end"
  c_announceEnd :: Ptr Engine -> CInt -> IO ()

-- | Announces the end. The caller will call 'collect'.
announceEnd :: Ptr Engine -> End -> IO ()
announceEnd engine = c_announceEnd engine . endNumber

-- | Ends the connection of an attacker at once, with ENHANCE_YOUR_CALM. The caller will call 'collect'.
foreign import ccall unsafe "http2_end_calm"
  endCalm :: Ptr Engine -> IO ()

-- | The client has ended its side. Nothing more will be fed.
foreign import ccall unsafe "http2_end_input"
  endInput :: Ptr Engine -> IO ()

foreign import ccall unsafe "http2_await_rest"
  c_awaitRest :: Ptr Engine -> IO CInt

-- | Whether nothing is left to be done after 'endInput'. If something is, there will be a notice with 'restKey'.
isAtRest :: Ptr Engine -> IO Bool
isAtRest engine = (== #{const HTTP_OK}) <$> c_awaitRest engine

-- | The key under which the driver waits for the last answer to be sent.
restKey :: Int
restKey = noticeKey #{const HTTP_NO_STREAM} Closed

------------------------------------------------------------------------------------------------------------------------
-- Streams

foreign import ccall unsafe "http2_release"
  c_release :: Ptr Stream -> Word64 -> IO Word64

-- | The request is over. The stream must not be used any more.
releaseStream :: Ptr Stream -> IO Flags
releaseStream = releaseWith c_release monotonicNanoseconds
