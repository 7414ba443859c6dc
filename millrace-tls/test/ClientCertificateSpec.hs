{-# LANGUAGE OverloadedStrings #-}

-- | Certificates of clients that the program judges itself.
module ClientCertificateSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString as ByteString
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = forM_ [Tls12, Tls13] $ \version -> describe (show version) $ do
  it "are there although nobody has verified them" $ \credentials -> do
    client <- showing credentials version
    server <- judging credentials AskedUnverified
    withPairOf client server $ \_ other ->
      fmap certificateSubject (negotiatedPeerCertificate (negotiated other)) `shouldBe` Just "CN=client"
  it "may be missing" $ \credentials -> do
    client <- clientWith credentials (only version)
    server <- judging credentials AskedUnverified
    withPairOf client server $ \_ other -> negotiatedPeerCertificate (negotiated other) `shouldBe` Nothing
  it "do not begin a session that a server which verifies would resume" $ \credentials -> do
    client <- showing credentials version
    let keys = SharedTicketKeys [ByteString.replicate 80 1]
    lenient <- judgingWith keys credentials AskedUnverified
    strict <- judgingWith keys credentials (Required (rootTrust credentials))
    forM_ [lenient, strict] $ \server -> withPairOf client server $ \one other -> do
      negotiatedIsResumed (negotiated other) `shouldBe` False
      sendAll other "answer"
      recv one 100 `shouldReturn` "answer"
  where
    only version settings = settings {clientAlgorithms = defaultAlgorithms {highestVersion = version}}
    showing credentials version = do
      own <- identity credentials "client"
      clientWith credentials (\settings -> only version settings {clientIdentity = Just own})
    judging = judgingWith OwnTicketKeys
    judgingWith tickets credentials clients =
      contextOf credentials ["server"] $ \settings ->
        settings {serverClientCertificates = clients, serverTickets = tickets}
