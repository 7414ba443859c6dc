-- | The numbers and layouts of @millrace.h@, as the C compiler sees them.
module Millrace.Internal.Constants (module Millrace.Internal.Constants, module Millrace.Internal.Kind) where

import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.Types (CInt, CUInt)
import Millrace.Internal.Kind

#include <errno.h>
#include <stddef.h>
#include "millrace.h"
#include "capability.h"

-- | The tags of what @mrh_submit@ and @mrh_reserve@ return.
answerPending, answerDone, answerNoLoop :: Int64
answerPending = #{const MRH_PENDING}
answerDone = #{const MRH_DONE}
answerNoLoop = #{const MRH_NO_LOOP}

-- | @mrh_poll@ and @mrh_prepare_wait@ return this to a thread that is not on the loop's capability.
notOwner :: CInt
notOwner = #{const MRH_NOT_OWNER}

-- | Beside a token: the two are a ticket.
ticketStays :: Word64
ticketStays = #{const MRH_STAYS}

directionReading, directionWriting :: CInt
directionReading = #{const MR_READING}
directionWriting = #{const MR_WRITING}

-- | The directions of a shutdown.
shutdownReceive, shutdownSend, shutdownBoth :: Word64
shutdownReceive = 0
shutdownSend = 1
shutdownBoth = 2

flagAll, flagBorrow, flagCached, flagMore, flagNow, flagTried, flagWithin :: CUInt
flagAll = #{const MR_ALL}
flagBorrow = #{const MR_BORROW}
flagCached = #{const MR_CACHED}
flagMore = #{const MR_MORE}
flagNow = #{const MR_NOW}
flagTried = #{const MR_TRIED}
flagWithin = #{const MR_WITHIN}

backendAuto, backendHybrid, backendEpoll, backendIoUring, backendKqueue, backendIocp :: CInt
backendAuto = #{const MR_BACKEND_AUTO}
backendHybrid = #{const MR_BACKEND_HYBRID}
backendEpoll = #{const MR_BACKEND_EPOLL}
backendIoUring = #{const MR_BACKEND_IO_URING}
backendKqueue = #{const MR_BACKEND_KQUEUE}
backendIocp = #{const MR_BACKEND_IOCP}

completionSize, completionToken, completionUserData, completionResult :: Int
completionSize = #{size mr_completion}
completionToken = #{offset mr_completion, token}
completionUserData = #{offset mr_completion, user_data}
completionResult = #{offset mr_completion, result}

-- | @mr_buffer@: its capacity, and the offsets of the number of received bytes and of the bytes.
bufferBytesMax, bufferLengthAt, bufferBytesAt :: Int
bufferBytesMax = #{const MR_BUFFER_BYTES}
bufferLengthAt = #{offset mr_buffer, length}
bufferBytesAt = #{offset mr_buffer, bytes}

-- | The result of a send-then-receive that has not sent all its bytes is this number minus the number of bytes sent.
notSent :: Int64
notSent = #{const -MR_NOT_SENT}

-- | The result of an operation that must be submitted again (@mr_group_interrupt@).
resultRetry :: Int64
resultRetry = #{const -EINTR}

-- | The error of an operation with 'flagCached' whose bytes are not in memory.
notCached :: CInt
notCached = #{const MR_NOT_CACHED}

-- | An answer of @mr_file_cache_state@.
stateNotInCache :: CInt
stateNotInCache = #{const MR_NOT_IN_CACHE}

-- | The @errno@ of an operation that was cancelled.
cancelled :: CInt
cancelled = #{const ECANCELED}

-- | @mr_address@: where the storage and its length are.
addressSize, addressStorage, addressLength :: Int
addressSize = #{size mr_address}
addressStorage = #{offset mr_address, storage}
addressLength = #{offset mr_address, length}

-- | @mr_counters@ is a sequence of 64-bit numbers in the order of its declaration.
countersSize :: Int
countersSize = #{size mr_counters}

-- | @struct iovec@.
vectorElementSize, vectorElementBase, vectorElementLength :: Int
vectorElementSize = #{size struct iovec}
vectorElementBase = #{offset struct iovec, iov_base}
vectorElementLength = #{offset struct iovec, iov_len}

-- | The index of a simulation's loop (@MRH_SIMULATED_LOOP@).
simulatedLoop :: Int
simulatedLoop = #{const MRH_SIMULATED_LOOP}

-- | User data of an operation: its end runs a callback; where the number of the thread that asked begins.
callbackFlag :: Word64
callbackFlag = #{const MRH_CALLBACK}

threadShift :: Int
threadShift = #{const MRH_THREAD_SHIFT}
