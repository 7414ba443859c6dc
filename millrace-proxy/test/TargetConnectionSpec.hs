{-# LANGUAGE OverloadedStrings #-}

-- | Connections to targets: how long they are kept, and the limits of time.
module TargetConnectionSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Maybe (isJust)
import Millrace.Deadline (milliseconds, seconds)
import Millrace.Proxy
import Millrace.Socket (ShutdownCmd (..), close, shutdown)
import Millrace.Socket.ByteString (recv, sendAll)
import Support
import System.FilePath ((</>))
import Test.Hspec
import TestSupport.Folder (withTemporaryFolder)

spec :: Spec
spec = do
  describe "a connection" $ do
    it "is kept for further requests" $
      withTarget (answering (\count _ -> decimal count)) $ \target -> withFront quiet [target] $ \port ->
        replicateM 3 (bodyOf <$> ask port closingRequest) `shouldReturn` ["1", "1", "1"]
    it "is not kept beyond its time, or in greater decimal than allowed" $
      forM_ [defaultLimits {keepLimit = seconds 0}, defaultLimits {keptConnections = 0}] $ \few ->
        withTarget (answering (\count _ -> decimal count)) $ \target ->
          withFront quiet {limits = few} [target] $ \port ->
            replicateM 2 (bodyOf <$> ask port closingRequest) `shouldReturn` ["1", "2"]
    it "is not used when the target has closed it" $ do
      closed <- newEmptyMVar
      let once count peer = receiveHead peer >> answerWith peer (decimal count) >> close peer >> putMVar closed ()
      withTarget once $ \target -> withFront quiet [target] $ \port ->
        replicateM 3 (ask port (posting "x") <* takeMVar closed) >>= (`shouldBe` ["1", "2", "3"]) . map bodyOf
    it "that the target has closed is closed soon, without a request" $ do
      ended <- newEmptyMVar
      withTarget
        ( \_ peer ->
            receiveHead peer >> answerWith peer "one" >> shutdown peer ShutdownSend >> recv peer 10 >>= putMVar ended
        )
        $ \target ->
          withFront quiet [target] $ \port -> do
            bodyOf <$> ask port closingRequest `shouldReturn` "one"
            within 20 "the end" (takeMVar ended) `shouldReturn` ""
    it "that ends without a word makes the proxy ask again, if that is safe" $ do
      heads <- newMVar (0 :: Int)
      let once count peer = do
            _ <- receiveHead peer
            modifyMVar_ heads (return . (+ 1))
            answerWith peer (decimal count)
            again <- receiveHead peer
            when (isJust again) (modifyMVar_ heads (return . (+ 1)))
      withTarget once $ \target -> withFront quiet [target] $ \port -> do
        replicateM 2 (bodyOf <$> ask port closingRequest) `shouldReturn` ["1", "2"]
        readMVar heads `shouldReturn` 3
        statusOf <$> ask port (posting "x") `shouldReturn` "502"
        readMVar heads `shouldReturn` 4
    it "goes to a Unix socket" $ do
      answer <- withTemporaryFolder "millrace-proxy" $ \folder ->
        withUnixTarget (folder </> "socket") (answering (\_ _ -> "unix")) $ \target ->
          withFront quiet [target] (\port -> bodyOf <$> ask port closingRequest)
      answer `shouldBe` "unix"
  describe "a limit" $ do
    it "is for the first byte" $
      withTarget (\_ peer -> receiveHead peer >> void (recv peer 10)) $ \target ->
        withFront quiet {limits = defaultLimits {firstByteLimit = milliseconds 20}} [target] $ \port ->
          statusOf <$> ask port closingRequest `shouldReturn` "504"
    it "is for the first byte, with the client watched" $
      withTarget (\_ peer -> receiveHead peer >> void (recv peer 10)) $ \target ->
        withFront quiet {limits = defaultLimits {firstByteLimit = milliseconds 200}} [target] $ \port ->
          statusOf <$> ask port closingRequest `shouldReturn` "504"
    it "is for more of the response, which is then cut off" $
      withTarget
        ( \_ peer ->
            receiveHead peer >> sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf" >> void (recv peer 10)
        )
        $ \target ->
          withFront quiet {limits = defaultLimits {betweenBytesLimit = milliseconds 100}} [target] $ \port ->
            bodyOf <$> ask port closingRequest `shouldReturn` "half"
    it "is for all of it" $
      withTarget (\_ peer -> receiveHead peer >> void (recv peer 10)) $ \target ->
        withFront quiet {limits = defaultLimits {wholeLimit = milliseconds 100}} [target] $ \port ->
          statusOf <$> ask port closingRequest `shouldReturn` "504"
    it "is not for a target that nobody listens on" $ do
      gone <- withTarget (\_ _ -> return ()) return
      causes <- newIORef []
      withFront quiet {onProblem = \_ reason -> modifyIORef causes (describeProblem reason :)} [gone] $ \port ->
        statusOf <$> ask port closingRequest `shouldReturn` "502"
      readIORef causes >>= (`shouldSatisfy` all (\text -> "no connection" `ByteString.isInfixOf` Char8.pack text))

posting :: ByteString -> ByteString
posting body =
  "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
    <> decimal (ByteString.length body)
    <> "\r\n\r\n"
    <> body
