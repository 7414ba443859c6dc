-- Must not know: WAI.

-- |
-- One UDP socket with all its connections: the engine, the threads that work on it, and the moving of datagrams.
--
-- Many threads may work on an endpoint: one has the role of receiving and of beginning requests (the driver), one looks
-- after what is due at a time (the clock), others run applications. Any of them may send, one at a time: the engine
-- gives the right to.
module Millrace.Http.Http3.Endpoint
  ( Endpoint (..),
    newEndpoint,
    freeEndpoint,
    endpointLimits,
    localityOf,

    -- * Others
    Others (..),
    Company (..),

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
import Control.Monad (forM_, unless, void, when, zipWithM)
import Data.IORef
import Data.Int (Int32)
import Data.Maybe (fromMaybe)
import Data.Word (Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes, free, mallocBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Exception (isAsynchronous)
import Millrace.Http.Http3.Engine
import Millrace.Http.Http3.PeerProcesses (Delivery (..), Handed (..), noneVisited)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Threads (Crew, Waited, Waiters, newCrew, newWaiters, takeWithin, wake, wereKilled)
import qualified Millrace.Http.Threads as Threads
import Millrace.Internal.AtomicWord (AtomicWord, newAtomicWord)
import Millrace.Socket (SockAddr (..), Socket, getSocketName)
import Millrace.Socket.Gso (GsoBatch (..), Path (..), gsoDatagrams, receiveGsoBatches, sendGsoBatches)
import Network.Socket.Address (pokeSocketAddress, sizeOfSocketAddress)

-- | A socket and its connections.
data Endpoint = Endpoint
  { endpointServer :: !ServerContext,
    endpointSocket :: !Socket,
    endpointEngine :: !(Ptr Engine),
    -- | For "Millrace.Http.Threads.OnYield".
    endpointRole :: {-# UNPACK #-} !AtomicWord,
    -- | Threads that wait for events, by their keys ('Millrace.Http.Multiplexed.Engine.noticeKey').
    endpointWaiters :: !Waiters,
    -- | The threads that work on the endpoint.
    endpointCrew :: !Crew,
    -- | Full when the clock is to look again.
    endpointAlarm :: !(MVar ()),
    -- | The time for which the clock is set, in nanoseconds.
    endpointClock :: !(IORef Word64),
    -- | Memory for threads that send, which none uses now.
    endpointSpare :: !(IORef [Buffer]),
    -- | The address that the socket is bound to.
    endpointName :: !SockAddr,
    -- | Memory of the driver for two addresses.
    endpointAddresses :: !(Ptr ()),
    -- | Other endpoints of the same port, if there can be any.
    endpointOthers :: !(Maybe Others)
  }

-- | The other endpoints of a port.
data Others = Others
  { -- | The number with which this endpoint's connection IDs begin.
    othersOwn :: !Int32,
    othersCompany :: !Company,
    -- | Hands a datagram to the endpoint with this number, if that is another one. -1: no endpoint is named.
    othersHand :: !(Int32 -> Handed -> IO Delivery),
    -- | Hands the first datagram of a client to an endpoint that takes it, because this one ends.
    othersHandFirst :: !(Handed -> IO ())
  }

-- | Where the others are.
data Company
  = -- | In this process, and they end together.
    OnlyEndpoints
  | -- | Also in other processes.
    AlsoProcesses

-- Memory for output: descriptions of GSO batches, and behind them the bytes.
newtype Buffer = Buffer (Ptr Word8)

-- The size of the memory for the bytes, and the most batches in it.
outputSize, batchesMax :: Int
outputSize = max collectMin 131072
batchesMax = 64

batchesOf :: Buffer -> Ptr ()
batchesOf (Buffer memory) = castPtr memory

bytesOf :: Buffer -> Ptr Word8
bytesOf (Buffer memory) = memory `plusPtr` (batchesMax * batchSize)

-- Enough for any address.
addressSize :: Int
addressSize = 128

-- | Whether datagrams must say from which address they are sent.
endpointLocality :: Endpoint -> Locality
endpointLocality = localityOf . endpointName

-- | Whether datagrams of a socket that is bound to this address must say so.
localityOf :: SockAddr -> Locality
localityOf name = case name of
  SockAddrInet _ 0 -> AllAddresses
  SockAddrInet6 _ _ (0, 0, 0, 0) _ -> AllAddresses
  _ -> OneAddress

-- | Makes an endpoint on a bound socket. The calling thread works on it. Call it masked; 'freeEndpoint' must follow.
newEndpoint :: ServerContext -> Socket -> Maybe Others -> Ptr Engine -> IO Endpoint
newEndpoint server socket others engine = do
  name <- getSocketName socket
  Endpoint server socket engine
    <$> newAtomicWord
    <*> newWaiters
    <*> newCrew (serverThreads server)
    <*> newEmptyMVar
    <*> newIORef 0
    <*> newIORef []
    <*> pure name
    <*> mallocBytes (2 * addressSize)
    <*> pure others

-- | Frees it. Its engine must be closed, and no thread may work on it any more.
freeEndpoint :: Endpoint -> IO ()
freeEndpoint endpoint = do
  freeEngine (endpointEngine endpoint)
  readIORef (endpointSpare endpoint) >>= mapM_ (\(Buffer memory) -> free memory)
  free (endpointAddresses endpoint)

endpointLimits :: Endpoint -> Limits
endpointLimits = serverLimits . endpointServer
{-# INLINE endpointLimits #-}

------------------------------------------------------------------------------------------------------------------------
-- Threads

-- | Counts a thread that begins to work on the endpoint, and one that has ended its work. The last one must not touch
-- the endpoint afterwards.
join', leave :: Endpoint -> IO ()
join' = Threads.join' . endpointCrew
leave = Threads.leave . endpointCrew

-- | Runs an action in a thread of the pool, which works on the endpoint: see 'Threads.task'. Call this masked.
task :: Endpoint -> IO () -> (Either SomeException () -> IO ()) -> IO ()
task = Threads.task . endpointCrew

-- | Runs an action, as 'task' does, in this thread, which is one of the pool.
asTask :: Endpoint -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asTask = Threads.asTask . endpointCrew

-- | Reports that an exception has ended a thread that works on the endpoint, unless all were killed before.
reportEnd :: Endpoint -> SomeException -> IO ()
reportEnd endpoint failure = do
  killed <- wereKilled (endpointCrew endpoint)
  byServer <- isKillOfServer (endpointServer endpoint) failure
  unless (killed || byServer) (reportTo (endpointServer endpoint) Nothing failure)

------------------------------------------------------------------------------------------------------------------------
-- Waiting

-- | Waits for an event: see 'Threads.waitFor'.
waitFor :: Endpoint -> IO () -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitFor = Threads.waitFor . endpointWaiters

-- | Wakes the threads for which the engine has notices.
wakeNoticed :: Endpoint -> Flags -> IO ()
wakeNoticed endpoint flags = when (hasNotices `has` flags) (wakeNow endpoint)

-- | Wakes the threads for which the engine has notices, after a call that returns no flags.
wakeNow :: Endpoint -> IO ()
wakeNow endpoint =
  nextNotice (endpointEngine endpoint) >>= mapM_ (\key -> wake (endpointWaiters endpoint) key >> wakeNow endpoint)

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | Sends pending output, unless another thread is about to. If there is more and more of it, another thread continues.
-- Throws only asynchronous exceptions.
flush :: Endpoint -> IO ()
flush endpoint = flushAs endpoint Newly

-- | Sends pending output, for a thread that has given the engine datagrams, or has called 'handleExpiry': others rely
-- on it to send.
flushReceived :: Endpoint -> IO ()
flushReceived endpoint = flushAs endpoint Driver

flushAs :: Endpoint -> Sender -> IO ()
flushAs endpoint sender = mask_ $ do
  buffer <- takeBuffer endpoint
  sendCollected endpoint buffer (SendsLeft sendsAtATime) sender
  setClock endpoint

-- Threads send one after another, but one may still send what it has collected while the next one collects.
takeBuffer :: Endpoint -> IO Buffer
takeBuffer endpoint =
  atomicModifyIORef' (endpointSpare endpoint) unpile
    >>= maybe (Buffer <$> mallocBytes (batchesMax * batchSize + outputSize)) return
  where
    unpile (first : others) = (others, Just first)
    unpile [] = ([], Nothing)

giveBuffer :: Endpoint -> Buffer -> IO ()
giveBuffer endpoint buffer = atomicModifyIORef' (endpointSpare endpoint) (\others -> (buffer : others, ()))

-- | Sends pending output if no other thread is about to.
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
  flags <- collect engine (batchesOf buffer, batchesMax) (bytesOf buffer, outputSize) now sender
  wakeNoticed endpoint flags
  let ends = isBusy `has` flags || hasEnded `has` flags
  unless (isBusy `has` flags) $
    sendAll endpoint buffer (outputCount flags)
      `onException` (unless ends (stopSending engine) >> giveBuffer endpoint buffer)
  if ends
    then giveBuffer endpoint buffer
    else
      if left > 0
        then sendCollected endpoint buffer (SendsLeft (left - 1)) Again
        else -- The right, and the memory, are the other thread's.

          task
            endpoint
            (return ())
            (const (sendCollected endpoint buffer (SendsLeft maxBound) Again >> setClock endpoint))
  where
    engine = endpointEngine endpoint

-- A datagram that cannot be sent is lost, as others are in the network.
sendAll :: Endpoint -> Buffer -> Int -> IO ()
sendAll endpoint buffer count = do
  batches <-
    mapM
      ( peekBatch (endpointLocality endpoint) (bytesOf buffer)
          . (\index -> batchesOf buffer `plusPtr` (index * batchSize))
      )
      [0 .. count - 1]
  void (sendGsoBatches (endpointSocket endpoint) batches) `catch` isLost
  where
    isLost failure = when (isAsynchronous failure) (throwIO (failure :: SomeException))

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Waits for datagrams, and gives them to the engine, or hands them to those that they are for. Throws an @IOError@ if
-- the socket is closed.
receive :: Endpoint -> IO Flags
receive endpoint = do
  batches <- receiveGsoBatches (endpointSocket endpoint) batchesAtATime
  now <- monotonicNanoseconds
  flags <- mconcat <$> mapM (maybe giveBatch routeBatch (endpointOthers endpoint) now) batches
  flags <$ wakeNoticed endpoint flags
  where
    giveBatch now batch = give endpoint (endpointAddresses endpoint) now (Handed noneVisited batch)
    -- Each datagram may be another one's.
    routeBatch others now batch = do
      let datagrams = gsoDatagrams batch
      numbers <- mapM endpointIdOf datagrams
      if all (== othersOwn others) numbers
        then giveBatch now batch
        else mconcat <$> zipWithM (route others now batch) numbers datagrams
    route others now batch number bytes = do
      let one = batch {gsoBytes = bytes}
      delivery <- othersHand others number (Handed noneVisited one)
      if delivery == Delivered then return mempty else giveBatch now one

-- | Gives the engine what another endpoint has handed on. The caller must send afterwards.
receiveFrom :: Endpoint -> [Handed] -> IO Flags
receiveFrom endpoint handed = allocaBytes (2 * addressSize) $ \addresses -> do
  now <- monotonicNanoseconds
  flags <- mconcat <$> mapM (give endpoint addresses now) handed
  flags <$ wakeNoticed endpoint flags

-- Gives the engine datagrams, with memory for their addresses. If the engine takes no new clients any more, another one
-- may.
give :: Endpoint -> Ptr () -> Word64 -> Handed -> IO Flags
give endpoint addresses now handed = do
  pokeSocketAddress localAt local
  pokeSocketAddress addresses remote
  flags <-
    receiveBatch
      (endpointEngine endpoint)
      (localAt, sizeOfSocketAddress local)
      (addresses, sizeOfSocketAddress remote)
      batch
      now
  when (isForeign `has` flags) $
    forM_ (endpointOthers endpoint) $ \others ->
      forM_ (gsoDatagrams batch) $ \bytes -> othersHandFirst others handed {handedBatch = batch {gsoBytes = bytes}}
  return flags
  where
    localAt = addresses `plusPtr` addressSize
    batch = handedBatch handed
    Path remote reported = gsoPath batch
    -- A datagram that was received for an interrupted thread does not say it.
    local = fromMaybe (endpointName endpoint) reported

-- The most batches that are received at a time.
batchesAtATime :: Int
batchesAtATime = 32

------------------------------------------------------------------------------------------------------------------------
-- Time

-- Makes the clock look again if something is due before the time for which it is set.
setClock :: Endpoint -> IO ()
setClock endpoint = do
  due <- expiry (endpointEngine endpoint)
  set <- readIORef (endpointClock endpoint)
  when (due < set) (void (tryPutMVar (endpointAlarm endpoint) ()))

-- | @runClock endpoint attend check@ does what is due, and calls @attend@ with the flags of that. While there are
-- connections, it calls @check@ every second. Does not return.
runClock :: Endpoint -> (Flags -> IO ()) -> IO () -> IO a
runClock endpoint attend check = monotonicNanoseconds >>= go . (+ checkNanoseconds)
  where
    engine = endpointEngine endpoint
    go nextTimeoutAt = do
      now <- monotonicNanoseconds
      due <- expiry engine
      count <- connectionCount engine
      if due <= now
        then do
          flags <- handleExpiry engine now
          wakeNoticed endpoint flags
          flushReceived endpoint
          attend flags
          go nextTimeoutAt
        else
          if nextTimeoutAt <= now
            then when (count > 0) check >> go (now + checkNanoseconds)
            else waitUntil now (if count == 0 then due else min due nextTimeoutAt) >> go nextTimeoutAt
    -- In between no call must be lost that makes the time earlier, so the time is looked at again after it was set.
    waitUntil now time = do
      writeIORef (endpointClock endpoint) time
      changed <- (< time) <$> expiry engine
      unless changed $
        if time == maxBound
          then takeMVar (endpointAlarm endpoint)
          else void (takeWithin (Just (1 + fromIntegral ((time - now) `quot` 1000))) (endpointAlarm endpoint))
      writeIORef (endpointClock endpoint) 0
    checkNanoseconds = 1000000000
