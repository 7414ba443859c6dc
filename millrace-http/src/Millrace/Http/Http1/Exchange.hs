{-# LANGUAGE BangPatterns #-}

-- |
-- HTTP\/1's exchange: one request of a connection that carries requests one after the other. Must not know: servers.
module Millrace.Http.Http1.Exchange (exchangeWithoutBody, exchangeWithBody, numbered, sendWaiting) where

import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.CaseInsensitive (original)
import Millrace.Http.Exchange (Answerer (..), Body (..), Exchange (..), Operations (..), Plan (..), Retraction (..))
import Millrace.Http.FieldSyntax (harmless)
import Millrace.Http.Http1.Body (BodyReader, Use (..), foreseeEnd)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Life (isAlive, waitWhileAlive)
import Millrace.Http.Http1.Response (composeAnswer, restartResponse)
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire (flagVersion11, headFlags)
import Millrace.Http.Threads.Worker (isThisThread)
import qualified Millrace.Http.Transport as Transport
import Network.HTTP.Types (ResponseHeaders, Status (..), switchingProtocols101)

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
      opLiftTimeLimit = \(CurrentRequest connection _) -> clearTotalDeadline connection,
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

-- The application may do other things before it returns, and the client must not wait for that. Acquiring the output
-- may wait for the client. An application that is interrupted there has not responded yet.
answerCurrent :: CurrentRequest -> Answerer -> Plan -> IO ()
answerCurrent (CurrentRequest connection body) answerer !plan = do
  beginAnswer connection
  case body of
    Nothing -> return ()
    Just reader -> foreseeEnd connection reader (useOfBody plan)
  composeAnswer connection answerer plan
  case plan of
    TakeOver _ -> return () -- nothing is to be sent, and the connection may be over
    Plan {} -> acquireOutput connection >>= releaseOutput

-- Notes where the answer begins, so that it can be taken back. Composing it may take time; the answers before it must
-- not wait for that.
beginAnswer :: Connection -> IO ()
beginAnswer connection = do
  output <- acquireOutput connection
  outputEnd connection >>= writeRequest connection responseStart
  countSends connection >>= writeRequest connection responseSends
  writeStage connection InResponse
  releaseOutput output
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
