-- |
-- The exchange of a request of HTTP\/2 or HTTP\/3: one stream of a connection that carries many at a time. Must not
-- know: servers.
module Millrace.Http.Multiplexed.Exchange (Request (..), streamOperations, tellToContinue) where

import Control.Concurrent (myThreadId)
import Control.Monad (void, when)
import Data.Maybe (isJust)
import Millrace.Deadline (noDeadline)
import Millrace.Http.Exchange (Answerer (..), Operations (..), Plan (..), Retraction (..))
import Millrace.Http.Expectation (fulfil)
import Millrace.Http.Field (readField, writeField)
import Millrace.Http.Multiplexed.Body (BodyReader)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Life (isAlive, whileAlive)
import Millrace.Http.Multiplexed.Response (answerOnStream)
import Millrace.Http.Multiplexed.Rows (Event (..), withRowsOf)
import Millrace.Http.Multiplexed.State (isStreaming, responseBytes, totalDeadline)
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Transport (Presence (..))
import Network.HTTP.Types (ok200, statusCode)

-- | A stream, and the body of its request if it has one.
data Request = Request !Stream !(Maybe BodyReader)

-- | The operations on a stream.
streamOperations :: Operations Request
streamOperations =
  Operations
    { opClient = \(Request stream _) -> clientOf stream,
      opNegotiated = \(Request stream _) -> negotiatedOf stream,
      opIfServing = ifServingHere,
      opInform = \(Request stream _) status fields -> inform stream (statusCode status) fields,
      opReset =
        \(Request stream _) code -> whileAlive (lifeOf stream) (const (return False)) (True <$ resetStream stream code),
      opAnswer = answer,
      opTakeBack = takeBack,
      opSendSoon = \(Request stream _) -> flushIfNeededOf stream,
      opSettle = \_ -> return (),
      opFlush = \(Request stream _) -> flushStream stream,
      opBodyBytes = bodyBytes,
      opCloseAfterwards = \_ -> return (),
      opDiscardUnsent = \(Request stream _) -> abortStream stream,
      opAbort = \(Request stream _) -> abortStream stream,
      opLiftTimeLimit = \(Request stream _) -> writeField (stateOf stream) totalDeadline noDeadline,
      opPresence = presenceOf,
      opAwaitClientInput = awaitEnd,
      opTakingOver = \(Request stream _) -> if isConnect stream then Just ok200 else Nothing,
      opRequestTrailers = \(Request stream _) -> whileAlive (lifeOf stream) return (readTrailersOf stream),
      opHttp2Data = \(Request stream _) -> Just (dataOf stream),
      opBelongings = const Nothing
    }
  where
    inform stream status fields =
      withRowsOf 0 fields (\_ rows -> void (Engine.informStream (streamEngine stream) status rows))
        >> flushStream stream

-- Within TLS, too, the end of a connection is the end of the client ('Millrace.Http.Transport.presence').
presenceOf :: Request -> IO Presence
presenceOf (Request stream _) = whileAlive (lifeOf stream) (const (return Gone)) $ do
  closed <- Engine.streamIsClosed (streamEngine stream)
  left <- Engine.streamIsLeft (streamEngine stream)
  return $ if closed || left && isJust (negotiatedOf stream) then Gone else if left then EndedSending else Present

answer :: Request -> Answerer -> Plan -> IO ()
answer (Request stream body) answerer plan = do
  answerOnStream stream body answerer plan
  flushIfNeededOf stream

-- | Sends 100 (Continue) if the client waits for it (RFC 9110, section 10.1.1).
tellToContinue :: Stream -> IO ()
tellToContinue stream = fulfil (expectationOf stream) $ do
  withRowsOf 0 [] (\_ rows -> void (Engine.informStream (streamEngine stream) 100 rows))
  flushStream stream

takeBack :: Request -> IO Retraction
takeBack (Request stream _) = do
  streams <- readField (stateOf stream) isStreaming
  if streams
    then return AlreadySent
    else (\done -> if done then TakenBack else AlreadySent) <$> Engine.takeBackStream (streamEngine stream)

bodyBytes :: Request -> IO (Maybe Int)
bodyBytes (Request stream _) = do
  written <- readField (stateOf stream) responseBytes
  cut <- Engine.streamWasReset (streamEngine stream)
  if isJust written && cut then Just <$> Engine.streamSent (streamEngine stream) else return written

-- The thread may serve another request later.
ifServingHere :: Request -> IO () -> IO ()
ifServingHere (Request stream _) action = do
  self <- myThreadId
  when (self == threadOf stream) (isAlive (lifeOf stream) >>= \alive -> when alive action)

-- Parks until the client has reset the stream, or ended its side of the connection, or until the request has ended.
awaitEnd :: Request -> IO ()
awaitEnd (Request stream _) =
  void (awaitEventOf stream (whileAlive life (const (return ())) (flushOf stream)) Closed Nothing attempt)
  where
    life = lifeOf stream
    attempt =
      (\ended -> if ended then Just () else Nothing)
        <$> whileAlive life (const (return True)) (Engine.awaitClose (streamEngine stream))
