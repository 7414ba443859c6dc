{-# LANGUAGE OverloadedStrings #-}

-- | Descriptors that run out, and sockets that come from elsewhere. Servers with other limits are this program, started
-- again.
module DescriptorSpec (spec) where

import Control.Monad (forM_, replicateM)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Maybe (fromMaybe)
import ResourceSupport
import Support
import Test.Hspec

spec :: Spec
spec = do
  describe "inherited sockets" $
    it "are served: a connection that came before the server is answered" $
      withOtherServer 256 $ \port -> map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
  describe "descriptors that run out" $ do
    it "delay new connections if others are busy, and nothing else" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send early "GET / HTTP/1.1\r\nHost: a\r\nX: "
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        withConnection port $ \late -> do
          send late get
          receiveUntilTimeout 50000 late `shouldReturn` ("", False)
          send early "y\r\n\r\n"
          replyBody <$> receiveResponse early `shouldReturn` "Pong"
          send holder "0\r\n\r\n"
          map replyBody . parseReplies <$> receiveAll late `shouldReturn` ["Pong"]
    it "are given up for new connections by idle ones, also if others have taken all of them" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        withConnection port $ \late -> do
          send late get
          map replyBody . parseReplies <$> receiveAll late `shouldReturn` ["Pong"]
          receiveAll early `shouldReturn` ""
    it "are no reason to say that a file is not there" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        send early "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
        refused <- receiveResponse early
        (replyStatus refused, headerOf "retry-after" refused) `shouldBe` (503, Just "1")
        send holder "0\r\n\r\n"
        _ <- receiveUntilThere "0\r\n\r\n" 1 0 holder
        send early "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
        replyStatus <$> receiveResponse early `shouldReturn` 200
        send early "GET /reported HTTP/1.1\r\nHost: a\r\n\r\n"
        replyBody <$> receiveResponse early `shouldReturn` "/file: Too many open files"
    it "are not needed for what separates several ranges" $
      withOtherServer 64 $ \port -> withConnection port $ \early -> withConnection port $ \holder -> do
        kept early
        send holder "POST /exhaust HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        _ <- receiveUntilThere "full" 1 0 holder
        boundaries <- replicateM 2 (send early "GET /boundary HTTP/1.1\r\nHost: a\r\n\r\n" >> receiveResponse early)
        map (\reply -> (replyStatus reply, B.length (replyBody reply))) boundaries `shouldBe` [(200, 32), (200, 32)]
        map replyBody boundaries `shouldSatisfy` \found -> take 1 found /= drop 1 found
    it "are not kept by idle connections: the oldest give way" $
      withOtherServer 48 $ \port -> withManyKept 60 port $ \crowd -> do
        receiveAll (last crowd) `shouldReturn` ""
        mapM_ kept (take 1 crowd)
    it "have a share that connections leave to files" $
      withOtherServer 64 $ \port -> withManyKept 80 port . const . withConnection port $ \client -> do
        send client "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"
        open <- fst . fromMaybe (0, "") . C8.readInt . replyBody <$> receiveResponse client
        open `shouldSatisfy` (\count -> count > 40 && count <= 52)
        forM_ [1 .. 5 :: Int] $ \_ -> do
          send client "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
          replyStatus <$> receiveResponse client `shouldReturn` 200
    it "are left to connections that are not idle: new ones wait" $
      withOtherServer 48 $ \port -> do
        withConnection port $ \first -> do
          -- Which of several new ones is counted first is the accepting threads' affair: this one is there before them.
          send first "POST /busy HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
          _ <- receiveUntilThere "begun" 1 0 first
          withMany 60 port $ \crowd -> do
            mapM_ (`send` "GET / HTTP/1.1\r\nHost: a\r\nX: ") crowd
            forM_ (take 1 crowd) $ \newcomer -> do
              send newcomer "y\r\n\r\n"
              receiveUntilTimeout 50000 newcomer `shouldReturn` ("", False)
            send first "0\r\n\r\n"
            receiveUntilThere "0\r\n\r\n" 1 0 first >>= (`shouldSatisfy` B.isSuffixOf "0\r\n\r\n") . fst
        map replyBody . parseReplies <$> exchange port get `shouldReturn` ["Pong"]
  describe "a newcomer at the limit of connections" $
    it "costs no more where many are open than where few are" $ do
      let newcomers = 300
          cost capacity = withOtherServer capacity $ \port -> withManyKept capacity port $ \_ -> do
            before' <- withConnection port (askNumber "/allocated")
            after' <- withManyKept newcomers port (\_ -> withConnection port (askNumber "/allocated"))
            return (fromIntegral ((after' - before') `div` newcomers))
      few <- cost 100
      many <- cost 1500
      (few, many) `shouldSatisfy` (\(small, large) -> large < 2 * (small :: Double))
