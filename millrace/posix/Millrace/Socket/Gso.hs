-- | GSO batches: datagrams of one size between the same two addresses, which the kernel cuts and joins (GSO, GRO). Each
-- batch has what the IP headers say: which of this machine's addresses it was sent to, and whether a router was
-- congested (ECN, RFC 3168). For protocols over UDP such as QUIC, whose servers have many addresses and find out for
-- themselves how fast they may send.
--
-- > answer s = do
-- >   setLocalReport s True
-- >   forever (receiveGsoBatches s 64 >>= sendGsoBatches s)
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
-- >>> setEcnReport server True >> setLocalReport server True
-- >>> port <- socketPort server
-- >>> let path = Path (SockAddrInet port (tupleToHostAddress (127, 0, 0, 2))) Nothing
-- >>> sendGsoBatches client [GsoBatch path CapableZero 4 (B.pack "one two")]
-- []
-- >>> [one, two] <- replicateM 2 (receiveGsoBatches server 1)
-- >>> map (\batch -> (gsoBytes batch, gsoEcn batch, pathLocal (gsoPath batch))) (one ++ two)
-- [("one ",CapableZero,Just 127.0.0.2:0),("two",CapableZero,Just 127.0.0.2:0)]
module Millrace.Socket.Gso
  ( -- * Batches
    GsoBatch (..),
    Path (..),
    Ecn (..),
    gsoDatagrams,

    -- * Receiving
    receiveGsoBatches,
    receiveGsoBatchesBefore,
    setEcnReport,
    setLocalReport,

    -- * Sending
    sendGsoBatches,
    sendGsoBatchesBefore,
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

foreign import ccall unsafe "mrh_send_gso_batches" c_send_gso_batches :: CInt -> Ptr GsoRecord -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_receive_gso_batches"
  c_receive_gso_batches ::
    CInt -> Ptr Word8 -> Ptr GsoRecord -> CUInt -> IO Int64

foreign import ccall unsafe "mrh_report_ecn" c_report_ecn :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_report_local" c_report_local :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_is_simulated_socket" c_is_simulated :: CInt -> IO CInt

-- | An @mrh_gso_batch@.
data GsoRecord

-- | One datagram, or several behind each other.
data GsoBatch = GsoBatch
  { gsoPath :: !Path,
    -- | The congestion bits of each of them.
    gsoEcn :: !Ecn,
    -- | The size of each, but the last one may be shorter. A batch that is not longer is one datagram.
    gsoSegment :: !Int,
    gsoBytes :: !ByteString
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
data Ecn
  = -- | Its sender does not understand ECN.
    NotCapable
  | -- | Its sender understands ECN, and is of the kind of RFC 9331.
    CapableOne
  | -- | Its sender understands ECN.
    CapableZero
  | -- | A router that it passed was congested.
    Congested
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | Its datagrams.
gsoDatagrams :: GsoBatch -> [ByteString]
gsoDatagrams (GsoBatch _ _ segment bytes) = go bytes
  where
    go left
      | ByteString.length left <= max 1 segment = [left]
      | otherwise = let (now, later) = ByteString.splitAt (max 1 segment) left in now : go later

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | @receiveGsoBatches s most@ waits for a batch, and returns it with those that have arrived, too: at most @most@,
-- which must be positive, and never more than 64. A batch has several datagrams only if the kernel may join them
-- ('Millrace.Socket.Batch.setJoining'). None: the socket was shut down for receiving.
receiveGsoBatches :: Socket -> Int -> IO [GsoBatch]
receiveGsoBatches = receiveGsoBatchesBefore noDeadline

-- | 'receiveGsoBatches' with a deadline ('Millrace.Deadline.isDeadlineError').
receiveGsoBatchesBefore :: Deadline -> Socket -> Int -> IO [GsoBatch]
receiveGsoBatchesBefore deadline s most = do
  simulated <- isSimulated function s
  if simulated
    then (: []) . alone <$> recvFromBefore deadline s largest
    else handOver (mapM_ giveBack . reverse) $ do
      checkSize function s most
      receiveMessages function s deadline largest ((: []) . alone) (return []) receiveOnce
  where
    function = "Millrace.Socket.Gso.receiveGsoBatches"
    largest = 65536
    alone (bytes, sender) = GsoBatch (Path sender Nothing) NotCapable (ByteString.length bytes) bytes
    giveBack batch =
      mapM_ (keepBytesFrom (return (Just (pathPeer (gsoPath batch)))) s) (reverse (gsoDatagrams batch))
    receiveOnce = bracket takeMemory returnMemory $ \(ReceiveMemory memory) -> do
      let bytes = memory `plusPtr` (gsoBatchesMost * gsoSize)
      got <- attemptOnce function s "" $ \descriptor ->
        c_receive_gso_batches descriptor bytes (castPtr memory) (fromIntegral (min gsoBatchesMost most))
      forM got $ \count ->
        forM [0 .. fromIntegral count - 1] $ \i ->
          received (bytes `plusPtr` (i * gsoStride)) (castPtr memory `plusPtr` (i * gsoSize))

received :: Ptr Word8 -> Ptr GsoRecord -> IO GsoBatch
received bytes record = do
  peerLength <- word gsoPeerLength
  localLength <- word gsoLocalLength
  ecn <- word gsoEcnAt
  segment <- word gsoSegmentAt
  size <- word gsoLength
  peer <-
    if peerLength == 0 then return nameless else addressFrom (record `plusPtr` gsoPeer) (fromIntegral peerLength)
  local <-
    if localLength == 0
      then return Nothing
      else Just <$> addressFrom (record `plusPtr` gsoLocal) (fromIntegral localLength)
  GsoBatch (Path peer local) (toEnum (fromIntegral ecn)) (fromIntegral segment)
    <$> ByteString.packCStringLen (castPtr bytes, fromIntegral size)
  where
    word :: Int -> IO Word32
    word = peekByteOff record

-- Memory for received batches, which is used again and again. It is large, but only what datagrams fill is ever in use.
-- No thread waits while it has one, so there are few.
newtype ReceiveMemory = ReceiveMemory (Ptr Word8)

freeMemories :: IORef [ReceiveMemory]
freeMemories = unsafePerformIO (newIORef [])
{-# NOINLINE freeMemories #-}

takeMemory :: IO ReceiveMemory
takeMemory =
  atomicModifyIORef' freeMemories first
    >>= maybe (ReceiveMemory <$> mallocBytes (gsoBatchesMost * (gsoSize + gsoStride))) return
  where
    first (memory : others) = (others, Just memory)
    first [] = ([], Nothing)

returnMemory :: ReceiveMemory -> IO ()
returnMemory memory = atomicModifyIORef' freeMemories (\others -> (memory : others, ()))

-- | Whether received batches have their congestion bits. Otherwise they are 'NotCapable'.
setEcnReport :: Socket -> Bool -> IO ()
setEcnReport = report "Millrace.Socket.Gso.setEcnReport" c_report_ecn

-- | Whether received batches say to which address of this machine they were sent. A socket that is bound to all
-- addresses needs that to answer from the same one.
setLocalReport :: Socket -> Bool -> IO ()
setLocalReport = report "Millrace.Socket.Gso.setLocalReport" c_report_local

report :: String -> (CInt -> CInt -> IO CInt) -> Socket -> Bool -> IO ()
report function call s isOn = void . onDescriptor function s "" $ \descriptor -> call descriptor (if isOn then 1 else 0)

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | Sends batches, many in a call, and waits while the system cannot take them. Returns the datagrams that the system
-- has refused, with the errors: one peer that cannot be reached is not in the way of the others. The kernel or the
-- network card cuts batches (@UDP_SEGMENT@, Linux 4.18). Where they cannot, their datagrams are sent one by one. If it
-- throws or is interrupted, some may have been sent.
sendGsoBatches :: Socket -> [GsoBatch] -> IO [(GsoBatch, IOError)]
sendGsoBatches = sendGsoBatchesBefore noDeadline

-- | 'sendGsoBatches' with a deadline for all of them.
sendGsoBatchesBefore :: Deadline -> Socket -> [GsoBatch] -> IO [(GsoBatch, IOError)]
sendGsoBatchesBefore deadline s@(Socket handle _) batches = do
  simulated <- isSimulated function s
  if simulated then concat <$> mapM oneByOne (concatMap apart batches) else go (concatMap sendable batches)
  where
    function = "Millrace.Socket.Gso.sendGsoBatches"
    go [] = return []
    go left@(first : others) =
      try (send (take gsoBatchesMost left))
        >>= either (refused first others) (\sent -> go (drop (fromIntegral sent) left))
    send now = withRecords function s now $ \records ->
      attempt function s "" deadline (waitWritableRequest handle) $ \descriptor ->
        c_send_gso_batches descriptor records (fromIntegral (length now))
    refused first others problem
      | concernsAll problem = throwIO problem
      | isLong first && isRefusal problem = (++) <$> go (apart first) <*> go others
      | otherwise = ((first, problem) :) <$> go others
    oneByOne batch =
      try (sendAllToBefore deadline s (gsoBytes batch) (pathPeer (gsoPath batch)))
        >>= either (refused batch []) (const (return []))
    concernsAll problem = isDeadlineError problem || (Errno <$> ioe_errno problem) == Just eBADF
    -- An old kernel, or a network without check sums by hardware. If the system refuses the datagrams themselves, it
    -- does so again.
    isRefusal problem =
      maybe False ((`elem` [eINVAL, eIO, eOPNOTSUPP, eNOPROTOOPT, eMSGSIZE]) . Errno) (ioe_errno problem)

isLong :: GsoBatch -> Bool
isLong batch = ByteString.length (gsoBytes batch) > gsoSegment batch

-- A batch for each datagram.
apart :: GsoBatch -> [GsoBatch]
apart batch = [batch {gsoBytes = bytes} | bytes <- gsoDatagrams batch]

-- Batches that the kernel takes: of at most 64 datagrams, and together not longer than the longest one (over IPv4).
sendable :: GsoBatch -> [GsoBatch]
sendable batch
  | ByteString.length (gsoBytes batch) <= together = [batch]
  | otherwise = [batch {gsoBytes = bytes} | bytes <- gsoDatagrams batch {gsoSegment = together}]
  where
    segment = max 1 (gsoSegment batch)
    together = segment * max 1 (min 64 (65507 `div` segment))

withRecords :: String -> Socket -> [GsoBatch] -> (Ptr GsoRecord -> IO a) -> IO a
withRecords function s batches use = allocaBytes (max 1 (length batches) * gsoSize) $ \records ->
  let go _ [] = use records
      go i (GsoBatch path ecn segment bytes : others) = unsafeUseAsCStringLen bytes $ \(start, size) -> do
        let record = records `plusPtr` (i * gsoSize) :: Ptr GsoRecord
        pokeAddress function s record (gsoPeer, gsoPeerLength) (pathPeer path)
        maybe
          (pokeByteOff record gsoLocalLength (0 :: Word32))
          (pokeAddress function s record (gsoLocal, gsoLocalLength))
          (pathLocal path)
        pokeByteOff record gsoStart start
        pokeByteOff record gsoLength (fromIntegral size :: Word32)
        pokeByteOff record gsoSegmentAt (fromIntegral (max 1 segment) :: Word32)
        pokeByteOff record gsoEcnAt (fromIntegral (fromEnum ecn) :: Word32)
        go (i + 1 :: Int) others
   in go 0 batches

-- Only an internet address fits.
pokeAddress :: String -> Socket -> Ptr GsoRecord -> (Int, Int) -> SockAddr -> IO ()
pokeAddress function s record (at, lengthAt) address = case address of
  SockAddrUnix _ -> throwIO (failure function (describe s ++ " to " ++ show address) eAFNOSUPPORT)
  _ -> do
    pokeSocketAddress (record `plusPtr` at) address
    pokeByteOff record lengthAt (fromIntegral (sizeOfSocketAddress address) :: Word32)

isSimulated :: String -> Socket -> IO Bool
isSimulated function s = (/= 0) <$> onDescriptor function s "" c_is_simulated
