-- | Runs all tests of the package.
module Main (main) where

import Clients (overHttp2)
import Examples (LeftOut (..), runExamples)
import qualified InterfaceTypes
import qualified MiddlewareSpec
import qualified ScottySpec
import qualified ServantSpec
import qualified StaticSpec
import Test.Hspec (Spec, around_, describe)
import qualified WebSocketSpec
import qualified YesodSpec

main :: IO ()
main = runExamples [LeftOut ("over HTTP/2" `elem`) leftOut] $ do
  InterfaceTypes.spec
  specs
  describe "over HTTP/2" (around_ overHttp2 specs)

-- Examples whose outcome tells the version of HTTP.
leftOut :: [String]
leftOut = ["the request logger logs"]

specs :: Spec
specs = do
  ScottySpec.spec
  ServantSpec.spec
  YesodSpec.spec
  MiddlewareSpec.spec
  StaticSpec.spec
  WebSocketSpec.spec
