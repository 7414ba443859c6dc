-- | "Millrace.Simulation": deadlocks, what a program leaves behind, and what is outside of a simulation.
module SimulationEndSpec (spec) where

import Control.Concurrent (forkIO, getNumCapabilities, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar)
import qualified Control.Concurrent as Base
import Control.Exception (SomeException, bracket, finally, fromException, throwIO)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void)
import qualified Data.ByteString.Char8 as Char8
import Data.Either (isLeft, isRight)
import Data.IORef (atomicModifyIORef', newIORef, readIORef, writeIORef)
import Foreign.C.Types (CInt (..), CUInt (..))
import Millrace.Manager (chosenBackend, selectBackend)
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Scenario (scenarioPasses)
import SimulationSupport
import Support (needingKnownLayout)
import System.Mem (performMajorGC)
import qualified System.Timeout as Base
import Test.Hspec

spec :: Spec
spec = describe "Millrace.Simulation" . needingKnownLayout $ do
  it "reports a deadlock, with who waits on what" $ do
    threads <- newIORef []
    outcome <- simulate (calm 6) $
      withPair $ \here there -> do
        helper <- forkIO (quietly (void (recv there 10)))
        self <- myThreadId
        writeIORef threads [drop 9 (show thread) | thread <- [helper, self]] -- "ThreadId 12"
        recv here 10
    numbers <- readIORef threads
    case outcomeResult outcome of
      Left problem | Just (Deadlock waiting) <- fromException problem -> do
        map waitingOperation waiting `shouldBe` ["recv", "recv"]
        map (show . waitingThread) waiting `shouldMatchList` numbers
      other -> expectationFailure ("no deadlock, but " ++ show other)

  it "reports a deadlock on a variable" $ do
    outcome <- simulate (calm 7) $ do
      variable <- newEmptyMVar
      -- Something refers to the variable, so that the run-time system does not find out first.
      thread <- forkIO (threadDelay 1000 >> takeMVar variable >> putMVar variable ())
      takeMVar variable `finally` killThread thread
    outcomeResult outcome `shouldSatisfy` isLeft

  it "waits for what comes from outside" $ do
    outcome <- simulate (calm 8) $ do
      answer <- newEmptyMVar
      void (forkIO (Base.threadDelay 5000 >> putMVar answer 'x'))
      takeMVar answer
    resultOf outcome >>= (`shouldBe` 'x')

  it "ends what the action leaves behind" $ do
    outcome <- simulate (calm 9) $ do
      (listener, _) <- newListener
      void (forkIO (quietly (forever (accept listener))))
      void (forkIO (quietly (threadDelay 1000000000)))
      threadDelay 1000
    resultOf outcome
    map waitingOperation (outcomeWaiting outcome) `shouldMatchList` ["accept", "timeout"]
    outcomeOpenDescriptors outcome `shouldBe` 1
    again <- simulate (calm 9) (echoes 2 2)
    outcomeResult again `shouldSatisfy` isRight

  it "lets no time pass while threads wake each other" $ do
    outcome <- simulate (calm 20) $ do
      [first, second, third] <- forM [1 .. 3 :: Int] (const newEmptyMVar)
      void (forkIO (forever (takeMVar first >>= putMVar second)))
      void (forkIO (forever (takeMVar second >>= putMVar third)))
      void (forkIO (threadDelay 1000000))
      threadDelay 1000
      begin <- now
      answers <- timeout 1000 (forM [1 .. 10 :: Int] (\number -> putMVar first number >> takeMVar third))
      end <- now
      return (answers, end - begin)
    resultOf outcome >>= (`shouldBe` (Just [1 .. 10], 0))

  it "lets no time pass while a thread is in a safe foreign call" $ do
    outcome <- simulate (calm 25) $ do
      others <- forM [1 .. 3 :: Int] (\number -> forkIO (forever (threadDelay (number * 1000))))
      times <- replicateM 20 $ do
        begin <- now
        replicateM_ 3 (c_usleep 1000)
        end <- now
        threadDelay 100000
        return (end - begin)
      mapM_ killThread others
      return times
    resultOf outcome >>= (`shouldBe` replicate 20 0)

  it "takes a safe foreign call that lasts for a wait in the real world" $ do
    outcome <- simulate (calm 26) $ do
      isOver <- newIORef False
      void (forkIO (c_usleep 60000000 >> writeIORef isOver True))
      threadDelay 3600000000
      readIORef isOver
    resultOf outcome >>= (`shouldBe` False)

  it "lets time pass for a thread that asks again and again" $ do
    outcome <- simulate (calm 21) $ do
      isOver <- newIORef False
      void (forkIO (threadDelay 1000000 >> writeIORef isOver True))
      let ask = readIORef isOver >>= \over -> unless over (Base.yield >> ask)
      ask
    resultOf outcome

  it "takes a delay of the real world's for a deadlock, and names the suspect" $ do
    outcome <- simulate (calm 23) (Base.threadDelay 10000000)
    case outcomeResult outcome of
      Left problem -> show problem `shouldContain` "Control.Concurrent.threadDelay"
      Right () -> expectationFailure "no deadlock"

  it "finds a deadlock behind delays without end" $ do
    outcome <- simulate (calm 22) (forever (threadDelay maxBound))
    case outcomeResult outcome of
      Left problem
        | Just (Deadlock waiting) <- fromException problem ->
          map waitingOperation waiting `shouldBe` ["timeout"]
      other -> expectationFailure ("no deadlock, but " ++ show (other :: Either SomeException ()))

  it "reports threads that do not end, and leaves everything working" $ do
    over <- newIORef False -- otherwise it would continue in the real world, as soon as a collection finds it
    let restless = do
          isOver' <- readIORef over
          unless isOver' $ quietly (newListener >>= void . accept . fst) >> restless
    simulate (calm 23) (forkIO restless >> threadDelay 1000) `shouldThrow` isThreadsGoOn
    writeIORef over True
    again <- simulate (calm 24) (echoes 2 2)
    outcomeResult again `shouldSatisfy` isRight
    timeout 10000000 (threadDelay 1000) >>= (`shouldBe` Just ())

  it "is not harmed by threads outside that call C and set timers, nor after it" $ do
    over <- newIORef False
    ended <- newIORef (0 :: Int)
    let goOn number = do
          void (c_usleep (fromIntegral (20000 + number * 7919 `mod` 40000)))
          quietly (threadDelay (1 + number * 104729 `mod` 10000))
          isOver <- readIORef over
          unless isOver (goOn number)
    forM_ [1 .. 150] $ \number -> forkIO (goOn number `finally` atomicModifyIORef' ended (\count -> (count + 1, ())))
    Base.threadDelay 300000
    outcomes <- forM [1 .. 4] (\seed -> simulate (calm seed) (replicateM_ 20 (threadDelay 1000)))
    writeIORef over True
    -- Those whose timers were a simulation's are ended by a collection.
    let countEnded left = do
          performMajorGC
          count <- readIORef ended
          if count == 150 || left == (0 :: Int) then return count else Base.threadDelay 100000 >> countEnded (left - 1)
    countEnded 200 >>= (`shouldBe` 150)
    map (isRight . outcomeResult) outcomes `shouldBe` replicate 4 True
    timeout 10000000 (threadDelay 1000) >>= (`shouldBe` Just ())

  it "passes exceptions on, and can be interrupted" $ do
    outcome <- simulate (calm 13) (throwIO (userError "mine")) :: IO (Outcome ())
    void (outcomeResult outcome) `shouldSatisfy` isLeft
    ended <- Base.timeout 200000 (simulate (calm 13) (forever (threadDelay 1000000)))
    void ended `shouldBe` Nothing

  it "restores the capabilities, and the real world" $ do
    enabled <- getNumCapabilities
    inside <- simulate (calm 14) getNumCapabilities >>= resultOf
    inside `shouldBe` 1
    getNumCapabilities >>= (`shouldBe` enabled)
    (one, other) <- socketPair AF_UNIX Stream defaultProtocol
    sendAll one (Char8.pack "real")
    recv other 10 >>= (`shouldBe` Char8.pack "real")
    close one >> close other
    now `shouldThrow` isOutside

  it "has no backend of its own: the program's can be asked for and selected" $ do
    outside <- chosenBackend
    inside <- simulate (calm 1) (chosenBackend <* selectBackend (Just outside)) >>= resultOf
    inside `shouldBe` outside
    scenarioPasses "choose-within-a-simulation"
  it "leaves real operations in flight alone" $
    bracket (socketPair AF_UNIX Stream defaultProtocol) (\(one, other) -> close one >> close other) $ \(one, other) ->
      do
        received <- newEmptyMVar
        void (forkIO (recv one 10 >>= putMVar received))
        Base.threadDelay 20000
        outcome <- simulate (calm 15) (echoes 3 3)
        outcomeResult outcome `shouldSatisfy` isRight
        sendAll other (Char8.pack "later")
        Base.timeout 5000000 (takeMVar received) >>= (`shouldBe` Just (Char8.pack "later"))

foreign import ccall safe "usleep" c_usleep :: CUInt -> IO CInt

isThreadsGoOn :: SimulationException -> Bool
isThreadsGoOn problem = case problem of
  ThreadsGoOn -> True
  _ -> False

isOutside :: SimulationException -> Bool
isOutside (OutsideSimulation _) = True
isOutside _ = False
