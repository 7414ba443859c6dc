-- | Where the servers are, and what a test may take of the machine.
module Server
  ( setting,
    withFewThreads,
    seconds,
  )
where

import Control.Exception (evaluate)
import GHC.Clock (getMonotonicTime)
import System.Directory (listDirectory)
import System.Environment (getEnv)
import Test.Hspec hiding (before)

-- | A setting that @fiber\/test\/libraries\/run@ makes.
setting :: String -> IO String
setting = getEnv

-- | What runs inside may ask, at its busiest, whether the process has got no more than so many threads.
withFewThreads :: Int -> (IO () -> IO a) -> IO a
withFewThreads more action = do
  before <- osThreads
  action (osThreads >>= \now -> now `shouldSatisfy` (<= before + more))

osThreads :: IO Int
osThreads = listDirectory "/proc/self/task" >>= evaluate . length

-- | How long an action takes.
seconds :: IO a -> IO (a, Double)
seconds action = do
  begin <- getMonotonicTime
  result <- action
  end <- getMonotonicTime
  return (result, end - begin)
