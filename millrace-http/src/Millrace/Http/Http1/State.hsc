-- Must not know: sockets, listeners, WAI.

-- |
-- The state of a connection and of its requests: each field by name, with the type of its content.
--
-- There are three records. 'ConnectionState' lasts as long as the connection. 'Buffers' and 'RequestState' lie in the
-- arena, so a connection that waits has neither. A 'RequestState' is an address: a protocol may have many of them at a
-- time.
module Millrace.Http.Http1.State
  ( -- * The connection
    ConnectionState,
    newConnectionState,
    arenaAddress,
    borrowedInput,
    isIdleNow,
    givesWay,
    stage,
    requestsBegun,
    requestsEnded,
    endedWord,
    Stage (..),

    -- ** Words that are shared with other modules
    earlyFlushWord,
    paceWords,
    expectationWord,

    -- * Its input and output
    Buffers (..),
    buffersSize,
    inputBase,
    inputCapacity,
    inputStart,
    inputEnd,
    outputBase,
    outputSize,
    outputStop,
    flushEnd,
    flushedBytes,
    sendCount,

    -- * A request
    RequestState (..),
    requestStateSize,
    keepsOpen,
    totalDeadlineAt,
    bodyUnread,
    bodyReceived,
    bodyBudget,
    bodyProgress,
    bodyIsOver,
    responseStart,
    responseSends,
    responseBytes,
    isStreaming,
    streamFraming,
    chunkStart,
    closeOption,
    Unread (..),
    isAllRead,
  )
where

#include "http_state.h"

import Data.Primitive.ByteArray (newByteArray, readByteArray, setByteArray, writeByteArray)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Deadline (Deadline)
import Millrace.Http.Field
import Millrace.Http.Http1.Head (Framing (..))
import Millrace.Internal.AtomicWord (AtomicWord (..), AtomicWords)

------------------------------------------------------------------------------------------------------------------------
-- The connection

-- | The state of a connection for as long as it is open, also while it waits.
newtype ConnectionState = ConnectionState AtomicWords

instance Record ConnectionState where
  readWord (ConnectionState words') offset = readByteArray words' (offset `quot` wordSize)
  {-# INLINE readWord #-}
  writeWord (ConnectionState words') offset = writeByteArray words' (offset `quot` wordSize)
  {-# INLINE writeWord #-}

wordSize :: Int
wordSize = #{size intptr_t}

-- | Every field is 0, 'False', 'BetweenRequests' or @nullPtr@.
newConnectionState :: IO ConnectionState
newConnectionState = do
  words' <- newByteArray #{size http_connection_state}
  setByteArray words' 0 #{size http_connection_state} (0 :: Word8)
  return (ConnectionState words')

-- | The arena; @nullPtr@: the connection waits.
arenaAddress :: Field ConnectionState (Ptr Word8)
arenaAddress = Field #{offset http_connection_state, arena}

-- | The borrowed buffer that the input is in; @nullPtr@: there is none, or the input has outgrown it.
borrowedInput :: Field ConnectionState (Ptr Word8)
borrowedInput = Field #{offset http_connection_state, borrowed_input}

-- | Whether the connection waits for a request of which no byte has come.
isIdleNow :: Field ConnectionState Bool
isIdleNow = Field #{offset http_connection_state, is_idle}

-- | Whether the server itself has ended what it receives from the client.
givesWay :: Field ConnectionState Bool
givesWay = Field #{offset http_connection_state, gives_way}

-- | The phase of the current request.
stage :: Field ConnectionState Stage
stage = Field #{offset http_connection_state, stage}

-- | The number of complete request heads.
requestsBegun :: Field ConnectionState Int
requestsBegun = Field #{offset http_connection_state, requests}

-- | The number of requests whose handlers have returned, and its word.
requestsEnded :: Field ConnectionState Int
requestsEnded = Field #{offset http_connection_state, requests_ended}

endedWord :: ConnectionState -> AtomicWord
endedWord (ConnectionState words') = AtomicWord words' (#{offset http_connection_state, requests_ended} `quot` wordSize)
{-# INLINE endedWord #-}

-- | The phases of a request.
data Stage
  = BetweenRequests
  | InHead
  | InRequest
  | InResponse
  | -- | All responses were sent. The server waits for the client to end the connection.
    InFarewell
  deriving (Eq, Enum)

instance Unboxed Stage where
  toWord = fromEnum
  {-# INLINE toWord #-}
  fromWord = toEnum
  {-# INLINE fromWord #-}

-- | The words of "Millrace.Http.Threads.OnYield" and "Millrace.Http.Expectation".
earlyFlushWord, expectationWord :: ConnectionState -> AtomicWord
earlyFlushWord (ConnectionState words') =
  AtomicWord words' (#{offset http_connection_state, early_flush} `quot` wordSize)
expectationWord (ConnectionState words') =
  AtomicWord words' (#{offset http_connection_state, expectation} `quot` wordSize)
{-# INLINE earlyFlushWord #-}
{-# INLINE expectationWord #-}

-- | The two words of "Millrace.Http.Delivery": an array, and the index of the first one.
paceWords :: ConnectionState -> (AtomicWords, Int)
paceWords (ConnectionState words') = (words', #{offset http_connection_state, pace} `quot` wordSize)
{-# INLINE paceWords #-}

------------------------------------------------------------------------------------------------------------------------
-- Its input and output

-- | The input and the output of a connection that works.
newtype Buffers = Buffers (Ptr Word8)

instance Record Buffers where
  readWord (Buffers base) = peekByteOff base
  {-# INLINE readWord #-}
  writeWord (Buffers base) = pokeByteOff base
  {-# INLINE writeWord #-}

-- | Bytes of a 'Buffers'.
buffersSize :: Int
buffersSize = #{size http_buffers}

-- | The input's memory.
inputBase :: Field Buffers (Ptr Word8)
inputBase = Field #{offset http_buffers, input}

-- | The input's size, and the part of it with received, unused bytes.
inputCapacity, inputStart, inputEnd :: Field Buffers Int
inputCapacity = Field #{offset http_buffers, input_capacity}
inputStart = Field #{offset http_buffers, input_start}
inputEnd = Field #{offset http_buffers, input_end}

-- | The output's memory.
outputBase :: Field Buffers (Ptr Word8)
outputBase = Field #{offset http_buffers, output}

-- | The output's size, and the number of its bytes that are not sent yet.
outputSize, outputStop :: Field Buffers Int
outputSize = Field #{offset http_buffers, output_capacity}
outputStop = Field #{offset http_buffers, output_end}

-- | How much of the output an early flush may send, and how much it has sent. The unsent part begins there.
flushEnd, flushedBytes :: Field Buffers Int
flushEnd = Field #{offset http_buffers, flush_end}
flushedBytes = Field #{offset http_buffers, flushed}

-- | The number of times that output was handed to the transport. Interim responses do not count.
sendCount :: Field Buffers Int
sendCount = Field #{offset http_buffers, sends}

------------------------------------------------------------------------------------------------------------------------
-- A request

-- | One request and its response: the address of the record. It is valid while the request is being served.
newtype RequestState = RequestState (Ptr Word8)

instance Record RequestState where
  readWord (RequestState base) = peekByteOff base
  {-# INLINE readWord #-}
  writeWord (RequestState base) = pokeByteOff base
  {-# INLINE writeWord #-}

-- | Bytes of a 'RequestState'.
requestStateSize :: Int
requestStateSize = #{size http_request_state}

-- | Whether the connection stays open after the response.
keepsOpen :: Field RequestState Bool
keepsOpen = Field #{offset http_request_state, keeps_open}

-- | The deadline of the request.
totalDeadlineAt :: Field RequestState Deadline
totalDeadlineAt = Field #{offset http_request_state, total_deadline}

-- | The unread part of the request's body.
bodyUnread :: Field RequestState Unread
bodyUnread = Field #{offset http_request_state, body_unread}

-- | The number of bytes of the body that the application has got.
bodyReceived :: Field RequestState Int
bodyReceived = Field #{offset http_request_state, body_received}

-- | The number of microseconds that the client may still take for the body, and the number of bytes since this was last
-- reset.
bodyBudget, bodyProgress :: Field RequestState Int
bodyBudget = Field #{offset http_request_state, body_budget}
bodyProgress = Field #{offset http_request_state, body_progress}

-- | Whether the request has ended while another thread of the application waits for more of its body.
bodyIsOver :: Field RequestState Bool
bodyIsOver = Field #{offset http_request_state, body_is_over}

-- | Where in the output the response begins, and 'sendCount' at that moment. While 'sendCount' has that value, nothing
-- of the response was sent.
responseStart, responseSends :: Field RequestState Int
responseStart = Field #{offset http_request_state, response_start}
responseSends = Field #{offset http_request_state, response_sends}

-- | Bytes of the response's body, if it has one.
responseBytes :: Field RequestState (Maybe Int)
responseBytes = Field #{offset http_request_state, response_bytes}

-- | Whether the application's code for a stream runs in the connection's own thread.
isStreaming :: Field RequestState Bool
isStreaming = Field #{offset http_request_state, is_streaming}

-- | How the body that is being streamed is framed. 'Counted' says how many bytes it may still have.
streamFraming :: Field RequestState Framing
streamFraming = Field #{offset http_request_state, framing}

-- | Where in the output the open chunk has its size line.
chunkStart :: Field RequestState (Maybe Int)
chunkStart = Field #{offset http_request_state, chunk_start}

-- | Where in the output the head has space for @Connection: close@, until it is decided whether that is needed.
closeOption :: Field RequestState (Maybe Int)
closeOption = Field #{offset http_request_state, close_option}

-- | The unread part of a request's body.
data Unread
  = UnreadBytes !Int
  | -- | Chunked, and the last chunk was not read yet.
    UnreadChunks

-- | Is nothing left?
isAllRead :: Unread -> Bool
isAllRead (UnreadBytes count) = count == 0
isAllRead UnreadChunks = False
{-# INLINE isAllRead #-}

instance Unboxed Unread where
  toWord (UnreadBytes count) = count
  toWord UnreadChunks = -1
  {-# INLINE toWord #-}
  fromWord number = if number < 0 then UnreadChunks else UnreadBytes number
  {-# INLINE fromWord #-}
