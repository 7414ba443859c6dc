-- | Reads names of hosts, one a line, and prints their addresses, or why there are none. All are looked up at the same
-- time, for at most five seconds.
module Main (main) where

import Control.Concurrent.Async (mapConcurrently)
import Control.Exception (IOException, catch, try)
import Data.List (nub)
import Millrace.Deadline
import Millrace.Name
import Millrace.Socket (AddrInfo (..))

main :: IO ()
main = do
  names <- lines <$> getContents
  deadline <- deadlineAfter 5000000
  mapConcurrently (check deadline) names >>= mapM_ putStrLn

check :: Deadline -> String -> IO String
check deadline name = (look `catch` late) >>= \text -> return (name ++ ": " ++ text)
  where
    look = either (show . nameProblem) found <$> try (lookUpBefore deadline (host name "0"))
    found = unwords . nub . map (takeWhile (/= ':') . show . addrAddress)
    late :: IOException -> IO String
    late problem = return (if isDeadlineError problem then "no answer in time" else show problem)
