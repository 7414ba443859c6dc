{-# LANGUAGE OverloadedStrings #-}

-- | Targets that speak HTTP\/2: millrace-http, and targets that send the frames a test wants.
module Http2Spec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.List (nub)
import Frames
import Millrace.Proxy
import Millrace.Socket (Socket)
import Millrace.Socket.ByteString (recv, sendAll)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (setHTTP2MaximumStreams, withApplicationSettings)
import qualified Network.Wai.Handler.Millrace as Server
import Support
import Test.Hspec

spec :: Spec
spec = do
  it "gets what a target of HTTP/1.1 gets, and knows its own version" $
    behind
      ( \request respond ->
          respond
            ( responseLBS
                status200
                [("X-Seen", Char8.pack (show (httpVersion request)))]
                (Lazy.fromStrict (requestMethod request <> rawPathInfo request <> rawQueryString request))
            )
      )
      $ \port ->
        do
          answer <- ask port "GET /a%20b?c HTTP/1.1\r\nHost: a\r\nConnection: close, X-One\r\nX-One: 1\r\n\r\n"
          answer `shouldSatisfy` ("HTTP/1.1 200 OK\r\n" `ByteString.isPrefixOf`)
          answer `shouldSatisfy` ("HTTP/2.0" `ByteString.isInfixOf`)
          bodyOf answer `shouldBe` "GET/a%20b?c"
  it "passes a head alone on as a head alone, without a length" $ do
    let answer stream = frame 1 5 stream ("\x88" <> literal ("grpc-status", "5"))
        answering' _ peer = opening peer >> forever (requestOn peer >>= sendAll peer . answer)
    withTarget answering' $ \target -> withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
      sendAll client (clientOpening <> frame 1 5 1 ("\x82\x86\x84" <> literal (":authority", "a")))
      (flags, block) <- headOn client
      flags `shouldSatisfy` odd
      -- content-length: 0, as libnghttp2 writes it (RFC 7541, section 6.2.2).
      block `shouldSatisfy` not . ("\x0f\x0d\1\&0" `ByteString.isInfixOf`)
  it "passes bodies of both framings on, both ways" $
    behind
      ( \request respond ->
          respond
            ( responseStream
                status200
                []
                ( \write flush ->
                    let loop =
                          getRequestBodyChunk request >>= \piece ->
                            unless (ByteString.null piece) (write (Builder.byteString piece) >> flush >> loop)
                     in loop
                )
            )
      )
      $ \port ->
        forM_ [0, 1, 16384, 16385, 100000, 3000000] $ \size -> do
          let body = Char8.pack (take size (cycle ['a' .. 'z']))
          counted <-
            ask
              port
              ( ByteString.concat
                  [ "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ",
                    Char8.pack
                      (show size),
                    "\r\n\r\n",
                    body
                  ]
              )
          plainBody counted `shouldBe` body
          unless (size == 0) $ do
            chunked <-
              ask
                port
                ( ByteString.concat
                    [ "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
                      hex size,
                      "\r\n",
                      body,
                      "\r\n0\r\n\r\n"
                    ]
                )
            plainBody chunked `shouldBe` body
  it "shares a connection" $ do
    peers <- newIORef []
    behind
      ( \request respond ->
          atomicModifyIORef' peers (\known -> (show (remoteHost request) : known, ()))
            >> respond (responseLBS status200 [] "yes")
      )
      $ \port ->
        do
          replicateM_
            20
            (ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" >>= (`shouldBe` "yes") . bodyOf)
          -- At most one for each capability.
          readIORef peers >>= (`shouldSatisfy` (<= 2)) . length . nub
  it "changes WebSockets into extended CONNECT, and adds what a client of HTTP/1.1 expects" $
    behind upgrading $ \port -> withClient port $ \client -> do
      sendAll
        client
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: \
        \13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
      answer <- receiveUntil "hello" client
      answer `shouldSatisfy` ("HTTP/1.1 101 Switching Protocols\r\n" `ByteString.isPrefixOf`)
      -- The example of RFC 6455, section 1.3.
      answer `shouldSatisfy` ("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" `ByteString.isInfixOf`)
      forM_ [1 .. 10 :: Int] $ \count -> do
        let text = "message " <> Char8.pack (show count) <> "."
        sendAll client text
        receiveUntil text client `shouldReturn` text
  it "goes from extended CONNECT to extended CONNECT" $
    behind upgrading $ \port -> withClient port $ \client -> do
      sendAll
        client
        ( ByteString.concat
            [ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
              frame 4 0 0 "",
              frame
                1
                4
                1
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
            ]
        )
      _ <- receiveUntil "hello" client
      sendAll client (frame 0 0 1 "over streams")
      void (receiveUntil "over streams" client)
  it "opens another connection when all streams are in use, however soon they are free again" $
    withApplicationSettings
      (setHTTP2MaximumStreams 1 Server.defaultSettings)
      (return (\_ respond -> respond (responseLBS status200 [] "yes")))
      $ \answers ->
        withFront quiet [Target H2c (AtHost "127.0.0.1" answers)] $ \port -> do
          ended <- replicateM 16 newEmptyMVar
          forM_ ended $ \end ->
            forkIO
              ( try (replicateM 150 (bodyOf <$> ask port "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
                  >>= putMVar end
              )
          outcomes <- mapM takeMVar ended
          nub (concatMap (either (\failure -> [Char8.pack (show (failure :: SomeException))]) id) outcomes)
            `shouldBe` ["yes"]
  it "ends a request that uses up the target's window, and waits for nothing" $ do
    full <- newEmptyMVar
    let until' left peer =
          when (left > 0) $
            oneFrame peer >>= \(kind, _, _, content) ->
              until' (if kind == 0 then left - ByteString.length content else left) peer
        closed _ peer = do
          opening peer
          until' (65535 :: Int) peer
          putMVar full ()
          requestOn peer >>= sendAll peer . (`plainAnswer` "whole")
          void (recv peer 100)
    withTarget closed $ \target -> withFront quiet [speaking target] $ \port -> withClient port $ \client -> do
      sendAll
        client
        ( "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"
            <> ByteString.replicate 65535 97
            <> "\r\n"
        )
      within 30 "the body" (takeMVar full)
      sendAll client "0\r\n\r\n"
      within 30 "the answer" (void (receiveUntil "whole" client))

-- The flags and the content of the first HEADERS.
headOn :: Socket -> IO (Int, ByteString)
headOn client =
  within 20 "a head" (oneFrame client) >>= \(kind, flags, _, content) ->
    if kind == 1 then return (flags, content) else headOn client

-- A front for an application over HTTP/2 without TLS.
behind :: Application -> (Int -> IO a) -> IO a
behind application use = withApplicationBehind application (\target -> withFront quiet [speaking target] use)

-- Accepts every WebSocket, says hello, and sends back what comes.
upgrading :: Application
upgrading _ respond = respond . flip responseRaw (responseLBS status404 [] "") $ \receive send -> do
  send "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
  let loop = receive >>= \bytes -> unless (ByteString.null bytes) (send bytes >> loop)
  loop

hex :: Int -> ByteString
hex = Lazy.toStrict . Builder.toLazyByteString . Builder.wordHex . fromIntegral

-- The body of an answer of either framing.
plainBody :: ByteString -> ByteString
plainBody answer =
  if "Transfer-Encoding: chunked" `ByteString.isInfixOf` answer then unchunked (bodyOf answer) else bodyOf answer

-- The body in a chunked one.
unchunked :: ByteString -> ByteString
unchunked bytes = case Char8.breakSubstring "\r\n" bytes of
  (size, rest)
    | [(count, "")] <- readsHex (Char8.unpack size),
      count > 0 ->
      let (piece, others) =
            ByteString.splitAt count (ByteString.drop 2 rest)
       in piece <> unchunked (ByteString.drop 2 others)
    | otherwise -> ""
  where
    readsHex text = [(number, rest) | not (null text), (number, rest) <- reads ("0x" ++ text) :: [(Int, String)]]
