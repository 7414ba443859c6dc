-- Must not know: protocols.

-- |
-- The reports that observers get about an answer.
module Millrace.Http.Answer.Observer (Answer (..), RefusalReason (..)) where

import Data.ByteString (ByteString)
import Millrace.Duration (Duration)
import Millrace.Http.Exception (InvalidRequest, InvalidResponse (ApplicationTimedOut))
import Millrace.Http.Transport (SockAddr)
import Network.HTTP.Types (Status)
import Network.Wai (Request)

-- | A final response of the application or of the server. A raw response is one too, when the application has ended
-- with it.
--
-- > logged :: Answer -> IO ()
-- > logged answer = print (answerClient answer, rawPathInfo <$> answerRequest answer, answerStatus answer)
data Answer = Answer
  { -- | The client: 'Network.Wai.remoteHost' of the request if there is one.
    answerClient :: !SockAddr,
    -- | The request. @Nothing@ if the input was not the complete head of a valid request.
    answerRequest :: !(Maybe Request),
    -- | Why the request was refused. @Nothing@ if the response is the application's, and for failed applications.
    answerRefusal :: !(Maybe RefusalReason),
    -- | The first line of a refused request, as far as it arrived, without the line end. Empty if nothing arrived, or
    -- if the first bytes should have been a header of the PROXY protocol. Never longer than the longest valid line.
    answerRequestLine :: !ByteString,
    -- | With the reason phrase that the application gave. Of a raw response: the status of the head that the
    -- application sent, or 101 (Switching Protocols) if it sent none. Over HTTP\/2, 200 takes the place of 101.
    answerStatus :: !Status,
    -- | Bytes of the body; of a raw response, those behind its head. @Nothing@ if there is no body. They need not have
    -- reached the client. If the answer was cut off, this is what the system had taken by then, with an error of at
    -- most a buffer of 16 KiB.
    answerBytes :: !(Maybe Int),
    -- | Was the answer cut off, because the client left or was too slow, or because the application threw?
    answerIsCutOff :: !Bool,
    -- | From the moment when the application was called, or the request refused, until the whole response had been
    -- handed over.
    answerDuration :: !Duration
  }

-- | Why a request was refused.
data RefusalReason
  = -- | The server refused it, and did not run the application.
    RefusedAtOnce !InvalidRequest
  | -- | The application ran, and has thrown this: because the body was too large
    -- ('Network.Wai.Handler.Millrace.limitBody', 'Network.Wai.Handler.Millrace.setMaximumBodySize'), or for a reason of
    -- the application.
    RefusedLater !InvalidRequest
  | -- | The time of the application was over ('Network.Wai.Handler.Millrace.limitTime',
    -- 'Network.Wai.Handler.Millrace.setTotalTimeout'), or a deadline of something that it waited for.
    OutOfTime
  deriving (Eq)

-- | The exception that was the reason.
instance Show RefusalReason where
  showsPrec depth reason = case reason of
    RefusedAtOnce invalid -> showsPrec depth invalid
    RefusedLater invalid -> showsPrec depth invalid
    OutOfTime -> showsPrec depth ApplicationTimedOut
