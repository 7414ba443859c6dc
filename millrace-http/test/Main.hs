-- | All tests of the package.
module Main (main) where

import qualified ChunksSpec
import qualified ClientSpec
import qualified ConnectionSpec
import qualified FaultSpec
import qualified FileSpec
import qualified ParserSpec
import qualified ResponseSpec
import qualified ShutdownSpec
import qualified StrictSpec
import Test.Hspec (hspec)
import qualified TimeSpec

main :: IO ()
main = hspec $ do
  ParserSpec.spec
  ChunksSpec.spec
  StrictSpec.spec
  ConnectionSpec.spec
  ResponseSpec.spec
  FileSpec.spec
  FaultSpec.spec
  TimeSpec.spec
  ShutdownSpec.spec
  ClientSpec.spec
