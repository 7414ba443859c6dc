{-# LANGUAGE OverloadedStrings #-}

-- | Limits of sizes and numbers that Warp does not have, and limits beyond all measure.
module LimitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (forConcurrently, withAsync)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, forM_, join)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Millrace.Http.Server.Settings (Settings (settingsServerState))
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec
import qualified TestSupport.Time as Time

spec :: Spec
spec = do
  describe "limits beyond all measure" $ do
    it "are none" $ do
      let settings =
            setMaxTotalHeaderLength 4294967296
              . setTimeout maxBound
              . setTotalTimeout unlimited
              . setMinimumRate 1 unlimited
              . setFdCacheDuration maxBound
              . setFileInfoCacheDuration maxBound
      withServer settings echo $ \port -> withConnection port $ \client -> do
        forM_ ["POST / HT", "TP/1.1\r\nHost: a\r\nContent-Length: 10\r\nConnection: close\r\n\r\nhello", "world"] $
          \piece ->
            threadDelay 20000 >> send client piece
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["helloworld"]
    it "hold for a shutdown" $ do
      begun <- newEmptyMVar
      stopper <- newEmptyMVar
      let application _ respond = putMVar begun () >> threadDelay 300000 >> respond (responseLBS status200 [] "late")
      withServer
        (setGracefulShutdownTimeout (Just maxBound) . setInstallShutdownHandler (putMVar stopper))
        application
        $ \port ->
          withConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            takeMVar begun
            () <- join (takeMVar stopper)
            map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["late"]
  describe "sizes and numbers" $ do
    it "setMaximumRequests closes after so many" $
      withServer (setMaximumRequests (Just 2)) pong $ \port -> do
        bytes <- exchange port (B.concat (replicate 5 "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        map (headerOf "connection") (parseReplies bytes) `shouldBe` [Nothing, Just "close"]
    it "setMaximumHeaderCount refuses more with a 431" $ do
      let fields count =
            B.concat
              ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" : replicate (count - 2) "X: y\r\n" ++ ["\r\n"])
      forM_ [(5, 5, 200), (5, 6, 431), (200, 200, 200), (200, 201, 431)] $ \(limit, count, status) ->
        withServer (setMaximumHeaderCount limit) pong $ \port ->
          statusOf <$> exchange port (fields count) `shouldReturn` status
    it "setMaximumTargetLength refuses longer ones with a 414" $ do
      let target size =
            B.concat ["GET /", C8.replicate (size - 1) 'x', " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
      forM_ [(100, 100, 200), (100, 101, 414), (20000, 20000, 200), (20000, 20001, 414)] $ \(limit, size, status) ->
        withServer (setMaximumTargetLength limit) pong $ \port ->
          statusOf <$> exchange port (target size) `shouldReturn` status
    it "setMaxTotalHeaderLength refuses a longer head with a 431" $ do
      let ofSize size =
            let fields =
                  "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: "
             in B.concat [fields, C8.replicate (size - B.length fields - 4) 'x', "\r\n\r\n"]
      forM_ [(200, 200, 200), (200, 201, 431), (60000, 60000, 200), (60000, 60001, 431)] $ \(limit, size, status) ->
        withServer (setMaxTotalHeaderLength limit) pong $ \port ->
          statusOf <$> exchange port (ofSize size) `shouldReturn` status
    it "setMaximumBodyFlush bounds the body that is dropped to keep the connection" $
      forM_ [(Just 20000, 20000, 2), (Just 20000, 20001, 1), (Just 0, 1, 1), (Nothing, 300000, 2 :: Int)] $
        \(limit, size, count) ->
          do
            let body =
                  B.concat
                    [ "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ",
                      C8.pack
                        (show size),
                      "\r\n\r\n",
                      C8.replicate size 'x'
                    ]
            withServer (setMaximumBodyFlush limit) pong $ \port -> do
              bytes <- exchange port (body <> "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
              (limit, size, map replyStatus (parseReplies bytes)) `shouldBe` (limit, size, replicate count 200)
    it "setSlowlorisSize is how much of a body renews its time" $ do
      let slow size =
            withServer (setBodyTimeout (seconds 2) . setSlowlorisSize size) echo $ \port -> withConnection port $
              \client -> do
                send client "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 30\r\n\r\n"
                withAsync (sendSlowly client) (const (statusOf <$> receiveAll client))
      mapM slow [1, 1000] `shouldReturn` [200, 408]
    it "setMaximumBodySize refuses an announced body before the application runs" $ do
      ran <- newIORef (0 :: Int)
      withServer (setMaximumBodySize (Just 10)) (\request respond -> modifyIORef ran (+ 1) >> echo request respond) $
        \port -> do
          statuses <- forM [10, 11 :: Int] $ \size ->
            statusOf
              <$> exchange
                port
                ( B.concat
                    [ "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ",
                      C8.pack
                        (show size),
                      "\r\n\r\n",
                      C8.replicate size 'x'
                    ]
                )
          statuses `shouldBe` [200, 413]
          readIORef ran `shouldReturn` 1
          statusOf
            <$> exchange port "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"
              `shouldReturn` 413
    it "setMaximumBodySize refuses a chunked body where it grows too long" $
      withServer (setMaximumBodySize (Just 10)) echo $ \port -> do
        statuses <- forM ["5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", "5\r\nhello\r\n6\r\nworld!\r\n0\r\n\r\n"] $ \body ->
          statusOf
            <$> exchange
              port
              ("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" <> body)
        statuses `shouldBe` [200, 413]
    it "setMaximumConnections makes the oldest idle connection give way" $
      withWatchedServer (setMaximumConnections (Just 2)) $ \port reaches ->
        -- Wait for an answer before the next one connects, so that their order is certain whichever threads accept
        -- them.
        withConnection port $ \one -> do
          ask one >> reaches (ConnectionStates 0 1 0)
          withConnection port $ \two -> do
            ask two >> reaches (ConnectionStates 0 2 0)
            statusOf <$> exchange port "GET / HTTP/1.0\r\n\r\n" `shouldReturn` 200
            receiveAll one `shouldReturn` ""
            send two "GET / HTTP/1.0\r\n\r\n"
            statusOf <$> receiveAll two `shouldReturn` 200
    it "setMaximumConnections makes only one give way, however long that takes to end" $ do
      -- Longer than a connection lingers whose client has just sent something, and falls silent.
      let slowEnd = setOnClose (const (threadDelay 1300000)) . setMaximumConnections (Just 2)
      withWatchedServer slowEnd $ \port reaches ->
        withConnection port $ \one -> do
          ask one >> reaches (ConnectionStates 0 1 0)
          withConnection port $ \two -> do
            ask two >> reaches (ConnectionStates 0 2 0)
            statusOf <$> exchange port "GET / HTTP/1.0\r\n\r\n" `shouldReturn` 200
            send two "GET / HTTP/1.0\r\n\r\n"
            statusOf <$> receiveAll two `shouldReturn` 200
    it "setMaximumConnections makes one give way that has been silent for long, before its first request" $
      withWatchedServer (setMaximumConnections (Just 1)) $ \port reaches -> do
        (bytes, elapsed) <- timed . withConnection port $ \silent -> do
          -- Another thread accepts the next one.
          reaches (ConnectionStates 1 0 0)
          exchange port "GET / HTTP/1.0\r\n\r\n" <* (receiveAll silent `shouldReturn` "")
        (statusOf bytes, elapsed > 4, elapsed < 25) `shouldBe` (200, True, True)
    it "setMaximumConnections makes others wait for busy ones" $ do
      now <- newIORef (0 :: Int, 0 :: Int)
      let application request respond = do
            atomicModifyIORef' now (\(count, most) -> ((count + 1, max most (count + 1)), ()))
            threadDelay 20000
            atomicModifyIORef' now (\(count, most) -> ((count - 1, most), ()))
            pong request respond
      withServer (setMaximumConnections (Just 3)) application $ \port -> do
        answers <- forConcurrently [1 .. 30 :: Int] (const (exchange port "GET / HTTP/1.0\r\n\r\n"))
        map statusOf answers `shouldBe` replicate 30 200
        readIORef now
          >>= (`shouldSatisfy` (<= 4)) . snd -- two accepting threads may both find a free slot for one connection
  where
    ask client = send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveResponse client
    -- The action gets another one that waits until the server sees its connections so.
    withWatchedServer change use = do
      (state, watched) <- makeServerState defaultSettings
      let reaches states = Time.eventually (show states) ((== states) <$> currentConnectionStates state)
      withServer (\settings -> change settings {settingsServerState = getServerState watched}) pong (`use` reaches)
