-- | The table of all settings, as text and as JSON.
module Millrace.Cli.Config.ReferenceSpec (spec) where

import Control.Monad (forM_)
import Data.Char (isSpace)
import Data.List (isInfixOf, isPrefixOf, isSuffixOf, nub, stripPrefix)
import Data.Maybe (mapMaybe)
import Millrace.Cli.Config.Reference
import Millrace.Cli.Config.Setting
import Test.Hspec

spec :: Spec
spec = do
  it "has no setting twice in a group, and says of each what it means" $
    forM_ reference $ \(name, rows) -> do
      let names = map rowName rows
      (name, nub names) `shouldBe` (name, names)
      [rowName row | row <- rows, let text = noteText (rowNote row), null text || "." `isSuffixOf` text]
        `shouldBe` []
      [rowName row | row <- rows, null (rowValues row)] `shouldBe` []
  it "links to pages of the guide" $
    [ page
      | (_, rows) <- reference,
        page <- map (notePage . rowNote) rows,
        not (null page),
        takeWhile (/= '#') page `notElem` pages
    ]
      `shouldBe` []
  it "has the same settings as text and as JSON, in the same order" $ do
    let ofText = mapMaybe nameOfLine (lines (referenceText reference))
        ofJson = mapMaybe (stripPrefix "\"name\": \"" . dropWhile isSpace) (lines (referenceJson reference))
    map (takeWhile (/= '"')) ofJson `shouldBe` ofText
    ofText `shouldBe` [rowName row | (_, rows) <- reference, row <- rows]
  it "says the values of a setting, and where to write it" $
    forM_
      [ "  directory DIR  (a directory; argument, and key)",
        "  follow-links  (true or false; usually false)",
        "  cache-seconds SECONDS  (0 to 3600; usually 1)",
        "  send-seconds SECONDS  (1 to 86400; usually 60; key only)"
      ]
      $ \expected -> lines (referenceText reference) `shouldContain` [expected]
  it "says which options there are" $ do
    let options = mapMaybe (stripPrefix "\"option\": \"" . dropWhile isSpace) (lines (referenceJson reference))
    map (takeWhile (/= '"')) options `shouldSatisfy` \all' ->
      all (`elem` all') ["--follow-links", "--limit head-bytes=", "--port", ""]
  it "has no marks of the guide in its text" $ do
    filter ('`' `elem`) (lines (referenceText reference)) `shouldBe` []
    filter ("(see below)" `isInfixOf`) (lines (referenceText reference)) `shouldBe` []
  where
    pages = ["deploying.md", "proxying.md", "platforms.md", "status.md"]
    -- A setting is indented by two spaces, and its meaning by more.
    nameOfLine text
      | "   " `isPrefixOf` text = Nothing
      | otherwise = takeWhile (/= ' ') <$> stripPrefix "  " text
