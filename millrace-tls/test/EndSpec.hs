{-# LANGUAGE OverloadedStrings #-}

-- | The end of a connection, with this package on both sides.
module EndSpec (spec) where

import Millrace.Deadline (seconds)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  it "comes for each direction by itself" $ \credentials -> withPair credentials $ \one other -> do
    sendAll one "question"
    endSending one
    receiveAll other `shouldReturn` "question"
    sendAll other "answer"
    endSending other
    receiveAll one `shouldReturn` "answer"
  it "is said by close" $ \credentials -> withPair credentials $ \one other -> do
    sendAll one "bye"
    close one
    close one
    receiveAll other `shouldReturn` "bye"
  it "is said by a graceful close, which waits for the peer" $ \credentials -> withPair credentials $ \one other -> do
    job <- start (sendAll one "bye" >> gracefulCloseWithin (seconds 5) one)
    receiveAll other `shouldReturn` "bye"
    close other
    finish job
