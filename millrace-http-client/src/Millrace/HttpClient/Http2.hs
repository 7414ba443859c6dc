{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets.

-- | Connections of HTTP\/2 from a client's side, for programs that pass messages on piece by piece, such as proxies.
-- Many exchanges share a connection.
--
-- * A response arrives only as it is read: each exchange has a window ('windowBytes'), and does not hold up others.
-- * A request is kept only as far as the server takes it: 'sendBody' waits.
-- * Trailers are passed both ways, and interim responses are received one by one.
-- * The server's limit of exchanges is kept ('Full'), and its GOAWAY ('Leaving').
-- * A server that sends nothing while there is work gets a PING, and the connection ends if it does not answer.
--
-- The connection's bytes go through a 'Transport': a socket, TLS after ALPN has chosen @h2@, or memory.
module Millrace.HttpClient.Http2
  ( -- * Connections
    Connection,
    Transport (..),
    Settings (..),
    defaultSettings,
    openConnection,
    closeConnection,
    leaveConnection,
    isUsable,
    takesConnect,
    sameConnection,
    exchangeCount,
    idleSince,

    -- * Exchanges
    Exchange,
    BeginResult (..),
    Part (..),
    Secrecy (..),
    beginExchange,
    endExchange,
    resetExchange,

    -- ** Requests
    sendBody,
    endBody,

    -- ** Responses
    Head (..),
    receiveHead,
    receiveBody,
    Arrived (..),
    arrivedBody,
    receivedTrailers,

    -- * Problems
    Http2Problem (..),
    describeHttp2Problem,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (forkOnWithUnmask, killThread, myThreadId, threadCapability)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe, isNothing)
import Data.Word (Word32, Word64)
import GHC.IO.Exception (IOErrorType (TimeExpired), IOException (..))
import Millrace.Deadline
import Millrace.Http.Multiplexed.Engine (noticeKey)
import Millrace.Http.Multiplexed.Rows (Event (..))
import Millrace.HttpClient.Http2.Engine
import Millrace.Timer (getSystemTimerManager, registerTimeout, sleep, unregisterTimeout)

-- | The bytes of a connection.
data Transport = Transport
  { -- | Receives until the deadline, at most the given number of bytes. Empty at the end.
    transportReceive :: !(Deadline -> Int -> IO ByteString),
    -- | Sends all until the deadline.
    transportSend :: !(Deadline -> ByteString -> IO ()),
    -- | Ends the connection for every thread that waits for it.
    transportInterrupt :: !(IO ()),
    -- | Closes it. Called once, when no thread uses it.
    transportClose :: !(IO ())
  }

-- | The limits of a connection. Begin with 'defaultSettings'.
data Settings = Settings
  { -- | Bytes of a response that may arrive before they are read.
    windowBytes :: !Int,
    -- | Bytes of all responses that may be on their way.
    connectionWindowBytes :: !Int,
    -- | Bytes of a response's head, or of trailers: names and values, and 32 for each field.
    headBytesMax :: !Int,
    -- | Bytes of a request that are held until the server takes them.
    unsentBytesMax :: !Int,
    -- | For each part of a request to be taken by the system.
    sendLimit :: !Duration,
    -- | After this silence, while there is work, PING is sent; after as much more the connection ends.
    pingAfter :: !Duration
  }

-- | 128 KiB for each response and 1 MiB for all of them, 64 KiB of a head and of an unsent request, a minute to send,
-- and PING after 15 seconds.
defaultSettings :: Settings
defaultSettings =
  Settings
    { windowBytes = 131072,
      connectionWindowBytes = 1048576,
      headBytesMax = 65536,
      unsentBytesMax = 65536,
      sendLimit = minutes 1,
      pingAfter = seconds 15
    }

-- | Why an exchange has failed.
data Http2Problem
  = -- | The server has not worked on the request. It can be sent again on another connection.
    RequestRefused
  | -- | The server has reset the stream, with this error code (RFC 9113, section 7).
    ResponseReset !Word32
  | -- | The response is malformed: a field, a length, or an end that is not allowed.
    ResponseMalformed
  | -- | The head or the trailers are longer than the limit, or there are too many interim responses.
    HeadTooLong
  | -- | The connection is over, and why.
    ConnectionEnded !String
  | -- | The server does not speak HTTP\/2.
    NotHttp2
  deriving (Eq, Show)

instance Exception Http2Problem where
  displayException = describeHttp2Problem

-- | One line for a log.
--
-- >>> describeHttp2Problem NotHttp2
-- "the server does not speak HTTP/2"
describeHttp2Problem :: Http2Problem -> String
describeHttp2Problem problem = case problem of
  RequestRefused -> "the server has refused the request unseen"
  ResponseReset code -> "the server has reset the stream, with the error code " <> show code
  ResponseMalformed -> "the response breaks the rules of HTTP/2"
  HeadTooLong -> "the head is too long"
  ConnectionEnded reason -> reason
  NotHttp2 -> "the server does not speak HTTP/2"

-- What wakes the threads that wait for a stream: its reader and its writer.
data StreamWaiters = StreamWaiters !(MVar ()) !(MVar ())

-- | A connection.
data Connection = Connection
  { connectionEngine :: !Engine,
    connectionTransport :: !Transport,
    -- What wakes a thread that waits for a notice, by the notice's key.
    connectionWaiting :: !(IORef (IntMap (MVar ()))),
    -- A writer continues when at most this many bytes are unsent.
    connectionOutputLow :: !Int,
    -- Wakes the thread that sends.
    connectionWriter :: !(MVar ()),
    -- Filled when the state has changed.
    connectionChanged :: !(MVar ()),
    -- The number of times that bytes were received.
    connectionReceived :: !(IORef Word64),
    connectionReason :: !(IORef (Maybe String)),
    -- When the last exchange ended, on the clock of deadlines.
    connectionIdle :: !(IORef Word64),
    connectionClosed :: !(MVar ())
  }

-- | Opens a connection over a transport, which is the connection's from now on, also if this fails. Waits for the
-- server's settings until the deadline. Throws 'Http2Problem', what the transport throws, and the deadline's @IOError@.
openConnection :: Deadline -> Settings -> Transport -> IO Connection
openConnection deadline settings transport = mask $ \restore -> do
  made <-
    openEngine
      ( EngineSettings
          (windowBytes settings)
          (connectionWindowBytes settings)
          (headBytesMax settings)
          100
          (unsentBytesMax settings)
      )
  case made of
    Nothing -> transportClose transport >> throwIO (ConnectionEnded "there is no memory for it")
    Just engine -> do
      connection <- newConnection settings transport engine
      startThreads settings connection
      wakeSender connection
      restore (awaitReady deadline connection) `onException` closeConnection connection
      return connection

newConnection :: Settings -> Transport -> Engine -> IO Connection
newConnection settings transport engine = do
  changed <- newEmptyMVar
  waiting <- newIORef (IntMap.singleton stateKey changed)
  writer <- newEmptyMVar
  received <- newIORef 0
  reason <- newIORef Nothing
  idle <- monotonicNanoseconds >>= newIORef
  closed <- newEmptyMVar
  return
    Connection
      { connectionEngine = engine,
        connectionTransport = transport,
        connectionWaiting = waiting,
        connectionOutputLow = unsentBytesMax settings `quot` 2,
        connectionWriter = writer,
        connectionChanged = changed,
        connectionReceived = received,
        connectionReason = reason,
        connectionIdle = idle,
        connectionClosed = closed
      }

awaitReady :: Deadline -> Connection -> IO ()
awaitReady deadline connection = do
  state <- engineState (connectionEngine connection)
  unless (isReady state && not (isOver state)) $
    if isOver state
      then failedFirst state
      else waitUntil deadline (connectionChanged connection) >> awaitReady deadline connection
  where
    failedFirst state
      | hasFailed state && not (isReady state) = throwIO NotHttp2
      | otherwise = endedReason connection >>= throwIO . ConnectionEnded

endedReason :: Connection -> IO String
endedReason connection = fromMaybe "the server closed the connection" <$> readIORef (connectionReason connection)

-- The thread that receives ends the others, and closes the transport.
startThreads :: Settings -> Connection -> IO ()
startThreads settings connection = do
  (capability, _) <- myThreadId >>= threadCapability
  writing <- forkOnWithUnmask capability (\unmask -> unmask (writeAll settings connection) `catch` gaveUp)
  keeping <- forkOnWithUnmask capability (\unmask -> unmask (sendPings settings connection) `catch` gaveUp)
  void $
    forkOnWithUnmask capability $ \unmask -> do
      unmask (readAll connection) `catch` gaveUp
      closeEngine (connectionEngine connection)
      distribute connection
      killThread keeping
      killThread writing
      transportClose (connectionTransport connection) `catch` ignored
      putMVar (connectionClosed connection) ()
  where
    gaveUp failure = noteReason connection (reasonOf failure) >> interrupt connection

ignored :: SomeException -> IO ()
ignored _ = return ()

reasonOf :: SomeException -> String
reasonOf failure@(SomeException inner) = case fromException failure of
  Just network -> ioe_description network
  Nothing -> takeWhile (/= '\n') (displayException inner)

-- The first reason counts.
noteReason :: Connection -> String -> IO ()
noteReason connection reason = atomicModifyIORef' (connectionReason connection) (\known -> (known <|> Just reason, ()))

interrupt :: Connection -> IO ()
interrupt connection = transportInterrupt (connectionTransport connection) `catch` ignored

readAll :: Connection -> IO ()
readAll connection = do
  bytes <- transportReceive (connectionTransport connection) noDeadline 65536
  if ByteString.null bytes
    then noteReason connection "the server closed the connection"
    else do
      feed (connectionEngine connection) bytes
      modifyIORef' (connectionReceived connection) (+ 1)
      over <- isOver <$> engineState (connectionEngine connection)
      when over (noteReason connection "the server broke the rules of HTTP/2, or said goodbye")
      distribute connection
      wakeSender connection
      unless over (readAll connection)

writeAll :: Settings -> Connection -> IO ()
writeAll settings connection = do
  takeMVar (connectionWriter connection)
  burst
  -- After this side's GOAWAY and the last exchange, the server may wait for this side to close.
  over <- isOver <$> engineState (connectionEngine connection)
  if over
    then noteReason connection "this side ended the connection" >> interrupt connection
    else writeAll settings connection
  where
    burst = do
      bytes <- collect (connectionEngine connection)
      distribute connection
      unless (ByteString.null bytes) $ do
        deadline <- deadlineAfter (sendLimit settings)
        transportSend (connectionTransport connection) deadline bytes
        burst

-- Looks once in every 'pingAfter' whether bytes have come.
sendPings :: Settings -> Connection -> IO ()
sendPings settings connection = go Nothing
  where
    go asked = do
      before <- readIORef (connectionReceived connection)
      sleep (pingAfter settings)
      now <- readIORef (connectionReceived connection)
      count <- exchangeCount connection
      if now /= before || count == 0
        then go Nothing
        else case asked of
          Just () -> throwIO (ConnectionEnded "the server does not answer PING")
          Nothing -> sendPing (connectionEngine connection) >> wakeSender connection >> go (Just ())

-- Wakes the thread that sends, if there is something to send. The engine says so once, so nothing may come between that
-- and the waking.
wakeSender :: Connection -> IO ()
wakeSender connection = mask_ $ do
  needed <- needsSender (connectionEngine connection)
  when needed (void (tryPutMVar (connectionWriter connection) ()))

-- Wakes threads that wait. Each notice is given once, too.
distribute :: Connection -> IO ()
distribute connection =
  mask_ (nextNotice (connectionEngine connection) >>= mapM_ (\key -> wake key >> distribute connection))
  where
    wake key = readIORef (connectionWaiting connection) >>= mapM_ (`tryPutMVar` ()) . IntMap.lookup key

-- | Ends the connection and all its exchanges, and waits until it is closed. May be called more than once.
closeConnection :: Connection -> IO ()
closeConnection connection = do
  noteReason connection "this side closed the connection"
  interrupt connection
  closeEngine (connectionEngine connection)
  distribute connection
  readMVar (connectionClosed connection)

-- | Takes no further exchanges, and tells the server. Those that are open go on; the server closes the connection after
-- the last one. Does not block.
leaveConnection :: Connection -> IO ()
leaveConnection connection = announceEnd (connectionEngine connection) >> wakeSender connection

-- | Whether further exchanges may begin. Does not block.
isUsable :: Connection -> IO Bool
isUsable connection = (\state -> not (isLeaving state || isOver state)) <$> engineState (connectionEngine connection)

-- | Whether the server takes extended CONNECT (RFC 8441).
takesConnect :: Connection -> IO Bool
takesConnect connection = canConnect <$> engineState (connectionEngine connection)

-- | Whether these are the same connection.
sameConnection :: Connection -> Connection -> Bool
sameConnection one other = connectionClosed one == connectionClosed other

-- | The number of open exchanges. Does not block.
exchangeCount :: Connection -> IO Int
exchangeCount connection = streamCount (connectionEngine connection)

-- | When the last exchange ended, on the clock of deadlines.
idleSince :: Connection -> IO Word64
idleSince connection = readIORef (connectionIdle connection)

------------------------------------------------------------------------------------------------------------------------
-- Exchanges

-- | A request and its response.
data Exchange = Exchange !Connection !Stream !StreamWaiters

-- | The result of beginning an exchange.
data BeginResult
  = Begun !Exchange
  | -- | The server allows no further exchange at this time.
    AllTaken
  | -- | The server allows no exchange at all: none is open, and none may be.
    NoneAllowed
  | -- | The connection takes no further exchanges.
    ConnectionLeaving
  | -- | The fields are not valid.
    FieldsInvalid

-- | Begins an exchange with these fields: the pseudo-fields first, all names in lower case. Call it masked, and
-- 'endExchange' afterwards. Does not block.
beginExchange :: Connection -> [(ByteString, ByteString, Secrecy)] -> Part -> IO BeginResult
beginExchange connection fields part = do
  requested <- requestStream (connectionEngine connection) fields part
  case requested of
    Requested stream -> do
      waiting <- StreamWaiters <$> newEmptyMVar <*> newEmptyMVar
      changeWaiting connection stream (\key woken -> IntMap.insert key (woken waiting))
      Begun (Exchange connection stream waiting) <$ wakeSender connection
    AtLimit -> return AllTaken
    Barred -> return NoneAllowed
    Leaving -> return ConnectionLeaving
    InvalidFields -> return FieldsInvalid

-- Changes the entries of a stream's reader and writer.
changeWaiting ::
  Connection -> Stream -> (Int -> (StreamWaiters -> MVar ()) -> IntMap (MVar ()) -> IntMap (MVar ())) -> IO ()
changeWaiting connection stream change = do
  key <- streamKey stream
  atomicModifyIORef' (connectionWaiting connection) $ \known ->
    (change (noticeKey key Readable) readerOf (change (noticeKey key Writable) writerOf known), ())
  where
    readerOf (StreamWaiters reader _) = reader
    writerOf (StreamWaiters _ writer) = writer

-- | Ends an exchange, and cancels what is not complete. Call it once. Does not block.
endExchange :: Exchange -> IO ()
endExchange (Exchange connection stream _) = mask_ $ do
  changeWaiting connection stream (\key _ -> IntMap.delete key)
  releaseStream stream
  wakeSender connection
  monotonicNanoseconds >>= writeIORef (connectionIdle connection)

-- | Resets the exchange's stream with an error code (RFC 9113, section 7). Threads that wait for it find that out. Does
-- not block.
resetExchange :: Exchange -> Word32 -> IO ()
resetExchange (Exchange connection stream (StreamWaiters reader writer)) code = do
  resetStreamWith stream code
  wakeSender connection
  void (tryPutMVar reader ())
  void (tryPutMVar writer ())

-- | Sends a piece of the request's body: waits until the server has taken enough of it. Throws 'Http2Problem', and the
-- deadline's @IOError@.
sendBody :: Deadline -> Exchange -> ByteString -> IO ()
sendBody deadline exchange@(Exchange connection stream (StreamWaiters _ writer)) bytes
  | ByteString.null bytes = return ()
  | otherwise = do
    written <- asReading <$> writeStream stream piece
    wakeSender connection
    case written of
      Ready () -> return ()
      MustWait -> awaiting deadline writer awaitLow >>= maybe (throwFailure exchange) return
      Broken -> throwFailure exchange
    sendBody deadline exchange others
  where
    (piece, others) = ByteString.splitAt 1048576 bytes
    awaitLow = asReading <$> awaitOutput stream (connectionOutputLow connection)

asReading :: WriteOutcome -> ReceiveResult ()
asReading outcome = case outcome of
  Done -> Ready ()
  Full -> MustWait
  Gone -> Broken
  BadFields _ -> Broken

-- | Ends the request, with these trailers. Does nothing if the request is over. Does not block.
endBody :: Exchange -> [(ByteString, ByteString)] -> IO ()
endBody exchange@(Exchange connection stream _) trailers = do
  finished <- finishStream stream trailers
  case finished of
    BadFields _ -> resetExchange exchange 2 -- INTERNAL_ERROR: the server must not take the request for complete
    _ -> wakeSender connection

-- | The head of a response: its status, which may be an interim one, its fields, and whether a body follows.
data Head = Head
  { headStatus :: !Int,
    headFields :: [(ByteString, ByteString)],
    headPart :: !Part
  }
  deriving (Eq, Show)

-- | Receives the next head. Throws 'Http2Problem', and the deadline's @IOError@.
receiveHead :: Deadline -> Exchange -> IO Head
receiveHead deadline exchange@(Exchange _ stream (StreamWaiters reader _)) =
  awaiting deadline reader (takeHead stream)
    >>= maybe (throwFailure exchange) (\(status, fields, part) -> return (Head status fields part))

-- | Receives a part of the response's body, at most this many bytes; empty at the end. Throws 'Http2Problem', and the
-- deadline's @IOError@.
receiveBody :: Deadline -> Exchange -> Int -> IO ByteString
receiveBody deadline exchange@(Exchange connection stream (StreamWaiters reader _)) most = do
  bytes <- awaiting deadline reader (readStream stream most) >>= maybe (throwFailure exchange) return
  unless (ByteString.null bytes) (wakeSender connection)
  return bytes

-- | The state of a body that is being received.
data Arrived
  = Piece !ByteString
  | Ended
  | NothingYet

-- | Takes at most this many bytes of the body, if some have arrived. Does not block. Throws 'Http2Problem'.
arrivedBody :: Exchange -> Int -> IO Arrived
arrivedBody exchange@(Exchange connection stream _) most = do
  outcome <- readStream stream most
  case outcome of
    Ready bytes
      | ByteString.null bytes -> return Ended
      | otherwise -> Piece bytes <$ wakeSender connection
    MustWait -> return NothingYet
    Broken -> throwFailure exchange

-- | The trailers of the response, once its body has ended. Does not block.
receivedTrailers :: Exchange -> IO [(ByteString, ByteString)]
receivedTrailers (Exchange _ stream _) = readTrailers stream

throwFailure :: Exchange -> IO a
throwFailure (Exchange connection stream _) = do
  failure <- streamFailure stream
  case failure of
    Refused -> throwIO RequestRefused
    Reset code -> throwIO (ResponseReset code)
    Malformed -> throwIO ResponseMalformed
    TooLong -> throwIO HeadTooLong
    Lost -> endedReason connection >>= throwIO . ConnectionEnded
    Complete -> throwIO (ConnectionEnded "the exchange is over")

-- Tries again after each notice, until the deadline. 'Nothing': the stream is closed.
awaiting :: Deadline -> MVar () -> IO (ReceiveResult a) -> IO (Maybe a)
awaiting deadline woken attempt = do
  outcome <- attempt
  case outcome of
    Ready result -> return (Just result)
    Broken -> return Nothing
    MustWait -> waitUntil deadline woken >> awaiting deadline woken attempt

-- Waits for a notice until the deadline, and throws when that has passed.
waitUntil :: Deadline -> MVar () -> IO ()
waitUntil deadline woken
  | deadline == noDeadline = takeMVar woken
  | otherwise = do
    now <- monotonicNanoseconds
    let end = deadlineNanoseconds deadline
    when (end <= now) $ do
      noticed <- tryTakeMVar woken
      when
        (isNothing noticed)
        (throwIO (IOError Nothing TimeExpired "Millrace.HttpClient.Http2" "the deadline has passed" Nothing Nothing))
    when (end > now) $ do
      manager <- getSystemTimerManager
      let micros = fromIntegral (min 1000000000000 ((end - now + 999) `quot` 1000))
      bracket
        (registerTimeout manager micros (void (tryPutMVar woken ())))
        (unregisterTimeout manager)
        (const (takeMVar woken))
