{-# LANGUAGE OverloadedStrings #-}

-- | Targets that authenticate a connection and not a message, as NTLM and Negotiate do.
module PinnedSpec (spec) where

import Control.Concurrent.MVar
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Socket (ShutdownCmd (..), Socket, shutdown)
import Millrace.Socket.ByteString (recv, sendAll)
import Support
import Test.Hspec

spec :: Spec
spec = do
  forM_ ["NTLM", "Negotiate"] $ \scheme -> do
    it ("keep a connection for the client, and end it with the client: " ++ Char8.unpack scheme) $ do
      ended <- newEmptyMVar
      withTarget (authenticating scheme (putMVar ended)) $ \target -> withFront quiet [target] $ \port -> do
        withClient port $ \client -> do
          authenticate scheme client
          -- Others get separate connections, before and after.
          forM_ [1 .. 5 :: Int] $ \_ -> do
            ask port plain >>= (`shouldBe` "nobody") . bodyOf
            asked client "" `shouldReturn` "somebody"
        within 20 "the end of the target's connection" (takeMVar ended) `shouldReturn` Authenticated
        ask port plain >>= (`shouldBe` "nobody") . bodyOf
    it ("stay with the target that has authenticated the client: " ++ Char8.unpack scheme) $
      withTarget (authenticating scheme (const (return ()))) $ \one ->
        withTarget (authenticating scheme (const (return ()))) $ \other ->
          withFront quiet [one, other] $ \port -> withClient port $ \client -> do
            authenticate scheme client
            replicateM 6 (asked client "") `shouldReturn` replicate 6 "somebody"
  it "do so also if the client sends one message only, without a challenge" $
    withTarget (authenticating "Negotiate" (const (return ()))) $ \target ->
      withFront quiet [target] $ \port -> withClient port $ \client -> do
        asked client "Authorization: Negotiate last\r\n" `shouldReturn` "somebody"
        ask port plain >>= (`shouldBe` "nobody") . bodyOf
        asked client "" `shouldReturn` "somebody"
  it "are asked on a new connection when they have closed the client's" $ do
    gone <- newEmptyMVar
    let once count peer =
          if count == 1
            then receiveHead peer >> answerWith peer "somebody" >> putMVar gone ()
            else authenticating "NTLM" (const (return ())) count peer
    withTarget once $ \target -> withFront quiet [target] $ \port -> withClient port $ \client -> do
      asked client "Authorization: NTLM last\r\n" `shouldReturn` "somebody"
      takeMVar gone
      asked client "" `shouldReturn` "nobody"
  it "find their connection closed soon after they have closed it, without a request" $ do
    ended <- newEmptyMVar
    withTarget
      ( \_ peer ->
          receiveHead peer >> answerWith peer "somebody" >> shutdown peer ShutdownSend >> recv peer 10 >>= putMVar ended
      )
      $ \target ->
        withFront quiet [target] $ \port -> withClient port $ \client -> do
          asked client "Authorization: NTLM last\r\n" `shouldReturn` "somebody"
          within 20 "the end" (takeMVar ended) `shouldReturn` ""
  it "get further requests of others on kept connections after any other scheme" $ do
    connections <- newIORef (0 :: Int)
    withTarget (\count peer -> writeIORef connections count >> authenticating "Basic" (const (return ())) count peer) $
      \target ->
        withFront quiet [target] $ \port -> do
          withClient port $ \client -> void (asked client "Authorization: Basic last\r\n")
          void (ask port plain)
          readIORef connections `shouldReturn` 1

data Connection = Authenticated | Unknown
  deriving (Eq, Show)

-- Offers a scheme, takes two messages of it, and then takes all requests on the connection for the client's. Says at
-- the end whether it did.
authenticating :: ByteString -> (Connection -> IO ()) -> Int -> Socket -> IO ()
authenticating scheme atEnd _ peer = go Unknown
  where
    go state = receiveHead peer >>= maybe (when (state == Authenticated) (atEnd state)) (answered state)
    answered state bytes
      | says " last" bytes = answerWith peer "somebody" >> go Authenticated
      | says " first" bytes = refusing (scheme <> " challenge") >> go state
      | says "/login" bytes && state == Unknown = refusing scheme >> go state
      | otherwise = answerWith peer (if state == Authenticated then "somebody" else "nobody") >> go state
    says part bytes = part `ByteString.isInfixOf` bytes
    refusing offer =
      sendAll peer ("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: " <> offer <> "\r\nContent-Length: 2\r\n\r\nno")

authenticate :: ByteString -> Socket -> IO ()
authenticate scheme client = do
  sendAll client "GET /login HTTP/1.1\r\nHost: a\r\n\r\n"
  receiveUntil "no" client >>= (`shouldBe` "401") . statusOf
  sendAll client ("GET /login HTTP/1.1\r\nHost: a\r\nAuthorization: " <> scheme <> " first\r\n\r\n")
  receiveUntil "\r\n\r\nno" client
    >>= (`shouldSatisfy` (("WWW-Authenticate: " <> scheme <> " challenge") `ByteString.isInfixOf`))
  asked client ("Authorization: " <> scheme <> " last\r\n") `shouldReturn` "somebody"

-- One answer on the client's connection.
asked :: Socket -> ByteString -> IO ByteString
asked client fields = do
  sendAll client ("GET / HTTP/1.1\r\nHost: a\r\n" <> fields <> "\r\n")
  bodyOf <$> receiveUntil "body" client

plain :: ByteString
plain = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
