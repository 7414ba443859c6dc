-- | Runs every test on the backend that @MILLRACE_BACKEND@ names, with two carriers.
module Main (main) where

import System.Environment (getArgs, withArgs)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Test.Hspec (hspec)

import Millrace.Foreign (startCarriers)

import qualified CallSpec
import qualified CallbackSpec
import qualified InterruptSpec
import qualified ProcessSpec

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  arguments <- getArgs
  startCarriers 2
  case arguments of
    ["--leave-calls-in-flight"] -> ProcessSpec.leaveCallsInFlight
    _ -> withArgs arguments $ hspec $ do
      CallSpec.spec
      InterruptSpec.spec
      CallbackSpec.spec
      ProcessSpec.spec
