{-# LANGUAGE ScopedTypeVariables #-}

-- | Exceptions and deadlines at any moment, of receives and accepts: nothing that was received is lost.
module InterruptSpec (spec) where

import Control.Concurrent (yield)
import Control.Exception
  ( AsyncException (..),
    MaskingState (..),
    bracket,
    finally,
    fromException,
    getMaskingState,
    throwIO,
    try,
  )
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.Word (Word8)
import Foreign.C.Error (eCONNRESET)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Datagram (recvFrom)
import Millrace.Timer
import Network.Socket (StructLinger (..))
import Support
import System.IO.Unsafe (unsafePerformIO)
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
  it "is possible while arguments are evaluated" evaluateUnmasked

-- | A receive with a limit in microseconds and a size: 'Nothing' if it was interrupted.
type LimitedReceive = Socket -> Int -> Int -> IO (Maybe ByteString)

untilDeadline :: Int -> (Deadline -> IO a) -> IO (Maybe a)
untilDeadline limitMicros action = do
  deadline <- deadlineAfter (microseconds limitMicros)
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
