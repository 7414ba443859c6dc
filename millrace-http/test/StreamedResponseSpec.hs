{-# LANGUAGE OverloadedStrings #-}

-- | Responses that are made while they are sent: streams and raw ones.
module StreamedResponseSpec (spec) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (throwIO, try)
import Control.Monad (forM_, replicateM, void, when)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString, lazyByteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Data.IORef
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import ResponseSupport
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "streams" $ do
    it "are sent when flushed, before they are complete" $ do
      seen <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write flush -> do
            write "first"
            flush
            takeMVar seen
            write "second"
      withServer id application $ \port -> withConnection port $ \client -> do
        send client get
        (bytes, _) <- receiveUntilThere "first" 1 0 client
        putMVar seen ()
        rest <- receiveAll client
        map replyBody (parseReplies (B.append bytes rest)) `shouldBe` ["firstsecond"]
    it "of any pieces arrive whole, on HTTP/1.1, on HTTP/1.0 and with a length" $ do
      let sizes = [0, 1, 7, 0, 5000, 16384, 100, 70000, 3, 200000, 0]
          body = B.concat [C8.replicate size (toEnum (97 + index)) | (index, size) <- zip [0 ..] sizes]
          stream fields = responseStream status200 fields $ \write flush ->
            forM_ (zip [0 ..] sizes) $ \(index, size) -> do
              write (lazyByteString (L.replicate (fromIntegral size) (97 + index)))
              when (even index) flush
      eleven <- get11 (stream [])
      (headerOf "transfer-encoding" eleven, replyBody eleven == body) `shouldBe` (Just "chunked", True)
      ten <- get10 (stream [])
      (headerOf "connection" ten, replyBody ten == body) `shouldBe` (Just "close", True)
      counted <- get11 (stream [("Content-Length", C8.pack (show (B.length body)))])
      (headerOf "transfer-encoding" counted, replyBody counted == body) `shouldBe` (Nothing, True)
    it "leave the connection open" $
      withServer id (\_ respond -> respond (responseStream status200 [] (\write _ -> write "abc"))) $ \port ->
        withConnection port $ \client ->
          forM_ [1 .. 5 :: Int] $ \_ -> do
            send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            reply <- receiveResponse client
            replyBody reply `shouldBe` "abc"
    it "may read the request while they write" $ do
      let application request respond = respond . responseStream status200 [] $ \write flush ->
            let loop = do
                  bytes <- getRequestBodyChunk request
                  if B.null bytes then return () else write (byteString bytes) >> flush >> loop
             in loop
      withServer id application $ \port -> withConnection port $ \client -> do
        send
          client
          "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        (begun, _) <- receiveUntilThere "hello" 1 100000 client
        begun `shouldSatisfy` B.isInfixOf "hello"
        send client "5\r\nworld\r\n0\r\n\r\n"
        rest <- receiveAll client
        map replyBody (parseReplies (B.append begun rest)) `shouldBe` ["helloworld"]
    it "never exceed their Content-Length" $
      withServer
        id
        ( \_ respond ->
            respond
              (responseStream status200 [("Content-Length", "3")] (\write flush -> write "abc" >> flush >> write "def"))
        )
        $ \port ->
          do
            bytes <- exchange port "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            map replyBody (parseReplies bytes) `shouldBe` ["abc"]
    it "cannot be written to when they are over" $ do
      kept <- newIORef (return ())
      let application _ respond =
            respond (responseStream status200 [] (\write _ -> writeIORef kept (write "late") >> write "abc"))
      withServer id application $ \port -> do
        _ <- exchange port get
        late <- readIORef kept
        late `shouldThrow` (== UsedTooLate)
    it "cannot be written to when the application has thrown meanwhile" $ do
      [begun, answered, outcome] <- replicateM 3 newEmptyMVar
      let application _ respond = do
            _ <- forkIO . void . respond . responseStream status200 [] $ \write _ -> do
              putMVar begun Nothing
              _ <- takeMVar answered
              try (write "late") >>= putMVar outcome . either Just (const Nothing)
            _ <- takeMVar begun
            throwIO (userError "the application's")
      withServer id application $ \port -> do
        map replyStatus . parseReplies <$> exchange port get `shouldReturn` [500]
        putMVar answered Nothing
        within "the write" (takeMVar outcome) `shouldReturn` Just UsedTooLate

  describe "raw responses" $ do
    it "cannot be sent to when they are over" $ do
      kept <- newIORef (return ())
      let application _ respond =
            respond (responseRaw (\_ give -> writeIORef kept (give "late") >> give "abc") (responseLBS status500 [] ""))
      withServer id application $ \port -> do
        exchange port get `shouldReturn` "abc"
        late <- readIORef kept
        late `shouldThrow` anyIOException
    it "have the connection to themselves, with what had arrived" $ do
      let application _ respond = respond (responseRaw raw (responseLBS status500 [] ""))
          raw receiveBytes sendBytes = do
            () <- sendBytes "HTTP/1.1 101 Switching Protocols\r\n\r\n"
            let loop = do
                  bytes <- receiveBytes
                  if B.null bytes then return () else sendBytes (C8.map succ bytes) >> loop
            loop
      withServer id application $ \port -> withConnection port $ \client -> do
        send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc"
        (first, _) <- receiveUntilThere "bcd" 1 100000 client
        first `shouldBe` "HTTP/1.1 101 Switching Protocols\r\n\r\nbcd"
        send client "xyz"
        sendEnd client
        receiveAll client `shouldReturn` "yz{"
