{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols, sockets.

-- |
-- An exchange in memory: it records the answer to one request, which never becomes bytes of a protocol. For tests of
-- everything
-- that is decided above an exchange.
--
-- It behaves like a connection as far as the code above can tell. A small answer is held back and can be taken back, a
-- larger one is sent while it is made, and a client may leave or stop reading.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Exchange.Memory
  ( -- * Making one
    Client (..),
    ClientReading (..),
    goodClientAt,
    MemoryExchange,
    newMemoryExchange,
    memoryExchange,

    -- * What the client sees
    Received (..),
    Final (..),
    Content (..),
    BodyEnd (..),
    Afterwards (..),
    received,
    leave,
  )
where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Concurrent.MVar (putMVar, takeMVar)
import Control.Concurrent.STM
import Control.Exception (finally, throwIO, uninterruptibleMask_)
import Control.Monad (join, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Lazy as L
import Foreign.C.Error (eCONNRESET, errnoToIOError)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Http.Answer.Body
import Millrace.Http.Exception (sendingResponse)
import Millrace.Http.Exchange
import Millrace.Http.Transport (Presence (..), SockAddr)
import Network.HTTP.Types (ResponseHeaders, Status, switchingProtocols101)

-- | The client of an exchange.
data Client = Client
  { clientAddress :: !SockAddr,
    clientReading :: !ClientReading,
    -- | What the client sends after a response that takes the exchange over.
    clientInput :: !ByteString,
    -- | Can a response take the exchange over?
    clientCanBeTakenOver :: !Bool
  }

-- | How much of a body the client reads.
data ClientReading
  = ReadsAll
  | -- | It is gone after this many bytes.
    LeavesAfter !Int
  | -- | It stays, and takes no more than this many bytes.
    StopsAfter !Int

-- | A client with this address that reads everything and sends nothing.
goodClientAt :: SockAddr -> Client
goodClientAt address = Client address ReadsAll B.empty True

-- | One request of such a client, and the answer so far.
data MemoryExchange = MemoryExchange
  { memoryClient :: !Client,
    -- The one that serves the request.
    memoryThread :: !ThreadId,
    memoryState :: !(TVar ExchangeState)
  }

data ExchangeState = ExchangeState
  { stateInterim :: [ResponseHeaders], -- The latest comes first.
    statePhase :: !ExchangePhase,
    stateFinal :: !(Maybe Final), -- Its content without the bytes of the body.
    stateBody :: [ByteString], -- The latest piece comes first.
    stateCount :: !Int,
    stateSending :: !Sending,
    stateRunning :: !StreamCode,
    stateAfterwards :: !Afterwards,
    stateIsAborted :: !Bool,
    stateHasClientEnded :: !Bool,
    stateTotalDeadline :: !Deadline,
    stateInput :: !ByteString, -- What the client is going to send.
    stateRaw :: [ByteString] -- What the application has sent after taking over. The latest piece comes first.
  }

data ExchangePhase = InRequest | InResponse
  deriving (Eq)

-- Has something of the final response been sent?
data Sending = HeldBack | Sent
  deriving (Eq)

-- Does the application's code for a stream run in the thread that serves the request?
data StreamCode = NoStream | StreamRuns
  deriving (Eq)

-- | What a client has received.
data Received = Received
  { -- | The fields of interim responses, in order.
    receivedInterim :: [ResponseHeaders],
    -- | 'Nothing' if there was no final response, or nothing of it was sent.
    receivedFinal :: Maybe Final,
    -- | What the application sent after it had taken the exchange over.
    receivedRaw :: ByteString,
    receivedAfterwards :: Afterwards
  }
  deriving (Eq, Show)

-- | A final response.
data Final = Final
  { finalStatus :: !Status,
    finalFields :: ResponseHeaders,
    finalContent :: !Content
  }
  deriving (Eq, Show)

-- | What follows the fields.
data Content
  = NoContent !AnnouncedLength
  | TunnelRefused
  | Content !ByteString !BodyEnd
  deriving (Eq, Show)

-- | How a body ended.
data BodyEnd = Unfinished | Complete
  deriving (Eq, Show)

-- | What becomes of the connection.
data Afterwards = KeptOpen | Closed
  deriving (Eq, Show)

-- | An exchange for a request that this thread serves.
newMemoryExchange :: Client -> IO MemoryExchange
newMemoryExchange client =
  MemoryExchange client
    <$> myThreadId
    <*> newTVarIO
      ExchangeState
        { stateInterim = [],
          statePhase = InRequest,
          stateFinal = Nothing,
          stateBody = [],
          stateCount = 0,
          stateSending = HeldBack,
          stateRunning = NoStream,
          stateAfterwards = KeptOpen,
          stateIsAborted = False,
          stateHasClientEnded = False,
          stateTotalDeadline = noDeadline,
          stateInput = clientInput client,
          stateRaw = []
        }

-- | What the client has received, and is going to receive of what was answered.
received :: MemoryExchange -> IO Received
received memory = do
  state <- readTVarIO (memoryState memory)
  return
    ( Received
        (reverse (stateInterim state))
        (whole state <$> stateFinal state)
        (B.concat (reverse (stateRaw state)))
        (stateAfterwards state)
    )
  where
    whole state final = case finalContent final of
      Content _ ending -> final {finalContent = Content (B.concat (reverse (stateBody state))) ending}
      _ -> final

-- | The client ends its side of the connection.
leave :: MemoryExchange -> IO ()
leave memory = change memory (\state -> state {stateHasClientEnded = True})

-- | The exchange itself.
memoryExchange :: MemoryExchange -> Exchange
memoryExchange = Exchange operations

operations :: Operations MemoryExchange
operations =
  Operations
    { opClient = clientAddress . memoryClient,
      opNegotiated = const Nothing,
      opIfServing = \memory action -> myThreadId >>= \self -> when (self == memoryThread memory) action,
      opInform = \memory _ fields -> change memory (inform' fields),
      opReset = \_ _ -> return False,
      opAnswer = answerInMemory,
      opTakeBack = \memory -> atomically (stateTVar (memoryState memory) takenBack),
      -- A real protocol may put this off; here it is done at once, so that nothing is left to settle.
      opSendSoon = sendHeld,
      opSettle = \_ -> return (),
      opFlush = sendHeld,
      opBodyBytes = fmap countOf . readTVarIO . memoryState,
      opCloseAfterwards = \memory -> change memory (\state -> state {stateAfterwards = Closed}),
      opDiscardUnsent = (`change` discarded),
      opAbort = \memory -> change memory (\state -> state {stateIsAborted = True, stateAfterwards = Closed}),
      opTotalDeadline = fmap stateTotalDeadline . readTVarIO . memoryState,
      opSetTotalDeadline = \memory deadline -> change memory (\state -> state {stateTotalDeadline = deadline}),
      opPresence =
        fmap (\state -> if stateHasClientEnded state then EndedSending else Present) . readTVarIO . memoryState,
      opAwaitClientInput = \memory -> atomically (readTVar (memoryState memory) >>= check . stateHasClientEnded),
      opTakingOver =
        \memory -> if clientCanBeTakenOver (memoryClient memory) then Just switchingProtocols101 else Nothing,
      opRequestTrailers = \_ -> return [],
      opHttp2Data = const Nothing,
      opBelongings = const Nothing
    }
  where
    inform' fields state
      | statePhase state == InRequest = state {stateInterim = fields : stateInterim state}
      | otherwise = state
    countOf state = case finalContent <$> stateFinal state of
      Just (Content _ _) -> Just (stateCount state)
      _ -> Nothing

change :: MemoryExchange -> (ExchangeState -> ExchangeState) -> IO ()
change memory = atomically . modifyTVar' (memoryState memory)

takenBack :: ExchangeState -> (Retraction, ExchangeState)
takenBack state
  | stateSending state == Sent || stateRunning state == StreamRuns = (AlreadySent, state)
  | otherwise = (TakenBack, withoutFinal state)

discarded :: ExchangeState -> ExchangeState
discarded state
  | stateSending state == Sent = state
  | otherwise = withoutFinal state

withoutFinal :: ExchangeState -> ExchangeState
withoutFinal state = state {stateFinal = Nothing, stateBody = [], stateCount = 0}

sendHeld :: MemoryExchange -> IO ()
sendHeld memory = change memory $ \state -> case stateFinal state of
  Nothing -> state
  Just _ -> state {stateSending = Sent}

------------------------------------------------------------------------------------------------------------------------
-- Answers

answerInMemory :: MemoryExchange -> Answerer -> Plan -> IO ()
answerInMemory memory answerer plan = do
  change memory (\state -> state {statePhase = InResponse})
  case plan of
    Plan status fields body -> do
      let begin content = change memory (\state -> state {stateFinal = Just (Final status fields content)})
      case body of
        NoBody size -> begin (NoContent size)
        NoTunnel -> begin TunnelRefused >> change memory (\state -> state {stateAfterwards = Closed})
        BuilderBody builder -> do
          begin (Content B.empty Unfinished)
          mapM_ (write memory) (L.toChunks (toLazyByteString builder))
          complete memory
        FileBody slice -> do
          begin (Content B.empty Unfinished)
          writeFileSlice memory slice
          complete memory
        StreamBody stream -> do
          begin (Content B.empty Unfinished)
          streaming memory answerer $
            runStreamingBody
              answerer
              (Sink (mapM_ (write memory) . L.toChunks . toLazyByteString) (sendHeld memory) (abortUse memory))
              stream
          complete memory
    TakeOver body -> takeOver memory answerer body

abortUse :: MemoryExchange -> IO ()
abortUse memory = change memory (\state -> state {stateIsAborted = True, stateAfterwards = Closed})

streaming :: MemoryExchange -> Answerer -> IO () -> IO ()
streaming memory answerer action = case answerer of
  OwnThread -> (running StreamRuns >> action) `finally` running NoStream
  OtherThread _ -> action
  where
    running now = change memory (\state -> state {stateRunning = now})

complete :: MemoryExchange -> IO ()
complete memory = change memory $ \state -> state {stateFinal = completed <$> stateFinal state}
  where
    completed final = case finalContent final of
      Content bytes _ -> final {finalContent = Content bytes Complete}
      _ -> final

writeFileSlice :: MemoryExchange -> FileSlice -> IO ()
writeFileSlice memory slice = go (toInteger (sliceOffset slice)) (toInteger (sliceLength slice))
  where
    go offset left = unless (left == 0) $ do
      bytes <- readPiece slice offset (fromInteger (min left 65536))
      write memory bytes
      go (offset + toInteger (B.length bytes)) (left - toInteger (B.length bytes))

-- Adds to the body. What is held back is sent when there is more of it than this.
heldMax :: Int
heldMax = 16384

write :: MemoryExchange -> ByteString -> IO ()
write memory bytes = do
  rest <- join . atomically $ do
    state <- readTVar (memoryState memory)
    let left = case clientReading (memoryClient memory) of
          ReadsAll -> maxBound
          LeavesAfter limit -> limit - stateCount state
          StopsAfter limit -> limit - stateCount state
        (taken, rest) = B.splitAt left bytes
    if stateIsAborted state
      then return (throwIO lost)
      else do
        -- A client that has stopped reading is waited for.
        check (not (B.null taken) || B.null rest || leaves)
        writeTVar (memoryState memory) (grown taken rest state)
        return (if leaves && not (B.null rest) then throwIO lost else return rest)
  unless (B.null rest) (write memory rest)
  where
    lost = errnoToIOError sendingResponse eCONNRESET Nothing Nothing
    leaves = case clientReading (memoryClient memory) of
      LeavesAfter _ -> True
      _ -> False
    grown taken rest state =
      state
        { stateBody = taken : stateBody state,
          stateCount = stateCount state + B.length taken,
          stateSending =
            if stateCount state + B.length taken > heldMax || not (B.null rest) then Sent else stateSending state
        }

-- As on a connection: nothing can be taken back any more, and the connection is closed afterwards.
takeOver :: MemoryExchange -> Answerer -> RawBody -> IO ()
takeOver memory answerer body = do
  change memory (\state -> state {stateSending = Sent, stateAfterwards = Closed})
  case answerer of
    OwnThread -> use
    OtherThread (Detached hold _) -> putMVar hold () >> use `finally` uninterruptibleMask_ (takeMVar hold)
  where
    use = body receive (\bytes -> change memory (\state -> state {stateRaw = bytes : stateRaw state}))
    receive = atomically (stateTVar (memoryState memory) (\state -> (stateInput state, state {stateInput = B.empty})))
