{-# LANGUAGE OverloadedStrings #-}

-- | Bodies over HTTP/2, in both directions: windows, flushes, files, and streams that end early.
module Http2BodySpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception (finally, fromException)
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.String (IsString)
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (status200, statusCode)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import qualified Network.Wai.Handler.Millrace as Server
import Support hiding (exchange)
import System.FilePath ((</>))
import System.IO (IOMode (..), hSetFileSize, withBinaryFile)
import System.Timeout (timeout)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  overSocketsAndMemory $ \medium -> do
    let serving application use = withServerOver medium id application (`withHttp2` use)
    it "carries bodies that are larger than all windows, both ways" $
      serving echo $ \http2 -> do
        let body = B.concat (replicate 100000 "0123456789abcdef")
        answer <- ask http2 (post "/" []) body
        (answerStatus answer, B.length (answerBody answer), answerBody answer == body)
          `shouldBe` (Just 200, B.length body, True)
    forM_ [("whole", Nothing), ("known when its bytes have been sent", Just 0), ("with trailers", Just 1)] $
      \(how, streamed) ->
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
        (_, elapsed) <- timed $ do
          stream <- openStream http2 [] (post "/" [("content-length", "10000000")])
          (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 413
          eventsUntil (== GotReset stream NoError) http2
        elapsed `shouldSatisfy` (> 0.1)
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
  it "resets a stream whose file becomes shorter behind its head, and tells observers of the cut answer" $
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
  where
    large _ respond = respond (responseLBS status200 [] (L.replicate 1000000 97))

trailerLines :: IsString name => Int -> [(name, ByteString)]
trailerLines count = replicate count ("x", "y")
