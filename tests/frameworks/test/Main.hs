-- | Runs all tests of the package.
module Main (main) where

import qualified InterfaceTypes
import qualified MiddlewareSpec
import qualified ScottySpec
import qualified ServantSpec
import qualified StaticSpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, expectationFailure, hspec)
import qualified WebSocketSpec
import qualified YesodSpec

main :: IO ()
main = hSetBuffering stdout LineBuffering >> hspec (around_ limited specs)

-- A test that hangs fails, so that its name is printed.
limited :: IO () -> IO ()
limited test = timeout 180000000 test >>= maybe (expectationFailure "the test took longer than 180 s") return

specs :: Spec
specs = do
  InterfaceTypes.spec
  ScottySpec.spec
  ServantSpec.spec
  YesodSpec.spec
  MiddlewareSpec.spec
  StaticSpec.spec
  WebSocketSpec.spec
