-- | The low-level face of Millrace: hand over an operation, park, take its result.
--
-- "Millrace.Socket.ByteString" is what most programs need. This module is for those who bring their own buffers or
-- build other operations on top; it stands to the loops as @withOverlapped@ stands to completion ports.
--
-- The guarantees:
--
-- 1. 'perform' returns, or throws, only after the operation has ended: the buffer is the caller's again.
-- 2. An asynchronous exception that hits the waiting thread cancels this operation and no other.
-- 3. If the operation had succeeded before it could be cancelled, its result is handed to the function that
--    'performKeeping' was given; nothing that was received or accepted is lost silently.
--
-- The waiting thread is parked (as on an @MVar@); it occupies no operating system thread. An operation costs no more
-- than its share of a system call, and O(1) besides.
--
-- >>> import Millrace (AddrInfo, Family (AF_UNIX), SocketType (Stream), defaultProtocol, sendAll, socketHandle, socketPair)
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> sendAll there "!"
-- >>> perform (waitReadableRequest (socketHandle here)) >>= throwIfFailed "waiting" (show here)
-- 0
module Millrace.Operation
  ( -- * Descriptors
    Handle,
    adopt,
    foreignHandle,
    descriptorOf,
    isOpen,
    whileOpen,
    Direction (..),
    setDeadline,

    -- * Requests
    Request,
    acceptRequest,
    connectRequest,
    recvRequest,
    recvLentRequest,
    sendThenReceiveRequest,
    sendRequest,
    sendVectorRequest,
    sendFileRequest,
    readFileRequest,
    writeFileRequest,
    syncFileRequest,
    waitReadableRequest,
    waitWritableRequest,
    shutdownRequest,
    closeRequest,
    before,
    within,
    atOnce,
    partial,
    moreFollows,

    -- * Performing
    perform,
    performKeeping,
    throwIfFailed,
    failure,
  )
where

import Control.Exception (finally, mask_, throwIO)
import Data.Bits (complement, (.&.), (.|.))
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), errnoToIOError)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr)
import Millrace.Deadline (Deadline, deadlineNanoseconds)
import Millrace.Internal.Constants
import Millrace.Internal.Foreign (c_adopt, c_hold, c_is_open, c_let_go, c_set_deadline)
import Millrace.Internal.Handle
import Millrace.Internal.Manager (ensureGroup)
import Millrace.Internal.Park
import Millrace.Internal.Units (thousandfold)
import System.Posix.Types (Fd (..))

-- | Takes over an open descriptor: a non-blocking socket, or a regular file (on Windows opened with FILE_FLAG_OVERLAPPED).
-- From here on only 'closeRequest' may close it. Throws 'IOError' for a negative number. Does not block.
--
-- @since 0.1.0
adopt :: CInt -> IO Handle
adopt descriptor = do
  ensureGroup
  result <- c_adopt descriptor
  if result < 0
    then throwIO (failure "Millrace.Operation.adopt" ("descriptor " ++ show descriptor) result)
    else return (Handle (fromIntegral result))

-- | A handle for a descriptor that stays somebody else's. Only 'waitReadableRequest' and 'waitWritableRequest' accept it.
--
-- @since 0.1.0
foreignHandle :: Fd -> Handle
foreignHandle (Fd number) = Handle (fromIntegral number)

-- | Does the handle still mean an open descriptor? A moment later it may not.
--
-- @since 0.1.0
isOpen :: Handle -> IO Bool
isOpen (Handle handle) = (/= 0) <$> c_is_open handle

-- | Makes a call with the descriptor's number, for what there is no operation for: nobody can close it meanwhile. 'Nothing' if
-- the handle is closed, or is being closed. The call is made masked. Whoever closes waits for its end, so it must neither
-- wait nor close the handle itself.
--
-- > size <- whileOpen handle fileSizeOf
--
-- @since 0.1.0
whileOpen :: Handle -> (CInt -> IO a) -> IO (Maybe a)
whileOpen (Handle handle) call = mask_ $ do
  refusal <- c_hold handle
  if refusal < 0 then return Nothing else Just <$> call (fromIntegral handle) `finally` c_let_go handle

-- | Receiving, accepting and waiting for something to read; or sending, connecting and waiting for room to write.
--
-- @since 0.1.0
data Direction = Reading | Writing
  deriving (Eq, Ord, Show)

-- | Sets a deadline for all operations of one direction, those that wait now and those to come: each ends with
-- @ETIMEDOUT@ when this deadline or its own has passed, whichever is earlier. Returns 0, or the negative @errno@ of a
-- closed handle. Does not block. Moving a deadline to a later moment is a store.
--
-- @since 0.1.0
setDeadline :: Handle -> Direction -> Deadline -> IO Int64
setDeadline (Handle handle) direction deadline =
  fromIntegral <$> c_set_deadline handle code (deadlineNanoseconds deadline)
  where
    code = case direction of
      Reading -> directionReading
      Writing -> directionWriting
{-# INLINE setDeadline #-}

-- | Takes a connection from a listening socket; the result is a new non-blocking descriptor, not adopted yet. The
-- buffer is an @mr_address@ (see @millrace.h@) or null.
--
-- @since 0.1.0
acceptRequest :: Handle -> Ptr a -> Request a
acceptRequest (Handle handle) address = (request kindAccept handle) {requestBuffer = address}

-- | Connects to a socket address of so many bytes. The result is 0.
--
-- @since 0.1.0
connectRequest :: Handle -> Ptr a -> Int -> Request a
connectRequest (Handle handle) address size =
  (request kindConnect handle) {requestBuffer = address, requestLength = fromIntegral size}

-- | Receives at most so many bytes; the result is how many, 0 at the end of the stream.
--
-- @since 0.1.0
recvRequest :: Handle -> Ptr Word8 -> Int -> Request Word8
recvRequest (Handle handle) buffer size =
  (request kindRecv handle) {requestBuffer = buffer, requestLength = fromIntegral size}
{-# INLINE recvRequest #-}

-- | Receives at most so many bytes into a buffer that the loop lends when they are there: a waiting operation occupies
-- none. The result is the address of the buffer, 0 at the end of the stream. "Millrace.Socket.Lent" makes sense of it.
--
-- @since 0.1.0
recvLentRequest :: Handle -> Int -> Request a
recvLentRequest (Handle handle) size =
  (request kindRecv handle) {requestFlags = flagBorrow, requestLength = fromIntegral size}
{-# INLINE recvLentRequest #-}

-- | Sends so many bytes of a lent buffer, from an offset, without waiting, and then receives like 'recvLentRequest'. The
-- buffer is gone with the submission, unless the result says that not all could be sent: see @MR_SEND_THEN_RECEIVE@ in
-- @millrace.h@. "Millrace.Socket.Lent" makes sense of it.
--
-- @since 0.1.0
sendThenReceiveRequest :: Handle -> Ptr a -> Int -> Int -> Request a
sendThenReceiveRequest (Handle handle) buffer offset count =
  (request kindSendThenReceive handle)
    { requestBuffer = buffer,
      requestLength = fromIntegral count,
      requestOffset = fromIntegral offset
    }
{-# INLINE sendThenReceiveRequest #-}

-- | Sends bytes; the result is how many. With 'True' it ends only when all are sent; then hand over no more than a
-- megabyte at a time, because one call may do it all.
--
-- @since 0.1.0
sendRequest :: Bool -> Handle -> Ptr Word8 -> Int -> Request Word8
sendRequest sendsAll (Handle handle) buffer size =
  (request kindSend handle)
    { requestFlags = if sendsAll then flagAll else 0,
      requestBuffer = buffer,
      requestLength = fromIntegral size
    }
{-# INLINE sendRequest #-}

-- | Sends all bytes of an array of so many @struct iovec@ (at most 1024), which is modified.
--
-- @since 0.1.0
sendVectorRequest :: Handle -> Ptr a -> Int -> Request a
sendVectorRequest (Handle handle) vector count =
  (request kindSendVector handle)
    { requestFlags = flagAll,
      requestBuffer = vector,
      requestLength = fromIntegral count
    }

-- | Sends a part of a regular file, from an offset, so many bytes; the result is how many of them went (at most a
-- mebibyte at a time), 0 at the end of the file.
--
-- @since 0.1.0
sendFileRequest :: Handle -> Fd -> Int64 -> Int64 -> Request a
sendFileRequest (Handle handle) (Fd file) offset count =
  (request kindSendFile handle)
    { requestFile = file,
      requestOffset = fromIntegral offset,
      requestLength = fromIntegral count
    }

-- | Reads so many bytes (at most a mebibyte at a time) of a regular file, of which the handle is, from an offset; the
-- result is how many, 0 at the end of the file. On epoll and kqueue the capability waits for the disk.
--
-- @since 0.1.0
readFileRequest :: Handle -> Int64 -> Ptr Word8 -> Int -> Request Word8
readFileRequest (Handle handle) offset buffer size =
  (request kindReadFile handle)
    { requestBuffer = buffer,
      requestLength = fromIntegral size,
      requestOffset = fromIntegral offset
    }

-- | Writes all these bytes to a regular file, from an offset. Hand over no more than a mebibyte at a time: on epoll
-- and kqueue the capability waits until the system has taken them.
--
-- @since 0.1.0
writeFileRequest :: Handle -> Int64 -> Ptr Word8 -> Int -> Request Word8
writeFileRequest handle offset buffer size =
  (readFileRequest handle offset buffer size) {requestKind = kindWriteFile, requestFlags = flagAll}

-- | Ends with 0 when the disk has what was written by requests that had ended before.
--
-- @since 0.1.0
syncFileRequest :: Handle -> Request a
syncFileRequest (Handle handle) = request kindSyncFile handle

-- | Waits until reading would not block (data, the end, or an error).
--
-- @since 0.1.0
waitReadableRequest :: Handle -> Request a
waitReadableRequest (Handle handle) = request kindWaitReadable handle

-- | Waits until writing would not block.
--
-- @since 0.1.0
waitWritableRequest :: Handle -> Request a
waitWritableRequest (Handle handle) = request kindWaitWritable handle

-- | Shuts down receiving (0), sending (1) or both (2). Does not block.
--
-- @since 0.1.0
shutdownRequest :: Handle -> Int -> Request a
shutdownRequest (Handle handle) how = (request kindShutdown handle) {requestLength = fromIntegral how}

-- | Ends every operation on the descriptor with @EBADF@, then closes it. Waits until that is done.
--
-- @since 0.1.0
closeRequest :: Handle -> Request a
closeRequest (Handle handle) = request kindClose handle

-- | The same, to be given up at a deadline: it then ends with @ETIMEDOUT@.
--
-- @since 0.1.0
before :: Deadline -> Request a -> Request a
before deadline what =
  what
    { requestFlags = requestFlags what .&. complement flagWithin,
      requestDeadline = deadlineNanoseconds deadline
    }
{-# INLINE before #-}

-- | The same, to be given up after so many microseconds of waiting; 0: never; negative: at once. Like 'before' with a deadline
-- from now on, but an operation that need not wait does not even look at the clock. Of 'before' and 'within' the outer one counts.
--
-- @since 0.1.0
within :: Int -> Request a -> Request a
within micros what =
  what
    { requestFlags = requestFlags what .|. flagWithin,
      requestDeadline = if micros < 0 then 1 else fromIntegral (thousandfold micros)
    }
{-# INLINE within #-}

-- | The same without waiting: where it would have to wait it ends with @EAGAIN@. Does not block.
--
-- @since 0.1.0
atOnce :: Request a -> Request a
atOnce what = what {requestFlags = requestFlags what .|. flagNow}
{-# INLINE atOnce #-}

-- | The same, ending as soon as some of the bytes went instead of all. If such a send ends at its deadline, none went.
--
-- @since 0.1.0
partial :: Request a -> Request a
partial what = what {requestFlags = requestFlags what .&. complement flagAll}
{-# INLINE partial #-}

-- | The same 'sendRequest', with another send to follow at once: on Linux the bytes of both then share a segment. Nothing
-- is lost if none follows; the bytes may go 200 ms later.
--
-- @since 0.1.0
moreFollows :: Request a -> Request a
moreFollows what = what {requestFlags = requestFlags what .|. flagMore}
{-# INLINE moreFollows #-}

-- | Passes a result on, or throws an 'IOError' that says what was attempted (a function's name) on what.
--
-- @since 0.1.0
throwIfFailed :: String -> String -> Int64 -> IO Int64
throwIfFailed attempted object result
  | result >= 0 = return result
  | otherwise = throwIO (failure attempted object result)
{-# INLINE throwIfFailed #-}

-- | The 'IOError' of a negative result.
--
-- @since 0.1.0
failure :: String -> String -> Int64 -> IOError
failure attempted object result = errnoToIOError attempted (Errno (fromIntegral (negate result))) Nothing (Just object)
{-# NOINLINE failure #-}
