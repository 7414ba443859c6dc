-- Must not know: sockets, listeners, WAI.

-- |
-- One HTTP\/2 connection: its engine, its transport, the threads that work on it, and the moving of bytes.
--
-- Many threads may work on a connection: one has the role of receiving and of beginning requests (the driver), others
-- run applications. Any of them may send, one at a time: the engine gives the right to. A thread that waits for an
-- event of a stream is woken by the thread that moves bytes and finds the notice.
module Millrace.Http.Http2.Connection
  ( Connection (..),
    newConnection,

    -- * Threads
    task,
    asTask,
    join',
    leave,
    killTasks,
    reportEnd,
    noteFailure,
    tellLoss,
    reportLoss,
    awaitQuiet,

    -- * Waiting
    waitFor,
    waitForWith,
    Waited (..),
    wakeNoticed,
    wakeNow,

    -- * Sending
    flush,
    flushIfNeeded,
    sendAndReceive,
    Arrival (..),

    -- * Requests of other threads
    ShutdownRequest (..),
    requestShutdown,
    interruptDriver,
    shutdownRequest,
    connectionLimits,
  )
where

import Control.Concurrent (yield)
import Control.Exception
import Control.Monad (unless, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.IORef
import Data.Primitive.ByteArray (MutableByteArray, newByteArray, setByteArray)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds, noDeadline, seconds)
import Millrace.Http.Delivery
import Millrace.Http.Exception (defaultShouldDisplayException, isAsynchronous, isTimeExpired)
import Millrace.Http.Http2.Engine
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Threads (Crew, Waited (..), Waiters, newCrew, newWaiters, wake, wereKilled)
import qualified Millrace.Http.Threads as Threads
import Millrace.Http.Transport
import Millrace.Internal.AtomicWord (AtomicWord, newAtomicWord)

-- | An open connection.
data Connection = Connection
  { connectionServer :: !ServerContext,
    connectionTransport :: !Transport,
    connectionEngine :: !(Ptr Engine),
    -- | For "Millrace.Http.Threads.OnYield".
    connectionRole :: {-# UNPACK #-} !AtomicWord,
    -- | Threads that wait for events, by their keys ('Millrace.Http.Multiplexed.Engine.noticeKey').
    connectionWaiters :: !Waiters,
    -- | The threads that work on the connection.
    connectionCrew :: !Crew,
    connectionShutdown :: !(IORef ShutdownRequest),
    connectionLoss :: !(IORef Loss),
    -- | The two words of the window of 'Delivery'.
    connectionWindow :: !(MutableByteArray RealWorld)
  }

-- | A request of another thread to the driver: how the connection is to end.
data ShutdownRequest
  = -- | None was made.
    KeepServing
  | -- | Begin no more requests, and end when the present ones are answered.
    EndSoon
  | -- | End at once.
    EndNow
  deriving (Eq, Ord)

-- Whether the connection has failed, and whether that was reported.
data Loss
  = -- It works.
    Intact
  | -- Sending or receiving has failed. The exception, if there is one, is to be reported at the end.
    Unreported !(Maybe SomeException)
  | -- The application of a request got an exception because of that, which is reported with its request.
    Reported

-- | Makes a connection on an engine. The calling thread works on it.
newConnection :: ServerContext -> Transport -> Ptr Engine -> IO Connection
newConnection server transport engine = do
  window <- newByteArray (8 * windowWords)
  setByteArray window 0 windowWords (0 :: Int)
  Connection server transport engine
    <$> newAtomicWord
    <*> newWaiters
    <*> newCrew (serverThreads server)
    <*> newIORef KeepServing
    <*> newIORef Intact
    <*> pure window
  where
    windowWords = 2

connectionLimits :: Connection -> Limits
connectionLimits = serverLimits . connectionServer
{-# INLINE connectionLimits #-}

------------------------------------------------------------------------------------------------------------------------
-- Threads

-- | Counts a thread that begins to work on the connection, and one that has ended its work. The last one must not touch
-- the connection afterwards.
join', leave :: Connection -> IO ()
join' = Threads.join' . connectionCrew
leave = Threads.leave . connectionCrew

-- | Waits until no thread works on the connection: see 'Threads.awaitQuiet'.
awaitQuiet :: Connection -> IO ()
awaitQuiet connection = Threads.awaitQuiet (connectionCrew connection) (abort (connectionTransport connection))

-- | Runs an action in a thread of the pool, which works on the connection: see 'Threads.task'. Call this masked.
task :: Connection -> IO () -> (Either SomeException () -> IO ()) -> IO ()
task = Threads.task . connectionCrew

-- | Runs an action, as 'task' does, in this thread, which is one of the pool.
asTask :: Connection -> IO () -> (Either SomeException () -> IO ()) -> IO ()
asTask = Threads.asTask . connectionCrew

-- | Throws @ThreadKilled@ to all tasks.
killTasks :: Connection -> IO ()
killTasks = Threads.killTasks . connectionCrew

-- | Reports that an exception has ended a thread that works on the connection, unless all tasks were killed before:
-- that was reported, or was the server's doing.
reportEnd :: Connection -> SomeException -> IO ()
reportEnd connection failure = unlessKilled connection failure (reportTo (connectionServer connection) Nothing failure)

unlessKilled :: Connection -> SomeException -> IO () -> IO ()
unlessKilled connection failure action = do
  killed <- wereKilled (connectionCrew connection)
  byServer <- isKillOfServer (connectionServer connection) failure
  unless (killed || byServer) action

-- | Notes the exception that has ended the driver, to report it at the end ('reportLoss'). An exception that no client
-- causes is reported at once.
noteFailure :: Connection -> SomeException -> IO ()
noteFailure connection failure
  | defaultShouldDisplayException failure = reportEnd connection failure
  | otherwise = unlessKilled connection failure (changeLoss connection noted)
  where
    noted Reported = Reported
    noted _ = Unreported (Just failure)

-- | Notes that a request's thread throws an exception because its client is gone. If that is because the connection has
-- failed, it needs no further report: as over HTTP\/1, a client that leaves is reported once for each request that
-- it does not wait for.
tellLoss :: Connection -> IO ()
tellLoss connection = changeLoss connection reported
  where
    reported (Unreported _) = Reported
    reported loss = loss

changeLoss :: Connection -> (Loss -> Loss) -> IO ()
changeLoss connection change = atomicModifyIORef' (connectionLoss connection) (\loss -> (change loss, ()))

-- | Reports the failure of the connection, unless the application of a request got an exception for it. Call this when
-- no thread works on the connection any more.
reportLoss :: Connection -> IO ()
reportLoss connection = do
  loss <- readIORef (connectionLoss connection)
  case loss of
    Unreported (Just failure) -> reportTo (connectionServer connection) Nothing failure
    _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- Waiting

-- | @waitFor connection key micros attempt@ repeats an attempt until it has a result. An attempt without a result must
-- make the engine give a notice with this key later. Sends pending output before it parks, because the event may depend
-- on it. 'Nothing': no limit.
waitFor :: Connection -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitFor connection = waitForWith connection (flush connection)

-- | Waits as 'waitFor' does, with another action that runs before the thread parks.
waitForWith :: Connection -> IO () -> Int -> Maybe Int -> IO (Maybe a) -> IO (Waited a)
waitForWith = Threads.waitFor . connectionWaiters

-- | Wakes the threads for which the engine has notices.
wakeNoticed :: Connection -> Flags -> IO ()
wakeNoticed connection flags = when (hasNotices `has` flags) (wakeNow connection)

-- | Wakes the threads for which the engine has notices, after a call that returns no flags.
wakeNow :: Connection -> IO ()
wakeNow connection = go
  where
    go = nextNotice (connectionEngine connection) >>= mapM_ (\key -> wake (connectionWaiters connection) key >> go)

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- Memory for output. The large kind is the engine's.
data Buffer
  = Small !Borrowed
  | Large !(Ptr Word8)

-- Large if there is much to send: a system call costs as much as copying several kilobytes.
takeBuffer :: Connection -> IO Buffer
takeBuffer connection = do
  much <- hasMuch (connectionEngine connection)
  large <- if much then allocOutput else return nullPtr
  if large == nullPtr then Small <$> borrow else return (Large large)

freeBuffer :: Buffer -> IO ()
freeBuffer (Small buffer) = giveBack buffer
freeBuffer (Large memory) = freeOutput memory

bufferBytes :: Buffer -> Ptr Word8
bufferBytes (Small buffer) = borrowedBytes buffer
bufferBytes (Large memory) = memory

-- Collects output, and wakes the threads that have waited for it to be collected.
collectInto :: Connection -> Buffer -> Sender -> IO Flags
collectInto connection buffer sender = do
  flags <- case buffer of
    Small borrowed -> collect (connectionEngine connection) (borrowedBytes borrowed) borrowedSize sender
    Large memory -> collect (connectionEngine connection) memory collectMuch sender
  wakeNoticed connection flags
  return flags

-- | Sends pending output, unless another thread is about to. If the client does not take it soon, or if other streams
-- have more and more to send, another thread continues. If sending fails, aborts the connection, which the driver
-- notices. Never throws an @IOError@.
--
-- Applications call this, and asynchronous exceptions may be thrown to them (a @timeout@ around a handler). None may
-- interrupt a send: it would be unknown how much of a frame was sent, and the connection with all its other streams
-- would be lost.
flush :: Connection -> IO ()
flush connection = mask_ $ do
  buffer <- takeBuffer connection
  flags <- collectInto connection buffer Newly
  if isBusy `has` flags then freeBuffer buffer else sendHere buffer sendsAtATime flags
  where
    sendHere buffer left flags
      | outputCount flags == 0 = freeBuffer buffer
      | otherwise = sendQuickly connection buffer left 0 (outputCount flags) (sendHere buffer) (return ())

-- | Sends pending output if no other thread is about to.
flushIfNeeded :: Connection -> IO ()
flushIfNeeded connection = do
  needed <- needsSender (connectionEngine connection)
  when needed $ do
    -- Yield, so that output of other threads can go in the same system call.
    yield
    flush connection

-- Sends bytes of a buffer, and all output that follows. The caller has the right to send, and keeps the buffer. Masked.
sendOn :: Connection -> Buffer -> Int -> Int -> IO ()
sendOn connection buffer = go
  where
    go from to
      | to == 0 = return ()
      | otherwise = do
        outcome <-
          try (deliver (deliveryOf connection) NothingFollows (Piece (bufferBytes buffer `plusPtr` from) (to - from)))
        case outcome of
          Left failure -> do
            giveUpSending connection
            when (isAsynchronous failure) (throwIO (failure :: SomeException))
          Right () -> do
            flags <- collectInto connection buffer Again
            go 0 (outputCount flags)

-- Sending has failed.
giveUpSending :: Connection -> IO ()
giveUpSending connection = do
  changeLoss connection failed
  abort (connectionTransport connection)
  stopSending (connectionEngine connection)
  wakeNow connection
  where
    failed Intact = Unreported Nothing
    failed loss = loss

deliveryOf :: Connection -> Delivery
deliveryOf connection =
  Delivery
    (connectionTransport connection)
    (serverPace (connectionServer connection))
    (Window (connectionWindow connection) 0)
    noDeadline

-- | The result of waiting for bytes.
data Arrival
  = -- | The engine has got some.
    Arrived !Flags
  | EndOfInput
  | -- | The connection is complete: the engine neither sends nor receives any more.
    Finished
  | -- | No bytes came in time.
    NoInput

-- | For the driver: sends pending output, and then waits for bytes, at most this many microseconds (0: no limit), which
-- the action tells when the output is collected. A client that does not take output cannot keep the driver from
-- receiving, because another thread continues the send.
sendAndReceive :: Connection -> IO Int -> IO Arrival
sendAndReceive connection patience = mask_ $ do
  buffer <- takeBuffer connection
  flags <- collectInto connection buffer Driver
  sendCollected connection patience buffer sendsAtATime flags

sendCollected :: Connection -> IO Int -> Buffer -> SendsLeft -> Flags -> IO Arrival
sendCollected connection patience buffer left flags
  | count == 0 = do
    freeBuffer buffer
    if isOver `has` flags then return Finished else awaitRoom >> receive connection patience
  | Small borrowed <- buffer,
    hasEnded `has` flags && not (isOver `has` flags) = do
    micros <- patience
    timed connection $
      sendThenReceive transport micros (Slice borrowed 0 count) continue
  | otherwise = when (hasEnded `has` flags) (resumeSending engine) >> sendFrom 0
  where
    continue (Sent received) = feedReceived connection received
    continue (NotSent sent) = resumeSending engine >> sendFrom sent
    sendFrom sent =
      sendQuickly
        connection
        buffer
        left
        sent
        count
        (sendCollected connection patience buffer)
        (receive connection patience)
    count = outputCount flags
    engine = connectionEngine connection
    transport = connectionTransport connection
    awaitRoom = when (isBusy `has` flags) (awaitSender connection)

-- A client that takes no output but causes more: the driver does not receive from it until it takes some.
awaitSender :: Connection -> IO ()
awaitSender connection = do
  below <- isBelow
  unless below (void (waitFor connection backlogKey Nothing ((\few -> if few then Just () else Nothing) <$> isBelow)))
  where
    isBelow = isBacklogBelow (connectionEngine connection) backlogMax

-- The number of control frames that may wait for a client that takes nothing.
backlogMax :: Int
backlogMax = 1000

-- How many more times a thread that has other work sends before another thread continues.
newtype SendsLeft = SendsLeft Int

-- A stream whose client takes everything at once may always have more. Its bytes are not to be sent for ever by a
-- thread that only flushes another stream, or that must receive. What this thread has flushed is among the first bytes,
-- or will be sent by the next thread.
sendsAtATime :: SendsLeft
sendsAtATime = SendsLeft 8

-- Sends bytes of a buffer, and continues with what is to be sent next. If the client does not take them soon, or this
-- thread has sent often enough, another thread sends them and owns the buffer; after that, and after a failure,
-- @instead@ runs.
sendQuickly :: Connection -> Buffer -> SendsLeft -> Int -> Int -> (SendsLeft -> Flags -> IO a) -> IO a -> IO a
sendQuickly connection buffer (SendsLeft left) from to continue instead
  | left <= 0 = handOver
  | otherwise = do
    outcome <-
      uninterruptibleMask_
        ( attemptSend
            (connectionTransport connection)
            NothingFollows
            (Within patienceMicros)
            (Piece (at `plusPtr` from) (to - from))
        )
    case outcome of
      Moved moved
        | from + moved == to -> collectInto connection buffer Again >>= continue next
        | otherwise -> sendQuickly connection buffer next (from + moved) to continue instead
      TimedOut -> handOver
      Failed _ -> do
        freeBuffer buffer
        giveUpSending connection
        instead
  where
    at = bufferBytes buffer
    next = SendsLeft (left - 1)
    patienceMicros = 1000
    handOver = passOn connection buffer from to >> instead

-- Another thread sends the rest, and returns the buffer.
passOn :: Connection -> Buffer -> Int -> Int -> IO ()
passOn connection buffer from to =
  task connection (return ()) $ \_ -> sendOn connection buffer from to `finally` freeBuffer buffer

receive :: Connection -> IO Int -> IO Arrival
receive connection patience =
  patience >>= \micros ->
    timed connection (receiveFirst (connectionTransport connection) micros (feedReceived connection))

-- The wait ended because its time is over, or because another thread has interrupted it.
timed :: Connection -> IO Arrival -> IO Arrival
timed connection action = do
  outcome <- tryJust timeExpired action
  case outcome of
    Right arrival -> return arrival
    Left () -> NoInput <$ setReceiveDeadline (connectionTransport connection) noDeadline
  where
    timeExpired failure = if isTimeExpired failure then Just () else Nothing

-- Masked, so that the buffer is not lost.
feedReceived :: Connection -> Received -> IO Arrival
feedReceived _ EndOfStream = return EndOfInput
feedReceived connection (Received buffer count) = do
  now <- monotonicNanoseconds
  flags <- feed (connectionEngine connection) (borrowedBytes buffer) count now
  giveBack buffer
  wakeNoticed connection flags
  return (Arrived flags)

------------------------------------------------------------------------------------------------------------------------
-- Requests of other threads

-- | Passes a request to the driver. Any thread may call this.
requestShutdown :: Connection -> ShutdownRequest -> IO ()
requestShutdown connection wanted = do
  new <- atomicModifyIORef' (connectionShutdown connection) (\before' -> (max before' wanted, before' < wanted))
  when new (interruptDriver connection)

-- | Makes the driver look at what is due, if it waits for bytes. Any thread may call this.
interruptDriver :: Connection -> IO ()
interruptDriver connection = deadlineAfter (seconds 0) >>= setReceiveDeadline (connectionTransport connection)

-- | The latest request, or 'KeepServing'.
shutdownRequest :: Connection -> IO ShutdownRequest
shutdownRequest connection = readIORef (connectionShutdown connection)
