{-# LANGUAGE OverloadedStrings #-}

-- | Rules for Cache-Control: which are understood, and for which files they are.
module Millrace.Cli.Files.CacheRuleSpec (spec) where

import Control.Monad (forM_)
import Data.Either (isLeft)
import Millrace.Cli.Files.CacheRule
import Test.Hspec

spec :: Spec
spec = do
  forM_ fitting $ \(glob, names) ->
    it (glob <> " is for " <> show names) $ applied [(glob, "x")] names `shouldBe` Right (Just "x")
  forM_ other $ \(glob, names) ->
    it (glob <> " is not for " <> show names) $ applied [(glob, "x")] names `shouldBe` Right Nothing
  forM_ malformed $ \rule -> it (show rule <> " is refused") $ readCacheRule rule `shouldSatisfy` isLeft
  it "the last rule that fits decides" $ do
    let rules = [("/", "1"), ("*.css", "2"), ("/assets/", "3"), ("/assets/a.css", "4")]
    map (applied rules) [["b"], ["b.css"], ["assets", "b.css"], ["assets", "a.css"]]
      `shouldBe` map (Right . Just) ["1", "2", "3", "4"]
    applied (reverse rules) ["assets", "a.css"] `shouldBe` Right (Just "1")
  it "the value may have equals signs, and the pattern may not" $
    fmap (\rule -> (rulePattern rule, ruleValue rule)) (readCacheRule "/a=max-age=60, immutable")
      `shouldBe` Right ("/a", "max-age=60, immutable")
  where
    applied rules names = (`cacheControl` names) <$> traverse (uncurry cacheRule) rules
    fitting =
      [ ("/", ["a"]),
        ("/", ["a", "b.css"]),
        ("/assets/", ["assets", "a.js"]),
        ("/assets", ["assets", "deep", "a.js"]),
        ("/sw.js", ["sw.js"]),
        ("/a/b/", ["a", "b", "c"]),
        ("/\233", ["\195\169"]),
        ("*.css", ["a.css"]),
        ("*.css", ["deep", "A.CSS"]),
        ("*.tar.gz", ["a.tar.gz"])
      ]
    other =
      [ ("/assets/", ["assets2", "a.js"]),
        ("/sw.js", ["sw.js.map"]),
        ("/a/b", ["a"]),
        ("/b", ["a", "b"]),
        ("*.css", ["css"]),
        ("*.css", ["a.css.map"]),
        ("*.css", ["a.css", "b"])
      ]
    malformed =
      [ "",
        "/",
        "/a",
        "=x",
        "a=x",
        "*=x",
        "*.=x",
        "*.a/b=x",
        "*.*=x",
        "//=x",
        "/a//b=x",
        "/a=",
        "/a= x",
        "/a=x ",
        "/a=x\ny",
        "/a=x\233"
      ]
