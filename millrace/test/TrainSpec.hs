{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Socket.Train", over loopback.
module TrainSpec (spec) where

import Control.Exception (throwIO, try)
import Control.Monad (forM, forM_)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (nub, sort)
import Foreign.C.Error (eBADF)
import Millrace.Deadline
import Millrace.Simulation (calm, outcomeResult, simulate)
import Millrace.Socket
import Millrace.Socket.Batch (setJoining)
import Millrace.Socket.Datagram (recvFrom)
import Millrace.Socket.Option (setOnlyIPv6, setReceiveBuffer)
import Millrace.Socket.Train
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Socket.Train" $ do
  forM_ [(AF_INET, "IPv4", v4), (AF_INET6, "IPv6", v6), (AF_INET6, "IPv4 on a socket of IPv6", mapped)] $
    \(family, name, at) ->
      do
        it ("tells the marks over " ++ name) $
          withSockets family $ \here there -> do
            setMarkReport here True
            port <- socketPort here
            forM_ [False, True] $ \isLong -> forM_ [minBound .. maxBound] $ \mark -> do
              let train = Train (Path (at 1 port) Nothing) mark (if isLong then 3 else 7) "one two"
              sendTrains there [train] `shouldReturn` []
              got <- receiveCount here (length (trainDatagrams train))
              concatMap trainDatagrams got `shouldBe` trainDatagrams train
              nub (map trainMark got) `shouldBe` [mark]
            setMarkReport here False
            sendTrains there [Train (Path (at 1 port) Nothing) Congested 7 "one two"] `shouldReturn` []
            (map trainMark <$> receiveCount here 1) `shouldReturn` [NotCapable]
        it ("tells which address was the target, and sends from a given one, over " ++ name) $
          withSockets family $ \here there -> do
            setLocalReport here True
            setLocalReport there True
            port <- socketPort here
            -- IPv6 has only one address for the loopback.
            forM_ (if name == "IPv6" then [1] else [1, 2, 3]) $ \number -> forM_ [3, 7] $ \segment -> do
              sendTrains there [Train (Path (at number port) (Just (at 1 0))) NotCapable segment "one two"]
                `shouldReturn` []
              got <- receiveCount here (if segment == 7 then 1 else 3)
              nub (map (pathLocal . trainPath) got) `shouldBe` [Just (at number 0)]
              forM_ (take 1 got) $ \one -> do
                let back = one {trainBytes = "answer", trainSegment = segment}
                sendTrains here [back] `shouldReturn` []
                answer <- receiveCount there (length (trainDatagrams back))
                nub (map (pathPeer . trainPath) answer) `shouldBe` [at number port]
  it "sends many trains to many peers in one call, and in order" $
    withSockets AF_INET $ \here there -> do
      setReceiveBuffer here 4000000
      port <- socketPort here
      let path = Path (v4 1 port) Nothing
          trains = [Train path (toEnum (i `mod` 4)) (1 + i) (bytesAt i (i * 20)) | i <- [1 .. 100]]
      setMarkReport here True
      sender <- start (sendTrains there trains)
      got <- receiveCount here (length (concatMap trainDatagrams trains))
      finish sender `shouldReturn` []
      concatMap described got `shouldBe` concatMap described trains
  it "returns joined datagrams as one train" $
    withSockets AF_INET $ \here there -> do
      outcome <- try (setJoining here True) :: IO (Either IOError ())
      case outcome of
        Left problem -> pendingWith ("the kernel does not join datagrams: " ++ show problem)
        Right () -> do
          setReceiveBuffer here 4000000
          setMarkReport here True
          setLocalReport here True
          port <- socketPort here
          let whole = bytesAt 0 200100
          sender <- start (sendTrains there [Train (Path (v4 1 port) Nothing) CapableZero 1000 whole])
          got <- receiveCount here 201
          finish sender `shouldReturn` []
          ByteString.concat (map trainBytes got) `shouldBe` whole
          -- The kernel does not promise that it joins, but here nothing is between the two.
          length got `shouldSatisfy` (< 20)
          nub [(trainMark train, pathLocal (trainPath train)) | train <- got] `shouldBe` [(CapableZero, Just (v4 1 0))]
          map ByteString.length (concatMap trainDatagrams got) `shouldBe` replicate 200 1000 ++ [100]
  it "takes empty datagrams" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      sendTrains there [Train (Path (v4 1 port) Nothing) NotCapable 0 ""] `shouldReturn` []
      (map trainBytes <$> receiveCount here 1) `shouldReturn` [""]
  it "returns what the system refuses, and sends the rest" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      let to = Path (v4 1 port) Nothing
          train path = Train path NotCapable 2 "abc"
          stranger = to {pathLocal = Just (SockAddrInet 0 (tupleToHostAddress (192, 0, 2, 1)))}
          nowhere = Path (v4 1 0) Nothing
      refused <- sendTrains there [train to, train stranger, train to, train nowhere, train to]
      -- Whole, or one by one.
      forM_ [stranger, nowhere] $ \path ->
        ByteString.concat [trainBytes one | (one, _) <- refused, trainPath one == path] `shouldBe` "abc"
      map (trainPath . fst) refused `shouldNotContain` [to]
      got <- receiveCount here 6
      concatMap trainDatagrams got `shouldBe` concat (replicate 3 ["ab", "c"])
  it "waits until a deadline, or until the socket is closed" $
    withSockets AF_INET $ \here there -> do
      soon <- deadlineAfter 2000
      failsWith (receiveTrainsBefore soon here 3) >>= (`shouldSatisfy` isDeadlineError)
      waiter <- start (receiveTrains here 10)
      pause 10000
      port <- socketPort here
      close here
      within 5 "the waiter" (outcomeOf waiter) >>= (`shouldSatisfy` isErrno eBADF)
      close there
      failsWith (sendTrains there [Train (Path (v4 1 port) Nothing) NotCapable 2 "abc"])
        >>= (`shouldSatisfy` hasCode eBADF)
  it "loses no datagram to exceptions that race with arrivals" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      forM_ [1 .. 300] $ \seed -> do
        random <- newRandom seed
        delay <- below random 300
        receiver <- start (receiveTrains here 4)
        sender <-
          start
            ( sendTrains
                there
                [Train (Path (v4 1 port) Nothing) NotCapable 1 (Char8.pack (show i)) | i <- [1 .. 4 :: Int]]
            )
        pause delay
        stop receiver
        _ <- finish sender
        first <- either (const []) (concatMap trainDatagrams) <$> outcomeOf receiver
        rest <- forM [1 .. 4 - length first] (const (fst <$> within 10 "receiving" (recvFrom here 100)))
        sort (first ++ rest) `shouldBe` ["1", "2", "3", "4"]
  needingKnownLayout . it "goes one by one on a simulated machine" $ do
    got <-
      simulate
        (calm 1)
        ( withSockets AF_INET $ \here there -> do
            port <- socketPort here
            refused <- sendTrains there [Train (Path (v4 1 port) Nothing) CapableZero 2 "abc"]
            (,) (length refused) <$> receiveCount here 2
        )
        >>= either throwIO return . outcomeResult
    fmap (map (\train -> (trainBytes train, trainMark train))) got
      `shouldBe` (0, [("ab", NotCapable), ("c", NotCapable)])
  where
    described train = [(bytes, trainMark train) | bytes <- trainDatagrams train]

v4, v6, mapped :: Integer -> PortNumber -> SockAddr
v4 number port = SockAddrInet port (tupleToHostAddress (127, 0, 0, fromIntegral number))
v6 _ port = SockAddrInet6 port 0 (0, 0, 0, 1) 0
mapped number port = SockAddrInet6 port 0 (0, 0, 0xffff, 0x7f000000 + fromIntegral number) 0

-- | Both are bound to all addresses, on a simulated machine, which has one, to that.
withSockets :: Family -> (Socket -> Socket -> IO a) -> IO a
withSockets family = withPairOf ((,) <$> one <*> one)
  where
    one = do
      s <- socket family Datagram defaultProtocol
      if family == AF_INET6
        then setOnlyIPv6 s False >> bind s (SockAddrInet6 0 0 (0, 0, 0, 0) 0)
        else bind s (SockAddrInet 0 0)
      return s

receiveCount :: Socket -> Int -> IO [Train]
receiveCount s count
  | count <= 0 = return []
  | otherwise = do
    some <- within 10 "receiving" (receiveTrains s 64)
    (some ++) <$> receiveCount s (count - length (concatMap trainDatagrams some))
