-- | The guarantees of the contract that concern several operations: order, fairness, forks, the end, clocks.
module ContractSpec (spec) where

import Control.Concurrent (yield)
import Control.Concurrent.STM (atomically, check, newTVarIO, readTVar, readTVarIO, writeTVar)
import Control.Exception (bracket, finally)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf)
import GHC.Clock (getMonotonicTimeNSec)
import Millrace.Deadline
import Millrace.Directory (entryPath, exists, list)
import Millrace.File
import Millrace.File.Temporary (withTemporaryDirectory)
import Millrace.Pool
import Millrace.Signal
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Millrace.Timer as Timer
import Millrace.Watch
import Scenario (scenarioPassesWith)
import Support
import System.Posix.Signals (continueProcess, sigKILL, sigSTOP, signalProcess)
import Test.Hspec

spec :: Spec
spec = describe "the contract" $ do
  describe "order" $
    it "what an interrupted send has sent comes before all that is sent later" sentBefore
  describe "fairness" $ do
    it "connections that never pause leave their turn to other connections, accept and timers" busyConnections
    it "a flood of timers leaves their turn to connections" floodOfTimers
    it "a flood of connections leaves their turn to those that were accepted" floodOfConnections
  describe "what holds a capability" $
    it "close of a socket that lingers, for no longer than its time" lingering
  describe "fork" $ do
    it "the child has what was idle in a pool, and not what its parent's threads use" poolInChild
    it "the child gets the signals that are sent to it" signalsInChild
    it "the child shares a watch with its parent: each event goes to one of them" watchInChild
    it "deadlines hold in the child, and its parent's timers do not run there" timersInChild
  describe "the end of the program" $
    it "leaves alone what other threads have: processes, temporary directories, unwritten bytes" endOfProgram
  describe "clocks" $ do
    it "deadlines count by the monotonic clock of the system" monotonicClock
    it "time in which the process is stopped counts" stoppedProcess

-- On every path of a send: a part, then nothing more.
sentBefore :: IO ()
sentBefore = within 60 "all rounds" . forM_ [tcpPair, unixPair] $ \create -> forM_ [1 .. 20] $ \seed ->
  withPairOf create $ \one other -> do
    random <- newRandom seed
    setSocketOption one SendBuffer 65536
    victim <- start (sendAll one (ByteString.replicate 3000000 1))
    reader <- start (below random 2000 >>= pause >> receiveAll other)
    below random 4000 >>= pause
    stop victim
    sendAll one (ByteString.replicate 100000 2)
    shutdown one ShutdownSend
    received <- finish reader
    ByteString.dropWhile (== 1) received `shouldBe` ByteString.replicate 100000 2

receiveAll :: Socket -> IO ByteString.ByteString
receiveAll s = go []
  where
    go parts =
      recv s 65536 >>= \part ->
        if ByteString.null part then return (ByteString.concat (reverse parts)) else go (part : parts)

-- Runs an action while connections of the first capability exchange bytes without a pause.
amongBusyConnections :: IO a -> IO a
amongBusyConnections action =
  bracket (replicateM 8 unixPair) (mapM_ (\(one, other) -> close one >> close other)) $ \pairs -> do
    jobs <- forM (concat [[one, other] | (one, other) <- pairs]) $ \from ->
      startOn 0 (forever (sendAll from (bytesAt 0 1000) >> recv from 4000))
    action `finally` mapM_ stop jobs

busyConnections :: IO ()
busyConnections = within 60 "all of it" . withoutLeaks . amongBusyConnections $ do
  job <- startOn 0 $
    withListener $ \listener address -> forM_ [1 .. 15 :: Int] $ \_ -> do
      Timer.threadDelay 500
      server <- startOn 0 (bracket (fst <$> accept listener) close (\s -> recv s 10 >>= sendAll s))
      bracket (connectTo address) close $ \s -> sendAll s (bytesAt 0 10) >> receiveExactly s 0 10 >>= (`shouldBe` 10)
      finish server
  within 30 "what is beside them" (finish job)

-- All of them are due at the same moment. When a byte arrives, it does not wait until all have run.
floodOfTimers :: IO ()
floodOfTimers = within 60 "all of it" . withUnixPair $ \one other -> do
  variables <- startOn 0 (replicateM flood (Timer.registerDelay 400000)) >>= finish
  echo <- startOn 0 (recv other 10)
  -- From the other capability, as soon as the first timer has run.
  sender <- startOn 1 (atomically (readTVar (head variables) >>= check) >> sendAll one (bytesAt 0 10))
  counting <- startOn 0 $ finish echo >> length . filter not <$> mapM readTVarIO variables
  left <- within 20 "the byte" (finish counting)
  finish sender
  within 20 "the timers" (forM_ variables (\variable -> atomically (readTVar variable >>= check)))
  left `shouldSatisfy` (> 0)
  where
    flood = 100000

floodOfConnections :: IO ()
floodOfConnections =
  within 60 "all of it" . withoutLeaks . withListener $ \listener address -> withTcpPair $ \one other -> do
    acceptor <- startOn 0 (forever (accept listener >>= close . fst))
    clients <- replicateM 8 (startOn 1 (forever (bracket (connectTo address) close (`recv` 1))))
    echo <- startOn 0 (echoStream other 0)
    within 30 "the connection that was accepted" . forM_ [0, 10 .. 290] $ \position ->
      sendStream one position 10 >> receiveExactly one position 10
    mapM_ stop clients
    shutdown one ShutdownSend
    finish echo `shouldReturn` 300
    stop acceptor

-- The descriptor is closed on the capability whose loop releases it last. A thread on each capability records its
-- longest pause.
lingering :: IO ()
lingering = within 60 "all of it" . withListener $ \listener address -> do
  s <- socket AF_INET Stream defaultProtocol
  connect s address
  bracket (fst <$> accept listener) close $ \_ -> do
    setSocketOption s Linger 1
    -- More than the system takes on behalf of a peer that does not receive.
    late <- deadlineAfter (milliseconds 300)
    failsWith (sendAllBefore late s (ByteString.replicate 20000000 0)) >>= (`shouldSatisfy` isDeadlineError)
    longest <- newTVarIO 0
    watchers <- forM [0, 1] $ \capability -> startOn capability . forever $ do
      begin <- monotonicNanoseconds
      yield
      end <- monotonicNanoseconds
      atomically (readTVar longest >>= writeTVar longest . max (end - begin))
    startOn 0 (close s) >>= finish
    mapM_ stop watchers
    held <- readTVarIO longest
    held `shouldSatisfy` (< 5000000000)

-- Of two things one is in use by a thread that the child does not have.
poolInChild :: IO ()
poolInChild = do
  made <- newTVarIO (0 :: Int)
  let make _ = atomically (readTVar made >>= \n -> writeTVar made (n + 1) >> return n)
  withPool (poolSettings make (\_ -> return ())) {poolLimit = 2} $ \pool -> withResource pool $ \_ -> do
    idleOne <- withResource pool return
    inChild $ do
      soon <- deadlineAfter (milliseconds 20)
      found <- withResource pool $ \thing -> do
        problem <- failsWith (withResourceBefore soon pool return)
        require (isDeadlineError problem) (show problem)
        return thing
      require (found == idleOne) "another one"

signalsInChild :: IO ()
signalsInChild = withSignals [User1] $ \signals -> do
  inChild (raiseSignal User1 >> nextSignal signals >>= \got -> require (got == User1) (show got))
  now <- deadlineAfter (seconds 0)
  nothingIfLate (nextSignalBefore now signals) `shouldReturn` Nothing

watchInChild :: IO ()
watchInChild = withTemporaryDirectory "." "watch" $ \root -> withWatch [root] Flat $ \watch -> do
  withFile (root ++ "/new") ForWriting (\_ -> return ())
  inChild (nextEvents watch >>= \events -> require (Event (root ++ "/new") Created IsFile `elem` events) (show events))
  later <- deadlineAfter (milliseconds 20)
  failsWith (nextEventsBefore later watch) >>= (`shouldSatisfy` isDeadlineError)

timersInChild :: IO ()
timersInChild = withUnixPair $ \one _ -> do
  deadline <- deadlineAfter (milliseconds 50)
  variable <- Timer.registerDelay 30000
  inChild $ do
    problem <- failsWith (recvBefore deadline one 10)
    require (isDeadlineError problem) (show problem)
    isLate <- (>= deadlineNanoseconds deadline) <$> monotonicNanoseconds
    require isLate "too early"
    hasRun <- readTVarIO variable
    require (not hasRun) "a timer of the parent has run"
  atomically (readTVar variable >>= check)

endOfProgram :: IO ()
endOfProgram = withTemporaryDirectory "." "end" $ \root -> do
  scenarioPassesWith [("MILLRACE_TEST_PATH", root)] "end-beside-others"
  child <- read . Char8.unpack <$> withFile (root ++ "/child") ForReading (\file -> readAt file 0 20)
  isThere <- exists ("/proc/" ++ show child)
  when isThere $ signalProcess sigKILL (fromInteger child)
  isThere `shouldBe` True
  names <- map entryPath <$> list root
  length (filter (isInfixOf "temporary") (map (drop (length root)) names)) `shouldBe` 1
  withFile (root ++ "/written") ForReading fileSize `shouldReturn` 0

monotonicClock :: IO ()
monotonicClock = replicateM_ 100 $ do
  early <- getMonotonicTimeNSec
  ours <- monotonicNanoseconds
  late <- getMonotonicTimeNSec
  unless (early <= ours && ours <= late) $ expectationFailure (show (early, ours, late))

-- If the time did not count, the child's delay would end later by the time that it was stopped, two seconds or more.
stoppedProcess :: IO ()
stoppedProcess = withUnixPair $ \one other -> do
  child <- forked $ do
    begin <- monotonicNanoseconds
    delay <- start (Timer.threadDelay 3000000)
    sendAll one (bytesAt 0 1)
    finish delay
    end <- monotonicNanoseconds
    sendAll one (Char8.pack (show (end - begin)))
  _ <- within 10 "the child" (receiveExactly other 0 1)
  -- Its manager must be asleep: systems take only relative times, so one that is stopped when it has computed its own
  -- sleeps too long.
  pause 300000
  begin <- monotonicNanoseconds
  signalProcess sigSTOP child
  pause 2000000
  signalProcess continueProcess child
  end <- monotonicNanoseconds
  taken <- within 15 "the child" (read . Char8.unpack <$> recv other 100)
  succeeds child
  -- A busy machine may have stopped it for longer than the delay.
  unless (taken < max 3000000000 (end - begin) + 1500000000) $
    expectationFailure ("it took " ++ show taken ++ ", " ++ show (end - begin) ++ " of them stopped")
