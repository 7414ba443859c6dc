{-# LANGUAGE OverloadedStrings #-}

-- | Decisions that are made above an exchange when the application or the client fails.
module ExchangeFaultSpec (spec) where

import Control.Concurrent (forkIO, killThread, myThreadId)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, void)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString, lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import InMemory
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.FilePath ((</>))
import System.IO.Error (isResourceVanishedError)
import Test.Hspec

spec :: Spec
spec = describe "above an exchange" $ do
  describe "an application that throws" $ do
    it "before it responds: 500, the exception is reported, and the connection stays" $ do
      reports <- newIORef []
      result <- answeredTo goodClient (reportingTo reports) (\_ _ -> throwIO (ErrorCall "fault")) defaultRequest
      (statusIn result, bodyOf result, receivedAfterwards result)
        `shouldBe` (Just 500, Just "Something went wrong", KeptOpen)
      map fromException <$> readIORef reports `shouldReturn` [Just (ErrorCall "fault")]
    it "in a body of which nothing was sent: 500 in its place" $ do
      result <- answered (always (responseLBS status200 [] (L.append "begun" (error "fault")))) defaultRequest
      (statusIn result, bodyOf result) `shouldBe` (Just 500, Just "Something went wrong")
    it "in a body of which something was sent: it is cut off there, and the connection ends" $ do
      result <-
        answered
          (always (responseStream status200 [] (\write flush -> write "begun" >> flush >> throwIO (ErrorCall "fault"))))
          defaultRequest
      (finalContent <$> receivedFinal result, receivedAfterwards result)
        `shouldBe` (Just (Content "begun" Unfinished), Closed)
    it "after it has responded: the response stays, and the connection ends" $ do
      result <-
        answered
          (\_ respond -> respond (responseLBS status200 [] "whole") >> throwIO (ErrorCall "fault"))
          defaultRequest
      (finalContent <$> receivedFinal result, receivedAfterwards result)
        `shouldBe` (Just (Content "whole" Complete), Closed)
    it "an asynchronous exception: nothing is sent, and it reaches the caller" $ do
      let killed _ respond = myThreadId >>= killThread >> respond (responseLBS status200 [] "")
      (outcome, result) <- outcomeFor goodClient id killed defaultRequest
      (either fromException (const Nothing) outcome, receivedFinal result) `shouldBe` (Just ThreadKilled, Nothing)
    it "in the settings' own answer to exceptions: nothing is sent" $ do
      (outcome, result) <-
        outcomeFor
          goodClient
          (setOnExceptionResponse (const (responseLBS status500 [] (throw (userError "second")))))
          (\_ _ -> throwIO (ErrorCall "first"))
          defaultRequest
      (either fromException (const Nothing) outcome, receivedFinal result)
        `shouldBe` (Just (userError "second"), Nothing)

  describe "an application that" $ do
    it "catches what its first response raises may respond again" $ do
      let application _ respond =
            respond (responseLBS status200 [("X", "first")] (error "fault")) `catch` \(ErrorCall _) ->
              respond (responseLBS status503 [] "second")
      result <- answered application defaultRequest
      (statusIn result, bodyOf result, finalFields <$> receivedFinal result)
        `shouldBe` (Just 503, Just "second", Just [])
    it "responds twice is told so, and the first response stays" $ do
      second <- newEmptyMVar
      let application _ respond = do
            done <- respond (responseLBS status200 [] "first")
            try (respond (responseLBS status200 [] "second")) >>= putMVar second . either Just (const Nothing)
            return done
      result <- answered application defaultRequest
      bodyOf result `shouldBe` Just "first"
      takeMVar second `shouldReturn` Just RespondedTwice
    it "responds again within its stream is told so: 500, if nothing of the stream was sent" $ do
      reports <- newIORef []
      result <-
        answeredTo
          goodClient
          (reportingTo reports)
          ( \_ respond ->
              respond
                (responseStream status200 [] (\write _ -> write "a" >> void (respond (responseLBS status200 [] "b"))))
          )
          defaultRequest
      (statusIn result, bodyOf result) `shouldBe` (Just 500, Just "Something went wrong")
      map fromException <$> readIORef reports `shouldReturn` [Just RespondedTwice]
    it "returns without having responded: 500" $ do
      reports <- newIORef []
      result <- answeredTo goodClient (reportingTo reports) (\_ _ -> return (error "no response")) defaultRequest
      statusIn result `shouldBe` Just 500
      length <$> readIORef reports `shouldReturn` 1
    it "responds in another thread is answered by that" $ do
      done <- newEmptyMVar
      result <-
        answered
          (\_ respond -> forkIO (respond (responseLBS status200 [] "other") >>= putMVar done) >> takeMVar done)
          defaultRequest
      bodyOf result `shouldBe` Just "other"
    it "throws while another of its threads waits for the client ends that wait" $ do
      (begun, outcome) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      let application _ respond = do
            void . forkIO $ do
              let body =
                    responseStream status200 [] $ \write flush ->
                      write (lazyByteString (L.replicate 1000 0x61))
                        >> flush
                        >> putMVar begun ()
                        >> write (lazyByteString (L.replicate 100000 0x61))
              try (respond body)
                >>= putMVar outcome . either (Just . (id :: SomeException -> SomeException)) (const Nothing)
            takeMVar begun
            throwIO (ErrorCall "fault")
      result <-
        within "the answer" (answeredTo goodClient {clientReading = StopsAfter 2000} id application defaultRequest)
      (C8.length <$> bodyOf result, receivedAfterwards result) `shouldSatisfy` \(count, ending) ->
        maybe False (>= 1000) count && ending == Closed
      ended <- within "the other thread" (takeMVar outcome)
      ended `shouldSatisfy` maybe False (\failure -> isLost failure || fromException failure == Just UsedTooLate)

  describe "a client that leaves" $
    forM_ ["file", "builder", "stream"] $ \source ->
      it ("within a body of a " ++ source ++ ": observers are told what it got") . withFolder $ \folder -> do
        B.writeFile (folder </> "large") (B.replicate 400000 0x78)
        answers <- newIORef []
        reports <- newIORef []
        let response = case source of
              "file" -> responseFile status200 [] (folder </> "large") Nothing
              "builder" -> responseBuilder status200 [] (byteString (B.replicate 400000 0x78))
              _ -> responseStream status200 [] (\write _ -> write (byteString (B.replicate 400000 0x78)))
        result <-
          answeredTo
            goodClient {clientReading = LeavesAfter 100000}
            (reportingTo reports . setOnAnswer (\answer -> modifyIORef' answers (answer :)))
            (always response)
            defaultRequest
        receivedAfterwards result `shouldBe` Closed
        map (\answer -> (statusCode (answerStatus answer), answerBytes answer, answerIsCutOff answer))
          <$> readIORef answers
          `shouldReturn` [(200, Just 100000, True)]
        map defaultShouldDisplayException <$> readIORef reports `shouldReturn` [False]
  where
    isLost failure = maybe False isResourceVanishedError (fromException failure)
