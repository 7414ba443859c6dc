-- | All tests of the package.
module Main (main) where

import qualified InterfaceTypes
import qualified MiddlewareSpec
import qualified ScottySpec
import qualified ServantSpec
import qualified StaticSpec
import Test.Hspec (hspec)
import qualified WebSocketSpec
import qualified YesodSpec

main :: IO ()
main = hspec $ do
  InterfaceTypes.spec
  ScottySpec.spec
  ServantSpec.spec
  YesodSpec.spec
  MiddlewareSpec.spec
  StaticSpec.spec
  WebSocketSpec.spec
