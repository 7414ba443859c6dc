{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Socket.Gso", over loopback.
module GsoSpec (spec) where

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
import Millrace.Socket.Gso
import Millrace.Socket.Option (setOnlyIPv6, setReceiveBuffer)
import Support
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Socket.Gso" $ do
  forM_ [(AF_INET, "IPv4", v4), (AF_INET6, "IPv6", v6), (AF_INET6, "IPv4 on a socket of IPv6", mapped)] $
    \(family, name, at) ->
      do
        it ("tells the congestion bits over " ++ name) $
          withSockets family $ \here there -> do
            setEcnReport here True
            port <- socketPort here
            forM_ [False, True] $ \isLong -> forM_ [minBound .. maxBound] $ \ecn -> do
              let batch = GsoBatch (Path (at 1 port) Nothing) ecn (if isLong then 3 else 7) "one two"
              sendGsoBatches there [batch] `shouldReturn` []
              got <- receiveCount here (length (gsoDatagrams batch))
              concatMap gsoDatagrams got `shouldBe` gsoDatagrams batch
              nub (map gsoEcn got) `shouldBe` [ecn]
            setEcnReport here False
            sendGsoBatches there [GsoBatch (Path (at 1 port) Nothing) Congested 7 "one two"] `shouldReturn` []
            (map gsoEcn <$> receiveCount here 1) `shouldReturn` [NotCapable]
        it ("tells which address was the target, and sends from a given one, over " ++ name) $
          withSockets family $ \here there -> do
            setLocalReport here True
            setLocalReport there True
            port <- socketPort here
            -- IPv6 has only one address for the loopback.
            forM_ (if name == "IPv6" then [1] else [1, 2, 3]) $ \number -> forM_ [3, 7] $ \segment -> do
              sendGsoBatches there [GsoBatch (Path (at number port) (Just (at 1 0))) NotCapable segment "one two"]
                `shouldReturn` []
              got <- receiveCount here (if segment == 7 then 1 else 3)
              nub (map (pathLocal . gsoPath) got) `shouldBe` [Just (at number 0)]
              forM_ (take 1 got) $ \one -> do
                let back = one {gsoBytes = "answer", gsoSegment = segment}
                sendGsoBatches here [back] `shouldReturn` []
                answer <- receiveCount there (length (gsoDatagrams back))
                nub (map (pathPeer . gsoPath) answer) `shouldBe` [at number port]
  it "sends many batches to many peers in one call, and in order" $
    withSockets AF_INET $ \here there -> do
      setReceiveBuffer here 4000000
      port <- socketPort here
      let path = Path (v4 1 port) Nothing
          batches = [GsoBatch path (toEnum (i `mod` 4)) (1 + i) (bytesAt i (i * 20)) | i <- [1 .. 100]]
      setEcnReport here True
      sender <- start (sendGsoBatches there batches)
      got <- receiveCount here (length (concatMap gsoDatagrams batches))
      finish sender `shouldReturn` []
      concatMap described got `shouldBe` concatMap described batches
  it "returns joined datagrams as one batch" $
    withSockets AF_INET $ \here there -> do
      outcome <- try (setJoining here True) :: IO (Either IOError ())
      case outcome of
        Left problem -> pendingWith ("the kernel does not join datagrams: " ++ show problem)
        Right () -> do
          setReceiveBuffer here 4000000
          setEcnReport here True
          setLocalReport here True
          port <- socketPort here
          let whole = bytesAt 0 200100
          sender <- start (sendGsoBatches there [GsoBatch (Path (v4 1 port) Nothing) CapableZero 1000 whole])
          got <- receiveCount here 201
          finish sender `shouldReturn` []
          ByteString.concat (map gsoBytes got) `shouldBe` whole
          -- The kernel does not promise that it joins, but here nothing is between the two.
          length got `shouldSatisfy` (< 20)
          nub [(gsoEcn batch, pathLocal (gsoPath batch)) | batch <- got] `shouldBe` [(CapableZero, Just (v4 1 0))]
          map ByteString.length (concatMap gsoDatagrams got) `shouldBe` replicate 200 1000 ++ [100]
  it "takes empty datagrams" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      sendGsoBatches there [GsoBatch (Path (v4 1 port) Nothing) NotCapable 0 ""] `shouldReturn` []
      (map gsoBytes <$> receiveCount here 1) `shouldReturn` [""]
  it "returns what the system refuses, and sends the rest" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      let to = Path (v4 1 port) Nothing
          batch path = GsoBatch path NotCapable 2 "abc"
          stranger = to {pathLocal = Just (SockAddrInet 0 (tupleToHostAddress (192, 0, 2, 1)))}
          nowhere = Path (v4 1 0) Nothing
      refused <- sendGsoBatches there [batch to, batch stranger, batch to, batch nowhere, batch to]
      -- Whole, or one by one.
      forM_ [stranger, nowhere] $ \path ->
        ByteString.concat [gsoBytes one | (one, _) <- refused, gsoPath one == path] `shouldBe` "abc"
      map (gsoPath . fst) refused `shouldNotContain` [to]
      got <- receiveCount here 6
      concatMap gsoDatagrams got `shouldBe` concat (replicate 3 ["ab", "c"])
  it "waits until a deadline, or until the socket is closed" $
    withSockets AF_INET $ \here there -> do
      soon <- deadlineAfter (milliseconds 2)
      failsWith (receiveGsoBatchesBefore soon here 3) >>= (`shouldSatisfy` isDeadlineError)
      waiter <- start (receiveGsoBatches here 10)
      pause 10000
      port <- socketPort here
      close here
      within 5 "the waiter" (outcomeOf waiter) >>= (`shouldSatisfy` isErrno eBADF)
      close there
      failsWith (sendGsoBatches there [GsoBatch (Path (v4 1 port) Nothing) NotCapable 2 "abc"])
        >>= (`shouldSatisfy` hasCode eBADF)
  it "loses no datagram to exceptions that race with arrivals" $
    withSockets AF_INET $ \here there -> do
      port <- socketPort here
      forM_ [1 .. 300] $ \seed -> do
        random <- newRandom seed
        delay <- below random 300
        receiver <- start (receiveGsoBatches here 4)
        sender <-
          start
            ( sendGsoBatches
                there
                [GsoBatch (Path (v4 1 port) Nothing) NotCapable 1 (Char8.pack (show i)) | i <- [1 .. 4 :: Int]]
            )
        pause delay
        stop receiver
        _ <- finish sender
        first <- either (const []) (concatMap gsoDatagrams) <$> outcomeOf receiver
        rest <- forM [1 .. 4 - length first] (const (fst <$> within 10 "receiving" (recvFrom here 100)))
        sort (first ++ rest) `shouldBe` ["1", "2", "3", "4"]
  needingKnownLayout . it "goes one by one on a simulated machine" $ do
    got <-
      simulate
        (calm 1)
        ( withSockets AF_INET $ \here there -> do
            port <- socketPort here
            refused <- sendGsoBatches there [GsoBatch (Path (v4 1 port) Nothing) CapableZero 2 "abc"]
            (,) (length refused) <$> receiveCount here 2
        )
        >>= either throwIO return . outcomeResult
    fmap (map (\batch -> (gsoBytes batch, gsoEcn batch))) got
      `shouldBe` (0, [("ab", NotCapable), ("c", NotCapable)])
  where
    described batch = [(bytes, gsoEcn batch) | bytes <- gsoDatagrams batch]

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

receiveCount :: Socket -> Int -> IO [GsoBatch]
receiveCount s count
  | count <= 0 = return []
  | otherwise = do
    some <- within 10 "receiving" (receiveGsoBatches s 64)
    (some ++) <$> receiveCount s (count - length (concatMap gsoDatagrams some))
