-- | All tests of the package.
module Main (main) where

import qualified AnswerSpec
import qualified ByteRangeSpec
import qualified ChunksSpec
import qualified ClientSpec
import qualified ConnectionSpec
import qualified ContextSpec
import Data.List (isInfixOf)
import qualified DateSpec
import qualified EarlyFlushSpec
import qualified EntityTagSpec
import qualified EvictionSpec
import qualified ExchangeSpec
import qualified ExpectationSpec
import qualified ExpiringSpec
import qualified FaultSpec
import qualified FileSpec
import qualified Http2AttackSpec
import qualified Http2ClientSpec
import qualified Http2ConformanceSpec
import qualified Http2RefusalSpec
import qualified Http2Spec
import qualified InterfaceSpec
import qualified LenienceSpec
import qualified LimitSpec
import qualified ParserSpec
import qualified PipelineSpec
import qualified ProxySpec
import qualified RepresentationSpec
import qualified ResourceSpec
import qualified ResponseSpec
import ServerProcess (roleOfThisProcess)
import qualified ShutdownSpec
import SpeakingHttp2 (speakingHttp2)
import qualified StrictSpec
import Support (Speech (..), speaking)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, describe, expectationFailure)
import Test.Hspec.Runner (Config (..), defaultConfig, hspecWith)
import qualified TimeSpec

main :: IO ()
main = do
  -- So that the last line of an output that ends too early says where.
  hSetBuffering stdout LineBuffering
  role <- roleOfThisProcess
  case role of
    Just "resources" -> ResourceSpec.serveInherited
    Just "attacked" -> Http2AttackSpec.serveAttacked
    Just other -> fail ("no server is called " ++ other)
    Nothing -> hspecWith defaultConfig {configSkipPredicate = Just isLeftOut} (around_ limited specs)
  where
    isLeftOut (groups, name) = overHttp2 `elem` groups && any (\part -> any (part `isInfixOf`) (name : groups)) leftOut

-- A test that hangs fails, with its name.
limited :: IO () -> IO ()
limited test = timeout 180000000 test >>= maybe (expectationFailure "not done after 180 s") return

specs :: Spec
specs = do
  ParserSpec.spec
  ChunksSpec.spec
  StrictSpec.spec
  LenienceSpec.spec
  describe "dates" DateSpec.spec
  describe "entity tags" EntityTagSpec.spec
  describe "Range" ByteRangeSpec.spec
  Http2ClientSpec.spec
  Http2ConformanceSpec.spec
  Http2RefusalSpec.spec
  ExpiringSpec.spec
  EarlyFlushSpec.spec
  EvictionSpec.spec
  ExpectationSpec.spec
  ConnectionSpec.spec
  ExchangeSpec.spec
  ResponseSpec.spec
  Http2Spec.spec
  FileSpec.spec
  RepresentationSpec.spec
  FaultSpec.spec
  TimeSpec.spec
  ShutdownSpec.spec
  AnswerSpec.spec
  ClientSpec.spec
  ContextSpec.spec
  InterfaceSpec.spec
  LimitSpec.spec
  PipelineSpec.spec
  ProxySpec.spec
  ResourceSpec.spec
  Http2AttackSpec.spec
  describe overHttp2 (around_ (speaking (Speech speakingHttp2)) specsOfBoth)

overHttp2 :: String
overHttp2 = "over HTTP/2"

-- The groups that speak of requests and responses. They run over HTTP/2 as well, with a client that translates what they send and
-- receive ("SpeakingHttp2"). The other groups are about HTTP/1: parsing and chunks, early flushes, the proxy's header, shutting
-- down, descriptors that are used up, lenience. What HTTP/2 has instead is in the Http2 groups.
specsOfBoth :: Spec
specsOfBoth = do
  ConnectionSpec.spec
  ResponseSpec.spec
  FileSpec.spec
  FaultSpec.spec
  TimeSpec.spec
  AnswerSpec.spec
  ContextSpec.spec
  InterfaceSpec.spec
  LimitSpec.spec
  PipelineSpec.spec

-- Examples of these groups that do not hold over HTTP/2, by a part of their names.
leftOut :: [String]
leftOut =
  [ -- Bytes that are no request of HTTP/1, and heads that are cut off or slow: "Http2RefusalSpec" and "Http2AttackSpec" have HTTP/2's.
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
    -- The end of the connection, of which a response of HTTP/1 says that it comes, or which is the end of a body. Here the stream ends.
    "HTTP/1.0 with keep-alive keeps it",
    "the application may close",
    "the application's close counts",
    "other options of the application's",
    "too long to skip",
    "chunked ones too",
    "only of its beginning, says so",
    "and the connection is closed",
    "which says that the connection ends",
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
    "setGracefulCloseTimeout1",
    -- Requests that are sent before the last one is answered: over HTTP/2 they are streams at a time, and "Http2Spec" has them. The client here
    -- sends one when the last one is answered, and these examples wait for what comes of the others.
    "an application that stops waiting",
    "cut off while its answers are being sent",
    -- HTTP/2 has no reason phrases, no absolute targets and no version 1.0, and needs an extended CONNECT for raw responses.
    "status and reason are the application's",
    "in the reason",
    "setNoParsePath",
    "is not sent to HTTP/1.0",
    "before the application switches protocols",
    "cannot be sent to when they are over",
    "with what had arrived",
    "setOnAnswer, of a raw response",
    "setters without effect",
    -- Fields and pieces are counted as they come, and those of HTTP/2 are others than what the examples have written.
    "have the length the client gave",
    "setMaximumHeaderCount",
    "setMaxTotalHeaderLength",
    "has begun to send the body",
    "is not sent when the body is there already",
    "has read what had come of it"
  ]
