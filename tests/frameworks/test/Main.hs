-- | Runs all tests of the package.
module Main (main) where

import Clients (overHttp2)
import Data.List (isInfixOf)
import qualified InterfaceTypes
import qualified MiddlewareSpec
import qualified ScottySpec
import qualified ServantSpec
import qualified StaticSpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, describe, expectationFailure)
import Test.Hspec.Runner (Config (..), defaultConfig, hspecWith)
import qualified WebSocketSpec
import qualified YesodSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  hspecWith defaultConfig {configSkipPredicate = Just isLeftOut} . around_ limited $ do
    InterfaceTypes.spec
    specs
    describe "over HTTP/2" (around_ overHttp2 specs)
  where
    isLeftOut (groups, name) = "over HTTP/2" `elem` groups && any (`isInfixOf` name) leftOut

-- Examples whose outcome tells the version of HTTP.
leftOut :: [String]
leftOut = ["the request logger logs"]

-- A test that hangs fails, so that its name is printed.
limited :: IO () -> IO ()
limited test = timeout 180000000 test >>= maybe (expectationFailure "the test took longer than 180 s") return

specs :: Spec
specs = do
  ScottySpec.spec
  ServantSpec.spec
  YesodSpec.spec
  MiddlewareSpec.spec
  StaticSpec.spec
  WebSocketSpec.spec
