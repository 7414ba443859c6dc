{-# LANGUAGE OverloadedStrings #-}

-- | Requests and answers over HTTP/2, as applications see them, over sockets and over memory.
module Http2Spec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (..), SomeException, evaluate, fromException, throwIO, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (sort)
import Data.Maybe (isJust)
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (http20, mkStatus, status200, statusCode)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import qualified Network.Wai.Handler.Millrace as Server
import Support hiding (exchange)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  overSocketsAndMemory $ \medium -> do
    let serving application use = withServerOver medium id application (`withHttp2` use)
    it "is what a connection speaks that begins with its preface" $
      serving
        ( \request respond ->
            respond
              ( responseLBS
                  status200
                  []
                  ( L.fromStrict
                      (C8.pack (show (httpVersion request == http20, rawPathInfo request, requestHeaderHost request)))
                  )
              )
        )
        $ \http2 ->
          do
            answer <- ask http2 (get "/path?query" []) ""
            (answerStatus answer, answerBody answer) `shouldBe` (Just 200, "(True,\"/path\",Just \"a\")")
    it "carries many requests at a time, and answers each when it is ready" $ do
      gate <- newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/slow" -> readMVar gate >> pong request respond
            _ -> pong request respond
      serving application $ \http2 -> do
        slow <- forM [1 .. 20 :: Int] $ \_ -> openStream http2 [EndStream] (get "/slow" [])
        forM_ [1 .. 20 :: Int] $ \_ -> (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
        putMVar gate ()
        forM_ slow $ \stream -> (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
    it "does not let one that computes hold up others" $ do
      over <- newIORef False
      let application request respond = case rawPathInfo request of
            "/compute" -> spin over 0 >> pong request respond
            _ -> pong request respond
      serving application $ \http2 -> do
        busy <- openStream http2 [EndStream] (get "/compute" [])
        quick <- ask http2 (get "/" []) ""
        writeIORef over True
        answerStatus quick `shouldBe` Just 200
        (answerStatus <$> awaitAnswer http2 busy) `shouldReturn` Just 200
    it "tells a client to go on that waits for it, and sends hints" $ do
      let application request respond = do
            sendEarlyHints request [("link", "</a>")]
            sendInterim request (mkStatus 102 "Processing") []
            echo request respond
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [("expect", "100-continue")])
        closing (void (awaitInterim http2 stream))
        sendBody http2 stream [EndStream] "body"
        answer <- awaitAnswer http2 stream
        (map (lookup ":status") (answerInterim answer), answerBody answer)
          `shouldBe` ([Just "103", Just "102", Just "100"], "body")
    it "ends a stream with the head if a body of unknown length turns out to be empty, and makes up no length" $
      serving (\_ respond -> respond (responseStream status200 [] (\_ _ -> return ()))) $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        answer <- awaitAnswer http2 stream
        (answerStatus answer, answerBody answer, lookup "content-length" (answerHead answer))
          `shouldBe` (Just 200, "", Nothing)
    it "resets a stream with the code of an application that asks for that, and goes on" $ do
      let application request respond =
            resetRequest request 8 >>= \done -> respond (responseLBS status200 [] (if done then "unseen" else "seen"))
      serving application $ \http2 -> forM_ [(), ()] $ \_ -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith Cancel
    it "has no Server field if the application gives an empty one" $
      serving (\_ respond -> respond (responseLBS status200 [("Server", "")] "")) $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        answer <- awaitAnswer http2 stream
        lookup "server" (answerHead answer) `shouldBe` Nothing
    it "tells an application that its client has reset the stream" $ do
      (begun, told) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      let application request respond = do
            onDisconnect request (putMVar told ()) (putMVar begun () >> threadDelay 20000000)
            pong request respond
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        takeMVar begun
        sendFrame http2 (resetFrame stream Cancel)
        within "the callback" (takeMVar told)
    it "tells everyone who wants to know it, also within another onDisconnect" $ do
      (begun, inner, outer) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
      let application request respond = do
            onDisconnect request (putMVar outer ()) . onDisconnect request (putMVar inner ()) $
              putMVar begun () >> threadDelay 20000000
            pong request respond
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        takeMVar begun
        -- Both wait by now.
        threadDelay 100000
        sendFrame http2 (resetFrame stream Cancel)
        within "the callbacks" (takeMVar inner >> takeMVar outer)
    it "makes reading fail when the client has reset the stream" $ do
      outcome <- newEmptyMVar
      let application request respond = do
            result <- try (consume request)
            putMVar outcome (either anyFailure Right result)
            pong request respond
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "part"
        void (roundTrip http2)
        sendFrame http2 (resetFrame stream Cancel)
        within "the end of reading" (takeMVar outcome) `shouldReturn` (Left () :: Either () ByteString)
    it "answers once more when an application fails, and resets the stream when it is too late" $ do
      arrived <- newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/early" -> throwIO (userError "early")
            _ ->
              respond . responseStream status200 [] $ \write flush ->
                write "part" >> flush >> takeMVar arrived >> throwIO (userError "late")
      serving application $ \http2 -> do
        (answerStatus <$> ask http2 (get "/early" []) "") `shouldReturn` Just 500
        stream <- openStream http2 [EndStream] (get "/late" [])
        void (awaitHead http2 stream)
        putMVar arrived ()
        late <- awaitAnswer http2 stream
        (answerStatus late, answerEnd late) `shouldBe` (Just 200, ResetWith InternalError)
        (answerStatus <$> ask http2 (get "/early" []) "") `shouldReturn` Just 500
    it "answers once more when a stream fails that was not flushed, though another answer was sent meanwhile" $ do
      (written, gate) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/fails" ->
              respond . responseStream status200 [] $ \write _ ->
                write "part" >> putMVar written () >> takeMVar gate >> throwIO (userError "late")
            _ -> pong request respond
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/fails" [])
        takeMVar written
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
        putMVar gate ()
        answer <- awaitAnswer http2 stream
        (answerStatus answer, answerEnd answer) `shouldBe` (Just 500, Complete)
    it "refuses requests as HTTP/1 does, and goes on" $
      serving pong $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" [("host", "b")]) "") `shouldReturn` Just 400
        (answerStatus <$> ask http2 (get (B.append "/" (B.replicate 9000 97)) []) "") `shouldReturn` Just 414
        (answerStatus <$> ask http2 (get "/" [("x", "y") | _ <- [1 .. 200 :: Int]]) "") `shouldReturn` Just 431
        (answerStatus <$> ask http2 (get "/" [("expect", "more")]) "") `shouldReturn` Just 417
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    it "tells an observer of what it refuses" $ do
      told <- newIORef []
      let refused =
            [ (400, get "/a" [("host", "b")], ""),
              (414, get (B.append "/" (B.replicate 9000 97)) [], ""),
              (431, get "/c" [("x", "y") | _ <- [1 .. 200 :: Int]], ""),
              (417, get "/d" [("expect", "more")], ""),
              (413, post "/e" [("content-length", "4")], "body"),
              (200, get "/f" [], "")
            ]
          observe answer =
            atomicModifyIORef'
              told
              ( \others ->
                  ( ( statusCode (Server.answerStatus answer),
                      isJust (Server.answerRefusal answer),
                      isJust (Server.answerRequest answer)
                    ) :
                    others,
                    ()
                  )
              )
      withServerOver medium (setOnAnswer observe . setMaximumBodySize (Just 3)) pong $ \server ->
        withHttp2 server $ \http2 -> do
          forM_ refused $ \(status, fields, body) -> (answerStatus <$> ask http2 fields body) `shouldReturn` Just status
          untilM ((>= length refused) . length <$> readIORef told)
      sort <$> readIORef told `shouldReturn` sort [(status, status /= 200, True) | (status, _, _) <- refused]
  it "reports once that an exception has ended a handler's thread" $ do
    seen <- newIORef []
    let application _ _ = threadDelay 100000 >> throwIO ThreadKilled
    withServer
      (setOnException (\_ failure -> atomicModifyIORef' seen (\others -> (fromException failure : others, ()))))
      application
      $ \port ->
        do
          withHttp2 port $ \http2 -> do
            void (openStream http2 [EndStream] (get "/" []))
            void (within "the end" (eventsUntilEnd http2))
          untilM (not . null <$> readIORef seen)
    readIORef seen `shouldReturn` [Just ThreadKilled]
  where
    anyFailure :: SomeException -> Either () ByteString
    anyFailure _ = Left ()
    awaitInterim http2 stream = eventsUntil (isContinue stream) http2
    isContinue stream (GotHeaders at fields _) = at == stream && lookup ":status" fields == Just "100"
    isContinue _ _ = False

spin :: IORef Bool -> Int -> IO ()
spin over count = do
  done <- readIORef over
  -- It allocates, so that the scheduler can interrupt it.
  next <- evaluate (count + length (show count))
  unless done (spin over next)
