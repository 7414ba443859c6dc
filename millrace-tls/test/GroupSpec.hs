{-# LANGUAGE OverloadedStrings #-}

-- | The groups on which keys are exchanged.
module GroupSpec (spec) where

import Control.Exception (try)
import Data.Either (isRight)
import Millrace.Tls
import Support
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  it "is X25519 together with ML-KEM where OpenSSL knows it, and otherwise X25519" $ \credentials -> do
    isKnown <- isRight <$> (try (contextOf credentials ["server"] hybrid) :: IO (Either SettingsError ServerContext))
    let expected = if isKnown then "X25519MLKEM768" else "x25519"
    withPair credentials $ \one other -> do
      negotiatedGroup (negotiated one) `shouldBe` Just expected
      negotiatedGroup (negotiated other) `shouldBe` Just expected
  it "is X25519 with a client that has only that" $ \credentials -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials (using defaultAlgorithms {keyGroups = Just ["X25519"]})
    withPairOf client server $ \one _ -> negotiatedGroup (negotiated one) `shouldBe` Just "x25519"
  it "is X25519 with TLS 1.2" $ \credentials -> do
    server <- contextOf credentials ["server"] id
    client <- clientWith credentials (using defaultAlgorithms {highestVersion = Tls12})
    withPairOf client server $ \one _ -> negotiatedGroup (negotiated one) `shouldBe` Just "x25519"
  where
    hybrid settings = settings {serverAlgorithms = defaultAlgorithms {keyGroups = Just ["X25519MLKEM768"]}}
    using algorithms settings = settings {clientAlgorithms = algorithms}
