{-# LANGUAGE OverloadedStrings #-}

-- | Limits on the time and the body of single requests.
module RequestLimitsSpec (spec) where

import AnswerSupport
import Control.Concurrent (threadDelay)
import Control.Exception (fromException, try)
import Control.Monad (void)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import qualified Millrace
import Millrace.Deadline (isDeadlineError, noDeadline)
import Network.HTTP.Types (status200)
import Network.Socket (Family (AF_UNIX), SocketType (Stream), defaultProtocol)
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "limitTime" $ do
    it "interrupts an application that takes longer, and no other request" $
      withServer id (onPath "/slow" (limitTime (seconds 1)) sleepy) $ \port -> withConnection port $ \client -> do
        (reply, elapsed) <- timed (send client "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveResponse client)
        (replyStatus reply, elapsed > 0.9 && elapsed < 8) `shouldBe` (503, True)
        send client "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "noDeadline"
    it "gives what the application waits for the same deadline, and a 503 when that passes" $ do
      reported <- untilQuick $ do
        failures <- newIORef []
        let noting = setOnException (\_ failure -> modifyIORef failures (failure :))
        withServer noting (limitTime (seconds 1) waiting) $ \port ->
          statusOf <$> exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` 503
        found <- readIORef failures
        -- On a busy machine its thread may run so late that it was interrupted meanwhile.
        return (if any isInterruption found then Nothing else Just found)
      map (fmap isDeadlineError . fromException) reported `shouldBe` [Just True]
    it "can only become shorter within another limit" $ do
      let middle = limitTime (seconds 1) . limitTime (seconds 60)
      withServer id (middle waiting) $ \port -> do
        (bytes, elapsed) <- timed (exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        (statusOf bytes, elapsed > 0.9 && elapsed < 8) `shouldBe` (503, True)
    it "ends the wait for a slow body with a 408" $
      withServer id (limitTime (seconds 1) echo) $ \port -> withConnection port $ \client -> do
        (bytes, elapsed) <- timed $ do
          send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhe"
          receiveAll client
        (statusOf bytes, elapsed > 0.9 && elapsed < 8) `shouldBe` (408, True)
    it "is lifted by pauseTimeout, with those around it" $ do
      let application request respond = do
            pauseTimeout request
            requestDeadline request >>= (`shouldBe` noDeadline)
            threadDelay 1500000
            pong request respond
      withServer (setTotalTimeout (seconds 1)) (limitTime (seconds 1) (limitTime (seconds 1) application)) $ \port ->
        statusOf <$> exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` 200
    it "interrupts applications of other servers, too, which know no deadline" $ do
      let asks request respond = do
            requestDeadline request >>= (`shouldBe` noDeadline)
            threadDelay 20000000
            respond (responseLBS status200 [] "")
      outcome <- try (limitTime (seconds 0) asks defaultRequest (\_ -> fail "answered"))
      either (`shouldBe` ApplicationTimedOut) (const (expectationFailure "not interrupted")) (void outcome)

  it "tells observers of what these limits refuse, and why" $ do
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n"
        tooLong = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"
        get = "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        reading within' request respond =
          within' request >>= strictRequestBody >>= respond . responseLBS status200 []
        given change application bytes = snd <$> answersTo change application (`exchange` bytes)
    answers <-
      mapM
        (\(change, application, bytes) -> given change application bytes)
        [ (id, reading (limitBody 5), tooLong),
          (id, reading (limitBody 5), chunked),
          (setMaximumBodySize (Just 5), reading return, chunked),
          (id, limitTime (milliseconds 100) sleepy, get),
          (setTotalTimeout (seconds 1), sleepy, get),
          (id, limitTime (milliseconds 100) waiting, get),
          (id, \_ _ -> fail "broken", get),
          (id, pong, get)
        ]
    map (map (\answer -> (fst (told answer), answerRefusal answer))) answers
      `shouldBe` map
        pure
        [ (413, Just (RefusedLater PayloadTooLarge)),
          (413, Just (RefusedLater PayloadTooLarge)),
          (413, Just (RefusedLater PayloadTooLarge)),
          (503, Just OutOfTime),
          (503, Just OutOfTime),
          (503, Just OutOfTime),
          (500, Nothing),
          (200, Nothing)
        ]

  describe "limitBody" $ do
    let limited request respond = do
          within5 <- limitBody 5 request
          body <- strictRequestBody within5
          respond (responseLBS status200 [] body)
    it "refuses a body that is announced as longer, and reads nothing of it" $
      withServer id limited $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"
        statusOf <$> receiveAll client `shouldReturn` 413
    it "refuses a body that becomes longer" $
      withServer id limited $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n"
        statusOf <$> receiveAll client `shouldReturn` 413
    it "passes a body that is as long as it may be, announced or not" $
      withServer id limited $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde"
        replyBody <$> receiveResponse client `shouldReturn` "abcde"
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
        replyBody <$> receiveResponse client `shouldReturn` "abcde"
    it "keeps refusing when the application reads on" $ do
      tries <- newIORef []
      let stubborn request respond = do
            within5 <- limitBody 5 request
            outcomes <- mapM (const (try (getRequestBodyChunk within5))) [1 .. 3 :: Int]
            writeIORef tries outcomes
            respond (responseLBS status200 [] "")
      withServer id stubborn $ \port ->
        void . exchange port . B.concat $
          [ "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            "6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n"
          ]
      readIORef tries `shouldReturn` replicate 3 (Left PayloadTooLarge)
  where
    onPath path middleware application request
      | rawPathInfo request == path = middleware application request
      | otherwise = application request
    sleepy request respond
      | rawPathInfo request == "/slow" = threadDelay 20000000 >> pong request respond
      | otherwise = do
        deadline <- requestDeadline request
        respond (responseLBS status200 [] (L.fromStrict (C8.pack (show deadline))))
    -- As an application that waits for a database.
    isInterruption failure = case fromException failure of
      Just ApplicationTimedOut -> True
      _ -> False
    waiting request respond = do
      (here, _) <- Millrace.socketPair AF_UNIX Stream defaultProtocol
      deadline <- requestDeadline request
      _ <- Millrace.recvBefore deadline here 1
      pong request respond
