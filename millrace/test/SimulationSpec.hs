-- | "Millrace.Simulation": time that jumps, runs that repeat, faults and deadlines.
module SimulationSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Exception (finally, throwIO, try)
import Control.Monad (forM, forM_, replicateM, replicateM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Either (isLeft)
import Data.IORef (modifyIORef, newIORef, readIORef)
import Data.List (isInfixOf)
import Foreign.C.Error (eMFILE)
import Millrace.Deadline
import qualified Millrace.Directory as Directory
import qualified Millrace.File as File
import qualified Millrace.File.Access as Access
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
import SimulationSupport
import Support (firstSeed, hasCode, machineSeeds, needingKnownLayout)
import System.Posix.Process (getProcessID)
import Test.Hspec

spec :: Spec
spec = describe "Millrace.Simulation" . needingKnownLayout $ do
  it "lets a day pass at once, and is never late by more than a millisecond" $ do
    outcome <- simulate (calm 1) $ do
      replicateM_ 24 (threadDelay 3600000000)
      now
    result <- resultOf outcome
    (result - 1000000000) `shouldSatisfy` (\ns -> ns >= day && ns < day + 24 * 1000000)
    durationNanoseconds (outcomeDuration outcome) `shouldSatisfy` (>= day)

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
    outcome <- simulate (calm 3) {planLatency = milliseconds 40, planBytesPerSecond = 1000000} $
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
    outcomeDuration delayed `shouldSatisfy` (> mempty)

  it "keeps deadlines and timeouts when a peer stalls" $ do
    outcome <- simulate (calm 5) {planFaultRates = [(Stall, 1000000)]} $
      withPair $ \here there -> do
        sendAll here (Char8.pack "late")
        begin <- now
        nothing <- timeout 1000000 (recv there 100)
        middle <- now
        deadline <- deadlineAfter (milliseconds 500)
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
        deadlineAfter (seconds 7) >>= setReadDeadline here
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

  it "gives the same trace when every operation fails" $ do
    let failures = replicateM_ 50 (replicateM_ 4 (forkIO one) >> threadDelay 1000)
        one =
          quietly (socket AF_INET Stream defaultProtocol >>= \s -> connect s (SockAddrInet 9 0x0100007f))
            `finally` note "failed"
    first <- simulate (troubled 27) failures
    second <- simulate (troubled 27) failures
    firstDifference (outcomeTrace first) (outcomeTrace second) `shouldBe` "one of them continues"

  it "draws from the seed" $ do
    let draws seed = simulate (calm seed) (forM [1 .. 20 :: Int] (const (chance 1000))) >>= resultOf
    one <- draws 10
    one `shouldSatisfy` all (\n -> n >= 0 && n < 1000)
    draws 10 >>= (`shouldBe` one)
    draws 11 >>= (`shouldNotBe` one)

  it "puts notes into the trace" $ do
    outcome <- simulate (calm 12) (threadDelay 2000000 >> note "here I am")
    outcomeTrace outcome `shouldSatisfy` Char8.isInfixOf (Char8.pack " here I am\n")

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
    ("signals to others", getProcessID >>= \self -> Signal.sendSignal Signal.WindowChange (fromIntegral self)),
    ("watches", Watch.withWatch ["."] Watch.Flat (\_ -> return ())),
    ("names", void (Name.lookUp (Name.host "localhost" "80"))),
    ("symbolic links", Directory.createSymbolicLink "a" "b"),
    ("locks", File.withFile "file" File.ForWriting (\file -> Access.withLockedFile file Access.Sole (return ())))
  ]

day :: Num a => a
day = 86400 * 1000000000

firstDifference :: ByteString -> ByteString -> String
firstDifference one other = case dropWhile (uncurry (==)) (zip (Char8.lines one) (Char8.lines other)) of
  (a, b) : _ -> show a ++ " and then " ++ show b
  [] -> "one of them continues"

-- The buffer of a receive that has brought bytes.
bufferOf :: Received -> IO Borrowed
bufferOf (Received buffer _) = return buffer
bufferOf EndOfStream = throwIO (userError "the stream has ended")
