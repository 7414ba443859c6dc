-- |
-- HTTP\/2's exchange: one stream of a connection that carries many at a time. Must not know: servers.
module Millrace.Http.Http2.Exchange (Request (..), exchangeOf, tellToContinue) where

import Control.Concurrent (myThreadId)
import Control.Monad (void, when)
import Data.Bifunctor (first)
import qualified Data.CaseInsensitive as CI
import Data.Maybe (isJust)
import Millrace.Deadline (noDeadline)
import Millrace.Http.Exchange (Answerer (..), Exchange (..), Operations (..), Plan (..), Retraction (..))
import Millrace.Http.Expectation (fulfil)
import Millrace.Http.Field (readField, writeField)
import Millrace.Http.Http2.Body (BodyReader)
import Millrace.Http.Http2.Connection
import Millrace.Http.Http2.Engine hiding (Done, Stream)
import Millrace.Http.Http2.Response (answerOnStream)
import Millrace.Http.Http2.State (isStreaming, responseBytes, totalDeadline)
import Millrace.Http.Http2.Stream
import Millrace.Http.Transport (negotiated, transportPeer)
import Network.HTTP.Types (ok200)

-- | A stream, and the body of its request if it has one.
data Request = Request !Stream !(Maybe BodyReader)

-- | The exchange of a request.
exchangeOf :: Request -> Exchange
exchangeOf = Exchange operations

operations :: Operations Request
operations =
  Operations
    { opClient = \(Request stream _) -> transportPeer (connectionTransport (streamConnection stream)),
      opNegotiated = \(Request stream _) -> negotiated (connectionTransport (streamConnection stream)),
      opIfServing = \(Request stream _) action -> myThreadId >>= \self -> when (self == streamThread stream) action,
      opInform = \(Request stream _) fields -> inform stream 103 fields,
      opAnswer = answer,
      opTakeBack = takeBack,
      opSendSoon = \(Request stream _) -> flushIfNeeded (streamConnection stream),
      opSettle = \_ -> return (),
      opFlush = \(Request stream _) -> flushStream stream,
      opBodyBytes = bodyBytes,
      opCloseAfterwards = \_ -> return (),
      opDiscardUnsent = \(Request stream _) -> abortStream stream,
      opAbort = \(Request stream _) -> abortStream stream,
      opLiftTimeLimit = \(Request stream _) -> writeField (streamState stream) totalDeadline noDeadline,
      opHasClientEnded = \(Request stream _) -> (||) <$> streamIsClosed (streamEngine stream) <*> streamIsLeft (streamEngine stream),
      opAwaitClientInput = awaitEnd,
      opTakingOver = \(Request stream _) -> if streamIsConnect stream then Just ok200 else Nothing,
      opRequestTrailers = \(Request stream _) -> map (first CI.mk) <$> readTrailers (streamEngine stream),
      opHttp2Data = \(Request stream _) -> Just (streamData stream)
    }
  where
    inform stream status fields = withRowsOf 0 fields (\_ rows -> void (informStream (streamEngine stream) status rows)) >> flushStream stream

answer :: Request -> Answerer -> Plan -> IO ()
answer (Request stream body) answerer plan = do
  answerOnStream stream body answerer plan
  flushIfNeeded (streamConnection stream)

-- | Sends 100 (Continue) if the client waits for it (RFC 9110, section 10.1.1).
tellToContinue :: Stream -> IO ()
tellToContinue stream = fulfil (expectationOf stream) $ do
  withRowsOf 0 [] (\_ rows -> void (informStream (streamEngine stream) 100 rows))
  flushStream stream

takeBack :: Request -> IO Retraction
takeBack (Request stream _) = do
  streams <- readField (streamState stream) isStreaming
  if streams
    then return AlreadySent
    else (\done -> if done then TakenBack else AlreadySent) <$> takeBackStream (streamEngine stream)

bodyBytes :: Request -> IO (Maybe Int)
bodyBytes (Request stream _) = do
  written <- readField (streamState stream) responseBytes
  cut <- streamWasReset (streamEngine stream)
  if isJust written && cut then Just <$> streamSent (streamEngine stream) else return written

-- Parks until the client has reset the stream, or ended its side of the connection.
awaitEnd :: Request -> IO ()
awaitEnd (Request stream _) = void (awaitEvent stream Closed Nothing ((\closed -> if closed then Just () else Nothing) <$> awaitClose (streamEngine stream)))
