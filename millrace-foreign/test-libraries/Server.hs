-- | The addresses of the servers, and limits on the threads of the process.
module Server
  ( setting,
    withFewThreads,
    measured,
  )
where

import Control.Exception (evaluate)
import GHC.Clock (getMonotonicTime)
import System.Directory (listDirectory)
import System.Environment (getEnv)
import Test.Hspec hiding (before)

-- | A variable that @fiber\/test\/libraries\/run@ sets.
setting :: String -> IO String
setting = getEnv

-- | Runs an action that gets a check: whether the process has few additional threads. If each call had one, there would
-- be hundreds. On a busy machine the run-time system makes some for itself.
withFewThreads :: (IO () -> IO a) -> IO a
withFewThreads action = do
  before <- osThreads
  action (osThreads >>= \now -> now `shouldSatisfy` (<= before + 20))

osThreads :: IO Int
osThreads = listDirectory "/proc/self/task" >>= evaluate . length

-- | How long an action takes.
measured :: IO a -> IO (a, Double)
measured action = do
  begin <- getMonotonicTime
  result <- action
  end <- getMonotonicTime
  return (result, end - begin)
