{-# LANGUAGE OverloadedStrings #-}

-- | How long a connection lives, and what goes over it: keep-alive, pipelining, request bodies, 100 (Continue).
module ConnectionSpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.Async (forConcurrently_, withAsync)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), ErrorCall (..), SomeException, fromException, throwIO, try)
import Control.Monad (forM_, forever, replicateM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString, lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Numeric (showHex)
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
            (reply, seconds) <- timed (receiveResponse client)
            (begun, replyBody reply, seconds < 15) `shouldBe` (begun, "/1", True)
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
            (replies, seconds) <- timed (parseReplies <$> receiveAll client)
            (map (headerOf "connection") replies, seconds < 15) `shouldBe` ([Just "close"], True)
    it "RFC 9112, 9.6: a stream that is not made of one, or only of its beginning, says so, too, if it is not flushed" $
      forM_ [const (return ()), void . getRequestBodyChunk] $ \reading -> do
        let streams request respond = respond (responseStream status200 [] (\write _ -> write "a" >> reading request >> write "b"))
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
        (replies, seconds) <- timed (parseReplies <$> receiveAll client)
        (map replyBody replies, seconds < 15) `shouldBe` (["whole"], True)
        read' <- within "the end of the body" (takeMVar outcome)
        either Just (const Nothing) read' `shouldBe` Just UsedTooLate
    it "cannot be read any more when the request is over" $ do
      kept <- newIORef (return "")
      let application request respond = do
            writeIORef kept (getRequestBodyChunk request)
            respond (responseLBS status200 [] "x")
      withServerOver medium id application $ \port -> do
        bytes <- exchange port "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
        statusOf bytes `shouldBe` 200
        late <- readIORef kept
        late `shouldThrow` (== UsedTooLate)
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
    it "is not sent to a client that gets a stream of something else, which says that the connection ends, however full the output is" $
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
      withServerOver medium (setIdleTimeout 1) pong $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "Pong"
        receiveUntilTimeout 10000000 client `shouldReturn` ("", True)
    it "keep nobody connected who sends nothing else" $
      withServerOver medium (setIdleTimeout 1 . setHeaderTimeout 1) pong $ \port -> withConnection port $ \client ->
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
    echoesLazily request respond = lazyRequestBody request >>= respond . responseLBS status200 []
    stays request expected = withServerOver medium id pong $ \port -> withConnection port $ \client ->
      replicateM_ 3 $ do
        send client request
        reply <- receiveResponse client
        headerOf "connection" reply `shouldBe` expected
    closes request = withServerOver medium id pong $ \port -> do
      bytes <- exchange port request
      map (headerOf "connection") (parseReplies bytes) `shouldBe` [Just "close"]
    describe' ChunkedBody = "chunked"
    describe' (KnownLength size) = show size

path :: Application
path request respond = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))

sized :: Application
sized request respond = respond (responseLBS status200 [] (L.replicate size 0x78))
  where
    size = maybe 0 (fromIntegral . fst) (C8.readInt (B.drop 1 (rawPathInfo request)))

readsTwice :: Application
readsTwice request respond = do
  body <- strictRequestBody request
  again <- getRequestBodyChunk request
  more <- getRequestBodyChunk request
  respond (responseLBS status200 [] (L.append body (L.fromChunks [again, more])))

respondsThenReads :: Application
respondsThenReads request respond = respond . responseStream status200 [] $ \write flush -> do
  write "read: "
  flush
  body <- strictRequestBody request
  write (lazyByteString body)

streamsBody :: Bool -> Application
streamsBody flushesFirst request respond = respond . responseStream status200 [] $ \write flush -> do
  when flushesFirst flush
  strictRequestBody request >>= write . lazyByteString

patterned :: Int -> ByteString
patterned size = B.take size (B.concat (replicate (size `div` 251 + 1) (B.pack [0 .. 250])))

chunked :: Int -> ByteString -> ByteString
chunked size body
  | B.null body = "0\r\n\r\n"
  | otherwise = B.concat [hex (B.length piece), "\r\n", piece, "\r\n", chunked size (B.drop size body)]
  where
    piece = B.take size body
    hex = C8.pack . flip showHex ""
