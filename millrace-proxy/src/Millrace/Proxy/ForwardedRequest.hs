-- Must not know: sockets.

-- | A request that is being passed on to a target, and its outcome.
module Millrace.Proxy.ForwardedRequest
  ( ForwardedRequest (..),
    ForwardOutcome (..),
    RetryDecision (..),
    isRepeatable,
    noteProblem,
    onExceptionResponse,
    respondStreaming,
    Extent (..),
  )
where

import Control.Exception (SomeException, fromException)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (byteString)
import Data.IORef
import Data.Maybe (fromMaybe)
import Millrace.Deadline (Deadline)
import Millrace.Proxy.Exchange (RequestBody (..))
import Millrace.Proxy.Member (Member, noteFailure)
import Millrace.Proxy.Problem
import Millrace.Proxy.RequestHead (Outgoing, passedTrailers)
import Millrace.Proxy.Settings (Settings (..))
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
  ( HTTP2Data (..),
    NextTrailersMaker (..),
    defaultHTTP2Data,
    defaultOnExceptionResponse,
    modifyHTTP2Data,
  )

-- | A request that is being passed on.
data ForwardedRequest = ForwardedRequest
  { forwardedRequest :: !Request,
    forwardedRespond :: Response -> IO ResponseReceived,
    forwardedDeadline :: !Deadline,
    forwardedBody :: !RequestBody,
    forwardedUpgrade :: !(Maybe ByteString),
    forwardedOutgoing :: !Outgoing
  }

-- | The outcome of passing a request on.
data ForwardOutcome
  = Delivered !ResponseReceived
  | Failed !Problem !RetryDecision

-- | Whether another target may be tried after a problem.
data RetryDecision = TryOthers | GiveUp

-- | Whether the request may be sent twice.
isRepeatable :: ForwardedRequest -> Bool
isRepeatable forwarded = case forwardedBody forwarded of
  Absent ->
    requestMethod (forwardedRequest forwarded) `elem` [methodGet, methodHead, methodOptions, methodPut, methodDelete]
  _ -> False

-- | Counts a problem against the health of a target, if it is the target's fault.
noteProblem :: Settings -> Member -> Problem -> IO ()
noteProblem settings member reason = when (isFaultOfTarget reason) (noteFailure (limits settings) member)

-- | The response for an exception, for the server's 'Network.Wai.Handler.Millrace.setOnExceptionResponse'. A target may
-- fail in the middle of a response of which nothing has been sent to the client yet. Then the client gets 502 or 504,
-- where the server's default is 500. For everything that is no 'Problem' this is 'defaultOnExceptionResponse'.
--
-- > runSettings (setOnExceptionResponse onExceptionResponse defaultSettings) proxy
onExceptionResponse :: SomeException -> Response
onExceptionResponse failure = maybe (defaultOnExceptionResponse failure) problemResponse (fromException failure)

-- | Responds with a body that an action writes. The action gets what writes and what flushes, and returns the trailers.
-- Also returns whether the action ran to its end: the server does not run it if the response may not have a body.
respondStreaming ::
  ForwardedRequest ->
  Status ->
  ResponseHeaders ->
  ((ByteString -> IO ()) -> IO () -> IO ResponseHeaders) ->
  IO (ResponseReceived, Extent)
respondStreaming forwarded status fields write = do
  trailers <- newIORef []
  extent <- newIORef Cut
  modifyHTTP2Data
    (forwardedRequest forwarded)
    (\said -> Just (fromMaybe defaultHTTP2Data said) {http2dataTrailers = trailersFrom trailers})
  received <- forwardedRespond forwarded . responseStream status fields $ \give flush -> do
    behind <- write (give . byteString) flush
    writeIORef trailers (passedTrailers behind)
    writeIORef extent Whole
  (,) received <$> readIORef extent
  where
    trailersFrom trailers said = case said of
      Nothing -> Trailers <$> readIORef trailers
      Just _ -> return (NextTrailersMaker (trailersFrom trailers))

-- | Whether all of the body was written.
data Extent = Whole | Cut
  deriving (Eq)
