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
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.Process (callProcess, getCurrentPid)
import Test.Hspec hiding (context)

spec :: Spec
spec = around withCredentials $ do
  it "are asked by name, verified, and their connections kept" $ \folder -> do
    names <- newMVar []
    withTlsTarget folder "server" names $ \target -> withFront (trusting folder) [target] $ \port -> do
      bodyOf <$> ask port simple `shouldReturn` "protected"
      bodyOf <$> ask port simple `shouldReturn` "protected"
      readMVar names `shouldReturn` [(Just "localhost", Just "http/1.1")]
  it "are refused with another name, and by default if the system does not know their authority" $ \folder -> do
    names <- newMVar []
    causes <- newIORef []
    let noting settings = settings {onProblem = \_ reason -> modifyIORef causes (problemCause reason :)}
    withTlsTarget folder "other" names $ \target ->
      withFront (noting (trusting folder)) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    withTlsTarget folder "server" names $ \target ->
      withFront (noting quiet) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    found <- readIORef causes
    length [() | NotConnected _ <- found] `shouldBe` 2
  it "get a WebSocket over HTTP/1.1 if they do not take extended CONNECT" $ \folder ->
    withEither folder (\_ -> return ()) $ \target -> withFront (trusting folder) [target] $ \port -> do
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
  it "are asked over HTTP/1.1 if they want that for a request (HTTP_1_1_REQUIRED)" $ \folder -> do
    asked <- newIORef (0 :: Int)
    withEither folder (\_ -> modifyIORef' asked (+ 1)) $ \target -> withFront (trusting folder) [target] $ \port -> do
      bodyOf
        <$> ask port "POST /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
          `shouldReturn` "one"
      readIORef asked `shouldReturn` 1
      bodyOf <$> ask port simple `shouldReturn` "two"
  where
    simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    trusting folder =
      quiet {tlsSettings = clientSettings {clientVerification = Verify (trustIn (PemFile (folder </> "root.pem")))}}

withTlsTarget ::
  FilePath -> FilePath -> MVar [(Maybe ByteString.ByteString, Maybe ByteString.ByteString)] -> (Target -> IO a) -> IO a
withTlsTarget folder name names use = do
  mine <- loadIdentity (PemFile (folder </> (name ++ ".pem"))) (PemFile (folder </> (name ++ ".key")))
  context <- newServerContext (serverSettings mine) {serverProtocols = ["http/1.1"]}
  withTarget (\_ peer -> bracket (serverHandshake context peer) Tls.close serve) $ \target -> case targetPlace target of
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
withEither :: FilePath -> (Int -> IO ()) -> (Target -> IO a) -> IO a
withEither folder onReset use = do
  mine <- loadIdentity (PemFile (folder </> "server.pem")) (PemFile (folder </> "server.key"))
  context <- newServerContext (serverSettings mine) {serverProtocols = ["h2", "http/1.1"]}
  withTarget (\_ peer -> bracket (serverHandshake context peer) Tls.close serve) $ \target -> case targetPlace target of
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

withCredentials :: (FilePath -> IO a) -> IO a
withCredentials use = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-proxy-tls-" ++ show process)
  bracket_
    (createDirectoryIfMissing True folder)
    (removeDirectoryRecursive folder)
    (callProcess "test/credentials" [folder] >> use folder)
