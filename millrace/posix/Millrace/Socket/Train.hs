-- | Trains: datagrams of one size between the same two addresses, with what their IP headers say: which of this
-- machine's addresses they were sent to, and the marks of routers that are congested (ECN, RFC 3168). For protocols
-- over UDP such as QUIC, whose servers have many addresses and find out for themselves how fast they may send.
--
-- > answer s = do
-- >   setLocalReport s True
-- >   forever (receiveTrains s 64 >>= sendTrains s)
--
-- All functions wait without occupying an operating system thread, are interruptible, and throw 'IOError' that names
-- the function and the socket. A datagram that an interrupted thread has received is returned by the next receive, but
-- what its header said is lost. Only on Linux, and only for UDP. Sockets of "Millrace.Simulation" receive and send one
-- datagram at a time, and their headers say nothing.
--
-- >>> import Control.Monad
-- >>> import Millrace
-- >>> import qualified Data.ByteString.Char8 as B
-- >>> let newSocket = socket AF_INET Datagram defaultProtocol
-- >>> (server, client) <- (,) <$> newSocket <*> newSocket
-- >>> bind server (SockAddrInet 0 0)
-- >>> setMarkReport server True >> setLocalReport server True
-- >>> port <- socketPort server
-- >>> let path = Path (SockAddrInet port (tupleToHostAddress (127, 0, 0, 2))) Nothing
-- >>> sendTrains client [Train path CapableZero 4 (B.pack "one two")]
-- []
-- >>> [one, two] <- replicateM 2 (receiveTrains server 1)
-- >>> map (\train -> (trainBytes train, trainMark train, pathLocal (trainPath train))) (one ++ two)
-- [("one ",CapableZero,Just 127.0.0.2:0),("two",CapableZero,Just 127.0.0.2:0)]
module Millrace.Socket.Train
  ( -- * Trains
    Train (..),
    Path (..),
    Mark (..),
    trainDatagrams,

    -- * Receiving
    receiveTrains,
    receiveTrainsBefore,
    setMarkReport,
    setLocalReport,

    -- * Sending
    sendTrains,
    sendTrainsBefore,
  )
where

import Control.Exception (bracket, throwIO, try)
import Control.Monad (forM, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Error (Errno (..), eAFNOSUPPORT, eBADF, eINVAL, eIO, eMSGSIZE, eNOPROTOOPT, eOPNOTSUPP)
import Foreign.C.Types (CInt (..), CUInt (..))
import Foreign.Marshal.Alloc (allocaBytes, mallocBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, isDeadlineError, noDeadline)
import Millrace.Internal.Attempt (attempt, attemptOnce, nameless, receiveMessages)
import Millrace.Internal.Constants.Sockets
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Socket.Datagram (recvFromBefore, sendAllToBefore)
import Network.Socket (SockAddr (..))
import Network.Socket.Address (pokeSocketAddress, sizeOfSocketAddress)
import System.IO.Unsafe (unsafePerformIO)

foreign import ccall unsafe "mrh_send_gso_batches" c_send_trains :: CInt -> Ptr Record -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_receive_gso_batches"
  c_receive_trains ::
    CInt -> Ptr Word8 -> Ptr Record -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_report_ecn" c_report_marks :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_report_local" c_report_local :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_is_simulated_socket" c_is_simulated :: CInt -> IO CInt

-- | An @mrh_gso_batch@.
data Record

-- | One datagram, or several behind each other.
data Train = Train
  { trainPath :: !Path,
    -- | The mark of each of them.
    trainMark :: !Mark,
    -- | The size of each, but the last one may be shorter. A train that is not longer is one datagram.
    trainSegment :: !Int,
    trainBytes :: !ByteString
  }
  deriving (Eq, Show)

-- | Two addresses between which datagrams are sent.
data Path = Path
  { pathPeer :: !SockAddr,
    -- | The address of this machine. Its port is 0, and is ignored when sending. 'Nothing': it is not known, and when
    -- sending, the system chooses.
    pathLocal :: !(Maybe SockAddr)
  }
  deriving (Eq, Show)

-- | What a datagram says about congestion (ECN, RFC 3168).
data Mark
  = -- | Its sender does not know of marks.
    NotCapable
  | -- | Its sender would understand the mark, and is of the kind of RFC 9331.
    CapableOne
  | -- | Its sender would understand the mark.
    CapableZero
  | -- | A router has marked it, because it is congested.
    Congested
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | Its datagrams.
trainDatagrams :: Train -> [ByteString]
trainDatagrams (Train _ _ segment bytes) = go bytes
  where
    go left
      | ByteString.length left <= max 1 segment = [left]
      | otherwise = let (now, later) = ByteString.splitAt (max 1 segment) left in now : go later

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | @receiveTrains s most@ waits for a train, and returns it with those that have arrived, too: at most @most@, which
-- must be positive, and never more than 64. A train has several datagrams only if the kernel may join them
-- ('Millrace.Socket.Batch.setJoining'). None: the socket was shut down for receiving.
receiveTrains :: Socket -> Int -> IO [Train]
receiveTrains = receiveTrainsBefore noDeadline

-- | 'receiveTrains' with a deadline ('Millrace.Deadline.isDeadlineError').
receiveTrainsBefore :: Deadline -> Socket -> Int -> IO [Train]
receiveTrainsBefore deadline s most = do
  simulated <- isSimulated function s
  if simulated
    then (: []) . alone <$> recvFromBefore deadline s largest
    else handOver (mapM_ giveBack . reverse) $ do
      checkSize function s most
      receiveMessages function s deadline largest ((: []) . alone) (return []) receiveOnce
  where
    function = "Millrace.Socket.Train.receiveTrains"
    largest = 65536
    alone (bytes, sender) = Train (Path sender Nothing) NotCapable (ByteString.length bytes) bytes
    giveBack train =
      mapM_ (keepBytesFrom (return (Just (pathPeer (trainPath train)))) s) (reverse (trainDatagrams train))
    receiveOnce = bracket takeMemory returnMemory $ \(ReceiveMemory memory) -> do
      let bytes = memory `plusPtr` (trainsMost * trainSize)
      got <- attemptOnce function s "" $ \descriptor ->
        c_receive_trains descriptor bytes (castPtr memory) (fromIntegral (min trainsMost most))
      forM got $ \count ->
        forM [0 .. fromIntegral count - 1] $ \i ->
          received (bytes `plusPtr` (i * trainStride)) (castPtr memory `plusPtr` (i * trainSize))

received :: Ptr Word8 -> Ptr Record -> IO Train
received bytes record = do
  peerLength <- word trainPeerLength
  localLength <- word trainLocalLength
  mark <- word trainMarkAt
  segment <- word trainSegmentAt
  size <- word trainLength
  peer <-
    if peerLength == 0 then return nameless else addressFrom (record `plusPtr` trainPeer) (fromIntegral peerLength)
  local <-
    if localLength == 0
      then return Nothing
      else Just <$> addressFrom (record `plusPtr` trainLocal) (fromIntegral localLength)
  Train (Path peer local) (toEnum (fromIntegral mark)) (fromIntegral segment)
    <$> ByteString.packCStringLen (castPtr bytes, fromIntegral size)
  where
    word :: Int -> IO Word32
    word = peekByteOff record

-- Memory for received trains, which is used again and again. It is large, but only what datagrams fill is ever in use.
-- No thread waits while it has one, so there are few.
newtype ReceiveMemory = ReceiveMemory (Ptr Word8)

freeMemories :: IORef [ReceiveMemory]
freeMemories = unsafePerformIO (newIORef [])
{-# NOINLINE freeMemories #-}

takeMemory :: IO ReceiveMemory
takeMemory =
  atomicModifyIORef' freeMemories first >>= maybe (ReceiveMemory <$> mallocBytes (trainsMost * (trainSize + trainStride))) return
  where
    first (memory : others) = (others, Just memory)
    first [] = ([], Nothing)

returnMemory :: ReceiveMemory -> IO ()
returnMemory memory = atomicModifyIORef' freeMemories (\others -> (memory : others, ()))

-- | Whether received trains say their mark. Otherwise it is 'NotCapable'.
setMarkReport :: Socket -> Bool -> IO ()
setMarkReport = report "Millrace.Socket.Train.setMarkReport" c_report_marks

-- | Whether received trains say to which address of this machine they were sent. A socket that is bound to all
-- addresses needs that to answer from the same one.
setLocalReport :: Socket -> Bool -> IO ()
setLocalReport = report "Millrace.Socket.Train.setLocalReport" c_report_local

report :: String -> (CInt -> CInt -> IO CInt) -> Socket -> Bool -> IO ()
report function call s isOn = void . onDescriptor function s "" $ \descriptor -> call descriptor (if isOn then 1 else 0)

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | Sends trains, many in a call, and waits while the system cannot take them. Returns the datagrams that the system
-- has refused, with the errors: one peer that cannot be reached is not in the way of the others. The kernel or the
-- network card cuts trains (@UDP_SEGMENT@, Linux 4.18). Where they cannot, their datagrams are sent one by one. If it
-- throws or is interrupted, some may have been sent.
sendTrains :: Socket -> [Train] -> IO [(Train, IOError)]
sendTrains = sendTrainsBefore noDeadline

-- | 'sendTrains' with a deadline for all of them.
sendTrainsBefore :: Deadline -> Socket -> [Train] -> IO [(Train, IOError)]
sendTrainsBefore deadline s@(Socket handle _) trains = do
  simulated <- isSimulated function s
  if simulated then concat <$> mapM oneByOne (concatMap apart trains) else go (concatMap sendable trains)
  where
    function = "Millrace.Socket.Train.sendTrains"
    go [] = return []
    go left@(first : others) =
      try (send (take trainsMost left)) >>= either (refused first others) (\sent -> go (drop (fromIntegral sent) left))
    send now = withRecords function s now $ \records ->
      attempt function s "" deadline (waitWritableRequest handle) $ \descriptor ->
        c_send_trains descriptor records (fromIntegral (length now))
    refused first others problem
      | concernsAll problem = throwIO problem
      | isLong first && isRefusal problem = (++) <$> go (apart first) <*> go others
      | otherwise = ((first, problem) :) <$> go others
    oneByOne train =
      try (sendAllToBefore deadline s (trainBytes train) (pathPeer (trainPath train)))
        >>= either (refused train []) (const (return []))
    concernsAll problem = isDeadlineError problem || (Errno <$> ioe_errno problem) == Just eBADF
    -- An old kernel, or a network without check sums by hardware. If the system refuses the datagrams themselves, it
    -- does so again.
    isRefusal problem =
      maybe False ((`elem` [eINVAL, eIO, eOPNOTSUPP, eNOPROTOOPT, eMSGSIZE]) . Errno) (ioe_errno problem)

isLong :: Train -> Bool
isLong train = ByteString.length (trainBytes train) > trainSegment train

-- A train for each datagram.
apart :: Train -> [Train]
apart train = [train {trainBytes = bytes} | bytes <- trainDatagrams train]

-- Trains that the kernel takes: of at most 64 datagrams, and together not longer than the longest one (over IPv4).
sendable :: Train -> [Train]
sendable train
  | ByteString.length (trainBytes train) <= together = [train]
  | otherwise = [train {trainBytes = bytes} | bytes <- trainDatagrams train {trainSegment = together}]
  where
    segment = max 1 (trainSegment train)
    together = segment * max 1 (min 64 (65507 `div` segment))

withRecords :: String -> Socket -> [Train] -> (Ptr Record -> IO a) -> IO a
withRecords function s trains use = allocaBytes (max 1 (length trains) * trainSize) $ \records ->
  let go _ [] = use records
      go i (Train path mark segment bytes : others) = unsafeUseAsCStringLen bytes $ \(start, size) -> do
        let record = records `plusPtr` (i * trainSize) :: Ptr Record
        pokeAddress function s record (trainPeer, trainPeerLength) (pathPeer path)
        maybe
          (pokeByteOff record trainLocalLength (0 :: Word32))
          (pokeAddress function s record (trainLocal, trainLocalLength))
          (pathLocal path)
        pokeByteOff record trainStart start
        pokeByteOff record trainLength (fromIntegral size :: Word32)
        pokeByteOff record trainSegmentAt (fromIntegral (max 1 segment) :: Word32)
        pokeByteOff record trainMarkAt (fromIntegral (fromEnum mark) :: Word32)
        go (i + 1 :: Int) others
   in go 0 trains

-- Only an internet address fits.
pokeAddress :: String -> Socket -> Ptr Record -> (Int, Int) -> SockAddr -> IO ()
pokeAddress function s record (at, lengthAt) address = case address of
  SockAddrUnix _ -> throwIO (failure function (describe s ++ " to " ++ show address) eAFNOSUPPORT)
  _ -> do
    pokeSocketAddress (record `plusPtr` at) address
    pokeByteOff record lengthAt (fromIntegral (sizeOfSocketAddress address) :: Word32)

isSimulated :: String -> Socket -> IO Bool
isSimulated function s = (/= 0) <$> onDescriptor function s "" c_is_simulated
