-- | Runs every test on the backend that @MILLRACE_BACKEND@ names, with two carriers.
module Main (main) where

import qualified CallSpec
import qualified CallbackSpec
import qualified InterruptSpec
import Millrace.Foreign (startCarriers)
import qualified ProcessSpec
import System.Environment (getArgs, withArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec (around_, hspec)
import TestSupport.Time (limited)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  arguments <- getArgs
  startCarriers 2
  case arguments of
    ["--leave-calls-in-flight"] -> ProcessSpec.leaveCallsInFlight
    _ -> withArgs arguments . hspec . around_ (limited 180) $ do
      CallSpec.spec
      InterruptSpec.spec
      CallbackSpec.spec
      ProcessSpec.spec
