{-# LANGUAGE OverloadedStrings #-}

-- | What a server has to refuse, over real connections: one response, with the right status, and a closed connection;
-- the application never sees the request, nor anything that follows it.
module StrictSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Network.HTTP.Types (http10, http11, status200, status403)
import Network.Wai
import Requests
import Support
import Test.Hspec
import Test.Hspec.QuickCheck (modifyMaxSuccess)
import Test.QuickCheck

spec :: Spec
spec = overAllMedia examples

examples :: Medium -> Spec
examples medium = do
  describe "requests that are refused" $
    forM_ refusedRequests $ \(rule, status, request) ->
      it (rule ++ ": " ++ show status) $ do
        calls <- newIORef (0 :: Int)
        let application incoming respond = modifyIORef' calls (+ 1) >> pong incoming respond
        withServerOver medium id application $ \port -> do
          bytes <- exchange port (B.append request "GET /smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
          let replies = parseReplies bytes
          map replyStatus replies `shouldBe` [status]
          map (headerOf "Connection") replies `shouldBe` [Just "close"]
          readIORef calls `shouldReturn` 0

  describe "request bodies that are refused" $
    forM_ badBodies $ \(rule, body) ->
      it rule $
        withServerOver medium id echo $ \port -> do
          bytes <- exchange port (B.append "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" body)
          statusOf bytes `shouldBe` 400

  describe "requests that are cut off" $ do
    it "RFC 9112, 8: within the head: 400" $
      withServerOver medium id pong $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\n"
        sendEnd client
        statusOf <$> receiveAll client `shouldReturn` 400
    it "RFC 9112, 8: within a body of known length: the application gets an exception" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
        sendEnd client
        statusOf <$> receiveAll client `shouldReturn` 400
    it "RFC 9112, 8: within a chunked body: the application gets an exception" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        sendEnd client
        statusOf <$> receiveAll client `shouldReturn` 400
    it "RFC 9112, 7.1: before the empty line that ends a chunked body: the application gets an exception" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
        sendEnd client
        statusOf <$> receiveAll client `shouldReturn` 400
    it "before the first byte: no response" $
      withServerOver medium id pong $ \port -> withConnection port $ \client -> do
        sendEnd client
        receiveAll client `shouldReturn` ""

  describe "streams of requests" . around (withServerOver medium id echoHead) . modifyMaxSuccess (const 60) $
    it "get the same answers however their bytes are split" $ \port ->
      property . forAll (listOf1 (elements streamed)) $ \requests ->
        let bytes = B.concat (requests ++ ["GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"])
         in forAll (splits bytes) $ \pieces -> ioProperty $ do
              whole <- answers port [bytes]
              parts <- answers port pieces
              return (length whole === length requests + 1 .&&. parts === whole)

  describe "requests that are served" $ do
    it "RFC 9112, 2.2: empty lines before the request line are skipped" $
      serves "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"a\""
    it "RFC 9110, 2.5: HTTP/1.2 is served as HTTP/1.1" $
      serves "GET / HTTP/1.2\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"a\""
    it "RFC 9112, 3.2.2: the authority of an absolute target replaces Host" $
      serves
        "GET http://b:8/x/y?z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        "1.1 /x/y [(\"z\",Nothing)] Just \"b:8\""
    it "RFC 9112, 3.2.2: an absolute target gives HTTP/1.0 a Host" $
      serves "GET http://b HTTP/1.0\r\n\r\n" "1.0 / [] Just \"b\""
    it "RFC 9112, 3.2: an empty Host" $
      serves "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"\""
    it "RFC 9112, 3.2.3: authority form with CONNECT" $
      withServerOver
        medium
        id
        (\request respond -> respond (responseLBS status403 [] (L.fromStrict (rawPathInfo request))))
        $ \port -> do
          bytes <-
            exchange port "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\nGET /tunnelled HTTP/1.1\r\nHost: a\r\n\r\n"
          map (\reply -> (replyBody reply, headerOf "connection" reply)) (parseReplies bytes)
            `shouldBe` [("b:443", Just "close")]
    it "RFC 9110, 9.1: a method that nobody knows is the application's to judge, and methods have a case" $
      withServerOver medium id (\request respond -> respond (responseLBS' (requestMethod request))) $ \port -> do
        bytes <-
          exchange port "get / HTTP/1.1\r\nHost: a\r\n\r\nX-Y! / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        map replyBody (parseReplies bytes) `shouldBe` ["get", "X-Y!"]
    it "RFC 9110, 7.8: Upgrade does not exist in HTTP/1.0" $
      withServerOver
        medium
        id
        (\request respond -> respond (responseLBS' (C8.pack (show (map fst (requestHeaders request))))))
        $ \port ->
          do
            bytes <- exchange port "GET / HTTP/1.0\r\nA: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            map replyBody (parseReplies bytes) `shouldBe` ["[\"A\",\"Connection\"]"]
    it "RFC 9110, 5.3: lines of the same name keep their order" $
      withServerOver
        medium
        id
        ( \request respond ->
            respond (responseLBS' (C8.pack (show [value | ("Accept", value) <- requestHeaders request])))
        )
        $ \port ->
          do
            bytes <- exchange port "GET / HTTP/1.0\r\nAccept: a\r\nX: y\r\nAccept: b, c\r\n\r\n"
            map replyBody (parseReplies bytes) `shouldBe` ["[\"a\",\"b, c\"]"]
    it "RFC 9112, 3.2.4: asterisk form with OPTIONS" $
      serves "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 * [] Just \"a\""
    it "RFC 9112, 3.2.4: OPTIONS with an absolute target without a path means the same" $ do
      serves "OPTIONS http://a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 * [] Just \"a\""
      serves "OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"a\""
      serves "GET http://a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"a\""
    it "RFC 9110, 5.5: blanks around a value are dropped" $
      serves "GET / HTTP/1.1\r\nHost: \t a \t\r\nConnection: close\r\n\r\n" "1.1 / [] Just \"a\""
    it "RFC 9112, 7.1: trailers and extensions are dropped, and the next request is found" $
      withServerOver medium id echo $ \port -> do
        bytes <-
          exchange port $
            B.concat
              [ "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
                "5;x=y\r\nhello\r\n0\r\nTrailer: x\r\nContent-Length: 7\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nworld"
              ]
        map replyBody (parseReplies bytes) `shouldBe` ["hello", "world"]
    it "a chunk-size line may arrive in any number of pieces" $
      withServerOver medium id echo $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        forM_ ["0", "0", "0", "5", ";", "a", "\r", "\n", "he", "llo", "\r", "\n", "0", "\r", "\n\r", "\n"] (send client)
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["hello"]
    it "every byte of a request may come by itself" $
      withServerOver medium id describeRequest $ \port -> withConnection port $ \client -> do
        forM_ (B.unpack "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") (send client . B.singleton)
        map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["1.1 /a [] Just \"a\""]
    it "header fields arrive in order, and unknown names as they were spelled" $
      withServerOver medium id (\request respond -> respond (responseLBS' (C8.pack (show (requestHeaders request))))) $
        \port ->
          do
            bytes <- exchange port "GET / HTTP/1.0\r\nX-one: 1\r\nACCEPT: 2\r\nx-One: 3\r\n\r\n"
            map replyBody (parseReplies bytes) `shouldBe` ["[(\"X-one\",\"1\"),(\"Accept\",\"2\"),(\"x-One\",\"3\")]"]
  where
    serves request expected = withServerOver medium id describeRequest $ \port -> do
      bytes <- exchange port request
      map replyBody (parseReplies bytes) `shouldBe` [expected]

-- The requests that the application has seen, in order.
answers :: Reachable server => server -> [ByteString] -> IO [(Int, ByteString)]
answers port pieces = withConnection port $ \client -> do
  forM_ pieces $ \piece -> send client piece >> when (B.length piece < 30) (threadDelay 200)
  map (\reply -> (replyStatus reply, replyBody reply)) . parseReplies <$> receiveAll client

echoHead :: Application
echoHead request respond = do
  body <- strictRequestBody request
  respond (responseLBS' (C8.pack (show (requestMethod request, rawPathInfo request, requestHeaders request, body))))

streamed :: [ByteString]
streamed =
  [ "GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
    "\r\nGET http://b/c HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n00b\r\n0\r\n\r\nGET / \
    \\r\n0\r\nX: y\r\n\r\n"
  ]

-- Splits the bytes: anything between one piece and one piece per byte.
splits :: ByteString -> Gen [ByteString]
splits bytes = choose (1, 100) >>= go bytes
  where
    go rest longest
      | B.null rest = return []
      | otherwise = do
        size <- choose (1, longest)
        (B.take size rest :) <$> go (B.drop size rest) longest

responseLBS' :: ByteString -> Response
responseLBS' = responseLBS status200 [] . L.fromStrict

describeRequest :: Application
describeRequest request respond =
  respond . responseLBS' . C8.pack . unwords $
    [ if httpVersion request == http11 then "1.1" else if httpVersion request == http10 then "1.0" else "?",
      C8.unpack (rawPathInfo request),
      show (queryString request),
      show (requestHeaderHost request)
    ]

badBodies :: [(String, ByteString)]
badBodies =
  [ ("RFC 9112, 7.1: chunk size that is not hexadecimal", "xyz\r\nhello\r\n0\r\n\r\n"),
    ("RFC 9112, 7.1: empty chunk size", "\r\nhello\r\n0\r\n\r\n"),
    ("RFC 9112, 7.1: chunk size beyond 2^64", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("RFC 9112, 7.1: no line end after the data", "5\r\nhello0\r\n\r\n"),
    ("RFC 9112, 7.1: more data than the size says", "5\r\nhello!\r\n0\r\n\r\n"),
    ("RFC 9112, 7.1.2: malformed trailer", "5\r\nhello\r\n0\r\nnonsense\r\n\r\n"),
    ("RFC 9112, 2.2: bare LF", "5\nhello\n0\n\n")
  ]
