-- | The managers: which backend they use, how many loops there are, and counters.
--
-- They start with the first operation, one per capability, and follow 'Control.Concurrent.setNumCapabilities'.
--
-- >>> import Millrace
-- >>> map backendName [minBound ..]
-- ["hybrid","epoll","io_uring","kqueue","iocp"]
-- >>> probeBackend Epoll
-- Nothing
-- >>> begin <- counters
-- >>> sleep (milliseconds 1)
-- >>> end <- counters
-- >>> operations end - operations begin
-- 1
module Millrace.Manager
  ( -- * Backends
    Backend (..),
    backendName,
    selectBackend,
    chosenBackend,
    probeBackend,

    -- * Loops
    loopCount,
    Counters (..),
    counters,
    HelperCounts (..),
    helperCounts,

    -- * Turns
    atNextIteration,

    -- * The run-time system
    RunTimeSystem (..),
    runTimeSystem,

    -- * Version and errors
    version,
    MillraceException (..),
  )
where

import Data.Version (showVersion)
import Data.Word (Word64)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Ptr (Ptr)
import Millrace.Internal.Constants (countersSize)
import Millrace.Internal.CoreCalls (Loop, c_count_helpers, c_counters)
import Millrace.Internal.Manager
import qualified Paths_millrace

-- | Counts of all loops together since the program started.
data Counters = Counters
  { -- | operations that were submitted, timeouts included
    operations :: !Word64,
    -- | operations that have ended
    completions :: !Word64,
    -- | operations that did not complete at once
    parks :: !Word64,
    -- | system calls that the loops have made
    systemCalls :: !Word64,
    -- | times a loop went to sleep
    waits :: !Word64,
    -- | times a sleeping loop was woken by another thread
    wakeUps :: !Word64,
    -- | operations started again, because the operating system thread that had submitted them ended, or because an
    -- accept had no descriptors
    resubmissions :: !Word64,
    -- | operations that are pending now
    inFlight :: !Word64
  }
  deriving (Eq, Show)

-- | Adds up the counters of all loops. They may be a moment old. Does not block.
counters :: IO Counters
counters = do
  loops <- activeLoops
  perLoop <- mapM countersOf loops
  return $ case foldr (zipWith (+)) (replicate (countersSize `div` 8) 0) perLoop of
    [a, b, c, d, e, f, g, h] -> Counters a b c d e f g h
    other -> error ("Millrace.Manager.counters: mr_counters has " ++ show (length other) ++ " fields")

countersOf :: Ptr Loop -> IO [Word64]
countersOf loop = allocaBytes countersSize $ \buffer -> do
  c_counters loop buffer
  peekArray (countersSize `div` 8) buffer

-- | Counts of the helper threads and of their calls. Helper threads make the calls for which the core has no operation
-- ("Millrace.File", "Millrace.Name", ...).
data HelperCounts = HelperCounts
  { -- | threads
    helpersStarted :: !Int,
    -- | threads that have nothing to do; they end after five seconds
    helpersIdle :: !Int,
    -- | calls that wait for a thread
    helpersQueued :: !Int,
    -- | calls that are being made
    helpersRunning :: !Int,
    -- | the most threads that there can be: 64 for files and 32 for names
    helpersMost :: !Int,
    -- | calls that have been made since the program began
    helpersDone :: !Int
  }
  deriving (Eq, Show)

-- | Reads these counts. All are 0 on Windows. Does not block.
helperCounts :: IO HelperCounts
helperCounts = allocaBytes (6 * 8) $ \memory -> do
  c_count_helpers memory
  numbers <- peekArray 6 memory
  case map fromIntegral numbers of
    [started, idle, queued, running, most, done] -> return (HelperCounts started idle queued running most done)
    _ -> error "Millrace.Manager.helperCounts: six numbers were asked for"

-- | The number of loops. Starts the managers if they do not run yet.
loopCount :: IO Int
loopCount = ensureManagers >> length <$> activeLoops

-- | The version of this package.
version :: String
version = showVersion Paths_millrace.version
