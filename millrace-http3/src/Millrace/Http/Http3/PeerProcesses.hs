-- Must not know: WAI.

-- |
-- Other processes that have the same port (SO_REUSEPORT), as in a restart. The system gives a datagram to any of them,
-- so each process hands datagrams of other processes' connections to these.
--
-- Each process takes a slot: an abstract Unix socket whose name has the address, the port and the slot, which only one
-- process can bind. Its connection IDs name the slot ("Millrace.Http.Http3.ConnectionIdRouting"). Others connect to the
-- socket and write datagrams to it. A process reads from, and writes to, processes of the same user only; the system
-- lets only those share the port anyway.
module Millrace.Http.Http3.PeerProcesses
  ( PeerProcesses,
    openPeerProcesses,
    closePeerProcesses,
    peersProcess,

    -- * Handing on
    Handed (..),
    Visited,
    noneVisited,
    Delivery (..),
    handTo,
    handToAny,

    -- * Receiving
    acceptPeer,
    receiveHanded,
  )
where

import Control.Concurrent (ThreadId, forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forever, unless, void, when)
import Data.Bits (setBit, shiftL, shiftR, testBit, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Millrace.Deadline (deadlineAfter, milliseconds, monotonicNanoseconds, seconds)
import Millrace.Http.Http3.ConnectionIdRouting
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAllBefore)
import Millrace.Socket.Gso (Ecn, GsoBatch (..), Path (..))
import Millrace.Socket.Unix (abstractName, credentialsUser, peerCredentials)
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)

-- | The slot of this process, and its connections to other processes.
data PeerProcesses = PeerProcesses
  { peersAddress :: !SockAddr,
    -- | This process.
    peersSlot :: !Int,
    peersListener :: !Socket,
    peersLinks :: !(MVar (IntMap PeerState))
  }

-- | This process.
peersProcess :: PeerProcesses -> Process
peersProcess = InSlot . peersSlot

-- What is known of another process.
data PeerState
  = -- | No process had the slot at this time.
    Absent !Word64
  | Present !Outbox

-- Datagrams that wait to be written, the last one first.
data Outbox = Outbox
  { outboxWaiting :: !(IORef (Counted [ByteString])),
    outboxFilled :: !(MVar ()),
    outboxSocket :: !Socket,
    outboxThreads :: !(MVar [ThreadId])
  }

-- Datagrams with their number.
data Counted a = Counted !Int !a

-- | Takes a free slot of this address. 'Nothing' if there is none.
openPeerProcesses :: SockAddr -> IO (Maybe PeerProcesses)
openPeerProcesses address = go 0
  where
    go slot
      | slot == processesMax = return Nothing
      | otherwise = do
        taken <-
          try
            ( bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \opened ->
                bind opened (nameOf address slot) >> listen opened 64 >> return opened
            )
        case taken of
          Left failure -> let _ = failure :: IOException in go (slot + 1)
          Right listener -> Just . PeerProcesses address slot listener <$> newMVar IntMap.empty

-- | Releases the slot. 'acceptPeer' throws from now on.
closePeerProcesses :: PeerProcesses -> IO ()
closePeerProcesses peers = do
  close (peersListener peers)
  links <- swapMVar (peersLinks peers) IntMap.empty
  mapM_ endLink links
  where
    endLink link = case link of
      Present outbox -> endOutbox outbox
      Absent _ -> return ()

nameOf :: SockAddr -> Int -> SockAddr
nameOf address slot = abstractName ("millrace-http3/" ++ show address ++ "/" ++ show slot)

------------------------------------------------------------------------------------------------------------------------
-- Handing on

-- | Datagrams, and the processes that have already refused them. Only single datagrams are handed on.
data Handed = Handed
  { handedVisited :: !Visited,
    handedBatch :: !GsoBatch
  }

-- | Processes that take no new clients.
newtype Visited = Visited Word16

-- | None of them.
noneVisited :: Visited
noneVisited = Visited 0

-- | The result of handing on a datagram.
data Delivery
  = -- | It is on its way, or is lost because the other process is slow or because it is too long.
    Delivered
  | Nobody
  deriving (Eq)

-- | Hands a datagram to another process. Does not wait.
handTo :: PeerProcesses -> Process -> Handed -> IO Delivery
handTo peers process handed = case process of
  InSlot slot | slot /= peersSlot peers -> handToSlot peers slot handed
  _ -> return Nobody

handToSlot :: PeerProcesses -> Int -> Handed -> IO Delivery
handToSlot peers slot handed =
  linkTo peers slot >>= maybe (return Nobody) (\outbox -> Delivered <$ (encoded handed >>= mapM_ (put outbox)))

-- | Hands the first datagram of a client, which this process does not take, to one that may.
handToAny :: PeerProcesses -> Handed -> IO Delivery
handToAny peers (Handed (Visited before) batch) =
  go [slot | slot <- [0 .. processesMax - 1], not (testBit visited slot)]
  where
    visited = setBit before (peersSlot peers)
    go [] = return Nobody
    go (slot : others) = do
      delivery <- handToSlot peers slot (Handed (Visited visited) batch)
      if delivery == Delivered then return Delivered else go others

-- Connects if necessary.
linkTo :: PeerProcesses -> Int -> IO (Maybe Outbox)
linkTo peers slot = modifyMVarMasked (peersLinks peers) $ \links -> do
  now <- monotonicNanoseconds
  case IntMap.lookup slot links of
    Just (Present outbox) -> return (links, Just outbox)
    Just (Absent since) | now < since + absentNanoseconds -> return (links, Nothing)
    _ -> do
      connected <- connectTo peers slot
      case connected of
        Nothing -> return (IntMap.insert slot (Absent now) links, Nothing)
        Just opened -> do
          outbox <- openOutbox opened (forget opened)
          return (IntMap.insert slot (Present outbox) links, Just outbox)
  where
    absentNanoseconds = 100000000
    forget opened =
      modifyMVarMasked_ (peersLinks peers) $ \links -> return $ case IntMap.lookup slot links of
        Just (Present outbox) | outboxSocket outbox == opened -> IntMap.delete slot links
        _ -> links

connectTo :: PeerProcesses -> Int -> IO (Maybe Socket)
connectTo peers slot = do
  outcome <- try . bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \opened -> do
    deadline <- deadlineAfter (milliseconds 100)
    connectBefore deadline opened (nameOf (peersAddress peers) slot)
    isOwn <- isOfThisUser opened
    unless isOwn (throwIO (userError "another user's socket"))
    return opened
  return (either (\failure -> let _ = failure :: IOException in Nothing) Just outcome)

foreign import ccall unsafe "geteuid"
  c_geteuid :: IO Word32

isOfThisUser :: Socket -> IO Bool
isOfThisUser opened = (==) <$> c_geteuid <*> (credentialsUser <$> peerCredentials opened)

-- One thread writes, another one notices that the other process has ended. Masked.
openOutbox :: Socket -> IO () -> IO Outbox
openOutbox opened forget = do
  outbox <- Outbox <$> newIORef (Counted 0 []) <*> newEmptyMVar <*> pure opened <*> newEmptyMVar
  writer <- forkIO (write outbox `catch` over outbox)
  watcher <- forkIO ((recv opened 1 >> forget >> endOutbox outbox) `catch` over outbox)
  putMVar (outboxThreads outbox) [writer, watcher]
  return outbox
  where
    write outbox = forever $ do
      takeMVar (outboxFilled outbox)
      Counted _ waiting <- atomicModifyIORef' (outboxWaiting outbox) takeAll
      deadline <- deadlineAfter (seconds 1)
      sendAllBefore deadline opened (B.concat (reverse waiting))
    takeAll waiting = (Counted 0 [], waiting)
    over :: Outbox -> SomeException -> IO ()
    over outbox failure = case fromException failure of
      Just ThreadKilled -> return ()
      _ -> forget >> endOutbox outbox

-- | Ends its threads, the calling one last.
endOutbox :: Outbox -> IO ()
endOutbox outbox = void . forkIO $ do
  threads <- tryTakeMVar (outboxThreads outbox)
  mapM_ (mapM_ killThread) threads
  when (maybe False (not . null) threads) (close (outboxSocket outbox))

put :: Outbox -> ByteString -> IO ()
put outbox bytes = do
  atomicModifyIORef' (outboxWaiting outbox) $ \waiting@(Counted count others) ->
    if count >= waitingMax then (waiting, ()) else (Counted (count + 1) (bytes : others), ())
  void (tryPutMVar (outboxFilled outbox) ())
  where
    waitingMax = 2048

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Waits for another process of this user.
acceptPeer :: PeerProcesses -> IO Socket
acceptPeer peers = do
  accepted <- mask $ \restore -> do
    (opened, _) <- restore (accept (peersListener peers))
    isOwn <- isOfThisUser opened `onException` close opened
    if isOwn then return (Just opened) else Nothing <$ close opened
  maybe (acceptPeer peers) return accepted

-- | Gives the action the datagrams that another process hands on, many at a time, until that process ends.
receiveHanded :: Socket -> ([Handed] -> IO ()) -> IO ()
receiveHanded from use = go B.empty
  where
    go before = do
      bytes <- recv from 65536
      unless (B.null bytes) $ do
        (handed, rest) <- decoded (before <> bytes)
        unless (null handed) (use handed)
        go rest

-- Two bytes for the length of the rest; two for the processes that were visited; one for ECN; the client's address;
-- this machine's address, or nothing; the datagram. An address has one byte for its length. 'Nothing': the largest
-- datagrams of UDP do not fit beside the addresses. QUIC has none of that size, and a length that was cut would make
-- the rest of the bytes the next messages.
encoded :: Handed -> IO (Maybe ByteString)
encoded (Handed (Visited visited) (GsoBatch (Path client local) ecn _ bytes)) = do
  addresses <- (<>) <$> encodedAddress client <*> maybe (return (B.singleton 0)) encodedAddress local
  let size = 3 + B.length addresses + B.length bytes
      beginning = B.pack (two (fromIntegral size) ++ two visited ++ [fromIntegral (fromEnum ecn)])
  return (if size > fromIntegral (maxBound :: Word16) then Nothing else Just (B.concat [beginning, addresses, bytes]))
  where
    two :: Word16 -> [Word8]
    two number = [fromIntegral (number `shiftR` 8), fromIntegral number]

encodedAddress :: SockAddr -> IO ByteString
encodedAddress address = allocaBytes addressSize $ \at -> do
  pokeSocketAddress at address
  B.cons (fromIntegral size) <$> B.packCStringLen (castPtr at, size)
  where
    size = sizeOfSocketAddress address

-- The complete messages, each in its own memory, and the bytes behind them.
decoded :: ByteString -> IO ([Handed], ByteString)
decoded bytes
  | B.length bytes < 2 || B.length behind < size = return ([], bytes)
  | otherwise = do
    first <- decodedOne (B.take size behind)
    (others, rest) <- decoded (B.drop size behind)
    return (maybe others (: others) first, rest)
  where
    size = fromIntegral (word16At bytes)
    behind = B.drop 2 bytes

decodedOne :: ByteString -> IO (Maybe Handed)
decodedOne message
  | B.length message < 3 || B.index message 2 > fromIntegral (fromEnum (maxBound :: Ecn)) = return Nothing
  | otherwise = do
    (client, behindClient) <- decodedAddress (B.drop 3 message)
    (local, bytes) <- decodedAddress behindClient
    return
      ( (\peer -> Handed (Visited (word16At message)) (GsoBatch (Path peer local) ecn (B.length bytes) (B.copy bytes)))
          <$> client
      )
  where
    ecn = toEnum (fromIntegral (B.index message 2))

word16At :: ByteString -> Word16
word16At at = fromIntegral (B.index at 0) `shiftL` 8 .|. fromIntegral (B.index at 1)

-- Enough for any address.
addressSize :: Int
addressSize = 128

-- An address if there is one, and what follows.
decodedAddress :: ByteString -> IO (Maybe SockAddr, ByteString)
decodedAddress bytes = case B.uncons bytes of
  Just (size, behind)
    | size > 0 && fromIntegral size <= min addressSize (B.length behind) -> do
      address <- allocaBytes addressSize $ \at -> do
        BU.unsafeUseAsCStringLen behind $ \(start, _) -> copyBytes at (castPtr start) (fromIntegral size)
        peekSocketAddress at
      return (Just address, B.drop (fromIntegral size) behind)
    | otherwise -> return (Nothing, behind)
  Nothing -> return (Nothing, bytes)
