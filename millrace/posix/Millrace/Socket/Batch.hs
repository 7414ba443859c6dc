-- | Many datagrams in one system call, and datagrams that the kernel cuts and joins. For programs that move more than
-- some ten thousand datagrams a second; all others use "Millrace.Socket.Datagram".
--
-- > echo s = forever (receiveBatch s 64 1500 >>= sendBatch s)
--
-- All functions wait without occupying an operating system thread, are interruptible, and throw 'IOError' that names
-- the function and the socket. A datagram that an interrupted thread has received is returned by the next receive, as
-- in "Millrace.Socket.Datagram". Only on Linux. Sockets of "Millrace.Simulation" receive and send one datagram at a
-- time.
--
-- >>> import Millrace
-- >>> let newSocket = socket AF_INET Datagram defaultProtocol
-- >>> (server, client) <- (,) <$> newSocket <*> newSocket
-- >>> bind server (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
-- >>> address <- getSocketName server
-- >>> sendBatch client [("one", address), ("two", address)]
-- >>> map fst <$> receiveBatch server 10 1500
-- ["one","two"]
-- >>> sendSegments client 4 "one two three" address
-- >>> map fst <$> receiveBatch server 10 1500
-- ["one ","two ","thre","e"]
module Millrace.Socket.Batch
  ( -- * Several datagrams
    sendBatch,
    sendBatchBefore,
    receiveBatch,
    receiveBatchBefore,

    -- * Cutting and joining
    sendSegments,
    sendSegmentsBefore,
    setJoining,
  )
where

import Control.Exception (catch, throwIO)
import Control.Monad (forM, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word16, Word32, Word8)
import Foreign.C.Error (Errno (..), eINVAL, eIO, eMSGSIZE, eNOPROTOOPT, eOPNOTSUPP)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Attempt (attempt, attemptOnce, nameless, receiveMessages)
import Millrace.Internal.Constants.Sockets
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Socket.Datagram (recvFromBefore, sendAllToBefore)
import Network.Socket (SockAddr (..))

foreign import ccall unsafe "mrh_send_batch" c_send_batch :: CInt -> Ptr Outgoing -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_receive_batch"
  c_receive_batch ::
    CInt -> Ptr Word8 -> CSize -> Ptr Incoming -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_send_segments" c_send_segments :: CInt -> Ptr Outgoing -> Word16 -> IO Int64

foreign import ccall unsafe "mrh_set_gro" c_set_joining :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_is_simulated_socket" c_is_simulated :: CInt -> IO CInt

-- | An @mrh_outgoing@.
data Outgoing

-- | An @mrh_incoming@.
data Incoming

-- | Sends datagrams, each to its address, 64 in a call, and waits while the system cannot take them. If it throws or is
-- interrupted, the first ones have been sent and the others not; the error names the address that could not be sent to.
sendBatch :: Socket -> [(ByteString, SockAddr)] -> IO ()
sendBatch = sendBatchBefore noDeadline

-- | 'sendBatch' with a deadline for all of it ('Millrace.Deadline.isDeadlineError').
sendBatchBefore :: Deadline -> Socket -> [(ByteString, SockAddr)] -> IO ()
sendBatchBefore deadline s@(Socket handle _) datagrams = do
  simulated <- isSimulated function s
  if simulated then mapM_ (uncurry (sendAllToBefore deadline s)) datagrams else go datagrams
  where
    function = "Millrace.Socket.Batch.sendBatch"
    go [] = return ()
    go left@((_, address) : _) = do
      let now = take batchMost left
      sent <- withOutgoing function s now $ \memory ->
        attempt function s (" to " ++ show address) deadline (waitWritableRequest handle) $ \descriptor ->
          c_send_batch descriptor memory (fromIntegral (length now))
      go (drop (fromIntegral sent) left)

-- Descriptions of the datagrams in memory.
withOutgoing :: String -> Socket -> [(ByteString, SockAddr)] -> (Ptr Outgoing -> IO a) -> IO a
withOutgoing function s datagrams use =
  allocaBytes (max 1 (length datagrams) * outgoingSize) $ \array -> go array 0 datagrams
  where
    go array _ [] = use array
    go array i ((bytes, address) : others) =
      unsafeUseAsCStringLen bytes $ \(start, size) -> withAddress function s address $ \memory length' -> do
        let one = array `plusPtr` (i * outgoingSize) :: Ptr Outgoing
        pokeByteOff one outgoingBytes start
        pokeByteOff one outgoingLength (fromIntegral size :: CSize)
        pokeByteOff one outgoingAddress memory
        pokeByteOff one outgoingAddressLength (fromIntegral length' :: Word32)
        go array (i + 1 :: Int) others

-- | @receiveBatch s most size@ waits for a datagram, and returns it with those that have arrived, too: at most @most@,
-- and never more than 64, each with its sender (@SockAddrUnix ""@ for a Unix socket without a name). A datagram of more
-- than @size@ bytes is cut off. Datagrams that the kernel has joined ('setJoining') count as one here, although several
-- are returned; @size@ must be enough for all of them. Both numbers must be positive. None: the socket was shut down
-- for receiving.
receiveBatch :: Socket -> Int -> Int -> IO [(ByteString, SockAddr)]
receiveBatch = receiveBatchBefore noDeadline

-- | 'receiveBatch' with a deadline ('Millrace.Deadline.isDeadlineError').
receiveBatchBefore :: Deadline -> Socket -> Int -> Int -> IO [(ByteString, SockAddr)]
receiveBatchBefore deadline s most size = do
  simulated <- isSimulated function s
  if simulated
    then (: []) <$> recvFromBefore deadline s size
    else handOver (mapM_ giveBack . reverse) $ do
      checkSize function s size
      checkSize function s most
      receiveMessages function s deadline size (: []) (return []) receiveOnce
  where
    function = "Millrace.Socket.Batch.receiveBatch"
    giveBack (bytes, sender) = keepBytesFrom (return (Just sender)) s bytes
    count = min batchMost most
    receiveOnce = do
      memory <- mallocByteString (count * size)
      withForeignPtr memory $ \buffer -> allocaBytes (count * incomingSize) $ \array -> do
        fillBytes array 0 (count * incomingSize)
        got <- attemptOnce function s "" $ \descriptor ->
          c_receive_batch descriptor buffer (fromIntegral size) array (fromIntegral count)
        forM got $ \number -> concat <$> mapM (incoming memory array) [0 .. fromIntegral number - 1]
    incoming memory array i = datagramsAt memory size (array `plusPtr` (i * incomingSize)) i

-- The datagrams that the given entry contains: several if the kernel has joined them.
datagramsAt :: ForeignPtr Word8 -> Int -> Ptr Incoming -> Int -> IO [(ByteString, SockAddr)]
datagramsAt memory size one i = do
  length' <- peekByteOff one incomingAddressLength :: IO Word32
  bytes <- peekByteOff one incomingLength :: IO Word32
  segment <- peekByteOff one incomingSegment :: IO Word32
  sender <- if length' == 0 then return nameless else addressFrom (one `plusPtr` incomingAddress) (fromIntegral length')
  let whole = fromForeignPtr memory (i * size) (fromIntegral bytes)
      pieces = if segment == 0 then [whole] else cut (fromIntegral segment) whole
  forM pieces $ \piece -> do
    let copied = ByteString.copy piece
    copied `seq` return (copied, sender)

-- | Pieces of the given size; the last one may be shorter. No bytes give one empty piece.
cut :: Int -> ByteString -> [ByteString]
cut size bytes
  | ByteString.length bytes <= size = [bytes]
  | otherwise = let (now, later) = ByteString.splitAt size bytes in now : cut size later

-- | @sendSegments s size bytes address@ sends bytes as datagrams of @size@ bytes each, of which the last one may be
-- shorter. The kernel or the network card cuts them (@UDP_SEGMENT@, Linux 4.18), up to 64 in a call, which costs little
-- more than one datagram. Where they cannot, it sends them as 'sendBatch' does. The size must be positive, and not more
-- than the network takes (@EMSGSIZE@). If it throws or is interrupted, some datagrams may have been sent.
sendSegments :: Socket -> Int -> ByteString -> SockAddr -> IO ()
sendSegments = sendSegmentsBefore noDeadline

-- | 'sendSegments' with a deadline for all of it.
sendSegmentsBefore :: Deadline -> Socket -> Int -> ByteString -> SockAddr -> IO ()
sendSegmentsBefore deadline s@(Socket handle _) size bytes address = do
  checkSize function s size
  unless (size <= datagramMost) $ throwIO (failure function (describe s) eMSGSIZE)
  simulated <- isSimulated function s
  if simulated then oneByOne bytes else go bytes
  where
    function = "Millrace.Socket.Batch.sendSegments"
    -- Before it is cut, the whole must not be longer than the longest datagram.
    together = max 1 (min batchMost (datagramMost `div` size)) * size
    oneByOne = sendBatchBefore deadline s . (`zip` repeat address) . cut size
    go left
      | ByteString.length left <= size = sendAllToBefore deadline s left address
      | otherwise = do
        let (now, later) = ByteString.splitAt together left
        isSent <-
          (True <$ sendTogether now) `catch` \problem ->
            if isRefusal problem then return False else throwIO problem
        if isSent then unless (ByteString.null later) (go later) else oneByOne left
    sendTogether now = void . withOutgoing function s [(now, address)] $ \memory ->
      attempt function s (" to " ++ show address) deadline (waitWritableRequest handle) $ \descriptor ->
        c_send_segments descriptor memory (fromIntegral size)
    -- Not a UDP socket, an old kernel, or a network without check sums by hardware. If the system refuses the
    -- datagrams themselves, it does so again here.
    isRefusal problem =
      maybe False ((`elem` [eINVAL, eIO, eOPNOTSUPP, eNOPROTOOPT, eMSGSIZE]) . Errno) (ioe_errno problem)

-- | The most bytes of a UDP datagram over IPv4.
datagramMost :: Int
datagramMost = 65507

-- | Whether the kernel joins datagrams of the same size that arrive together from the same sender (@UDP_GRO@, Linux
-- 5.0), which makes receiving cheaper. 'receiveBatch' takes them apart again; no other function does. Its size must be
-- 65536 then, or datagrams are lost. Where the kernel or the socket cannot, it throws (@ENOPROTOOPT@, @EOPNOTSUPP@).
setJoining :: Socket -> Bool -> IO ()
setJoining s isOn =
  void . onDescriptor "Millrace.Socket.Batch.setJoining" s "" $ \descriptor ->
    c_set_joining descriptor (if isOn then 1 else 0)

isSimulated :: String -> Socket -> IO Bool
isSimulated function s = (/= 0) <$> onDescriptor function s "" c_is_simulated
