-- | Receiving and sending over TLS, under the names of "Millrace.Socket.ByteString", and with the same guarantees:
--
-- 1. A receive that is interrupted by an asynchronous exception, 'Millrace.Timer.timeout' included, or whose deadline
--    passes,
--    loses no byte: the next one returns it.
-- 2. A send that is interrupted or runs out of time may have sent a part of unknown size.
-- 3. No buffer is touched after the function has returned or thrown.
-- 4. A receive never waits until something can be sent, whatever the peer asks for.
--
-- The stream ends where the peer has ended it ('endSending'). A connection that ends otherwise throws a
-- 'Millrace.Tls.Error.TlsException' with the problem 'Millrace.Tls.Error.Truncated': somebody may have cut it off.
--
-- One thread may receive while another one sends. Of several threads that receive, one receives, and the others wait
-- for it, whatever their deadlines. The same holds for sending.
--
-- The deadlines of the socket ('Millrace.Socket.setReadDeadline' of 'connectionSocket') count here, too.
module Millrace.Tls.Connection
  ( Connection,
    connectionSocket,
    negotiated,
    Negotiated (..),

    -- * Receiving
    recv,
    recvBefore,
    recvBuf,
    recvBufBefore,

    -- * Sending
    send,
    sendBefore,
    sendAll,
    sendAllBefore,
    sendMany,
    sendManyBefore,
    sendAllBuf,
    sendAllBufBefore,
    sendFile,
    sendFileBefore,

    -- * The end
    endSending,
    endSendingBefore,
    close,
    gracefulClose,
    gracefulCloseWithin,

    -- * For servers whose waiting connections hold no memory
    Limit (..),
    Received (..),
    receiveBorrowed,
    isQuiet,
    Attempt (..),
    attemptSend,
    attemptSendFile,
  )
where

import Control.Exception (IOException, catch, finally, mask_)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Deadline (Deadline, Duration, deadlineAfter, milliseconds, noDeadline)
import qualified Millrace.Socket as Socket
import Millrace.Socket.Borrowed (borrowedBytes, borrowedSize, giveBack)
import Millrace.Tls.Internal.TlsConnection hiding (attemptSend, attemptSendFile, endSending, receiveBorrowed)
import qualified Millrace.Tls.Internal.TlsConnection as Internal
import System.IO.Error (ioeSetErrorString, mkIOError)
import System.Posix.Types (Fd)

-- | Waits for bytes, and receives at least one and at most the given number. Empty at the end of the stream. Throws for
-- a size that is not positive.
recv :: Connection -> Int -> IO ByteString
recv = recvBefore noDeadline

-- | 'recv' with a deadline.
recvBefore :: Deadline -> Connection -> Int -> IO ByteString
recvBefore deadline connection size =
  checkSize name connection size >> handOver keep (if size <= borrowedSize then few else many)
  where
    name = "Millrace.Tls.Connection.recv"
    keep bytes = unsafeUseAsCStringLen bytes $ \(memory, count) -> unread connection (castPtr memory) count
    few = do
      received <- Internal.receiveBorrowed name (Before deadline) connection size
      case received of
        EndOfStream -> return ByteString.empty
        Received buffer count -> ByteString.packCStringLen (castPtr (borrowedBytes buffer), count) <* giveBack buffer
    many = do
      memory <- mallocByteString size
      count <- withForeignPtr memory $ \buffer -> receiveInto name (Before deadline) connection buffer size
      return $! if count == size then fromForeignPtr memory 0 count else ByteString.copy (fromForeignPtr memory 0 count)

-- | Receives into a buffer; returns how many bytes, 0 at the end of the stream.
recvBuf :: Connection -> Ptr Word8 -> Int -> IO Int
recvBuf = recvBufBefore noDeadline

-- | 'recvBuf' with a deadline.
recvBufBefore :: Deadline -> Connection -> Ptr Word8 -> Int -> IO Int
recvBufBefore deadline connection buffer size = do
  checkSize name connection size
  handOver (unread connection buffer) $ receiveInto name (Before deadline) connection buffer size
  where
    name = "Millrace.Tls.Connection.recvBuf"

-- | Receives at least one byte and at most the given number (and no more than 'borrowedSize') into a buffer that is
-- borrowed when they arrive: a waiting connection occupies none. The caller must give the buffer back. Call it with
-- asynchronous exceptions masked, so that the buffer does not get lost.
receiveBorrowed :: Limit -> Connection -> Int -> IO Received
receiveBorrowed limit connection size = do
  checkSize name connection size
  mask_ (Internal.receiveBorrowed name limit connection size)
  where
    name = "Millrace.Tls.Connection.receiveBorrowed"

-- | Sends some of these bytes, at least one, and returns how many.
send :: Connection -> ByteString -> IO Int
send = sendBefore noDeadline

-- | 'send' with a deadline.
sendBefore :: Deadline -> Connection -> ByteString -> IO Int
sendBefore deadline connection bytes = count <$ sendAllBefore deadline connection (ByteString.take count bytes)
  where
    count = min (ByteString.length bytes) 16384

-- | Sends all bytes; waits until the system has taken them.
sendAll :: Connection -> ByteString -> IO ()
sendAll = sendAllBefore noDeadline

-- | 'sendAll' with a deadline.
sendAllBefore :: Deadline -> Connection -> ByteString -> IO ()
sendAllBefore deadline connection bytes = unsafeUseAsCStringLen bytes $ \(memory, size) ->
  sendWhole "Millrace.Tls.Connection.sendAll" (Before deadline) connection (castPtr memory) size

-- | 'sendAll' from a buffer.
sendAllBuf :: Connection -> Ptr Word8 -> Int -> IO ()
sendAllBuf = sendAllBufBefore noDeadline

-- | 'sendAllBuf' with a deadline.
sendAllBufBefore :: Deadline -> Connection -> Ptr Word8 -> Int -> IO ()
sendAllBufBefore deadline = sendWhole "Millrace.Tls.Connection.sendAllBuf" (Before deadline)

-- | Sends all bytes of all strings, in order. Small ones share a record.
sendMany :: Connection -> [ByteString] -> IO ()
sendMany = sendManyBefore noDeadline

-- | 'sendMany' with a deadline.
sendManyBefore :: Deadline -> Connection -> [ByteString] -> IO ()
sendManyBefore deadline connection = mapM_ (sendAllBefore deadline connection) . together

-- Joins neighbouring strings that fit into a record together.
together :: [ByteString] -> [ByteString]
together [] = []
together (first : others) = ByteString.concat (first : now) : together later
  where
    (now, later) = fitting (ByteString.length first) others
    fitting size (next : rest)
      | size + ByteString.length next <= 16000 =
        let (more, left) = fitting (size + ByteString.length next) rest in (next : more, left)
    fitting _ rest = ([], rest)

-- | Sends a number of bytes of a regular file, from an offset. Returns how many it has sent: fewer only if the file
-- ended early. Bytes that are not in memory are read by a helper thread, and only the calling thread waits
-- ('Millrace.Operation.bringIntoMemory').
sendFile :: Connection -> Fd -> Int64 -> Int64 -> IO Int64
sendFile = sendFileBefore noDeadline

-- | 'sendFile' with a deadline.
sendFileBefore :: Deadline -> Connection -> Fd -> Int64 -> Int64 -> IO Int64
sendFileBefore deadline = sendWholeFile "Millrace.Tls.Connection.sendFile" (Before deadline)

-- | Sends some of these bytes, and waits no longer than the limit. Pass at least one byte. After 'TimedOut', the next
-- attempt must begin with the same bytes, because some of them may be on their way.
attemptSend :: Limit -> Connection -> Ptr Word8 -> Int -> IO Attempt
attemptSend = Internal.attemptSend

-- | Sends some bytes of a regular file, as 'attemptSend' does, given by their offset and number.
attemptSendFile :: Limit -> Connection -> Fd -> Int64 -> Int64 -> IO Attempt
attemptSendFile = Internal.attemptSendFile

-- | Tells the peer that nothing more comes. Receiving still works.
endSending :: Connection -> IO ()
endSending = endSendingBefore noDeadline

-- | 'endSending' with a deadline, which may pass if the peer does not take earlier bytes.
endSendingBefore :: Deadline -> Connection -> IO ()
endSendingBefore = Internal.endSending . Before

-- | Closes the connection and its socket. First tells the peer that nothing more comes, if that needs no waiting and no
-- send was cut short by a failure, a deadline or an interruption. Otherwise the peer sees a truncated stream. Threads
-- that wait on the connection wake with an error. Closing a closed connection does nothing. Throws no 'IOError'.
close :: Connection -> IO ()
close = closeConnection

-- | Tells the peer that nothing more comes, then waits, at most this many milliseconds, for the peer to close, so that
-- it receives everything and no reset. Errors of the peer are ignored.
gracefulClose :: Connection -> Int -> IO ()
gracefulClose connection millis = gracefulCloseWithin (milliseconds millis) connection

-- | 'gracefulClose' with a 'Duration'.
gracefulCloseWithin :: Duration -> Connection -> IO ()
gracefulCloseWithin limit connection = linger `finally` close connection
  where
    linger = do
      deadline <- deadlineAfter limit
      endSendingBefore deadline connection `catch` ignore
      Socket.gracefulCloseWithin limit (connectionSocket connection)
    ignore :: IOException -> IO ()
    ignore _ = return ()

checkSize :: String -> Connection -> Int -> IO ()
checkSize attempted connection size =
  unless (size > 0) . ioError $
    mkIOError InvalidArgument attempted Nothing (Just (show connection))
      `ioeSetErrorString` ("the size must be positive, it is " ++ show size)
