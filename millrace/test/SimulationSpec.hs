-- | "Millrace.Simulation": time that jumps, runs that repeat, faults, deadlocks, and the remains of a program.
module SimulationSpec (spec) where

import Control.Concurrent (forkIO, getNumCapabilities, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar)
import qualified Control.Concurrent as Base
import Control.Exception (SomeException, bracket, catch, finally, fromException, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Either (fromRight, isLeft, isRight)
import Data.IORef (atomicModifyIORef', modifyIORef, newIORef, readIORef, writeIORef)
import Data.List (isInfixOf)
import Foreign.C.Error (eMFILE)
import Foreign.C.Types (CInt (..), CUInt (..))
import Millrace.Deadline
import qualified Millrace.Directory as Directory
import qualified Millrace.File as File
import qualified Millrace.File.Access as Access
import Millrace.Manager (chosenBackend, selectBackend)
import qualified Millrace.Name as Name
import qualified Millrace.Pipe as Pipe
import qualified Millrace.Process as Process
import qualified Millrace.Signal as Signal
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString
import qualified Millrace.Terminal as Terminal
import Millrace.Timer
import qualified Millrace.Watch as Watch
import Scenario (scenarioPasses)
import Support (firstSeed, hasCode, machineSeeds, needingKnownLayout)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)
import qualified System.Timeout as Base
import Test.Hspec

refusedThere :: [(String, IO ())]
refusedThere =
  [ ("processes", void (Process.runProcess (Process.command "true" []))),
    ("pipes", Pipe.withPipe (\_ _ -> return ())),
    ("named pipes", void (Pipe.openFifoForReading "fifo")),
    ("terminals", Terminal.withTerminal (\_ -> return ())),
    ("standard output", Terminal.writeStandardOutput (Char8.pack "x")),
    ("signals", Signal.withSignals [Signal.User1] (\_ -> return ())),
    -- Not harmful if they are sent: they do nothing by default.
    ("signals to this program", Signal.raiseSignal Signal.WindowChange),
    ("signals to others", getProcessID >>= \self -> Signal.sendSignal (fromIntegral self) Signal.WindowChange),
    ("watches", Watch.withWatch ["."] Watch.Flat (\_ -> return ())),
    ("names", void (Name.lookUp (Name.host "localhost" "80"))),
    ("symbolic links", Directory.createSymbolicLink "a" "b"),
    ("locks", File.withFile "file" File.ForWriting (\file -> Access.withLockedFile file Access.Sole (return ())))
  ]

foreign import ccall safe "usleep" c_usleep :: CUInt -> IO CInt

spec :: Spec
spec = describe "Millrace.Simulation" . needingKnownLayout $ do
  it "lets a day pass at once, and is never late by more than a millisecond" $ do
    outcome <- simulate (calm 1) $ do
      replicateM_ 24 (threadDelay 3600000000)
      now
    result <- resultOf outcome
    (result - 1000000000) `shouldSatisfy` (\ns -> ns >= day && ns < day + 24 * 1000000)
    outcomeNanoseconds outcome `shouldSatisfy` (>= day)

  it "refuses what it cannot simulate, and says so" $ do
    problems <- forM refusedThere $ \(name, action) -> do
      outcome <- simulate (calm 1) (try action) >>= resultOf
      return $ case outcome of
        Left problem -> (name, "no simulation" `isInfixOf` show (problem :: IOError))
        Right () -> (name, False)
    filter (not . snd) problems `shouldBe` []

  it "runs connections, and gives everything back" $ do
    outcome <- simulate (calm 2) (echoes 5 10)
    resultOf outcome >>= (`shouldBe` replicate 5 True)
    outcomeWaiting outcome `shouldBe` []
    outcomeOpenDescriptors outcome `shouldBe` 0
    outcomeBufferedBytes outcome `shouldBe` 0

  it "gives the same trace for the same seed, byte for byte" $ do
    seeds <- machineSeeds 300
    lengths <- forM seeds $ \seed -> do
      first <- simulate (troubled seed) (echoes 6 5)
      second <- simulate (troubled seed) (echoes 6 5)
      unless (outcomeTrace second == outcomeTrace first) $
        expectationFailure ("seed " ++ show seed ++ ": " ++ firstDifference (outcomeTrace first) (outcomeTrace second))
      return (ByteString.length (outcomeTrace first))
    sum lengths `shouldSatisfy` (> 300 * 2000)

  it "gives other traces for other seeds" $ do
    seed <- firstSeed
    one <- simulate (troubled seed) (echoes 6 5)
    other <- simulate (troubled (seed + 1)) (echoes 6 5)
    outcomeTrace one == outcomeTrace other `shouldBe` False

  it "knows the latency of links and their rate" $ do
    outcome <- simulate (calm 3) {planLatencyMicros = 40000, planBytesPerSecond = 1000000} $
      withPair $ \here there -> do
        begin <- now
        sendAll here (ByteString.replicate 100000 7)
        received <- receiveAll there 100000
        end <- now
        return (ByteString.length received, end - begin)
    resultOf outcome >>= (`shouldBe` (100000, 140000000))

  it "meets a fault where the plan says so" $ do
    let failing number fault = (calm 4) {planFaults = [(number, fault)]}
        program = withPair $ \here there -> do
          sendAll here (Char8.pack "hello")
          recv there 100
    -- Two sockets, connect, accept: the send is the fifth operation.
    calmly <- simulate (calm 4) program
    resultOf calmly >>= (`shouldBe` Char8.pack "hello")
    reset <- simulate (failing 5 Reset) program
    outcomeFaults reset `shouldBe` 1
    outcomeResult reset `shouldSatisfy` isLeft
    short <- simulate (failing 6 ShortTransfer) program
    resultOf short >>= (`shouldSatisfy` (`elem` [Char8.take n (Char8.pack "hello") | n <- [1 .. 5]]))
    delayed <- simulate (failing 6 Delay) program
    resultOf delayed >>= (`shouldBe` Char8.pack "hello")
    outcomeNanoseconds delayed `shouldSatisfy` (> 0)

  it "keeps deadlines and timeouts when a peer stalls" $ do
    outcome <- simulate (calm 5) {planFaultRates = [(Stall, 1000000)]} $
      withPair $ \here there -> do
        sendAll here (Char8.pack "late")
        begin <- now
        nothing <- timeout 1000000 (recv there 100)
        middle <- now
        deadline <- deadlineAfter 500000
        missed <- try (recvBefore deadline there 100) :: IO (Either IOError ByteString)
        end <- now
        late <- recv there 100
        return
          ( nothing,
            either isDeadlineError (const False) missed,
            (middle - begin) `div` 1000000,
            (end - middle) `div` 1000000,
            late
          )
    resultOf outcome >>= (`shouldBe` (Nothing, True, 1000, 500, Char8.pack "late"))

  it "keeps the deadlines of sockets" $ do
    outcome <- simulate (calm 17) $
      withPair $ \here _ -> do
        begin <- now
        deadlineAfter 7000000 >>= setReadDeadline here
        missed <- try (recv here 100) :: IO (Either IOError ByteString)
        end <- now
        return (either isDeadlineError (const False) missed, (end - begin) `div` 1000000000)
    resultOf outcome >>= (`shouldBe` (True, 7))

  it "counts borrowed buffers" $ do
    outcome <- simulate (calm 19) $
      withPair $ \here there -> do
        sendAll here (Char8.pack "twice")
        one <- recvBorrowed noDeadline there 2 bufferOf
        _ <- recvBorrowed noDeadline there 3 bufferOf
        giveBack one
    resultOf outcome
    outcomeBorrowedBuffers outcome `shouldBe` 1

  it "runs callbacks at their time, and moves and stops them" $ do
    outcome <- simulate (calm 18) $ do
      timers <- getSystemTimerManager
      fired <- newIORef []
      begin <- now
      let mark name = now >>= \end -> modifyIORef fired ((name, (end - begin) `div` 1000000000) :)
      moved <- registerTimeout timers 1000000 (mark "moved")
      stopped <- registerTimeout timers 2000000 (mark "stopped")
      void (registerTimeout timers 3600000000 (mark "first" >> threadDelay 5000000 >> mark "later"))
      updateTimeout timers moved 7200000000
      unregisterTimeout timers stopped
      threadDelay 9000000000
      reverse <$> readIORef fired
    resultOf outcome >>= (`shouldBe` [("first" :: String, 3600), ("later", 3605), ("moved", 7200)])

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

  it "gives the same trace when every operation fails" $ do
    let failures = replicateM_ 50 (replicateM_ 4 (forkIO one) >> threadDelay 1000)
        one =
          quietly (socket AF_INET Stream defaultProtocol >>= \s -> connect s (SockAddrInet 9 0x0100007f))
            `finally` note "failed"
    first <- simulate (troubled 27) failures
    second <- simulate (troubled 27) failures
    firstDifference (outcomeTrace first) (outcomeTrace second) `shouldBe` "one of them continues"

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

  it "draws from the seed" $ do
    let draws seed = simulate (calm seed) (forM [1 .. 20 :: Int] (const (chance 1000))) >>= resultOf
    one <- draws 10
    one `shouldSatisfy` all (\n -> n >= 0 && n < 1000)
    draws 10 >>= (`shouldBe` one)
    draws 11 >>= (`shouldNotBe` one)

  it "puts notes into the trace" $ do
    outcome <- simulate (calm 12) (threadDelay 2000000 >> note "here I am")
    outcomeTrace outcome `shouldSatisfy` Char8.isInfixOf (Char8.pack " here I am\n")

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

  it "has no descriptors beyond its limit" $ do
    outcome <- simulate (calm 16) {planDescriptors = 3} $ do
      sockets <- forM [1 .. 3 :: Int] (const (socket AF_INET Stream defaultProtocol))
      refused <- try (socket AF_INET Stream defaultProtocol) :: IO (Either IOError Socket)
      mapM_ close sockets
      return (isLeft refused)
    resultOf outcome >>= (`shouldBe` True)

  it "takes no number for another one that it would be if it were cut off" $ do
    let beyond = 4294967296
        limits = (calm 17) {planDescriptors = beyond + 3, planBufferBytes = beyond + 600}
    outcome <- simulate limits {planFaultRates = [(NoDescriptors, beyond)]} $ do
      refused <- try (socket AF_INET Stream defaultProtocol) :: IO (Either IOError Socket)
      return (either (hasCode eMFILE) (const False) refused)
    resultOf outcome >>= (`shouldBe` True)
    roomy <- simulate limits $ do
      pairs <- replicateM 3 (socketPair AF_UNIX Stream defaultProtocol)
      forM_ pairs $ \(one, _) -> sendAll one (Char8.replicate 100000 'x')
    resultOf roomy

isThreadsGoOn :: SimulationException -> Bool
isThreadsGoOn problem = case problem of
  ThreadsGoOn -> True
  _ -> False

day :: Num a => a
day = 86400 * 1000000000

-- | The program's result. Throws the program's exception.
resultOf :: Outcome a -> IO a
resultOf = either (throwIO :: SomeException -> IO a) return . outcomeResult

firstDifference :: ByteString -> ByteString -> String
firstDifference one other = case dropWhile (uncurry (==)) (zip (Char8.lines one) (Char8.lines other)) of
  (a, b) : _ -> show a ++ " and then " ++ show b
  [] -> "one of them continues"

quietly :: IO () -> IO ()
quietly action = action `catch` ignore
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()

isOutside :: SimulationException -> Bool
isOutside (OutsideSimulation _) = True
isOutside _ = False

newListener :: IO (Socket, SockAddr)
newListener = do
  listener <- socket AF_INET Stream defaultProtocol
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 100
  (,) listener <$> getSocketName listener

withPair :: (Socket -> Socket -> IO a) -> IO a
withPair use = bracket open (\(here, there) -> close here >> close there) (uncurry use)
  where
    open = do
      (listener, address) <- newListener
      caller <- socket AF_INET Stream defaultProtocol
      connect caller address
      (answerer, _) <- accept listener
      close listener
      return (caller, answerer)

receiveAll :: Socket -> Int -> IO ByteString
receiveAll from size
  | size <= 0 = return ByteString.empty
  | otherwise = do
    bytes <- recv from 65536
    when (ByteString.null bytes) $ throwIO (userError "the stream ended early")
    ByteString.append bytes <$> receiveAll from (size - ByteString.length bytes)

-- | Clients that each send this many messages to an echo server, each in its own thread. Returns for each whether it
-- got all of them back. On a machine with faults some do not.
echoes :: Int -> Int -> IO [Bool]
echoes clients messages = do
  (listener, address) <- newListener
  server <- forkIO $
    void $
      attempt $
        forever $ do
          (peer, _) <- accept listener
          forkIO (void (attempt (echo peer)) `finally` close peer)
  answers <- forM [1 .. clients] $ \number -> do
    answer <- newEmptyMVar
    void (forkIO (attempt (client address number) >>= putMVar answer . fromRight False))
    return answer
  results <- mapM takeMVar answers
  close listener
  killThread server
  threadDelay 200000000 -- until the last stalled byte has come
  return results
  where
    attempt :: IO a -> IO (Either SomeException a)
    attempt = try
    echo peer = do
      bytes <- recv peer 1000
      unless (ByteString.null bytes) (sendAll peer bytes >> echo peer)
    client address number = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
      deadline <- deadlineAfter 60000000
      connectBefore deadline s address
      matches <- forM [1 .. messages] $ \message -> do
        size <- (+ 1) <$> chance 3000
        let bytes = ByteString.replicate size (fromIntegral (number * 16 + message))
        sendAll s bytes
        (== bytes) <$> receiveAll s size
      return (and matches)

-- The buffer of a receive that has brought bytes.
bufferOf :: Received -> IO Borrowed
bufferOf (Received buffer _) = return buffer
bufferOf EndOfStream = throwIO (userError "the stream has ended")
