-- Must not know: servers.

-- | Values that are written as YAML.
module Millrace.Cli.Config.YamlTextSpec (spec) where

import Control.Monad (forM_)
import Data.Text (pack)
import Data.Text.Encoding (encodeUtf8)
import Millrace.Cli.Config.Document (list, pairs, readDocument, renderMistake, text)
import Millrace.Cli.Config.YamlText
import Test.Hspec

spec :: Spec
spec = do
  it "are read back as they were, whatever characters they have" $
    forM_ found $ \one -> do
      readBack (pairs text) (Keys [("key", Text one)]) `shouldBe` Right [("key", one)]
      readBack (pairs text) (Keys [(one, Text "value")]) `shouldBe` Right [(one, "value")]
      readBack (list text) (Items [Text one, Text "other"]) `shouldBe` Right [one, "other"]
  it "need quotes only where they could be something else" $
    map (concat . rendered . Text) ["/srv/a-b_c.d", "true", "1.5", "it's", "a\tb"]
      `shouldBe` ["/srv/a-b_c.d", "'true'", "'1.5'", "'it''s'", "\"a\\U00000009b\""]
  it "stand in lists line by line if they have parts" $
    rendered (Items [Keys [], Keys [("a", Number 1), ("b", Truth False)], Items [Text "x", Text "y"]])
      `shouldBe` ["- {}", "- a: 1", "  b: false", "- [x, y]"]
  where
    readBack reader value =
      either
        (Left . map (renderMistake "file"))
        Right
        (readDocument reader (encodeUtf8 (pack (unlines (rendered value)))))
    found =
      [ "plain",
        "null",
        "False",
        "12",
        "- a",
        "a: b",
        "#",
        "'",
        "\"",
        "\\",
        "a\tb",
        "\"a\\\r\nb\"",
        "\233",
        "\127\128512"
      ]
