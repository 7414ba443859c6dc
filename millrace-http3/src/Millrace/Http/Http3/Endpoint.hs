-- |
-- One UDP socket with all its connections: the engine, the threads that work on it, and the moving of datagrams. Must not know: WAI.
--
-- Many threads may work on an endpoint: one has the role of receiving and of beginning requests (the driver), one looks after what is
-- due at a time (the clock), others run applications. Any of them may send, one at a time: the engine gives the right to.
module Millrace.Http.Http3.Endpoint
  ( Endpoint (..),
    newEndpoint,
    freeEndpoint,
    endpointLimits,

    -- * Threads
    task,
    asTask,
    join',
    leave,
    reportEnd,

    -- * Waiting
    waitFor,
    wakeNoticed,
    wakeNow,

    -- * Sending and receiving
    flush,
    flushIfNeeded,
    flushReceived,
    receive,
    receiveFrom,

    -- * Time
    runClock,
  )
where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Unsafe as BU
import Data.IORef
import Data.Word (Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes, free, mallocBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Crew (Crew, newCrew, wereKilled)
import qualified Millrace.Http.Crew as Crew
import Millrace.Http.Exception (isAsynchronous)
import Millrace.Http.HandOver
import Millrace.Http.Http3.Engine
import Millrace.Http.Http3.Neighbours
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Waiters (Waited, Waiters, newWaiters, takeWithin, wake)
import qualified Millrace.Http.Waiters as Waiters
import Millrace.Socket (Socket, getSocketName)
import Millrace.Socket.Batch (receiveBatch, sendSegments)
import Network.Socket (SockAddr)
import Network.Socket.Address (pokeSocketAddress, sizeOfSocketAddress)

-- | A socket and its connections.
data Endpoint = Endpoint
  { endpointServer :: !ServerContext,
    endpointSocket :: !Socket,
    endpointEngine :: !(Ptr Engine),
    endpointRole :: !HandOver,
    -- | Threads that wait for events, by 'noticeKey'.
    endpointWaiters :: !Waiters,
    -- | The threads that work on the endpoint.
    endpointCrew :: !Crew,
    -- | Full when the clock is to look again.
    endpointAlarm :: !(MVar ()),
    -- | The time for which the clock is set, in nanoseconds.
    endpointClock :: !(IORef Word64),
    -- | Memory for threads that send, which none uses now.
    endpointSpare :: !(IORef [Buffer]),
    -- | Memory for the driver: the socket's own address and its size, and room for a client's.
    endpointLocal :: !(Ptr ()),
    endpointLocalSize :: !Int,
    endpointRemote :: !(Ptr ()),
    -- | Other processes with the same port, if there can be any.
    endpointNeighbours :: !(Maybe Neighbours)
  }

-- Memory for output: descriptions of trains, and behind them the bytes.
newtype Buffer = Buffer (Ptr Word8)

-- The size of the memory for the bytes, and the most trains in it.
outputSize, trainsMax :: Int
outputSize = max collectMin 131072
trainsMax = 64

trainsOf :: Buffer -> Ptr ()
trainsOf (Buffer memory) = castPtr memory

bytesOf :: Buffer -> Ptr Word8
bytesOf (Buffer memory) = memory `plusPtr` (trainsMax * trainSize)

-- Enough for any address.
addressSize :: Int
addressSize = 128

-- | Makes an endpoint on a bound socket. The calling thread works on it. Call it masked; 'freeEndpoint' must follow.
newEndpoint :: ServerContext -> Socket -> Maybe Neighbours -> Ptr Engine -> IO Endpoint
newEndpoint server socket neighbours engine = do
  name <- getSocketName socket
  local <- mallocBytes addressSize
  pokeSocketAddress local name
  Endpoint server socket engine
    <$> newHandOver (serverThreads server)
    <*> newWaiters
    <*> newCrew (serverThreads server)
    <*> newEmptyMVar
    <*> newIORef 0
    <*> newIORef []
    <*> pure local
    <*> pure (sizeOfSocketAddress name)
    <*> mallocBytes addressSize
    <*> pure neighbours

-- | Frees it. Its engine must be closed, and no thread may work on it any more.
freeEndpoint :: Endpoint -> IO ()
freeEndpoint endpoint = do
  freeEngine (endpointEngine endpoint)
  readIORef (endpointSpare endpoint) >>= mapM_ (\(Buffer memory) -> free memory)
  free (endpointLocal endpoint)
  free (endpointRemote endpoint)

endpointLimits :: Endpoint -> Limits
endpointLimits = serverLimits . endpointServer
{-# INLINE endpointLimits #-}

------------------------------------------------------------------------------------------------------------------------
-- Threads

-- | Counts a thread that begins to work on the endpoint, and one that has ended its work. The last one must not touch the endpoint
-- afterwards.
join', leave :: Endpoint -> IO ()
join' = Crew.join' . endpointCrew
leave = Crew.leave . endpointCrew

-- | Runs an action in a thread of the pool, which works on the endpoint: see 'Crew.task'. Call this masked.
task :: Endpoint -> IO () -> (Either SomeException () -> IO ()) -> IO ()
task = Crew.task . endpointCrew

-- | The same in this thread, which is one of the pool.
asTask :: Endpoint -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asTask = Crew.asTask . endpointCrew

-- | Reports that an exception has ended a thread that works on the endpoint, unless all were killed before.
reportEnd :: Endpoint -> SomeException -> IO ()
reportEnd endpoint failure = do
  killed <- wereKilled (endpointCrew endpoint)
  byServer <- isKillOfServer (endpointServer endpoint) failure
  unless (killed || byServer) (reportTo (endpointServer endpoint) Nothing failure)

------------------------------------------------------------------------------------------------------------------------
-- Waiting

-- | Waits for an event: see 'Waiters.waitFor'. Sends pending output before it parks, because the event may depend on it.
waitFor :: Endpoint -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitFor endpoint = Waiters.waitFor (endpointWaiters endpoint) (flush endpoint)

-- | Wakes the threads for which the engine has notices.
wakeNoticed :: Endpoint -> Flags -> IO ()
wakeNoticed endpoint flags = when (hasNotices `has` flags) (wakeNow endpoint)

-- | The same after a call of the engine that returns no flags.
wakeNow :: Endpoint -> IO ()
wakeNow endpoint = nextNotice (endpointEngine endpoint) >>= mapM_ (\key -> wake (endpointWaiters endpoint) key >> wakeNow endpoint)

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | Sends pending output, unless another thread is about to. If there is more and more of it, another thread continues. Throws only
-- asynchronous exceptions.
flush :: Endpoint -> IO ()
flush endpoint = flushAs endpoint Newly

-- | The same for a thread that has given the engine datagrams, or has let it do what was due: others rely on it to send.
flushReceived :: Endpoint -> IO ()
flushReceived endpoint = flushAs endpoint Driver

flushAs :: Endpoint -> Sender -> IO ()
flushAs endpoint sender = mask_ $ do
  buffer <- takeBuffer endpoint
  sendCollected endpoint buffer (SendsLeft sendsAtATime) sender
  setClock endpoint

-- Threads send one after another, but one may still send what it has collected while the next one collects.
takeBuffer :: Endpoint -> IO Buffer
takeBuffer endpoint = atomicModifyIORef' (endpointSpare endpoint) unpile >>= maybe (Buffer <$> mallocBytes (trainsMax * trainSize + outputSize)) return
  where
    unpile (first : others) = (others, Just first)
    unpile [] = ([], Nothing)

giveBuffer :: Endpoint -> Buffer -> IO ()
giveBuffer endpoint buffer = atomicModifyIORef' (endpointSpare endpoint) (\others -> (buffer : others, ()))

-- | The same if no other thread is about to.
flushIfNeeded :: Endpoint -> IO ()
flushIfNeeded endpoint = do
  needed <- needsSender (endpointEngine endpoint)
  when needed $ do
    -- Yield, so that output of other threads can go in the same system call.
    yield
    flush endpoint

-- How many more times a thread that has other work sends before another thread continues.
newtype SendsLeft = SendsLeft Int

sendsAtATime :: Int
sendsAtATime = 8

-- Collects and sends, until the engine has nothing more for this thread, and gives the memory back. Masked.
sendCollected :: Endpoint -> Buffer -> SendsLeft -> Sender -> IO ()
sendCollected endpoint buffer (SendsLeft left) sender = do
  now <- monotonicNanoseconds
  flags <- collect engine (trainsOf buffer, trainsMax) (bytesOf buffer, outputSize) now sender
  wakeNoticed endpoint flags
  let ends = isBusy `has` flags || hasEnded `has` flags
  unless (isBusy `has` flags) $
    forM_ [0 .. trainCount flags - 1] (\index -> peekTrain (trainsOf buffer `plusPtr` (index * trainSize)) >>= sendTrain endpoint buffer)
      `onException` (unless ends (stopSending engine) >> giveBuffer endpoint buffer)
  if ends
    then giveBuffer endpoint buffer
    else
      if left > 0
        then sendCollected endpoint buffer (SendsLeft (left - 1)) Again
        else -- The right, and the memory, are the other thread's.
          task endpoint (return ()) (const (sendCollected endpoint buffer (SendsLeft maxBound) Again >> setClock endpoint))
  where
    engine = endpointEngine endpoint

-- A datagram that cannot be sent is lost, as others are in the network.
sendTrain :: Endpoint -> Buffer -> Train -> IO ()
sendTrain endpoint buffer (Train offset size segment client) = do
  bytes <- BU.unsafePackCStringLen (castPtr (bytesOf buffer) `plusPtr` offset, size)
  sendSegments (endpointSocket endpoint) (if segment == 0 then size else segment) bytes client `catch` isLost
  where
    isLost failure = when (isAsynchronous failure) (throwIO (failure :: SomeException))

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Waits for datagrams, and gives them to the engine, or to the process that they are for. Throws an @IOError@ if the socket is closed.
receive :: Endpoint -> IO Flags
receive endpoint = do
  datagrams <- receiveBatch (endpointSocket endpoint) batchMax datagramMax
  now <- monotonicNanoseconds
  flags <- mconcat <$> mapM (uncurry (route now)) datagrams
  flags <$ wakeNoticed endpoint flags
  where
    route :: Word64 -> ByteString -> SockAddr -> IO Flags
    route now bytes client = do
      delivery <- maybe (return Nobody) (`handToOwner` handed) (endpointNeighbours endpoint)
      if delivery == Delivered then return mempty else give endpoint (endpointRemote endpoint) now handed
      where
        handed = Handed nobodyVisited client bytes
    handToOwner :: Neighbours -> Handed -> IO Delivery
    handToOwner others handed = do
      number <- ownerOf (handedBytes handed)
      maybe (return Nobody) (\owner -> handTo others owner handed) (otherOwner others number)

-- | Gives the engine what another process has handed on. The caller must send afterwards.
receiveFrom :: Endpoint -> [Handed] -> IO Flags
receiveFrom endpoint handed = allocaBytes addressSize $ \remote -> do
  now <- monotonicNanoseconds
  flags <- mconcat <$> mapM (give endpoint remote now) handed
  flags <$ wakeNoticed endpoint flags

-- Gives the engine a datagram, with memory for its sender's address. If the engine takes no new clients any more, another process may.
give :: Endpoint -> Ptr () -> Word64 -> Handed -> IO Flags
give endpoint remote now handed = do
  pokeSocketAddress remote client
  flags <- receiveDatagram (endpointEngine endpoint) (endpointLocal endpoint, endpointLocalSize endpoint) (remote, sizeOfSocketAddress client) (handedBytes handed) now
  when (isForeign `has` flags) (mapM_ (`handToAny` handed) (endpointNeighbours endpoint))
  return flags
  where
    client = handedClient handed

-- The most datagrams that are received at a time, and the largest one in bytes. No network that clients come from has larger ones, and a
-- client that tries learns by the loss (RFC 8899).
batchMax, datagramMax :: Int
batchMax = 32
datagramMax = 2048

------------------------------------------------------------------------------------------------------------------------
-- Time

-- Makes the clock look again if something is due before the time for which it is set.
setClock :: Endpoint -> IO ()
setClock endpoint = do
  due <- expiry (endpointEngine endpoint)
  set <- readIORef (endpointClock endpoint)
  when (due < set) (void (tryPutMVar (endpointAlarm endpoint) ()))

-- | @runClock endpoint attend order@ does what is due, and tells @attend@ the flags of that. While there are connections, it calls @order@
-- every second. Does not return.
runClock :: Endpoint -> (Flags -> IO ()) -> IO () -> IO a
runClock endpoint attend order = monotonicNanoseconds >>= go . (+ orderNanoseconds)
  where
    engine = endpointEngine endpoint
    go orderDue = do
      now <- monotonicNanoseconds
      due <- expiry engine
      count <- connectionCount engine
      if due <= now
        then do
          flags <- handleExpiry engine now
          wakeNoticed endpoint flags
          flushReceived endpoint
          attend flags
          go orderDue
        else
          if orderDue <= now
            then when (count > 0) order >> go (now + orderNanoseconds)
            else waitUntil now (if count == 0 then due else min due orderDue) >> go orderDue
    -- In between no call must be lost that makes the time earlier, so the time is looked at again after it was set.
    waitUntil now time = do
      writeIORef (endpointClock endpoint) time
      changed <- (< time) <$> expiry engine
      unless changed $
        if time == maxBound
          then takeMVar (endpointAlarm endpoint)
          else void (takeWithin (Just (1 + fromIntegral ((time - now) `quot` 1000))) (endpointAlarm endpoint))
      writeIORef (endpointClock endpoint) 0
    orderNanoseconds = 1000000000
