{-# LANGUAGE OverloadedStrings #-}

-- | Certificates of clients.
module ClientCertificateSpec (spec) where

import Applications
import Control.Exception
import Data.ByteString (ByteString)
import Data.IORef
import Data.Maybe (isJust)
import Millrace.Tls hiding (Negotiated (..))
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec

spec :: Credentials -> TLSSettings -> Spec
spec credentials server = do
  let trust = trustIn (PemFile (certificateFile credentials "root"))
      pair = pairOf credentials "client"
      withCertificate settings = do
        identity <- loadIdentity (PemFile (fst pair)) (PemFile (snd pair))
        return settings {clientIdentity = Just identity}
  it "are to be had from the request" $
    withServer server {tlsClientCertificates = Required trust} id telling $ \port -> do
      change <- withCertificate clientSettings
      withClient credentials (\settings -> settings {clientIdentity = clientIdentity change}) port $ \one -> do
        reply <- exchangeWith one (requestFor "/")
        bodyOf reply `shouldBe` "True / TLSv1.3 CN=client"

  it "may be missing if they are only asked for" $
    withServer server {tlsClientCertificates = Asked trust} id telling $ \port ->
      withClient credentials id port $ \one ->
        exchangeWith one (requestFor "/") >>= (`shouldBe` "True / TLSv1.3 -") . bodyOf

  it "must be there if they are required, and the client gets the reason" $ do
    outcomes <- newIORef []
    withServer
      server
        { tlsClientCertificates =
            Required trust,
          tlsOnHandshake = Just (\ended -> modifyIORef outcomes (ended :))
        }
      id
      telling
      $ \port ->
        do
          refused <- try (withClient credentials id port (\one -> exchangeWith one (requestFor "/")))
          case refused of
            Left failure -> tlsAlert failure `shouldBe` Just (AlertReceived CertificateRequired)
            Right reply -> expectationFailure ("there was a reply: " ++ show reply)
          let refusals found = [tlsProblem problem | Handshake (HandshakeRefused problem) _ <- found]
              someOf found = if null found then Nothing else Just found
          -- The client knows it before the server reports it.
          untilJust "the report" (someOf . refusals <$> readIORef outcomes) >>= (`shouldBe` [CertificateMissing])

  it "of unknown authorities are refused if tlsWantClientCert is all that is set" $
    withServer server {tlsWantClientCert = True} id telling $ \port -> do
      change <- withCertificate clientSettings
      refused <-
        try
          ( withClient
              credentials
              (\settings -> settings {clientIdentity = clientIdentity change})
              port
              (\one -> exchangeWith one (requestFor "/"))
          )
      either (isJust . tlsAlert) (const False) (refused :: Either TlsException ByteString) `shouldBe` True
