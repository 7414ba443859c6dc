-- | Seeds of simulated machines.
module TestSupport.Machine
  ( firstSeed,
    machineSeeds,
    forSeeds,
  )
where

import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

-- | The first seed of tests that run several simulated machines: 1, or @MILLRACE_FIRST_SEED@ in the environment.
firstSeed :: IO Word64
firstSeed = maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MILLRACE_FIRST_SEED"

-- | A number of seeds, from the first one.
machineSeeds :: Int -> IO [Word64]
machineSeeds count = (\first -> take count [first ..]) <$> firstSeed

-- | Runs a test with each of a number of seeds.
forSeeds :: Int -> (Word64 -> IO ()) -> IO ()
forSeeds count test = machineSeeds count >>= mapM_ test
