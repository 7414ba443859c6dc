{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: servers.

-- |
-- HTTP\/1's exchange: one request of a connection that carries requests one after the other.
module Millrace.Http.Http1.Exchange
  ( exchangeWithoutBody,
    exchangeWithBody,
    numbered,
    answerRequest,
    endRequest,
  )
where

import Control.Exception
  ( Exception (..),
    asyncExceptionFromException,
    asyncExceptionToException,
    bracket_,
    interruptible,
    mask_,
    throwIO,
  )
import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.CaseInsensitive (original)
import Data.IORef (atomicModifyIORef', readIORef)
import Data.List (delete)
import Millrace.Http.Answer.Application (Service, answerByApplication)
import Millrace.Http.Exchange (Answerer (..), Body (..), Exchange (..), Operations (..), Plan (..), Retraction (..))
import Millrace.Http.Field (readField)
import Millrace.Http.FieldSyntax (harmless)
import Millrace.Http.Http1.Body (BodyReader, Use (..), foreseeEnd)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Response (composeAnswer, restartResponse)
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire (flagVersion11, headFlags)
import Millrace.Http.Threads (atWork, interruptWorker, isThisThread, newWorker)
import qualified Millrace.Http.Transport as Transport
import Millrace.Internal.AtomicWord (fetchAdd)
import Network.HTTP.Types (ResponseHeaders, Status (..), switchingProtocols101)
import Network.Wai (Application)
import qualified Network.Wai as Wai

-- The current request of a connection, and its body if it has one.
data CurrentRequest = CurrentRequest !Connection !(Maybe BodyReader)

-- | The exchange of all requests without a body of a connection. For the thread that serves them.
exchangeWithoutBody :: Connection -> Exchange
exchangeWithoutBody connection = Exchange operations (CurrentRequest connection Nothing)

-- | The exchange of a request with this body. For the thread that serves it.
exchangeWithBody :: Connection -> BodyReader -> Exchange
exchangeWithBody connection body = Exchange operations (CurrentRequest connection (Just body))

-- | The exchange that an application gets with the request that has this number. It may keep that for longer than the
-- request is served.
numbered :: Connection -> Int -> Exchange
numbered connection number =
  Exchange
    operations
      { opIfServing =
          const whileServing,
        opPresence = const presence,
        opAwaitClientInput = const await
      }
    current
  where
    current = CurrentRequest connection Nothing
    whileServing action = isAlive connection number >>= \alive -> when alive (inOwnThread current action)
    presence =
      isAlive connection number >>= \alive -> if alive then opPresence operations current else return Transport.Gone
    await = waitWhileAlive connection number (opAwaitClientInput operations current)

operations :: Operations CurrentRequest
operations =
  Operations
    { opClient = \(CurrentRequest connection _) -> connectionPeer connection,
      opNegotiated = \(CurrentRequest connection _) -> Transport.negotiated (connectionTransport connection),
      opIfServing = inOwnThread,
      opInform = sendInterim,
      opReset = \_ _ -> return False,
      opAnswer = answerCurrent,
      opTakeBack = takeBackAnswer,
      opSendSoon = sendSoonCurrent,
      opSettle = settleWaiting,
      opFlush = \(CurrentRequest connection _) -> flushOutput connection,
      opBodyBytes = sentBytes,
      opCloseAfterwards = \(CurrentRequest connection _) -> writeRequest connection keepsOpen False,
      opDiscardUnsent = \(CurrentRequest connection _) -> setOutputEnd connection 0,
      opAbort = \(CurrentRequest connection _) -> breakConnection connection,
      opTotalDeadline = \(CurrentRequest connection _) -> totalDeadline connection,
      opSetTotalDeadline = \(CurrentRequest connection _) -> setTotalDeadline connection,
      opPresence = \(CurrentRequest connection _) -> Transport.presence (connectionTransport connection),
      opAwaitClientInput = awaitInput,
      opTakingOver = const (Just switchingProtocols101),
      opRequestTrailers = \_ -> return [],
      opHttp2Data = const Nothing,
      opBelongings = \(CurrentRequest connection _) -> Just (connectionBelongings connection)
    }

-- Any other thread might run after the end of the request.
inOwnThread :: CurrentRequest -> IO () -> IO ()
inOwnThread (CurrentRequest connection _) action = do
  own <- isThisThread (connectionWorker connection)
  working <- isWorking connection
  when (own && working) action

sendInterim :: CurrentRequest -> Status -> ResponseHeaders -> IO ()
sendInterim (CurrentRequest connection _) (Status code reason) fields = do
  reached <- readStage connection
  flags <- parser connection >>= headFlags
  -- RFC 9110, section 15.2: no 1xx response to HTTP/1.0.
  when (reached == InRequest && flags .&. flagVersion11 /= 0) $ do
    flushOutput connection
    sendString
      connection
      ( B.concat
          ( C8.pack ("HTTP/1.1 " ++ show code ++ " ") :
            harmless reason :
            C8.pack "\r\n" :
            concatMap fieldLine fields
              ++ [C8.pack "\r\n"]
          )
      )
  where
    fieldLine (name, value) = [original name, C8.pack ": ", value, C8.pack "\r\n"]

-- | Runs the application for a request, and ends the request. Sends the responses to earlier requests, so that the
-- client need not wait for them while the application runs. Afterwards this thread has the output.
answerRequest :: Connection -> Service -> Application -> Wai.Request -> IO ()
answerRequest connection service application request = do
  sendWaiting connection
  answerByApplication service application request
  endRequest connection
  void (acquireOutput connection)

-- The application may do other things before it returns, and the client must not wait for that. Acquiring the output
-- may wait for the client. An application that is interrupted there has not responded yet.
answerCurrent :: CurrentRequest -> Answerer -> Plan -> IO ()
answerCurrent (CurrentRequest connection body) answerer !plan = do
  own <- beginAnswer connection
  case body of
    Nothing -> return ()
    Just reader -> foreseeEnd connection reader (useOfBody plan)
  composeAnswer connection answerer plan
  case plan of
    TakeOver _ -> return () -- nothing is to be sent, and the connection may be over
    Plan {} -> maybe (acquireOutput connection) return own >>= releaseOutput

-- Notes where the answer begins, so that it can be taken back. Returns the output if no earlier answer is in it:
-- nothing releases it then while the answer is composed. Composing it may take time; answers before it must not wait
-- for that.
beginAnswer :: Connection -> IO (Maybe Output)
beginAnswer connection = do
  own <- emptyOutput connection
  output <- maybe (acquireOutput connection) return own
  outputEnd connection >>= writeRequest connection responseStart
  countSends connection >>= writeRequest connection responseSends
  writeStage connection InResponse
  releaseOutput output
  return own
{-# INLINE beginAnswer #-}

-- The application's code for a stream may read the request's body.
useOfBody :: Plan -> Use
useOfBody plan = case plan of
  Plan _ _ (StreamBody _) -> MayRead
  _ -> ReadsNothing

-- An exception may have come while this thread waited for the earlier responses to be sent. Then this response had not
-- begun. Nothing is taken back while the application's code for a stream runs in this thread.
takeBackAnswer :: CurrentRequest -> IO Retraction
takeBackAnswer (CurrentRequest connection _) = do
  reached <- readStage connection
  streams <- readRequest connection isStreaming
  takeBackAt reached streams
  where
    takeBackAt reached streams
      | streams = return AlreadySent
      | reached == InResponse = restartResponse connection
      | otherwise = return TakenBack

-- | Schedules the output to be sent when this thread waits for something, unless the output is acquired before that.
sendWaiting :: Connection -> IO ()
sendWaiting connection = do
  waiting <- outputEnd connection
  unless (waiting == 0) (acquireOutput connection >>= releaseOutput)
{-# NOINLINE sendWaiting #-}

sendSoonCurrent :: CurrentRequest -> IO ()
sendSoonCurrent (CurrentRequest connection _) = sendWaiting connection

settleWaiting :: CurrentRequest -> IO ()
settleWaiting (CurrentRequest connection _) = void (acquireOutput connection)

sentBytes :: CurrentRequest -> IO (Maybe Int)
sentBytes (CurrentRequest connection _) = readRequest connection responseBytes

awaitInput :: CurrentRequest -> IO ()
awaitInput (CurrentRequest connection _) = Transport.awaitInput (connectionTransport connection)

------------------------------------------------------------------------------------------------------------------------
-- The lives of requests

-- | Ends the life of the present request, if there is one, and the waits of the threads that wait for something during
-- it.
endRequest :: Connection -> IO ()
endRequest connection = do
  begun <- requestCount connection
  ended <- readField (connectionState connection) requestsEnded
  when (begun > ended) $ do
    -- A full barrier: a thread that begins to wait finds that the request has ended, or is found by the next line.
    void (fetchAdd (endedWord (connectionState connection)) (begun - ended))
    waiting <- readIORef (connectionWatchers connection)
    unless (null waiting) (endWaits connection begun)
{-# INLINE endRequest #-}

endWaits :: Connection -> Int -> IO ()
endWaits connection number =
  atomicModifyIORef' (connectionWatchers connection) ([],) >>= mapM_ (interruptWorker (RequestIsOver number))
{-# NOINLINE endWaits #-}

-- | Whether the request with this number ('requestCount') is alive.
isAlive :: Connection -> Int -> IO Bool
isAlive connection number = (< number) <$> readField (connectionState connection) requestsEnded

-- | @waitWhileAlive connection number wait@ waits, at most until the request ends. Any thread may call this.
waitWhileAlive :: Connection -> Int -> IO () -> IO ()
waitWhileAlive connection number wait = mask_ $ do
  worker <- newWorker
  let change update = atomicModifyIORef' (connectionWatchers connection) ((,()) . update)
      waiting = isAlive connection number >>= \alive -> when alive (interruptible wait)
  outcome <- atWork worker (bracket_ (change (worker :)) (change (delete worker)) waiting)
  case outcome of
    Left failure | Just (RequestIsOver _) <- fromException failure -> return ()
    Left failure -> throwIO failure
    Right () -> return ()

-- Ends a wait during the request with this number. With GHC 9.0 it must not be a constant: see docs/HACKING.md.
newtype RequestIsOver = RequestIsOver Int
  deriving (Show)

instance Exception RequestIsOver where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
