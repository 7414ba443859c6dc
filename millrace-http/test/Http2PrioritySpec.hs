{-# LANGUAGE OverloadedStrings #-}

-- | Which of several answers over HTTP/2 comes first (RFC 9218).
module Http2PrioritySpec (spec) where

import Control.Concurrent (myThreadId, threadDelay)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import Support hiding (exchange)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  it "sends what is more urgent first (RFC 9218)" $
    withWaitingAnswers ["u=7", "u=3", "u=0"] $ \http2 streams -> do
      sendFrame http2 (windowUpdate 0 200000)
      finished http2 streams `shouldReturn` reverse streams
  it "sends what is as urgent one after the other, and incremental answers at the same time" $ do
    let switches pieces = length (filter id (zipWith (/=) pieces (drop 1 pieces)))
        order http2 streams = do
          sendFrame http2 (windowUpdate 0 200000)
          events <- finishedEvents http2 streams
          return [stream | GotData stream _ _ <- events]
    -- Each answer takes three frames.
    (switches <$> withWaitingAnswers ["u=3", "u=3"] order) `shouldReturn` (1 :: Int)
    withWaitingAnswers ["u=3, i", "u=3, i"] order >>= (`shouldSatisfy` (> 1)) . switches
  it "sends in another order when the client changes the priorities of waiting answers" $
    withWaitingAnswers ["u=1", "u=2", "u=3"] $ \http2 streams -> do
      sendFrames
        http2
        ( [priorityUpdate stream priority | (stream, priority) <- zip streams ["u=6", "u=5", "u=4"]]
            ++ [windowUpdate 0 200000]
        )
      finished http2 streams `shouldReturn` reverse streams
  it "blames a client for an answer whose window it keeps closed, not for one behind a more urgent one" $
    do
      let application request respond =
            respond
              (responseLBS status200 [] (L.replicate (if rawPathInfo request == "/small" then 100 else 400000) 97))
          urgency number = [("priority", C8.pack ("u=" ++ show (number :: Int)))]
      withServer (setSendTimeout (seconds 2)) application $ \port ->
        withHttp2As polite {conductWindows = conductWindows silent} [(InitialWindowSize, 0)] port $ \http2 -> do
          let ask' path number window = do
                stream <- openStream http2 [EndStream] (get path (urgency number))
                stream <$ sendFrames http2 [windowUpdate stream window | window > 0]
              -- The connection's window opens by a little at a time, all of which goes to the most urgent answer.
              trickle = sendFrame http2 (windowUpdate 0 100) >> threadDelay 50000
              trickleUntilReset [] = return ()
              trickleUntilReset streams = do
                trickle
                events <- untilSilence 1000 http2
                unless
                  (Closed `elem` events)
                  (trickleUntilReset [stream | stream <- streams, not (any (isReset stream) events)])
          urgent <- ask' "/" 0 1000000
          void (awaitStream ((>= 65535) . B.length . answerBody) http2 urgent)
          waiting <- mapM (\path -> ask' path 7 1000000) ["/", "/small"]
          closed <- mapM (\path -> ask' path 7 0) ["/", "/small"]
          within "the resets" (trickleUntilReset closed)
          replicateM_ 20 trickle
          sendFrame http2 (windowUpdate 0 2000000)
          forM_ (zip (urgent : waiting) [400000, 400000, 100]) $ \(stream, size) -> do
            answer <- awaitAnswer http2 stream
            (answerEnd answer, B.length (answerBody answer)) `shouldBe` (Complete, size)
  it "lets a handler go on that flushes a little while another answer is endless" $ do
    -- The client takes everything at once, and by the time of the next send the other handler has more.
    (gate, flushing, sends, made) <-
      (,,,) <$> newEmptyMVar <*> newIORef Nothing <*> newIORef (0 :: Int) <*> newIORef (0 :: Int)
    let application request respond = case rawPathInfo request of
          "/endless" -> respond . responseStream status200 [] $ \write flush -> do
            flush
            takeMVar gate
            replicateM_ 640 (write (byteString (B.replicate 16384 97)) >> modifyIORef' made (+ 1))
          _ -> respond . responseStream status200 [] $ \write flush -> do
            write "first"
            myThreadId >>= writeIORef flushing . Just
            flush
            writeIORef flushing Nothing
            void (tryPutMVar gate ())
        beforeSend = do
          thread <- myThreadId
          flusher <- readIORef flushing
          when (flusher == Just thread) $ do
            modifyIORef' sends (+ 1)
            void (tryPutMVar gate ())
            readIORef made >>= awaitMore (20 :: Int)
        awaitMore left had = do
          has <- readIORef made
          when (left > 0 && has == had) (threadDelay 1000 >> awaitMore (left - 1) had)
    withServerOver (overMemoryWhere beforeSend) id application $ \server ->
      withHttp2As polite [(InitialWindowSize, 1000000000)] server $ \http2 -> do
        sendFrame http2 (windowUpdate 0 1000000000)
        endless <- openStream http2 [EndStream] (get "/endless" [])
        void (awaitHead http2 endless)
        (answerBody <$> ask http2 (get "/" []) "") `shouldReturn` "first"
        (B.length . answerBody <$> awaitAnswer http2 endless) `shouldReturn` (640 * 16384)
    readIORef sends >>= (`shouldSatisfy` \count -> count > 0 && count <= 8)
  where
    -- The order in which streams end.
    finished http2 streams = (\events -> [stream | GotData stream _ Last <- events]) <$> finishedEvents http2 streams
    -- What comes until all these streams have ended.
    finishedEvents :: Http2 -> [StreamId] -> IO [Event]
    finishedEvents _ [] = return []
    finishedEvents http2 streams = do
      events <- eventsUntil (\event -> any (`isEndOf` event) streams) http2
      let left = if Closed `elem` events then [] else [stream | stream <- streams, not (any (isEndOf stream) events)]
      (events ++) <$> finishedEvents http2 left
    isEndOf stream (GotData at _ Last) = at == stream
    isEndOf _ _ = False

-- Asks for answers of 40,000 bytes with these priorities. Their heads have come when the action runs, and the
-- connection's window is used up, so that none can end before the others begin.
withWaitingAnswers :: [ByteString] -> (Http2 -> [StreamId] -> IO a) -> IO a
withWaitingAnswers priorities use = do
  gate <- newEmptyMVar
  ready <- newIORef (0 :: Int)
  let application request respond
        | rawPathInfo request == "/fill" = respond (responseLBS status200 [] (L.replicate 65535 97))
        | otherwise = do
          atomicModifyIORef' ready (\count -> (count + 1, ()))
          readMVar gate
          respond (responseLBS status200 [] (L.replicate 40000 97))
  withServer id application $ \port ->
    withHttp2As polite {conductWindows = conductWindows silent} [(InitialWindowSize, 1000000)] port $ \http2 -> do
      answer <- ask http2 (get "/fill" []) ""
      B.length (answerBody answer) `shouldBe` 65535
      streams <- forM priorities $ \priority -> openStream http2 [EndStream] (get "/" [("priority", priority)])
      untilM ((== length priorities) <$> readIORef ready)
      putMVar gate ()
      forM_ streams (awaitHead http2)
      use http2 streams
