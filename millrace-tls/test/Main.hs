-- | The tests of @millrace-tls@, on the backend that the environment names.
module Main (main) where

import qualified ConnectionSpec
import qualified KeyLogSpec
import qualified PeerSpec
import qualified RefusalSpec
import qualified ResumptionSpec
import Support
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  hspec . aroundAll withCredentials $ do
    describe "a connection" ConnectionSpec.spec
    describe "a refusal" RefusalSpec.spec
    describe "a session" ResumptionSpec.spec
    describe "the log of secrets" KeyLogSpec.spec
    describe "a peer" PeerSpec.spec
