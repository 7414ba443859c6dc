{-# LANGUAGE ScopedTypeVariables #-}

-- | Of several threads that wait for one descriptor, one that is interrupted leaves what comes to the others.
module SharedWaitSpec (spec) where

import Control.Concurrent (yield)
import Control.Concurrent.STM (atomically)
import Control.Exception (bracket)
import Control.Monad (filterM, replicateM_, void, when)
import Data.ByteString (ByteString)
import Data.Either (isLeft)
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Datagram (recvFrom)
import Millrace.Wait
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "interruption" $ do
  describe "of one of several that wait leaves to the others" $ do
    it "bytes" $ leavesTo withTcpPair (`recv` 10) id
    it "bytes, where more are asked for than a borrowed buffer holds" $ leavesTo withUnixPair (`recv` 20000) id
    it "messages" $ leavesTo (withPairOf (socketPair AF_UNIX Datagram defaultProtocol)) (`recvFrom` 10) fst
    it "connections" leavesConnections
    it "and does not disturb a thread that waits for the descriptor in a transaction" disturbsNoTransaction

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
