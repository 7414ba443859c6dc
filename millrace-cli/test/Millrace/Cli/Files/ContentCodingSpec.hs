{-# LANGUAGE OverloadedStrings #-}

-- | Which content coding a client prefers.
module Millrace.Cli.Files.ContentCodingSpec (spec) where

import Millrace.Cli.Files.ContentCoding
import Network.HTTP.Types.Header (hAcceptEncoding)
import Test.Hspec

spec :: Spec
spec = describe "the preferred coding (RFC 9110 section 12.5.3)" $ do
  prefers [] Nothing
  prefers [""] Nothing
  prefers ["gzip"] (Just "gzip")
  prefers ["GZip"] (Just "gzip")
  prefers ["X-GZip"] (Just "gzip")
  prefers ["x-gzip;q=0, *"] (Just "br")
  prefers ["gzip, deflate, br, zstd"] (Just "br")
  prefers ["gzip", "zstd"] (Just "zstd")
  prefers [", gzip ,"] (Just "gzip")
  prefers ["gzip;q=1.0, br;q=0.5"] (Just "gzip")
  prefers ["gzip ; q=0.001"] (Just "gzip")
  prefers ["gzip;q=0"] Nothing
  prefers ["gzip;q=0.000, *"] (Just "br")
  prefers ["*"] (Just "br")
  prefers ["*;q=0"] Nothing
  prefers ["br;q=0, *;q=0.1, gzip;Q=0.2"] (Just "gzip")
  prefers ["identity, gzip;q=0.5"] Nothing
  prefers ["identity;q=0.5, gzip"] (Just "gzip")
  prefers ["deflate, compress"] Nothing
  prefers ["gzip;q=1.1"] Nothing
  prefers ["gzip;q=0.1234"] Nothing
  prefers ["gzip;q=x", "zstd;q"] Nothing
  it "is one of those that there are" $
    preferredCoding [(hAcceptEncoding, "br, gzip;q=0.1")] (drop 1 codings) `shouldBe` Just (Coding "gzip" ".gz")
  it "is none if there are none" $ preferredCoding [(hAcceptEncoding, "*")] [] `shouldBe` Nothing
  where
    prefers values expected =
      it (show values) $
        fmap codingName (preferredCoding [(hAcceptEncoding, value) | value <- values] codings) `shouldBe` expected
