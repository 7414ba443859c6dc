-- | The managers seen from outside.
module ManagerSpec (spec) where

import Control.Concurrent (forkOn, getNumCapabilities, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (displayException, throwIO)
import Control.Monad (filterM, forM_, forever, replicateM, replicateM_, unless, void)
import Data.IORef (atomicModifyIORef', modifyIORef, newIORef, readIORef, writeIORef)
import Data.List (isPrefixOf)
import Data.Maybe (isNothing, listToMaybe)
import Millrace.Manager
import Millrace.Socket.ByteString
import Millrace.Timer
import Scenario (scenarioPasses, scenarioPrints)
import Support
import System.Environment (lookupEnv)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Manager" $ do
  it "uses the backend that MILLRACE_BACKEND names, and the first that works if it names none" $ do
    named <- lookupEnv "MILLRACE_BACKEND"
    chosen <- chosenBackend
    expected <-
      maybe
        (fmap backendName . listToMaybe <$> filterM (fmap isNothing . probeBackend) [minBound ..])
        (return . Just)
        named
    expected `shouldBe` Just (backendName chosen)
  it "knows the names of the backends" $
    map backendName [minBound ..] `shouldBe` ["hybrid", "epoll", "io_uring", "kqueue", "iocp"]
  it "finds that the backend in use works" $ (chosenBackend >>= probeBackend) `shouldReturn` Nothing
  it "has a loop for each capability" $ do
    capabilities <- getNumCapabilities
    loops <- loopCount
    loops `shouldSatisfy` (>= capabilities)
  it "accepts the selection of the running backend, and refuses another's" $ do
    running <- chosenBackend
    replicateM_ 2 (selectBackend (Just running))
    selectBackend Nothing
    forM_ (filter (/= running) [minBound ..]) $ \other -> replicateM_ 2 $ do
      problem <- failsWith (selectBackend (Just other))
      problem `shouldBe` AlreadyStarted running
      displayException problem `shouldContain` backendName running
  it "uses the backend that was selected last before the start, whatever the environment says" $
    scenarioPasses "select-before-start"
  it "refuses a backend that does not exist, and says so" $
    scenarioPrints [("MILLRACE_BACKEND", "nonsense")] "unknown-backend" ""
  it "counts what the loops do" $
    withUnixPair $ \one other -> do
      before <- counters
      reader <- start (recv one 10)
      pause 20000
      during <- counters
      inFlight during `shouldBe` inFlight before + 1
      sendAll other (bytesAt 0 10)
      void (finish reader)
      replicateM_ 10 (threadDelay 1000)
      after <- counters
      (operations after - operations before) `shouldSatisfy` (>= 12)
      (completions after - completions before) `shouldSatisfy` (>= 12)
      (parks after - parks before) `shouldSatisfy` (>= 11)
      (systemCalls after - systemCalls before) `shouldSatisfy` (>= 12)
      (waits after - waits before) `shouldSatisfy` (>= 1)
      inFlightNow `shouldBecome` inFlight before
  it "does nothing while nothing happens" $ do
    pause 20000
    before <- counters
    pause 500000
    after <- counters
    (systemCalls after - systemCalls before) `shouldSatisfy` (< 50)
  describe "atNextIteration" $ do
    it "has the manager run actions, in their order, when this thread has waited for something" $ do
      ran <- newIORef []
      besideItsManager (mapM (\number -> atNextIteration (modifyIORef ran (number :))) [1 .. 100 :: Int])
        `shouldReturn` replicate 100 True
      readIORef ran `shouldReturn` reverse [1 .. 100]
    it "continues when an action throws" $ do
      ran <- newIORef False
      besideItsManager (mapM atNextIteration [throwIO (userError "action"), writeIORef ran True])
        `shouldReturn` [True, True]
      readIORef ran `shouldReturn` True
    it "refuses while the manager sleeps, and loses nothing that it has taken" $ do
      ran <- newIORef (0 :: Int)
      threads <-
        replicateM 8 . start . fmap (length . filter id) . replicateM 2000 $
          atNextIteration (atomicModifyIORef' ran (\count -> (count + 1, ()))) <* pause 10
      taken <- sum <$> mapM finish threads
      threadDelay 1000
      readIORef ran `shouldReturn` taken
      pause 100000
      atNextIteration (return ()) `shouldReturn` False
    it "stops no capability when threads are killed at any moment in it" $ do
      random <- newRandom 1
      within 60 "the threads" . replicateM_ 400 $ do
        capability <- below random 2
        job <- startOn capability (forever (atNextIteration (return ()) >>= \taken -> unless taken (threadDelay 1)))
        below random 100 >>= pause
        stop job
      forM_ [0, 1] $ \capability -> startOn capability (threadDelay 1) >>= within 10 "another wait" . finish
  it "knows its version" $ version `shouldSatisfy` ("0.1" `isPrefixOf`)
  where
    -- Where the manager has just woken it, and so is awake itself. Returns when it has had another turn.
    besideItsManager action = do
      result <- newEmptyMVar
      void . forkOn 0 $ threadDelay 1000 >> action >>= \value -> threadDelay 1000 >> putMVar result value
      within 10 "the thread" (takeMVar result)
