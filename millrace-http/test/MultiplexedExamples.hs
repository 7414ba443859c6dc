-- | The examples that also hold where a connection carries many requests at a time: over HTTP\/2 here, and over HTTP\/3
-- in another package. A client translates what they send and receive ("SpeakingHttp2").
module MultiplexedExamples (examples, leftOut) where

import qualified AnswerSpec
import qualified ConnectionSpec
import qualified ContextSpec
import qualified ContinueSpec
import qualified FaultSpec
import qualified FileConditionSpec
import qualified FileRangeSpec
import qualified FileSpec
import qualified LeavingClientSpec
import qualified LimitSpec
import qualified PhaseLimitSpec
import qualified PipelineSpec
import qualified RefusedAnswerSpec
import qualified RequestBodySpec
import qualified RespondSpec
import qualified ResponseSpec
import qualified StreamedResponseSpec
import Test.Hspec (Spec)
import qualified TimeSpec

-- | The groups that speak of requests and responses. The other groups are about HTTP\/1: parsing and chunks, early
-- flushes, the proxy's header, shutting down, descriptors that are used up, lenience.
examples :: Spec
examples = do
  ConnectionSpec.spec
  RequestBodySpec.spec
  ContinueSpec.spec
  ResponseSpec.spec
  StreamedResponseSpec.spec
  FileSpec.spec
  FileRangeSpec.spec
  FileConditionSpec.spec
  FaultSpec.spec
  RespondSpec.spec
  LeavingClientSpec.spec
  TimeSpec.spec
  AnswerSpec.spec
  RefusedAnswerSpec.spec
  ContextSpec.spec
  LimitSpec.spec
  PhaseLimitSpec.spec
  PipelineSpec.spec

-- | Examples of these groups that do not hold there, by a part of their names.
leftOut :: [String]
leftOut =
  [ -- Bytes that are no request of HTTP/1, and heads that are cut off or slow: "Http2RefusalSpec" and "Http2AttackSpec"
    -- have HTTP/2's.
    "setOnAnswer, of what is refused",
    "to bad requests too",
    "refuses an invalid one",
    "malformed",
    "broken",
    "bad requests are reported as InvalidRequest",
    "a HEAD that is refused with 400",
    "a head that stops",
    "a head that dribbles",
    "setHeaderTimeout",
    "are no request that was cut off",
    "does not hold back the answer while it waits for something",
    "is told of refused requests",
    -- The end of the connection, of which a response of HTTP/1 says that it comes, or which is the end of a body. Here
    -- the stream ends.
    "HTTP/1.0 with keep-alive keeps it",
    "the application may close",
    "the application's close counts",
    "other options of the application's",
    "too long to skip",
    "chunked ones too",
    "only of its beginning, says so",
    "and the connection is closed",
    "which ends the connection",
    "but has been flushed",
    "is not sent after the response has begun",
    "and ends with the connection on HTTP/1.0",
    "2xx to CONNECT",
    "requests behind the last one that is answered",
    "in the middle of the body",
    "with what it returns, which is lazy",
    "a second response is refused",
    "setMaximumRequests",
    "setMaximumBodyFlush",
    -- Requests that are sent before the last one is answered: over HTTP/2 they are streams at a time, and "Http2Spec"
    -- has them. The client here sends one when the last one is answered, and these examples wait for what comes of the
    -- others.
    "an application that stops waiting",
    "cut off while its answers are being sent",
    -- HTTP/2 has no reason phrases, no absolute targets and no version 1.0, and needs an extended CONNECT for raw
    -- responses.
    "status and reason are the application's",
    "in the reason",
    "is not sent to HTTP/1.0",
    "before the application switches protocols",
    "cannot be sent to when they are over",
    "with what had arrived",
    "setOnAnswer, of a raw response",
    -- Fields and pieces are counted as they come, and those of HTTP/2 are others than what the examples have written.
    "have the length the client gave",
    "setMaximumHeaderCount",
    "setMaxTotalHeaderLength",
    "has begun to send the body",
    "is not sent when the body is there already",
    "has read what had come of it"
  ]
