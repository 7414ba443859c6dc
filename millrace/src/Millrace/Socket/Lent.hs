-- | Receiving into memory that the loop lends, for servers that keep many connections waiting.
--
-- 'Millrace.Socket.ByteString.recvBuf' needs its buffer for as long as it waits. Here a buffer is taken when the bytes
-- are there, and it is the one that was given back last: a waiting connection occupies no memory, and the memory that
-- is used is still in the processor's cache.
--
-- 1. A buffer belongs to the borrower from the moment the continuation gets it until 'giveBack', which must be called
--    exactly once, in any thread. A buffer that is never given back is lost memory, nothing worse.
-- 2. An interrupted receive loses no byte, as in "Millrace.Socket.ByteString".
-- 3. A loop keeps at most 256 buffers that nobody uses, and on io_uring up to 1024 more in the kernel.
--
-- > -- Echoes until the client has had enough; between two messages no memory is held.
-- > echo :: Socket -> IO ()
-- > echo client = do
-- >   count <- recvLent noDeadline client lentSize $ \buffer count ->
-- >     if count == 0
-- >       then return 0
-- >       else count <$ (sendAllBuf client (lentBytes buffer) count `finally` giveBack buffer)
-- >   when (count > 0) (echo client)
--
-- >>> import qualified Data.ByteString as ByteString
-- >>> import Foreign.Ptr (castPtr)
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> sendAll there "some bytes"
-- >>> recvLent noDeadline here lentSize (\buffer count -> ByteString.packCStringLen (castPtr (lentBytes buffer), count) <* giveBack buffer)
-- "some bytes"
module Millrace.Socket.Lent
  ( Lent,
    lentSize,
    lentBytes,
    lentAt,
    borrow,
    giveBack,
    recvLent,
    recvLentWithin,
    sendThenReceiveWithin,
  )
where

import Millrace.Deadline (Deadline)
import Millrace.Internal.Lent
import Millrace.Internal.Socket (Socket)
import Millrace.Operation (before, within)

-- | Receives at least one byte and at most so many (and no more than 'lentSize'), waits for them until the deadline,
-- and hands the buffer and their number to the continuation: from here on it is the continuation's to give back. At the
-- end of the stream the number is 0, and there is nothing to give back.
--
-- The continuation runs with asynchronous exceptions masked, so that the buffer cannot get lost; restore them inside,
-- or store the buffer and return. Throws what 'Millrace.Socket.ByteString.recvBufBefore' throws; the continuation is
-- then not called.
--
-- @since 0.1.0
recvLent :: Deadline -> Socket -> Int -> (Lent -> Int -> IO a) -> IO a
recvLent deadline = receiveLent "Millrace.Socket.Lent.recvLent" (before deadline)
{-# INLINE recvLent #-}

-- | 'recvLent' that gives up after so many microseconds; 0: never; negative: at once.
--
-- @since 0.1.0
recvLentWithin :: Int -> Socket -> Int -> (Lent -> Int -> IO a) -> IO a
recvLentWithin micros = receiveLent "Millrace.Socket.Lent.recvLentWithin" (within micros)
{-# INLINE recvLentWithin #-}

-- | @sendThenReceiveWithin micros socket buffer offset count unsent continue@ sends so many bytes of a borrowed buffer and then
-- does what 'recvLentWithin' does: for a server that answers and waits for the next request. It is woken once for
-- both, and the buffer is given back as soon as its bytes are sent, so that a waiting connection occupies no memory.
--
-- 1. The sending does not wait. If the socket does not take all bytes at once, or bytes that were received earlier are
--    kept for it, nothing is received: the first continuation learns how many bytes have gone, and the buffer is the
--    caller's again.
-- 2. In all other cases, exceptions included, the buffer is given back: not to be touched again.
-- 3. No other thread may be sending on the socket.
--
-- The time is meant as in 'recvLentWithin'. Both continuations run with asynchronous exceptions masked. Throws what
-- 'recvLentWithin' throws, and the errors of
-- sending.
--
-- @since 0.1.0
sendThenReceiveWithin :: Int -> Socket -> Lent -> Int -> Int -> (Int -> IO a) -> (Lent -> Int -> IO a) -> IO a
sendThenReceiveWithin micros = sendThenReceive "Millrace.Socket.Lent.sendThenReceiveWithin" (within micros)
{-# INLINE sendThenReceiveWithin #-}
