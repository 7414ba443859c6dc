{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Socket.Unix": descriptors and credentials beside bytes, and names that are in no file system.
module UnixSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (forM, forM_)
import qualified Data.ByteString as ByteString
import Foreign.C.Error (eBADF, eINVAL)
import Millrace.Deadline
import Millrace.Pipe
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Unix
import Support
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import System.Posix.User (getRealGroupID, getRealUserID)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Socket.Unix" $ do
  it "passes descriptors with bytes, on streams and as messages" $
    withoutLeaks $
      forM_ [Stream, Datagram, SeqPacket] $ \kind ->
        withPairOf (socketPair AF_UNIX kind defaultProtocol) $ \here there -> withPipe $ \out into -> do
          sendPassing
            here
            nothingPassed {passedDescriptors = [writeEndDescriptor into, readEndDescriptor out]}
            "two ends"
          (bytes, passed) <- receivePassing there 100
          bytes `shouldBe` "two ends"
          case passed of
            Passed [one, other] Nothing -> do
              bracket (writeEndFromDescriptor one) closeWriteEnd (`writePipe` "through")
              closeFd other
              readPipe out 100 `shouldReturn` "through"
            unexpected -> expectationFailure (show unexpected)
  it "passes as many as the system does, and sends all bytes of a stream" $
    withoutLeaks $
      withUnixPair $ \here there -> withPipe $ \_ into -> do
        let many = replicate 253 (writeEndDescriptor into)
        sender <-
          start
            ( sendPassing here nothingPassed {passedDescriptors = many} (bytesAt 0 2000000)
                >> shutdown here ShutdownSend
            )
        (bytes, passed) <- receivePassing there 100000
        length (passedDescriptors passed) `shouldBe` 253
        mapM_ closeFd (passedDescriptors passed)
        next <- checkFrom 0 bytes
        receiveStream there 65536 next `shouldReturn` 2000000
        finish sender
        (fst <$> receivePassing there 10) `shouldReturn` ""
        failsWith (sendPassing here nothingPassed {passedDescriptors = many ++ many} "x")
          >>= (`shouldSatisfy` hasCode eINVAL)
        failsWith (sendPassing here nothingPassed "") >>= (`shouldSatisfy` hasCode eINVAL)
  it "passes credentials, asked for by either side" $ do
    me <-
      Credentials <$> (fromIntegral <$> getProcessID)
        <*> (fromIntegral <$> getRealUserID)
        <*> (fromIntegral <$> getRealGroupID)
    withUnixPair $ \here there -> do
      peerCredentials here `shouldReturn` me
      getReceivesCredentials there `shouldReturn` False
      setReceivesCredentials there True
      getReceivesCredentials there `shouldReturn` True
      sendAll here "unasked"
      receivePassing there 100 `shouldReturn` ("unasked", Passed [] (Just me))
      sendPassing here nothingPassed {passedCredentials = Just me} "asked"
      receivePassing there 100 `shouldReturn` ("asked", Passed [] (Just me))
  it "has deadlines, and is woken by a close" $
    withUnixPair $ \here _ -> do
      soon <- deadlineAfter (milliseconds 2)
      failsWith (receivePassingBefore soon here 10) >>= (`shouldSatisfy` isDeadlineError)
      waiter <- start (receivePassing here 10)
      pause 10000
      close here
      within 5 "the waiter" (outcomeOf waiter) >>= (`shouldSatisfy` isErrno eBADF)
  it "loses no byte and leaks no descriptor when exceptions race with arrivals" $
    withoutLeaks $
      withUnixPair $ \here there -> withPipe $ \_ into -> do
        jobs <- forM [1 .. 300] $ \seed -> do
          random <- newRandom seed
          delay <- below random 200
          receiver <- start (receivePassing there 5)
          sendPassing here nothingPassed {passedDescriptors = [writeEndDescriptor into]} (bytesAt ((seed - 1) * 5) 5)
          pause delay
          stop receiver
          outcome <- outcomeOf receiver
          either (const (return "")) (\(bytes, passed) -> bytes <$ mapM_ closeFd (passedDescriptors passed)) outcome
        shutdown here ShutdownSend
        rest <- untilEnd there
        -- What was received before an interruption is received again later, so the order is the stream's.
        checkFrom 0 (ByteString.concat (jobs ++ rest)) `shouldReturn` 1500
  it "knows names that are in no file system" $ do
    process <- getProcessID
    let name = abstractName ("millrace-unix-" ++ show process)
    bracket (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
      bind listener name
      listen listener 1
      getSocketName listener `shouldReturn` name
      bracket (socket AF_UNIX Stream defaultProtocol) close $ \client -> do
        connect client name
        bracket (fst <$> accept listener) close $ \server -> sendAll server "found"
        recv client 10 `shouldReturn` "found"
  where
    untilEnd s = do
      (bytes, passed) <- receivePassing s 5
      mapM_ closeFd (passedDescriptors passed)
      if ByteString.null bytes then return [] else (bytes :) <$> untilEnd s
