{-# LANGUAGE ScopedTypeVariables #-}

-- | Threads that are killed in operations: nothing leaks, and no buffer is written late.
module KillSpec (spec) where

import Control.Concurrent (forkIOWithUnmask, yield)
import Control.Exception (AsyncException (..), bracket, finally, fromException, mask_, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void, when)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.List (isInfixOf)
import Foreign.C.Error (eBADF)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (castPtr)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer
import Support
import System.Posix.IO (closeFd)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "interruption" $ do
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
      deadlineAfter (seconds 0) >>= setReadDeadline s
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
