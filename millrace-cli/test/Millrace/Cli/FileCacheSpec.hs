{-# LANGUAGE OverloadedStrings #-}

module Millrace.Cli.FileCacheSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.FileCache
import Test.Hspec

spec :: Spec
spec = do
  it "gives back what it was given, for that path" $ do
    cache <- newCache 60000000
    remember cache "/a" 1 'a'
    remember cache "/b" 1 'b'
    mapM (recall cache) ["/a", "/b", "/c"] `shouldReturn` [Just 'a', Just 'b', Nothing]
  it "gives back what it was given last" $ do
    cache <- newCache 60000000
    mapM_ (remember cache "/a" 20000000) ['x', 'y', 'z']
    recall cache "/a" `shouldReturn` Just 'z'
  it "forgets after a time" $ do
    cache <- newCache 50000
    remember cache "/a" 1 'a'
    threadDelay 60000
    recall cache "/a" `shouldReturn` Nothing
  it "never holds more than 32 MiB" $ do
    cache <- newCache 60000000
    let paths = [Char8.pack (show number) | number <- [1 .. 33 :: Int]]
    forM_ paths $ \path -> remember cache path 1048576 'x'
    mapM (recall cache) paths `shouldReturn` replicate 32 Nothing ++ [Just 'x']
