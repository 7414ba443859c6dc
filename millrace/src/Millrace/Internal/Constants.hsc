-- | The numbers and layouts of @millrace.h@ and of the socket calls, as the C compiler sees them.
module Millrace.Internal.Constants where

import Foreign.C.Types (CInt, CUInt)

#include <sys/socket.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/uio.h>
#include "millrace.h"

kindAccept, kindConnect, kindRecv, kindSend, kindRecvVector, kindSendVector :: CInt
kindAccept = #{const MR_ACCEPT}
kindConnect = #{const MR_CONNECT}
kindRecv = #{const MR_RECV}
kindSend = #{const MR_SEND}
kindRecvVector = #{const MR_RECV_VECTOR}
kindSendVector = #{const MR_SEND_VECTOR}

kindWaitReadable, kindWaitWritable, kindShutdown, kindClose, kindSendFile, kindTimeout :: CInt
kindWaitReadable = #{const MR_WAIT_READABLE}
kindWaitWritable = #{const MR_WAIT_WRITABLE}
kindShutdown = #{const MR_SHUTDOWN}
kindClose = #{const MR_CLOSE}
kindSendFile = #{const MR_SEND_FILE}
kindTimeout = #{const MR_TIMEOUT}

directionReading, directionWriting :: CInt
directionReading = #{const MR_READING}
directionWriting = #{const MR_WRITING}

flagAll, flagLent, flagWithin :: CUInt
flagAll = #{const MR_ALL}
flagLent = #{const MR_LENT}
flagWithin = #{const MR_WITHIN}

backendAuto, backendIoUring, backendEpoll, backendKqueue, backendIocp :: CInt
backendAuto = #{const MR_BACKEND_AUTO}
backendIoUring = #{const MR_BACKEND_IO_URING}
backendEpoll = #{const MR_BACKEND_EPOLL}
backendKqueue = #{const MR_BACKEND_KQUEUE}
backendIocp = #{const MR_BACKEND_IOCP}

completionSize, completionToken, completionUserData, completionResult :: Int
completionSize = #{size mr_completion}
completionToken = #{offset mr_completion, token}
completionUserData = #{offset mr_completion, user_data}
completionResult = #{offset mr_completion, result}

-- | @mr_buffer@: its capacity, and where the number of received bytes and the bytes are.
bufferBytesMax, bufferLengthAt, bufferBytesAt :: Int
bufferBytesMax = #{const MR_BUFFER_BYTES}
bufferLengthAt = #{offset mr_buffer, length}
bufferBytesAt = #{offset mr_buffer, bytes}

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

socketFlags :: CInt
socketFlags = #{const SOCK_NONBLOCK | SOCK_CLOEXEC}

fcntlSetDescriptorFlags, fcntlGetStatusFlags, fcntlSetStatusFlags, closeOnExec, nonBlocking :: CInt
fcntlSetDescriptorFlags = #{const F_SETFD}
fcntlGetStatusFlags = #{const F_GETFL}
fcntlSetStatusFlags = #{const F_SETFL}
closeOnExec = #{const FD_CLOEXEC}
nonBlocking = #{const O_NONBLOCK}
