{-# LANGUAGE OverloadedStrings #-}

-- | How long a connection lives, and what goes over it: keep-alive, pipelining, empty lines.
module ConnectionSpec (spec) where

import ConnectionSupport
import Control.Concurrent (threadDelay)
import Control.Concurrent.Async (forConcurrently_, withAsync)
import Control.Exception (SomeException, fromException, try)
import Control.Monad (forM_, forever, replicateM_, void)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = overAllMedia examples

examples :: Medium -> Spec
examples medium = do
  describe "persistence (RFC 9112, 9.3)" $ do
    it "HTTP/1.1 keeps the connection, and says nothing about it" $ stays "GET / HTTP/1.1\r\nHost: a\r\n\r\n" Nothing
    it "HTTP/1.0 with keep-alive keeps it, and says so" $
      stays "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" (Just "keep-alive")
    it "a list with other tokens keeps it" $
      stays "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, upgrade\r\n\r\n" Nothing
    it "HTTP/1.0 closes" $ closes "GET / HTTP/1.0\r\n\r\n"
    it "close closes" $ closes "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    it "close in a list closes" $ closes "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n"
    it "close in the second of two lines closes" $
      closes "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"
    it "HTTP/1.0 with keep-alive and close closes" $ closes "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"
    it "RFC 9112, 9.6: nothing after a request with close is processed" $
      withServerOver medium id path $ \port -> do
        bytes <-
          exchange port "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
        map replyBody (parseReplies bytes) `shouldBe` ["/1"]
    it "RFC 9110, 5.6.1: empty elements of a list mean nothing" $
      closes "GET / HTTP/1.1\r\nHost: a\r\nConnection: , ,\tclose ,\r\n\r\n"
    it "RFC 9112, 9.3: options that only contain close keep it" $
      stays "GET / HTTP/1.1\r\nHost: a\r\nConnection: not-close, closed, \"close\"\r\n\r\n" Nothing
    it "the application may close" $
      withServerOver medium id (\_ respond -> respond (responseLBS status200 [("Connection", "Close")] "x")) $ \port ->
        do
          bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          map (headerOf "connection") (parseReplies bytes) `shouldBe` [Just "close"]
    it "the application's close counts as it is sent, without its control characters" $
      withServerOver medium id (\_ respond -> respond (responseLBS status200 [("Connection", "close\0")] "x")) $
        \port ->
          do
            bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            [value | ("connection", value) <- concatMap replyFields (parseReplies bytes)] `shouldBe` ["close"]
    it "other options of the application's are passed on" $
      withServerOver
        medium
        id
        (\_ respond -> respond (responseLBS status200 [("Connection", "X-Hop, close"), ("X-Hop", "1")] "x"))
        $ \port ->
          do
            bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            [value | ("connection", value) <- concatMap replyFields (parseReplies bytes)]
              `shouldBe` ["X-Hop, close", "close"]

  describe "pipelining (RFC 9112, 9.3.2)" $ do
    it "answers in order, however many requests come at once" $
      withServerOver medium id path $ \port -> withConnection port $ \client -> do
        let count = 5000 :: Int
            request number =
              B.concat
                [ "GET /",
                  C8.pack (show number),
                  " HTTP/1.1\r\nHost: a\r\n",
                  if number == count
                    then "Connection: close\r\n\r\n"
                    else "\r\n"
                ]
        send client (B.concat (map request [1 .. count]))
        replies <- parseReplies <$> receiveAll client
        map replyBody replies `shouldBe` [C8.pack ('/' : show number) | number <- [1 .. count]]
    it "sends the answers to buffered requests at once" $
      withServerOver medium id path $ \port -> withConnection port $ \client -> do
        send client (B.concat (replicate 10 "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"))
        (bytes, closed) <- receiveUntilThere "HTTP/1.1" 10 300000 client
        (length (parseReplies bytes), closed) `shouldBe` (10, False)
    it "answers what is complete when the next request is not" $
      withServerOver medium id path $ \port -> withConnection port $ \client -> do
        send client "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHo"
        first <- receiveResponse client
        send client "st: a\r\n\r\n"
        second <- receiveResponse client
        map replyBody [first, second] `shouldBe` ["/1", "/2"]
    it "mixes small, large and chunked bodies" $
      withServerOver medium id sized $ \port -> withConnection port $ \client -> do
        let sizes = [0, 1, 100, 3000, 5000, 16000, 16384, 20000, 100000, 7, 300000, 0, 12000, 12000] :: [Int]
        send client (B.concat [B.concat ["GET /", C8.pack (show size), " HTTP/1.1\r\nHost: a\r\n\r\n"] | size <- sizes])
        forM_ sizes $ \size -> do
          reply <- receiveResponse client
          replyBody reply `shouldBe` C8.replicate size 'x'
        send client "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["x"]
    it "answers a valid request and then refuses an invalid one" $
      withServerOver medium id path $ \port -> do
        bytes <- exchange port "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost : a\r\n\r\n"
        map replyStatus (parseReplies bytes) `shouldBe` [200, 400]

  describe "empty lines before a request (RFC 9112, 2.2)" $ do
    it "are ignored, also when they come alone" $
      withServerOver medium id path $ \port -> withConnection port $ \client -> do
        send client "\r\nPOST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "/1"
        receiveUntilTimeout 100000 client `shouldReturn` ("", False)
        send client "\r\n\r\n"
        receiveUntilTimeout 100000 client `shouldReturn` ("", False)
        send client "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "/2"
    it "are no beginning of one: the connection is idle, and closed as such" $
      withServerOver medium (setIdleTimeout (seconds 1)) pong $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
        receiveUntilTimeout 10000000 client `shouldReturn` ("", True)
    it "keep nobody connected who sends nothing else" $
      withServerOver medium (setIdleTimeout (seconds 1) . setHeaderTimeout (seconds 1)) pong $
        \port -> withConnection port $ \client ->
          withAsync (void (try (forever (send client "\r\n" >> threadDelay 200000)) :: IO (Either SomeException ()))) $
            \_ ->
              receiveUntilTimeout 10000000 client `shouldReturn` ("", True)
    it "are no request that was cut off when the client leaves" $ do
      refused <- newIORef []
      withServerOver medium (setOnException (\_ failure -> modifyIORef refused (fromException failure :))) pong $
        \port ->
          withConnection port $ \client -> do
            send client "\r\n"
            threadDelay 100000
            send client "\r\n"
            threadDelay 100000
            sendEnd client
            receiveAll client `shouldReturn` ""
      readIORef refused `shouldReturn` [Just ConnectionClosedByPeer]

  describe "many connections" $
    it "are served at the same time" $
      withServerOver medium id path $ \port ->
        forConcurrently_ [1 .. 100 :: Int] $ \number -> withConnection port $ \client ->
          forM_ [1 .. 20 :: Int] $ \time -> do
            let name = C8.pack ('/' : show (number * 1000 + time))
            send client (B.concat ["GET ", name, " HTTP/1.1\r\nHost: a\r\n\r\n"])
            reply <- receiveResponse client
            replyBody reply `shouldBe` name
  where
    stays request expected = withServerOver medium id pong $ \port -> withConnection port $ \client ->
      replicateM_ 3 $ do
        send client request
        reply <- receiveResponse client
        headerOf "connection" reply `shouldBe` expected
    closes request = withServerOver medium id pong $ \port -> do
      bytes <- exchange port request
      map (headerOf "connection") (parseReplies bytes) `shouldBe` [Just "close"]

sized :: Application
sized request respond = respond (responseLBS status200 [] (L.replicate size 0x78))
  where
    size = maybe 0 (fromIntegral . fst) (C8.readInt (B.drop 1 (rawPathInfo request)))
