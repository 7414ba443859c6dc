{-# LANGUAGE OverloadedStrings #-}

-- | Decisions that are made above an exchange: which answer a request gets, and what observers get.
module ExchangeSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import InMemory
import Millrace.Http.Answer.Application (refuseExchange, serveExchange)
import Millrace.Http.Exchange (AnnouncedLength (..))
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.FilePath ((</>))
import Test.Hspec

spec :: Spec
spec = describe "above an exchange" $ do
  describe "a body" $ do
    forM_ [("a builder", builder), ("a stream", stream)] $ \(what, response) ->
      forM_ [0, 5, 16384, 200000] $ \size ->
        it ("of " ++ what ++ " of " ++ show size ++ " bytes is sent") $
          (bodyOf <$> answered (always (response size)) defaultRequest) `shouldReturn` Just (C8.replicate size 'b')
    forM_ [0, 5, 16384, 200000] $ \size ->
      it ("of a file of " ++ show size ++ " bytes is sent") . withFolder $ \folder -> do
        B.writeFile (folder </> "file") (C8.replicate size 'b')
        (bodyOf <$> answered (always (responseFile status200 [] (folder </> "file") Nothing)) defaultRequest)
          `shouldReturn` Just (C8.replicate size 'b')
    forM_ [(204, NotAnnounced), (205, Announced 0), (304, AsGiven)] $ \(code, size) ->
      it ("is not sent with status " ++ show code) $
        contentFor defaultRequest (responseLBS (mkStatus code "") [] "never") `shouldReturn` Just (NoContent size)
    it "is not sent to HEAD, and its code is not run" $ do
      ran <- newIORef False
      let head' = defaultRequest {requestMethod = methodHead}
      contentFor head' (responseStream status200 [] (\_ _ -> writeIORef ran True))
        `shouldReturn` Just (NoContent AsGiven)
      contentFor head' (responseLBS status200 [] (error "evaluated")) `shouldReturn` Just (NoContent AsGiven)
      readIORef ran `shouldReturn` False
    it "of a file is not sent to HEAD, but its length is announced" . withFolder $ \folder -> do
      B.writeFile (folder </> "file") "12345"
      contentFor defaultRequest {requestMethod = methodHead} (responseFile status200 [] (folder </> "file") Nothing)
        `shouldReturn` Just (NoContent (Announced 5))
    it "does not follow a 2xx to CONNECT, which opens no tunnel" $ do
      result <- answered (always (responseLBS status200 [] "x")) defaultRequest {requestMethod = methodConnect}
      (finalContent <$> receivedFinal result, receivedAfterwards result) `shouldBe` (Just TunnelRefused, Closed)

  describe "a status" $
    forM_ [0, 99, 100, 101, 103, 199, 1000, -1] $ \code ->
      it ("RFC 9110, 15: " ++ show code ++ ", which is no final one, is a 500") $ do
        reports <- newIORef []
        result <-
          answeredTo goodClient (reportingTo reports) (always (responseLBS (Status code "") [] "x")) defaultRequest
        statusIn result `shouldBe` Just 500
        map fromException <$> readIORef reports `shouldReturn` [Just (InvalidStatusCode code)]

  describe "observers" $ do
    it "are told of the answer that was given, no matter which code chose it" $
      forM_ [("fine", 200, Just 4), ("throw", 500, Just 20), ("body", 500, Just 20), ("missing", 404, Just 14)] $
        \(path, status, count) ->
          toldOf (faulty path) defaultRequest `shouldReturn` [(status, count, False)]
    it "are told that HEAD has no body" $
      toldOf pong defaultRequest {requestMethod = methodHead} `shouldReturn` [(200, Nothing, False)]
    it "are told of a raw response" $
      toldOf (always (responseRaw (\_ give -> give "mine") (responseLBS status500 [] ""))) defaultRequest
        `shouldReturn` [(101, Just 4, False)]
    it "are told of the other response, if a raw one is not possible" $ do
      answers <- newIORef []
      void
        ( answeredTo
            goodClient {clientCanBeTakenOver = False}
            (setOnAnswer (\answer -> modifyIORef' answers (answer :)))
            (always (responseRaw (\_ give -> give "mine") (responseLBS status403 [] "no")))
            defaultRequest
        )
      map (statusCode . answerStatus) <$> readIORef answers `shouldReturn` [403]
    it "that throw are reported, and the answer stays" $ do
      reports <- newIORef []
      result <-
        answeredTo goodClient (reportingTo reports . setOnAnswer (\_ -> throwIO (ErrorCall "told"))) pong defaultRequest
      bodyOf result `shouldBe` Just "Pong"
      map fromException <$> readIORef reports `shouldReturn` [Just (ErrorCall "told")]

  describe "a request that is refused" $
    forM_ [(BadRequest "x", 400), (PayloadTooLarge, 413), (RequestTimedOut, 408), (UnsupportedVersion, 505)] $
      \(reason, status) ->
        it (show reason ++ ": " ++ show status ++ ", and the connection ends") $ do
          answers <- newIORef []
          memory <- newMemoryExchange goodClient
          refuseExchange
            (setOnAnswer (\answer -> modifyIORef' answers (answer :)) (quiet defaultSettings))
            (memoryExchange memory)
            methodGet
            reason
          result <- received memory
          (statusIn result, receivedAfterwards result) `shouldBe` (Just status, Closed)
          map (\answer -> (answerRefusal answer, statusCode (answerStatus answer)))
            <$> readIORef answers `shouldReturn` [(Just (RefusedAtOnce reason), status)]

  describe "a raw response" $ do
    it "has what the client sends, and closes" $ do
      let raw take' give = take' >>= give . C8.map succ
      result <-
        answeredTo
          goodClient {clientInput = "abc"}
          id
          (always (responseRaw raw (responseLBS status500 [] "")))
          defaultRequest
      (receivedRaw result, receivedAfterwards result) `shouldBe` ("bcd", Closed)
    it "that throws is not followed by another one" $ do
      result <-
        answered
          (always (responseRaw (\_ give -> give "a" >> throwIO (ErrorCall "fault")) (responseLBS status500 [] "")))
          defaultRequest
      (receivedRaw result, receivedFinal result) `shouldBe` ("a", Nothing)

  describe "interim responses" $ do
    it "come before the answer, as often as they are asked for, without what frames a message" $ do
      let application request respond = do
            sendEarlyHints request [("Link", "a"), ("Content-Length", "5"), ("Connection", "close")]
            sendEarlyHints request [("X", "two\r\nlines")]
            done <- pong request respond
            sendEarlyHints request [("Link", "late")]
            return done
      result <- answered application defaultRequest
      (receivedInterim result, bodyOf result) `shouldBe` ([[("Link", "a")], [("X", "two  lines")]], Just "Pong")
    it "of other threads are not sent" $ do
      done <- newEmptyMVar
      let application request respond = do
            void (forkIO (sendEarlyHints request [("Link", "a")] `finally` putMVar done ()))
            takeMVar done
            pong request respond
      receivedInterim <$> answered application defaultRequest `shouldReturn` []
    it "with a name that is no token are an exception" $
      statusIn
        <$> answered (\request respond -> sendEarlyHints request [("a b", "")] >> pong request respond) defaultRequest
          `shouldReturn` Just 500

  describe "onDisconnect" $
    it "runs its callback when the client ends" $ do
      memory <- newMemoryExchange goodClient
      gone <- newEmptyMVar
      let application request respond = do
            isConnected request >>= (`shouldBe` True)
            onDisconnect request (putMVar gone ()) (leave memory >> readMVar gone)
            isConnected request >>= (`shouldBe` False)
            pong request respond
      within "the callback" (serveExchange (quiet defaultSettings) application (memoryExchange memory) defaultRequest)
      bodyOf <$> received memory `shouldReturn` Just "Pong"
  where
    builder size =
      responseBuilder
        status200
        []
        ( foldMap
            byteString
            (replicate (size `div` 1000) (C8.replicate 1000 'b') ++ [C8.replicate (size `mod` 1000) 'b'])
        )
    stream size =
      responseStream status200 [] $ \write flush ->
        write (byteString (C8.replicate (size `div` 2) 'b'))
          >> flush
          >> write (byteString (C8.replicate (size - size `div` 2) 'b'))
    contentFor request response = fmap finalContent . receivedFinal <$> answered (always response) request

-- | What observers get: the status, the number of bytes, and whether the answer was cut off.
toldOf :: Application -> Request -> IO [(Int, Maybe Int, Bool)]
toldOf application request = do
  answers <- newIORef []
  void (answeredTo goodClient (setOnAnswer (\answer -> modifyIORef' answers (answer :))) application request)
  map (\answer -> (statusCode (answerStatus answer), answerBytes answer, answerIsCutOff answer)) <$> readIORef answers

faulty :: ByteString -> Application
faulty path request respond = case path of
  "throw" -> throwIO (ErrorCall "fault")
  "body" -> respond (responseLBS status200 [] (error "body"))
  "missing" -> respond (responseFile status200 [] "/nonexistent" Nothing)
  _ -> pong request respond
