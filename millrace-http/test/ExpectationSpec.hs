-- | Clients that wait for 100 (Continue) while several threads work for them.
module ExpectationSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Monad (replicateM_, void)
import Data.IORef
import Data.Primitive.ByteArray (newByteArray)
import Millrace.Http.Expectation
import Millrace.Internal.AtomicWord (AtomicWord (..))
import Support (within)
import Test.Hspec

spec :: Spec
spec = describe "an expectation" $ do
  it "is fulfilled once, and then there is none" $ do
    expectation <- newExpectation True
    told <- newIORef (0 :: Int)
    replicateM_ 2 (fulfil expectation (modifyIORef told (+ 1)))
    readIORef told `shouldReturn` 1
    dismiss expectation `shouldReturn` False
  it "that is dismissed is not fulfilled" $ do
    expectation <- newExpectation True
    dismiss expectation `shouldReturn` True
    fulfil expectation (expectationFailure "told")
    dismiss expectation `shouldReturn` False
  it "that nobody has is not fulfilled" $ do
    expectation <- newExpectation False
    fulfil expectation (expectationFailure "told")
    dismiss expectation `shouldReturn` False
  it "that is just being fulfilled is waited for by who dismisses it" $ do
    expectation <- newExpectation True
    (begun, told) <- (,) <$> newEmptyMVar <*> newIORef False
    void (forkIO (fulfil expectation (putMVar begun () >> threadDelay 50000 >> writeIORef told True)))
    takeMVar begun
    within "the end of it" (dismiss expectation) `shouldReturn` False
    readIORef told `shouldReturn` True
  where
    newExpectation waits = do
      array <- newByteArray 16
      let expectation = Expectation (AtomicWord array 1)
      expectation <$ (if waits then startExpecting else expectNothing) expectation
