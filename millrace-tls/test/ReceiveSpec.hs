{-# LANGUAGE OverloadedStrings #-}

-- | Receiving, with this package on both sides.
module ReceiveSpec (spec) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.List (isInfixOf)
import Data.Maybe (isJust)
import GHC.IO.Exception (IOErrorType (..), ioe_type)
import Millrace.Deadline (deadlineAfter, isDeadlineError, microseconds)
import Millrace.Operation (perform, waitReadableRequest)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Timer (timeout)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  forM_ [1, 100, 16384, 16385, 1000000] $ \size ->
    it ("gets " ++ show size ++ " bytes, in pieces of any size") $ \credentials ->
      withPair credentials $ \one other -> do
        job <- start (sendAll one (bytesAt 0 size) >> endSending one)
        let go position [] = go position [1, 7, 500, 16384, 20000, 100000]
            go position (most : more) = do
              bytes <- recv other most
              bytes `shouldBe` bytesAt position (ByteString.length bytes)
              ByteString.length bytes `shouldSatisfy` (<= most)
              if ByteString.null bytes then return position else go (position + ByteString.length bytes) more
        go 0 [] `shouldReturn` size
        finish job
  it "loses nothing when its deadline passes" $ \credentials -> withPair credentials $ \one other -> do
    job <- start . forM_ [0 .. 299] $ \piece ->
      sendAll one (bytesAt (piece * 700) 700) >> threadDelay (piece `mod` 7 * 30)
    let go position
          | position >= 210000 = return ()
          | otherwise = do
            deadline <- deadlineAfter (microseconds (position `mod` 60))
            outcome <- try (recvBefore deadline other 1000)
            case outcome of
              Left problem | isDeadlineError problem -> go position
              Left problem -> throwIO problem
              Right bytes -> do
                bytes `shouldBe` bytesAt position (ByteString.length bytes)
                go (position + ByteString.length bytes)
    go 0
    finish job
  forM_ receivers $ \(way, receive) -> do
    it ("loses nothing when it is interrupted, " ++ way) $ \credentials -> withPair credentials $ \one other -> do
      job <- start . forM_ [0 .. 299] $ \piece ->
        sendAll one (bytesAt (piece * 700) 700) >> threadDelay (piece `mod` 7 * 30)
      interrupted <- newIORef (0 :: Int)
      let go position
            | position >= 210000 = return ()
            | otherwise = do
              outcome <- timeout (1 + position `mod` 60) (receive other 1000)
              case outcome of
                Nothing -> modifyIORef' interrupted (+ 1) >> go position
                Just bytes -> do
                  bytes `shouldBe` bytesAt position (ByteString.length bytes)
                  go (position + ByteString.length bytes)
      go 0
      readIORef interrupted >>= (`shouldSatisfy` (> 10))
      finish job
    it ("gets records of which each byte comes by itself, " ++ way) $ \credentials -> do
      server <- contextOf credentials ["server"] id
      client <- clientWith credentials id
      withDrippingLink $ \mine theirs -> connectOver mine theirs client server $ \one other -> do
        job <- start (sendAll one (bytesAt 0 2000) >> sendAll one (bytesAt 2000 1000) >> endSending one)
        received <- within 20 "all" (receiveAllBy (receive other 16384))
        received `shouldBe` bytesAt 0 3000
        finish job
  it "wants a size that is positive" $ \credentials -> withPair credentials $ \one _ ->
    forM_ [(receive, size) | (_, receive) <- take 3 receivers, size <- [0, -1]] $ \(receive, size) ->
      within 20 "the error" (receive one size) `shouldThrow` \problem ->
        ioe_type problem == InvalidArgument && ("it is " ++ show size) `isInfixOf` show problem
          && show one `isInfixOf` show problem
  it "finds quiet a peer that has sent nothing but tickets, and loses nothing of others" $ \credentials ->
    withPair credentials $ \one other -> do
      let arrival = void (perform (waitReadableRequest (Socket.socketHandle (connectionSocket one))))
          noise = within 20 "noise" $ let look = isQuiet one >>= \quiet -> when quiet (arrival >> look) in look
      -- The server sends its tickets when it waits for a request.
      request <- start (recv other 100)
      within 20 "tickets" arrival
      isQuiet one `shouldReturn` True
      sendAll one "request"
      finish request `shouldReturn` "request"
      sendAll other "answer"
      noise
      isQuiet one `shouldReturn` False
      recv one 100 `shouldReturn` "answer"
      isQuiet one `shouldReturn` True
      endSending other
      noise
      recv one 100 `shouldReturn` ""
      isQuiet one `shouldReturn` False
  it "tells an end that was cut off from one that was said" $ \credentials -> do
    withPair credentials $ \one other -> do
      sendAll one "all"
      endSending one
      receiveAll other `shouldReturn` "all"
      recv other 10 `shouldReturn` ""
    withPair credentials $ \one other -> do
      sendAll one "not all"
      Socket.close (connectionSocket one)
      recv other 100 `shouldReturn` "not all"
      recv other 100 `shouldThrow` ((== Truncated) . tlsProblem)
      recv other 100 `shouldThrow` ((== Truncated) . tlsProblem)
  it "says so when somebody changes a byte" $ \credentials -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials id
    withTcpPair $ \one between -> withTcpPair $ \between' other -> do
      broken <- newIORef False
      never <- newIORef False
      forM_ [(broken, between, between'), (never, between', between)] $ \(flag, from, to) ->
        start (spoil flag from to)
      (mine, theirs) <- bothSides (clientHandshake client "localhost" one) (serverHandshake server other)
      first <- either throwIO return mine
      second <- either throwIO return theirs
      writeIORef broken True
      sendAll first "spoilt"
      recv second 100 `shouldThrow` \problem ->
        tlsProblem problem == ProtocolViolated && tlsAlert problem == Just (AlertSent BadRecordMac)
      recv first 100 `shouldThrow` \problem ->
        tlsProblem problem == RefusedByPeer && tlsAlert problem == Just (AlertReceived BadRecordMac)
  it "wakes when the connection is closed" $ \credentials -> withPair credentials $ \_ other -> do
    job <- start (recv other 100)
    threadDelay 20000
    close other
    try (within 5 "the receive" (finish job)) >>= (`shouldSatisfy` isJust) . ioErrorOf
    forM_ receivers $ \(_, receive) ->
      receive other 100 `shouldThrow` \problem -> show other `isInfixOf` show (problem :: IOException)
    sendAll other "more" `shouldThrow` (const True :: IOException -> Bool)
  it "returns what comes while another thread sends" $ \credentials -> withPair credentials $ \one other -> do
    jobs <- forM [one, other] $ \side -> do
      sender <- start (forM_ [0 .. 199] $ \piece -> sendAll side (bytesAt (piece * 5000) 5000))
      receiver <- start (receiveExactly side 0 1000000)
      return [sender, receiver]
    within 60 "all" (mapM_ finish (concat jobs))
  where
    spoil broken from to = do
      bytes <- Plain.recv from 16384
      unless (ByteString.null bytes) $ do
        isBroken <- takeFlag broken
        Plain.sendAll
          to
          (if isBroken then ByteString.init bytes <> ByteString.singleton (ByteString.last bytes + 1) else bytes)
        spoil broken from to

takeFlag :: IORef Bool -> IO Bool
takeFlag flag = atomicModifyIORef' flag noted
  where
    noted was = (False, was)
