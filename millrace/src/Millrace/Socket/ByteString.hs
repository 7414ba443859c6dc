{-# LANGUAGE BangPatterns #-}

-- | Receiving and sending on stream sockets, under the names of "Network.Socket.ByteString" and "Network.Socket".
--
-- 1. A receive that is interrupted by an asynchronous exception (also by 'Millrace.Timer.timeout'), or whose deadline
--    passes, loses no byte: another receive returns them, one that already waits or the next one. The same holds for
--    the error that ended the connection.
-- 2. A send that is interrupted, or whose deadline passes, may have sent a part of unknown size. Close the connection
--    then.
-- 3. No function uses a buffer after it has returned or thrown.
-- 4. Sending to a peer that has closed the connection throws (@EPIPE@, @ECONNRESET@). There is no @SIGPIPE@.
--
-- Several threads may receive on one socket, or send. Each byte goes to exactly one of them; which one is not defined.
-- A thread that was killed still counts until it has ended: 'Control.Concurrent.killThread' does not wait for that.
--
-- On sockets that are not streams (@Datagram@, @SeqPacket@) the same holds for messages instead of bytes: an
-- interrupted receive loses none, and keeps as much of one as its size allowed. 'sendAll' and 'sendMany' send one
-- message, or none if there are no bytes ('send' sends an empty one then).
--
-- >>> import Millrace
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> sendMany there ["one, ", "two, ", "three"]
-- >>> recv here 5
-- "one, "
-- >>> timeoutAfter (milliseconds 1) (recv here 100)
-- Just "two, three"
-- >>> timeoutAfter (milliseconds 1) (recv here 100)
-- Nothing
module Millrace.Socket.ByteString
  ( -- * Receiving
    recv,
    recvBefore,

    -- * Sending
    send,
    sendBefore,
    sendAll,
    sendAllBefore,
    sendMany,
    sendManyBefore,

    -- * With the caller's buffers
    recvBuf,
    recvBufBefore,
    sendBuf,
    sendBufBefore,
    sendAllBuf,
    sendAllBufBefore,
    sendAllBufWithin,
  )
where

import Control.Monad (unless, void, zipWithM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word64, Word8)
import Foreign.C.Error (eAGAIN)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (pokeByteOff)
import Millrace.Deadline (Deadline, Duration, noDeadline)
import Millrace.Internal.Borrowed
import Millrace.Internal.Constants
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Operation

-- | Waits for bytes, and returns at least one and at most the given number. Empty at the end of the stream. Throws for
-- a size that is not positive. A thread that waits occupies no buffer, whatever the size.
recv :: Socket -> Int -> IO ByteString
recv = recvBefore noDeadline

-- | 'recv' with a deadline.
recvBefore :: Deadline -> Socket -> Int -> IO ByteString
recvBefore !deadline s !size =
  handOver (keepBytes s) $
    if size <= borrowedSize then receiveBytes function (before deadline) s size else recvLarge function deadline s size
  where
    function = "Millrace.Socket.ByteString.recv"

-- For more than a borrowed buffer holds. Nothing is allocated while no bytes are there: they come into a borrowed
-- buffer first, and only if they fill it is there new memory for the rest. A message must come in one piece.
recvLarge :: String -> Deadline -> Socket -> Int -> IO ByteString
recvLarge function deadline s size = do
  isMessage <- carriesMessages s
  if isMessage
    then trimmed size (\memory -> recvMasked function deadline s memory size)
    else do
      first <- receiveBytes function (before deadline) s borrowedSize
      if ByteString.length first < borrowedSize
        then return first
        else trimmed size $ \memory -> do
          count <- copyInto memory first
          (count +) <$> recvRest s (memory `plusPtr` borrowedSize) (size - borrowedSize)

-- New bytes of at most this size, of which the action returns the number. Copied if they are fewer, because all of the
-- memory would stay for as long as the bytes do.
trimmed :: Int -> (Ptr Word8 -> IO Int) -> IO ByteString
trimmed size fill = do
  memory <- mallocByteString size
  count <- withForeignPtr memory fill
  return $! if count == size then fromForeignPtr memory 0 count else ByteString.copy (fromForeignPtr memory 0 count)

-- What is there now, after other bytes. The next receive finds the end of the stream, or an error. Call it masked.
recvRest :: Socket -> Ptr Word8 -> Int -> IO Int
recvRest s@(Socket handle _) buffer size =
  keptOr
    s
    (firstBytes size)
    (either failed copyKept)
    keepLate
    (atOnce (recvRequest handle buffer size))
    (either failed return)
  where
    failed code = 0 <$ unless (code == eAGAIN) (keepError s code)
    keepLate = either (keepError s) (keepReceived s buffer)
    copyKept bytes
      | ByteString.null bytes = 0 <$ keepBytes s bytes
      | otherwise = copyInto buffer bytes

copyInto :: Ptr Word8 -> ByteString -> IO Int
copyInto buffer bytes =
  unsafeUseAsCStringLen bytes $ \(source, count) -> count <$ copyBytes buffer (castPtr source) count

-- | Receives into a buffer. Returns the number of bytes, 0 at the end of the stream.
recvBuf :: Socket -> Ptr Word8 -> Int -> IO Int
recvBuf = recvBufBefore noDeadline
{-# INLINE recvBuf #-}

-- | 'recvBuf' with a deadline.
recvBufBefore :: Deadline -> Socket -> Ptr Word8 -> Int -> IO Int
recvBufBefore !deadline s !buffer !size =
  handOver (keepReceived s buffer) $
    recvMasked "Millrace.Socket.ByteString.recvBuf" deadline s buffer size

-- Call it masked. Bytes that arrive too late for the caller are kept.
recvMasked :: String -> Deadline -> Socket -> Ptr Word8 -> Int -> IO Int
recvMasked attempted deadline s@(Socket handle _) buffer size = do
  checkSize attempted s size
  keptOr
    s
    (firstBytes size)
    (either (counted . Left) (copyInto buffer))
    keepLate
    (before deadline (recvRequest handle buffer size))
    counted
  where
    counted = throwIfFailed attempted (describe s)
    keepLate = either (keepError s) (keepReceived s buffer)

keepReceived :: Socket -> Ptr Word8 -> Int -> IO ()
keepReceived s buffer count = ByteString.packCStringLen (castPtr buffer, count) >>= keepBytes s

-- | Waits until the system can take bytes, and sends as many as it takes at once, at least one. Returns the number of
-- bytes sent.
send :: Socket -> ByteString -> IO Int
send = sendBefore noDeadline

-- | 'send' with a deadline. If the deadline passes, no bytes were sent.
sendBefore :: Deadline -> Socket -> ByteString -> IO Int
sendBefore deadline s bytes = unsafeUseAsCStringLen bytes $ \(buffer, size) ->
  sendPart "Millrace.Socket.ByteString.send" deadline s (castPtr buffer) size

-- | Sends all bytes. Waits until the system has taken them.
sendAll :: Socket -> ByteString -> IO ()
sendAll = sendAllBefore noDeadline
{-# INLINE sendAll #-}

-- | 'sendAll' with a deadline. The system takes bytes for a peer that reads nothing, as long as its buffer has space
-- ('Millrace.Socket.Option.setSendBuffer'), and the last attempt is made when the deadline passes. So a small send may
-- succeed then. To find such a peer, give one deadline to all that waits for it, and not one to each small send.
sendAllBefore :: Deadline -> Socket -> ByteString -> IO ()
sendAllBefore = sendString "Millrace.Socket.ByteString.sendAll"

sendString :: String -> Deadline -> Socket -> ByteString -> IO ()
sendString attempted deadline s bytes =
  unsafeUseAsCStringLen bytes $ \(buffer, size) -> sendAllLimited attempted (before deadline) s (castPtr buffer) size

-- | 'send' from a buffer. Throws for a negative size.
sendBuf :: Socket -> Ptr Word8 -> Int -> IO Int
sendBuf = sendBufBefore noDeadline

-- | 'sendBuf' with a deadline. If the deadline passes, no bytes were sent.
sendBufBefore :: Deadline -> Socket -> Ptr Word8 -> Int -> IO Int
sendBufBefore = sendPart "Millrace.Socket.ByteString.sendBuf"

sendPart :: String -> Deadline -> Socket -> Ptr Word8 -> Int -> IO Int
sendPart attempted deadline s@(Socket handle _) buffer size = do
  checkNotNegative attempted s size
  perform (before deadline (partial (sendRequest handle buffer size))) >>= throwIfFailed attempted (describe s)

-- | 'sendAll' from a buffer.
sendAllBuf :: Socket -> Ptr Word8 -> Int -> IO ()
sendAllBuf = sendAllBufBefore noDeadline
{-# INLINE sendAllBuf #-}

-- | 'sendAllBuf' with a deadline.
sendAllBufBefore :: Deadline -> Socket -> Ptr Word8 -> Int -> IO ()
sendAllBufBefore deadline = sendAllLimited "Millrace.Socket.ByteString.sendAllBuf" (before deadline)
{-# INLINE sendAllBufBefore #-}

-- | Sends all bytes from a buffer. Throws when a part of 256 KiB has to wait longer than the limit. Each part may wait
-- that long. Cheaper than 'sendAllBufBefore', because the clock is read only if the system takes no more.
sendAllBufWithin :: Duration -> Socket -> Ptr Word8 -> Int -> IO ()
sendAllBufWithin limit = sendAllLimited "Millrace.Socket.ByteString.sendAllBufWithin" (within limit)
{-# INLINE sendAllBufWithin #-}

sendAllLimited :: String -> (Request Int -> Request Int) -> Socket -> Ptr Word8 -> Int -> IO ()
sendAllLimited attempted limit s@(Socket handle _) whole total
  | total <= bytesPerOperation = inParts whole total
  | otherwise = do
    isMessage <- carriesMessages s
    if isMessage then sendOne whole total else inParts whole total
  where
    inParts buffer size
      | size <= 0 = return ()
      | size <= bytesPerOperation = sendOne buffer size
      | otherwise = do
        sendOne buffer bytesPerOperation
        inParts (buffer `plusPtr` bytesPerOperation) (size - bytesPerOperation)
    sendOne buffer size =
      perform (limit (sendRequest handle buffer size)) >>= void . throwIfFailed attempted (describe s)

-- | One operation may move all its bytes in one call, which delays the garbage collector.
bytesPerOperation :: Int
bytesPerOperation = 256 * 1024

-- | Sends all bytes of all strings in order, without copying them into one.
sendMany :: Socket -> [ByteString] -> IO ()
sendMany = sendManyBefore noDeadline

-- | 'sendMany' with a deadline.
sendManyBefore :: Deadline -> Socket -> [ByteString] -> IO ()
sendManyBefore deadline s@(Socket handle _) strings = case batch (filter (not . ByteString.null) strings) of
  (now, []) -> sendVector now
  (now, later) -> do
    isMessage <- carriesMessages s
    if isMessage then sendString function deadline s (ByteString.concat (now ++ later)) else sendBatch now later
  where
    function = "Millrace.Socket.ByteString.sendMany"
    sendBatch [] (big : later) = sendString function deadline s big >> sendLater later
    sendBatch now later = sendVector now >> sendLater later
    sendLater [] = return ()
    sendLater later = uncurry sendBatch (batch later)
    sendVector [] = return ()
    sendVector now = allocaBytes (length now * vectorElementSize) $ \vector ->
      withAll now $ \pieces -> do
        zipWithM_ (pokeElement vector) [0 ..] pieces
        perform (before deadline (sendVectorRequest handle vector (length now)))
          >>= void . throwIfFailed function (describe s)

pokeElement :: Ptr Word8 -> Int -> (Ptr Word8, Int) -> IO ()
pokeElement vector index (base, size) = do
  pokeByteOff vector (index * vectorElementSize + vectorElementBase) base
  pokeByteOff vector (index * vectorElementSize + vectorElementLength) (fromIntegral size :: Word64)

-- | The strings that fit into one operation, by number and by size. None if the first one is too large.
batch :: [ByteString] -> ([ByteString], [ByteString])
batch = go (0 :: Int) (0 :: Int)
  where
    go count size (string : rest)
      | count < elementsPerOperation && size + ByteString.length string <= bytesPerOperation =
        let (now, later) = go (count + 1) (size + ByteString.length string) rest in (string : now, later)
    go _ _ rest = ([], rest)
    elementsPerOperation = 1024 -- IOV_MAX on Linux

withAll :: [ByteString] -> ([(Ptr Word8, Int)] -> IO a) -> IO a
withAll strings use = go strings []
  where
    go [] pieces = use (reverse pieces)
    go (string : rest) pieces =
      unsafeUseAsCStringLen string $ \(base, size) -> go rest ((castPtr base, size) : pieces)
