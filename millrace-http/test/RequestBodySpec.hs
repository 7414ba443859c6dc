{-# LANGUAGE OverloadedStrings #-}

-- | Bodies of requests: how they arrive, are skipped, and end a connection.
module RequestBodySpec (spec) where

import ConnectionSupport
import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), ErrorCall (..), SomeException, fromException, throwIO, try)
import Control.Monad (forM_, replicateM_, void, when)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Either (isRight)
import Data.IORef
import Data.Maybe (isJust)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = overAllMedia examples

examples :: Medium -> Spec
examples medium = do
  describe "request bodies" $ do
    it "arrive whole, by length" $
      withServerOver medium id echo $ \port -> withConnection port $ \client ->
        forM_ [0, 1, 1000, 14000, 16384, 200000] $ \size -> do
          let body = patterned size
          send
            client
            (B.concat ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C8.pack (show size), "\r\n\r\n", body])
          reply <- receiveResponse client
          replyBody reply `shouldBe` body
    it "arrive whole, chunked" $
      withServerOver medium id echo $ \port -> withConnection port $ \client ->
        forM_ [0, 1, 1000, 14000, 16384, 200000] $ \size -> do
          let body = patterned size
          send client (B.concat ["POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunked 777 body])
          reply <- receiveResponse client
          replyBody reply `shouldBe` body
    it "have the length the client gave" $
      withServerOver
        medium
        id
        ( \request respond ->
            respond (responseLBS status200 [] (L.fromStrict (C8.pack (describe' (requestBodyLength request)))))
        )
        $ \port ->
          do
            bytes <-
              exchange
                port
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nHost: \
                \a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.0\r\n\r\n"
            map replyBody (parseReplies bytes) `shouldBe` ["3", "chunked", "0"]
    it "are empty again and again at their end" $
      withServerOver medium id readsTwice $ \port -> do
        bytes <- exchange port "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"
        map replyBody (parseReplies bytes) `shouldBe` ["abc"]
    it "are skipped when the application does not read them" $
      withServerOver medium id path $ \port -> do
        bytes <-
          exchange port $
            B.concat
              [ "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 8192\r\n\r\n",
                C8.replicate 8192 'x',
                "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                chunked 100 (C8.replicate 8000 'x'),
                "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
              ]
        map replyBody (parseReplies bytes) `shouldBe` ["/1", "/2", "/3"]
    it "RFC 9112, 9.6: broken ones that are not read end the connection, and the response says so" $
      forM_ ["xyz\r\nhello", "5\r\nhello!\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nnonsense\r\n\r\n", "5\nhello\n0\n\n"] $
        \broken ->
          forM_ [path, \_ _ -> throwIO (ErrorCall "fault")] $ \application ->
            withServerOver medium id application $ \port -> do
              bytes <-
                exchange
                  port
                  ( B.concat
                      [ "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                        broken,
                        "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
                      ]
                  )
              map (headerOf "connection") (parseReplies bytes) `shouldBe` [Just "close"]
    it "those that are whole, or not all there, keep it" $
      forM_ [["3\r\nabc\r\n0\r\n\r\n"], ["3\r\na", "bc\r\n", "0", "\r\n\r\n"]] $ \pieces ->
        withServerOver medium id path $ \port -> withConnection port $ \client -> do
          send client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
          forM_ pieces $ \piece -> send client piece >> threadDelay 2000
          reply <- receiveResponse client
          send client "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
          next <- parseReplies <$> receiveAll client
          (headerOf "connection" reply, map replyBody next) `shouldBe` (Nothing, ["/2"])
    it "their rest is waited for behind the response, wherever the client waits for that" $
      forM_
        [ ("", "5\r\nhello\r\n0\r\n\r\n"),
          ("5", "\r\nhello\r\n0\r\n\r\n"),
          ("5\r\nhel", "lo\r\n0\r\n\r\n"),
          ("5\r\nhello\r\n", "0\r\n\r\n"),
          ("5\r\nhello\r\n0\r\n", "\r\n")
        ]
        $ \(begun, rest) ->
          withServerOver medium id path $ \port -> withConnection port $ \client -> do
            send client (B.append "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" begun)
            (reply, elapsed) <- timed (receiveResponse client)
            (begun, replyBody reply, elapsed < 15) `shouldBe` (begun, "/1", True)
            send client (B.append rest "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["/2"]
    it "end the connection when they are too long to skip, without losing the response" $
      withServerOver medium id path $ \port ->
        replicateM_ 20 . withConnection port $ \client -> do
          send client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n"
          send client (C8.replicate 400000 'x')
          replies <- parseReplies <$> receiveAll client
          map (\reply -> (replyBody reply, headerOf "connection" reply)) replies `shouldBe` [("/1", Just "close")]
    it "chunked ones too" $
      withServerOver medium id path $ \port ->
        replicateM_ 20 . withConnection port $ \client -> do
          send client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
          send client (B.take 400000 (chunked 4096 (C8.replicate 500000 'x')))
          map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["/1"]
    it "end the connection when they were malformed, even if the application makes nothing of that" $ do
      let application request respond = do
            outcome <- try (strictRequestBody request)
            respond
              ( responseLBS
                  status200
                  []
                  (either (\reason -> L.fromStrict (C8.pack (show (reason :: InvalidRequest)))) id outcome)
              )
      withServerOver medium id application $ \port -> do
        bytes <-
          exchange
            port
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
        map (\reply -> (replyBody reply, headerOf "connection" reply)) (parseReplies bytes)
          `shouldBe` [("BadRequest \"malformed chunk\"", Just "close")]
    -- The server knows their size only if they have arrived.
    when (movesAllAtOnce medium)
      . it
        "RFC 9112, 9.6: chunked ones that are known to be too long to skip end the connection, and the response says so"
      $ forM_
        [ ["2001\r\n"],
          ["2000\r\n" <> C8.replicate 8192 'x' <> "\r\n1\r\n"],
          ["1\r\nx\r\n", "2000\r\n"],
          [chunked 100 (C8.replicate 8193 'x')]
        ]
        $ \pieces ->
          withServerOver medium id path $ \port -> withConnection port $ \client -> do
            send client (B.append "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" (B.concat pieces))
            (replies, elapsed) <- timed (parseReplies <$> receiveAll client)
            (map (headerOf "connection") replies, elapsed < 15) `shouldBe` ([Just "close"], True)
    it "RFC 9112, 9.6: a stream that is not made of one, or only of its beginning, says so, too, if it is not flushed" $
      forM_ [const (return ()), void . getRequestBodyChunk] $ \reading -> do
        let streams request respond =
              respond (responseStream status200 [] (\write _ -> write "a" >> reading request >> write "b"))
        withServerOver medium id streams $ \port -> withConnection port $ \client -> do
          send client (B.append "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" (patterned 1000))
          replies <- parseReplies <$> receiveAll client
          map (\reply -> (replyBody reply, headerOf "connection" reply)) replies `shouldBe` [("ab", Just "close")]
    it "and so does one that makes nothing of a malformed body" $ do
      let streams request respond = respond . responseStream status200 [] $ \write _ -> do
            outcome <- try (strictRequestBody request)
            write (byteString (either (\reason -> C8.pack (show (reason :: InvalidRequest))) L.toStrict outcome))
      withServerOver medium id streams $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        -- If the body is already broken, the response says so from the start.
        threadDelay 50000
        send client "x\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
        replies <- parseReplies <$> receiveAll client
        map (\reply -> (replyBody reply, headerOf "connection" reply)) replies
          `shouldBe` [("BadRequest \"malformed chunk\"", Just "close")]
    it "those that a stream is made of may be as long as they like" $
      forM_ [streamsBody False, streamsBody True] $ \application ->
        withServerOver medium id application $ \port -> withConnection port $ \client ->
          forM_ [("Content-Length: 100000", id), ("Transfer-Encoding: chunked", chunked 20000)] $ \(field, framed) -> do
            let body = patterned 100000
            send client (B.concat ["POST / HTTP/1.1\r\nHost: a\r\n", field, "\r\n\r\n", framed body])
            reply <- receiveResponse client
            (headerOf "connection" reply, replyBody reply == body) `shouldBe` (Nothing, True)
    it "that another thread still waits for do not keep a connection that ends" $ do
      outcome <- newEmptyMVar
      let application request respond = do
            void (forkIO (try (getRequestBodyChunk request) >>= putMVar outcome))
            -- Until that waits.
            threadDelay 100000
            respond (responseStream status200 [] (\write flush -> write "whole" >> flush))
      withServerOver medium id application $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\n"
        (replies, elapsed) <- timed (parseReplies <$> receiveAll client)
        (map replyBody replies, elapsed < 15) `shouldBe` (["whole"], True)
        read' <- within "the end of the body" (takeMVar outcome)
        -- Over HTTP/2 the client has the whole answer before the application returns, and may be the first to end.
        either endOf (const Nothing) read' `shouldSatisfy` isJust
    it "cannot be read any more when the request is over" $ do
      kept <- newIORef (return "")
      let application request respond = do
            writeIORef kept (getRequestBodyChunk request)
            respond (responseLBS status200 [] "x")
      withServerOver medium id application $ \port -> do
        bytes <- exchange port "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
        statusOf bytes `shouldBe` 200
        late <- readIORef kept
        whenOver isRight late `shouldReturn` Left UsedTooLate
    it "cannot be read any more when an exception has ended the connection" $ do
      kept <- newIORef (return "")
      let application request _ = writeIORef kept (getRequestBodyChunk request) >> throwIO ThreadKilled
      withServerOver medium id application $ \port -> do
        exchange port "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" `shouldReturn` ""
        late <- readIORef kept
        late `shouldThrow` (== UsedTooLate)
    it "end for a thread that waits for more when an exception ends the connection" $ do
      outcome <- newEmptyMVar
      let application request _ = do
            void (forkIO (try (strictRequestBody request) >>= putMVar outcome))
            threadDelay 100000
            throwIO ThreadKilled
      withServerOver medium id application $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na"
        receiveAll client `shouldReturn` ""
        read' <- within "the end of the body" (takeMVar outcome)
        either fromException (const Nothing) read' `shouldBe` Just ConnectionClosedByPeer
  where
    endOf :: SomeException -> Maybe String
    endOf failure
      | Just UsedTooLate <- fromException failure = Just "the request is over"
      | Just ConnectionClosedByPeer <- fromException failure = Just "the client has left"
      | otherwise = Nothing
    describe' ChunkedBody = "chunked"
    describe' (KnownLength size) = show size

readsTwice :: Application
readsTwice request respond = do
  body <- strictRequestBody request
  again <- getRequestBodyChunk request
  more <- getRequestBodyChunk request
  respond (responseLBS status200 [] (L.append body (L.fromChunks [again, more])))
