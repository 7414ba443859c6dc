{-# LANGUAGE OverloadedStrings #-}

-- | What the server tells observers about requests that it refuses.
module RefusedAnswerSpec (spec) where

import AnswerSupport
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Maybe (fromMaybe, isJust, isNothing)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Requests (refusedRequests)
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "setOnAnswer, of what is refused" $ do
    forM_ refusedRequests $ \(rule, status, request) ->
      it (rule ++ " is told of once: " ++ show status) $ do
        (bytes, answers) <- answersTo id pong (`exchange` request)
        map told answers `shouldBe` [(status, Just (B.length (replyBody reply))) | reply <- take 1 (parseReplies bytes)]
        map answerRequestLine answers `shouldBe` [firstLine request]
        map (isJust . answerRefusal) answers `shouldBe` [True]
        map (hostOf . answerClient) answers `shouldBe` [Just (127, 0, 0, 1)]
    it "a head that is whole has its request" $ do
      (_, answers) <-
        answersTo
          (setMaximumBodySize (Just 3))
          pong
          (`exchange` "POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nUser-Agent: u\r\n\r\n")
      map asked answers `shouldBe` [Just ("POST", "/a", "?b", http11, Just "u")]
      map answerRefusal answers `shouldBe` [Just (RefusedAtOnce PayloadTooLarge)]
      map (fmap (hostOf . remoteHost) . answerRequest) answers `shouldBe` [Just (Just (127, 0, 0, 1))]
    it "an https URI on a plain connection has its request, too: 421" $ do
      (_, answers) <- answersTo id pong (`exchange` "GET https://a/x HTTP/1.1\r\nHost: a\r\n\r\n")
      map told answers `shouldBe` [(421, Just 19)]
      map (fmap rawPathInfo . answerRequest) answers `shouldBe` [Just "/x"]
    it "one that is not has none" $ do
      (_, answers) <- answersTo id pong (`exchange` "GET / HTTP/1.1\r\nHost : a\r\n\r\n")
      map (isNothing . answerRequest) answers `shouldBe` [True]
    it "empty lines before the request line are not told" $ do
      (_, answers) <- answersTo id pong (`exchange` "\r\n\r\nGET nothing HTTP/1.1\r\nHost: a\r\n\r\n")
      map answerRequestLine answers `shouldBe` ["GET nothing HTTP/1.1"]
    it "of an endless line no more is told than could be valid" $ do
      (_, answers) <- answersTo (setMaximumTargetLength 100) pong (`exchange` ("GET /" <> C8.replicate 5000 'x'))
      map told answers `shouldBe` [(414, Just 20)]
      map (B.length . answerRequestLine) answers `shouldSatisfy` all (\size -> size >= 100 && size <= 200)
    it "a head that takes too long: 408, and the part of the line that has come" $ do
      (_, answers) <-
        answersTo
          (setHeaderTimeout (seconds 1))
          pong
          (\port -> withConnection port (\client -> send client "GET /slo" >> receiveAll client))
      map told answers `shouldBe` [(408, Just 15)]
      map answerRequestLine answers `shouldBe` ["GET /slo"]
      map answerRefusal answers `shouldBe` [Just (RefusedAtOnce RequestTimedOut)]
    it "a head that is cut off: 400" $ do
      (_, answers) <-
        answersTo
          id
          pong
          ( \port ->
              withConnection port (\client -> send client "GET / HTTP/1.1\r\nHo" >> sendEnd client >> receiveAll client)
          )
      map told answers `shouldBe` [(400, Just 11)]
      map answerRequestLine answers `shouldBe` ["GET / HTTP/1.1"]
    it "behind a request that was served, both in order" $ do
      (_, answers) <- answersTo id pong (`exchange` "GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\n\r\n")
      map told answers `shouldBe` [(200, Just 4), (400, Just 11)]
      map (fmap rawPathInfo . answerRequest) answers `shouldBe` [Just "/good", Nothing]
      map answerRequestLine answers `shouldBe` ["", "GET /bad HTTP/1.1"]
    it "the client is the one that the proxy has named" $ do
      (_, answers) <-
        answersTo
          setProxyProtocolRequired
          pong
          (`exchange` "PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\nnonsense\r\n\r\n")
      map (hostOf . answerClient) answers `shouldBe` [Just (192, 0, 2, 7)]
      map answerRequestLine answers `shouldBe` ["nonsense"]
    it "what should have been the proxy's header is no request line" $ do
      (_, answers) <-
        answersTo setProxyProtocolRequired pong (`exchange` "PROXY TCP9 x\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
      map told answers `shouldBe` [(400, Just 11)]
      map answerRequestLine answers `shouldBe` [""]
      map (isNothing . answerRequest) answers `shouldBe` [True]
    it "a response of the user's own is told of as it is" $ do
      (_, answers) <-
        answersTo
          (setOnExceptionResponse (const (responseLBS status503 [] "busy")))
          pong
          (`exchange` "nonsense\r\n\r\n")
      map told answers `shouldBe` [(503, Just 4)]
    it "a connection that says nothing is no answer" $ do
      (_, answers) <- answersTo id pong (\port -> withConnection port (\client -> sendEnd client >> receiveAll client))
      map told answers `shouldBe` []
  where
    asked answer =
      ( \request ->
          ( requestMethod request,
            rawPathInfo request,
            rawQueryString request,
            httpVersion request,
            requestHeaderUserAgent request
          )
      )
        <$> answerRequest answer

-- The first that is not empty.
firstLine :: ByteString -> ByteString
firstLine bytes = fromMaybe text (B.stripSuffix "\r" text)
  where
    text = C8.takeWhile (/= '\n') (C8.dropWhile (`C8.elem` "\r\n") bytes)
