-- | Closing wakes waiting threads with an error, and a reused descriptor number behaves like a new one.
module CloseSpec (spec) where

import Control.Concurrent (newEmptyMVar, putMVar, readMVar, yield)
import Control.Exception (SomeException, mask_)
import Control.Monad (forM, forM_, replicateM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Foreign.C.Error (eBADF)
import Foreign.C.Types (CInt)
import Millrace.Deadline
import Millrace.Operation (descriptorOf, isOpen, whileOpen)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Wait
import Support
import System.Posix.Types (Fd (..))
import Test.Hspec

spec :: Spec
spec = describe "close" $ do
  it "wakes every thread that waits to receive, on all capabilities" $
    withUnixPair $ \one _ -> wakes one (recv one 100)
  it "wakes every thread that waits to receive with a deadline" $ do
    deadline <- deadlineAfter (minutes 1)
    withTcpPair $ \one _ -> wakes one (recvBefore deadline one 100)
  it "wakes every thread that waits to send" $ withTcpPair $ \one _ -> wakes one (sendAll one tooMuch)
  it "wakes every thread that waits to accept" $ withListener $ \listener _ -> wakes listener (accept listener)
  it "wakes every thread that waits with its number" $
    withUnixPair $ \one other -> do
      number <- numberOf one
      wakes one (threadWaitRead (Fd number))
      within 5 "the peer" (recv other 1) `shouldReturn` ByteString.empty
  it "wakes receivers and senders at once" $
    withTcpPair $ \one _ -> do
      receivers <- parkMany (recv one 100)
      senders <- parkMany (sendAll one tooMuch)
      pause 20000
      close one
      within 5 "receivers" (mapM outcomeOf receivers) >>= mapM_ (`shouldSatisfy` isErrno eBADF)
      within 5 "senders" (mapM outcomeOf senders) >>= mapM_ (`shouldSatisfy` isErrno eBADF)
  it "by many threads at once closes once" $
    withoutLeaks $
      replicateM_ 300 $ do
        (one, other) <- unixPair
        receivers <- forM [0, 1] $ \capability -> startOn capability (recv one 10)
        closers <- forM [0 .. 5] $ \number -> startOn number (close one)
        mapM_ finish closers
        mapM outcomeOf receivers >>= mapM_ (`shouldSatisfy` isErrno eBADF)
        close other
  -- Otherwise the second exception would replace the one that made the program close the socket.
  it "is not interrupted by an exception" $
    withoutLeaks . forM_ [1 .. 500] $ \seed -> do
      random <- newRandom seed
      (one, other) <- unixPair
      receivers <- forM [0, 1] $ \capability -> startOn capability (recv one 10)
      begun <- newIORef False
      ended <- newIORef False
      closer <- startOn seed (mask_ (writeIORef begun True >> close one >> writeIORef ended True))
      below random 50 >>= pause
      stop closer
      hasBegun <- readIORef begun
      readIORef ended `shouldReturn` hasBegun
      close one
      mapM_ outcomeOf receivers
      close other
  it "of a closed socket does nothing" $ withUnixPair $ \one _ -> close one >> close one
  it "makes every operation on the socket fail with EBADF" $
    withUnixPair $ \one _ -> do
      close one
      everyOperationFails one
  it "makes every operation fail also when the number is in use again" $
    withUnixPair $ \old _ -> do
      number <- numberOf old
      close old
      withNumber number $ \fresh peer -> do
        everyOperationFails old
        close old
        void (sendStream peer 0 1000)
        receiveExactly fresh 0 1000 `shouldReturn` 1000
  it "leaves nothing of the old socket to the new one with its number" newSocketIsNew
  it "wakes a thread that is just about to wait" closeRacesWithReceive
  it "waits for a call with the number" closeWaitsForCalls

-- | More than the system takes on behalf of a peer that does not receive.
tooMuch :: ByteString
tooMuch = ByteString.replicate 20000000 0

parkMany :: IO a -> IO [Job a]
parkMany action = forM [1 .. 100] $ \number -> if even number then startOn (number `div` 2) action else start action

wakes :: Socket -> IO a -> IO ()
wakes s action = do
  jobs <- parkMany action
  pause 30000
  over <- mapM isOver jobs
  or over `shouldBe` False
  close s
  outcomes <- within 5 "all threads" (mapM outcomeOf jobs)
  forM_ (map (() <$) outcomes) (`shouldSatisfy` isErrno eBADF)

numberOf :: Socket -> IO CInt
numberOf s = withFdSocket s return

everyOperationFails :: Socket -> IO ()
everyOperationFails s = do
  fails (recv s 10)
  fails (send s (bytesAt 0 10))
  fails (sendAll s (bytesAt 0 10))
  fails (sendMany s [bytesAt 0 10, bytesAt 10 10])
  fails (accept s)
  fails (connect s (SockAddrUnix "/nonexistent"))
  fails (bind s (SockAddrUnix "/nonexistent"))
  fails (listen s 10)
  fails (shutdown s ShutdownBoth)
  fails (getSocketName s)
  fails (getPeerName s)
  fails (getSocketOption s SendBuffer)
  fails (setSocketOption s SendBuffer 10000)
  where
    fails :: IO a -> IO ()
    fails action = do
      problem <- failsWith (void action)
      problem `shouldSatisfy` hasCode eBADF

-- | A new pair of sockets of which the first has this number, which is the lowest that is free or soon will be.
withNumber :: CInt -> (Socket -> Socket -> IO a) -> IO a
withNumber number use = go (0 :: Int)
  where
    go tries
      | tries > 20 = ioError (userError ("the number " ++ show number ++ " does not come back"))
      | otherwise = withUnixPair $ \one other -> do
        is <- numberOf one
        isOther <- numberOf other
        if is == number
          then use one other
          else
            if isOther == number
              then use other one
              else go (tries + 1)

-- Threads parked on the old socket, on both capabilities; the new one has its number, gets data at once, and only its
-- own readers see them.
newSocketIsNew :: IO ()
newSocketIsNew = within 30 "all rounds" $
  withoutLeaks $ do
    replicateM_ 500 $ do
      (old, peer) <- unixPair
      number <- numberOf old
      olds <- forM [0 .. 5] $ \capability -> startOn capability (recv old 100)
      replicateM_ 3 yield
      closer <- startOn 1 (close old)
      finish closer
      outcomes <- mapM outcomeOf olds
      forM_ outcomes $ \outcome -> outcome `shouldSatisfy` isErrno eBADF
      withNumber number $ \fresh freshPeer -> do
        reader <- startOn 0 (recv fresh 100)
        otherReader <- startOn 1 (recv fresh 100)
        close peer -- the end of the stream, for the old one
        replicateM_ 3 yield
        over <- (||) <$> isOver reader <*> isOver otherReader
        over `shouldBe` False
        sendAll freshPeer (bytesAt 0 50)
        sawFirst <- becomesTrue 2000 ((||) <$> isOver reader <*> isOver otherReader)
        sawFirst `shouldBe` True
        shutdown freshPeer ShutdownSend
        a <- finish reader
        b <- finish otherReader
        ByteString.concat [a, b] `shouldBe` bytesAt 0 50
        descriptorOf (socketHandle fresh) `shouldBe` number
        socketHandle fresh `shouldNotBe` socketHandle old

closeRacesWithReceive :: IO ()
closeRacesWithReceive = within 30 "all rounds" $
  withoutLeaks $ do
    random <- newRandom 3
    replicateM_ 2000 $ do
      (one, other) <- unixPair
      turns <- below random 4
      reader <- startOn 0 (recv one 10)
      replicateM_ turns yield
      closer <- startOn 1 (close one)
      finish closer
      outcome <- outcomeOf reader :: IO (Either SomeException ByteString)
      outcome `shouldSatisfy` isErrno eBADF
      close other

-- The call sees its own socket to its end, whatever is closed and opened meanwhile.
closeWaitsForCalls :: IO ()
closeWaitsForCalls = within 30 "all rounds" $
  withoutLeaks $
    withUnixPair $ \one other -> do
      let handle = socketHandle one
      closer <- newEmptyMVar
      answered <- whileOpen handle $ \number -> do
        startOn 1 (close one) >>= putMVar closer
        _ <- becomesTrue 2000 (not <$> isOpen handle)
        whileOpen handle return `shouldReturn` Nothing
        fails (getSocketName one)
        readMVar closer >>= isOver >>= (`shouldBe` False)
        withUnixPair $ \fresh _ -> numberOf fresh >>= (`shouldNotBe` number)
      answered `shouldBe` Just ()
      readMVar closer >>= within 5 "the close" . finish
      recv other 10 `shouldReturn` ByteString.empty
  where
    fails action = failsWith (void action) >>= (`shouldSatisfy` hasCode eBADF)
