{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- One HTTP\/2 connection: its engine, its transport, the threads that work on it, and the moving of bytes. Must not know: sockets,
-- listeners, WAI.
--
-- Many threads may work on a connection: one has the role of receiving and of beginning requests (the driver), others run
-- applications. Any of them may send, one at a time: the engine gives the right to. A thread that waits for an event of a stream
-- is woken by whoever moves bytes and finds the notice.
module Millrace.Http.Http2.Connection
  ( Connection (..),
    newConnection,

    -- * Threads
    task,
    asTask,
    join',
    leave,
    killTasks,
    awaitQuiet,

    -- * Waiting
    waitFor,
    Waited (..),
    wakeNoticed,
    wakeNow,

    -- * Sending
    flush,
    flushIfNeeded,
    sendAndReceive,
    Arrival (..),

    -- * Wishes of other threads
    Wish (..),
    wish,
    readWish,
    connectionLimits,
  )
where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Primitive.ByteArray (MutableByteArray (..), newByteArray, writeByteArray)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import GHC.Exts (Int (..), fetchAddIntArray#)
import GHC.IO (IO (..))
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds, noDeadline)
import Millrace.Http.Delivery
import Millrace.Http.Exception (isAsynchronous, isTimeExpired)
import Millrace.Http.HandOver
import Millrace.Http.Http2.Engine
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Worker
import Millrace.Http.Threads (runHere)
import Millrace.Http.Transport hiding (hasEnded)
import Millrace.Http.Transport.Buffer
import Millrace.Timer (getSystemTimerManager, registerTimeout, threadDelay, unregisterTimeout)

-- | An open connection.
data Connection = Connection
  { connectionServer :: !ServerContext,
    connectionTransport :: !Transport,
    connectionEngine :: !(Ptr Engine),
    connectionRole :: !HandOver,
    -- | Threads that wait for events, by 'noticeKey'.
    connectionWaiters :: !(IORef (IntMap (MVar ()))),
    -- | Threads besides the connection's own, by number.
    connectionTasks :: !(IORef (IntMap Worker)),
    -- | Filled when nobody works on the connection any more.
    connectionQuiet :: !(MVar ()),
    connectionWish :: !(IORef Wish),
    -- | See the offsets below.
    connectionWords :: !(MutableByteArray RealWorld)
  }

-- | What another thread wants of the driver.
data Wish
  = -- | Nothing.
    GoOn
  | -- | Let no request begin, and end when those that are served are answered.
    EndSoon
  | -- | End now: nothing is served.
    EndNow
  deriving (Eq, Ord)

-- How many work on it; the number of the next task; the window of 'Delivery' (two words).
workersAt, nextTaskAt, windowAt, wordCount :: Int
workersAt = 0
nextTaskAt = 1
windowAt = 2
wordCount = 4

-- | A connection on an engine. The caller works on it.
newConnection :: ServerContext -> Transport -> Ptr Engine -> IO Connection
newConnection server transport engine = do
  words' <- newByteArray (8 * wordCount)
  forM_ [0 .. wordCount - 1] $ \index -> writeByteArray words' index (0 :: Int)
  writeByteArray words' workersAt (1 :: Int)
  Connection server transport engine
    <$> newHandOver (serverThreads server)
    <*> newIORef IntMap.empty
    <*> newIORef IntMap.empty
    <*> newEmptyMVar
    <*> newIORef GoOn
    <*> pure words'

connectionLimits :: Connection -> Limits
connectionLimits = serverLimits . connectionServer
{-# INLINE connectionLimits #-}

------------------------------------------------------------------------------------------------------------------------
-- Threads

-- Adds, and returns what there was before. A full barrier.
fetchAdd :: Connection -> Int -> Int -> IO Int
fetchAdd connection (I# index) (I# by) = case connectionWords connection of
  MutableByteArray array -> IO $ \s -> case fetchAddIntArray# array index by s of (# s', before #) -> (# s', I# before #)
{-# INLINE fetchAdd #-}

-- | One more works on the connection.
join' :: Connection -> IO ()
join' connection = void (fetchAdd connection workersAt 1)

-- | One less. The last one must not touch the connection afterwards.
leave :: Connection -> IO ()
leave connection = do
  before' <- fetchAdd connection workersAt (-1)
  when (before' == 1) (putMVar (connectionQuiet connection) ())

-- | Waits until nobody works on it. If an exception interrupts that, the tasks are killed and waited for all the same, and it is
-- thrown again.
awaitQuiet :: Connection -> IO ()
awaitQuiet connection =
  takeMVar (connectionQuiet connection) `catch` \failure -> do
    abort (connectionTransport connection)
    killTasks connection
    awaitQuiet connection
    throwIO (failure :: SomeException)

-- | Runs an action by a kept thread. It works on the connection and can be killed meanwhile. Gets how the action ended. To be
-- called masked.
task :: Connection -> IO () -> (Either SomeException () -> IO ()) -> IO ()
task connection action ended = do
  join' connection
  runHere (serverThreads (connectionServer connection)) (asJoined connection action ended)

-- | The same in this thread, which is a kept one.
asTask :: Connection -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asTask connection action ended = join' connection >> asJoined connection action ended

asJoined :: Connection -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asJoined connection action ended = do
  worker <- newWorker
  number <- fetchAdd connection nextTaskAt 1
  atomicModifyIORef' (connectionTasks connection) (\tasks -> (IntMap.insert number worker tasks, ()))
  outcome <- atWork worker (interruptible action)
  atomicModifyIORef' (connectionTasks connection) (\tasks -> (IntMap.delete number tasks, ()))
  void (try (ended outcome) :: IO (Either SomeException ()))
  leave connection

-- | Throws @ThreadKilled@ to all tasks.
killTasks :: Connection -> IO ()
killTasks connection = readIORef (connectionTasks connection) >>= mapM_ killWorker . IntMap.elems

------------------------------------------------------------------------------------------------------------------------
-- Waiting

-- | What came of waiting.
data Waited a = Came a | TookTooLong

-- | @waitFor connection key micros attempt@ repeats an attempt until it has a result. When it has none, the engine must give a
-- notice with this key. Sends what waits before it parks, for the event may depend on it. 0 microseconds: for ever.
waitFor :: Connection -> Int -> Int -> IO (Maybe a) -> IO (Waited a)
waitFor connection key micros attempt = do
  place <- newEmptyMVar
  bracket_ (register place) unregister (go place)
  where
    register place = atomicModifyIORef' (connectionWaiters connection) (\waiters -> (IntMap.insert key place waiters, ()))
    unregister = atomicModifyIORef' (connectionWaiters connection) (\waiters -> (IntMap.delete key waiters, ()))
    go place = attempt >>= maybe (flush connection >> park place) (return . Came)
    park place = do
      woken <- takeWithin micros place
      if woken then go place else attempt >>= maybe (return TookTooLong) (return . Came)

-- False if it took too long.
takeWithin :: Int -> MVar () -> IO Bool
takeWithin 0 place = True <$ takeMVar place
takeWithin micros place = do
  late <- newIORef False
  timers <- getSystemTimerManager
  bracket
    (registerTimeout timers micros (writeIORef late True >> void (tryPutMVar place ())))
    (unregisterTimeout timers)
    (const (takeMVar place))
  not <$> readIORef late

-- | Wakes those for whom there are notices.
wakeNoticed :: Connection -> Flags -> IO ()
wakeNoticed connection flags = when (hasNotices `has` flags) (wakeNow connection)

-- | The same after a call that has no flags.
wakeNow :: Connection -> IO ()
wakeNow connection = go
  where
    go = nextNotice (connectionEngine connection) >>= mapM_ (\key -> wake key >> go)
    wake key = readIORef (connectionWaiters connection) >>= mapM_ (`tryPutMVar` ()) . IntMap.lookup key

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | Sends what waits, unless another thread is about to. If the client does not take it soon, another thread goes on. If sending
-- fails, the connection is aborted: the driver finds that. Never throws an @IOError@.
--
-- Applications call it, and exceptions are thrown to them (a @timeout@ around a handler). None may interrupt it: nobody would know how
-- much of a frame has gone, and the connection of all other streams would be lost.
flush :: Connection -> IO ()
flush connection = mask_ $ do
  buffer <- borrow
  flags <- collect (connectionEngine connection) (borrowedBytes buffer) borrowedSize Newly
  wakeNoticed connection flags
  if isBusy `has` flags then giveBack buffer else sendHere buffer flags
  where
    sendHere buffer flags
      | byteCount flags == 0 = giveBack buffer
      | otherwise = sendQuickly connection buffer 0 (byteCount flags) >>= mapM_ (sendHere buffer)

-- | The same if nobody has promised to.
flushIfNeeded :: Connection -> IO ()
flushIfNeeded connection = do
  needed <- needsSender (connectionEngine connection)
  when needed $ do
    -- Others that are late, too, come along.
    yield
    flush connection

-- Sends bytes of a buffer, and all that follows. The caller has the right to send, and keeps the buffer. Masked.
sendOn :: Connection -> Borrowed -> Int -> Int -> IO ()
sendOn connection buffer = go
  where
    go from to
      | to == 0 = return ()
      | otherwise = do
        outcome <- try (deliver (deliveryOf connection) NothingFollows (Piece (borrowedBytes buffer `plusPtr` from) (to - from)))
        case outcome of
          Left failure -> do
            abort (connectionTransport connection)
            stopSending (connectionEngine connection)
            when (isAsynchronous failure) (throwIO (failure :: SomeException))
          Right () -> do
            flags <- collect (connectionEngine connection) (borrowedBytes buffer) borrowedSize Again
            wakeNoticed connection flags
            go 0 (byteCount flags)

deliveryOf :: Connection -> Delivery
deliveryOf connection =
  Delivery (connectionTransport connection) (serverPace (connectionServer connection)) (Window (connectionWords connection) windowAt) noDeadline

-- | What came of waiting for bytes.
data Arrival
  = -- | Some are in the engine.
    Arrived !Flags
  | EndOfInput
  | -- | All has been said: the engine neither sends nor receives any more.
    AllSaid
  | -- | Nothing came in time.
    Silent

-- | The driver's: sends what waits, and then waits for bytes, no longer than so many microseconds (0: for ever). A client that
-- does not take what is sent does not keep us from receiving: another thread goes on sending.
sendAndReceive :: Connection -> Int -> IO Arrival
sendAndReceive connection micros = mask_ $ do
  buffer <- borrow
  flags <- collect (connectionEngine connection) (borrowedBytes buffer) borrowedSize Driver
  wakeNoticed connection flags
  sendCollected connection micros buffer flags

sendCollected :: Connection -> Int -> Borrowed -> Flags -> IO Arrival
sendCollected connection micros buffer flags
  | count == 0 = do
    giveBack buffer
    if isOver `has` flags then return AllSaid else awaitRoom >> receive connection micros
  | hasEnded `has` flags && not (isOver `has` flags) =
    timed connection $
      sendThenReceive transport micros (Slice buffer 0 count) continue
  | otherwise = when (hasEnded `has` flags) (resumeSending engine) >> sendFrom 0
  where
    continue (Sent received) = feedReceived connection received
    continue (NotSent sent) = resumeSending engine >> sendFrom sent
    sendFrom sent = do
      more <- sendQuickly connection buffer sent count
      case more of
        Nothing -> receive connection micros
        Just next -> sendCollected connection micros buffer next
    count = byteCount flags
    engine = connectionEngine connection
    transport = connectionTransport connection
    awaitRoom = when (isBusy `has` flags) (awaitSender connection)

-- The client takes nothing and asks for more: it is not listened to until it takes something.
awaitSender :: Connection -> IO ()
awaitSender connection = do
  waiting <- backlog (connectionEngine connection)
  when (waiting > backlogMax) $ do
    threadDelay pauseMicros
    awaitSender connection
  where
    pauseMicros = 5000

-- Control frames that wait because the client takes nothing.
backlogMax :: Int
backlogMax = 1000

-- Sends bytes of a buffer, and says what is to be sent next. If the client does not take them soon, another thread goes on, and the
-- buffer is gone.
sendQuickly :: Connection -> Borrowed -> Int -> Int -> IO (Maybe Flags)
sendQuickly connection buffer from to = do
  outcome <- uninterruptibleMask_ (attemptSend (connectionTransport connection) NothingFollows (Within patienceMicros) (Piece (at `plusPtr` from) (to - from)))
  case outcome of
    Moved moved
      | from + moved == to -> do
        flags <- collect (connectionEngine connection) at borrowedSize Again
        wakeNoticed connection flags
        return (Just flags)
      | otherwise -> sendQuickly connection buffer (from + moved) to
    TimedOut -> Nothing <$ sendOrPass connection buffer from to
    Failed _ -> do
      giveBack buffer
      abort (connectionTransport connection)
      stopSending (connectionEngine connection)
      return Nothing
  where
    at :: Ptr Word8
    at = borrowedBytes buffer
    patienceMicros = 1000

-- Another thread sends the rest, and gives the buffer back.
sendOrPass :: Connection -> Borrowed -> Int -> Int -> IO ()
sendOrPass connection buffer from to =
  task connection (return ()) $ \_ -> sendOn connection buffer from to `finally` giveBack buffer

receive :: Connection -> Int -> IO Arrival
receive connection micros = timed connection (receiveFirst (connectionTransport connection) micros (feedReceived connection))

-- A wait that has ended because its time is over, or because another thread wants something.
timed :: Connection -> IO Arrival -> IO Arrival
timed connection action = do
  outcome <- tryJust timeExpired action
  case outcome of
    Right arrival -> return arrival
    Left () -> Silent <$ setReceiveDeadline (connectionTransport connection) noDeadline
  where
    timeExpired failure = if isTimeExpired failure then Just () else Nothing

-- Masked, for the buffer's sake.
feedReceived :: Connection -> Received -> IO Arrival
feedReceived _ EndOfStream = return EndOfInput
feedReceived connection (Received buffer count) = do
  now <- monotonicNanoseconds
  flags <- feed (connectionEngine connection) (borrowedBytes buffer) count now
  giveBack buffer
  wakeNoticed connection flags
  return (Arrived flags)

------------------------------------------------------------------------------------------------------------------------
-- Wishes

-- | Tells the driver what is wanted of it. May be called by any thread.
wish :: Connection -> Wish -> IO ()
wish connection wanted = do
  new <- atomicModifyIORef' (connectionWish connection) (\before' -> (max before' wanted, before' < wanted))
  when new (deadlineAfter 0 >>= setReceiveDeadline (connectionTransport connection))

-- | What is wanted.
readWish :: Connection -> IO Wish
readWish connection = readIORef (connectionWish connection)
