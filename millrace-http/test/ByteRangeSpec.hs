{-# LANGUAGE OverloadedStrings #-}

-- | The Range header: which ranges are understood.
module ByteRangeSpec (spec) where

import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Http.ByteRange
import Test.Hspec

spec :: Spec
spec = do
  describe "one range (RFC 9110 section 14.1.2)" $ do
    selects 10000 "bytes=0-499" (Part (ByteRange 0 499))
    selects 10000 "bytes=500-999" (Part (ByteRange 500 999))
    selects 10000 "bytes=9500-" (Part (ByteRange 9500 9999))
    selects 10000 "bytes=-500" (Part (ByteRange 9500 9999))
    selects 10000 "bytes=-20000" (Part (ByteRange 0 9999))
    selects 10000 "bytes=0-0" (Part (ByteRange 0 0))
    selects 10000 "bytes=9999-99999" (Part (ByteRange 9999 9999))
    selects 10000 "BYTES=0-1" (Part (ByteRange 0 1))
    selects 10000 "bytes=0-99999999999999999999999999999999" (Part (ByteRange 0 9999))
    selects 10000 "bytes=0000000000000000000000005-6" (Part (ByteRange 5 6))
  describe "nothing that can be satisfied" $ do
    selects 10000 "bytes=10000-" Unsatisfiable
    selects 10000 "bytes=10000-10001, 20000-" Unsatisfiable
    selects 10000 "bytes=-0" Unsatisfiable
    selects 10000 "bytes=99999999999999999999999999999999-" Unsatisfiable
    selects 0 "bytes=1-" Unsatisfiable
    selects 0 "bytes=1-2,-0" Unsatisfiable
  describe "no range that could be expressed" $
    forM_ ["bytes=-1", "bytes=0-", "bytes=0-0", "bytes=5-,0-"] $ \header ->
      selects 0 header Whole
  describe "not to be understood, hence ignored" $
    forM_
      [ "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=5",
        "bytes=5-4",
        "bytes=a-b",
        "bytes=1-2-3",
        "bytes 0-1",
        "bytes=0x1-2",
        "bytes=+1-2",
        "bytes=1 - 2",
        "items=0-1",
        "bytes=0-1;2-3",
        "bytes=0-1,x"
      ]
      $ \header ->
        selects 100 header Whole
  describe "several" $ do
    selects 100 "bytes=0-9,20-29" (Parts [ByteRange 0 9, ByteRange 20 29])
    selects 100 "bytes= 20-29 ,, 0-9 ,\t-10" (Parts [ByteRange 20 29, ByteRange 0 9, ByteRange 90 99])
    selects 100 "bytes=0-9,200-300" (Part (ByteRange 0 9))
    selects 100 "bytes=0-9,10-19" (Part (ByteRange 0 19))
    selects 100 "bytes=0-9,5-19,50-60" (Parts [ByteRange 0 19, ByteRange 50 60])
    selects 100 "bytes=0-9,20-29,5-25" (Part (ByteRange 0 29))
    selects 100 "bytes=0-9,50-59,20-29,8-21" (Parts [ByteRange 0 29, ByteRange 50 59])
    selects 100 "bytes=0-,0-,0-,-100" (Part (ByteRange 0 99))
  describe "too many" $ do
    let several count =
          "bytes=" <> Char8.intercalate "," [Char8.pack (show n <> "-" <> show n) | n <- take count [0, 2 ..] :: [Int]]
    it "are ignored" $ selectRanges 100000 (several 33) `shouldBe` Whole
    it "but not one less" $ selectRanges 100000 (several 32) `shouldBe` Parts [ByteRange n n | n <- [0, 2 .. 62]]
  describe "Content-Range" $ do
    it "of a part" $ contentRange 1234 (ByteRange 42 1233) `shouldBe` "bytes 42-1233/1234"
    it "of a 416" $ unsatisfiedRange 47022 `shouldBe` "bytes */47022"
  where
    selects size header expected =
      it (show header <> " of " <> show size) $ selectRanges size header `shouldBe` expected
