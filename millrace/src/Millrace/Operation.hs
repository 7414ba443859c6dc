-- | Operations: make a request, perform it, and take its result.
--
-- "Millrace.Socket.ByteString" is what most programs need. This module is for programs that bring their own buffers or
-- build other operations.
--
-- 1. 'perform' returns, or throws, only after the operation has ended. Then the buffer belongs to the caller again.
-- 2. An asynchronous exception that hits the waiting thread cancels only this operation.
-- 3. If the operation had succeeded before it could be cancelled, its result is handed to the function that
--    'performKeeping' was given. So no received bytes and no accepted connections are lost silently.
--
-- The waiting thread is parked, as on an @MVar@, and occupies no operating system thread. An operation costs its share
-- of a system call, and O(1) besides.
--
-- >>> import Foreign.C.Error (eAGAIN)
-- >>> import Millrace (Family (AF_UNIX), SocketType (Stream), defaultProtocol, sendAll, socketHandle, socketPair)
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> sendAll there "!"
-- >>> perform (waitReadableRequest (socketHandle here)) >>= throwIfFailed "waiting" (show here)
-- >>> either (== eAGAIN) (const False) <$> perform (atOnce (waitReadableRequest (socketHandle there)))
-- True
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
    afterTrying,

    -- * Performing
    perform,
    performKeeping,
    performSendFile,
    bringIntoMemory,
    throwIfFailed,
    failure,
  )
where

import Control.Exception (finally, mask_, throwIO)
import Data.Bits (complement, (.&.), (.|.))
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..))
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline (Deadline, Duration, deadlineNanoseconds, limitNanoseconds)
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls (c_adopt, c_hold, c_is_open, c_release_handle, c_set_deadline)
import Millrace.Internal.Errors (failure, throwIfFailed)
import Millrace.Internal.Handle
import Millrace.Internal.Manager (ensureGroup)
import Millrace.Internal.PageCache (bringIn, bringIntoMemory)
import Millrace.Internal.Park
import Network.Socket (ShutdownCmd (..))
import System.Posix.Types (Fd (..))

-- | Takes over an open descriptor: a non-blocking socket, or a regular file (on Windows opened with
-- FILE_FLAG_OVERLAPPED). From now on only 'closeRequest' may close it. Throws 'IOError' for a negative number. Does not
-- block. O(1).
adopt :: CInt -> IO Handle
adopt descriptor = do
  ensureGroup
  handle <- c_adopt descriptor
  if handle >= 0
    then return (Handle (fromIntegral handle))
    else
      throwIO
        (failure "Millrace.Operation.adopt" ("descriptor " ++ show descriptor) (Errno (fromIntegral (negate handle))))

-- | A handle for a descriptor that is not taken over. Only 'waitReadableRequest' and 'waitWritableRequest' accept it.
foreignHandle :: Fd -> Handle
foreignHandle (Fd number) = Handle (fromIntegral number)

-- | Whether the handle's descriptor is still open. Another thread may close it a moment later. Does not block. O(1).
isOpen :: Handle -> IO Bool
isOpen (Handle handle) = (/= 0) <$> c_is_open handle

-- | Makes a call with the descriptor's number. Use it for calls for which there is no operation. The descriptor stays
-- open meanwhile. Returns 'Nothing' if the handle is closed, or is being closed. The call is made masked. A thread that
-- closes the handle waits for the end of the call, so the call must neither wait nor close the handle itself.
--
-- > size <- whileOpen handle fileSizeOf
whileOpen :: Handle -> (CInt -> IO a) -> IO (Maybe a)
whileOpen (Handle handle) call = mask_ $ do
  refusal <- c_hold handle
  if refusal < 0 then return Nothing else Just <$> call (fromIntegral handle) `finally` c_release_handle handle

-- | The operations to which a deadline applies.
data Direction
  = -- | Receiving, accepting, and waiting for something to read.
    Reading
  | -- | Sending, connecting, and waiting until something can be written.
    Writing
  deriving (Eq, Ord, Show)

-- | Sets a deadline for all operations of one direction, those that wait now and those to come. Each ends with
-- @ETIMEDOUT@ when this deadline or its own has passed, whichever is earlier. Fails with @EBADF@ if the handle is
-- closed. Does not block. Moving a deadline to a later moment is a store.
setDeadline :: Handle -> Direction -> Deadline -> IO (Either Errno ())
setDeadline (Handle handle) direction deadline = do
  status <- c_set_deadline handle code (deadlineNanoseconds deadline)
  return (if status < 0 then Left (Errno (negate status)) else Right ())
  where
    code = case direction of
      Reading -> directionReading
      Writing -> directionWriting
{-# INLINE setDeadline #-}

-- | Takes a connection from a listening socket. The result is a new non-blocking descriptor, which is not adopted yet.
-- The buffer is an @mr_address@ (see @millrace.h@) or null.
acceptRequest :: Handle -> Ptr a -> Request CInt
acceptRequest (Handle handle) address = (request kindAccept handle fromIntegral) {requestBuffer = castPtr address}

-- | Connects to a socket address, given with its size in bytes.
connectRequest :: Handle -> Ptr a -> Int -> Request ()
connectRequest (Handle handle) address size =
  (request kindConnect handle nothing) {requestBuffer = castPtr address, requestLength = fromIntegral size}

-- | Receives bytes into a buffer of the given size. The result is the number of bytes received: 0 at the end of the
-- stream.
recvRequest :: Handle -> Ptr Word8 -> Int -> Request Int
recvRequest (Handle handle) buffer size =
  (request kindRecv handle fromIntegral) {requestBuffer = castPtr buffer, requestLength = fromIntegral size}
{-# INLINE recvRequest #-}

-- | Sends the given number of bytes, all of them unless it is 'partial'. The result is the number of bytes sent. Pass
-- at most a megabyte at a time, because one call may send it all.
sendRequest :: Handle -> Ptr Word8 -> Int -> Request Int
sendRequest (Handle handle) buffer size =
  (request kindSend handle fromIntegral)
    { requestFlags = flagAll,
      requestBuffer = castPtr buffer,
      requestLength = fromIntegral size
    }
{-# INLINE sendRequest #-}

-- | Sends all bytes of an array of @struct iovec@, with the given number of elements (at most 1024). The array is
-- modified. The result is the number of bytes sent.
sendVectorRequest :: Handle -> Ptr a -> Int -> Request Int
sendVectorRequest (Handle handle) vector count =
  (request kindSendVector handle fromIntegral)
    { requestFlags = flagAll,
      requestBuffer = castPtr vector,
      requestLength = fromIntegral count
    }

-- | @sendFileRequest socket file offset count@ sends @count@ bytes of a regular file, from an offset. The result is the
-- number of bytes sent: at most a mebibyte at a time, and 0 at the end of the file. The capability waits for what must
-- be read from the disk; 'performSendFile' does not.
sendFileRequest :: Handle -> Fd -> Int64 -> Int64 -> Request Int
sendFileRequest (Handle handle) (Fd file) offset count =
  (request kindSendFile handle fromIntegral)
    { requestFile = file,
      requestOffset = fromIntegral offset,
      requestLength = fromIntegral count
    }

-- | @readFileRequest file offset buffer size@ reads @size@ bytes of a regular file, from an offset. The result is the
-- number of bytes read: at most a mebibyte at a time, and 0 at the end of the file. On epoll and kqueue the capability
-- waits for the disk.
readFileRequest :: Handle -> Int64 -> Ptr Word8 -> Int -> Request Int
readFileRequest (Handle handle) offset buffer size =
  (request kindReadFile handle fromIntegral)
    { requestBuffer = castPtr buffer,
      requestLength = fromIntegral size,
      requestOffset = fromIntegral offset
    }

-- | @writeFileRequest file offset buffer size@ writes all these bytes to a regular file, from an offset. The result is
-- the number of bytes written. Pass at most a mebibyte at a time: on epoll and kqueue the capability waits until the
-- system has taken them.
writeFileRequest :: Handle -> Int64 -> Ptr Word8 -> Int -> Request Int
writeFileRequest handle offset buffer size =
  (readFileRequest handle offset buffer size) {requestKind = kindWriteFile, requestFlags = flagAll}

-- | Waits until the disk has everything that was written by requests that had ended before.
syncFileRequest :: Handle -> Request ()
syncFileRequest (Handle handle) = request kindSyncFile handle nothing

-- | Waits until reading would not block: there is data, the end of the stream, or an error.
waitReadableRequest :: Handle -> Request ()
waitReadableRequest (Handle handle) = request kindWaitReadable handle nothing

-- | Waits until writing would not block.
waitWritableRequest :: Handle -> Request ()
waitWritableRequest (Handle handle) = request kindWaitWritable handle nothing

-- | Shuts down one or both directions. Does not block.
shutdownRequest :: Handle -> ShutdownCmd -> Request ()
shutdownRequest (Handle handle) how = (request kindShutdown handle nothing) {requestLength = code}
  where
    code = case how of
      ShutdownReceive -> shutdownReceive
      ShutdownSend -> shutdownSend
      ShutdownBoth -> shutdownBoth

-- | Ends every operation on the descriptor with @EBADF@, then closes it. Waits until that is done.
closeRequest :: Handle -> Request ()
closeRequest (Handle handle) = request kindClose handle nothing

nothing :: Int64 -> ()
nothing _ = ()

-- | Adds a deadline to a request. When it passes, the operation ends with @ETIMEDOUT@.
before :: Deadline -> Request r -> Request r
before deadline what =
  what
    { requestFlags = requestFlags what .&. complement flagWithin,
      requestTime = deadlineNanoseconds deadline
    }
{-# INLINE before #-}

-- | Adds a limit on the time that the operation waits. It works like 'before' with a deadline counted from now, but an
-- operation that need not wait does not read the clock. If 'before' and 'within' are combined, the outer one counts.
within :: Duration -> Request r -> Request r
within limit what =
  what
    { requestFlags = requestFlags what .|. flagWithin,
      requestTime = limitNanoseconds limit
    }
{-# INLINE within #-}

-- | Forbids the operation to wait: it ends with @EAGAIN@ if it would have to. Does not block.
atOnce :: Request r -> Request r
atOnce what = what {requestFlags = requestFlags what .|. flagNow}
{-# INLINE atOnce #-}

-- | Lets a send end as soon as some of its bytes are sent. If such a send ends at its deadline, it has sent none.
partial :: Request r -> Request r
partial what = what {requestFlags = requestFlags what .&. complement flagAll}
{-# INLINE partial #-}

-- | Announces that another send follows this 'sendRequest' at once. On Linux the bytes of both then share a segment. If
-- none follows, the bytes may be sent 200 ms later.
moreFollows :: Request r -> Request r
moreFollows what = what {requestFlags = requestFlags what .|. flagMore}
{-# INLINE moreFollows #-}

-- | Tells a 'waitReadableRequest' or 'waitWritableRequest' that the caller has just tried, and would have blocked. On a
-- 'foreignHandle' this saves a system call. The wait still ends at once if the descriptor has become ready meanwhile.
afterTrying :: Request () -> Request ()
afterTrying what = what {requestFlags = requestFlags what .|. flagTried}
{-# INLINE afterTrying #-}

-- | @performSendFile limited socket file offset count@ performs a 'sendFileRequest', to which @limited@ may have added
-- 'before' or 'within'. Before each attempt it asks the system whether the bytes are in memory. If not, a helper thread
-- reads them first, and only the calling thread waits for the disk; that wait counts for no time limit. An interrupted
-- thread waits for a helper that has begun. Two cases remain in which the capability may wait: file systems that cannot
-- tell, for instance overlayfs, and bytes that have left the memory three times before they could be sent, which takes
-- great pressure on memory.
performSendFile :: (Request Int -> Request Int) -> Handle -> Fd -> Int64 -> Int64 -> IO (Either Errno Int)
performSendFile limited handle file offset count = do
  result <- perform (cachedOnly whole)
  case result of
    Left (Errno code) | code == notCached -> fromDisk (2 :: Int)
    _ -> return result
  where
    whole = limited (sendFileRequest handle file offset count)
    fromDisk attempts = do
      bringIn file offset count
      result <- perform (if attempts > 0 then cachedOnly whole else whole)
      if result == Left (Errno notCached) then fromDisk (attempts - 1) else return result
    cachedOnly what = what {requestFlags = requestFlags what .|. flagCached}
{-# INLINE performSendFile #-}
