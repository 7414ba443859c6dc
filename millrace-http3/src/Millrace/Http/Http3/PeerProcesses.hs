-- |
-- Other processes that have the same port (SO_REUSEPORT), as in a restart. The system gives a datagram to any of them,
-- so each hands on what is
-- another one's. Must not know: WAI.
--
-- Each process takes a place among them: an abstract Unix socket whose name has the address, the port and the place,
-- which only one can have. Its connection IDs name the place ("Millrace.Http.Http3.ConnectionIdRouting"). Others
-- connect to the socket and write datagrams to it. Only processes of the same user are listened to, and written to; the
-- system lets only those share the port anyway.
module Millrace.Http.Http3.PeerProcesses
  ( Neighbours,
    openNeighbours,
    closeNeighbours,
    neighboursProcess,

    -- * Handing on
    Handed (..),
    Visited,
    nobodyVisited,
    Delivery (..),
    handTo,
    handToAny,

    -- * Receiving
    acceptNeighbour,
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
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds)
import Millrace.Http.Http3.ConnectionIdRouting
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAllBefore)
import Millrace.Socket.Train (Mark, Path (..), Train (..))
import Millrace.Socket.Unix (abstractName, credentialsUser, peerCredentials)
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)

-- | The place of this process, and what it knows of others.
data Neighbours = Neighbours
  { neighboursAddress :: !SockAddr,
    -- | This process.
    neighboursPlace :: !Int,
    neighboursListener :: !Socket,
    neighboursLinks :: !(MVar (IntMap Link))
  }

-- | This process.
neighboursProcess :: Neighbours -> Process
neighboursProcess = Placed . neighboursPlace

-- What is known of another process.
data Link
  = -- | Nobody has the place, as was seen at this time.
    Absent !Word64
  | Present !Outbox

-- Datagrams that wait to be written, the last one first.
data Outbox = Outbox
  { outboxWaiting :: !(IORef (Waiting [ByteString])),
    outboxFilled :: !(MVar ()),
    outboxSocket :: !Socket,
    outboxThreads :: !(MVar [ThreadId])
  }

-- With their number.
data Waiting a = Waiting !Int !a

-- | Takes a place beside the processes that listen at this address. Nothing if that is not possible.
openNeighbours :: SockAddr -> IO (Maybe Neighbours)
openNeighbours address = go 0
  where
    go place
      | place == processesMax = return Nothing
      | otherwise = do
        taken <-
          try
            ( bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \opened ->
                bind opened (nameOf address place) >> listen opened 64 >> return opened
            )
        case taken of
          Left failure -> let _ = failure :: IOException in go (place + 1)
          Right listener -> Just . Neighbours address place listener <$> newMVar IntMap.empty

-- | Leaves the place. 'acceptNeighbour' throws from now on.
closeNeighbours :: Neighbours -> IO ()
closeNeighbours neighbours = do
  close (neighboursListener neighbours)
  links <- swapMVar (neighboursLinks neighbours) IntMap.empty
  mapM_ endLink links
  where
    endLink link = case link of
      Present outbox -> endOutbox outbox
      Absent _ -> return ()

nameOf :: SockAddr -> Int -> SockAddr
nameOf address place = abstractName ("millrace-http3/" ++ show address ++ "/" ++ show place)

------------------------------------------------------------------------------------------------------------------------
-- Handing on

-- | Datagrams, and which processes have already refused them. Only single ones are handed on.
data Handed = Handed
  { handedVisited :: !Visited,
    handedTrain :: !Train
  }

-- | Processes that take no new clients.
newtype Visited = Visited Word16

-- | None of them.
nobodyVisited :: Visited
nobodyVisited = Visited 0

-- | What has become of a datagram.
data Delivery
  = -- | It is on its way, or is lost because the other process is slow or because it is too long.
    Delivered
  | Nobody
  deriving (Eq)

-- | Hands a datagram to another process. Does not wait.
handTo :: Neighbours -> Process -> Handed -> IO Delivery
handTo neighbours process handed = case process of
  Placed place | place /= neighboursPlace neighbours -> handToPlace neighbours place handed
  _ -> return Nobody

handToPlace :: Neighbours -> Int -> Handed -> IO Delivery
handToPlace neighbours place handed =
  linkTo neighbours place >>= maybe (return Nobody) (\outbox -> Delivered <$ (encoded handed >>= mapM_ (put outbox)))

-- | Hands the first datagram of a client, which this process does not take, to one that may.
handToAny :: Neighbours -> Handed -> IO Delivery
handToAny neighbours (Handed (Visited before) train) =
  go [place | place <- [0 .. processesMax - 1], not (testBit visited place)]
  where
    visited = setBit before (neighboursPlace neighbours)
    go [] = return Nobody
    go (place : others) = do
      delivery <- handToPlace neighbours place (Handed (Visited visited) train)
      if delivery == Delivered then return Delivered else go others

-- Connects if necessary.
linkTo :: Neighbours -> Int -> IO (Maybe Outbox)
linkTo neighbours place = modifyMVarMasked (neighboursLinks neighbours) $ \links -> do
  now <- monotonicNanoseconds
  case IntMap.lookup place links of
    Just (Present outbox) -> return (links, Just outbox)
    Just (Absent since) | now < since + absentNanoseconds -> return (links, Nothing)
    _ -> do
      connected <- connectTo neighbours place
      case connected of
        Nothing -> return (IntMap.insert place (Absent now) links, Nothing)
        Just opened -> do
          outbox <- openOutbox opened (forget opened)
          return (IntMap.insert place (Present outbox) links, Just outbox)
  where
    absentNanoseconds = 100000000
    forget opened =
      modifyMVarMasked_ (neighboursLinks neighbours) $ \links -> return $ case IntMap.lookup place links of
        Just (Present outbox) | outboxSocket outbox == opened -> IntMap.delete place links
        _ -> links

connectTo :: Neighbours -> Int -> IO (Maybe Socket)
connectTo neighbours place = do
  outcome <- try . bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \opened -> do
    deadline <- deadlineAfter 100000
    connectBefore deadline opened (nameOf (neighboursAddress neighbours) place)
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
  outbox <- Outbox <$> newIORef (Waiting 0 []) <*> newEmptyMVar <*> pure opened <*> newEmptyMVar
  writer <- forkIO (write outbox `catch` over outbox)
  watcher <- forkIO ((recv opened 1 >> forget >> endOutbox outbox) `catch` over outbox)
  putMVar (outboxThreads outbox) [writer, watcher]
  return outbox
  where
    write outbox = forever $ do
      takeMVar (outboxFilled outbox)
      Waiting _ waiting <- atomicModifyIORef' (outboxWaiting outbox) takeAll
      deadline <- deadlineAfter 1000000
      sendAllBefore deadline opened (B.concat (reverse waiting))
    takeAll waiting = (Waiting 0 [], waiting)
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
  atomicModifyIORef' (outboxWaiting outbox) $ \waiting@(Waiting count others) ->
    if count >= waitingMax then (waiting, ()) else (Waiting (count + 1) (bytes : others), ())
  void (tryPutMVar (outboxFilled outbox) ())
  where
    waitingMax = 2048

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Waits for another process of this user.
acceptNeighbour :: Neighbours -> IO Socket
acceptNeighbour neighbours = do
  accepted <- mask $ \restore -> do
    (opened, _) <- restore (accept (neighboursListener neighbours))
    isOwn <- isOfThisUser opened `onException` close opened
    if isOwn then return (Just opened) else Nothing <$ close opened
  maybe (acceptNeighbour neighbours) return accepted

-- | Gives the action what another process hands on, many at a time, until that one ends.
receiveHanded :: Socket -> ([Handed] -> IO ()) -> IO ()
receiveHanded from use = go B.empty
  where
    go before = do
      bytes <- recv from 65536
      unless (B.null bytes) $ do
        (handed, rest) <- decoded (before <> bytes)
        unless (null handed) (use handed)
        go rest

-- Two bytes for the length of what follows; two for those who were visited; one for the mark; the client's address;
-- this machine's, or nothing; the datagram. An address has one byte for its length. 'Nothing': the largest datagrams of
-- UDP have no room beside the addresses. Nobody sends such a one for QUIC, and a length that was cut would make its
-- bytes the next messages.
encoded :: Handed -> IO (Maybe ByteString)
encoded (Handed (Visited visited) (Train (Path client local) mark _ bytes)) = do
  addresses <- (<>) <$> encodedAddress client <*> maybe (return (B.singleton 0)) encodedAddress local
  let size = 3 + B.length addresses + B.length bytes
      beginning = B.pack (two (fromIntegral size) ++ two visited ++ [fromIntegral (fromEnum mark)])
  return (if size > fromIntegral (maxBound :: Word16) then Nothing else Just (B.concat [beginning, addresses, bytes]))
  where
    two :: Word16 -> [Word8]
    two number = [fromIntegral (number `shiftR` 8), fromIntegral number]

encodedAddress :: SockAddr -> IO ByteString
encodedAddress address = allocaBytes addressRoom $ \place -> do
  pokeSocketAddress place address
  B.cons (fromIntegral size) <$> B.packCStringLen (castPtr place, size)
  where
    size = sizeOfSocketAddress address

-- The whole ones, each in memory of its own, and the rest.
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
  | B.length message < 3 || B.index message 2 > fromIntegral (fromEnum (maxBound :: Mark)) = return Nothing
  | otherwise = do
    (client, behindClient) <- decodedAddress (B.drop 3 message)
    (local, bytes) <- decodedAddress behindClient
    return
      ( (\peer -> Handed (Visited (word16At message)) (Train (Path peer local) mark (B.length bytes) (B.copy bytes)))
          <$> client
      )
  where
    mark = toEnum (fromIntegral (B.index message 2))

word16At :: ByteString -> Word16
word16At at = fromIntegral (B.index at 0) `shiftL` 8 .|. fromIntegral (B.index at 1)

-- Enough for any address.
addressRoom :: Int
addressRoom = 128

-- An address if there is one, and what follows.
decodedAddress :: ByteString -> IO (Maybe SockAddr, ByteString)
decodedAddress bytes = case B.uncons bytes of
  Just (size, behind)
    | size > 0 && fromIntegral size <= min addressRoom (B.length behind) -> do
      address <- allocaBytes addressRoom $ \place -> do
        BU.unsafeUseAsCStringLen behind $ \(start, _) -> copyBytes place (castPtr start) (fromIntegral size)
        peekSocketAddress place
      return (Just address, B.drop (fromIntegral size) behind)
    | otherwise -> return (Nothing, behind)
  Nothing -> return (Nothing, bytes)
