{-# OPTIONS_HADDOCK hide #-}

-- Must not know: servers.

-- |
-- The exchange of a request of HTTP\/2 or HTTP\/3: one stream of a connection that carries many at a time.
module Millrace.Http.Multiplexed.Exchange
  ( Request (..),
    streamOperations,
    tellToContinue,

    -- * Serving requests
    Serving (..),
    serveRequest,
  )
where

import Control.Concurrent (myThreadId)
import Control.Exception
import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import qualified Data.ByteString as B
import Data.Maybe (isJust)
import Data.Word (Word32)
import Millrace.Http.Answer.Application (Refusal (..), Service, answerByApplication, answerRefused, newService)
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Exchange (Answerer (..), Exchange (..), Operations (..), Plan (..), Retraction (..))
import Millrace.Http.Expectation (fulfil, startExpecting)
import Millrace.Http.Field (readField, writeField)
import Millrace.Http.Http1.Wire (flagExpectContinue, flagExpectOther, flagHttps)
import Millrace.Http.Multiplexed.Body
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Head
import Millrace.Http.Multiplexed.Response (answerOnStream)
import Millrace.Http.Multiplexed.Rows (Event (..), withRowsOf)
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Multiplexed.TakeOver (asUpgrade, withoutFalseTunnel)
import Millrace.Http.Request (makeStreamRequest)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Transport (Presence (..))
import Network.HTTP.Types (HttpVersion, ok200, statusCode)
import qualified Network.Wai as Wai
import Network.Wai.Internal (RequestBodyLength (..))

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
      opTotalDeadline = \(Request stream _) -> readField (stateOf stream) totalDeadline,
      opSetTotalDeadline = \(Request stream _) -> writeField (stateOf stream) totalDeadline,
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

------------------------------------------------------------------------------------------------------------------------
-- Serving requests

-- | The way in which a protocol's requests are served.
data Serving = Serving
  { servingVersion :: !HttpVersion,
    servingSecurity :: !Security,
    servingApplication :: !Wai.Application
  }

-- | Serves a request in this thread. Throws only asynchronous exceptions. Afterwards no thread uses the stream: the
-- caller releases it.
serveRequest :: Serving -> Stream -> IO ()
serveRequest serving stream = do
  flags <- headFlags (Engine.streamHead (streamEngine stream))
  ended <- Engine.streamHasEnded (streamEngine stream)
  when (flags .&. flagExpectContinue /= 0 && not ended) (startExpecting (expectationOf stream))
  (if ended then serveWithoutBody else serveWithBody) serving stream flags

serveWithoutBody, serveWithBody :: Serving -> Stream -> Word32 -> IO ()
serveWithoutBody serving stream flags = do
  size <- Engine.streamUnread (streamEngine stream)
  if size > 0
    then serveWithBody serving stream flags
    else serve serving stream flags Nothing `finally` endLife (lifeOf stream) (return [])
serveWithBody serving stream flags = do
  body <- newBodyReader stream (tellToContinue stream)
  (serve serving stream flags (Just body) `onException` abandonBody body >> endBody body)
    `finally` endLife (lifeOf stream) (readTrailersOf stream)

serve :: Serving -> Stream -> Word32 -> Maybe BodyReader -> IO ()
serve serving stream flags body = do
  problem <- headError at
  size <- headContentLength at
  let known = maybe (KnownLength 0) (const (maybe ChunkedBody (KnownLength . fromIntegral) size)) body
      exchange = Exchange streamOperations (Request stream body)
      service = newService server exchange
      vault = contextVault (Context exchange server)
  (request, protocol) <-
    makeStreamRequest
      (servingVersion serving)
      at
      (Engine.copyStreamHead (streamEngine stream))
      (clientOf stream)
      (servingSecurity serving)
      vault
      (maybe (return B.empty) readBody body)
      known
  case refusalOf problem size of
    Just reason -> refuse service request reason
    Nothing -> answerWanted service protocol request `catch` failed
  where
    answerWanted service protocol request = case protocol of
      Nothing -> answerByApplication service (servingApplication serving) request
      Just wanted ->
        answerByApplication service (withoutFalseTunnel (servingApplication serving)) (asUpgrade wanted request)
    at = Engine.streamHead (streamEngine stream)
    server = serverOf stream
    limits = limitsFor stream
    refusalOf problem size
      | problem /= 0 = Just (invalidRequestFromError problem)
      | flags .&. flagHttps /= 0 = Just MisdirectedRequest
      | flags .&. flagExpectOther /= 0 = Just UnsupportedExpectation
      | any ((> bodyBytesMax limits) . fromIntegral) size = Just PayloadTooLarge
      | otherwise = Nothing
    refuse :: Service -> Wai.Request -> InvalidRequest -> IO ()
    refuse service request reason = do
      reportTo server Nothing (toException reason)
      answerRefused service (Refusal reason (Wai.requestMethod request) (return (Just request, B.empty))) `catch` failed
    -- The server's own answer has failed. The reason for that answer is reported already, unless
    -- it is that the client has gone.
    failed failure
      | isAsynchronous failure = throwIO failure
      | otherwise = do
        gone <- Engine.streamIsClosed (streamEngine stream)
        unless gone (reportTo server Nothing (failure :: SomeException))
