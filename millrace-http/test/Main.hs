-- | All tests of the package.
module Main (main) where

import qualified AccessLogSpec
import qualified AnswerSpec
import qualified ByteRangeSpec
import qualified ChunksSpec
import qualified ClientSpec
import qualified ConnectionSpec
import qualified ContextSpec
import qualified ContinueSpec
import qualified DateSpec
import qualified DescriptorSpec
import qualified EarlyHintsSpec
import qualified EntityTagSpec
import qualified EventStreamSpec
import qualified EvictionSpec
import Examples (LeftOut (..), runExamples)
import qualified ExchangeFaultSpec
import qualified ExchangeSpec
import qualified ExpectationSpec
import qualified ExpiringSpec
import qualified FaultSpec
import qualified FieldSyntaxSpec
import qualified FileConditionSpec
import qualified FileRangeSpec
import qualified FileSpec
import qualified Http2Attack
import qualified Http2AttackSpec
import qualified Http2BodySpec
import qualified Http2ClientSpec
import qualified Http2ConformanceSpec
import qualified Http2ConnectSpec
import qualified Http2ConnectionSpec
import qualified Http2FieldSpec
import qualified Http2FrameAttackSpec
import qualified Http2LimitSpec
import qualified Http2PrioritySpec
import qualified Http2RefusalSpec
import qualified Http2Spec
import qualified Http2TargetSpec
import qualified InterfaceSpec
import qualified LeavingClientSpec
import qualified LenienceSpec
import qualified LimitSpec
import qualified MultiplexedExamples
import qualified OnYieldSpec
import qualified ParserSpec
import qualified PhaseLimitSpec
import qualified PipelineSpec
import qualified PresenceSpec
import qualified ProxySpec
import qualified RefusedAnswerSpec
import qualified RepresentationSpec
import qualified RequestBodySpec
import qualified RequestLimitsSpec
import qualified ResourceSpec
import qualified ResourceSupport
import qualified RespondSpec
import qualified ResponseSpec
import ServerProcess (roleOfThisProcess)
import qualified SettingSpec
import qualified ShutdownSpec
import SpeakingHttp2 (speakingHttp2)
import qualified StreamedResponseSpec
import qualified StrictSpec
import Support (Speech (..), speaking)
import Test.Hspec (Spec, around_, describe)
import qualified TimeSpec
import qualified UntilSignalSpec

main :: IO ()
main = do
  role <- roleOfThisProcess
  case role of
    Just "resources" -> ResourceSupport.serveInherited
    Just "attacked" -> Http2Attack.serveAttacked
    Just other -> fail ("no server is called " ++ other)
    Nothing -> runExamples [LeftOut (overHttp2 `elem`) (MultiplexedExamples.leftOut ++ leftOutOfSettings)] specs

specs :: Spec
specs = do
  ParserSpec.spec
  ChunksSpec.spec
  StrictSpec.spec
  LenienceSpec.spec
  describe "dates" DateSpec.spec
  describe "the syntax of fields" FieldSyntaxSpec.spec
  describe "entity tags" EntityTagSpec.spec
  describe "Range" ByteRangeSpec.spec
  Http2ClientSpec.spec
  Http2ConformanceSpec.spec
  Http2RefusalSpec.spec
  Http2TargetSpec.spec
  Http2LimitSpec.spec
  ExpiringSpec.spec
  EvictionSpec.spec
  ExpectationSpec.spec
  ConnectionSpec.spec
  RequestBodySpec.spec
  ContinueSpec.spec
  ExchangeSpec.spec
  ExchangeFaultSpec.spec
  ResponseSpec.spec
  StreamedResponseSpec.spec
  Http2Spec.spec
  Http2BodySpec.spec
  Http2FieldSpec.spec
  Http2ConnectSpec.spec
  Http2PrioritySpec.spec
  Http2ConnectionSpec.spec
  FileSpec.spec
  FileRangeSpec.spec
  FileConditionSpec.spec
  RepresentationSpec.spec
  FaultSpec.spec
  RespondSpec.spec
  LeavingClientSpec.spec
  TimeSpec.spec
  ShutdownSpec.spec
  AnswerSpec.spec
  RefusedAnswerSpec.spec
  ClientSpec.spec
  ContextSpec.spec
  EarlyHintsSpec.spec
  InterfaceSpec.spec
  SettingSpec.spec
  LimitSpec.spec
  PhaseLimitSpec.spec
  RequestLimitsSpec.spec
  EventStreamSpec.spec
  UntilSignalSpec.spec
  AccessLogSpec.spec
  OnYieldSpec.spec
  PipelineSpec.spec
  describe "the presence of clients" PresenceSpec.spec
  ProxySpec.spec
  DescriptorSpec.spec
  ResourceSpec.spec
  Http2AttackSpec.spec
  Http2FrameAttackSpec.spec
  describe overHttp2 . around_ (speaking (Speech speakingHttp2)) $ do
    MultiplexedExamples.examples
    InterfaceSpec.spec
    SettingSpec.spec

-- Examples of settings that do not hold over HTTP/2, by a part of their names, as in "MultiplexedExamples".
leftOutOfSettings :: [String]
leftOutOfSettings =
  [ "setGracefulCloseTimeout1", -- no such end of a connection
    "setNoParsePath", -- no absolute targets
    "setters without effect" -- one of them switches HTTP/2 off
  ]

overHttp2 :: String
overHttp2 = "over HTTP/2"
