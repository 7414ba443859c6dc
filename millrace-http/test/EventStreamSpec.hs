{-# LANGUAGE OverloadedStrings #-}

-- | Streams of events.
module EventStreamSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception (finally)
import Control.Monad (forM_, forever, join)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (toLazyByteString)
import qualified Data.ByteString.Lazy as L
import Millrace.Duration (milliseconds, minutes, seconds)
import Network.Wai (Application, defaultRequest, requestHeaders)
import Network.Wai.Handler.Millrace (setInstallShutdownHandler, setTotalTimeout)
import Network.Wai.Millrace.EventStream
import Support
import Test.Hspec
import qualified TestSupport.Time as Time

spec :: Spec
spec = describe "Network.Wai.Millrace.EventStream" $ do
  it "sends each event at once, and ends with the action" $ do
    next <- newEmptyMVar
    let produce emit = forM_ [1 .. 2 :: Int] $ \_ -> takeMVar next >>= emit . event
    withServer id (events produce) $ \port -> withConnection port $ \client -> do
      send client get
      first <- receiveUntil client "\r\n\r\n"
      first `shouldSatisfy` B.isPrefixOf "HTTP/1.1 200 OK\r\n"
      first `shouldSatisfy` B.isInfixOf "\r\nContent-Type: text/event-stream\r\n"
      putMVar next "one"
      _ <- receiveUntil client "data: one\n\n"
      putMVar next "two"
      receiveUntil client "0\r\n\r\n" >>= (`shouldSatisfy` B.isInfixOf "data: two\n\n")
  it "sends a comment when there is no event for a while" $
    withServer id (\request respond -> respond (responseEventsEvery (milliseconds 50) request forEver)) $ \port ->
      withConnection port $ \client -> do
        send client get
        forM_ [1 .. 3 :: Int] $ \_ -> receiveUntil client ":\n\n"
  it "interrupts the action when the client has gone" $ do
    ended <- newEmptyMVar
    let produce _ = forEver () `finally` putMVar ended ()
    withServer id (\request respond -> respond (responseEventsEvery (milliseconds 50) request produce)) $ \port -> do
      _ <- withConnection port (\client -> send client get >> receiveUntil client ":\n\n")
      within "the end of the action" (takeMVar ended)
  it "interrupts the action soon when the client has gone, although there is nothing to send" $ do
    ended <- newEmptyMVar
    withServer id (events (\_ -> forEver () `finally` putMVar ended ())) $ \port -> do
      _ <- withConnection port (\client -> send client get >> receiveUntil client "\r\n\r\n")
      Time.within 10 "the end of the action" (takeMVar ended)
  it "goes on for a client that has ended its sending side only" $ do
    next <- newEmptyMVar
    withServer id (events (\emit -> takeMVar next >>= emit . event)) $ \port -> withConnection port $ \client -> do
      send client get
      _ <- receiveUntil client "\r\n\r\n"
      sendEnd client
      _ <- receiveUntil client ":\n\n"
      putMVar next "late"
      receiveUntil client "0\r\n\r\n" >>= (`shouldSatisfy` B.isInfixOf "data: late\n\n")
  it "cuts the response off when the action throws" $
    withServer id (events (\emit -> emit (event "one") >> fail "broken")) $ \port -> withConnection port $ \client -> do
      send client get
      bytes <- receiveAll client
      (B.isInfixOf "data: one\n\n" bytes, B.isInfixOf "0\r\n\r\n" bytes) `shouldBe` (True, False)
  it "ends, complete, when the server shuts down" $ do
    stopping <- newEmptyMVar
    withServer (setInstallShutdownHandler (putMVar stopping)) (events forEver) $ \port -> withConnection port $
      \client -> do
        send client get
        _ <- receiveUntil client "\r\n\r\n"
        join (takeMVar stopping)
        receiveAll client >>= (`shouldSatisfy` B.isSuffixOf "0\r\n\r\n")
  it "has no limit on its whole time" $
    withServer (setTotalTimeout (seconds 1)) (events (\emit -> threadDelay 1500000 >> emit (event "late"))) $ \port ->
      withConnection port $ \client -> do
        send client get
        receiveUntil client "0\r\n\r\n" >>= (`shouldSatisfy` B.isInfixOf "data: late\n\n")
  it "writes what clients can read, whatever is in the event" $ do
    let rendered = L.toStrict . toLazyByteString . renderEvent
    rendered (event "a\rb\r\nc\n") `shouldBe` "data: a\ndata: b\ndata: c\ndata: \n\n"
    rendered (Event "" (Just "x\ndata: y") (Just "\0\r7") (Just (minutes 1)))
      `shouldBe` "event: xdata: y\nid: 7\nretry: 60000\ndata: \n\n"
  it "tells which event a client has got last" $ do
    lastEventId defaultRequest {requestHeaders = [("Last-Event-ID", "7")]} `shouldBe` Just "7"
    lastEventId defaultRequest `shouldBe` Nothing
  where
    get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    forEver _ = forever (threadDelay 1000000)

-- All bytes until this text has come.
receiveUntil :: Client -> ByteString -> IO ByteString
receiveUntil client text = within (show text) (go B.empty)
  where
    go got
      | text `B.isInfixOf` got = return got
      | otherwise = do
        bytes <- receive client
        if B.null bytes then fail ("the end came after " ++ show got) else go (got <> bytes)

events :: ((Event -> IO ()) -> IO ()) -> Application
events produce request respond = respond (responseEventsEvery (seconds 15) request produce)
