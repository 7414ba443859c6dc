{-# LANGUAGE OverloadedStrings #-}

-- | Limits of time that Warp does not have: for each phase, for the whole, and a rate.
module PhaseLimitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (SomeException, fromException, try)
import Control.Monad (forM_, forever, replicateM_, void)
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
  describe "phases with times of their own" $ do
    it "setIdleTimeout is for the time between requests" $
      withServer (setTimeout 30 . setIdleTimeout (seconds 1)) pong $ \port -> withConnection port $ \client -> do
        (rest, elapsed) <- timed $ do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          _ <- receiveResponse client
          receiveAll client
        (rest, aboutOne elapsed) `shouldBe` ("", True)
    it "setIdleTimeout is not for the time before the first request" $
      withServer (setTimeout 5 . setIdleTimeout (seconds 1)) pong $ \port -> withConnection port $ \client -> do
        threadDelay 1600000
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        replyStatus <$> receiveResponse client `shouldReturn` 200
    it "setHeaderTimeout is for a request's head" $
      withServer (setTimeout 30 . setHeaderTimeout (seconds 1)) pong $ \port -> withConnection port $ \client -> do
        threadDelay 1500000
        (bytes, elapsed) <- timed (send client "GET / HTTP/1.1\r\nHo" >> receiveAll client)
        (statusOf bytes, aboutOne elapsed) `shouldBe` (408, True)
    it "setBodyTimeout is for its body" $
      withServer (setTimeout 30 . setBodyTimeout (seconds 1)) echo $ \port -> withConnection port $ \client -> do
        (bytes, elapsed) <- timed $ do
          send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
          receiveAll client
        (statusOf bytes, aboutOne elapsed) `shouldBe` (408, True)
    it "setSendTimeout is for a client that takes nothing" $ do
      ended <- newIORef Nothing
      withServer (setTimeout 30 . setSendTimeout (seconds 1)) (endless ended) $ \port -> withConnection port $
        \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          elapsed <- within "the end" (untilJust (readIORef ended))
          aboutOne elapsed `shouldBe` True
    it "a client that takes little, but steadily, is served for longer than setSendTimeout" $ do
      let size = 4000000
      withServer (setTimeout 1) (\_ respond -> respond (responseLBS status200 [] (L.replicate size 0x78))) $ \port ->
        withSmallConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          (pieces, elapsed) <- timed (dribblingReceive client (fromIntegral size `div` 40))
          (map (B.length . replyBody) (parseReplies (B.concat pieces)), elapsed > 3)
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
      withServer (setTotalTimeout (seconds 1)) application $ \port -> do
        (bytes, elapsed) <- timed (exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        (statusOf bytes `elem` [500, 503], aboutOne elapsed) `shouldBe` (True, True)
        readIORef caught >>= maybe (expectationFailure "not interrupted") (const (return ()))
      withServer (setTotalTimeout (seconds 1)) (\request respond -> threadDelay 20000000 >> pong request respond) $
        \port ->
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
      withServer (setTotalTimeout (seconds 1)) application $ \port -> withConnection port $ \client -> do
        (_, elapsed) <- timed $ do
          send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
          withAsync (sendSlowly client) (const (receiveAll client))
        aboutOne elapsed `shouldBe` True
      readIORef caught `shouldReturn` [Just RequestTimedOut]
    it "ends a response that takes longer" $ do
      ended <- newIORef Nothing
      withServer (setTotalTimeout (seconds 1)) (endless ended) $ \port -> withConnection port $ \client -> do
        (_, elapsed) <- timed $ do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          withAsync (forever (receive client >> threadDelay 1000)) $
            \_ -> within "the end" (untilJust (readIORef ended))
        aboutOne elapsed `shouldBe` True
    it "is lifted by pauseTimeout, for reading, working and sending, and back for the next request" $ do
      let application request respond
            | rawPathInfo request == "/long" = do
              pauseTimeout request
              body <- strictRequestBody request
              threadDelay 1500000
              respond . responseStream status200 [] $ \write flush ->
                write (lazyByteString body) >> flush >> threadDelay 300000 >> write "!"
            | otherwise = threadDelay 20000000 >> pong request respond
      withServer (setTotalTimeout (seconds 1)) application $ \port -> withConnection port $ \client -> do
        send client "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe"
        threadDelay 1300000
        send client "llo"
        replyBody <$> receiveResponse client `shouldReturn` "hello!"
        send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        statusOf <$> receiveAll client `shouldReturn` 503
    it "counts each request for itself, and no idle time" $
      withServer (setTotalTimeout (seconds 1)) pong $ \port -> withConnection port $ \client ->
        forM_ [1 .. 3 :: Int] $ \_ -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          replyBody <$> receiveResponse client `shouldReturn` "Pong"
          threadDelay 700000

  describe "setMinimumRate, 10000 bytes per second over 1 second" $ do
    it "ends a body that comes more slowly" $
      withServer rated echo $ \port -> withConnection port $ \client -> do
        (bytes, elapsed) <- timed $ do
          send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
          withAsync (sendTooSlowly client) (const (receiveAll client))
        (statusOf bytes, aboutOne elapsed) `shouldBe` (408, True)
    it "ends a body that comes more slowly than can be counted" $
      withServer (setTimeout 30 . setMinimumRate maxBound (seconds 2)) echo $ \port -> withConnection port $
        \client -> do
          send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
          withAsync (sendTooSlowly client) $ \_ -> statusOf <$> receiveAll client `shouldReturn` 408
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
          elapsed <- within "the end" (untilJust (readIORef ended))
          elapsed `shouldSatisfy` \value -> value > 0.9 && value < 8
    it "serves a client that takes it faster" $ do
      let size = 4000000
      withServer rated (\_ respond -> respond (responseLBS status200 [] (L.replicate size 0x78))) $ \port ->
        withSmallConnection port $ \client -> do
          send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          pieces <- dribblingReceive client (fromIntegral size `div` 40)
          map (B.length . replyBody) (parseReplies (B.concat pieces)) `shouldBe` [fromIntegral size]
  where
    sendTooSlowly client =
      void (try (forever (send client (C8.replicate 500 'x') >> threadDelay 100000)) :: IO (Either SomeException ()))
    rated = setTimeout 30 . setMinimumRate 10000 (seconds 1)
    aboutOne elapsed = elapsed > 0.9 && elapsed < (8 :: Double) -- for a busy machine; the next limit is 20 s or more
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
