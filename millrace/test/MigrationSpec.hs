-- | Threads that move between capabilities, and capabilities that come and go, while operations are in flight.
module MigrationSpec (spec) where

import BoundThreads (boundThreads)
import Control.Concurrent (setNumCapabilities)
import Control.Exception (bracket)
import Control.Monad (forM, forM_, forever, replicateM, void, when)
import Data.IORef
import Millrace.Manager
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Scenario (scenarioPasses)
import Support
import System.Mem (performMajorGC)
import Test.Hspec

spec :: Spec
spec = describe "capabilities" $ do
  it "that come and go while traffic flows disturb nothing" $ keepingCapabilities whileTrafficFlows
  it "that are new get a loop" $
    keepingCapabilities $ do
      setNumCapabilities 5
      withUnixPair $ \one other -> do
        reader <- startOn 4 (recv one 10)
        pause 10000
        sender <- startOn 3 (sendAll other (bytesAt 0 10))
        finish sender
        within 5 "the receive" (finish reader) `shouldReturn` bytesAt 0 10
      loops <- loopCount
      loops `shouldSatisfy` (>= 5)
  it "that are switched off still finish what waits on them" $
    keepingCapabilities $ do
      setNumCapabilities 2
      withUnixPair $ \one other -> do
        readers <- forM [0 .. 3] $ \capability -> startOn capability (recv one 10)
        sleepers <- forM [0 .. 3] $ \capability -> startOn capability (threadDelay 100000)
        pause 20000
        setNumCapabilities 1
        pause 20000
        -- One after the other, because a receiver might take what is meant for two.
        forM_ readers $ \_ -> sendAll other (bytesAt 0 10) >> pause 5000
        received <- within 5 "the receives" (mapM finish readers)
        received `shouldBe` replicate 4 (bytesAt 0 10)
        within 5 "the sleepers" (mapM_ finish sleepers)
  it "that are switched off: bound threads that stay there can do everything" $
    keepingCapabilities (loopCount >> boundThreads)
  it "that are switched off before their first operation: bound threads that stay there can do everything" $
    scenarioPasses "bound-before-first-operation"
  it "that are switched off while they get their loops have them later" $
    scenarioPasses "capabilities-go-while-managers-start"
  it "that are switched off: killing what waits there loses nothing" $
    keepingCapabilities $ do
      setNumCapabilities 2
      withoutLeaks $
        withUnixPair $ \one other -> do
          readers <- replicateM 20 (startOn 1 (recv one 10))
          pause 10000
          setNumCapabilities 1
          mapM_ stop readers
          sendAll other (bytesAt 0 10)
          within 5 "the receive" (recv one 10) `shouldReturn` bytesAt 0 10

whileTrafficFlows :: IO ()
whileTrafficFlows = within 60 "the traffic" . attended $ do
  over <- newIORef False
  jobs <- forM [1 .. 120] $ \number -> launch number $
    (if number `mod` 3 == 0 then withTcpPair else withUnixPair) $ \one other -> do
      far <- launch (number + 1) (echoStream other 0)
      random <- newRandom number
      near <- exchange random over one 0
      shutdown one ShutdownSend
      end <- finish far
      return (near, end)
  forM_ (take 60 (cycle [1, 2, 4, 3, 1, 4, 2])) $ \count -> setNumCapabilities count >> pause 20000
  writeIORef over True
  positions <- within 20 "the last exchanges" (mapM finish jobs)
  forM_ positions $ uncurry shouldBe
  sum (map fst positions) `shouldSatisfy` (> 100000)
  where
    launch number = if even number then start else startOn number

-- While something collects garbage ten times a second. After setNumCapabilities GHC 9.0's scheduler may leave a
-- capability without a worker, although it has threads that can run and there are idle workers. A collection takes all
-- capabilities and gives them back, and wakes none of Millrace's managers.
attended :: IO a -> IO a
attended action = bracket (start (forever (pause 100000 >> performMajorGC))) stop (const action)

exchange :: Random -> IORef Bool -> Socket -> Int -> IO Int
exchange random over s position = do
  done <- readIORef over
  if done
    then return position
    else do
      size <- between random 1 2000
      void (sendStream s position size)
      next <- receiveExactly s position size
      rest <- between random 0 3000
      when (rest > 1000) $ void (timeout rest (threadDelay 1500))
      exchange random over s next
