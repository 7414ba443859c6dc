{-# LANGUAGE OverloadedStrings #-}

-- | A counter in a file, on a thousand simulated machines whose power fails at any moment. A number that was once
-- returned is never returned again, and the file is never torn.
module Main (main) where

import Control.Exception (throwIO, try)
import Control.Monad (forM)
import qualified Data.ByteString.Char8 as Char8
import Millrace.File
import Millrace.File.Temporary (replaceFile)
import Millrace.Simulation
import System.IO.Error (isDoesNotExistError)

main :: IO ()
main = do
  outcomes <- forM [1 .. 1000] $ \seed -> do
    outcome <- simulate (calm seed) (lives 10 [])
    either throwIO return (outcomeResult outcome)
  print (all ascending outcomes, sum (map length outcomes) > 5000)
  where
    ascending numbers = and (zipWith (<) numbers (drop 1 numbers))

-- | Starts the program this many times; each time the power fails within it. Returns all numbers that it has returned.
lives :: Int -> [Int] -> IO [Int]
lives 0 numbers = return (reverse numbers)
lives left numbers = do
  count <- chance 30
  found <- untilCrash (count + 1) next
  lives (left - 1) (maybe numbers (: numbers) found)

-- | The next number. The file has it when it is returned.
next :: IO Int
next = do
  found <- try (withFile "counter" ForReading (\file -> readAt file 0 20))
  number <- either (\problem -> if isDoesNotExistError problem then return 0 else throwIO problem) parse found
  replaceFile "counter" (\file -> writeAt file 0 (Char8.pack (show (number + 1))))
  return (number + 1)
  where
    parse text = case Char8.readInt text of
      Just (number, "") -> return number
      _ -> fail ("the file is torn: " ++ show text)
