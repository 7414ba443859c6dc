-- | A program linked without @-threaded@: the first operation of any kind must report the reason.
module Main (main) where

import Control.Exception (try)
import Control.Monad (forM_, unless, void)
import Data.List (isInfixOf)
import Millrace
import Millrace.Manager
import System.Exit (exitFailure)
import System.Posix.Types (Fd (..))

main :: IO ()
main = do
  outcomes <- mapM attempt firstOperations
  forM_ outcomes putStrLn
  let failed = length (filter ("FAILED" `isInfixOf`) outcomes)
  putStrLn (show (length outcomes - failed) ++ " passed, " ++ show failed ++ " failed")
  unless (failed == 0) exitFailure

firstOperations :: [(String, IO ())]
firstOperations =
  [ ("socket", void (socket AF_INET Stream defaultProtocol)),
    ("socketPair", void (socketPair AF_UNIX Stream defaultProtocol)),
    ("threadDelay", threadDelay 1),
    ("timeout", void (timeout 1000 (return ()))),
    ("registerDelay", void (registerDelay 1)),
    ("threadWaitRead", threadWaitRead (Fd 0)),
    ("loopCount", void loopCount)
  ]

attempt :: (String, IO ()) -> IO String
attempt (name, operation) = do
  outcome <- try operation
  return $
    name ++ ": " ++ case outcome of
      Right () -> "FAILED: it worked without -threaded"
      Left NotThreaded
        | all (`isInfixOf` show NotThreaded) linesToAdd -> "throws NotThreaded"
        | otherwise -> "FAILED: the message does not say what to do"
      Left other -> "FAILED: " ++ show other

-- What makes the program work, for its author and for those who only build it.
linesToAdd :: [String]
linesToAdd = ["\n  ghc-options: -threaded\n", "cabal.project", "\n  package NAME\n    ghc-options: -threaded"]
