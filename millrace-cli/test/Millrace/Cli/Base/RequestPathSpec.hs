{-# LANGUAGE OverloadedStrings #-}

-- | Request paths: how they are decoded, and which are refused.
module Millrace.Cli.Base.RequestPathSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Base.RequestPath
import Test.Hspec

spec :: Spec
spec = do
  describe "names" $ do
    "/" `names` RequestPath [] True
    "/a" `names` RequestPath ["a"] False
    "/a/b/" `names` RequestPath ["a", "b"] True
    "/a%20b%C3%A9/c+d" `names` RequestPath ["a b\xc3\xa9", "c+d"] False
    "/%61%2e%74xt" `names` RequestPath ["a.txt"] False
    "/a..b/c..." `names` RequestPath ["a..b", "c..."] False
    "/.well-known/security.txt" `names` RequestPath [".well-known", "security.txt"] False
    "/%252e%252e/x" `names` RequestPath ["%2e%2e", "x"] False
    "/100%25" `names` RequestPath ["100%"] False
  describe "leaves out what means nothing (RFC 3986 section 5.2.4)" $ do
    "/." `names` RequestPath [] True
    "/./" `names` RequestPath [] True
    "/./a" `names` RequestPath ["a"] False
    "/a/." `names` RequestPath ["a"] True
    "/a/././%2e/b/./" `names` RequestPath ["a", "b"] True
  describe "is malformed" $
    forM_ ["", "a", "*", "http://a/", "/%", "/a%2", "/a%zz", "/%00", "/a%00.txt", "/a\0b", "/ok/%g0/x"] $ \target ->
      it (show target) $ parseRequestPath target `shouldBe` Left Malformed
  describe "is never served" $
    forM_
      [ "/..",
        "/../x",
        "/a/../b",
        "/a/..",
        "/a/../",
        "/./..",
        "/../.",
        "/./.git",
        "//.",
        "/.//",
        "/%2e%2e/x",
        "/.%2e/x",
        "/%2E./x",
        "/..%2fx",
        "/a%2f..%2fb",
        "/a%2Fb",
        "/%2f",
        "/%2fetc/passwd",
        "/..\\x",
        "/a\\b",
        "/%5c..%5cx",
        "/a%5Cb",
        "//",
        "//a",
        "/a//b",
        "/a//",
        "//evil.example/..",
        "/.git/config",
        "/a/.env",
        "/%2egit",
        "/...",
        "/.well-knownx"
      ]
      $ \target -> it (show target) $ parseRequestPath target `shouldBe` Left Unservable
  describe "is canonical, or not" $ do
    forM_ ["/", "/a", "/a/b.c/", "/.well-known/a", "/a./b"] $ \path -> it (show path) $ isCanonical path `shouldBe` True
    forM_ ["/%61", "/.", "/./", "/./a", "/a/.", "/a/./b"] $ \path -> it (show path) $ isCanonical path `shouldBe` False
  describe "a segment of a URI" $ do
    it "encodes all that means something" $
      encodeSegment "a b/c:d?e#f%\r\n\"<\233" `shouldBe` "a%20b%2Fc%3Ad%3Fe%23f%25%0D%0A%22%3C%E9"
    it "keeps what means nothing" $ encodeSegment "Az09-._~" `shouldBe` "Az09-._~"
  where
    names target expected = it (show target) $ parseRequestPath target `shouldBe` Right expected
