{-# LANGUAGE OverloadedStrings #-}

-- | How much processor time the program takes until it serves.
module Millrace.Cli.Serve.StartSpec (spec) where

import Program
import Site (withDirectory, write)
import System.FilePath ((</>))
import System.Process (getPid, readProcess)
import Test.Hspec

-- Machines that run tests are slow, and programs that are tested need not be optimized.
patience :: Double
patience = 4

spec :: Spec
spec = do
  it "a thousand sites are loaded in a second" . withDirectory $ \folder -> do
    write folder "site/index.html" "one of many"
    writeFile (folder </> "m.yaml") . unlines $
      ["listen: {http: 127.0.0.1:0}", "sites:"]
        <> concat
          [ ["  - hosts: site" <> show number <> ".example", "    files: " <> folder </> "site"]
            | number <-
                [1 .. 1000 :: Int]
          ]
    path <- millracePath
    -- The second line has what the shell's children have used.
    used <-
      within
        60
        "the check"
        (readProcess "bash" ["-c", "\"$0\" check \"$1\" > /dev/null && times", path, folder </> "m.yaml"] "")
    sum (map seconds (concatMap words (drop 1 (lines used)))) `shouldSatisfy` (< patience)
    withServer ["run", folder </> "m.yaml"] $ \server ->
      curl ["--header", "Host: site1000.example", serverUrl server] `shouldReturn` "one of many"
  it "the first answer comes after 50 milliseconds" . withDirectory $ \folder -> do
    write folder "index.html" "first"
    withServer ["serve", folder, "--port", "0"] $ \server -> do
      curl [serverUrl server] `shouldReturn` "first"
      Just number <- getPid (serverProcess server)
      -- proc(5): the name may have blanks, and ends with a parenthesis; user and system time are the twelfth and
      -- thirteenth behind it.
      fields <- words . drop 2 . dropWhile (/= ')') <$> readFile ("/proc/" <> show number <> "/stat")
      ticks <- read <$> readProcess "getconf" ["CLK_TCK"] ""
      sum (map read (take 2 (drop 11 fields))) / ticks `shouldSatisfy` (< patience * 0.05)
  where
    -- As the shell writes it: 0m1.234s.
    seconds :: String -> Double
    seconds text = case break (== 'm') text of
      (minutes, rest) -> 60 * read minutes + read (takeWhile (/= 's') (drop 1 rest))
