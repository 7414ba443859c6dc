-- | A program of a package that depends on this one, and makes no calls itself: it must link.
module Main (main) where

main :: IO ()
main = putStrLn "1 passed, 0 failed"
