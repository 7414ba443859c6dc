{-# LANGUAGE OverloadedStrings #-}

-- | Clients that have ended their sending side, and clients that are gone.
module PresenceSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import qualified Data.ByteString.Lazy.Char8 as LC8
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace
import Support
import Test.Hspec

spec :: Spec
spec = do
  it "tells a client that has ended its sending side from one that is gone, and a probe reaches it" $ do
    (entered, ended, lost) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
    let application request respond = do
          putMVar entered ()
          onDisconnect request (putMVar ended ()) (readMVar ended)
          presence <- getPresence request
          onLoss request (putMVar lost ()) (probeClient request >> threadDelay 300000)
          respond (responseLBS status200 [] (LC8.pack (show presence)))
    withServer id application $ \port -> withConnection port $ \client -> do
      send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      within "the request" (takeMVar entered)
      sendEnd client
      replies <- parseReplies <$> receiveAll client
      [(replyStatus reply, replyBody reply) | reply <- replies] `shouldBe` [(100, ""), (200, "EndedSending")]
      tryReadMVar lost `shouldReturn` Nothing
  it "finds out by a probe that a client is gone" $ do
    (entered, ended, lost) <- (,,) <$> newEmptyMVar <*> newEmptyMVar <*> newEmptyMVar
    let application request respond = do
          onDisconnect request (putMVar ended ()) (putMVar entered () >> readMVar ended)
          onLoss request (putMVar lost ()) (probeClient request >> readMVar lost)
          respond (responseLBS status200 [] "")
    withServer id application $ \port -> do
      withConnection port $ \client ->
        send client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> within "the request" (takeMVar entered)
      within "the callback" (readMVar lost)
  it "probes no client that still sends" $ do
    let application request respond =
          probeClient request >> getPresence request >>= respond . responseLBS status200 [] . LC8.pack . show
    withServer id application $ \port -> withConnection port $ \client -> do
      send client "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      map replyBody . parseReplies <$> receiveAll client `shouldReturn` ["Present"]
