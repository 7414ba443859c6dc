{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | Requests and answers over HTTP/2, as applications see them, over sockets and over memory.
module Http2Spec (spec) where

import Control.Concurrent (forkIO, killThread, myThreadId, threadDelay)
import Control.Concurrent.Async (withAsync)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (..), SomeException, evaluate, finally, fromException, throwIO, try)
import Control.Monad (forM, forM_, forever, join, replicateM, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (sort)
import Data.Maybe (fromMaybe, isJust, maybeToList)
import Data.String (IsString)
import Http2Client hiding (get, post)
import qualified Http2Client
import Network.HTTP.Types (http20, mkStatus, status200, status404, statusCode, statusMessage)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import qualified Network.Wai.Handler.Millrace as Server
import Support hiding (exchange)
import qualified Support
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.Timeout (timeout)
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
    it "carries bodies that are larger than all windows, both ways" $
      serving echo $ \http2 -> do
        let body = B.concat (replicate 100000 "0123456789abcdef")
        answer <- ask http2 (post "/" []) body
        (answerStatus answer, B.length (answerBody answer), answerBody answer == body)
          `shouldBe` (Just 200, B.length body, True)
    forM_ [("whole", Nothing), ("known when its bytes have been sent", Just 0), ("with trailers", Just 1)] $ \(how, streamed) ->
      it ("ends an answer that uses up the client's window, and waits for nothing: " ++ how) $ do
        sent <- newEmptyMVar
        let bytes = B.replicate 65535 97
            application request respond = case streamed of
              Nothing -> respond (responseLBS status200 [] (L.fromStrict bytes))
              Just count -> do
                setHTTP2Data
                  request
                  (Just defaultHTTP2Data {http2dataTrailers = \_ -> return (Trailers (trailerLines count))})
                respond . responseStream status200 [] $ \write flush ->
                  write (byteString bytes) >> flush >> takeMVar sent
        withServerOver medium id application $ \server ->
          withHttp2As polite {conductWindows = conductWindows silent} [] server $ \http2 -> do
            stream <- openStream http2 [EndStream] (get "/" [])
            forM_ streamed $ \_ -> do
              _ <- awaitStream ((== 65535) . B.length . answerBody) http2 stream
              putMVar sent ()
            answer <- awaitAnswer http2 stream
            (answerEnd answer, B.length (answerBody answer), answerTrailers answer)
              `shouldBe` (Complete, 65535, maybe [] trailerLines streamed)
    it "ends an empty answer while the client's window is closed" $ do
      flushed <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \_ flush -> flush >> takeMVar flushed
      withServerOver medium id application $ \server ->
        withHttp2As silent [(InitialWindowSize, 0)] server $ \http2 -> do
          stream <- openStream http2 [EndStream] (get "/" [])
          _ <- awaitHead http2 stream
          putMVar flushed ()
          (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` Complete
    it "does not let a body that nobody reads hold up another one" $ do
      gate <- newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/lazy" -> readMVar gate >> echo request respond
            _ -> echo request respond
      serving application $ \http2 -> do
        lazy <- openStream http2 [] (post "/lazy" [])
        sendBody http2 lazy [] (B.replicate 100000 97)
        answer <- ask http2 (post "/" []) (B.replicate 500000 98)
        B.length (answerBody answer) `shouldBe` 500000
        putMVar gate ()
        sendBody http2 lazy [EndStream] "b"
        (B.length . answerBody <$> awaitAnswer http2 lazy) `shouldReturn` 100001
    it "does not let a client that takes nothing of one answer hold up another one" $
      withServerOver medium id large $ \server ->
        withHttp2As polite {conductWindows = conductWindows silent} [(InitialWindowSize, 1000)] server $ \http2 -> do
          sendFrame http2 (windowUpdate 0 10000000)
          stuck <- openStream http2 [EndStream] (get "/" [])
          void (awaitHead http2 stuck)
          other <- openStream http2 [EndStream] (get "/" [])
          sendFrame http2 (windowUpdate other 2000000)
          (B.length . answerBody <$> awaitAnswer http2 other) `shouldReturn` 1000000
    it "sends a stream piece by piece as the application flushes" $ do
      gate <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write flush -> do
            write "first" >> flush
            takeMVar gate
            write "second"
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        void (awaitHead http2 stream)
        putMVar gate ()
        answer <- awaitAnswer http2 stream
        reverse (answerPieces answer) `shouldSatisfy` \pieces -> filter (not . B.null) pieces == ["first", "second"]
    it "sends all that was flushed when the application waits, however soon the flushes came" $ do
      gate <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write flush -> do
            write "first" >> flush
            write "second" >> flush
            write "third" >> flush
            takeMVar gate
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        answer <- awaitStream ((>= 16) . B.length . answerBody) http2 stream
        answerBody answer `shouldBe` "firstsecondthird"
        putMVar gate ()
        void (awaitAnswer http2 stream)
    it "outlives a timeout around an application that sends, whose writes are whole if they only wait" $ do
      -- The client takes nothing at first, so the timeouts come while all of the connection's buffers are full.
      over <- newEmptyMVar
      let endless write flush = write (byteString (B.replicate 16384 97)) >> flush >> endless write flush
          application request respond = case rawPathInfo request of
            "/endless" -> respond . responseStream status200 [] $ \write flush -> do
              timeout 300000 (endless write flush :: IO ()) `finally` putMVar over () >>= (`shouldBe` Nothing)
              write "the end"
            _ -> pong request respond
      withServerOver medium id application $ \server ->
        withHttp2As polite [(InitialWindowSize, 1000000000)] server $ \http2 -> do
          sendFrame http2 (windowUpdate 0 1000000000)
          streams <- forM [1 .. 3 :: Int] $ \_ -> openStream http2 [EndStream] (get "/endless" [])
          forM_ streams $ \_ -> within "the timeouts" (takeMVar over)
          forM_ streams $ \stream -> do
            answer <- awaitAnswer http2 stream
            answerEnd answer `shouldBe` Complete
            C8.dropWhile (== 'a') (answerBody answer) `shouldBe` "the end"
            (B.length (answerBody answer) - 7) `mod` 16384 `shouldBe` 0
          (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    it "resets a stream if a timeout interrupts a write in the middle" $ do
      over <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write _ -> do
            timeout 100000 (write (byteString (B.replicate 1000000 97))) `finally` putMVar over ()
              >>= (`shouldBe` Nothing)
            write "the end"
      serving application $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/" [])
        within "the timeout" (takeMVar over)
        (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith InternalError
    it "does not reset a stream whose client sends what its window permits, though it is answered and nobody reads" $
      serving pong $ \http2 -> forM_ [[], [("content-length", "200000")]] $ \fields -> do
        stream <- openStream http2 [] (post "/" fields)
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
        forM_ [1 .. 20 :: Int] $ \_ -> sendBody http2 stream [] (B.replicate 9999 97)
        sendBody http2 stream [EndStream] (B.replicate 20 97)
        events <- roundTrip http2
        [code | GotReset _ code <- events] `shouldBe` []
    it "resets a stream that is answered while its client sends more than that" $
      serving pong $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
        -- What comes before the application has returned does not count. The reset may come while this waits for a
        -- window.
        sendBody http2 stream [] (B.replicate 1000000 97)
        (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith NoError
    it "resets a stream that is answered when its client has filled the stream's window" $ do
      gate <- newEmptyMVar
      serving (\request respond -> readMVar gate >> pong request respond) $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        -- The settings have come, so that this is all that the window permits.
        void (roundTrip http2)
        sendBody http2 stream [] (B.replicate 262144 97)
        void (roundTrip http2)
        putMVar gate ()
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
        sendBody http2 stream [] (B.replicate 1000000 97)
        (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith NoError
    it "gives a client that announces too large a body time to read the answer, before the stream is reset" $
      withServerOver medium (setMaximumBodySize (Just 1000)) echo $ \server -> withHttp2 server $ \http2 -> do
        stream <- openStream http2 [] (post "/" [("content-length", "10000000")])
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 413
        (_, seconds) <- timed (eventsUntil (== GotReset stream NoError) http2)
        seconds `shouldSatisfy` (> 0.1)
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
    it "carries trailers both ways" $ do
      let application request respond = do
            body <- consume request
            trailers <- getRequestTrailers request
            setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = counting 0 trailers})
            respond (responseLBS status200 [] (L.fromStrict body))
          counting sofar _ (Just bytes) = return (NextTrailersMaker (counting (sofar + B.length bytes) []))
          counting sofar _ Nothing = return (Trailers [("X-Count", C8.pack (show (sofar :: Int)))])
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t")])
        answer <- awaitAnswer http2 stream
        (answerBody answer, answerTrailers answer) `shouldBe` ("12345", [("x-count", "5")])
    it "drops trailers that must be in a head, of both sides" $ do
      let application request respond = do
            _ <- consume request
            seen <- getRequestTrailers request
            setHTTP2Data request (Just defaultHTTP2Data {http2dataTrailers = saying seen})
            respond (responseLBS status200 [] "x")
          saying seen (Just _) = return (NextTrailersMaker (saying seen))
          saying seen Nothing =
            return (Trailers (seen ++ [("Content-Length", "9"), ("Set-Cookie", "a=b"), ("X-Own", "1")]))
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t"), ("host", "b"), ("authorization", "forged")])
        (answerTrailers <$> awaitAnswer http2 stream) `shouldReturn` [("x-trailer", "t"), ("x-own", "1")]
    it "drops a length in trailers" $ do
      let application request respond =
            consume request >> getRequestTrailers request
              >>= respond . responseLBS status200 [] . L.fromStrict . C8.pack . show
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t"), ("content-length", "5")])
        (answerBody <$> awaitAnswer http2 stream) `shouldReturn` "[(\"x-trailer\",\"t\")]"
    it "lets an application see the client's trailers" $ do
      let application request respond =
            consume request >> getRequestTrailers request
              >>= respond . responseLBS status200 [] . L.fromStrict . C8.pack . show
      serving application $ \http2 -> do
        stream <- openStream http2 [] (post "/" [])
        sendBody http2 stream [] "12345"
        sendFrames http2 (block stream [EndStream] [("x-trailer", "t")])
        (answerBody <$> awaitAnswer http2 stream) `shouldReturn` "[(\"x-trailer\",\"t\")]"
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
    it "joins the parts of a cookie" $
      serving
        ( \request respond ->
            respond (responseLBS status200 [] (L.fromStrict (fromMaybe "" (lookup "Cookie" (requestHeaders request)))))
        )
        $ \http2 ->
          (answerBody <$> ask http2 (get "/" [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d")]) "")
            `shouldReturn` "a=b; c=d"
    it "counts the parts of a cookie as one field, and their bytes as HTTP/1 does" $
      serving
        ( \request respond ->
            respond (responseLBS status200 [] (maybe "" L.fromStrict (lookup "Cookie" (requestHeaders request))))
        )
        $ \http2 -> do
          let crumbs count size = replicate count ("cookie", B.replicate size 97)
          answer <- ask http2 (get "/" (crumbs 400 100)) ""
          (answerStatus answer, answerBody answer)
            `shouldBe` (Just 200, B.intercalate "; " (replicate 400 (B.replicate 100 97)))
          (answerStatus <$> ask http2 (get "/" (crumbs 502 100)) "") `shouldReturn` Just 431
          (answerStatus <$> ask http2 (get "/" (crumbs 10 100 ++ [("x", "y") | _ <- [1 .. 128 :: Int]])) "")
            `shouldReturn` Just 431
    it "refuses a name that is longer than those of HTTP/1 can be, whatever the limit of heads is" $
      withServer (setMaxTotalHeaderLength 1000000) pong $ \port -> withHttp2 port $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" [(B.replicate 65535 97, "x")]) "") `shouldReturn` Just 200
        (answerStatus <$> ask http2 (get "/" [(B.replicate 65536 97, "x")]) "") `shouldReturn` Just 431
    it "refuses requests when the heads of those that are not finished are too large together, and takes them when one is" $
      do
        gate <- newEmptyMVar
        let application request respond = when (rawPathInfo request == "/wait") (readMVar gate) >> pong request respond
            heavy = get "/wait" [("x", B.replicate 15000 97)]
        serving application $ \http2 -> do
          streams <- replicateM 70 (openStream http2 [EndStream] heavy)
          events <- eventsUntil (\event -> any (`isReset` event) streams) http2
          [code | GotReset _ code <- events] `shouldBe` [RefusedStream]
          putMVar gate ()
          ends <- mapM (awaitAnswer http2) streams
          length [() | answer <- ends, answerStatus answer == Just 200]
            `shouldSatisfy` (\count -> count >= 40 && count < 70)
          [code | ResetWith code <- map answerEnd ends] `shouldSatisfy` all (== RefusedStream)
          (answerStatus <$> ask http2 heavy "") `shouldReturn` Just 200
    it "counts small fields of unfinished requests for what they take, and trailers" $ do
      gate <- newEmptyMVar
      let application request respond = when (rawPathInfo request == "/wait") (readMVar gate) >> pong request respond
          codesOf http2 streams =
            (\events -> [code | GotReset _ code <- events])
              <$> eventsUntil (\event -> any (`isReset` event) streams) http2
      serving application $ \http2 -> do
        streams <- replicateM 70 (openStream http2 [EndStream] (get "/wait" [("x", "y") | _ <- [1 .. 120 :: Int]]))
        codesOf http2 streams `shouldReturn` [RefusedStream]
      serving application $ \http2 -> do
        streams <- replicateM 70 (openStream http2 [] (post "/wait" []))
        forM_ streams $ \stream -> sendFrames http2 (block stream [EndStream] [("x", B.replicate 15000 97)])
        codesOf http2 streams `shouldReturn` [EnhanceYourCalm]
        putMVar gate ()
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    it "takes some two megabytes of the bodies that wait on a connection, and a little of each" $ do
      written <- newIORef (0 :: Int)
      let size = 300000
          piece = B.replicate 10000 97
          application request respond =
            respond . responseStream status200 [] $ \write _ -> replicateM_ (size `div` B.length piece) $ do
              write (byteString piece)
              when
                (rawPathInfo request == "/counted")
                (atomicModifyIORef' written (\count -> (count + B.length piece, ())))
          settled before' = do
            threadDelay 300000
            now <- readIORef written
            if now == before' && now > 0 then return now else settled now
      withServer id application $ \port -> withHttp2As silent [(InitialWindowSize, 0)] port $ \http2 -> do
        sendFrame http2 (windowUpdate 0 0x7fff0000)
        streams <- replicateM 100 (openStream http2 [EndStream] (get "/counted" []))
        settled 0 >>= (`shouldSatisfy` (< 5000000))
        -- They hold up no stream whose window is open.
        other <- openStream http2 [EndStream] (get "/" [])
        sendFrame http2 (windowUpdate other 0x7fff0000)
        (B.length . answerBody <$> awaitAnswer http2 other) `shouldReturn` size
        forM_ streams $ \stream -> sendFrame http2 (windowUpdate stream 0x7fff0000)
        mapM (fmap (B.length . answerBody) . awaitAnswer http2) streams `shouldReturn` replicate 100 size
    it "answers a raw response's other one, and lets an application take an extended CONNECT over" $ do
      let application _ respond = respond (responseRaw raw (responseLBS (mkStatus 426 "Upgrade Required") [] "upgrade"))
          raw :: IO ByteString -> (ByteString -> IO ()) -> IO ()
          raw receive' send' = do
            send' "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX-Own: 1\r\n\r\nhello "
            receive' >>= send'
      serving application $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 426
        stream <-
          openStream
            http2
            []
            [ (":method", "CONNECT"),
              (":protocol", "websocket"),
              (":scheme", "http"),
              (":authority", "a"),
              (":path", "/chat")
            ]
        sendBody http2 stream [EndStream] "world"
        answer <- awaitAnswer http2 stream
        (answerStatus answer, answerField "x-own" answer, answerField "upgrade" answer, answerBody answer)
          `shouldBe` (Just 200, Just "1", Nothing, "hello world")
    it "answers an extended CONNECT with 501 if the application answers it as a GET" $ do
      let application request respond = respond (responseLBS (statusFor (rawPathInfo request)) [] "page")
          statusFor path = if path == "/" then status200 else status404
          connect protocol path =
            [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":authority", "a"), (":path", path)]
      serving application $ \http2 -> do
        forM_ ["websocket", "connect-udp"] $ \protocol -> do
          answer <- openStream http2 [] (connect protocol "/") >>= awaitAnswer http2
          (answerStatus answer, answerBody answer) `shouldBe` (Just 501, "")
        missing <- openStream http2 [] (connect "websocket" "/x") >>= awaitAnswer http2
        answerStatus missing `shouldBe` Just 404
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    it "hands on an ordinary CONNECT with its authority, and opens the tunnel that the application wants" $ do
      asked <- newIORef []
      let application request respond = do
            modifyIORef'
              asked
              ((requestMethod request, rawPathInfo request, requestHeaderHost request, extendedConnect request) :)
            respond $ case requestHeaderHost request of
              Just "tunnel:443" -> responseRaw raw (responseLBS status200 [] "other")
              Just "page:443" -> responseLBS status200 [] "page"
              _ -> responseLBS (mkStatus 405 "") [] "none"
          raw :: IO ByteString -> (ByteString -> IO ()) -> IO ()
          raw receive' send' = send' "HTTP/1.1 200 OK\r\nX-Own: 1\r\n\r\nhello " >> receive' >>= send'
          authorities = ["tunnel:443", "page:443", "refused:443"]
      serving application $ \http2 -> do
        answers <- forM authorities $ \authority -> do
          stream <- openStream http2 [] [(":method", "CONNECT"), (":authority", authority)]
          sendBody http2 stream [EndStream] "world"
          awaitAnswer http2 stream
        [(answerStatus answer, answerField "x-own" answer, answerBody answer) | answer <- answers]
          `shouldBe` [(Just 200, Just "1", "hello world"), (Just 200, Nothing, ""), (Just 405, Nothing, "none")]
      readIORef asked `shouldReturn` reverse [("CONNECT", "/", Just authority, Nothing) | authority <- authorities]
    it "refuses what an application sends on a stream that it has given back" $ do
      kept <- newEmptyMVar
      let application _ respond = respond (responseRaw raw (responseLBS status200 [] "other"))
          raw :: IO ByteString -> (ByteString -> IO ()) -> IO ()
          raw receive' send' = send' "HTTP/1.1 101 Switching Protocols\r\n\r\nown" >> putMVar kept (receive', send')
      serving application $ \http2 -> forM_ [1 .. 3 :: Int] $ \_ -> do
        stream <-
          openStream
            http2
            [EndStream]
            [ (":method", "CONNECT"),
              (":protocol", "websocket"),
              (":scheme", "http"),
              (":authority", "a"),
              (":path", "/chat")
            ]
        answerBody <$> awaitAnswer http2 stream `shouldReturn` "own"
        (receive', send') <- takeMVar kept
        (try (send' "late") >>= either return (const (fail "was sent"))) `shouldReturn` UsedTooLate
        (either id (\bytes -> if B.null bytes then UsedTooLate else error "received") <$> try receive')
          `shouldReturn` UsedTooLate
    it "gives an application of WebSockets a key, whatever the client has sent, and drops what it makes of it (RFC 8441, section 5)" $ do
      let application request respond = respond (responseRaw (raw request) (responseLBS status200 [] ""))
          raw :: Request -> IO ByteString -> (ByteString -> IO ()) -> IO ()
          raw request _ send' = do
            send'
              "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: \
              \Upgrade\r\nSec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
            send'
              ( C8.pack
                  ( show
                      ( [ value
                          | (name, value) <-
                              requestHeaders request,
                            name `elem` ["Sec-WebSocket-Key", "Sec-WebSocket-Version"]
                        ],
                        requestMethod request
                      )
                  )
              )
      serving application $ \http2 -> forM_ [[], [("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")]] $ \key -> do
        stream <-
          openStream
            http2
            [EndStream]
            ( [ (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":authority", "a"),
                (":path", "/chat"),
                ("sec-websocket-version", "13")
              ]
                ++ key
            )
        answer <- awaitAnswer http2 stream
        (answerBody answer, [field | field@(name, _) <- answerHead answer, name `notElem` ["date", "server"]])
          `shouldBe` ( "([\"13\",\"AAAAAAAAAAAAAAAAAAAAAA==\"],\"GET\")",
                       [(":status", "200"), ("sec-websocket-protocol", "chat")]
                     )
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
  describe "setOnAnswer, of an extended CONNECT" $ do
    forM_
      [ ("is accepted", ["HTTP/1.1 101 Switching", " Protocols\r\n\r\nab", "c"], (200, "OK"), 3),
        ("is declined", ["HTTP/1.1 403 Mine\r\n\r\nabcd"], (403, "Mine"), 4)
      ]
      $ \(what, pieces, (code, reason), count) ->
        it ("that " ++ what ++ ": is told once, when the stream is over") $ do
          told <- newEmptyMVar
          withServer (setOnAnswer (putMVar told)) (rawly (\get' give -> mapM_ give pieces >> void get')) $ \port ->
            withHttp2 port $ \http2 -> do
              stream <- openStream http2 [] chat
              threadDelay 50000
              isEmptyMVar told `shouldReturn` True
              sendBody http2 stream [EndStream] "end"
              (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just code
              answer <- within "the answer" (takeMVar told)
              summary answer `shouldBe` (code, reason, Just count, False)
              threadDelay 50000
              isEmptyMVar told `shouldReturn` True
    forM_ [("throws", throwIO (userError "fault")), ("is killed", myThreadId >>= killThread)] $ \(what, end) ->
      it ("whose application " ++ what ++ ": is told once that it was cut off") $
        toldOf (\_ give -> give "HTTP/1.1 101 Switching Protocols\r\n\r\nab" >> end)
          `shouldReturn` [(200, "OK", Just 2, True)]
    it "whose application sends something else: is told once of the 500 in its place, which is cut off" $
      toldOf (\_ give -> give "mine\r\n\r\n") `shouldReturn` [(500, "Internal Server Error", Nothing, True)]
    forM_ [("a part of a head", ["HTTP/1.1 101 "]), ("nothing", [])] $ \(what, pieces) ->
      it ("whose application sends " ++ what ++ ": is told once of the 500 in its place") $
        toldOf (\_ give -> mapM_ give pieces) `shouldReturn` [(500, "Internal Server Error", Just 20, False)]
  it "sends files, parts of them, and their heads" $
    withFolder $ \folder -> do
      let path = folder </> "file"
          content = B.concat (replicate 20000 "0123456789")
      B.writeFile path content
      withServer id (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \port ->
        withHttp2 port $ \http2 -> do
          whole <- ask http2 (get "/" []) ""
          (answerBody whole == content, answerField "content-length" whole) `shouldBe` (True, Just "200000")
          part <- ask http2 (get "/" [("range", "bytes=5-14")]) ""
          (answerStatus part, answerBody part) `shouldBe` (Just 206, "5678901234")
          headOnly <- ask http2 ((":method", "HEAD") : drop 1 (get "/" [])) ""
          (answerStatus headOnly, answerBody headOnly, answerField "content-length" headOnly)
            `shouldBe` (Just 200, "", Just "200000")
  it "resets a stream whose file becomes shorter when its head is out, and tells observers that the answer was cut off" $
    withFolder $ \folder -> do
      let path = folder </> "file"
          file _ respond = respond (responseFile status200 [] path Nothing)
      B.writeFile path (B.replicate 3000000 97)
      reported <- newIORef []
      told <- newEmptyMVar
      let observed =
            setOnException (\_ failure -> modifyIORef reported (fromException failure :)) . setOnAnswer (putMVar told)
      withServer observed file $ \port ->
        withHttp2As polite {conductWindows = conductWindows silent} [] port $ \http2 -> do
          stream <- openStream http2 [EndStream] (get "/" [])
          (answerStatus <$> awaitHead http2 stream) `shouldReturn` Just 200
          withBinaryFile path ReadWriteMode (`hSetFileSize` 1000)
          sendFrames http2 [windowUpdate 0 10000000, windowUpdate stream 10000000]
          (answerEnd <$> awaitAnswer http2 stream) `shouldReturn` ResetWith InternalError
          answer <- within "what observers are told" (takeMVar told)
          (statusCode (Server.answerStatus answer), Server.answerIsCutOff answer) `shouldBe` (200, True)
      readIORef reported `shouldReturn` [Just (FileTruncated path)]
  it "sends what is more urgent first (RFC 9218)" $
    withWaitingAnswers ["u=7", "u=3", "u=0"] $ \http2 streams -> do
      sendFrame http2 (windowUpdate 0 200000)
      finished http2 streams `shouldReturn` reverse streams
  it "sends what is as urgent one after the other, and incremental answers at the same time" $ do
    let switches pieces = length (filter id (zipWith (/=) pieces (drop 1 pieces)))
        order http2 streams = do
          sendFrame http2 (windowUpdate 0 200000)
          events <- finishedEvents http2 streams
          return [stream | GotData stream _ _ <- events]
    -- Each answer takes three frames.
    (switches <$> withWaitingAnswers ["u=3", "u=3"] order) `shouldReturn` (1 :: Int)
    withWaitingAnswers ["u=3, i", "u=3, i"] order >>= (`shouldSatisfy` (> 1)) . switches
  it "sends in another order when the client changes the priorities of waiting answers" $
    withWaitingAnswers ["u=1", "u=2", "u=3"] $ \http2 streams -> do
      sendFrames
        http2
        ( [priorityUpdate stream priority | (stream, priority) <- zip streams ["u=6", "u=5", "u=4"]]
            ++ [windowUpdate 0 200000]
        )
      finished http2 streams `shouldReturn` reverse streams
  it "alone refuses HTTP/1, and HTTP/1 alone refuses its preface" $ do
    withServer setHTTP1Disabled pong $ \port -> do
      statusOf <$> Support.exchange port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` 505
      withHttp2 port $ \http2 -> (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
    withServer setHTTP2Disabled pong $ \port ->
      statusOf <$> Support.exchange port "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" `shouldReturn` 400
  it "closes without an answer of HTTP/1 when the preface is wrong behind its first two lines, wherever it is cut" $
    withServer id pong $ \port -> forM_ [8, 16, 20, 24] $ \cut -> do
      let (first, second) = B.splitAt cut "PRI * HTTP/2.0\r\n\r\nXM\r\n\r\n"
      answer <- withConnection port $ \client ->
        send client first >> threadDelay 20000 >> closing (send client second) >> receiveAll client
      answer `shouldSatisfy` not . ("HTTP" `B.isInfixOf`)
  it "is what a connection speaks that begins with its preface, wherever that is cut" $
    withServer id pong $ \port -> forM_ [1 .. 23] $ \cut -> do
      let (first, second) = B.splitAt cut preface
      answer <- withConnection port $ \client -> do
        send client first >> threadDelay 2000
        send client (second <> encodeFrame (settingsFrame [])) >> sendEnd client
        receiveAll client
      B.drop 3 (B.take 4 answer) `shouldBe` "\4"
  it "is not what a connection speaks that begins like the preface, wherever that is cut" $
    withServer id pong $ \port -> forM_ ["PRI * HTTP/2.0\r\nHost: a\r\n\r\n", "PRI / HTTP/1.1\r\nHost: a\r\n\r\n"] $ \bytes -> do
      statuses <- forM [1, 4, 8, 16, 20] $ \cut -> do
        let (first, second) = B.splitAt cut bytes
        withConnection port $ \client -> do
          send client first >> threadDelay 20000
          closing (send client second) >> closing (sendEnd client)
          statusOf <$> receiveAll client
      statuses `shouldBe` replicate 5 (if "HTTP/2" `B.isInfixOf` bytes then 400 else 200)
  it "must be recognised within the time of a head, however slowly its bytes come" $
    withServer (setHTTP1Disabled . setHeaderTimeout 1) pong $ \port -> withConnection port $ \client -> do
      let sendSlowly = forM_ [1 .. 60 :: Int] $ \_ -> closing (send client "a") >> threadDelay 200000
      answer <- withAsync sendSlowly (const (timeout 8000000 (receiveAll client)))
      (statusOf <$> answer) `shouldBe` Just 408
  it "ends a connection in an orderly way after setMaximumRequests, and answers what is on its way" $
    withServer (setMaximumRequests (Just 2)) pong $ \port -> withHttp2 port $ \http2 -> do
      replicateM_ 2 ((answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200)
      notice <- last <$> eventsUntil isGoAway http2
      notice `shouldBe` GotGoAway 2147483647 NoError ""
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      rest <- within "the end" (eventsUntilEnd http2)
      [(stream, code) | GotGoAway stream code _ <- rest] `shouldBe` [(5, NoError)]
  it "answers a client that has ended its side of the connection, and tells the application that it has" $ do
    (begun, told, gate) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
    connected <- newIORef []
    let application request respond = do
          onDisconnect request (putMVar told ()) (putMVar begun () >> takeMVar gate)
          isConnected request >>= \is -> atomicModifyIORef' connected (\others -> (is : others, ()))
          respond (responseLBS status200 [] (L.replicate 20000 97))
    withServer id application $ \port -> withConnection port $ \client -> do
      http2 <- http2OnClient polite client
      handshake http2 []
      stream <- openStream http2 [EndStream] (get "/" [])
      -- The rest of this body never comes, and its answer does.
      unfinished <- openStream http2 [] (post "/" [])
      replicateM_ 2 (takeMVar begun)
      sendEnd client
      within "the callbacks" (replicateM_ 2 (takeMVar told))
      replicateM_ 2 (putMVar gate ())
      forM_ [stream, unfinished] $ \asked -> do
        answer <- awaitAnswer http2 asked
        (answerEnd answer, answerStatus answer, B.length (answerBody answer)) `shouldBe` (Complete, Just 200, 20000)
      readIORef connected `shouldReturn` [False, False]
      (rest, seconds) <- timed (within "the end" (eventsUntilEnd http2))
      (last rest, seconds < 8) `shouldBe` (Closed, True)
  it "does not wait for a client that has ended its side and cannot take the rest of an answer" $
    withServer (setSendTimeout 0) (\_ respond -> respond (responseLBS status200 [] (L.replicate 80000 97))) $ \port ->
      withConnection port $ \client -> do
        http2 <- http2OnClient silent client
        handshake http2 []
        stream <- openStream http2 [EndStream] (get "/" [])
        sendEnd client
        answer <- awaitAnswer http2 stream
        (answerEnd answer, B.length (answerBody answer)) `shouldBe` (ResetWith Cancel, 65535)
        last <$> within "the end" (eventsUntilEnd http2) `shouldReturn` Closed
  it "ends a connection also when its client sends something all the time" $
    withServer (setMaximumRequests (Just 1)) pong $ \port -> withHttp2 port $ \http2 -> do
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      withAsync (closing (forever (sendFrame http2 (pingFrame "12345678") >> threadDelay 50000))) $ \_ -> do
        rest <- within "the end" (eventsUntilEnd http2)
        [(stream, code) | GotGoAway stream code _ <- rest] `shouldBe` [(2147483647, NoError), (1, NoError)]
  it "gives a client its time to take what an application has written after a long pause" $ do
    let application _ respond = respond . responseStream status200 [] $ \write flush -> do
          write "first" >> flush
          threadDelay 2500000
          write (byteString (B.replicate 100000 97))
    -- The server looks every second whether a client has stopped taking what is sent. Nothing has moved since the pause
    -- began.
    withServer (setSendTimeout 2) application $ \port -> withHttp2 port $ \http2 -> do
      stream <- openStream http2 [EndStream] (get "/" [])
      threadDelay 3300000
      answer <- awaitAnswer http2 stream
      (answerEnd answer, B.length (answerBody answer)) `shouldBe` (Complete, 100005)
  it "does not blame the client for an answer that waits behind a more urgent one, but for one whose window it keeps closed" $ do
    let application request respond =
          respond (responseLBS status200 [] (L.replicate (if rawPathInfo request == "/small" then 100 else 400000) 97))
        urgency number = [("priority", C8.pack ("u=" ++ show (number :: Int)))]
    withServer (setSendTimeout 2) application $ \port ->
      withHttp2As polite {conductWindows = conductWindows silent} [(InitialWindowSize, 0)] port $ \http2 -> do
        let ask' path number room = do
              stream <- openStream http2 [EndStream] (get path (urgency number))
              stream <$ sendFrames http2 [windowUpdate stream room | room > 0]
            -- The connection's window opens by a little at a time, all of which goes to the most urgent answer.
            trickle = sendFrame http2 (windowUpdate 0 100) >> threadDelay 50000
            trickleUntilReset [] = return ()
            trickleUntilReset streams = do
              trickle
              events <- untilSilence 1000 http2
              unless
                (Closed `elem` events)
                (trickleUntilReset [stream | stream <- streams, not (any (isReset stream) events)])
        urgent <- ask' "/" 0 1000000
        void (awaitStream ((>= 65535) . B.length . answerBody) http2 urgent)
        waiting <- mapM (\path -> ask' path 7 1000000) ["/", "/small"]
        closed <- mapM (\path -> ask' path 7 0) ["/", "/small"]
        within "the resets" (trickleUntilReset closed)
        replicateM_ 20 trickle
        sendFrame http2 (windowUpdate 0 2000000)
        forM_ (zip (urgent : waiting) [400000, 400000, 100]) $ \(stream, size) -> do
          answer <- awaitAnswer http2 stream
          (answerEnd answer, B.length (answerBody answer)) `shouldBe` (Complete, size)
  it "lets a handler go on that flushes a little while another answer is endless" $ do
    -- The client takes everything at once, and by the time of the next send the other handler has more.
    (gate, flushing, sends, made) <-
      (,,,) <$> newEmptyMVar <*> newIORef Nothing <*> newIORef (0 :: Int) <*> newIORef (0 :: Int)
    let application request respond = case rawPathInfo request of
          "/endless" -> respond . responseStream status200 [] $ \write flush -> do
            flush
            takeMVar gate
            replicateM_ 640 (write (byteString (B.replicate 16384 97)) >> modifyIORef' made (+ 1))
          _ -> respond . responseStream status200 [] $ \write flush -> do
            write "first"
            myThreadId >>= writeIORef flushing . Just
            flush
            writeIORef flushing Nothing
            void (tryPutMVar gate ())
        beforeSend = do
          thread <- myThreadId
          flusher <- readIORef flushing
          when (flusher == Just thread) $ do
            modifyIORef' sends (+ 1)
            void (tryPutMVar gate ())
            readIORef made >>= awaitMore (20 :: Int)
        awaitMore left had = do
          has <- readIORef made
          when (left > 0 && has == had) (threadDelay 1000 >> awaitMore (left - 1) had)
    withServerOver (overMemoryWhere beforeSend) id application $ \server ->
      withHttp2As polite [(InitialWindowSize, 1000000000)] server $ \http2 -> do
        sendFrame http2 (windowUpdate 0 1000000000)
        endless <- openStream http2 [EndStream] (get "/endless" [])
        void (awaitHead http2 endless)
        (answerBody <$> ask http2 (get "/" []) "") `shouldReturn` "first"
        (B.length . answerBody <$> awaitAnswer http2 endless) `shouldReturn` (640 * 16384)
    readIORef sends >>= (`shouldSatisfy` \count -> count > 0 && count <= 8)
  it "counts the time of an idle connection from the end of its last request" $ do
    let application request respond = threadDelay 700000 >> pong request respond
    -- Every half second the server looks whether clients take what is sent, and then it may find that nothing is served
    -- any more.
    withServer (setSendTimeout 1) application $ \port -> withHttp2 port $ \http2 -> do
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      threadDelay 1000000
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
  it "keeps setIdleTimeout also after a request that another thread has answered, whatever the time for sending" $
    forM_ [0, 30] $ \sendSeconds -> do
      let application request respond = threadDelay 300000 >> pong request respond
      withServer (setSendTimeout sendSeconds . setIdleTimeout 1) application $ \port ->
        withHttp2As silent [] port $ \http2 -> do
          (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
          (_, seconds) <- timed (within "the end" (eventsUntilEnd http2))
          seconds `shouldSatisfy` \value -> value > 0.7 && value < 8
  it "serves a request that comes when the idle time is over and the server has not looked yet" $ do
    -- Such as on a busy machine, where the server's thread runs late.
    afterWait <- newIORef (return ())
    let once = join (atomicModifyIORef' afterWait (return (),))
    withServerOver (overMemoryAfter once) (setIdleTimeout 1) pong $ \server ->
      withHttp2As silent [] server $ \http2 -> do
        (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
        late <- newEmptyMVar
        writeIORef afterWait (openStream http2 [EndStream] (get "/" []) >>= putMVar late)
        stream <- within "the end of the idle time" (takeMVar late)
        (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
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
  it "ends a connection in an orderly way, and loses no request" $ do
    stopping <- newEmptyMVar
    gate <- newEmptyMVar
    let application request respond = case rawPathInfo request of
          "/slow" -> readMVar gate >> pong request respond
          _ -> pong request respond
    withServer (setInstallShutdownHandler (putMVar stopping)) application $ \port -> withHttp2 port $ \http2 -> do
      slow <- openStream http2 [EndStream] (get "/slow" [])
      void (roundTrip http2)
      stop <- takeMVar stopping
      void (forkIO stop)
      notice <- last <$> eventsUntil isGoAway http2
      notice `shouldBe` GotGoAway 2147483647 NoError ""
      -- This request was on its way when the end was announced.
      (answerStatus <$> ask http2 (get "/" []) "") `shouldReturn` Just 200
      putMVar gate ()
      (answerStatus <$> awaitAnswer http2 slow) `shouldReturn` Just 200
      rest <- within "the end" (eventsUntilEnd http2)
      [code | GotGoAway _ code _ <- rest] `shouldBe` [NoError]
  where
    large _ respond = respond (responseLBS status200 [] (L.replicate 1000000 97))
    -- The order in which streams end.
    finished http2 streams = (\events -> [stream | GotData stream _ Last <- events]) <$> finishedEvents http2 streams
    -- What comes until all these streams have ended.
    finishedEvents :: Http2 -> [StreamId] -> IO [Event]
    finishedEvents _ [] = return []
    finishedEvents http2 streams = do
      events <- eventsUntil (\event -> any (`isEndOf` event) streams) http2
      let left = if Closed `elem` events then [] else [stream | stream <- streams, not (any (isEndOf stream) events)]
      (events ++) <$> finishedEvents http2 left
    rawly :: (IO ByteString -> (ByteString -> IO ()) -> IO ()) -> Application
    rawly use _ respond = respond (responseRaw use (responseLBS status200 [] "other"))
    chat =
      [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a"), (":path", "/chat")]
    summary answer =
      ( statusCode (Server.answerStatus answer),
        statusMessage
          (Server.answerStatus answer),
        Server.answerBytes answer,
        Server.answerIsCutOff answer
      )
    -- What observers are told of an extended CONNECT.
    toldOf use = do
      told <- newEmptyMVar
      withServer (setOnAnswer (putMVar told)) (rawly use) $ \port -> withHttp2 port $ \http2 -> do
        void (openStream http2 [] chat)
        first <- within "the answer" (takeMVar told)
        threadDelay 50000
        others <- tryTakeMVar told
        return (map summary (first : maybeToList others))
    isEndOf stream (GotData at _ Last) = at == stream
    isEndOf _ _ = False
    isReset stream (GotReset at _) = at == stream
    isReset _ _ = False
    isGoAway (GotGoAway {}) = True
    isGoAway _ = False
    anyFailure :: SomeException -> Either () ByteString
    anyFailure _ = Left ()
    awaitInterim http2 stream = eventsUntil (isContinue stream) http2
    isContinue stream (GotHeaders at fields _) = at == stream && lookup ":status" fields == Just "100"
    isContinue _ _ = False

-- Asks for answers of 40,000 bytes with these priorities. Their heads have come when the action runs, and the
-- connection's window is used up, so that none can end before the others begin.
withWaitingAnswers :: [ByteString] -> (Http2 -> [StreamId] -> IO a) -> IO a
withWaitingAnswers priorities use = do
  gate <- newEmptyMVar
  ready <- newIORef (0 :: Int)
  let application request respond
        | rawPathInfo request == "/fill" = respond (responseLBS status200 [] (L.replicate 65535 97))
        | otherwise = do
          atomicModifyIORef' ready (\count -> (count + 1, ()))
          readMVar gate
          respond (responseLBS status200 [] (L.replicate 40000 97))
  withServer id application $ \port ->
    withHttp2As polite {conductWindows = conductWindows silent} [(InitialWindowSize, 1000000)] port $ \http2 -> do
      answer <- ask http2 (get "/fill" []) ""
      B.length (answerBody answer) `shouldBe` 65535
      streams <- forM priorities $ \priority -> openStream http2 [EndStream] (get "/" [("priority", priority)])
      untilM ((== length priorities) <$> readIORef ready)
      putMVar gate ()
      forM_ streams (awaitHead http2)
      use http2 streams

spin :: IORef Bool -> Int -> IO ()
spin over count = do
  done <- readIORef over
  -- It allocates, so that the scheduler can interrupt it.
  next <- evaluate (count + length (show count))
  unless done (spin over next)

untilM :: IO Bool -> IO ()
untilM condition = condition >>= \done -> unless done (threadDelay 1000 >> untilM condition)

consume :: Request -> IO ByteString
consume request = B.concat <$> go
  where
    go = getRequestBodyChunk request >>= \bytes -> if B.null bytes then return [] else (bytes :) <$> go

get, post :: ByteString -> Fields -> Fields
get path others = Http2Client.get path ++ others
post path others = Http2Client.post path ++ others

trailerLines :: IsString name => Int -> [(name, ByteString)]
trailerLines count = replicate count ("x", "y")
