{-# LANGUAGE OverloadedStrings #-}

-- | How output is cut into pieces.
module Millrace.Cli.Base.StandardStreamSpec (spec) where

import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.Base.StandardStream (pieces)
import Test.Hspec

spec :: Spec
spec = describe "the pieces of what is written" $ do
  it "are none of nothing" $ pieces "" `shouldBe` []
  it "are one of what fits into a pipe at once" $ do
    let text = Char8.unlines (replicate 2048 "x")
    pieces text `shouldBe` [text]
  it "end with a line, and nothing is lost" $ do
    let text = Char8.unlines (map (`Char8.replicate` 'x') ([0 .. 300] ++ [4095, 4095, 1]))
    ByteString.concat (pieces text) `shouldBe` text
    map Char8.last (pieces text) `shouldSatisfy` all (== '\n')
    map ByteString.length (pieces text) `shouldSatisfy` all (<= 4096)
  it "cut a line that does not fit" $
    pieces ("before\n" <> Char8.replicate 9000 'x' <> "\nbehind\n")
      `shouldBe` [ "before\n",
                   Char8.replicate 4096 'x',
                   Char8.replicate 4096 'x',
                   Char8.replicate 808 'x'
                     <> "\nbehind\n"
                 ]
