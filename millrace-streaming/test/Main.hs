-- | All tests of the package.
module Main (main) where

import qualified ConduitSpec
import qualified NetworkSpec
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Posix.Resource
import Test.Hspec
import TestSupport.Time (limited)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  allowDescriptors
  hspec . around_ (limited 120) $ do
    describe "Millrace.Streaming.Network" NetworkSpec.spec
    describe "Millrace.Streaming.Conduit" ConduitSpec.spec

-- A thousand connections need more than the usual 1024 descriptors.
allowDescriptors :: IO ()
allowDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}
