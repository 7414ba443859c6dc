{-# LANGUAGE OverloadedStrings #-}

-- | What two programs could read differently, and what a target says unasked.
module RefusalSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Millrace.Socket.ByteString (recv, sendAll)
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "a malformed response is answered with 502, and its connection closed" $
    forM_ heads $ \bytes -> it (show bytes) $ do
      ended <- newEmptyMVar
      withTarget (\_ peer -> receiveHead peer >> sendAll peer bytes >> recv peer 10 >>= putMVar ended) $ \target ->
        withFront quiet [target] $ \port -> do
          statusOf <$> ask port simple `shouldReturn` "502"
          within 20 "the end" (takeMVar ended) `shouldReturn` ""
  describe "a malformed body is cut off, and its connection closed" $
    forM_ bodies $ \bytes -> it (show bytes) $ do
      ended <- newEmptyMVar
      withTarget (\_ peer -> receiveHead peer >> sendAll peer ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n" <> bytes) >> recv peer 10 >>= putMVar ended) $ \target ->
        withFront quiet [target] $ \port -> do
          answer <- ask port simple
          answer `shouldSatisfy` not . ("0\r\n\r\n" `ByteString.isSuffixOf`)
          within 20 "the end" (takeMVar ended) `shouldReturn` ""
  it "what a target sends behind a response is no response" $ do
    -- In one piece: bytes that come when the next request has been sent are its response.
    connections <- newIORef 0
    let twice count peer = writeIORef connections count >> receiveHead peer >>= mapM_ (\_ -> sendAll peer (answerOf "first" <> answerOf "poison") >> void (recv peer 10) >> twice count peer)
    withTarget twice $ \target -> withFront quiet [target] $ \port ->
      replicateM 5 (bodyOf <$> ask port simple) `shouldReturn` replicate 5 "first"
    readIORef connections `shouldReturn` 5
  it "what a target sends later, unasked, is no response either" $ do
    say <- newEmptyMVar
    said <- newEmptyMVar
    let later count peer = do
          _ <- receiveHead peer
          answerWith peer "first"
          when (count == (1 :: Int)) $ takeMVar say >> sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison" >> putMVar said () >> void (recv peer 10)
    withTarget later $ \target -> withFront quiet [target] $ \port -> do
      bodyOf <$> ask port simple `shouldReturn` "first"
      putMVar say () >> takeMVar said
      bodyOf <$> ask port simple `shouldReturn` "first"
  it "CONNECT and TRACE are refused" $
    withTarget (answering (\_ _ -> "no")) $ \target -> withFront quiet [target] $ \port -> do
      statusOf <$> ask port "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" `shouldReturn` "405"
      statusOf <$> ask port "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n" `shouldReturn` "405"
  where
    simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

heads :: [ByteString]
heads =
  [ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nHello",
    "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/1.1 200 OK\r\nX: " <> ByteString.replicate 70000 97
  ]

bodies :: [ByteString]
bodies =
  [ "x\r\n",
    "5 \r\nHello\r\n0\r\n\r\n",
    "0x5\r\nHello\r\n0\r\n\r\n",
    "+5\r\nHello\r\n0\r\n\r\n",
    "5\nHello\r\n0\r\n\r\n",
    "5\r\nHello!\r\n0\r\n\r\n",
    "5\r\nHello\n0\r\n\r\n",
    "5;a\rb\r\nHello\r\n0\r\n\r\n",
    "ffffffffffffffff\r\nHello\r\n",
    "0\r\nX: a\r\n b\r\n\r\n",
    "0\r\nX : a\r\n\r\n"
  ]
