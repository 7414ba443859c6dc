-- |
-- Serves a request of HTTP\/2 or HTTP\/3 by the application. Must not know: connections.
module Millrace.Http.Multiplexed.Serve (Serving (..), serveRequest) where

import Control.Exception
import Control.Monad (unless, when)
import Data.Bits ((.&.))
import qualified Data.ByteString as B
import Data.Word (Word32)
import Millrace.Http.Answer.Application (Refusal (..), Service, answerByApplication, answerRefused, newService)
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Exchange (Exchange (..))
import Millrace.Http.Expectation (startExpecting)
import Millrace.Http.Http1.Wire (flagExpectContinue, flagExpectOther, flagHttps)
import Millrace.Http.Multiplexed.Body
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Exchange
import Millrace.Http.Multiplexed.Head
import Millrace.Http.Multiplexed.Life (endLife)
import Millrace.Http.Multiplexed.Request (makeRequest)
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Multiplexed.TakeOver (asUpgrade, withoutFalseTunnel)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Limits (Limits (..))
import Network.HTTP.Types (HttpVersion)
import qualified Network.Wai as Wai
import Network.Wai.Internal (RequestBodyLength (..))

-- | How a protocol's requests are served.
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
      vault = contextVault (Context exchange (serverFiles server))
  (request, protocol) <-
    makeRequest
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
    -- The server's own answer has failed. The reason for that answer is reported already. If the client has gone, that
    -- is why.
    failed failure
      | isAsynchronous failure = throwIO failure
      | otherwise = do
        gone <- Engine.streamIsClosed (streamEngine stream)
        unless gone (reportTo server Nothing (failure :: SomeException))
