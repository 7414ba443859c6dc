{-# LANGUAGE OverloadedStrings #-}

-- | The encoders: what they make can be undone, within its bound, and failures are told.
module Millrace.Cli.Files.CompressionSpec (spec) where

import Control.Exception (throwIO)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (atomicModifyIORef', newIORef)
import Data.List (unfoldr)
import Data.Word (Word32)
import Decompression
import Millrace.Cli.Files.Compression
import Millrace.Cli.Files.ContentCoding (Coding (..))
import Test.Hspec

spec :: Spec
spec = do
  it "knows the codings that are served" $ map codingName compressionCodings `shouldBe` ["br", "zstd", "gzip"]
  forM_ compressionCodings $ \coding -> describe (Char8.unpack (codingName coding)) $ do
    forM_ [(1, 1), (1000, 7), (65535, 65536), (65536, 65536), (65537, 65536), (500000, 65536), (500000, 500000)] $
      \(size, piece) ->
        it (show size <> " bytes of text in pieces of " <> show piece) $ do
          let content = ByteString.take size text
          result <- inPieces coding size (size + 1000) (pieces piece content)
          traverse (decompressed (codingName coding)) result `shouldReturn` Just content
    it "random bytes" $ do
      result <- inPieces coding 300000 400000 (pieces 65536 (random 300000))
      traverse (decompressed (codingName coding)) result `shouldReturn` Just (random 300000)
    it "makes text much smaller" $ do
      result <- inPieces coding 500000 500000 (pieces 65536 (ByteString.take 500000 text))
      fmap ByteString.length result `shouldSatisfy` maybe False (< 150000)
    it "gives up what would be too large" $ do
      inPieces coding 300000 299999 (pieces 65536 (random 300000)) `shouldReturn` Nothing
      inPieces coding 1000 10 (pieces 1000 (ByteString.take 1000 text)) `shouldReturn` Nothing
    it "throws what reading throws" $
      compressed coding 1000 1000 (throwIO (userError "no disk")) `shouldThrow` (== userError "no disk")
  it "says that there is no encoder" $
    inPieces (Coding "x" ".x") 1 1 ["x"] `shouldThrow` (== NoEncoder (Coding "x" ".x"))

inPieces :: Coding -> Int -> Int -> [ByteString] -> IO (Maybe ByteString)
inPieces coding size most parts = do
  left <- newIORef parts
  compressed coding (fromIntegral size) most (atomicModifyIORef' left next)
  where
    next now = case now of
      part : rest -> (rest, part)
      [] -> ([], "")

pieces :: Int -> ByteString -> [ByteString]
pieces size = unfoldr (\rest -> if ByteString.null rest then Nothing else Just (ByteString.splitAt size rest))

text :: ByteString
text =
  Char8.unlines ["line " <> Char8.pack (show number) <> " of a text that says little" | number <- [1 .. 20000 :: Int]]

-- A linear congruential generator's upper bytes.
random :: Int -> ByteString
random size =
  fst
    ( ByteString.unfoldrN
        size
        (\state -> Just (fromIntegral (state `div` 16777216), state * 1664525 + 1013904223))
        (1 :: Word32)
    )
