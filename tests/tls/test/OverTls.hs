-- | The examples of millrace-http's tests that hold for every carrier, over TLS.
module Main (main) where

import qualified AnswerSpec
import qualified ContextSpec
import Examples (LeftOut (..), runExamples)
import qualified FaultSpec
import qualified FileConditionSpec
import qualified FileRangeSpec
import qualified FileSpec
import qualified LeavingClientSpec
import qualified LimitSpec
import qualified PhaseLimitSpec
import qualified PipelineSpec
import qualified RefusedAnswerSpec
import qualified RespondSpec
import qualified ResponseSpec
import qualified StreamedResponseSpec
import qualified StrictSpec
import Test.Hspec (Spec)
import qualified TimeSpec

main :: IO ()
main = runExamples [LeftOut (const True) leftOut] specs

-- Examples that do not concern the transport.
leftOut :: [String]
leftOut =
  [ "over memory", -- they use no connection
    "on a connection that is not protected",
    "on a plain connection",
    "has the reason phrase that was sent", -- one of them is for a connection without protection
    -- They begin with bytes that are not TLS.
    "the proxy",
    -- They see connections that end before a handshake.
    "onOpen",
    "the connection is closed, and counted no longer"
  ]

specs :: Spec
specs = do
  StrictSpec.spec
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
