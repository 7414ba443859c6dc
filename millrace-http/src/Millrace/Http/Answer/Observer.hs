-- |
-- What can be told of an answer once it has been given. Must not know: protocols.
module Millrace.Http.Answer.Observer (Answer (..)) where

import Data.ByteString (ByteString)
import Data.Word (Word64)
import Millrace.Http.Exception (InvalidRequest)
import Millrace.Http.Transport (SockAddr)
import Network.HTTP.Types (Status)
import Network.Wai (Request)

-- | A final response, of the application's or of the server's own.
--
-- > logged :: Answer -> IO ()
-- > logged answer = print (answerClient answer, rawPathInfo <$> answerRequest answer, answerStatus answer)
--
-- @since 0.1.0
data Answer = Answer
  { -- | Who asked: 'Network.Wai.remoteHost' of the request if there is one.
    answerClient :: !SockAddr,
    -- | What was asked. @Nothing@ if what came is not the whole head of a valid request.
    answerRequest :: !(Maybe Request),
    -- | Why the server refused it without running the application; @Nothing@ if the application ran.
    answerRefusal :: !(Maybe InvalidRequest),
    -- | Of a refused request: what has come of its first line, as it came, without the line end. Empty if nothing has, and
    -- where the first bytes were to be a header of the PROXY protocol. No longer than the longest valid line.
    answerRequestLine :: !ByteString,
    -- | With the reason phrase as it was given.
    answerStatus :: !Status,
    -- | Bytes of its body; @Nothing@ if it has none. They need not have reached the client. Of an answer that was cut off,
    -- those that the system had taken by then, give or take what fits into a buffer of 16 KiB.
    answerBytes :: !(Maybe Int),
    -- | It ended before its end: the client left or was too slow, or the application threw.
    answerIsCutOff :: !Bool,
    -- | From the moment when the application was called (or the request refused) to that when all of the response had been
    -- handed over.
    answerNanoseconds :: !Word64
  }
