{-# LANGUAGE OverloadedStrings #-}

-- | The end of a server.
module EndSpec (spec) where

import Applications
import Control.Concurrent.MVar
import Control.Monad
import qualified Data.ByteString as B
import Data.IORef
import GHC.Clock (getMonotonicTime)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls hiding (Negotiated (..))
import Network.Wai.Handler.Millrace (setGracefulShutdownTimeout, setInstallShutdownHandler, setOnException)
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec

spec :: TLSSettings -> WithClient -> Spec
spec server client = do
  it "comes to idle connections when the server stops, in an orderly way" $ do
    stop <- newEmptyMVar
    withServer server (setInstallShutdownHandler (putMVar stop) . setGracefulShutdownTimeout (Just 10)) telling $
      \port ->
        client port $ \one -> do
          sendAll one "GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n"
          void (receiveUntil "/first" one)
          join (takeMVar stop)
          receiveAll one >>= (`shouldBe` "")

  it "comes to a client that has not sent a request yet, when none can be on its way" $ do
    stop <- newEmptyMVar
    withServer server (setInstallShutdownHandler (putMVar stop) . setGracefulShutdownTimeout (Just 20)) telling $
      \port -> client port $ \one -> do
        join (takeMVar stop)
        receiveAll one >>= (`shouldBe` "")

  it "comes soon to clients that have sent a part of a handshake or of a head, and is not reported" $ do
    stop <- newEmptyMVar
    reports <- newIORef []
    let noting = setGracefulShutdownTimeout (Just 25) . setOnException (\_ failure -> modifyIORef reports (failure :))
    withServer server (noting . setInstallShutdownHandler (putMVar stop)) telling $
      \port -> withPlain port $ \plain -> client port $ \one -> do
        Plain.sendAll plain (B.pack [22, 3, 1, 1, 0, 1, 0, 0])
        sendAll one "GET /som"
        start <- getMonotonicTime
        join (takeMVar stop)
        receiveAll one >>= (`shouldBe` "")
        _ <- Plain.recv plain 100
        end <- getMonotonicTime
        end - start `shouldSatisfy` (< 10)
        found <- readIORef reports
        map show found `shouldBe` []

  it "comes after the response to a request that is under way" $ do
    stop <- newEmptyMVar
    working <- newEmptyMVar
    hold <- newEmptyMVar
    let application request respond = putMVar working () >> takeMVar hold >> telling request respond
    withServer server (setInstallShutdownHandler (putMVar stop) . setGracefulShutdownTimeout (Just 10)) application $
      \port ->
        client port $ \one -> do
          sendAll one "GET /last HTTP/1.1\r\nHost: localhost\r\n\r\n"
          within 30 "the request" (takeMVar working)
          join (takeMVar stop)
          putMVar hold ()
          reply <- receiveAll one
          (statusOf reply, "Connection: close" `B.isInfixOf` reply, bodyOf reply)
            `shouldBe` ("200", True, "True /last TLSv1.3 -")

  it "of a client's stream without a word is the end of its requests" $ do
    reports <- newIORef []
    withServer server (setOnException (\_ failure -> modifyIORef reports (failure :))) telling $ \port -> do
      client port $ \one -> do
        sendAll one "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        void (receiveUntil "TLSv1.3" one)
        Socket.shutdown (connectionSocket one) Socket.ShutdownSend
        receiveAll one >>= (`shouldBe` "")
      found <- readIORef reports
      length found `shouldBe` 0

  it "is not awaited from a client that has sent nothing" $
    withServer server id telling $ \port -> do
      withPlain port (\_ -> return ())
      client port $ \one -> (statusOf <$> exchangeWith one (requestFor "/")) `shouldReturn` "200"
