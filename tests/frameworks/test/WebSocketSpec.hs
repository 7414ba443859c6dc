{-# LANGUAGE OverloadedStrings #-}

-- | WebSockets with wai-websockets, on Millrace.
module WebSocketSpec (spec) where

import Clients
import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.Async (forConcurrently_)
import Control.Concurrent.MVar
import Control.Exception (AsyncException (ThreadKilled), ErrorCall (..), SomeException, catch, handle, throwIO, try)
import Control.Monad (forM_, forever, join, void, when)
import qualified Data.ByteString.Lazy as L
import Network.HTTP.Types (status200)
import Network.Wai (Application, responseLBS)
import qualified Network.Wai.Handler.Millrace as Millrace
import Network.Wai.Handler.WebSockets (websocketsOr)
import qualified Network.WebSockets as WebSockets
import Test.Hspec

spec :: Spec
spec = describe "wai-websockets" $ do
  it "echoes messages of all sizes, for many clients at once" $
    Millrace.withApplication (return application) . flip reached $ \port ->
      forConcurrently_ [1 .. 20 :: Int] $ \_ ->
        WebSockets.runClient "127.0.0.1" port "/" $ \connection -> do
          forM_ [0, 1, 125, 126, 65535, 65536, 300000] $ \size -> do
            let message = L.replicate size 0x61
            WebSockets.sendBinaryData connection message
            echoed <- WebSockets.receiveData connection
            echoed == message `shouldBe` True
          WebSockets.sendClose connection ("bye" :: L.ByteString)
  it "keeps a connection that is idle for longer than the server's timeout" $
    Millrace.withApplicationSettings (Millrace.setTimeout 1 Millrace.defaultSettings) (return application)
      . flip reached
      $ \port ->
        WebSockets.runClient "127.0.0.1" port "/" $ \connection -> do
          echo connection "one"
          threadDelay 2500000
          echo connection "two"
  it "can say good-bye when the server ends, after the time that a graceful end has" $ do
    end <- newEmptyMVar
    let settings =
          Millrace.setInstallShutdownHandler
            (putMVar end)
            (Millrace.setGracefulShutdownTimeout (Just 1) Millrace.defaultSettings)
    said <- newEmptyMVar
    let client port = WebSockets.runClient "127.0.0.1" port "/" $ \connection -> do
          echo connection "one"
          join (takeMVar end)
          echo connection "two"
          outcome <- try (WebSockets.receiveData connection)
          case outcome :: Either WebSockets.ConnectionException L.ByteString of
            Left (WebSockets.CloseRequest 1001 _) -> return ()
            other -> expectationFailure ("instead of the end: " ++ show other)
    -- The action ends with the server, perhaps before the client has read the end. So the client has its own thread.
    handle (\(ErrorCall _) -> return ()) . Millrace.withApplicationSettings settings (return polite) $ \port ->
      forkIO (try (reached port client) >>= putMVar said) >> void (readMVar said)
    takeMVar said >>= either (throwIO :: SomeException -> IO ()) return
  it "leaves other requests to the application" $
    serving (return application) $ \address ->
      get address `shouldReturn` (200, "no socket")
  where
    echo connection message = do
      WebSockets.sendTextData connection (message :: L.ByteString)
      WebSockets.receiveData connection `shouldReturn` message

application, polite :: Application
application = echoing (const (return ()))
polite = echoing (\connection -> WebSockets.sendCloseCode connection 1001 ("the server ends" :: L.ByteString))

-- Sends back what it gets. The action is for a thread that is killed.
echoing :: (WebSockets.Connection -> IO ()) -> Application
echoing whenKilled = websocketsOr WebSockets.defaultConnectionOptions server plain
  where
    plain _ respond = respond (responseLBS status200 [] "no socket")
    server offered = do
      connection <- WebSockets.acceptRequest offered
      let echoes = forever (WebSockets.receiveDataMessage connection >>= WebSockets.sendDataMessage connection)
      handle
        ended
        (echoes `catch` \failure -> when (failure == ThreadKilled) (whenKilled connection) >> throwIO failure)
    ended :: WebSockets.ConnectionException -> IO ()
    ended _ = return ()
