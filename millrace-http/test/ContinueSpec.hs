{-# LANGUAGE OverloadedStrings #-}

-- | 100 (Continue): when it is sent, and when it is not.
module ContinueSpec (spec) where

import ConnectionSupport
import Control.Monad (forM_, replicateM_)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString, lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Network.HTTP.Types
import Network.Wai
import Support
import Test.Hspec

spec :: Spec
spec = overAllMedia examples

examples :: Medium -> Spec
examples medium = do
  describe "100 (Continue) (RFC 9110, 10.1.1)" $ do
    it "is sent when the application reads the body" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send
          client
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n"
        interim <- receiveUntilThere "\r\n\r\n" 1 200000 client
        interim `shouldBe` ("HTTP/1.1 100 Continue\r\n\r\n", False)
        send client "hello"
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["hello"]
    it "is not sent when the body is there already" $
      withServerOver medium id echo $ \port -> do
        bytes <-
          exchange
            port
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello"
        map replyStatus (parseReplies bytes) `shouldBe` [200]
    it "is not waited for by a client that has begun to send the body: the connection is kept" $
      forM_ [(echo, "hello"), (path, "/1")] $ \(application, expected) ->
        withServerOver medium id application $ \port -> do
          let next = "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbye"
          bytes <-
            exchange
              port
              (B.append "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello" next)
          map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
            `shouldBe` [(200, Nothing), (200, Just "close")]
          map replyBody (take 1 (parseReplies bytes)) `shouldBe` [expected]
    it "nor when the application has read what had come of it, and no more" $ do
      let begins request respond = do
            begun <- getRequestBodyChunk request
            respond (responseLBS status200 [] (L.fromStrict begun))
      forM_
        [ ("Content-Length: 5\r\n\r\nhe", "llo"),
          ("Transfer-Encoding: chunked\r\n\r\n2\r\nhe", "\r\n3\r\nllo\r\n0\r\n\r\n")
        ]
        $ \(start, end) ->
          withServerOver medium id begins $ \port -> withConnection port $ \client -> do
            send client (B.append "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" start)
            reply <- receiveResponse client
            (replyStatus reply, headerOf "connection" reply, replyBody reply) `shouldBe` (200, Nothing, "he")
            send client (B.append end "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
            replyBody <$> receiveResponse client `shouldReturn` "hi"
    it "is not sent when the application does not read the body, and the connection is closed" $
      withServerOver medium id path $ \port -> do
        bytes <- exchange port "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
          `shouldBe` [(200, Just "close")]
    it "is not sent to HTTP/1.0" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        receiveUntilTimeout 200000 client `shouldReturn` ("", False)
        send client "hello"
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["hello"]
    it "RFC 9110, 7.8: is sent before the application switches protocols" $ do
      let application _ respond = respond (responseRaw raw (responseLBS status500 [] ""))
          raw receiveBytes sendBytes = do
            () <- sendBytes "HTTP/1.1 101 Switching Protocols\r\n\r\n"
            receiveBytes >>= sendBytes
      withServerOver medium id application $ \port -> withConnection port $ \client -> do
        send
          client
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: upgrade\r\nUpgrade: x\r\nExpect: \
          \100-continue\r\n\r\n"
        (first, _) <- receiveUntilThere "\r\n\r\n" 2 200000 client
        first `shouldBe` "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n"
        send client "x"
        receiveAll client `shouldReturn` "x"
    it "is sent when a stream is made of the body, before the response begins" $
      withServerOver medium id (streamsBody False) $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        interim <- receiveUntilThere "\r\n\r\n" 1 200000 client
        interim `shouldBe` ("HTTP/1.1 100 Continue\r\n\r\n", False)
        send client "hello"
        replyBody <$> receiveResponse client `shouldReturn` "hello"
    forM_ [("short", 5), ("longer than what would be skipped", 100000)] $ \(length', size) ->
      forM_
        [ ("by length", \body -> B.concat ["Content-Length: ", C8.pack (show (B.length body)), "\r\n\r\n"], id),
          ("chunked", const "Transfer-Encoding: chunked\r\n\r\n", chunked 5000)
        ]
        $ \(framing, fields, framed) ->
          it ("and the connection is kept, for a body that is " ++ length' ++ ", " ++ framing) $
            withServerOver medium id (streamsBody False) $ \port -> withConnection port $ \client ->
              replicateM_ 2 $ do
                let body = patterned size
                send client (B.append "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" (fields body))
                replyStatus <$> receiveResponse client `shouldReturn` 100
                send client (framed body)
                reply <- receiveResponse client
                (headerOf "connection" reply, replyBody reply == body) `shouldBe` (Nothing, True)
    it "is not sent to a client that gets a stream which ends the connection, however full the output is" $
      forM_ ([0, 1] ++ [15000, 15017 .. 16500] ++ [200000]) $ \size -> do
        let streams _ respond = respond . responseStream status200 [] $ \write _ -> do
              write (byteString (B.take (size `div` 2) (patterned size)))
              write (byteString (B.drop (size `div` 2) (patterned size)))
        withServerOver medium id streams $ \port -> do
          replies <-
            parseReplies
              <$> exchange port "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
          map (\reply -> (headerOf "connection" reply, replyBody reply == patterned size)) replies
            `shouldBe` [(Just "close", True)]
    it "and if the body turns out to be broken before that, the response is another one" $
      withServerOver medium id (streamsBody False) $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        interim <- receiveUntilThere "\r\n\r\n" 1 200000 client
        interim `shouldBe` ("HTTP/1.1 100 Continue\r\n\r\n", False)
        send client "2\r\nhi\r\nbroken"
        statusOf <$> receiveAll client `shouldReturn` 400
    it "is not waited for by a stream that is made of the body, but has been flushed: the response begins first" $
      withServerOver medium id (streamsBody True) $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        (begun, _) <- receiveUntilThere "\r\n\r\n" 1 5000000 client
        begun `shouldSatisfy` B.isPrefixOf "HTTP/1.1 200 OK\r\n"
        send client "hello"
        rest <- receiveAll client
        map replyBody (parseReplies (B.append begun rest)) `shouldBe` ["hello"]
    it "is sent when the body is read while the response is made of it, and the connection is kept" $
      withServerOver medium id echoesLazily $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\nExpect: 100-continue\r\n\r\n"
        interim <- receiveUntilThere "\r\n\r\n" 1 200000 client
        interim `shouldBe` ("HTTP/1.1 100 Continue\r\n\r\n", False)
        send client (C8.replicate 10000 'x')
        reply <- receiveResponse client
        (headerOf "connection" reply, B.length (replyBody reply)) `shouldBe` (Nothing, 10000)
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
        replyBody <$> receiveResponse client `shouldReturn` "hi"
    it "and if the body turns out to be broken then, the response is still another one" $
      withServerOver medium id echoesLazily $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        interim <- receiveUntilThere "\r\n\r\n" 1 200000 client
        interim `shouldBe` ("HTTP/1.1 100 Continue\r\n\r\n", False)
        send client "2\r\nhi\r\nbroken"
        statusOf <$> receiveAll client `shouldReturn` 400
    it "is not sent after the response has begun" $
      withServerOver medium id respondsThenReads $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        (begun, _) <- receiveUntilTimeout 200000 client
        send client "hello"
        rest <- receiveAll client
        map (\reply -> (replyStatus reply, replyBody reply)) (parseReplies (B.append begun rest))
          `shouldBe` [(200, "read: hello")]
  where
    echoesLazily request respond = lazyRequestBody request >>= respond . responseLBS status200 []

respondsThenReads :: Application
respondsThenReads request respond = respond . responseStream status200 [] $ \write flush -> do
  write "read: "
  flush
  body <- strictRequestBody request
  write (lazyByteString body)
