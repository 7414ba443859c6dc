-- | A request that is being passed on, and what comes of it. Must not know: sockets.
module Millrace.Proxy.ForwardedRequest
  ( Passing (..),
    Result (..),
    Next (..),
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
data Passing = Passing
  { passingRequest :: !Request,
    passingRespond :: Response -> IO ResponseReceived,
    passingEnd :: !Deadline,
    passingBody :: !RequestBody,
    passingUpgrade :: !(Maybe ByteString),
    passingOutgoing :: !Outgoing
  }

-- | What came of it.
data Result
  = Delivered !ResponseReceived
  | Failed !Problem !Next

-- | What to do about a problem.
data Next = TryOthers | GiveUp

-- | May it be sent twice?
isRepeatable :: Passing -> Bool
isRepeatable passing = case passingBody passing of
  Absent ->
    requestMethod (passingRequest passing) `elem` [methodGet, methodHead, methodOptions, methodPut, methodDelete]
  _ -> False

-- | Counts a problem against the health of a target, if it is the target's fault.
noteProblem :: Settings -> Member -> Problem -> IO ()
noteProblem settings member reason = when (isFaultOfTarget reason) (noteFailure (limits settings) member)

-- | For the server's 'Network.Wai.Handler.Millrace.setOnExceptionResponse'. A target may fail in the middle of a
-- response of which nothing has been sent to the client yet. Then this tells the client that it was the target (502 or
-- 504); by default the server would blame itself (500). Everything that is no 'Problem' gets
-- 'defaultOnExceptionResponse'.
--
-- > runSettings (setOnExceptionResponse onExceptionResponse defaultSettings) proxy
onExceptionResponse :: SomeException -> Response
onExceptionResponse failure = maybe (defaultOnExceptionResponse failure) problemResponse (fromException failure)

-- | Responds with a body that an action writes. The action gets what writes and what flushes, and returns the trailers.
-- Also returns whether the action ran to its end: the server does not run it if the response may not have a body.
respondStreaming ::
  Passing ->
  Status ->
  ResponseHeaders ->
  ((ByteString -> IO ()) -> IO () -> IO ResponseHeaders) ->
  IO (ResponseReceived, Extent)
respondStreaming passing status fields write = do
  trailers <- newIORef []
  extent <- newIORef Cut
  modifyHTTP2Data
    (passingRequest passing)
    (\said -> Just (fromMaybe defaultHTTP2Data said) {http2dataTrailers = trailersFrom trailers})
  received <- passingRespond passing . responseStream status fields $ \give flush -> do
    behind <- write (give . byteString) flush
    writeIORef trailers (passedTrailers behind)
    writeIORef extent Whole
  (,) received <$> readIORef extent
  where
    trailersFrom trailers said = case said of
      Nothing -> Trailers <$> readIORef trailers
      Just _ -> return (NextTrailersMaker (trailersFrom trailers))

-- | Was all of the body written?
data Extent = Whole | Cut
  deriving (Eq)
