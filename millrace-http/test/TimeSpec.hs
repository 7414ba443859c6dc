{-# LANGUAGE OverloadedStrings #-}

-- | Time limits: they bound slow clients in every phase, and never busy applications.
module TimeSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Exception (SomeException, try)
import Control.Monad (forM_, forever)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
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
spec = describe "time limits, of one second" $ do
  it "an idle connection is closed without a word" $
    withServer limited pong $ \port -> do
      (bytes, elapsed) <- timed (withConnection port receiveAll)
      (bytes, around1 elapsed) `shouldBe` ("", True)
  it "a kept connection too, after its response" $
    withServer limited pong $ \port -> withConnection port $ \client -> do
      ((reply, rest), elapsed) <- timed $ do
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        (,) <$> receiveResponse client <*> receiveAll client
      (replyBody reply, rest, around1 elapsed) `shouldBe` ("Pong", "", True)
  it "a head that stops gets a 408" $
    withServer limited pong $ \port -> withConnection port $ \client -> do
      (bytes, elapsed) <- timed (send client "GET / HTTP/1.1\r\nHo" >> receiveAll client)
      (statusOf bytes, around1 elapsed) `shouldBe` (408, True)
  it "a head that dribbles gets a 408 all the same" $
    withServer limited pong $ \port -> withConnection port $ \client -> do
      (bytes, elapsed) <- timed $ do
        send client "GET / HTTP/1.1\r\nX: "
        withAsync (sendSlowly client) (const (receiveAll client))
      (statusOf bytes, around1 elapsed) `shouldBe` (408, True)
  it "a body that stops gets a 408, and the application an exception where it reads" $ do
    caught <- newIORef Nothing
    let application request respond = do
          outcome <- try (strictRequestBody request)
          writeIORef caught (either Just (const Nothing) outcome)
          either (const (ioError (userError "body"))) (\_ -> pong request respond) outcome
    withServer limited application $ \port -> withConnection port $ \client -> do
      (_, elapsed) <- timed $ do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
        receiveAll client
      around1 elapsed `shouldBe` True
      readIORef caught `shouldReturn` Just RequestTimedOut
    withServer limited echo $ \port -> withConnection port $ \client -> do
      send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
      statusOf <$> receiveAll client `shouldReturn` 408
  it "a body that dribbles gets a 408" $
    withServer limited echo $ \port -> withConnection port $ \client -> do
      (bytes, elapsed) <- timed $ do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
        withAsync (sendSlowly client) (const (receiveAll client))
      (statusOf bytes, around1 elapsed) `shouldBe` (408, True)
  it "a body that is slow, but not too slow, is read to its end" $
    withServer (setTimeout 3) echo $ \port -> withConnection port $ \client -> do
      send client "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 160000\r\n\r\n"
      forM_ [1 .. 40 :: Int] $ \_ -> threadDelay 100000 >> send client (C8.replicate 4000 'x')
      bytes <- receiveAll client
      map (B.length . replyBody) (parseReplies bytes) `shouldBe` [160000]
  it "a client that does not read ends its connection" $ do
    ended <- newIORef Nothing
    let application _ respond = do
          start <- getMonotonicTime
          outcome <-
            try
              ( respond
                  ( responseStream
                      status200
                      []
                      (\write flush -> forever (write (byteString (C8.replicate 10000 'x')) >> flush))
                  )
              )
          end <- getMonotonicTime
          writeIORef ended (Just (end - start))
          either (\failure -> ioError (userError (show (failure :: SomeException)))) return outcome
    withServer limited application $ \port -> withConnection port $ \client -> do
      send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      elapsed <- within "the server's patience" (untilJust (readIORef ended))
      elapsed `shouldSatisfy` \value -> value > 0.9 && value < 8
  it "a large response to a slow reader arrives whole" $
    withServer limited (\_ respond -> respond (responseLBS status200 [] (L.replicate 3000000 0x78))) $ \port ->
      withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        pieces <- slowly client
        map (B.length . replyBody) (parseReplies (B.concat pieces)) `shouldBe` [3000000]
  it "an application may take as long as it likes, in all its phases" $ do
    let application request respond = do
          threadDelay 1500000
          begun <- getRequestBodyChunk request
          threadDelay 1500000
          rest <- strictRequestBody request
          respond . responseStream status200 [] $ \write flush -> do
            write "first, "
            flush
            threadDelay 1500000
            write (byteString begun <> byteString (L.toStrict rest))
    withServer limited application $ \port -> withConnection port $ \client -> do
      send
        client
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: \
        \chunked\r\n\r\n5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"
      map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["first, helloworld"]
  where
    limited = setTimeout 1
    around1 elapsed = elapsed > 0.9 && elapsed < (8 :: Double) -- on a busy machine
    slowly client = do
      threadDelay 20000
      bytes <- receive client
      if B.null bytes then return [] else (bytes :) <$> slowly client
    untilJust check = check >>= maybe (threadDelay 50000 >> untilJust check) return
