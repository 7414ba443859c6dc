{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Socket.Batch" and "Millrace.Socket.Multicast", over loopback.
module BatchSpec (spec) where

import Control.Exception (bracket, throwIO, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (sort)
import Foreign.C.Error (eADDRINUSE, eADDRNOTAVAIL, eBADF, eMSGSIZE)
import Millrace.Deadline
import Millrace.Simulation (calm, outcomeResult, simulate)
import Millrace.Socket
import Millrace.Socket.Batch
import Millrace.Socket.ByteString (sendAll)
import Millrace.Socket.Datagram
import Millrace.Socket.Multicast
import Millrace.Socket.Option
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = do
  describe "Millrace.Socket.Batch" $ do
    it "sends and receives many datagrams, whole, in order and with their senders" $
      withSockets $ \here there address -> do
        from <- getSocketName there
        -- More than one call, and less than the queue of a socket.
        forM_ [0 .. 3] $ \time -> do
          let datagrams = [bytesAt i (i * 7 `mod` 1400) | i <- [time * 70 .. time * 70 + 69]]
          sendBatch there [(bytes, address) | bytes <- datagrams]
          got <- receiveCount here 1500 70
          map fst got `shouldBe` datagrams
          map snd got `shouldBe` map (const from) datagrams
    it "returns what there is, and no more than it was asked for" $
      withSockets $ \here there address -> do
        sendBatch there [(Char8.pack (show i), address) | i <- [1 .. 10 :: Int]]
        (map fst <$> receiveBatch here 3 100) `shouldReturn` ["1", "2", "3"]
        (length <$> receiveBatch here 1000 100) `shouldReturn` 7
        soon <- deadlineAfter (milliseconds 2)
        failsWith (receiveBatchBefore soon here 3 100) >>= (`shouldSatisfy` isDeadlineError)
    it "takes datagrams of Unix sockets, also of those without a name" $ do
      withPairOf (socketPair AF_UNIX Datagram defaultProtocol) $ \here there -> do
        sendAll here "nameless"
        receiveBatch there 10 100 `shouldReturn` [("nameless", SockAddrUnix "")]
      withAbstractSockets Datagram $ \here _ there from -> do
        to <- getSocketName here
        sendBatch there [("one", to), ("two", to)]
        receiveCount here 100 2 `shouldReturn` [("one", from), ("two", from)]
    it "waits to send, and for datagrams, until the socket is closed or shut down" $
      withSockets $ \here _ _ -> do
        waiter <- start (receiveBatch here 10 100)
        pause 10000
        close here
        within 5 "the waiter" (outcomeOf waiter) >>= (`shouldSatisfy` isErrno eBADF)
        withPairOf (socketPair AF_UNIX Datagram defaultProtocol) $ \one _ -> do
          other <- start (receiveBatch one 10 100)
          pause 10000
          shutdown one ShutdownReceive
          within 5 "the other waiter" (finish other) `shouldReturn` []
    it "cuts what is longer than a datagram, and takes apart what the kernel has joined" $
      forM_ [False, True] $ \isJoining -> withSockets $ \here there address -> do
        setReceiveBuffer here 4000000
        outcome <- try (setJoining here isJoining) :: IO (Either IOError ())
        case outcome of
          Left problem | isJoining -> pendingWith ("the kernel does not join datagrams: " ++ show problem)
          _ -> do
            let whole = bytesAt 0 100100
            sender <- start (sendSegments there 1000 whole address)
            got <- receiveCount here 65536 101
            finish sender
            map (ByteString.length . fst) got `shouldBe` replicate 100 1000 ++ [100]
            ByteString.concat (map fst got) `shouldBe` whole
    it "sends segments of any size up to a datagram's, and no larger ones" $
      withSockets $ \here there address -> do
        setReceiveBuffer here 4000000
        forM_ [1, 63, 1400, 9000, 40000, 65507] $ \size -> do
          let whole = bytesAt 5 (min (size * 70) 140000)
          sender <- start (sendSegments there size whole address)
          got <- receiveCount here 65536 ((ByteString.length whole + size - 1) `div` size)
          finish sender
          ByteString.concat (map fst got) `shouldBe` whole
        failsWith (sendSegments there 65508 (bytesAt 0 70000) address) >>= (`shouldSatisfy` hasCode eMSGSIZE)
    it "names the address that could not be sent to, and has sent those before it" $
      withSockets $ \here there address -> do
        let nowhere = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))
        problem <- failsWith (sendBatch there [("first", address), ("second", nowhere)]) :: IO IOError
        show problem `shouldContain` show nowhere
        (map fst <$> receiveBatch here 10 100) `shouldReturn` ["first"]
    it "loses no datagram to exceptions that race with arrivals" $
      withSockets $ \here there address -> forM_ [1 .. 300] $ \seed -> do
        random <- newRandom seed
        delay <- below random 300
        receiver <- start (receiveBatch here 4 100)
        sender <- start (sendBatch there [(Char8.pack (show i), address) | i <- [1 .. 4 :: Int]])
        pause delay
        stop receiver
        finish sender
        first <- either (const []) (map fst) <$> outcomeOf receiver
        rest <- map fst <$> receiveCount here 100 (4 - length first)
        sort (first ++ rest) `shouldBe` ["1", "2", "3", "4"]
    needingKnownLayout . it "goes one by one on a simulated machine" $ do
      got <-
        simulate
          (calm 1)
          ( withSockets $ \here there address -> do
              sendBatch there [("one", address), ("two", address)]
              sendSegments there 2 "abc" address
              receiveCount here 100 4
          )
          >>= either throwIO return . outcomeResult
      map fst got `shouldBe` ["one", "two", "ab", "c"]
  describe "Millrace.Socket.Multicast" $ do
    it "receives what is sent to a group it has joined, and nothing after it has left" $
      withGroup $ \receiver sender loopback address -> do
        let mine = (group address) {groupInterface = Just loopback}
        joinGroup receiver mine
        failsWith (joinGroup receiver mine) >>= (`shouldSatisfy` hasCode eADDRINUSE)
        sendAllTo sender "one" address
        (fst <$> within 5 "the datagram" (recvFrom receiver 100)) `shouldReturn` "one"
        leaveGroup receiver mine
        failsWith (leaveGroup receiver mine) >>= (`shouldSatisfy` hasCode eADDRNOTAVAIL)
        sendAllTo sender "two" address
        soon <- deadlineAfter (milliseconds 20)
        failsWith (recvFromBefore soon receiver 100) >>= (`shouldSatisfy` isDeadlineError)
    it "receives only from a source" $
      withGroup $ \receiver sender loopback address -> do
        let from source =
              (group address)
                { groupInterface =
                    Just loopback,
                  groupSource = Just (SockAddrInet 0 (tupleToHostAddress source))
                }
        joinGroup receiver (from (127, 0, 0, 2))
        sendAllTo sender "from somebody else" address
        soon <- deadlineAfter (milliseconds 20)
        failsWith (recvFromBefore soon receiver 100) >>= (`shouldSatisfy` isDeadlineError)
        bracket (socket AF_INET Datagram defaultProtocol) close $ \other -> do
          bind other (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 2)))
          setGroupInterface other loopback
          sendAllTo other "from the source" address
          (fst <$> within 5 "the datagram" (recvFrom receiver 100)) `shouldReturn` "from the source"
    it "is joined from all senders on an interface that the system chooses, unless one says otherwise" $ do
      let address = SockAddrInet 7 (tupleToHostAddress (239, 77, 1, 9))
          any' = group address
      (groupAddress any', groupInterface any', groupSource any') `shouldBe` (address, Nothing, Nothing)
    it "says how far and whether back to this machine" $
      forM_ [AF_INET, AF_INET6] $ \family -> bracket (socket family Datagram defaultProtocol) close $ \s -> do
        getGroupHops s `shouldReturn` 1
        (setGroupHops s 17 >> getGroupHops s) `shouldReturn` 17
        getGroupLoopback s `shouldReturn` True
        (setGroupLoopback s False >> getGroupLoopback s) `shouldReturn` False
    it "is told when a machine does not have the interface" $
      void (failsWith (interfaceNamed "no-such-thing") :: IO IOError)

withSockets :: (Socket -> Socket -> SockAddr -> IO a) -> IO a
withSockets use = withPairOf ((,) <$> one <*> one) $ \here there -> getSocketName here >>= use here there
  where
    one = do
      s <- socket AF_INET Datagram defaultProtocol
      s <$ bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))

receiveCount :: Socket -> Int -> Int -> IO [(ByteString, SockAddr)]
receiveCount s size count
  | count <= 0 = return []
  | otherwise = do
    some <- within 10 "receiving" (receiveBatch s 64 size)
    (some ++) <$> receiveCount s size (count - length some)

withGroup :: (Socket -> Socket -> Interface -> SockAddr -> IO a) -> IO a
withGroup use = withPairOf ((,) <$> one <*> one) $ \receiver sender -> do
  bind receiver (SockAddrInet 0 0)
  port <- socketPort receiver
  loopback <- interfaceNamed "lo"
  setGroupInterface sender loopback
  use receiver sender loopback (SockAddrInet port (tupleToHostAddress (239, 77, 1, 9)))
  where
    one = socket AF_INET Datagram defaultProtocol
