-- | All tests of the package.
module Main (main) where

import qualified BalanceSpec
import qualified ChainSpec
import qualified CostSpec
import qualified ExpectSpec
import qualified HalfCloseSpec
import qualified HeadSpec
import qualified Http2FaultSpec
import qualified Http2Spec
import qualified PinnedSpec
import qualified ProblemSpec
import qualified RefusalSpec
import qualified ResetSpec
import qualified ReverseProxySpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import qualified TargetConnectionSpec
import Test.Hspec
import TestSupport.Time (limited)
import qualified TlsSpec
import qualified TrailerSpec
import qualified UpgradeSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  hspec . around_ (limited 120) $ do
    describe "heads" HeadSpec.spec
    describe "the cost of lists" CostSpec.spec
    describe "passing on" $ do
      ReverseProxySpec.spec
      TargetConnectionSpec.spec
    describe "a chain of proxies" ChainSpec.spec
    describe "refusing" RefusalSpec.spec
    describe "problems" ProblemSpec.spec
    describe "targets that authenticate connections" PinnedSpec.spec
    describe "trailers" TrailerSpec.spec
    describe "clients that expect 100 (Continue)" ExpectSpec.spec
    describe "clients that have ended their sending side" HalfCloseSpec.spec
    describe "upgrades" UpgradeSpec.spec
    describe "targets that speak HTTP/2" $ do
      Http2Spec.spec
      Http2FaultSpec.spec
    describe "targets of HTTP/2 that reset, or are silent" ResetSpec.spec
    describe "targets with TLS" TlsSpec.spec
    describe "several targets" BalanceSpec.spec
