{-# LANGUAGE OverloadedStrings #-}

-- | Entity tags and lists of them.
module EntityTagSpec (spec) where

import Control.Monad (forM_)
import Millrace.Http.EntityTag
import Test.Hspec

spec :: Spec
spec = do
  describe "one tag" $ do
    it "strong" $ parseTag "\"xyzzy\"" `shouldBe` Just (EntityTag Strong "xyzzy")
    it "weak" $ parseTag "W/\"xyzzy\"" `shouldBe` Just (EntityTag Weak "xyzzy")
    it "empty" $ parseTag "\"\"" `shouldBe` Just (EntityTag Strong "")
    forM_ ["", "xyzzy", "\"xyzzy", "xyzzy\"", "w/\"x\"", "\"a\"b", "\"a b\"", "\"a\", \"b\"", "'a'"] $ \text ->
      it ("not " <> show text) $ parseTag text `shouldBe` Nothing
    it "is rendered as it is read" $
      map renderTag [EntityTag Strong "a", EntityTag Weak "b"] `shouldBe` ["\"a\"", "W/\"b\""]
  describe "a list" $ do
    it "any" $ parseTagList " * " `shouldBe` Just AnyTag
    it "several" $
      parseTagList "\"a\", W/\"b\" ,\"c\""
        `shouldBe` Just (Tags [EntityTag Strong "a", EntityTag Weak "b", EntityTag Strong "c"])
    it "a comma in a tag" $
      parseTagList "\"a,b\",\"c\"" `shouldBe` Just (Tags [EntityTag Strong "a,b", EntityTag Strong "c"])
    it "empty elements" $
      parseTagList ", ,\"a\",,\"b\"," `shouldBe` Just (Tags [EntityTag Strong "a", EntityTag Strong "b"])
    forM_ ["a", "\"a\" \"b\"", "\"a\", b", "*, \"a\"", "\"a"] $ \text ->
      it ("not " <> show text) $ parseTagList text `shouldBe` Nothing
  describe "comparison (RFC 9110 section 8.8.3.2)" $ do
    compares (EntityTag Weak "1") (EntityTag Weak "1") False True
    compares (EntityTag Weak "1") (EntityTag Weak "2") False False
    compares (EntityTag Weak "1") (EntityTag Strong "1") False True
    compares (EntityTag Strong "1") (EntityTag Strong "1") True True
  where
    compares left right strong weak =
      it (show left <> " and " <> show right) $ (sameStrong left right, sameWeak left right) `shouldBe` (strong, weak)
