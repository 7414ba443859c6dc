{-# LANGUAGE OverloadedStrings #-}

-- | Whether a client wants a page.
module Millrace.Cli.Files.AcceptSpec (spec) where

import Control.Monad (forM_)
import Millrace.Cli.Files.Accept
import Test.Hspec

spec :: Spec
spec = do
  forM_ accepting $ \values ->
    it (show values <> " accepts a page") $ acceptsHtml [("Accept", value) | value <- values] `shouldBe` True
  forM_ refusing $ \values ->
    it (show values <> " does not") $ acceptsHtml [("Accept", value) | value <- values] `shouldBe` False
  where
    accepting =
      [ [],
        ["*/*"],
        ["text/*"],
        ["Text/HTML"],
        ["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"],
        ["image/png", "text/html"],
        ["text/html;level=1;q=0.5, */*;q=0"],
        ["text/*;q=0, text/html ; q=0.001"],
        ["text/html;q=x, */*"]
      ]
    refusing =
      [ [""],
        ["image/png"],
        ["application/json, text/plain"],
        ["text/html;q=0, */*"],
        ["text/*;q=0.0, */*"],
        ["*/*;q=0"],
        ["text/html;q=2"]
      ]
