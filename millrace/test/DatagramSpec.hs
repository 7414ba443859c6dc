{-# LANGUAGE RankNTypes #-}

-- | "Millrace.Socket.Datagram": over loopback, and on a simulated machine that loses, doubles and reorders.
module DatagramSpec (spec) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Exception (bracket, throwIO, try)
import Control.Monad (forM_, replicateM, replicateM_, unless, void, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.List (nub, sort)
import Foreign.C.Error (eCONNREFUSED, eNOMSG)
import Foreign.C.Types (CInt)
import Millrace.Deadline
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Datagram
import Millrace.Timer
import Support
import System.CPUTime (getCPUTime)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Socket.Datagram" $ do
  describe "over loopback" $ do
    onSockets id

    it "takes messages of senders without a name" $
      withPairOf (socketPair AF_UNIX Datagram defaultProtocol) $ \here there -> do
        sendAll here (Char8.pack "nameless")
        recvFrom there 100 `shouldReturn` (Char8.pack "nameless", SockAddrUnix "")
    it "knows senders that are in no file system" $
      withAbstractSockets Datagram $ \here _ there from -> do
        getSocketName here >>= sendAllTo there (Char8.pack "from nowhere")
        recvFrom here 100 `shouldReturn` (Char8.pack "from nowhere", from)
    it "waits while the queue of a Unix socket is full without using the processor" fullQueue
    it "ends every kind of receive, before and after, when the socket is shut down for receiving" $
      withPairOf (socketPair AF_UNIX Datagram defaultProtocol) $ \here _ -> do
        let receives = [recv here 10, recv here 20000, fst <$> recvFrom here 10]
        waiting <- mapM start receives
        descriptor <- start (recvFd here)
        pause 20000
        shutdown here ShutdownReceive
        within 5 "the receives" (mapM finish waiting) `shouldReturn` map (const (Char8.pack "")) receives
        within 5 "later ones" (sequence receives) `shouldReturn` map (const (Char8.pack "")) receives
        within 5 "recvFd" (outcomeOf descriptor) >>= (`shouldSatisfy` isErrno eNOMSG)
    it "sends one message at a time, however large it is and in however many pieces" $
      forM_ [Datagram, SeqPacket] $ \kind ->
        withPairOf (socketPair AF_UNIX kind defaultProtocol) $ \here there -> do
          setSocketOption here SendBuffer 400000
          let large = bytesAt 0 300000
              inPieces size = [bytesAt position size | position <- [0, size .. 300000 - size]]
          forM_
            [sendAll here large, sendMany here (inPieces 100000), sendMany here (inPieces 100), sendMany here [large]]
            $ \sending ->
              do
                sender <- start sending
                message <- recv there 400000
                checkFrom 0 message `shouldReturn` 300000
                finish sender
    it "says to whom it could not send" $
      withSockets $ \here _ _ -> do
        let nowhere = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))
        problem <- failsWith (sendAllTo here (Char8.pack "x") nowhere) :: IO IOError
        show problem `shouldContain` show nowhere
    it "takes nothing in the queue of errors for a message, and waits without using the processor" errorQueue
    it "loses no message to an exception that races with its arrival" $
      raceWithArrival (`recvFrom` 100) fst (\there -> fst <$> recvFrom there 100)
    it "loses no message of a peer, and takes none for two or two for one" $ do
      raceWithArrival (`recv` 100) id (`recv` 20000)
      raceWithArrival (`recv` 100) id (\there -> fst <$> recvFrom there 100)
  describe "on a simulated machine" . needingKnownLayout $ do
    onSockets (simulate (calm 1) >=> resultOf)

    it "loses some, where the plan says so" $ do
      (arrived, faults) <- messagesWith Loss
      length arrived `shouldBe` count - faults
      arrived `shouldBe` sort arrived

    it "doubles some" $ do
      (arrived, faults) <- messagesWith Duplication
      length arrived `shouldBe` count + faults
      nub arrived `shouldBe` [1 .. count]

    it "lets some be overtaken" $ do
      (arrived, faults) <- messagesWith Overtaken
      faults `shouldSatisfy` (> 0)
      sort arrived `shouldBe` [1 .. count]
      arrived `shouldSatisfy` (/= [1 .. count])

    it "gives the same trace for the same seed" $
      forSeeds 100 $ \seed -> do
        let machine = simulate (troubled seed) (try exchange :: IO (Either IOError [Int]))
        first <- machine
        second <- machine
        unless (outcomeTrace first == outcomeTrace second) $ expectationFailure ("seed " ++ show seed)
        outcomeOpenDescriptors second `shouldBe` 0

-- The examples that must pass on every network.
onSockets :: (forall a. IO a -> IO a) -> Spec
onSockets run = do
  it "carries messages there and back, apart from each other" $ do
    answers <- run $
      withSockets $ \here there address -> do
        forM_ ["one", "", "three"] $ \text -> sendTo here (Char8.pack text) address
        replicateM_ 3 (recvFrom there 100 >>= uncurry (sendTo there))
        replicateM 3 (fst <$> recvFrom here 100)
    map Char8.unpack answers `shouldBe` ["one", "", "three"]

  it "cuts off what is too long" $ do
    received <- run $
      withSockets $ \here there address -> do
        sendAllTo here (Char8.pack "a long message") address
        fst <$> recvFrom there 6
    received `shouldBe` Char8.pack "a long"

  it "waits, up to a deadline" $ do
    outcome <- run $
      withSockets $ \_ there _ -> do
        deadline <- deadlineAfter (milliseconds 10)
        try (recvFromBefore deadline there 100)
    either isDeadlineError (const False) outcome `shouldBe` True

  it "loses no message when a waiting thread is interrupted" $ do
    received <- run $
      withSockets $ \here there address -> do
        waiter <- forkIO (void (recvFrom there 100))
        threadDelay 10000
        killThread waiter
        sendAllTo here (Char8.pack "still here") address
        fst <$> recvFrom there 100
    received `shouldBe` Char8.pack "still here"

  it "wakes every waiting thread when the socket is closed" $ do
    outcome <- run $
      withSockets $ \_ there _ -> do
        ended <- newEmptyMVar
        void $ forkIO $ (try (void (recvFrom there 100)) :: IO (Either IOError ())) >>= putMVar ended
        threadDelay 10000
        close there
        takeMVar ended
    either (const True) (const False) outcome `shouldBe` True

  it "ends when the socket is shut down for receiving" $ do
    (received, later, peer) <- within 5 "the receives" $
      run $
        withSockets $ \here _ address -> do
          connect here address
          ended <- newEmptyMVar
          void $ forkIO (recvFrom here 100 >>= putMVar ended)
          threadDelay 10000
          shutdown here ShutdownReceive
          received <- takeMVar ended
          later <- recvFrom here 100
          return (received, later, address)
    [received, later] `shouldBe` replicate 2 (Char8.pack "", peer)

  it "tells the peer of a connection" $ do
    (received, peer) <- run $
      withTcpPair $ \here there -> do
        sendAll here (bytesAt 0 10)
        (,) <$> recvFrom there 100 <*> getSocketName here
    received `shouldBe` (bytesAt 0 10, peer)

  it "has peers, too" $ do
    received <- run $
      withSockets $ \here there address -> do
        connect here address
        sendAll here (Char8.pack "to the peer")
        (message, sender) <- recvFrom there 100
        sendAllTo there (message <> Char8.pack ", and back") sender
        recv here 100
    received `shouldBe` Char8.pack "to the peer, and back"

-- Two threads receive, messages are sent to them, and both are killed at once, again and again. Whatever they have not
-- returned another thread receives. The messages are taken out of what they return later, since code behind a receive
-- could lose them.
raceWithArrival :: (Socket -> IO a) -> (a -> ByteString) -> (Socket -> IO ByteString) -> IO ()
raceWithArrival receive messageOf receiveRest = within 60 "all races" $
  withSockets $ \here there address -> do
    getSocketName here >>= connect there
    random <- newRandom 17
    forM_ [1 .. 2000 :: Int] $ \turn -> do
      victims <- replicateM 2 (start (receive there))
      below random 4 >>= \turns -> replicateM_ turns yield
      let sent = [Char8.pack (replicate number 'x' ++ show turn) | number <- [0, 1]]
      forM_ sent $ \message -> sendAllTo here message address
      below random 6 >>= \turns -> replicateM_ turns yield
      mapM_ stop victims
      received <- concatMap (either (const []) (pure . messageOf)) <$> mapM outcomeOf victims
      rest <- replicateM (length sent - length received) (within 5 "a message" (receiveRest there))
      sort (received ++ rest) `shouldBe` sort sent

-- Each message comes from another socket: the memory of a single socket would be full before the queue.
fullQueue :: IO ()
fullQueue = within 60 "the last message" $
  withAbstractSockets Datagram $ \_ _ there address -> do
    let message = Char8.pack "x"
        sendNext sent = do
          sentInTime <- bracket newSender close $ \s -> timeout 300000 (sendAllTo s message address)
          maybe (return sent) (\() -> sendNext (sent + 1)) sentInTime
    sent <- sendNext (0 :: Int)
    bracket newSender close $ \s -> do
      late <- start (sendAllTo s message address)
      before <- getCPUTime
      pause 300000
      after <- getCPUTime
      isOver late `shouldReturn` False
      (after - before) `shouldSatisfy` (< 100 * 1000000000) -- picoseconds
      deadline <- deadlineAfter (milliseconds 50)
      problem <- failsWith (sendAllToBefore deadline s message address)
      problem `shouldSatisfy` isDeadlineError
      replicateM_ sent (recvFrom there 10)
      within 5 "the late message" (finish late)
      fst <$> recvFrom there 10 `shouldReturn` message
  where
    newSender = socket AF_UNIX Datagram defaultProtocol

-- Somebody may have asked the system to keep errors, which poll(2) reports as long as they are there.
errorQueue :: IO ()
errorQueue = within 20 "the message" $
  withSockets $ \here there address -> do
    nowhere <- withSockets $ \_ _ gone -> return gone
    setSockOpt here keepsErrors (1 :: CInt)
    sendAllTo here (Char8.pack "x") nowhere
    problem <- failsWith (recvFrom here 10)
    problem `shouldSatisfy` hasCode eCONNREFUSED
    deadline <- deadlineAfter (milliseconds 50)
    late <- failsWith (recvFromBefore deadline here 10)
    late `shouldSatisfy` isDeadlineError
    receiver <- start (recvFrom here 10)
    before <- getCPUTime
    pause 300000
    after <- getCPUTime
    isOver receiver `shouldReturn` False
    (after - before) `shouldSatisfy` (< 100 * 1000000000) -- picoseconds
    getSocketName here >>= sendAllTo there (Char8.pack "still here")
    finish receiver `shouldReturn` (Char8.pack "still here", address)
  where
    keepsErrors = SockOpt 0 11 -- IPPROTO_IP, IP_RECVERR

count :: Int
count = 100

-- Sends this many numbers with one kind of fault; which arrive, and how many met the fault.
messagesWith :: Fault -> IO ([Int], Int)
messagesWith fault = do
  outcome <- simulate (calm 5) {planFaultRates = [(fault, 200000)]} exchange
  arrived <- resultOf outcome
  return (arrived, outcomeFaults outcome)

exchange :: IO [Int]
exchange = withSockets $ \here there address -> do
  forM_ [1 .. count] $ \i -> sendTo here (Char8.pack (show i)) address >> threadDelay 1000
  collect there
  where
    collect there = do
      deadline <- deadlineAfter (seconds 1)
      next <- try (recvFromBefore deadline there 100)
      case next of
        Right (message, _) -> (read (Char8.unpack message) :) <$> collect there
        Left problem
          | isDeadlineError problem -> return []
          | otherwise -> throwIO problem

-- Two sockets of 127.0.0.1, and the address of the second.
withSockets :: (Socket -> Socket -> SockAddr -> IO a) -> IO a
withSockets use = bracket newBound close $ \here -> bracket newBound close $ \there ->
  getSocketName there >>= use here there
  where
    newBound = do
      s <- socket AF_INET Datagram defaultProtocol
      bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
      return s

resultOf :: Outcome a -> IO a
resultOf = either throwIO return . outcomeResult
