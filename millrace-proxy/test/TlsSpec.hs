{-# LANGUAGE OverloadedStrings #-}

-- | Targets with TLS.
module TlsSpec (spec) where

import Control.Concurrent.MVar
import Control.Exception
import qualified Data.ByteString as ByteString
import Data.IORef
import Millrace.Proxy
import Millrace.Tls hiding (close)
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
    withTlsTarget folder "other" names $ \target -> withFront (noting (trusting folder)) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    withTlsTarget folder "server" names $ \target -> withFront (noting quiet) [target] $ \port -> statusOf <$> ask port simple `shouldReturn` "502"
    found <- readIORef causes
    length [() | NotConnected _ <- found] `shouldBe` 2
  where
    simple = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    trusting folder = quiet {tlsSettings = clientSettings {clientVerification = Verify (trustIn (PemFile (folder </> "root.pem")))}}

withTlsTarget :: FilePath -> FilePath -> MVar [(Maybe ByteString.ByteString, Maybe ByteString.ByteString)] -> (Target -> IO a) -> IO a
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
      if ByteString.null bytes then return () else Tls.sendAll connection "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nprotected" >> loop connection

withCredentials :: (FilePath -> IO a) -> IO a
withCredentials use = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-proxy-tls-" ++ show process)
  bracket_ (createDirectoryIfMissing True folder) (removeDirectoryRecursive folder) (callProcess "test/credentials" [folder] >> use folder)
