-- | The specs of Warp's suite that ask a server, or that use what compat/warp has of Warp's internal interface.
module Main (main) where

import qualified ExceptionSpec
import qualified FdCacheSpec
import qualified ResponseSpec
import qualified RunSpec
import qualified SendFileSpec
import Test.Hspec
import qualified WithApplicationSpec

main :: IO ()
main = hspec $ do
  describe "Exception" ExceptionSpec.spec
  describe "FdCache" FdCacheSpec.spec
  describe "Response" ResponseSpec.spec
  describe "Run" RunSpec.spec
  describe "SendFile" SendFileSpec.spec
  describe "WithApplication" WithApplicationSpec.spec
