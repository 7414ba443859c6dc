{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- |
-- A transport whose bytes never leave the program's memory: two queues, with a client at the other end. For tests of
-- what
-- stands above a transport.
--
-- It behaves like a TCP connection as far as a server can tell: each direction ends by itself, what was sent before an
-- end still arrives, a queue that is full makes the sender wait, and a transfer may move fewer bytes than there are.
module Millrace.Http.Transport.Memory
  ( -- * Making one
    Conditions (..),
    goodConditions,
    newMemoryTransport,

    -- * The client
    Client,
    clientSend,
    clientReceive,
    clientEnd,
    clientClose,
  )
where

import Control.Concurrent.STM hiding (registerDelay)
import Control.Exception (mask_, throwIO)
import Control.Monad (join, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Unsafe as BU
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno, eCONNRESET, ePIPE, eTIMEDOUT, errnoToIOError)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline (deadlineNanoseconds, monotonicNanoseconds, noDeadline)
import Millrace.Http.Transport
import Millrace.Timer (registerDelay)

-- | How much a connection can carry.
data Conditions = Conditions
  { -- | Bytes that can be on their way in each direction.
    conditionsCapacity :: !Int,
    -- | Most bytes that one transfer of the server's moves.
    conditionsTransferMax :: !Int,
    -- | Runs before each of the server's sends, in the thread that sends.
    conditionsBeforeSend :: !(IO ()),
    -- | Runs when the time of one of the server's receives is over, in the thread that has waited, before that thread
    -- knows it.
    conditionsAfterWait :: !(IO ())
  }

-- | Roomy queues, and no short transfers.
goodConditions :: Conditions
goodConditions =
  Conditions
    { conditionsCapacity =
        262144,
      conditionsTransferMax = maxBound,
      conditionsBeforeSend = return (),
      conditionsAfterWait = return ()
    }

-- One direction.
data Queue = Queue
  { queueBytes :: !(TVar ByteString),
    -- The sender has ended it. What is in it still arrives.
    queueIsEnded :: !(TVar Bool),
    -- The receiver is gone.
    queueIsRefused :: !(TVar Bool)
  }

newQueue :: IO Queue
newQueue = Queue <$> newTVarIO B.empty <*> newTVarIO False <*> newTVarIO False

-- The state that both sides share. The receive limit says when the server's receives must end, whatever their own
-- limit.
data MemoryLink = MemoryLink
  { linkConditions :: !Conditions,
    linkToServer :: !Queue,
    linkToClient :: !Queue,
    linkReceiveLimit :: !(TVar (STM Bool)),
    linkMoved :: !(TVar Word64)
  }

-- | The other end of the connection.
newtype Client = Client MemoryLink

-- | A connection of a client with this address.
newMemoryTransport :: Conditions -> SockAddr -> IO (Transport, Client)
newMemoryTransport conditions peer = do
  link <-
    MemoryLink conditions <$> newQueue
      <*> newQueue
      <*> newTVarIO (return False)
      <*> (monotonicNanoseconds >>= newTVarIO)
  return (otherTransport (functionsOf link) peer, Client link)

functionsOf :: MemoryLink -> Functions
functionsOf link =
  Functions
    { functionsName = "<memory>",
      functionsNegotiated = Nothing,
      functionsReceiveFirst =
        \micros continue ->
          limitOf (if micros == 0 then Before noDeadline else Within micros) >>= receiveFirstFrom link >>= continue,
      functionsReceiveInto = \deadline target size -> limitOf (Before deadline) >>= receiveIntoFrom link target size,
      functionsSetReceiveDeadline =
        \deadline -> limitOf (Before deadline) >>= atomically . writeTVar (linkReceiveLimit link),
      functionsHasArrived = atomically (isReadable incoming),
      functionsPresence = (\ended -> if ended then EndedSending else Present) <$> atomically (hasEndedEmpty incoming),
      functionsAwaitInput = atomically (isReadable incoming >>= check),
      functionsQuietMillis = quietSince link,
      functionsSend =
        \_ limit piece -> conditionsBeforeSend (linkConditions link) >> limitOf limit >>= sendTo link piece,
      functionsSendFile = Nothing,
      functionsSendThenReceive = Nothing,
      functionsQueuedBytes = B.length <$> readTVarIO (queueBytes outgoing),
      functionsEndSending = atomically (endQueue outgoing),
      functionsEndReceiving = atomically (endQueue incoming),
      functionsAbort = atomically (endQueue incoming >> endQueue outgoing),
      functionsClose = atomically (writeTVar (queueIsRefused incoming) True >> endQueue incoming >> endQueue outgoing)
    }
  where
    incoming = linkToServer link
    outgoing = linkToClient link

------------------------------------------------------------------------------------------------------------------------
-- Limits

-- Has the limit passed?
limitOf :: TimeLimit -> IO (STM Bool)
limitOf limit = case limit of
  Within 0 -> return (return False)
  Within micros -> readTVar <$> registerDelay micros
  Before deadline
    | deadline == noDeadline -> return (return False)
    | otherwise -> do
      now <- monotonicNanoseconds
      let left = if deadlineNanoseconds deadline > now then deadlineNanoseconds deadline - now else 0
      if left == 0 then return (return True) else readTVar <$> registerDelay (fromIntegral (left `quot` 1000) + 1)

failing :: String -> Errno -> IO a
failing attempted errno = throwIO (errnoToIOError attempted errno Nothing (Just "<memory>"))

------------------------------------------------------------------------------------------------------------------------
-- Queues

endQueue :: Queue -> STM ()
endQueue queue = writeTVar (queueIsEnded queue) True

isReadable :: Queue -> STM Bool
isReadable queue = (||) <$> (not . B.null <$> readTVar (queueBytes queue)) <*> readTVar (queueIsEnded queue)

hasEndedEmpty :: Queue -> STM Bool
hasEndedEmpty queue = (&&) <$> (B.null <$> readTVar (queueBytes queue)) <*> readTVar (queueIsEnded queue)

-- Waits for bytes and takes at most this many; none at the end.
takeFrom :: Queue -> Int -> STM ByteString
takeFrom queue most = do
  isReadable queue >>= check
  (taken, left) <- B.splitAt most <$> readTVar (queueBytes queue)
  writeTVar (queueBytes queue) left
  return taken

-- Waits for space and appends what fits. Nothing if nobody will ever receive it.
appendTo :: MemoryLink -> Queue -> ByteString -> STM (Maybe Int)
appendTo link queue bytes = do
  over <- (||) <$> readTVar (queueIsEnded queue) <*> readTVar (queueIsRefused queue)
  held <- readTVar (queueBytes queue)
  let space = conditionsCapacity (linkConditions link) - B.length held
      fitting = B.take space bytes
  if over
    then return Nothing
    else do
      check (space > 0)
      writeTVar (queueBytes queue) (held <> fitting)
      return (Just (B.length fitting))

------------------------------------------------------------------------------------------------------------------------
-- The server's side

noteMoved :: MemoryLink -> IO ()
noteMoved link = monotonicNanoseconds >>= atomically . writeTVar (linkMoved link)

quietSince :: MemoryLink -> IO (Maybe Int)
quietSince link = do
  moved <- readTVarIO (linkMoved link)
  now <- monotonicNanoseconds
  return (Just (fromIntegral ((now - moved) `quot` 1000000)))

-- Bytes that are there are taken whatever the limit is. To be run masked: what was taken must arrive.
receiveFrom :: MemoryLink -> Int -> STM Bool -> IO ByteString
receiveFrom link size isLate = do
  received <- atomically ((Just <$> takeFrom (linkToServer link) most) `orElse` (Nothing <$ late))
  noteMoved link
  maybe (conditionsAfterWait (linkConditions link) >> failing "receiving" eTIMEDOUT) return received
  where
    most = min size (conditionsTransferMax (linkConditions link))
    late = ((||) <$> isLate <*> join (readTVar (linkReceiveLimit link))) >>= check

receiveFirstFrom :: MemoryLink -> STM Bool -> IO Received
receiveFirstFrom link isLate = do
  bytes <- receiveFrom link borrowedSize isLate
  if B.null bytes
    then return EndOfStream
    else do
      buffer <- borrow
      copyTo (borrowedBytes buffer) bytes
      return (Received buffer (B.length bytes))

receiveIntoFrom :: MemoryLink -> Ptr Word8 -> Int -> STM Bool -> IO Int
receiveIntoFrom link target size isLate = mask_ $ do
  bytes <- receiveFrom link size isLate
  copyTo target bytes
  return (B.length bytes)

copyTo :: Ptr Word8 -> ByteString -> IO ()
copyTo target bytes = BU.unsafeUseAsCStringLen bytes $ \(source, count) -> copyBytes target (castPtr source) count

sendTo :: MemoryLink -> Piece -> STM Bool -> IO Attempt
sendTo link (Piece bytes count) isLate = do
  copied <- B.packCStringLen (castPtr bytes, min count (conditionsTransferMax (linkConditions link)))
  outcome <-
    atomically
      ( (maybe (Failed ePIPE) Moved <$> appendTo link (linkToClient link) copied)
          `orElse` (TimedOut <$ (isLate >>= check))
      )
  noteMoved link
  return outcome

------------------------------------------------------------------------------------------------------------------------
-- The client's side

-- | Sends all bytes; waits for space. Throws an @IOError@ if the server is gone.
clientSend :: Client -> ByteString -> IO ()
clientSend client@(Client link) bytes = unless (B.null bytes) $ do
  sent <- atomically $ do
    refused <- readTVar (queueIsRefused (linkToServer link))
    ended <- readTVar (queueIsEnded (linkToServer link))
    -- Until the server has closed the connection, what it does not want to receive any more is taken all the same.
    if not refused && ended then return (Just (B.length bytes)) else appendTo link (linkToServer link) bytes
  maybe (failing "sending" eCONNRESET) (clientSend client . (`B.drop` bytes)) sent

-- | At most this many bytes; none at the end.
clientReceive :: Client -> Int -> IO ByteString
clientReceive (Client link) = atomically . takeFrom (linkToClient link)

-- | Sends nothing any more, and still receives.
clientEnd :: Client -> IO ()
clientEnd (Client link) = atomically (endQueue (linkToServer link))

-- | Neither sends nor receives any more.
clientClose :: Client -> IO ()
clientClose (Client link) = void . atomically $ do
  writeTVar (queueIsRefused (linkToClient link)) True
  endQueue (linkToServer link)
