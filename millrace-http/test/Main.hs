-- | All tests of the package.
module Main (main) where

import qualified AnswerSpec
import qualified ByteRangeSpec
import qualified ChunksSpec
import qualified ClientSpec
import qualified ConnectionSpec
import qualified ContextSpec
import qualified DateSpec
import qualified EntityTagSpec
import qualified EvictionSpec
import Examples (isAbout, runExamples)
import qualified ExchangeSpec
import qualified ExpectationSpec
import qualified ExpiringSpec
import qualified FaultSpec
import qualified FileSpec
import qualified Http2AttackSpec
import qualified Http2ClientSpec
import qualified Http2ConformanceSpec
import qualified Http2LimitSpec
import qualified Http2RefusalSpec
import qualified Http2Spec
import qualified InterfaceSpec
import qualified LenienceSpec
import qualified LimitSpec
import qualified MultiplexedExamples
import qualified OnYieldSpec
import qualified ParserSpec
import qualified PipelineSpec
import qualified PresenceSpec
import qualified ProxySpec
import qualified RepresentationSpec
import qualified ResourceSpec
import qualified ResponseSpec
import ServerProcess (roleOfThisProcess)
import qualified ShutdownSpec
import SpeakingHttp2 (speakingHttp2)
import qualified StrictSpec
import Support (Speech (..), speaking)
import Test.Hspec (Spec, around_, describe)
import qualified TimeSpec

main :: IO ()
main = do
  role <- roleOfThisProcess
  case role of
    Just "resources" -> ResourceSpec.serveInherited
    Just "attacked" -> Http2AttackSpec.serveAttacked
    Just other -> fail ("no server is called " ++ other)
    Nothing -> runExamples isLeftOut specs
  where
    isLeftOut title = overHttp2 `elem` fst title && isAbout MultiplexedExamples.leftOut title

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
  Http2LimitSpec.spec
  ExpiringSpec.spec
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
  OnYieldSpec.spec
  PipelineSpec.spec
  describe "the presence of clients" PresenceSpec.spec
  ProxySpec.spec
  ResourceSpec.spec
  Http2AttackSpec.spec
  describe overHttp2 . around_ (speaking (Speech speakingHttp2)) $ MultiplexedExamples.examples >> InterfaceSpec.spec

overHttp2 :: String
overHttp2 = "over HTTP/2"
