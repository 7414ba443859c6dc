{-# LANGUAGE OverloadedStrings #-}

-- | Requests and responses over TLS.
module RequestSpec (spec) where

import Applications
import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (onException)
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Builder as Builder
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.Char (isAsciiLower)
import Millrace.Tls hiding (Negotiated (..))
import qualified Millrace.Tls as Tls
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (isConnected, onDisconnect, setProxyProtocolRequired, setTimeout)
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec

spec :: Credentials -> TLSSettings -> WithClient -> Spec
spec credentials server client = do
  it "says that a request is secure, and what was negotiated" $
    withServer server id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one (requestFor "/path")
      bodyOf reply `shouldBe` "True /path TLSv1.3 -"

  it "speaks TLS 1.2" $
    withServer server {tlsAllowedVersions = [Tls12]} id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one (requestFor "/")
      bodyOf reply `shouldBe` "True / TLSv1.2 -"

  it "takes an absolute target with https" $
    withServer server id telling $ \port -> client port $ \one -> do
      reply <- exchangeWith one "GET https://localhost/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      bodyOf reply `shouldBe` "True /a TLSv1.3 -"

  -- The second one is what curl -0 offers.
  forM_ ["http/1.1", "http/1.0"] $ \protocol -> it ("negotiates " ++ C8.unpack protocol) $
    withServer server id telling $ \port ->
      withClient credentials (\settings -> settings {clientProtocols = [protocol]}) port $ \one ->
        negotiatedProtocol' one `shouldBe` Just protocol

  it "keeps a connection, and answers pipelined requests in order" $
    withServer server id telling $ \port -> client port $ \one -> do
      forM_ [1 .. 20 :: Int] $ \number -> do
        let path = C8.pack ('/' : show number)
        sendAll one ("GET " <> path <> " HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receiveUntil ("True " <> path <> " TLSv1.3 -") one
      sendAll
        one
        ( B.concat
            ["GET /p" <> C8.pack (show number) <> " HTTP/1.1\r\nHost: localhost\r\n\r\n" | number <- [1 .. 50 :: Int]]
        )
      void (receiveUntil "True /p50 TLSv1.3 -" one)

  it "takes a head that comes in small pieces" $
    withServer server id telling $ \port -> client port $ \one -> do
      forM_ (B.unpack (requestFor "/slow")) $ \byte -> sendAll one (B.singleton byte)
      reply <- receiveAll one
      bodyOf reply `shouldBe` "True /slow TLSv1.3 -"

  it "sends back a large body" $
    withServer server id echoing $ \port -> client port $ \one -> do
      let body = numbered 5000000
      sender <- forkIO $ do
        sendAll
          one
          ( "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
              <> C8.pack (show (B.length body))
              <> "\r\n\r\n"
          )
        sendAll one body
      reply <- receiveAll one
      killThread sender
      (bodyOf reply == body) `shouldBe` True

  it "streams, and sends builders larger than any buffer" $
    withServer server id streaming $ \port -> client port $ \one -> do
      sendAll one "GET /builder HTTP/1.1\r\nHost: localhost\r\n\r\n"
      void (receiveUntil "the end of it" one)
      reply <- exchangeWith one (requestFor "/stream")
      B.isInfixOf "99999" reply `shouldBe` True

  it "sends files and parts of them" $ do
    let content = numbered 3000001
    B.writeFile (fileOf credentials "file") content
    let application request respond =
          respond (responseFile status200 [] (fileOf credentials "file") (part (rawPathInfo request)))
        part path = if path == "/part" then Just (FilePart 1000 2000000 3000001) else Nothing
    withServer server id application $ \port -> do
      client port $ \one -> exchangeWith one (requestFor "/") >>= \reply -> (bodyOf reply == content) `shouldBe` True
      client port $ \one ->
        exchangeWith one (requestFor "/part") >>= \reply ->
          (bodyOf reply == B.take 2000000 (B.drop 1000 content)) `shouldBe` True

  it "hands a connection over to a raw response" $
    withServer server id raw $ \port -> client port $ \one -> do
      sendAll one "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nfirst"
      void (receiveUntil "FIRST" one)
      sendAll one "second"
      void (receiveUntil "SECOND" one)

  it "sends a response while the application works on the next request" $ do
    hold <- newEmptyMVar
    let application request respond = do
          when (rawPathInfo request == "/wait") (takeMVar hold)
          telling request respond
    withServer server id application $ \port -> client port $ \one -> do
      sendAll one "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\nGET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"
      void (receiveUntil "/quick" one)
      putMVar hold ()
      void (receiveUntil "/wait" one)

  it "tells an application that its client has left, and not that it has sent the next request" $ do
    left <- newEmptyMVar
    let application request respond = do
          connected <- isConnected request
          onDisconnect request (putMVar left ()) $
            if rawPathInfo request == "/wait" then threadDelay 60000000 else threadDelay 300000
          respond (responseLBS status200 [] (if connected then "connected" else "left"))
    withServer server id application $ \port -> do
      client port $ \one -> do
        -- The second request is decrypted with the first one.
        sendAll one (requestOn "/first" <> requestOn "/second")
        void (receiveUntil "connected" one)
        void (receiveUntil "connected" one)
        isEmptyMVar left `shouldReturn` True
        sendAll one (requestOn "/wait")
      within 20 "the end of the client" (takeMVar left)

  it "ends a response of which its client takes nothing" $ do
    ended <- newEmptyMVar
    let application _ respond =
          respond (responseStream status200 [] (\write flush -> forever (write (Builder.byteString pieces) >> flush)))
            `onException` putMVar ended ()
        pieces = B.replicate 50000 120
    withServer server (setTimeout 1) application $ \port -> client port $ \one -> do
      sendAll one (requestOn "/")
      void (receiveUntil "200" one)
      within 20 "the end of the response" (takeMVar ended)

  it "takes the header of a proxy before the handshake" $ do
    let application request respond =
          respond (responseLBS status200 [] (Builder.toLazyByteString (Builder.string7 (show (remoteHost request)))))
    withServer server setProxyProtocolRequired application $ \port ->
      withClientTo credentials id "localhost" "PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n" port $ \one -> do
        reply <- exchangeWith one (requestFor "/")
        bodyOf reply `shouldBe` "192.0.2.7:4711"

  it "ends a connection on which nothing comes after the handshake" $
    withServer server (setTimeout 1) telling $ \port -> client port $ \one -> receiveAll one `shouldReturn` ""

requestOn :: ByteString -> ByteString
requestOn path = "GET " <> path <> " HTTP/1.1\r\nHost: localhost\r\n\r\n"

negotiatedProtocol' :: Connection -> Maybe ByteString
negotiatedProtocol' = Tls.negotiatedProtocol . negotiated

numbered :: Int -> ByteString
numbered count =
  fst (B.unfoldrN count (\number -> Just (fromIntegral (number * 7 + number `quot` 251), number + 1)) (0 :: Int))

echoing :: Application
echoing request respond =
  strictRequestBody request >>= \body ->
    respond (responseLBS status200 [(hContentLength, C8.pack (show (L.length body)))] body)

streaming :: Application
streaming request respond
  | rawPathInfo request == "/builder" =
    respond (responseBuilder status200 [] (Builder.byteString (B.replicate 300000 120) <> "the end of it"))
  | otherwise =
    respond (responseStream status200 [] (\write flush -> forM_ [1 .. 99999 :: Int] (write . Builder.intDec) >> flush))

raw :: Application
raw _ respond = respond (responseRaw loop (responseLBS status500 [] ""))
  where
    loop receive sending' =
      receive >>= \bytes -> unless (B.null bytes) (sending' (C8.map toUpper' bytes) >> loop receive sending')
    toUpper' character = if isAsciiLower character then toEnum (fromEnum character - 32) else character
