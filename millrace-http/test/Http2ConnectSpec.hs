{-# LANGUAGE OverloadedStrings #-}

-- | CONNECT over HTTP/2: the extended one, which opens WebSockets, and the ordinary one, which opens tunnels.
module Http2ConnectSpec (spec) where

import Control.Concurrent (killThread, myThreadId, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (throwIO, try)
import Control.Monad (forM, forM_, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.Maybe (maybeToList)
import Http2Client hiding (get, post)
import Http2Support
import Network.HTTP.Types (mkStatus, status200, status404, statusCode, statusMessage)
import Network.Wai
import Network.Wai.Handler.Millrace hiding (Answer (..))
import qualified Network.Wai.Handler.Millrace as Server
import Support hiding (exchange)
import Test.Hspec

spec :: Spec
spec = describe "HTTP/2" $ do
  overSocketsAndMemory $ \medium -> do
    let serving application use = withServerOver medium id application (`withHttp2` use)
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
    it "gives an application of WebSockets a key of its own, and drops its answer to it (RFC 8441, section 5)" $
      do
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
  where
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
    -- The reports that observers get about an extended CONNECT.
    toldOf use = do
      told <- newEmptyMVar
      withServer (setOnAnswer (putMVar told)) (rawly use) $ \port -> withHttp2 port $ \http2 -> do
        void (openStream http2 [] chat)
        first <- within "the answer" (takeMVar told)
        threadDelay 50000
        others <- tryTakeMVar told
        return (map summary (first : maybeToList others))
