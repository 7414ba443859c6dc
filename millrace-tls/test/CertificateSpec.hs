{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | The fields of certificates, and what is read as one.
module CertificateSpec (spec) where

import Control.Monad
import qualified Data.ByteString as ByteString
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  it "has the fields of its certificate" $ \credentials -> do
    certificate <- identityCertificate <$> identity credentials "expired"
    certificateSubject certificate `shouldBe` "CN=expired"
    certificateIssuer certificate `shouldBe` "CN=root"
    certificateSerial certificate `shouldSatisfy` \serial -> length serial == 4 && take 2 serial == "10"
    certificateNames certificate `shouldBe` ["localhost", "*.wild.test"]
    certificateAddresses certificate `shouldBe` ["127.0.0.1"]
    fmap show (certificateValidFrom certificate) `shouldBe` Just "2020-01-01 00:00:00 UTC"
    fmap show (certificateValidUntil certificate) `shouldBe` Just "2020-02-01 00:00:00 UTC"
    certificateFromDer (certificateDer certificate) `shouldBe` Just certificate
  it "is no certificate if its bytes are not" $ \credentials -> do
    certificate <- identityCertificate <$> identity credentials "server"
    certificateFromDer (ByteString.drop 1 (certificateDer certificate)) `shouldBe` Nothing
    certificateFromDer "" `shouldBe` Nothing
  it "shows its names, and neither a key nor text that may be one" $ \credentials -> do
    server <- identity credentials "server"
    client <- identity credentials "client"
    map show [server, client]
      `shouldBe` ["Identity <certificate: CN=server for localhost *.wild.test>", "Identity <certificate: CN=client>"]
    show (Just (PemBytes "secret")) `shouldBe` "Just (PemBytes of length 6)"
    show (Just (PemFile "some.pem")) `shouldBe` "Just (PemFile \"some.pem\")"
  it "is read from texts that begin with byte order marks" $ \credentials -> do
    chain <- ByteString.readFile (certificateFile credentials "chained")
    key <- ByteString.readFile (keyFile credentials "chained")
    let mark = "\xef\xbb\xbf"
        (own, middle) = ByteString.breakSubstring "-----BEGIN" (ByteString.drop 1 chain)
    loaded <-
      loadIdentity
        (PemBytes (mark <> ByteString.take 1 chain <> own <> mark <> middle))
        ( PemBytes
            ( mark
                <> key
            )
        )
    server <- newServerContext (serverSettings loaded)
    client <- clientWith credentials id
    withPairOf client server (\_ _ -> void (return ()))
