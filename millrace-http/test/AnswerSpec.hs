{-# LANGUAGE OverloadedStrings #-}

-- | What the server tells observers about the answers of applications.
module AnswerSpec (spec) where

import AnswerSupport
import Control.Concurrent (forkIO, killThread, myThreadId, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar, tryTakeMVar)
import Control.Exception (ErrorCall (..), fromException, throwIO)
import Control.Monad (forM_, void)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.Maybe (isJust, maybeToList)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = do
  describe "setOnAnswer, of what the application was asked" $ do
    it "is told of the response that was sent, no matter which code chose it" $ do
      (_, answers) <-
        answersTo
          id
          faulty
          ( `exchange`
              ( C8.concat (map (`line` "") ["/fine", "/throw", "/body", "/missing"])
                  <> "HEAD /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
              )
          )
      map (\answer -> (rawPathInfo <$> answerRequest answer, told answer)) answers
        `shouldMatchList` [ (Just "/fine", (200, Just 4)),
                            (Just "/throw", (500, Just 20)),
                            (Just "/body", (500, Just 20)),
                            (Just "/missing", (404, Just 14)),
                            (Just "/fine", (200, Nothing))
                          ]
      map answerRefusal answers `shouldBe` replicate 5 Nothing
    it "has the reason phrase that was sent, the server's own ones too" $ do
      let named request respond = case rawPathInfo request of
            "/own" -> respond (responseLBS (mkStatus 299 "Mine") [] "")
            "/200" -> respond (responseLBS (mkStatus 200 "Fine") [] "")
            _ -> throwIO (ErrorCall "fault")
          busy =
            setOnExceptionResponse
              ( \failure ->
                  if isJust (fromException failure :: Maybe ErrorCall)
                    then responseLBS (mkStatus 520 "Odd") [] ""
                    else defaultOnExceptionResponse failure
              )
      (_, answers) <-
        answersTo
          busy
          named
          (`exchange` B.concat [line "/own" "", line "/200" "", line "/throw" "", line "https://a/" ""])
      map ((\status -> (statusCode status, statusMessage status)) . answerStatus) answers
        `shouldMatchList` [(299, "Mine"), (200, "Fine"), (520, "Odd"), (421, "Misdirected Request")]
    it "a body that is refused while the application reads it has its status" $ do
      (_, answers) <-
        answersTo
          (setMaximumBodySize (Just 3))
          echo
          (`exchange` "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")
      map (\answer -> (rawPathInfo <$> answerRequest answer, told answer)) answers
        `shouldBe` [(Just "/x", (413, Just 24))]
    it "has the time that the application took" $ do
      told' <- newEmptyMVar
      withServer
        (setOnAnswer (putMVar told'))
        (\request respond -> pong request (\response -> respond response <* pause))
        $ \port ->
          do
            void (exchange port (line "/" "Connection: close\r\n"))
            -- The client may have the whole answer before the application has ended.
            answer <- within "the answer's end" (takeMVar told')
            answerDuration answer `shouldSatisfy` \time -> time >= milliseconds 20 && time < seconds 20
    forM_ ["/file", "/builder", "/chunks"] $ \path ->
      it ("of a client that leaves, is told what has gone: " ++ show path) . withFolder $ \folder -> do
        let name = folder </> "large"
            size = 24000000 :: Int
            leave port = withSmallConnection port $ \client -> do
              send client (line path "")
              -- Long enough for the server to fill the buffers on the way.
              receiveSome client 1000 >> threadDelay 300000
        B.writeFile name (B.replicate size 0x78)
        bytes <- B.readFile name
        told' <- newEmptyMVar
        withServer (setOnAnswer (putMVar told')) (large name bytes) $ \port -> do
          leave port
          answer <- within "the answer's end" (takeMVar told')
          (statusCode (answerStatus answer), answerIsCutOff answer) `shouldBe` (200, True)
          answerBytes answer `shouldSatisfy` maybe False (\count -> count > 1000 && count < size)
    it "of a client that stays, is told everything" . withFolder $ \folder -> do
      let name = folder </> "large"
      B.writeFile name (B.replicate 2400000 0x78)
      bytes <- B.readFile name
      forM_ ["/file", "/builder", "/chunks"] $ \path -> do
        (_, answers) <- answersTo id (large name bytes) (`exchange` line path "Connection: close\r\n")
        map (\answer -> (told answer, answerIsCutOff answer)) answers `shouldBe` [((200, Just 2400000), False)]
    it "does not hold back the answer while it waits for something" $ do
      gate <- newEmptyMVar
      withServer (setOnAnswer (\_ -> takeMVar gate)) pong $ \port -> withConnection port $ \client ->
        forM_ [(line "/" "", 200), (line "/" "", 200), ("nonsense\r\n\r\n", 400)] $ \(request, status) -> do
          send client request
          replyStatus <$> receiveResponse client `shouldReturn` status
          putMVar gate ()
    it "is not told of a request whose thread was killed, even behind one that was answered" $ do
      let application request respond = case rawPathInfo request of
            "/end" -> myThreadId >>= killThread >> pong request respond
            _ -> pong request respond
      (_, answers) <- answersTo id application (`exchange` (line "/" "" <> line "/end" ""))
      map (fmap rawPathInfo . answerRequest) answers `shouldBe` [Just "/"]
    it "that throws is reported, and the logger is told all the same" $ do
      reports <- newIORef []
      logged <- newIORef []
      let onException request failure = modifyIORef' reports ((rawPathInfo <$> request, fromException failure) :)
          logger request status size = modifyIORef' logged ((rawPathInfo request, statusCode status, size) :)
      withServer (setOnException onException . setLogger logger . setOnAnswer (\_ -> throwIO (ErrorCall "told"))) pong $
        \port ->
          map replyBody . parseReplies <$> exchange port (line "/" "Connection: close\r\n") `shouldReturn` ["Pong"]
      readIORef reports `shouldReturn` [(Just "/", Just (ErrorCall "told"))]
      readIORef logged `shouldReturn` [("/", 200, Just 4)]

  describe "setOnAnswer, of a raw response" $ do
    forM_
      [ ("with another protocol at once", ["mine"], (101, "Switching Protocols"), 4),
        ("that sends nothing", [], (101, "Switching Protocols"), 0),
        ("with a head in pieces", ["HT", "TP/1.1 101 Mine\r", "\nUpgrade: x\r\n\r", "\nabc", "de"], (101, "Mine"), 5),
        ("with a head that is not complete", ["HTTP/1.1 101 Mine\r\nUpgrade"], (101, "Mine"), 0),
        ("that is a tunnel", ["HTTP/1.1 200 Connected\r\n\r\n", "abc"], (200, "Connected"), 3),
        ("that declines", ["HTTP/1.1 403 Forbidden\r\n\r\n"], (403, "Forbidden"), 0)
      ]
      $ \(what, pieces, (code, reason), count) ->
        it ("is told once of one " ++ what) $ do
          let application request =
                if rawPathInfo request == "/raw"
                  then rawly (\_ give -> mapM_ give pieces) request
                  else pong request
          (bytes, answers) <- answersTo id application (`exchange` (line "/first" "" <> line "/raw" ""))
          bytes `shouldSatisfy` B.isSuffixOf (B.concat pieces)
          map (\answer -> (rawPathInfo <$> answerRequest answer, told answer, answerIsCutOff answer)) answers
            `shouldBe` [(Just "/first", (200, Just 4), False), (Just "/raw", (code, Just count), False)]
          map (statusMessage . answerStatus) (drop 1 answers) `shouldBe` [reason]
    it "is told when it is over, and not before" $ do
      told' <- newEmptyMVar
      withServer (setOnAnswer (putMVar told')) (rawly (\get give -> give "a" >> get >>= give)) $ \port ->
        withConnection port $ \client -> do
          send client (line "/" "")
          receiveSome client 10 `shouldReturn` "a"
          threadDelay 50000
          tryTakeMVar told' >>= (`shouldBe` []) . map told . maybeToList
          send client "bc"
          receiveAll client `shouldReturn` "bc"
          told <$> within "the answer" (takeMVar told') `shouldReturn` (101, Just 3)
    forM_ [("throws", throwIO (ErrorCall "fault")), ("is killed", myThreadId >>= killThread)] $ \(what, end) ->
      it ("is told once that it was cut off, if the application " ++ what) $ do
        (bytes, answers) <- answersTo id (rawly (\_ give -> give "mine" >> end)) (`exchange` line "/" "")
        (bytes, map (\answer -> (told answer, answerIsCutOff answer)) answers)
          `shouldBe` ("mine", [((101, Just 4), True)])
    it "is told once of one in another thread" $ do
      let elsewhere request respond = do
            done <- newEmptyMVar
            void (forkIO (rawly (\_ give -> give "mine") request respond >>= putMVar done))
            takeMVar done
      (bytes, answers) <- answersTo id elsewhere (`exchange` line "/" "")
      (bytes, map (\answer -> (told answer, answerIsCutOff answer)) answers)
        `shouldBe` ("mine", [((101, Just 4), False)])

  describe "setLogger, as in Warp" $
    it "is told of refused requests: of what is known, else of the client alone" $ do
      logged <- newIORef []
      let logger request status size =
            modifyIORef'
              logged
              ((hostOf (remoteHost request), requestMethod request, rawPathInfo request, statusCode status, size) :)
      withServer (setLogger logger . setMaximumBodySize (Just 3)) pong $ \port -> do
        void (exchange port "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
        void (exchange port "PUT /a HTTP/1.1\r\n\r\n")
      readIORef logged
        `shouldReturn` [ (Just (127, 0, 0, 1), "GET", "", 400, Just 11),
                         (Just (127, 0, 0, 1), "PUT", "/a", 413, Just 24)
                       ]
  where
    line path fields = "GET " <> path <> " HTTP/1.1\r\nHost: a\r\n" <> fields <> "\r\n"
    pause = threadDelay 20000
    rawly use _ respond = respond (responseRaw use (responseLBS status500 [] ""))
    large name bytes request respond = respond $ case rawPathInfo request of
      "/file" -> responseFile status200 [] name Nothing
      "/builder" -> responseBuilder status200 [] (byteString bytes)
      _ -> responseStream status200 [] (\write _ -> write (byteString bytes))

faulty :: Application
faulty request respond = case rawPathInfo request of
  "/throw" -> throwIO (ErrorCall "fault")
  "/body" -> respond (responseLBS status200 [] (error "body"))
  "/missing" -> respond (responseFile status200 [] "/nonexistent" Nothing)
  _ -> pong request respond
