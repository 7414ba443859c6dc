{-# LANGUAGE OverloadedStrings #-}

-- | Connections that change their protocol.
module UpgradeSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception (IOException, fromException, try)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (toLower)
import Frames (frame, literal)
import Millrace.Deadline (milliseconds)
import Millrace.Proxy
import Millrace.Socket (ShutdownCmd (..), Socket, shutdown)
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Socket.Option (closeWithReset)
import Network.Wai.Handler.Millrace (setOnException, withApplicationSettings)
import qualified Network.Wai.Handler.Millrace as Server (defaultSettings)
import Support
import Test.Hspec

spec :: Spec
spec = do
  it "passes both ways what follows, also what comes together with the head" $
    withTarget (echoing "hello") $ \target -> withFront quiet [target] $ \port -> withClient port $ \client -> do
      sendAll client (asking "websocket" <> "early")
      answer <- receiveUntil "early" client
      answer
        `shouldSatisfy` ( "HTTP/1.1 101 Switching Protocols\r\nX-One: 1\r\nConnection: Upgrade\r\nUpgrade: \
                          \websocket\r\n\r\nhello"
                            `ByteString.isPrefixOf`
                        )
      forM_ [1 .. 10 :: Int] $ \count -> do
        let text = "message " <> Char8.pack (show count) <> "."
        sendAll client text
        receiveUntil text client `shouldReturn` text
  it "passes on a request that says it has no body, as kubectl and docker do" $
    withTarget (echoing "hello") $ \target -> withFront quiet [target] $ \port -> withClient port $ \client -> do
      sendAll
        client
        "POST /attach HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: \
        \0\r\n\r\nearly"
      receiveUntil "early" client >>= (`shouldSatisfy` ("HTTP/1.1 101 " `ByteString.isPrefixOf`))
  it "passes the end on, both ways" $ do
    ended <- newEmptyMVar
    withTarget (\count peer -> echoing "" count peer >> putMVar ended ()) $ \target ->
      withFront quiet [target] $ \port ->
        withClient port $ \client -> do
          sendAll client (asking "websocket")
          _ <- receiveUntil "\r\n\r\n" client
          shutdown client ShutdownSend
          within 20 "the target's end" (takeMVar ended)
          within 20 "the end" (recv client 10) `shouldReturn` ""
  it "is no failure if the target resets what the client has ended" $ do
    told <- newEmptyMVar
    withTarget (\count peer -> echoing "" count peer >> closeWithReset peer) $ \target ->
      withProxy quiet [target] $ \proxy ->
        withApplicationSettings
          (setOnException (\_ failure -> putMVar told (problemCause <$> fromException failure)) Server.defaultSettings)
          (return proxy)
          $ \port ->
            do
              withClient port $ \client -> do
                sendAll client (asking "websocket")
                _ <- receiveUntil "\r\n\r\n" client
                shutdown client ShutdownSend
                _ <- within 20 "the end" (try (recv client 10) :: IO (Either IOException ByteString))
                within 20 "what the server is told" (takeMVar told) `shouldReturn` Just ClientLeft
  it "ends a silent tunnel if there is a limit" $
    withTarget (echoing "") $ \target ->
      withFront quiet {limits = defaultLimits {tunnelLimit = milliseconds 100}} [target] $ \port ->
        withClient port $ \client -> do
          sendAll client (asking "websocket")
          _ <- receiveUntil "\r\n\r\n" client
          within 20 "the end" (recv client 10) `shouldReturn` ""
  it "passes a refusal on" $
    withTarget (\_ peer -> receiveHead peer >> sendAll peer "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno") $
      \target ->
        withFront quiet [target] $ \port -> do
          answer <- withClient port $ \client -> sendAll client (asking "websocket") >> receiveUntil "no" client
          statusOf answer `shouldBe` "403"
  it "does not pass h2c on, nor an upgrade with a body" $ do
    heads <- newMVar []
    let plainly count peer =
          receiveHead peer
            >>= mapM_
              ( \bytes ->
                  modifyMVar_ heads (return . (bytes :)) >> answerWith peer "plain" >> plainly (count :: Int) peer
              )
    withTarget plainly $ \target -> withFront quiet [target] $ \port -> do
      withClient port (\client -> sendAll client (asking "h2c") >> receiveUntil "plain" client)
        >>= (`shouldBe` "200") . statusOf
      let withBody =
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx"
      withClient port (\client -> sendAll client withBody >> receiveUntil "plain" client)
        >>= (`shouldBe` "200") . statusOf
      readMVar heads >>= (`shouldSatisfy` not . any ("pgrade" `ByteString.isInfixOf`))
  it "answers an extended CONNECT for a protocol that it does not pass on with 501, and the target gets nothing" $ do
    heads <- newMVar (0 :: Int)
    let plainly _ peer = receiveHead peer >>= mapM_ (\_ -> count >> answerWith peer "plain")
        count = modifyMVar_ heads (return . (+ 1))
    withTarget plainly $ \target -> withFront quiet [target] $ \port -> do
      answer <- withClient port $ \client -> do
        sendAll client ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" <> frame 4 0 0 "")
        sendAll client (frame 1 4 1 (ByteString.concat (map literal (extendedConnect "h2c"))))
        receiveUntil "Not Implemented" client
      answer `shouldSatisfy` ("Not Implemented" `ByteString.isInfixOf`)
      readMVar heads `shouldReturn` 0
  forM_ ["websocket", "connect-udp"] $ \protocol ->
    it ("goes from an extended CONNECT of HTTP/2 to an upgrade of HTTP/1: " ++ Char8.unpack protocol) $
      withTarget (echoingOn protocol "hello") $ \target ->
        withFront quiet [target] $ \port -> withClient port $ \client -> do
          sendAll
            client
            ( ByteString.concat
                [ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                  frame 4 0 0 "",
                  frame
                    1
                    4
                    1
                    (ByteString.concat (map literal (extendedConnect protocol)))
                ]
            )
          _ <- receiveUntil "hello" client
          sendAll client (frame 0 0 1 "over streams")
          answer <- receiveUntil "over streams" client
          answer `shouldSatisfy` ("over streams" `ByteString.isInfixOf`)
  where
    asking protocol =
      "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
        <> protocol
        <> "\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    extendedConnect protocol =
      [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":path", "/chat"), (":authority", "a")]

echoing :: ByteString -> Int -> Socket -> IO ()
echoing = echoingOn "WebSocket"

-- Changes to this protocol if it is asked to, says something, and sends back what comes.
echoingOn :: ByteString -> ByteString -> Int -> Socket -> IO ()
echoingOn protocol greeting _ peer = receiveHead peer >>= mapM_ begin
  where
    begin request = do
      let (asked, early) = ByteString.breakSubstring "\r\n\r\n" request
      when
        ( ("\r\nUpgrade: " <> Char8.map toLower protocol) `ByteString.isInfixOf` asked
            && "\r\nConnection: Upgrade" `ByteString.isInfixOf` asked
        )
        $ do
          sendAll
            peer
            ( ByteString.concat
                [ "HTTP/1.1 101 Switching Protocols\r\nUpgrade: ",
                  protocol,
                  "\r\nX-One: 1\r\nConnection: Upgrade\r\n\r\n",
                  greeting,
                  ByteString.drop 4 early
                ]
            )
          loop
    loop = recv peer 4096 >>= \bytes -> unless (ByteString.null bytes) (sendAll peer bytes >> loop)
