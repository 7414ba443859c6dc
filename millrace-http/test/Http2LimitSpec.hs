{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What the allowances of HTTP/2 cost honest clients: nothing, whatever they read, return and cancel. And how a
-- connection ends whose client goes beyond one: what was begun is finished.
module Http2LimitSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception (displayException, finally, fromException)
import Control.Monad (forM_, forever, replicateM, replicateM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Data.List (isInfixOf)
import Http2Client
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace
  ( ConnectionLimit (..),
    ConnectionLimitExceeded (..),
    seconds,
    setHTTP2MaximumFrames,
    setHTTP2MaximumResets,
    setHTTP2MaximumStreams,
    setIdleTimeout,
    setOnException,
    setOnLimit,
    setTimeout,
  )
import Support
import Test.Hspec

spec :: Spec
spec = describe "allowances of HTTP/2" $ do
  describe "streams at a time" $ do
    it "are not those that a client forgets when the answer comes before it has sent its request" $
      withServer (setHTTP2MaximumStreams 5) pong $ \port -> withHttp2 port $ \http2 ->
        replicateM_ 50 $ do
          stream <- openStream http2 [] (post "/")
          (answerStatus <$> awaitAnswer http2 stream) `shouldReturn` Just 200
    it "are refused beyond the limit, and the others go on" $ do
      gate <- newEmptyMVar
      withServer (setHTTP2MaximumStreams 5) (\request respond -> readMVar gate >> pong request respond) $ \port ->
        withHttp2 port $ \http2 -> do
          roundTrip http2 >>= (`shouldBe` []) . goAways
          streams <- replicateM 5 (openStream http2 [EndStream] (get "/"))
          replicateM_ 10 $ do
            refused <- openStream http2 [EndStream] (get "/")
            (answerEnd <$> awaitAnswer http2 refused) `shouldReturn` ResetWith RefusedStream
          putMVar gate ()
          mapM (fmap answerStatus . awaitAnswer http2) streams `shouldReturn` replicate 5 (Just 200)
          (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
  describe "frames without use" $ do
    it "are not those that give back four bytes or more of what was sent" $
      withServer (setHTTP2MaximumFrames 50 0) large $ \port -> withHttp2As sparing [] port $ \http2 -> do
        stream <- openStream http2 [EndStream] (get "/")
        body <- takeAll http2 stream
        body `shouldBe` largeSize
    it "are those that give more than was sent" $
      withServer (setHTTP2MaximumFrames 50 0) pong $ \port -> withHttp2 port $ \http2 -> do
        sendFrames http2 (replicate 60 (windowUpdate 0 1000))
        goAways <$> untilSilence 300000 http2 `shouldReturn` [(0, EnhanceYourCalm, "too many frames without use")]
    it "end a connection when all that was begun is finished" $ do
      gate <- newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/slow" -> readMVar gate >> pong request respond
            _ -> pong request respond
      withServer (setHTTP2MaximumFrames 50 0) application $ \port -> withHttp2 port $ \http2 -> do
        slow <- openStream http2 [EndStream] (get "/slow")
        sendFrames http2 (replicate 60 (pingFrame "12345678"))
        events <- eventsUntil isGoAway http2
        goAways events `shouldBe` [(slow, EnhanceYourCalm, "too many frames without use")]
        putMVar gate ()
        (answerStatus <$> awaitAnswer http2 slow) `shouldReturn` Just 200
        last <$> eventsUntilEnd http2 `shouldReturn` Closed
    it "end a connection at once when they do not stop" $ do
      gate <- newEmptyMVar
      withServer (setHTTP2MaximumFrames 50 0) (\request respond -> readMVar gate >> pong request respond) $ \port ->
        withHttp2 port $ \http2 -> do
          slow <- openStream http2 [EndStream] (get "/slow")
          sendFrames http2 (replicate 150 (pingFrame "12345678"))
          (answerEnd <$> awaitAnswer http2 slow) `shouldReturn` Broken
          putMVar gate ()

  describe "cancelled requests" $ do
    it "cost nothing when the answer has begun" $
      strictly endless $ \http2 -> do
        replicateM_ 100 $ do
          stream <- openStream http2 [EndStream] (get "/endless")
          _ <- awaitHead http2 stream
          sendFrame http2 (resetFrame stream Cancel)
        (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
    it "cost nothing when their handler ends soon" $ do
      begun <- newEmptyMVar
      ended <- newEmptyMVar
      let application request respond = case rawPathInfo request of
            "/read" ->
              putMVar begun () >> (strictRequestBody request >> pong request respond) `finally` putMVar ended ()
            _ -> pong request respond
      strictly application $ \http2 -> do
        replicateM_ 100 $ do
          stream <- openStream http2 [] (post "/read")
          takeMVar begun
          sendFrame http2 (resetFrame stream Cancel)
          takeMVar ended
        (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
    it "may be followed by what was on its way to be sent" $
      strictly pong $ \http2 ->
        replicateM_ 20 $ do
          stream <- openStream http2 [] (post "/")
          sendFrames http2 [resetFrame stream Cancel, dataFrame stream [] "late", dataFrame stream [EndStream] "later"]
          eventsUntil (== GotReset stream StreamClosed) http2 >>= (`shouldSatisfy` elem (GotReset stream StreamClosed))
          (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
    it "cost when their handler goes on" $ do
      (begun, finish) <- (,) <$> newEmptyMVar <*> newEmptyMVar
      strictly (\request respond -> putMVar begun () >> readMVar finish >> pong request respond) $ \http2 -> do
        replicateM_ 11 $ do
          stream <- openStream http2 [EndStream] (get "/")
          takeMVar begun
          sendFrame http2 (resetFrame stream Cancel)
        events <- eventsUntil isGoAway http2
        putMVar finish ()
        [(code, text) | (_, code, text) <- goAways events] `shouldBe` [(EnhanceYourCalm, "too many cancelled requests")]
  it "tell of each connection that they end, and report one a second" $ do
    told <- newIORef []
    reported <- newIORef []
    let settings =
          setHTTP2MaximumFrames 50 0
            . setOnLimit (\limit _ -> modifyIORef' told (limit :))
            . setOnException (\_ failure -> modifyIORef' reported (failure :))
    withServer settings pong $ \port -> do
      replicateM_ 20 . withHttp2 port $ \http2 -> do
        sendFrames http2 (replicate 60 (pingFrame "12345678"))
        last <$> eventsUntilEnd http2 `shouldReturn` Closed
      let allTold =
            readIORef told >>= \limits -> if length limits < 20 then threadDelay 1000 >> allTold else return limits
      within "the report of each" allTold `shouldReturn` replicate 20 FramesWithoutUse
      reports <- readIORef reported
      length [() | failure <- reports, Just (ConnectionLimitExceeded FramesWithoutUse _) <- [fromException failure]]
        `shouldSatisfy` (\count -> count >= 1 && count < 10)
  describe "are reported with what they limit:" $ do
    (begun, finish) <- runIO ((,) <$> newEmptyMVar <*> newEmptyMVar)
    let cancelling http2 = do
          replicateM_ 11 $ do
            stream <- openStream http2 [EndStream] (get "/slow")
            takeMVar begun
            sendFrame http2 (resetFrame stream Cancel)
          _ <- eventsUntil isGoAway http2
          putMVar finish ()
        slowly request respond = do
          when (rawPathInfo request == "/slow") (putMVar begun () >> readMVar finish)
          pong request respond
    forM_
      [ (FramesWithoutUse, "useless-frames", \http2 -> sendFrames http2 (replicate 60 (pingFrame "12345678"))),
        (CancelledRequests, "resets", cancelling),
        ( LargeHeads,
          "head-bytes",
          \http2 ->
            void
              ( openStream
                  http2
                  [EndStream]
                  ( get "/"
                      ++ replicate 50000 ("x", "y")
                  )
              )
        )
      ]
      $ \(limit, word, exceed) -> it word $ do
        told <- newIORef []
        reported <- newIORef []
        let settings =
              setHTTP2MaximumFrames 50 0 . setHTTP2MaximumResets 10 0
                . setOnLimit (\one _ -> modifyIORef' told (one :))
                . setOnException (\_ failure -> modifyIORef' reported (failure :))
        withServer settings slowly $ \port -> withHttp2 port $ \http2 -> do
          closing (exceed http2)
          last <$> eventsUntilEnd http2 `shouldReturn` Closed
        readIORef told `shouldReturn` [limit]
        reports <- readIORef reported
        [displayException one | one <- reports, Just (ConnectionLimitExceeded _ _) <- [fromException one]]
          `shouldSatisfy` \texts -> length texts == 1 && all (word `isInfixOf`) texts
  describe "the time without a request" $ do
    it "is not prolonged by PING or unknown frames" $
      withServer (setTimeout 30 . setIdleTimeout (seconds 1)) pong $ \port -> withHttp2 port $ \http2 -> do
        (_, elapsed) <- timed $ do
          (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
          pingingUntilEnd http2
        elapsed `shouldSatisfy` (\it' -> it' >= 0.9 && it' < 10)
    it "is that of a head before the first request" $
      withServer (setTimeout 5 . setIdleTimeout (seconds 1)) pong $ \port -> do
        withHttp2 port $ \http2 -> do
          threadDelay 1600000
          (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
        withConnection port $ \client -> do
          threadDelay 1600000
          http2 <- http2OnClient polite client
          handshake http2 []
          (answerStatus <$> ask http2 (get "/") "") `shouldReturn` Just 200
  where
    strictly application use =
      withServer (setHTTP2MaximumFrames 50 0 . setHTTP2MaximumResets 10 0) application (`withHttp2` use)

-- Gives back nothing by itself.
sparing :: Conduct
sparing = polite {conductWindows = conductWindows silent}

-- Receives a body, and gives each twenty bytes back to both windows as soon as they are there: as clients do whose
-- programs read little at a time. Each frame comes in two parts. Returns the number of bytes.
takeAll :: Http2 -> StreamId -> IO Int
takeAll http2 stream = go 0 0
  where
    go taken owed =
      nextEvent http2 >>= \case
        GotData _ bytes end -> do
          let (times, left) = (owed + B.length bytes) `quotRem` 20
          mapM_
            (sendBytes http2)
            ( pieces
                (B.concat (replicate times (B.concat (map encodeFrame [windowUpdate 0 20, windowUpdate stream 20]))))
            )
          if end == Last then return (taken + B.length bytes) else go (taken + B.length bytes) left
        Closed -> return taken
        _ -> go taken owed
    pieces frames = let (one, other) = B.splitAt 11 frames in filter (not . B.null) [one, other]

-- Sends what is no request until the server closes the connection.
pingingUntilEnd :: Http2 -> IO ()
pingingUntilEnd http2 = do
  closing (sendFrames http2 [pingFrame "12345678", Frame (OtherType 0xbe) 0 0 ""])
  events <- untilSilence 100000 http2
  unless (Closed `elem` events) (pingingUntilEnd http2)

isGoAway :: Event -> Bool
isGoAway event = not (null (goAways [event]))

goAways :: [Event] -> [(StreamId, ErrorCode, ByteString)]
goAways events = [(final, code, text) | GotGoAway final code text <- events]

largeSize :: Int
largeSize = 1000000

large, endless :: Application
large _ respond = respond (responseLBS status200 [] (L.replicate (fromIntegral largeSize) 0x78))
endless request respond = case rawPathInfo request of
  "/endless" ->
    respond . responseStream status200 [] $ \write flush ->
      forever (write (byteString (B.replicate 10000 0x78)) >> flush)
  _ -> pong request respond
