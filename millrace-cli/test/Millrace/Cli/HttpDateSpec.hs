{-# LANGUAGE OverloadedStrings #-}

module Millrace.Cli.HttpDateSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.HttpDate
import Test.Hspec

spec :: Spec
spec = do
  it "is sent in one form" $ formatHttpDate 784111777 `shouldBe` "Sun, 06 Nov 1994 08:49:37 GMT"
  describe "is read in three (RFC 9110 section 5.6.7)" $
    forM_ ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] $ \text ->
      it (show text) $ parseHttpDate in2026 text `shouldBe` Just 784111777
  describe "two digits of a year" $ do
    it "of the near future" $ parseHttpDate in2026 "Monday, 01-Jan-70 00:00:00 GMT" `shouldBe` Just 3155760000
    it "of the past, when the future is further than 50 years" $
      parseHttpDate in2026 "Monday, 01-Jan-80 00:00:00 GMT" `shouldBe` Just 315532800
  describe "is not read" $
    forM_ ["", "yesterday", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT", "784111777", "Sun, 06 Nov 1994 08:49:37 GMT; length=3"] $ \text ->
      it (show text) $ parseHttpDate in2026 text `shouldBe` Nothing
  where
    in2026 = 1790000000
