{-# LANGUAGE ScopedTypeVariables #-}

-- | Exceptions and deadlines at any moment: nothing received is lost, nothing is leaked, no buffer is written late.
module InterruptSpec (spec) where

import Control.Concurrent (forkIOWithUnmask, yield)
import Control.Concurrent.STM (atomically)
import Control.Exception
  ( AsyncException (..),
    MaskingState (..),
    bracket,
    finally,
    fromException,
    getMaskingState,
    mask_,
    throwIO,
    try,
  )
import Control.Monad (filterM, forM, forM_, forever, replicateM, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.Either (isLeft)
import Data.IORef
import Data.List (isInfixOf)
import Data.Word (Word8)
import Foreign.C.Error (eBADF, eCONNRESET)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Datagram (recvFrom)
import Millrace.Timer
import Millrace.Wait
import Network.Socket (StructLinger (..))
import Support
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.IO (closeFd)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "interruption" $ do
  describe "of receives, at random moments, against a steady sender: every byte once and in order" $ do
    it "timeout around recv, 100,000 times" $
      interruptReceives 100000 $ \s limit most -> timeout limit (recv s most)
    it "timeout around recvBuf, 25,000 times" $
      interruptReceives 25000 $ \s limit most ->
        -- Directly around it: once recvBuf has returned, the bytes are the caller's.
        withBuffer most $ \buffer -> timeout limit (recvBuf s buffer most)
    it "recvBefore, 25,000 times" $
      interruptReceives 25000 $ \s limit most ->
        untilDeadline limit (\deadline -> recvBefore deadline s most)
    it "recvBufBefore, 25,000 times" $
      interruptReceives 25000 $ \s limit most ->
        withBuffer most $ \buffer -> untilDeadline limit (\deadline -> recvBufBefore deadline s buffer most)
    it "an exception that races with the arrival, 10,000 times" raceWithArrival
    it "an exception that races with the arrival, of recvFrom" raceOfRecvFrom
    it "an exception that races with a reset, which is not taken for the end of the stream" raceWithReset
  describe "of accept, at random moments, against steady connecting: every connection once" $ do
    it "timeout around accept" $ interruptAccepts (\s limit -> timeout limit (accept s))
    it "acceptBefore" $ interruptAccepts (\s limit -> untilDeadline limit (`acceptBefore` s))
  describe "of one of several that wait leaves to the others" $ do
    it "bytes" $ leavesTo withTcpPair (`recv` 10) id
    it "bytes, where more are asked for than a borrowed buffer holds" $ leavesTo withUnixPair (`recv` 20000) id
    it "messages" $ leavesTo (withPairOf (socketPair AF_UNIX Datagram defaultProtocol)) (`recvFrom` 10) fst
    it "connections" leavesConnections
    it "and does not disturb a thread that waits for the descriptor in a transaction" disturbsNoTransaction
  it "is possible while arguments are evaluated" evaluateUnmasked
  describe "by killThread" $ do
    it "leaks no descriptor, operation or memory in loops of connect, send, recv and close" killClients
    it "leaks no descriptor or operation in loops of accept and echo" killServers
    it "leaves recvBuf's buffer alone afterwards" canaryInReceiveBuffer
    it "leaves sendAllBuf's buffer alone afterwards" canaryInSendBuffer
    it "of close still closes" killClosers
    it "of recvFd leaks no descriptor" killReceiversOfDescriptors
    it "of socketToFd leaks no descriptor" killConverters
    it "of accept may leave a connection, which socketToFd does not drop" keptConnection
    it "of accept that is too late leaves nothing behind when the listener is closed meanwhile" killAcceptWhileClosing

-- | A receive with a limit in microseconds and a size: 'Nothing' if it was interrupted.
type LimitedReceive = Socket -> Int -> Int -> IO (Maybe ByteString)

untilDeadline :: Int -> (Deadline -> IO a) -> IO (Maybe a)
untilDeadline limitMicros action = do
  deadline <- deadlineAfter limitMicros
  result <- try (action deadline)
  case result of
    Right value -> return (Just value)
    Left problem
      | isDeadlineError problem -> return Nothing
      | otherwise -> throwIO problem

withBuffer :: Int -> (Ptr Word8 -> IO (Maybe Int)) -> IO (Maybe ByteString)
withBuffer size receive = allocaBytes size $ \buffer -> do
  received <- receive buffer
  mapM (\count -> ByteString.packCStringLen (castPtr buffer, count)) received

interruptReceives :: Int -> LimitedReceive -> IO ()
interruptReceives interruptions receive = within 60 "all interruptions" $
  withoutLeaks $ do
    let streams = 64
    jobs <- forM [1 .. streams] $ \number -> start $
      (if even number then withTcpPair else withUnixPair) $ \from to -> do
        enough <- newIORef False
        sender <- start (sendSteadily number enough from)
        received <- receiveLimited number (interruptions `div` streams + 1) enough receive to
        sent <- finish sender
        return (sent, received)
    totals <- mapM finish jobs
    forM_ totals $ \(sent, received) -> received `shouldBe` sent

-- Chunks of all sizes with pauses of all lengths.
sendSteadily :: Int -> IORef Bool -> Socket -> IO Int
sendSteadily seed enough s = newRandom seed >>= go 0
  where
    go position random = do
      over <- readIORef enough
      if over
        then position <$ shutdown s ShutdownSend
        else do
          size <- between random 1 2000
          next <- sendStream s position size
          rest <- between random 0 1500
          if rest < 200 then yield else threadDelay rest
          go next random

receiveLimited :: Int -> Int -> IORef Bool -> LimitedReceive -> Socket -> IO Int
receiveLimited seed interruptions enough receive s = newRandom (1000 + seed) >>= go interruptions 0
  where
    go :: Int -> Int -> Random -> IO Int
    go left position random = do
      when (left == 0) $ writeIORef enough True
      limit <- between random 1 400
      most <- between random 1 3000
      result <- receive s limit most
      case result of
        Nothing -> go (left - 1) position random
        Just bytes
          | ByteString.null bytes -> return position
          | otherwise -> checkFrom position bytes >>= \next -> go left next random

-- An argument that takes long must not be evaluated masked. This one notes how it is evaluated.
evaluateUnmasked :: IO ()
evaluateUnmasked = within 5 "all calls" $
  withUnixPair $ \from to -> do
    void (sendStream from 0 300)
    manager <- getSystemTimerManager
    forM_
      [ void . recv to,
        \size -> allocaBytes 100 (\buffer -> void (recvBuf to buffer size)),
        void . recvFrom to,
        threadDelay,
        void . registerDelay,
        \delay -> void (registerTimeout manager delay (return ()))
      ]
      $ \call -> do
        state <- newIORef MaskedUninterruptible
        start (call (noting state 100)) >>= finish
        readIORef state `shouldReturn` Unmasked

noting :: IORef MaskingState -> Int -> Int
noting state value = unsafePerformIO $ do
  getMaskingState >>= writeIORef state
  return value
{-# NOINLINE noting #-}

-- The same thread sends and then throws, so that the bytes and the exception arrive together.
raceWithArrival :: IO ()
raceWithArrival = within 60 "all races" $
  withoutLeaks $ do
    jobs <- forM [1 .. 4 :: Int] $ \seed -> start $
      withTcpPair $ \from to -> do
        random <- newRandom seed
        let go :: Int -> Int -> Int -> IO (Int, Int)
            go 0 sent received = return (sent, received)
            go n sent received = do
              victim <- start (recv to 4096)
              turns <- below random 4
              replicateM_ turns yield
              size <- between random 1 300
              next <- sendStream from sent size
              delays <- below random 6
              replicateM_ delays yield
              stop victim
              outcome <- outcomeOf victim
              after <- either (const (return received)) (checkFrom received) outcome
              go (n - 1) next after
        (sent, received) <- go 2500 0 0
        shutdown from ShutdownSend
        total <- receiveStream to 4096 received
        return (sent, total)
    totals <- mapM finish jobs
    forM_ totals $ \(sent, received) -> received `shouldBe` sent

-- What recvFrom has taken of a stream, recv returns in parts, and recvFrom what recv has taken.
raceOfRecvFrom :: IO ()
raceOfRecvFrom = within 60 "all races" $
  withoutLeaks $
    withTcpPair $ \from to -> do
      random <- newRandom 23
      let race :: Int -> IO a -> (a -> ByteString) -> IO ByteString -> IO ()
          race position receive bytesOf receiveRest = do
            victim <- start receive
            below random 4 >>= \turns -> replicateM_ turns yield
            void (sendStream from position 100)
            below random 4 >>= \turns -> replicateM_ turns yield
            stop victim
            outcomeOf victim >>= either (const (return position)) (checkFrom position . bytesOf)
              >>= within 5 "the rest" . receiveTo (position + 100) receiveRest
          receiveTo end receive position =
            unless (position == end) $ receive >>= checkFrom position >>= receiveTo end receive
      forM_ [0, 200 .. 200000] $ \position -> do
        race position (recvFrom to 100) fst (recv to 7)
        race (position + 100) (recv to 100) id (fst <$> recvFrom to 7)

raceWithReset :: IO ()
raceWithReset = within 60 "all races" $
  withoutLeaks $ do
    random <- newRandom 29
    late <- fmap sum $
      replicateM 1000 $
        withTcpPair $ \from to -> do
          victim <- start (recv to 100)
          below random 4 >>= \turns -> replicateM_ turns yield
          setSockOpt from Linger (StructLinger 1 0) >> close from
          below random 6 >>= \turns -> replicateM_ turns yield
          stop victim
          outcome <- outcomeOf victim
          if isErrno eCONNRESET outcome
            then return 0
            else do
              outcome `shouldSatisfy` either ((== Just ThreadKilled) . fromException) (const False)
              failsWith (recv to 100) >>= (`shouldSatisfy` hasCode eCONNRESET)
              return 1
    late `shouldSatisfy` (> (0 :: Int))

-- Two threads wait on each capability for the same bytes, and one that may have got them is killed: another one gets
-- them. The bytes are taken out of what it returns later, since code behind a receive could lose them.
leavesTo :: ((Socket -> Socket -> IO ()) -> IO ()) -> (Socket -> IO a) -> (a -> ByteString) -> IO ()
leavesTo withPair receive bytesOf = within 60 "all rounds" $
  withoutLeaks $ do
    random <- newRandom 31
    replicateM_ 1000 $
      withPair $ \from to -> do
        received <- oneIsLeft random (receive to) (sendAll from (bytesAt 0 10))
        bytesOf received `shouldBe` bytesAt 0 10

leavesConnections :: IO ()
leavesConnections = within 60 "all rounds" $
  withoutLeaks $
    withListener $ \listener address -> do
      random <- newRandom 37
      replicateM_ 1000 $
        bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
          (server, _) <- oneIsLeft random (accept listener) (connect client address)
          bracket (return server) close (`sendAll` bytesAt 0 10)
          receiveExactly client 0 10 `shouldReturn` 10

-- A receive takes the bytes that have come, so that the transaction continues to wait, and is killed before it returns
-- them.
disturbsNoTransaction :: IO ()
disturbsNoTransaction = within 60 "all rounds" $
  withoutLeaks $ do
    random <- newRandom 41
    replicateM_ 1000 $
      withUnixPair $ \from to -> withFdSocket to $ \number -> do
        victim <- startOn 0 (recv to 10)
        yield
        (ready, giveUp) <- startOn 0 (threadWaitReadSTM (fromIntegral number)) >>= finish
        void (sendStream from 0 10)
        below random 6 >>= \turns -> replicateM_ turns yield
        stop victim
        outcome <- outcomeOf victim
        when (isLeft outcome) $ void (receiveExactly to 0 10)
        shutdown from ShutdownSend
        within 5 "the transaction" (atomically ready)
        giveUp

-- A number of threads wait for something that the second action makes come once. Kills them one after the other until
-- one has got it.
oneIsLeft :: Random -> IO a -> IO () -> IO a
oneIsLeft random wait occasion = do
  first <- startOn 0 wait
  others <- mapM (`startOn` wait) [1 .. 3]
  below random 6 >>= \turns -> replicateM_ turns yield
  occasion
  below random 4 >>= \turns -> replicateM_ turns yield
  stop first
  outcome <- outcomeOf first
  got <- either (const (within 5 "another one" (firstOf others))) return outcome
  got <$ mapM_ stop (first : others)
  where
    firstOf jobs = do
      over <- filterM isOver jobs
      case over of
        job : _ -> finish job
        [] -> yield >> firstOf jobs

-- Connectors wait for an answer; one whose connection was lost would wait for ever.
interruptAccepts :: (Socket -> Int -> IO (Maybe (Socket, SockAddr))) -> IO ()
interruptAccepts acceptFor = within 60 "all connections" $
  withoutLeaks $
    withListener $ \listener address -> do
      interruptions <- newIORef (0 :: Int)
      accepted <- newIORef (0 :: Int)
      acceptors <- forM [1 .. 4] $ \seed -> start $ do
        random <- newRandom seed
        forever $ do
          limit <- between random 1 300
          result <- acceptFor listener limit
          case result of
            Nothing -> atomicModifyIORef' interruptions (\n -> (n + 1, ()))
            Just (connection, _) -> do
              atomicModifyIORef' accepted (\n -> (n + 1, ()))
              void $ start $ (recv connection 8 >>= sendAll connection) `finally` close connection
      connectors <- forM [1 .. 8] $ \seed -> start $ do
        random <- newRandom (100 + seed)
        forM_ [1 .. 500] $ \turn -> do
          below random 1500 >>= threadDelay
          bracket (connectTo address) close $ \s -> do
            let message = bytesAt (seed * 10000 + turn) 8
            sendAll s message
            answer <- recv s 8
            require (answer == message) "a connection was answered by another's bytes"
      mapM_ finish connectors
      mapM_ stop acceptors
      readIORef accepted `shouldReturn` 8 * 500
      fired <- readIORef interruptions
      fired `shouldSatisfy` (> 1000)

-- | Kills and starts again this many workers, at random moments.
harass :: Int -> Int -> IO () -> IO ()
harass seed times worker = do
  random <- newRandom seed
  replicateM_ times $ do
    victims <- replicateM 4 (start worker)
    moment <- below random 600
    if moment < 100 then replicateM_ (moment `div` 10) yield else threadDelay moment
    mapM_ stop victims
    outcomes <- mapM outcomeOf victims
    forM_ outcomes $ either onlyKilled return
  where
    onlyKilled problem = require (fromException problem == Just ThreadKilled) ("a worker failed: " ++ show problem)

echo :: Socket -> IO ()
echo s = do
  bytes <- recv s 4096
  unless (ByteString.null bytes) $ sendAll s bytes >> echo s

serve :: Socket -> IO ()
serve listener = forever $
  mask_ $ do
    (connection, _) <- accept listener
    forkIOWithUnmask $ \unmask ->
      void (try (unmask (echo connection)) :: IO (Either IOError ())) `finally` close connection

talk :: SockAddr -> IO ()
talk address = forever $
  bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
    connect s address
    forM_ [0 .. 3] $ \turn -> do
      sendAll s (bytesAt turn 500)
      receiveExactly s turn 500

killClients :: IO ()
killClients = within 60 "all kills" $
  withoutLeaks $
    withListener $ \listener address -> do
      server <- start (serve listener)
      let round' seed = harass seed 200 (talk address)
      round' 1
      early <- liveBytes
      earlyResident <- residentKilobytes
      mapM_ round' [2 .. 4]
      stop server
      late <- liveBytes
      lateResident <- residentKilobytes
      (late - early) `shouldSatisfy` (< 2000000)
      (lateResident - earlyResident) `shouldSatisfy` (< 60000)

killServers :: IO ()
killServers = within 60 "all kills" $
  withoutLeaks $
    withListener $ \listener address -> do
      clients <- forM [1 .. 4 :: Int] $ \_ -> start (talk address)
      harass 7 600 (serve listener)
      mapM_ stop clients

canaryInReceiveBuffer :: IO ()
canaryInReceiveBuffer = within 60 "all rounds" $
  withoutLeaks $
    withTcpPair $ \from to -> allocaBytes size $ \buffer -> do
      random <- newRandom 5
      let go :: Int -> Int -> Int -> IO ()
          go 0 sent received = sent `shouldBe` received
          go n sent received = do
            victim <- start (recvBuf to buffer size)
            below random 5 >>= \turns -> replicateM_ turns yield
            next <- sendStream from sent 64
            below random 5 >>= \turns -> replicateM_ turns yield
            stop victim
            outcome <- outcomeOf victim
            after <- case outcome of
              Right count -> ByteString.packCStringLen (castPtr buffer, count) >>= checkFrom received
              Left _ -> do
                fillBytes buffer canary size
                end <- receiveExactly to received (next - received)
                contents <- peekArray size buffer
                contents `shouldSatisfy` all (== canary)
                return end
            go (n - 1) next after
      go 4000 0 0
  where
    size = 4096
    canary = 0xaa

-- What the peer receives is a beginning of what was sent, whatever the buffer holds afterwards.
canaryInSendBuffer :: IO ()
canaryInSendBuffer = within 60 "all rounds" $
  withoutLeaks $
    forM_ [1 .. 100] $ \seed ->
      withUnixPair $ \from to -> allocaBytes size $ \buffer -> do
        random <- newRandom seed
        unsafeUseAsCString (bytesAt 0 size) $ \source -> copyBytes buffer (castPtr source) size
        victim <- start (sendAllBuf from buffer size)
        reader <- start (below random 300 >>= threadDelay >> receiveStream to 3000 0)
        below random 1500 >>= threadDelay
        stop victim
        fillBytes buffer 0 size
        close from
        void (finish reader)
  where
    size = 1000000

-- Operations on both capabilities, so that close has to wait for the other one and can be interrupted there.
killClosers :: IO ()
killClosers = within 60 "all rounds" $
  withoutLeaks $ do
    random <- newRandom 11
    replicateM_ 1000 $ do
      (one, other) <- unixPair
      parked <- forM [0, 1] $ \capability -> startOn capability (recv one 100)
      below random 4 >>= \turns -> replicateM_ turns yield
      closer <- startOn 0 (close one)
      below random 4 >>= \turns -> replicateM_ turns yield
      stop closer
      close one -- nothing to do, unless the closer had not begun
      outcomes <- mapM outcomeOf parked
      forM_ outcomes $ \outcome -> outcome `shouldSatisfy` isErrno eBADF
      close other

-- A descriptor that is on its way when a receiver is killed goes to the next one, or is closed.
killReceiversOfDescriptors :: IO ()
killReceiversOfDescriptors = within 60 "all rounds" $
  withoutLeaks $
    withUnixPair $ \one other -> do
      random <- newRandom 43
      replicateM_ 2000 $ do
        victim <- start (recvFd other)
        below random 4 >>= \turns -> replicateM_ turns yield
        withFdSocket one (sendFd one)
        below random 6 >>= \turns -> replicateM_ turns yield
        stop victim
        outcomeOf victim >>= either (const (closeOneIn other)) closeDescriptor
  where
    closeOneIn s = do
      deadlineAfter 0 >>= setReadDeadline s
      left <- try (recvFd s)
      setReadDeadline s noDeadline
      either (`shouldSatisfy` isDeadlineError) closeDescriptor left
    closeDescriptor = closeFd . fromIntegral

-- Kills converters at random moments, as 'killClosers' does with close.
killConverters :: IO ()
killConverters = within 60 "all rounds" $
  withoutLeaks $ do
    random <- newRandom 47
    replicateM_ 1000 $ do
      (one, other) <- unixPair
      parked <- forM [0, 1] $ \capability -> startOn capability (recv one 100)
      below random 4 >>= \turns -> replicateM_ turns yield
      converter <- startOn 0 (socketToFd one)
      below random 4 >>= \turns -> replicateM_ turns yield
      stop converter
      outcomeOf converter >>= either (const (close one)) (closeFd . fromIntegral)
      outcomes <- mapM outcomeOf parked
      forM_ outcomes $ \outcome -> outcome `shouldSatisfy` isErrno eBADF
      close other

-- A connection that an interrupted accept has left belongs to the socket. Tries until there is one.
keptConnection :: IO ()
keptConnection = within 30 "a connection that is kept" $ newRandom 19 >>= try'
  where
    try' random = do
      (listener, address) <- newListener
      acceptor <- start (accept listener)
      below random 4 >>= \turns -> replicateM_ turns yield
      client <- connectTo address
      below random 4 >>= \turns -> replicateM_ turns yield
      stop acceptor
      outcome <- outcomeOf acceptor
      taken <- either (const (try (socketToFd listener))) (\(s, _) -> Right 0 <$ close s) outcome
      case taken of
        Right descriptor -> do
          when (descriptor > 0) $ closeFd (fromIntegral descriptor)
          mapM_ close [client, listener] >> try' random
        Left problem -> do
          require ("accept" `isInfixOf` show (problem :: IOError)) (show problem)
          bracket (fst <$> accept listener) close (`sendAll` bytesAt 0 10)
          receiveExactly client 0 10 `shouldReturn` 10
          mapM_ close [client, listener]

killAcceptWhileClosing :: IO ()
killAcceptWhileClosing = within 60 "all rounds" $ do
  random <- newRandom 13
  withoutLeaks $
    replicateM_ 1000 $ do
      (listener, address) <- newListener
      acceptors <- forM [0, 1] $ \capability -> startOn capability (accept listener)
      client <- socket AF_INET Stream defaultProtocol
      connector <- startOn 1 (connect client address)
      below random 6 >>= \turns -> replicateM_ turns yield
      killer <- startOn 1 (mapM_ stop acceptors)
      below random 6 >>= \turns -> replicateM_ turns yield
      close listener
      finish killer
      void (outcomeOf connector)
      close client
      accepted <- mapM outcomeOf acceptors
      sequence_ [close connection | Right (connection, _) <- accepted]
