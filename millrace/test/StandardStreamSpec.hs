{-# LANGUAGE OverloadedStrings #-}

-- | Lines on standard error, and how output is cut into pieces.
module StandardStreamSpec (spec) where

import Control.Concurrent (threadDelay)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Internal.StandardStream
import System.Environment (getProgName)
import Test.Hspec
import TestSupport.Folder (standardErrorOf)

spec :: Spec
spec = do
  describe "a limiter" $
    it "prints some lines of a second, and then how many were left out, also if no more come" $ do
      name <- getProgName
      printed <- newIORef []
      limiter <- newLimiter 2
      let printing text = atomicModifyIORef' printed (\others -> (others ++ [text], ()))
          awaiting count = do
            lines' <- readIORef printed
            if length lines' >= count then return lines' else threadDelay 10000 >> awaiting count
      mapM_ (limited limiter printing) ["1", "2", "3", "4", "5"]
      let first = ["1", "2", name ++ ": 3 more lines were left out"]
      awaiting 3 `shouldReturn` first
      mapM_ (limited limiter printing) ["6", "7", "8"]
      awaiting 6 `shouldReturn` first ++ ["6", "7", name ++ ": 1 more line was left out"]
  describe "a line" $ do
    it "is one whatever the text, and moves no cursor" $ do
      oneLine "a\n  b\ESC[2J\DEL" `shouldBe` "a b\\x1b[2J\\x7f"
      oneLine "\228\8364\xdce4" `shouldBe` "\228\8364\xdce4"
    it "is written by one call, and not at all where standard error is closed" $
      standardErrorOf (printLine "\228?") >>= (`shouldSatisfy` (`elem` ["\228?\n", "??\n"]))
  describe "the pieces of what is written" piecesSpec

piecesSpec :: Spec
piecesSpec = do
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
