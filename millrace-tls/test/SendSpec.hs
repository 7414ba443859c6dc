{-# LANGUAGE OverloadedStrings #-}

-- | Sending, with this package on both sides.
module SendSpec (spec) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Maybe (isJust)
import Foreign.Ptr (castPtr, plusPtr)
import Millrace.Deadline (Deadline, deadlineAfter, isDeadlineError, milliseconds, noDeadline)
import Millrace.File (Mode (..), fileDescriptor, withFile)
import Millrace.Timer (timeout)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  it "sends many strings, large and small" $ \credentials -> withPair credentials $ \one other -> do
    let sizes = [0, 1, 20, 16000, 3, 70000, 0, 5]
        positions = scanl (+) 0 sizes
    job <- start (sendMany one (zipWith bytesAt positions sizes))
    receiveExactly other 0 (sum sizes)
    finish job
  it "sends a file, a part of it, and nothing beyond its end" $ \credentials -> withPair credentials $ \one other -> do
    let path = fileOf credentials "file"
    ByteString.writeFile path (bytesAt 0 300000)
    withFile path ForReading $ \file -> do
      job <- start $ do
        whole <- sendFile one (fileDescriptor file) 0 300000
        part <- sendFile one (fileDescriptor file) 300 100
        beyond <- sendFile one (fileDescriptor file) 299990 100
        return (whole, part, beyond)
      receiveExactly other 0 300000
      receiveExactly other 300 100
      receiveExactly other 299990 10
      finish job `shouldReturn` (300000, 100, 10)
      sendFile one (-1) 0 10 `shouldThrow` (const True :: IOException -> Bool)
  it "sends some bytes and says how many, all of a buffer, and some of a file" $ \credentials ->
    withPair credentials $ \one other -> do
      send one (bytesAt 0 20000) `shouldReturn` 16384
      send one (bytesAt 16384 100) `shouldReturn` 100
      unsafeUseAsCStringLen (bytesAt 16484 100000) $ \(bytes, count) -> do
        job <- start (sendAllBuf one (castPtr bytes) count)
        receiveExactly other 0 116484
        finish job
      let path = fileOf credentials "some"
      ByteString.writeFile path (bytesAt 0 3000)
      withFile path ForReading $ \file -> do
        attempt <- attemptSendFile (Within 0) one (fileDescriptor file) 1000 5000
        case attempt of
          Moved count -> count `shouldBe` 2000
          _ -> expectationFailure "nothing was sent"
      receiveExactly other 1000 2000
  it "continues after attempts that ran out of time" $ \credentials -> withPair credentials $ \one other -> do
    let total = 20000000
    timeouts <- newIORef (0 :: Int)
    job <- start . unsafeUseAsCStringLen (bytesAt 0 total) $ \(bytes, _) -> do
      let go position = when (position < total) $ do
            attempt <- attemptSend (Within 300) one (castPtr bytes `plusPtr` position) (min 20000 (total - position))
            case attempt of
              Moved count -> go (position + count)
              TimedOut -> modifyIORef' timeouts (+ 1) >> go position
              Refused _ -> ioError (userError "refused")
      go 0
    -- The other side receives only when this side cannot send any more.
    let awaitTimeout = readIORef timeouts >>= \count -> when (count == 0) (threadDelay 10000 >> awaitTimeout)
    within 30 "an attempt that runs out of time" awaitTimeout
    receiveExactly other 0 total
    finish job
  it "gives up at its deadline, and wakes when the connection is closed" $ \credentials ->
    withPair credentials $ \one _ -> do
      deadline <- deadlineAfter (milliseconds 50)
      sendAllBefore deadline one (bytesAt 0 20000000) `shouldThrow` isDeadlineError
      job <- start (sendAll one (bytesAt 0 20000000))
      threadDelay 20000
      close one
      try (within 5 "the send" (finish job)) >>= (`shouldSatisfy` isJust) . ioErrorOf
  forM_ [("its deadline passes", byDeadline), ("it is interrupted", byInterruption)] $ \(what, cutting) -> do
    it ("leaves the connection whole when " ++ what ++ " within a message") $ \credentials ->
      withPair credentials $ \one other -> do
        cutting (\deadline -> sendAllBefore deadline one (bytesAt 0 20000000))
        -- The sent part precedes what is sent next, and nothing is lost or repeated between them.
        job <- start (sendAll one "the rest" >> endSending one)
        received <- receiveAll other
        finish job
        let count = ByteString.length received - 8
        ByteString.drop count received `shouldBe` "the rest"
        (ByteString.take count received == bytesAt 0 count) `shouldBe` True
    it ("does not let the peer take the message for whole when " ++ what ++ ", and the connection is closed") $
      \credentials ->
        withPair credentials $ \one other -> do
          let path = fileOf credentials "large"
          ByteString.writeFile path (bytesAt 0 20000000)
          withFile path ForReading $ \file ->
            cutting (\deadline -> void (sendFileBefore deadline one (fileDescriptor file) 0 20000000))
          close one
          let go position = do
                outcome <- try (recv other 100000)
                case outcome of
                  Left problem -> return (tlsProblem problem)
                  Right bytes | ByteString.null bytes -> ioError (userError "the end was said")
                  Right bytes -> do
                    (bytes == bytesAt position (ByteString.length bytes)) `shouldBe` True
                    go (position + ByteString.length bytes)
          within 20 "the end" (go 0) `shouldReturn` Truncated
  it "is refused after the end was said" $ \credentials -> withPair credentials $ \one other -> do
    endSending one
    sendAll one "more" `shouldThrow` (const True :: IOException -> Bool)
    sendAll other "still"
    recv one 100 `shouldReturn` "still"

-- Both end a send that waits because the socket is full.
byDeadline, byInterruption :: (Deadline -> IO ()) -> IO ()
byDeadline cut = do
  deadline <- deadlineAfter (milliseconds 200)
  cut deadline `shouldThrow` isDeadlineError
byInterruption cut = timeout 200000 (cut noDeadline) `shouldReturn` Nothing
