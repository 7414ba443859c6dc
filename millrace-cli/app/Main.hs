-- | The @millrace@ command. Everything is in the library, where the tests can reach it.
module Main (main) where

import qualified Millrace.Cli

main :: IO ()
main = Millrace.Cli.main
