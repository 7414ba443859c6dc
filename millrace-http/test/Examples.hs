-- Must not know: servers.

-- | Runs examples, in the order in which they are written: each with a time limit, and without those that do not hold.
module Examples (Title, isAbout, runExamples) where

import Control.Concurrent.Async (AsyncCancelled (..))
import Control.Exception (evaluate, toException)
import Control.Monad (void)
import Data.List (isInfixOf)
import Foreign.StablePtr (newStablePtr)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import System.Timeout (timeout)
import Test.Hspec (Spec, around_, expectationFailure)
import Test.Hspec.Runner (Config (..), defaultConfig, hspecWith)

-- | The groups that an example is in, and its name.
type Title = ([String], String)

-- | Whether one of these texts is part of the name of an example or of one of its groups.
isAbout :: [String] -> Title -> Bool
isAbout parts (groups, name) = any (\part -> any (part `isInfixOf`) (name : groups)) parts

-- | Runs all but those that are left out, and ends the process.
runExamples :: (Title -> Bool) -> Spec -> IO ()
runExamples isLeftOut examples = do
  -- So that the last line of an output that ends too early says where.
  hSetBuffering stdout LineBuffering
  keepInstance
  hspecWith defaultConfig {configSkipPredicate = Just isLeftOut} (around_ limited examples)
  where
    -- A test that hangs fails, with its name.
    limited test = timeout 180000000 test >>= maybe (expectationFailure "not done after 180 s") return

-- Examples cancel threads. With GHC 9.0 the instance of that exception may lose what it refers to once no code has
-- needed it for a while: see docs/HACKING.md. So it is always needed.
keepInstance :: IO ()
keepInstance = evaluate (toException AsyncCancelled) >>= void . newStablePtr
