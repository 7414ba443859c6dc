{-# LANGUAGE OverloadedStrings #-}

-- | Targets with TLS.
module TlsSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString as ByteString
import Data.IORef
import Frames
import Millrace.Proxy
import Millrace.Socket.ByteString (sendAll)
import Millrace.Tls hiding (close, sendAll)
import qualified Millrace.Tls as Tls
import Support
import Test.Hspec hiding (context)
import TestSupport.Credentials (Credentials, certificateFile, keyFile, withCredentials)

spec :: Spec
spec = around withCredentials $ do
  it "are asked by name, verified, and their connections kept" $ \credentials -> do
    names <- newMVar []
    withTlsTarget credentials "server" names $ \target -> withFront (trusting credentials) [target] $ \port -> do
      bodyOf <$> ask port simple `shouldReturn` "protected"
      bodyOf <$> ask port simple `shouldReturn` "protected"
      readMVar names `shouldReturn` [(Just "localhost", Just "http/1.1")]
  it "are refused with another name, and by default if the system does not know their authority" $ \credentials -> do
    names <- newMVar []
    causes <- newIORef []
    let noting settings = settings {onProblem = \_ reason -> modifyIORef causes (problemCause reason :)}
    withTlsTarget credentials "other" names $ \target ->
      withFront (noting (trusting credentials)) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    withTlsTarget credentials "server" names $ \target ->
      withFront (noting quiet) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    found <- readIORef causes
    (length [() | NotConnected _ <- found], length [() | NotTrusted _ <- found]) `shouldBe` (1, 1)
  it "get a WebSocket over HTTP/1.1 if they do not take extended CONNECT" $ \credentials ->
    withEither credentials (\_ -> return ()) $ \target -> withFront (trusting credentials) [target] $ \port -> do
      bodyOf <$> ask port simple `shouldReturn` "two"
      withClient port $ \client -> do
        sendAll
          client
          "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: \
          \AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        answer <- receiveUntil "hello" client
        statusOf answer `shouldBe` "101"
        sendAll client "and back"
        receiveUntil "and back" client `shouldReturn` "and back"
      bodyOf <$> ask port simple `shouldReturn` "two"
  it "are asked over HTTP/1.1 if they want that for a request (HTTP_1_1_REQUIRED)" $ \credentials -> do
    asked <- newIORef (0 :: Int)
    withEither credentials (\_ -> modifyIORef' asked (+ 1)) $ \target ->
      withFront (trusting credentials) [target] $ \port -> do
        bodyOf
          <$> ask port "POST /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
            `shouldReturn` "one"
        readIORef asked `shouldReturn` 1
        bodyOf <$> ask port simple `shouldReturn` "two"
  where
    simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    trusting credentials =
      quiet
        { tlsSettings =
            clientSettings {clientVerification = Verify (trustIn (PemFile (certificateFile credentials "root")))}
        }

withTlsTarget ::
  Credentials -> String -> MVar [(Maybe ByteString.ByteString, Maybe ByteString.ByteString)] -> (Target -> IO a) -> IO a
withTlsTarget credentials name names use = do
  mine <- loadIdentity (PemFile (certificateFile credentials name)) (PemFile (keyFile credentials name))
  context <- newServerContext (serverSettings mine) {serverProtocols = ["http/1.1"]}
  withTarget (\_ peer -> bracket (serverHandshake context peer) Tls.close serve) $ \target ->
    case targetAddress target of
      AtHost _ port -> use (Target Https (AtHost "localhost" port))
      AtPath _ -> use target
  where
    serve connection = do
      let found = negotiated connection
      modifyMVar_ names (return . ((negotiatedServerName found, negotiatedProtocol found) :))
      loop connection
    loop connection = do
      bytes <- Tls.recv connection 16384
      if ByteString.null bytes
        then return ()
        else Tls.sendAll connection "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nprotected" >> loop connection

-- Offers HTTP/2, without extended CONNECT, and HTTP/1.1, where it takes upgrades. Over HTTP/2 it answers GET with
-- "two", and tells POST to come over HTTP/1.1, where it answers "one". The action is told of each such reset.
withEither :: Credentials -> (Int -> IO ()) -> (Target -> IO a) -> IO a
withEither credentials onReset use = do
  mine <- loadIdentity (PemFile (certificateFile credentials "server")) (PemFile (keyFile credentials "server"))
  context <- newServerContext (serverSettings mine) {serverProtocols = ["h2", "http/1.1"]}
  withTarget (\_ peer -> bracket (serverHandshake context peer) Tls.close serve) $ \target ->
    case targetAddress target of
      AtHost _ port -> use (Target Https (AtHost "localhost" port))
      AtPath _ -> use target
  where
    serve connection
      | negotiatedProtocol (negotiated connection) == Just "h2" =
        openingFrom (takeFrom connection) (Tls.sendAll connection) >> forever (answer connection)
      | otherwise = inBytes connection
    answer connection = do
      (kind, flags, stream, _) <- oneFrameFrom (takeFrom connection)
      when (kind == 1) $
        if odd flags
          then Tls.sendAll connection (plainAnswer stream "two")
          else onReset stream >> Tls.sendAll connection (resetOf stream 13)
    inBytes connection = do
      bytes <- Tls.recv connection 16384
      if "Upgrade: websocket" `ByteString.isInfixOf` bytes
        then
          Tls.sendAll
            connection
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
            >> echo connection
        else Tls.sendAll connection (answerOf "one")
    echo connection =
      Tls.recv connection 16384 >>= \bytes ->
        unless (ByteString.null bytes) (Tls.sendAll connection bytes >> echo connection)
    takeFrom connection count
      | count <= 0 = return ""
      | otherwise = do
        bytes <- Tls.recv connection count
        if ByteString.null bytes
          then return ""
          else (bytes <>) <$> takeFrom connection (count - ByteString.length bytes)
