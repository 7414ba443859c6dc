{-# LANGUAGE OverloadedStrings #-}

-- | Targets of HTTP\/2 that reset streams, refuse them, or say nothing any more: what clients get, and where requests
-- go then.
module ResetSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (IOException, try)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Frames
import Millrace.Deadline (milliseconds)
import Millrace.Proxy
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (sendAll)
import Network.Wai.Handler.Millrace (withApplication)
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "a reset before the head" $ do
    forM_ [(code, body) | code <- [0, 1, 2, 5, 8, 11, 12, 13], body <- ["", "x"]] $ \(code, body) ->
      it
        ( "is answered with 502, and the request not sent again: code "
            ++ show code
            ++ ", "
            ++ show (ByteString.length body)
            ++ " bytes"
        )
        $ do
          asked <- newIORef (0 :: Int)
          withTarget (resetting asked (`resetOf` code)) $ \target ->
            withFront quiet [speaking target, speaking target] $ \port -> do
              statusOf <$> ask port (requestWith body) `shouldReturn` "502"
              readIORef asked `shouldReturn` 1
    forM_ [(7, 7), (8, 8)] $ \(code, expected) ->
      it ("has its code for a client of HTTP/2: " ++ show code) $ do
        asked <- newIORef (0 :: Int)
        withTarget (resetting asked (`resetOf` code)) $ \target ->
          withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
            sendAll client (clientOpening <> getOn 1)
            endOfStream client 1 `shouldReturn` WasReset "" (ByteString.pack [0, 0, 0, expected])
            -- The connection goes on.
            sendAll client (getOn 3)
            endOfStream client 3 `shouldReturn` WasReset "" (ByteString.pack [0, 0, 0, expected])
    it "with another code is 502 for a client of HTTP/2, too" $ do
      asked <- newIORef (0 :: Int)
      withTarget (resetting asked (`resetOf` 2)) $ \target ->
        withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
          sendAll client (clientOpening <> getOn 1)
          endOfStream client 1 `shouldReturn` Finished "Bad Gateway\n"
    it "counts against the target if it is the target's fault" $
      forM_ [(2, RequestsFailed), (11, RequestsFailed), (8, Well), (1, Well)] $ \(code, health) -> do
        asked <- newIORef 0
        withTarget (resetting asked (`resetOf` code)) $ \target -> withStates [speaking target] $ \states port -> do
          replicateM_ 3 (ask port (requestWith ""))
          map stateHealth <$> states `shouldReturn` [health]
  describe "a refusal" $ do
    it "makes the proxy ask the same target again, and then another one" $ do
      asked <- newIORef (0 :: Int)
      withTarget (resetting asked (`resetOf` 7)) $ \one ->
        withTarget (answering (\_ _ -> "other")) $ \other -> withFront quiet [speaking one, other] $ \port -> do
          forM_ ["", "x"] $ \body -> do
            writeIORef asked 0
            bodyOf <$> ask port (requestWith body) `shouldReturn` "other"
            readIORef asked `shouldReturn` 3
    it "is 503 if nobody else is there" $ do
      asked <- newIORef 0
      withTarget (resetting asked (`resetOf` 7)) $ \target -> withFront quiet [speaking target] $ \port ->
        statusOf <$> ask port (requestWith "x") `shouldReturn` "503"
    it "is 503 if the body is not there any more" $ do
      asked <- newIORef (0 :: Int)
      let refusing _ peer = do
            opening peer
            forever $
              oneFrame peer >>= \(kind, _, stream, _) ->
                when (kind == 1) (modifyIORef' asked (+ 1) >> sendAll peer (resetOf stream 7))
      withTarget refusing $ \target -> withFront quiet [speaking target] $ \port -> do
        statusOf <$> ask port (requestWith (ByteString.replicate 20000 120)) `shouldReturn` "503"
        readIORef asked `shouldReturn` 1
  describe "a reset after the head" $
    forM_ [0, 2, 7, 8, 11] $ \code -> do
      let part stream = frame 1 4 stream "\x88" <> frame 0 0 stream "part" <> resetOf stream code
          counted stream =
            frame 1 4 stream ("\x88" <> literal ("content-length", "10"))
              <> frame 0 0 stream "part"
              <> resetOf stream code
          with frames use =
            newIORef 0 >>= \asked ->
              withTarget (resetting asked frames) $ \target -> withFront quiet [speaking target] use
      it ("cuts the response off for a client of HTTP/1.1: code " ++ show code) $ do
        -- The client may not have got the head yet. It is 502 then.
        chunked <- with part (`ask` requestWith "")
        (chunked, statusOf chunked) `shouldSatisfy` \(answer, status) ->
          status == "502" || not ("0\r\n\r\n" `ByteString.isSuffixOf` answer)
        short <- with counted (`ask` requestWith "")
        (short, statusOf short) `shouldSatisfy` \(answer, status) ->
          status == "502" || ByteString.length (bodyOf answer) < 10
  describe "a reset in the middle of a response" $
    forM_ [0, 2, 7, 8, 11] $ \code -> do
      it ("resets the stream of a client of HTTP/2: code " ++ show code) $ do
        go <- newEmptyMVar
        withTarget (inTheMiddle code go) $ \target ->
          withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
            sendAll client (clientOpening <> getOn 1)
            -- DATA on stream 1 comes to the client before the target resets.
            untilData client
            putMVar go ()
            end <- endOfStream client 1
            end `shouldSatisfy` isReset
      it ("closes the connection of a client of HTTP/1.1: code " ++ show code) $ do
        go <- newEmptyMVar
        withTarget (inTheMiddle code go) $ \target ->
          withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
            sendAll client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            _ <- receiveUntil "part" client
            putMVar go ()
            rest <- within 20 "the end" (receiveCount client maxBound)
            rest `shouldSatisfy` not . ("0\r\n\r\n" `ByteString.isSuffixOf`)
  it "is no harm behind a whole response" $
    forM_ [0, 2, 8] $ \code -> do
      asked <- newIORef 0
      withTarget (resetting asked (\stream -> plainAnswer stream "all of it" <> resetOf stream code)) $ \target ->
        withFront quiet [speaking target] $ \port ->
          bodyOf <$> ask port (requestWith "") `shouldReturn` "all of it"
  it "ends the rest of a request that is answered already (NO_ERROR)" $ do
    let early _ peer = do
          opening peer
          forever $
            oneFrame peer >>= \(kind, flags, stream, _) ->
              when (kind == 1 && even flags) (sendAll peer (plainAnswer stream "early" <> resetOf stream 0))
    withTarget early $ \target -> withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
      sendAll client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbeginning"
      answer <- receiveUntil "early" client
      statusOf answer `shouldBe` "200"
  describe "a reset of a WebSocket" $ do
    it "resets the stream of a client of HTTP/2" $ do
      go <- newEmptyMVar
      withTarget (tunnelThatBreaks go) $ \target ->
        withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
          sendAll client (clientOpening <> connectOn 1)
          untilData client
          putMVar go ()
          end <- endOfStream client 1
          end `shouldSatisfy` isReset
    it "closes the connection of a client of HTTP/1.1" $ do
      go <- newEmptyMVar
      withTarget (tunnelThatBreaks go) $ \target ->
        withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
          sendAll client webSocket
          _ <- receiveUntil "hello" client
          putMVar go ()
          within 20 "the end" (receiveCount client maxBound) `shouldReturn` ""
  describe "a target without extended CONNECT" $ do
    it "is not asked for a WebSocket: the client gets 501, and others go on" $
      withTarget
        (\_ peer -> opening peer >> forever (requestOn peer >>= \stream -> sendAll peer (plainAnswer stream "plain")))
        $ \target ->
          withFront quiet [speaking target] $ \port -> do
            bodyOf <$> ask port (requestWith "") `shouldReturn` "plain"
            statusOf <$> ask port (webSocketWith "Connection: Upgrade, close\r\n") `shouldReturn` "501"
            withClient port $ \client -> do
              sendAll client (clientOpening <> connectOn 1)
              endOfStream client 1 `shouldReturn` Finished "Not Implemented\n"
            bodyOf <$> ask port (requestWith "") `shouldReturn` "plain"
  describe "a target that does not answer PING" $ do
    it "loses its connection, and its requests go elsewhere" $ do
      seen <- newEmptyMVar
      let hung count peer
            | count == (1 :: Int) = opening peer >> framesToTheEnd peer >>= putMVar seen
            | otherwise = void (receiveCount peer maxBound)
      withTarget hung $ \one ->
        withTarget (answering (\_ _ -> "other")) $ \other -> withFront impatient [speaking one, other] $ \port -> do
          replicateM 8 (bodyOf <$> ask port (requestWith "")) `shouldReturn` replicate 8 "other"
          -- Sooner than connections are tidied up.
          kinds <- within 8 "the end of the connection" (takeMVar seen)
          -- HEADERS and PING.
          kinds `shouldSatisfy` \found -> 1 `elem` found && 6 `elem` found
    it "does not make the proxy send a request twice that is not safe to send twice" $ do
      asked <- newIORef (0 :: Int)
      let hung _ peer = opening peer >> requestOn peer >> modifyIORef' asked (+ 1) >> void (framesToTheEnd peer)
      withTarget hung $ \one ->
        withTarget (answering (\_ _ -> "other")) $ \other -> withFront impatient [speaking one, other] $ \port -> do
          statusOf <$> ask port (requestWith "x") `shouldReturn` "502"
          readIORef asked `shouldReturn` 1
    it "is not one that is slow, and answers PING" $ do
      let slow _ peer = do
            opening peer
            stream <- requestOn peer
            answerPings peer (5 :: Int)
            sendAll peer (plainAnswer stream "slow")
            void (framesToTheEnd peer)
      withTarget slow $ \target -> withFront impatient [speaking target] $ \port ->
        bodyOf <$> ask port (requestWith "") `shouldReturn` "slow"
  where
    impatient = quiet {limits = defaultLimits {silenceLimit = milliseconds 50, connectLimit = milliseconds 300}}
    withStates targets use =
      withWatchedProxy quiet targets $ \proxy states -> withApplication (return proxy) (use states)

-- Answers each request with frames, and counts them.
resetting :: IORef Int -> (Int -> ByteString) -> Int -> Socket -> IO ()
resetting asked frames _ peer =
  opening peer >> forever (requestOn peer >>= \stream -> modifyIORef' asked (+ 1) >> sendAll peer (frames stream))

-- Sends a part of a response, and resets the stream when the test says so.
inTheMiddle :: Int -> MVar () -> Int -> Socket -> IO ()
inTheMiddle code go _ peer = do
  opening peer
  stream <- requestOn peer
  sendAll peer (frame 1 4 stream "\x88" <> frame 0 0 stream "part")
  takeMVar go
  sendAll peer (resetOf stream code)
  void (framesToTheEnd peer)

-- Accepts an extended CONNECT, says hello, and resets the stream when the test says so.
tunnelThatBreaks :: MVar () -> Int -> Socket -> IO ()
tunnelThatBreaks go _ peer = do
  _ <- receiveCount peer 24
  -- ENABLE_CONNECT_PROTOCOL
  sendAll peer (frame 4 0 0 "\0\8\0\0\0\1" <> frame 4 1 0 "")
  stream <- headersOn
  sendAll peer (frame 1 4 stream "\x88" <> frame 0 0 stream "hello")
  takeMVar go
  sendAll peer (resetOf stream 8)
  void (framesToTheEnd peer)
  where
    headersOn = oneFrame peer >>= \(kind, _, stream, _) -> if kind == 1 then return stream else headersOn

-- The types of all frames until the proxy ends the connection.
framesToTheEnd :: Socket -> IO [Int]
framesToTheEnd peer = do
  outcome <- try (oneFrame peer) :: IO (Either IOException (Int, Int, Int, ByteString))
  case outcome of
    Right (kind, _, _, _) -> (kind :) <$> framesToTheEnd peer
    Left _ -> return []

-- Answers this many PINGs.
answerPings :: Socket -> Int -> IO ()
answerPings _ 0 = return ()
answerPings peer left = do
  (kind, flags, _, content) <- oneFrame peer
  if kind == 6 && even flags
    then sendAll peer (frame 6 1 0 content) >> answerPings peer (left - 1)
    else answerPings peer left

-- Reads frames until some of the body of stream 1 has come.
untilData :: Socket -> IO ()
untilData client = within 20 "the beginning of the body" go
  where
    go =
      oneFrame client >>= \(kind, _, stream, content) ->
        unless (kind == 0 && stream == 1 && not (ByteString.null content)) go

-- A GET without a body, a POST with one.
requestWith :: ByteString -> ByteString
requestWith body
  | ByteString.null body = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
  | otherwise =
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
      <> Char8.pack (show (ByteString.length body))
      <> "\r\n\r\n"
      <> body

getOn, connectOn :: Int -> ByteString
getOn stream = frame 1 5 stream ("\x82\x84\x86" <> literal (":authority", "a"))
connectOn stream =
  frame
    1
    4
    stream
    ( ByteString.concat
        ( map
            literal
            [ (":method", "CONNECT"),
              (":protocol", "websocket"),
              (":scheme", "http"),
              (":path", "/chat"),
              (":authority", "a")
            ]
        )
    )

webSocket :: ByteString
webSocket = webSocketWith "Connection: Upgrade\r\n"

webSocketWith :: ByteString -> ByteString
webSocketWith connection =
  "GET /chat HTTP/1.1\r\nHost: a\r\n"
    <> connection
    <> "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
