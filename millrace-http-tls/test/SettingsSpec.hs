{-# LANGUAGE OverloadedStrings #-}

-- | Settings of TLS: where certificates and keys come from, and what is negotiated.
module SettingsSpec (spec) where

import Applications
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.IORef
import Millrace.Socket (PortNumber)
import Millrace.Tls hiding (Negotiated (..))
import qualified Millrace.Tls as Tls
import qualified Network.Socket as Network
import Network.Wai.Handler.Millrace
  ( defaultSettings,
    openFreePort,
    seconds,
    setBeforeMainLoop,
    setHTTP1Disabled,
    setHTTP2Disabled,
    setHost,
    setPort,
  )
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import Support
import Test.Hspec
import TestSupport.Job (withThread)

spec :: Credentials -> TLSSettings -> WithClient -> Spec
spec credentials server client = do
  describe "a certificate with the rest of its chain" $ do
    let file = certificateFile credentials
        asks = shows200 client
        key = keyFile credentials "chained"
    it "comes from files" $ withServer (tlsSettingsChain (file "chained") [file "middle"] key) id telling asks
    it "comes from memory" $ do
      own <- B.readFile (file "chained")
      middle <- B.readFile (file "middle")
      bytes <- B.readFile key
      withServer (tlsSettingsChainMemory own [middle] bytes) id telling asks
      -- A chain may as well be in one text.
      withServer (tlsSettingsMemory (own <> "\n" <> middle) bytes) id telling asks
    it "comes from variables" $ do
      own <- B.readFile (file "chained") >>= newIORef
      middle <- B.readFile (file "middle") >>= newIORef
      bytes <- B.readFile key >>= newIORef
      withServer (tlsSettingsChainRef own [middle] bytes) id telling asks
  it "say where the first certificate comes from" $ do
    let firstOf settings = case getCertSettings settings of
          CertFromFile certificate chain key -> (certificate, chain, key)
          _ -> ("not a file", [], "")
    firstOf (tlsSettingsMany [("a.pem", "a.key"), ("b.pem", "b.key")]) `shouldBe` ("a.pem", [], "a.key")
    map firstOf [defaultTlsSettings, tlsSettingsSni (const (return mempty))]
      `shouldBe` replicate 2 ("certificate.pem", [], "key.pem")

  it "limit the ciphers and groups that are negotiated, for each version by itself" $ do
    let negotiatedWith change =
          withServer (change server) id telling $ \port -> do
            found <- newIORef Nothing
            client port $ \one -> writeIORef found (Just (negotiated one))
            fmap (\one -> (Tls.negotiatedVersion one, Tls.negotiatedCipher one, Tls.negotiatedGroup one))
              <$> readIORef found
        chosen tls =
          tls
            { tlsCiphers = ["TLS_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"],
              tlsKeyGroups = ["P-384"]
            }
    negotiatedWith (\tls -> (chosen tls) {tlsAllowedVersions = []})
      `shouldReturn` Just (Tls13, "TLS_CHACHA20_POLY1305_SHA256", Just "secp384r1")
    negotiatedWith (\tls -> (chosen tls) {tlsAllowedVersions = [Tls12]})
      `shouldReturn` Just (Tls12, "ECDHE-ECDSA-AES256-GCM-SHA384", Just "secp384r1")

  describe "files with keys for tickets" $ do
    it "let another server resume a session, also after the keys were rotated" $ do
      let (one, other) = (fileOf credentials "one.tickets", fileOf credentials "other.tickets")
          (first, second) = (B.replicate 80 1, B.replicate 80 2)
          with files = server {tlsTicketKeyFiles = files}
      B.writeFile one first
      B.writeFile other (second <> first)
      saved <- contextOf
      let resumesAt tls = withServer tls id telling (fmap (Tls.negotiatedIsResumed . negotiated) . resuming saved)
      resumesAt (with [one]) `shouldReturn` False
      resumesAt (with [one]) `shouldReturn` True
      resumesAt (with [other]) `shouldReturn` True
      -- It has got a ticket of the second key meanwhile.
      resumesAt (with [one]) `shouldReturn` False
    it "hold whole keys, and at least one" $ do
      let file = fileOf credentials "broken.tickets"
      forM_ [0, 79, 81] $ \size -> do
        B.writeFile file (B.replicate size 1)
        withTLS server {tlsTicketKeyFiles = [file]} (const (return ()))
          `shouldThrow` (== SettingsError file BadTicketKeys "")

  forM_
    [ ("with a socket", \tls settings _ listener -> runTLSSocket tls settings listener telling),
      ( "with a port",
        \tls settings port listener ->
          Network.close listener
            >> runTLS tls (setPort port settings) telling
      )
    ]
    $ \(how, run) ->
      it ("offer the protocols that the server speaks, run " ++ how) $
        forM_
          [ (id, Nothing, Just "h2"),
            (setHTTP2Disabled, Nothing, Just "http/1.1"),
            (setHTTP1Disabled, Nothing, Just "h2"),
            (id, Just ["http/1.0"], Just "http/1.0")
          ]
          $ \(change, given, expected) -> do
            (port, listener) <- openFreePort
            ready <- newEmptyMVar
            let settings = change (setHost "127.0.0.1" (setBeforeMainLoop (putMVar ready ()) (quiet defaultSettings)))
            withThread (run server {tlsProtocols = given} settings port listener) $ \_ -> do
              within 20 "the server's start" (takeMVar ready)
              let everything wanted = wanted {clientProtocols = ["http/1.0", "http/1.1", "h2"]}
              withClient credentials everything (fromIntegral port) (return . Tls.negotiatedProtocol . negotiated)
                `shouldReturn` expected
  it "are replaced by others, whose files are watched, or stay if those cannot be used" $ do
    let other = fileOf credentials "replaced.pem"
        subjectAt port =
          withClientTo credentials (\settings -> settings {clientVerification = DoNotVerify}) "localhost" B.empty port $
            return . fmap certificateSubject . Tls.negotiatedPeerCertificate . negotiated
        bytesOf name = mconcat <$> mapM B.readFile [certificateFile credentials name, keyFile credentials name]
    bytesOf "other" >>= B.writeFile other
    withTlsServer server id telling $ \tls port -> do
      subjectAt port `shouldReturn` Just "CN=server"
      replaceTLS tls (tlsSettings "nothing.pem" "nothing.key") `shouldThrow` (const True :: IOException -> Bool)
      subjectAt port `shouldReturn` Just "CN=server"
      replaceTLS tls (tlsSettings other other) {tlsWatchInterval = seconds 1}
      subjectAt port `shouldReturn` Just "CN=other"
      bytesOf "renewed" >>= B.writeFile other
      eventually "the renewed certificate" ((== Just "CN=renewed") <$> subjectAt port)
  where
    contextOf =
      newClientContext
        clientSettings {clientVerification = Verify (trustIn (PemFile (certificateFile credentials "root")))}
    -- The connection, after the client has got a ticket.
    resuming saved port = withPlain port $ \raw ->
      bracket (within 20 "a handshake" (clientHandshake saved "localhost" raw)) close $ \one ->
        one <$ exchangeWith one (requestFor "/")

shows200 :: WithClient -> PortNumber -> IO ()
shows200 client port = client port $ \one ->
  (statusOf <$> exchangeWith one (requestFor "/"))
    `shouldReturn` ("200" :: ByteString)
