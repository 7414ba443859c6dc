{-# LANGUAGE OverloadedStrings #-}

-- | Applications that throw.
module FaultSpec (spec) where

import Control.Concurrent (forkIOWithUnmask)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically, check)
import Control.Exception (AsyncException (..), Exception (..), IOException, SomeException, catch, throw, throwIO, try)
import Control.Monad (forM_, void)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.Maybe (isJust)
import FaultSupport
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = do
  describe "applications that throw before anything was sent" $
    forM_ early $ \(what, application) -> do
      it (what ++ ": a 500, one report, and the connection goes on") $ do
        reports <- newIORef []
        withServer
          (setOnException (\request failure -> modifyIORef' reports ((fmap rawPathInfo request, failure) :)))
          application
          $ \port ->
            do
              bytes <-
                exchange
                  port
                  "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
              map (\reply -> (replyStatus reply, replyBody reply)) (parseReplies bytes)
                `shouldBe` replicate 2 (500, "Something went wrong")
              reported <- readIORef reports
              map fst (reverse reported) `shouldBe` [Just "/1", Just "/2"]

  describe "applications that end the connection" $ do
    forM_
      [ ("an asynchronous exception", id, throwIO ThreadKilled),
        ("a response for exceptions that throws itself", setOnExceptionResponse (\_ -> throw Fault), throwIO Fault)
      ]
      $ \(what, change, end) ->
        it ("by " ++ what ++ ": what was answered before arrives") $ do
          let application request respond
                | rawPathInfo request == "/end" = end
                | otherwise = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))
          withServer change application $ \port -> do
            bytes <-
              exchange
                port
                (C8.concat ["GET " <> path <> " HTTP/1.1\r\nHost: a\r\n\r\n" | path <- ["/1", "/2", "/end", "/4"]])
            map replyBody (parseReplies bytes) `shouldBe` ["/1", "/2"]
    it "a response for exceptions that throws itself is reported, to bad requests too" $ do
      reports <- newIORef []
      withServer
        (setOnException (\_ failure -> modifyIORef reports (failure :)) . setOnExceptionResponse (\_ -> throw Fault))
        pong
        $ \port ->
          exchange port "GET / HTTP/1.1\r\n\r\n" `shouldReturn` ""
      map fromException <$> readIORef reports `shouldReturn` [Just Fault, Nothing]

  describe "applications that throw what is the client's fault" $
    forM_ [(PayloadTooLarge, 413), (RequestHeaderFieldsTooLarge, 431), (BadRequest "what", 400)] $ \(reason, status) ->
      it (show reason ++ ": " ++ show status ++ ", and the connection is closed") $
        withServer id (\_ _ -> throwIO reason) $ \port -> do
          bytes <- exchange port twice
          map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
            `shouldBe` [(status, Just "close")]

  describe "applications that throw an exception with the answer to it" $ do
    let with = FailedWithAnswer (responseLBS (mkStatus 418 "I'm a teapot") [] "a page")
    it "it is sent, the exception is reported, and the connection goes on" $ do
      reports <- newIORef []
      withServer
        (setOnException (\_ failure -> modifyIORef reports (fromException failure :)))
        (\_ _ -> throwIO (with (toException Fault)))
        $ \port ->
          do
            bytes <- exchange port twiceAndEnd
            map (\reply -> (replyStatus reply, replyBody reply)) (parseReplies bytes)
              `shouldBe` replicate 2 (418, "a page")
      readIORef reports `shouldReturn` [Just Fault, Just Fault]
    it "it is sent, and the connection is closed if the exception is the client's fault" $
      withServer id (\_ _ -> throwIO (with (toException PayloadTooLarge))) $ \port -> do
        bytes <- exchange port twice
        map (\reply -> (replyStatus reply, headerOf "connection" reply)) (parseReplies bytes)
          `shouldBe` [(418, Just "close")]
    it "it takes the place of an answer of which nothing was sent" $
      withServer id (streaming (\write _ -> write "some" >> throwIO (with (toException Fault)))) $ \port ->
        exchange port twiceAndEnd >>= (`shouldBe` [418, 418]) . map replyStatus . parseReplies
    it "it does not take the place of one in the middle of the body" $
      withServer id (streaming (\write flush -> write "some" >> flush >> throwIO (with (toException Fault)))) $ \port ->
        exchange port twice >>= (`shouldSatisfy` B.isSuffixOf "00000004\r\nsome\r\n")

  describe "applications that throw after something was sent" $ do
    it "the connection is closed in the middle of the body" $
      withServer id (streaming (\write flush -> write "some" >> flush >> throwIO Fault)) $ \port -> do
        bytes <- exchange port twice
        bytes `shouldSatisfy` B.isSuffixOf "00000004\r\nsome\r\n"
    forM_ [("chunked", []), ("of a known length", [("Content-Length", "40000000")])] $ \(framing, fields) ->
      it ("sending that is interrupted and goes on, " ++ framing ++ ": the connection ends, for a part is missing") $ do
        interrupted <- newEmptyMVar
        let piece = byteString (C8.replicate 20000000 'x')
            impatient write _ = do
              outcome <- timeout 300000 (write piece)
              putMVar interrupted outcome
              mapM_ (const (write piece)) outcome
              void (try (write (byteString "rest")) :: IO (Either SomeException ()))
        withServer id (\_ respond -> respond (responseStream status200 fields impatient)) $ \port ->
          withSmallConnection port $ \client -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
            within "the interruption" (takeMVar interrupted) `shouldReturn` Nothing
            bytes <- receiveAll client
            parseReply bytes `shouldBe` Nothing
            bytes `shouldNotSatisfy` B.isSuffixOf "0\r\n\r\n"
    forM_ [("chunked", []), ("of a known length", [("Content-Length", "2000000")])] $ \(framing, fields) ->
      it
        ( "a body that is lazy, "
            ++ framing
            ++ ", with a bottom far behind: it ends in the middle, is reported once, and nothing follows"
        )
        $ do
          reports <- newIORef []
          let body = L.fromChunks (replicate 10 (C8.replicate 100000 'x')) <> error "body"
          withServer
            (setOnException (\request _ -> modifyIORef' reports (fmap rawPathInfo request :)))
            (\_ respond -> respond (responseLBS status200 fields body))
            $ \port ->
              do
                bytes <- exchange port twice
                parseReply bytes `shouldBe` Nothing
                B.length bytes `shouldSatisfy` (> 500000)
                snd (B.breakSubstring "HTTP/1.1" (B.drop 1 bytes)) `shouldBe` ""
                readIORef reports `shouldReturn` [Just "/"]
    it "a streaming echo that throws gets no second response into its body" $ do
      let application request respond = respond . responseStream status200 [] $ \write flush -> do
            bytes <- getRequestBodyChunk request
            write (byteString bytes)
            flush
            more <- getRequestBodyChunk request
            write (byteString more)
            throwIO Fault
      withServer id application $ \port -> withConnection port $ \client -> do
        send client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        (begun, _) <- receiveUntilThere "hello" 1 200000 client
        begun `shouldSatisfy` B.isInfixOf "hello"
        send client "5\r\nworld\r\n0\r\n\r\n"
        rest <- receiveAll client
        rest `shouldNotSatisfy` B.isInfixOf "HTTP/1.1"
    it "after it has responded: the response arrives, and the connection is closed" $
      withServer id (\request respond -> pong request respond >> throwIO Fault) $ \port -> do
        bytes <- exchange port twice
        map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
    it "with what it returns, which is lazy: the response arrives, and its request is reported" $ do
      reports <- newIORef []
      withServer
        (setOnException (\request failure -> modifyIORef' reports ((rawPathInfo <$> request, fromException failure) :)))
        (\request respond -> throw Fault <$ pong request respond)
        $ \port ->
          do
            bytes <- exchange port twice
            map replyBody (parseReplies bytes) `shouldBe` ["Pong"]
            readIORef reports `shouldReturn` [(Just "/", Just Fault)]

  describe "exceptions of the server" $ do
    it "setOnExceptionResponse chooses the response, to bad requests too" $
      withServer (setOnExceptionResponse (const (responseLBS status503 [] "custom"))) (\_ _ -> throwIO Fault) $ \port ->
        do
          bytes <- exchange port "GET / HTTP/1.0\r\n\r\n"
          map replyBody (parseReplies bytes) `shouldBe` ["custom"]
          refused <- exchange port "nonsense\r\n\r\n"
          map replyBody (parseReplies refused) `shouldBe` ["custom"]
    it "bad requests are reported as InvalidRequest, and not displayed by default" $ do
      reports <- newIORef []
      withServer (setOnException (\_ failure -> modifyIORef' reports (failure :))) pong $ \port -> do
        _ <- exchange port "GET / HTTP/1.1\r\nHost : a\r\n\r\n"
        failures <- readIORef reports
        map (\failure -> isJust (fromException failure :: Maybe InvalidRequest)) failures `shouldBe` [True]
        map defaultShouldDisplayException failures `shouldBe` [False]

    forM_ [("417", "Expect: x\r\n"), ("413", "Content-Length: 99\r\n"), ("400", "Host: b\r\n")] $ \(status, field) ->
      it ("RFC 9110, 9.3.2: a HEAD that is refused with " ++ status ++ " gets no content") $
        withServer (setMaximumBodySize (Just 10)) pong $ \port -> do
          bytes <- exchange port (B.concat ["HEAD / HTTP/1.1\r\nHost: a\r\n", field, "\r\n"])
          bytes `shouldSatisfy` B.isPrefixOf (C8.pack ("HTTP/1.1 " ++ status))
          snd (B.breakSubstring "\r\n\r\n" bytes) `shouldBe` "\r\n\r\n"

    it "that end a connection from outside are reported, ThreadKilled too where it is not the server's end" $ do
      reports <- newIORef []
      closed <- newEmptyMVar
      let settings =
            setOnException (\request failure -> modifyIORef' reports ((isJust request, fromException failure) :))
              . setOnClose (\_ -> putMVar closed ())
      withServer settings (\_ _ -> throwIO ThreadKilled) $ \port -> do
        exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n" `shouldReturn` ""
        within "the end of the connection" (takeMVar closed)
        awaitReport reports
      readIORef reports `shouldReturn` [(False, Just ThreadKilled)]

  describe "an asynchronous exception that is bottom" $
    forM_
      [ ("in setOnOpen", setOnOpen (\_ -> throwIO bottom), pong),
        ("in an application", id, \_ _ -> throwIO bottom),
        ("in setOnClose", setOnClose (\_ -> throwIO bottom), pong)
      ]
      $ \(where_, change, application) ->
        it (where_ ++ ": the connection is closed, and counted no longer") $ do
          let silently = setFork (\serve -> void (forkIOWithUnmask (\unmask -> serve unmask `catch` unsaid)))
          (state, settings) <- makeServerState (change (silently defaultSettings))
          withApplicationSettings settings (return application) $ \port -> within "the end of the connection" $ do
            void
              ( try (exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") ::
                  IO (Either IOException B.ByteString)
              )
            atomically (currentOpenConnectionsSTM state >>= check . (== 0))
  where
    twiceAndEnd = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    unsaid :: SomeException -> IO ()
    unsaid _ = return ()
    bottom :: AsyncException
    bottom = error "bottom"

early :: [(String, Application)]
early =
  [ ("at once", \_ _ -> throwIO Fault),
    ("in the status", \_ respond -> respond (responseLBS (error "status") [] "")),
    ("in the status code", \_ respond -> respond (responseLBS (Status (error "code") "") [] "")),
    ("in the reason", \_ respond -> respond (responseLBS (Status 200 (error "reason")) [] "")),
    ("in the name of a field", \_ respond -> respond (responseLBS status200 [(error "name", "x")] "")),
    ( "in the list of fields behind the first",
      \_ respond ->
        respond (responseLBS status200 (("X", "y") : error "fields") "")
    ),
    ("in the path of a file", \_ respond -> respond (responseFile status200 [] (error "path") Nothing)),
    ("in the part of a file", \_ respond -> respond (responseFile status200 [] "LICENSE" (Just (error "part")))),
    ("in the list of fields", \_ respond -> respond (responseLBS status200 (error "fields") "")),
    ("in a field", \_ respond -> respond (responseLBS status200 [("X", error "value")] "")),
    ("in the body", \_ respond -> respond (responseLBS status200 [] (error "body"))),
    ("in the response", \_ respond -> respond (error "response")),
    ("at the start of a stream", \_ respond -> respond (responseStream status200 [] (\_ _ -> throwIO Fault))),
    ( "in a stream, before it was flushed",
      \_ respond ->
        respond (responseStream status200 [] (\write _ -> write "some" >> throwIO Fault))
    )
  ]
