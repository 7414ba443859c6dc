{-# LANGUAGE OverloadedStrings #-}

-- | HTTP dates, written and read.
module DateSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as C8
import Data.Time (UTCTime (..), fromGregorian, getCurrentTime, toGregorian)
import Data.Time.Clock.POSIX (utcTimeToPOSIXSeconds)
import Millrace.Http.Date
import Test.Hspec

spec :: Spec
spec = do
  it "is sent in one form" $ formatHttpDate 784111777 `shouldBe` "Sun, 06 Nov 1994 08:49:37 GMT"
  describe "is read in three (RFC 9110 section 5.6.7)" $
    forM_ ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] $ \text ->
      it (show text) $ parseHttpDate text `shouldBe` Just 784111777
  it "before 1970 is as early as can be" $ parseHttpDate "Wed, 31 Dec 1969 23:59:59 GMT" `shouldBe` Just 0
  describe "two digits of a year" $ do
    it "of the next 50 years" $ twoDigits 50 50
    it "of the past, when the future is further than 50 years" $ twoDigits 51 (-49)
  describe "is not read" $
    forM_
      [ "",
        "yesterday",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "784111777",
        "Sun, 06 Nov 1994 08:49:37 GMT; length=3"
      ]
      $ \text ->
        it (show text) $ parseHttpDate text `shouldBe` Nothing
  where
    -- A two-digit year that is at most 50 years ahead is in the future.
    twoDigits written meant = do
      (year, _, _) <- toGregorian . utctDay <$> getCurrentTime
      let digits = drop 2 (show (year + written))
      parseHttpDate (C8.pack ("Monday, 01-Jan-" ++ digits ++ " 00:00:00 GMT"))
        `shouldBe` Just (floor (utcTimeToPOSIXSeconds (UTCTime (fromGregorian (year + meant) 1 1) 0)))
