-- | Receiving into memory that the loop provides, for servers that keep many connections waiting.
--
-- 'Millrace.Socket.ByteString.recvBuf' needs its buffer for as long as it waits. Here a buffer is taken when bytes
-- arrive, and it is the one that was given back last. So a waiting connection occupies no memory, and the buffer is
-- probably still in the processor's cache.
--
-- 1. A buffer belongs to the borrower from the moment the continuation gets it until 'giveBack', which must be called
--    exactly once, in any thread. The memory of a buffer that is never given back is lost.
-- 2. An interrupted receive loses no byte, as in "Millrace.Socket.ByteString".
-- 3. A loop keeps at most 256 unused buffers, and on io_uring up to 1024 more in the kernel.
--
-- >>> import qualified Data.ByteString as ByteString
-- >>> import Foreign.Ptr (castPtr)
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> :{
-- let receive = recvBorrowed noDeadline here borrowedSize $ \received -> case received of
--       EndOfStream -> return "the end"
--       Received buffer count -> ByteString.packCStringLen (castPtr (borrowedBytes buffer), count) <* giveBack buffer
-- :}
--
-- >>> sendAll there "some bytes" >> shutdown there ShutdownSend
-- >>> receive
-- "some bytes"
-- >>> receive
-- "the end"
module Millrace.Socket.Borrowed
  ( -- * Buffers
    Borrowed,
    borrowedSize,
    borrowedBytes,
    borrowedAt,
    borrow,
    giveBack,

    -- * Receiving
    Received (..),
    recvBorrowed,
    recvBorrowedWithin,

    -- * Sending, and then receiving
    Slice (..),
    SentThenReceived (..),
    sendThenReceiveWithin,
  )
where

import Millrace.Deadline (Deadline, Duration)
import Millrace.Internal.Borrowed
import Millrace.Internal.Socket (Socket)
import Millrace.Operation (before, within)

-- | @recvBorrowed deadline socket size continue@ receives at least one byte and at most @size@ (and no more than
-- 'borrowedSize'). It waits for them until the deadline, and hands the buffer to the continuation, which must arrange
-- that the buffer is given back.
--
-- The continuation runs with asynchronous exceptions masked, so that the buffer cannot get lost. Restore them inside,
-- or store the buffer and return. Throws what 'Millrace.Socket.ByteString.recvBufBefore' throws; the continuation is
-- then not called.
recvBorrowed :: Deadline -> Socket -> Int -> (Received -> IO a) -> IO a
recvBorrowed deadline = receiveBorrowed "Millrace.Socket.Borrowed.recvBorrowed" (before deadline)
{-# INLINE recvBorrowed #-}

-- | 'recvBorrowed' with a limit on the time that it waits.
recvBorrowedWithin :: Duration -> Socket -> Int -> (Received -> IO a) -> IO a
recvBorrowedWithin limit = receiveBorrowed "Millrace.Socket.Borrowed.recvBorrowedWithin" (within limit)
{-# INLINE recvBorrowedWithin #-}

-- | @sendThenReceiveWithin limit socket slice continue@ sends bytes of a borrowed buffer and then does what
-- 'recvBorrowedWithin' does: for a server that answers and waits for the next request. The thread is woken once for
-- both, and the buffer is given back as soon as its bytes are sent, so that a waiting connection occupies no memory.
--
-- 1. The sending does not wait. If the socket does not take all bytes at once, or bytes that were received earlier are
--    kept for it, nothing is received ('NotSent'), and the buffer is the caller's again.
-- 2. In all other cases, exceptions included, the buffer is given back. It must not be touched again.
-- 3. No other thread may be sending on the socket.
--
-- The limit is for receiving. The continuation runs with asynchronous exceptions masked. Throws what
-- 'recvBorrowedWithin' throws, and the errors of sending.
sendThenReceiveWithin :: Duration -> Socket -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceiveWithin limit = sendThenReceive "Millrace.Socket.Borrowed.sendThenReceiveWithin" (within limit)
{-# INLINE sendThenReceiveWithin #-}
