{-# LANGUAGE OverloadedStrings #-}

-- | Limits that Warp does not have: a time for each phase, a rate, sizes and numbers.
module LimitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (forConcurrently, withAsync)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, fromException, try)
import Control.Monad (forM, forM_, forever, join, replicateM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString, lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import GHC.Clock (getMonotonicTime)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "limits beyond all measure" $ do
    it "are none" $ do
      let settings =
            setMaxTotalHeaderLength 4294967296
              . setTimeout maxBound
              . setTotalTimeout maxBound
              . setMinimumRate 1 maxBound
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
  describe "phases with times of their own" $ do
    it "setIdleTimeout is for the time between requests" $
      withServer (setTimeout 30 . setIdleTimeout 1) pong $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        _ <- receiveResponse client
        (rest, seconds) <- timed (receiveAll client)
        (rest, aboutOne seconds) `shouldBe` ("", True)
    it "setIdleTimeout is not for the time before the first request" $
      withServer (setTimeout 5 . setIdleTimeout 1) pong $ \port -> withConnection port $ \client -> do
        threadDelay 1600000
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        replyStatus <$> receiveResponse client `shouldReturn` 200
    it "setHeaderTimeout is for a request's head" $
      withServer (setTimeout 30 . setHeaderTimeout 1) pong $ \port -> withConnection port $ \client -> do
        threadDelay 1500000
        send client "GET / HTTP/1.1\r\nHo"
        (bytes, seconds) <- timed (receiveAll client)
        (statusOf bytes, aboutOne seconds) `shouldBe` (408, True)
    it "setBodyTimeout is for its body" $
      withServer (setTimeout 30 . setBodyTimeout 1) echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
        (bytes, seconds) <- timed (receiveAll client)
        (statusOf bytes, aboutOne seconds) `shouldBe` (408, True)
    it "setSendTimeout is for a client that takes nothing" $ do
      ended <- newIORef Nothing
      withServer (setTimeout 30 . setSendTimeout 1) (endless ended) $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        seconds <- within "the end" (untilJust (readIORef ended))
        aboutOne seconds `shouldBe` True
    it "a client that takes little, but steadily, is served for longer than setSendTimeout" $ do
      let size = 4000000
      withServer (setTimeout 1) (\_ respond -> respond (responseLBS status200 [] (L.replicate size 0x78))) $ \port ->
        withSmallConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          (pieces, seconds) <- timed (dribblingReceive client (fromIntegral size `div` 40))
          (map (B.length . replyBody) (parseReplies (B.concat pieces)), seconds > 3)
            `shouldBe` ([fromIntegral size], True)

  describe "setTotalTimeout" $ do
    it "interrupts an application that takes longer, and the client gets a 503" $ do
      caught <- newIORef Nothing
      let application request respond = do
            outcome <- try (threadDelay 20000000)
            either
              (\failure -> writeIORef caught (Just (failure :: SomeException)) >> ioError (userError "late"))
              return
              outcome
            pong request respond
      withServer (setTotalTimeout 1) application $ \port -> do
        (bytes, seconds) <- timed (exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        (statusOf bytes `elem` [500, 503], aboutOne seconds) `shouldBe` (True, True)
        readIORef caught >>= maybe (expectationFailure "not interrupted") (const (return ()))
      withServer (setTotalTimeout 1) (\request respond -> threadDelay 20000000 >> pong request respond) $ \port ->
        statusOf <$> exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` 503
    it "makes reading and sending fail first, so that a slow client interrupts nobody" $ do
      caught <- newIORef []
      let application request respond = do
            outcome <- try (strictRequestBody request)
            either
              (\failure -> modifyIORef caught (fromException failure :) >> ioError (userError "late"))
              (const (return ()))
              outcome
            pong request respond
      withServer (setTotalTimeout 1) application $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
        withAsync (sendSlowly client) $ \_ -> do
          (_, seconds) <- timed (receiveAll client)
          aboutOne seconds `shouldBe` True
      readIORef caught `shouldReturn` [Just RequestTimedOut]
    it "ends a response that takes longer" $ do
      ended <- newIORef Nothing
      withServer (setTotalTimeout 1) (endless ended) $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        withAsync (forever (receive client >> threadDelay 1000)) $ \_ -> do
          seconds <- within "the end" (untilJust (readIORef ended))
          aboutOne seconds `shouldBe` True
    it "is lifted by pauseTimeout, for reading, working and sending, and back for the next request" $ do
      let application request respond
            | rawPathInfo request == "/long" = do
              pauseTimeout request
              body <- strictRequestBody request
              threadDelay 1500000
              respond . responseStream status200 [] $ \write flush ->
                write (lazyByteString body) >> flush >> threadDelay 300000 >> write "!"
            | otherwise = threadDelay 20000000 >> pong request respond
      withServer (setTotalTimeout 1) application $ \port -> withConnection port $ \client -> do
        send client "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe"
        threadDelay 1300000
        send client "llo"
        replyBody <$> receiveResponse client `shouldReturn` "hello!"
        send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        statusOf <$> receiveAll client `shouldReturn` 503
    it "counts each request for itself, and no idle time" $
      withServer (setTotalTimeout 1) pong $ \port -> withConnection port $ \client ->
        forM_ [1 .. 3 :: Int] $ \_ -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          threadDelay 700000

  describe "setMinimumRate, 10000 bytes per second over 1 second" $ do
    it "ends a body that comes more slowly" $
      withServer rated echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
        withAsync
          ( void
              (try (forever (send client (C8.replicate 500 'x') >> threadDelay 100000)) :: IO (Either SomeException ()))
          )
          $ \_ ->
            do
              (bytes, seconds) <- timed (receiveAll client)
              (statusOf bytes, aboutOne seconds) `shouldBe` (408, True)
    it "ends a body that comes more slowly than can be counted" $
      withServer (setTimeout 30 . setMinimumRate maxBound 2) echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
        withAsync
          ( void
              (try (forever (send client (C8.replicate 500 'x') >> threadDelay 100000)) :: IO (Either SomeException ()))
          )
          $ \_ ->
            statusOf <$> receiveAll client `shouldReturn` 408
    it "reads one that comes faster to its end" $
      withServer rated echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 240000\r\n\r\n"
        replicateM_ 30 (threadDelay 80000 >> send client (C8.replicate 8000 'x'))
        map (B.length . replyBody) . parseReplies <$> receiveAll client `shouldReturn` [240000]
    it "ends a response that is taken more slowly" $ do
      ended <- newIORef Nothing
      withServer rated (endless ended) $ \port -> withSmallConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        withAsync (forever (threadDelay 200000 >> receiveSome client 500)) $ \_ -> do
          seconds <- within "the end" (untilJust (readIORef ended))
          seconds `shouldSatisfy` \value -> value > 0.9 && value < 8
    it "serves a client that takes it faster" $ do
      let size = 4000000
      withServer rated (\_ respond -> respond (responseLBS status200 [] (L.replicate size 0x78))) $ \port ->
        withSmallConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          pieces <- dribblingReceive client (fromIntegral size `div` 40)
          map (B.length . replyBody) (parseReplies (B.concat pieces)) `shouldBe` [fromIntegral size]

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
            withServer (setBodyTimeout 2 . setSlowlorisSize size) echo $ \port -> withConnection port $ \client -> do
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
      withServer (setMaximumConnections (Just 2)) pong $ \port ->
        -- Wait for an answer before the next one connects, so that their order is certain whichever threads accept
        -- them.
        withConnection port $ \one ->
          becomeIdle one
            >> withConnection
              port
              ( \two -> do
                  becomeIdle two
                  statusOf <$> exchange port "GET / HTTP/1.0\r\n\r\n" `shouldReturn` 200
                  receiveAll one `shouldReturn` ""
                  send two "GET / HTTP/1.0\r\n\r\n"
                  statusOf <$> receiveAll two `shouldReturn` 200
              )
    it "setMaximumConnections makes one give way that has been silent for long, before its first request" $
      withServer (setMaximumConnections (Just 1)) pong $ \port -> withConnection port $ \silent -> do
        threadDelay 300000 -- until a thread has accepted it: another thread accepts the next one
        (bytes, seconds) <- timed (exchange port "GET / HTTP/1.0\r\n\r\n")
        (statusOf bytes, seconds > 4, seconds < 25) `shouldBe` (200, True, True)
        receiveAll silent `shouldReturn` ""
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
        readIORef now >>= (`shouldSatisfy` (<= 4)) . snd -- two accepting threads may both find room for one connection
  where
    becomeIdle client = do
      send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      _ <- receiveResponse client
      threadDelay 300000 -- until the server has noticed it
    rated = setTimeout 30 . setMinimumRate 10000 1
    aboutOne seconds = seconds > 0.9 && seconds < (8 :: Double) -- for a busy machine; the next limit is 20 s or more
    untilJust check = check >>= maybe (threadDelay 20000 >> untilJust check) return

-- Sends for as long as the server accepts it, and returns the time that this took.
endless :: IORef (Maybe Double) -> Application
endless ended _ respond = do
  start <- getMonotonicTime
  outcome <-
    try
      ( respond
          (responseStream status200 [] (\write flush -> forever (write (byteString (C8.replicate 10000 'x')) >> flush)))
      )
  end <- getMonotonicTime
  writeIORef ended (Just (end - start))
  either (\failure -> ioError (userError (show (failure :: SomeException)))) return outcome

-- Receives this many bytes ten times a second.
dribblingReceive :: Client -> Int -> IO [ByteString]
dribblingReceive client size = do
  threadDelay 100000
  bytes <- receiveSome client size
  if B.null bytes then return [] else (bytes :) <$> dribblingReceive client size
