-- | Reads names of hosts, one a line, and prints their addresses, or why there are none. All are looked up at the same
-- time, for at most five seconds.
module Main (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.Exception (try)
import Data.List (nub)
import Millrace.Deadline
import Millrace.Name
import Millrace.Socket (AddrInfo (..))

main :: IO ()
main = do
  names <- lines <$> getContents
  deadline <- deadlineAfter (seconds 5)
  mapConcurrently (check deadline) names >>= mapM_ putStrLn

check :: Deadline -> String -> IO String
check deadline name = (++) (name ++ ": ") . either why found <$> try (lookUpBefore deadline (host name "0"))
  where
    found = unwords . nub . map (takeWhile (/= ':') . show . addrAddress)
    why problem
      | isDeadlineError problem = "no answer in time"
      | otherwise = maybe (show problem) show (nameProblem problem)
