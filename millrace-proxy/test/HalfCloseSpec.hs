{-# LANGUAGE OverloadedStrings #-}

-- | Clients that end their sending side behind the request, and clients that are gone.
module HalfCloseSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Frames
import Millrace.Socket (ShutdownCmd (..), Socket, shutdown)
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Socket.Option (AtClose (..), setAtClose)
import Millrace.Timer (threadDelay)
import Support
import Test.Hspec

spec :: Spec
spec = do
  forM_ targets $ \(name, change, begin, answer) -> describe ("with a target that speaks " ++ name) $ do
    let slow _ peer = begin peer >> longer >> answer peer
    forM_ requests $ \(what, bytes) ->
      it ("a client of " ++ what ++ " that has ended its sending side gets a late answer") $
        withTarget slow $ \target -> withFront quiet [change target] $ \port -> withClient port $ \client -> do
          sendAll client bytes
          shutdown client ShutdownSend
          receiveUntil "late" client >>= (`shouldSatisfy` ("late" `ByteString.isInfixOf`))
    it "a client that resets its connection ends its request" $ do
      ended <- newEmptyMVar
      come <- newEmptyMVar
      withTarget (\_ peer -> begin peer >> putMVar come () >> awaitEnd peer >> putMVar ended ()) $ \target ->
        withFront quiet [change target] $ \port -> do
          withClient port $ \client -> do
            sendAll client (snd (head requests))
            takeMVar come
            shutdown client ShutdownSend
            setAtClose client ResetConnection
          within 20 "the end" (takeMVar ended)
  it "a client that has ended its sending side gets a response with pauses" $
    withTarget
      ( \_ peer ->
          receiveHead peer
            >> sendAll peer "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"
            >> longer
            >> sendAll peer "late"
            >> void (recv peer 10)
      )
      $ \target ->
        withFront quiet [target] $ \port -> withClient port $ \client -> do
          sendAll client (snd (head requests))
          shutdown client ShutdownSend
          receiveUntil "late" client >>= (`shouldSatisfy` ("halflate" `ByteString.isSuffixOf`))
  where
    targets =
      [ ("HTTP/1.1", id, void . receiveHead, (`answerWith` "late")),
        ( "HTTP/2",
          speaking,
          \peer ->
            opening peer >> void (requestOn peer),
          \peer -> sendAll peer (plainAnswer 1 "late") >> void (recv peer 100)
        )
      ]
    -- Longer than the proxy waits without a look at the client, and than it takes between two looks.
    longer = threadDelay 600000
    awaitEnd :: Socket -> IO ()
    awaitEnd peer = do
      bytes <- recv peer 1000
      -- Of HTTP/2 the stream ends, and not the connection.
      unless (ByteString.null bytes || "\0\0\4\3" `ByteString.isInfixOf` bytes) (awaitEnd peer)

requests :: [(String, ByteString)]
requests =
  [ ("HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"),
    ("HTTP/1.1 with a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
    ( "HTTP/2",
      clientOpening
        <> frame 4 1 0 ""
        <> frame
          1
          5
          1
          ( ByteString.concat
              (map literal [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")])
          )
    )
  ]
