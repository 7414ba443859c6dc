-- | All tests of the package.
module Main (main) where

import qualified ConduitSpec
import qualified NetworkSpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Posix.Resource
import System.Timeout (timeout)
import Test.Hspec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  allowDescriptors
  hspec . around_ limited $ do
    describe "Millrace.Streaming.Network" NetworkSpec.spec
    describe "Millrace.Streaming.Conduit" ConduitSpec.spec

-- A test that hangs fails, so that its name is printed.
limited :: IO () -> IO ()
limited test = timeout 120000000 test >>= maybe (expectationFailure "the test took longer than 120 s") return

-- A thousand connections need more than the usual 1024 descriptors.
allowDescriptors :: IO ()
allowDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}
