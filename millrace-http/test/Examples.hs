-- Must not know: servers.

-- | Runs examples, in the order in which they are written: each with a time limit, and without those that do not hold.
module Examples (LeftOut (..), runExamples, findUnknown) where

import Control.Concurrent.Async (AsyncCancelled (..))
import Control.Exception (evaluate, toException)
import Control.Monad (filterM, unless, void)
import Data.List (isInfixOf)
import Foreign.StablePtr (newStablePtr)
import System.Exit (die)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, expectationFailure)
import Test.Hspec.Runner (Config (..), Summary (..), defaultConfig, hspecWith, runSpec)

-- | Examples that are not run: those within such groups (from the outermost on) with one of these texts as a part of
-- their name, or of the name of one of their groups.
data LeftOut = LeftOut
  { leftOutWithin :: [String] -> Bool,
    leftOutParts :: [String]
  }

isLeftOutBy :: LeftOut -> ([String], String) -> Bool
isLeftOutBy (LeftOut within parts) (groups, name) =
  within groups && any (\part -> any (part `isInfixOf`) (name : groups)) parts

-- | Runs all but those that are left out, and ends the process. It fails before the first one if a part is in no name,
-- because then an example runs that was to be left out: it has another name now.
runExamples :: [LeftOut] -> Spec -> IO ()
runExamples leftOut examples = do
  -- So that the last line of an output that ends too early says where.
  hSetBuffering stdout LineBuffering
  unknown <- findUnknown leftOut examples
  unless (null unknown) $ die ("no example that could be left out has this in its name: " ++ show unknown)
  keepInstance
  hspecWith
    defaultConfig {configSkipPredicate = Just (\title -> any (`isLeftOutBy` title) leftOut)}
    (around_ limited examples)
  where
    -- A test that hangs fails, with its name.
    limited test = timeout 180000000 test >>= maybe (expectationFailure "not done after 180 s") return

-- | The parts that are in the name of no example. Runs none.
findUnknown :: [LeftOut] -> Spec -> IO [String]
findUnknown leftOut examples =
  map snd <$> filterM isUnknown [(leftOutWithin some, part) | some <- leftOut, part <- leftOutParts some]
  where
    isUnknown (within, part) = (== 0) . summaryExamples <$> runSpec examples (only (LeftOut within [part]))
    only some =
      defaultConfig
        { configDryRun = True,
          configFilterPredicate = Just (isLeftOutBy some),
          configFormat = Just (\_ -> return (\_ -> return ()))
        }

-- Examples cancel threads. With GHC 9.0 the instance of that exception may lose what it refers to once no code has
-- needed it for a while: see docs/HACKING.md. So it is always needed.
keepInstance :: IO ()
keepInstance = evaluate (toException AsyncCancelled) >>= void . newStablePtr
