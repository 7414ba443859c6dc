{-# LANGUAGE OverloadedStrings #-}

-- | Pipelined requests whose answers are not all ready at once.
module PipelineSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Monad (forM_, replicateM_, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy as L
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = describe "a slow request behind fast ones" $ do
  it "does not hold back their answers" $ do
    gate <- newEmptyMVar
    withServer id (waiting gate) $ \port -> withConnection port $ \client -> do
      send client (B.concat [get "/1", get "/2", get "/wait", get "/3"])
      early <- mapM (const (receiveResponse client)) [1, 2 :: Int]
      map replyBody early `shouldBe` ["/1", "/2"]
      receiveUntilTimeout 100000 client `shouldReturn` ("", False)
      putMVar gate ()
      late <- mapM (const (receiveResponse client)) [1, 2 :: Int]
      map replyBody late `shouldBe` ["/wait", "/3"]
  it "nor one that computes" $
    withServer id computing $ \port -> withConnection port $ \client -> do
      send client (B.concat [get "/1", get "/compute"])
      first <- receiveResponse client
      second <- receiveResponse client
      (replyBody first, B.length (replyBody second) > 0) `shouldBe` ("/1", True)
  it "answers in order when fast and slow ones alternate, again and again" $
    withServer id alternating $ \port -> withConnection port $ \client ->
      replicateM_ 20 $ do
        let paths = [C8.pack ('/' : show number) | number <- [1 .. 40 :: Int]]
        send client (B.concat (map get paths))
        forM_ paths $ \path -> replyBody <$> receiveResponse client `shouldReturn` path
  it "lets a client that does not read go, and the server end" $
    withServer (setTimeout 1) large $ \port -> withConnection port $ \client -> do
      send client (B.concat (replicate 50 (get "/large")))
      threadDelay 3500000
      (_, ended) <- receiveUntilTimeout 5000000 client
      ended `shouldBe` True
  it "survives a connection that is cut off while its answers are being sent" $ do
    gate <- newEmptyMVar
    withServer id (waiting gate) $ \port -> do
      replicateM_ 20 . withConnection port $ \client -> send client (B.concat [get "/1", get "/wait"])
      replicateM_ 20 (putMVar gate ())
      withConnection port $ \client -> do
        send client (get "/1")
        replyBody <$> receiveResponse client `shouldReturn` "/1"
  where
    get path = B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"]
    waiting gate request respond = do
      when (rawPathInfo request == "/wait") (takeMVar gate)
      named request respond
    -- Longer than a time slice, without a wait.
    computing request respond = do
      when (rawPathInfo request == "/compute") (length (show (product [1 .. 6000 :: Integer])) `seq` return ())
      named request respond
    alternating request respond = do
      when (B.length (rawPathInfo request) == 3 && even (B.last (rawPathInfo request))) (threadDelay 300)
      named request respond
    large _ respond = respond (responseLBS status200 [] (L.replicate 500000 0x78))
    named request respond = respond (responseLBS status200 [] (L.fromStrict (rawPathInfo request)))
