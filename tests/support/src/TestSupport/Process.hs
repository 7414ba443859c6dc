{-# LANGUAGE CApiFFI #-}

-- | Child processes, and the descriptors and the memory of this one.
module TestSupport.Process
  ( -- * Child processes
    forked,
    succeeds,
    inChild,

    -- * This process
    openToRead,
    descriptorCount,
    awaitTicker,
    withoutNewDescriptors,
    liveBytes,
    residentKilobytes,
    keepingCapabilities,
  )
where

import Control.Concurrent (getNumCapabilities, setNumCapabilities, threadDelay)
import Control.Exception (IOException, SomeException, bracket, catch, evaluate, try)
import Control.Monad (unless)
import Foreign.C.Error (throwErrnoPathIfMinus1)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import System.Directory (listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (hPutStrLn, stderr)
import System.Mem (performMajorGC)
import System.Posix.Files (readSymbolicLink)
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessStatus)
import System.Posix.Resource
  ( Resource (ResourceOpenFiles),
    ResourceLimit (..),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import System.Posix.Types (Fd (..), ProcessID)
import TestSupport.Failure (require)
import TestSupport.Time (within)

-- | Starts a child that runs an action for at most fifteen seconds, and exits with success unless that throws.
forked :: IO () -> IO ProcessID
forked action = forkProcess $ do
  outcome <- try (within 15 "the child" action) :: IO (Either SomeException ())
  case outcome of
    Right () -> exitImmediately ExitSuccess
    Left problem -> hPutStrLn stderr ("in the child: " ++ show problem) >> exitImmediately (ExitFailure 1)

-- | Waits for a child's end. Fails unless it exits with success.
succeeds :: ProcessID -> IO ()
succeeds child = within 20 "the child's end" $ do
  status <- getProcessStatus True False child
  require (status == Just (Exited ExitSuccess)) ("the child ended with " ++ show status)

-- | Runs an action in a child. Fails if the action throws.
inChild :: IO () -> IO ()
inChild action = forked action >>= succeeds

-- | Opens a file or a directory. The function of the package unix has other arguments since version 2.8.
openToRead :: FilePath -> IO Fd
openToRead path = Fd <$> throwErrnoPathIfMinus1 "open" path (withCString path (`c_open` 0))

foreign import capi unsafe "fcntl.h open" c_open :: CString -> CInt -> IO CInt

-- | The number of open descriptors.
descriptorCount :: IO Int
descriptorCount = awaitTicker >> length <$> listDirectory descriptorFolder

-- | Waits, for at most a second, until the run-time system's ticker has its descriptor. It takes it in a thread that
-- starts with the program and may be late on a busy machine, and ends the program if there is none left. Other systems
-- than Linux need none.
awaitTicker :: IO ()
awaitTicker = go (100 :: Int)
  where
    go tries = do
      links <- listDirectory descriptorFolder >>= mapM (target . (descriptorFolder </>))
      unless ("anon_inode:[timerfd]" `elem` links || tries == 0) (threadDelay 10000 >> go (tries - 1))
    -- Some are closed meanwhile: the one that the listing was read from, for example.
    target link = readSymbolicLink link `catch` gone
    gone :: IOException -> IO FilePath
    gone _ = return ""

-- | Runs an action while this process can open no descriptor. Those that are open stay so. Not for a child of
-- 'forked': its ticker takes a new descriptor, some time after the fork, and ends the child if there is none.
withoutNewDescriptors :: IO a -> IO a
withoutNewDescriptors action = do
  awaitTicker
  before <- getResourceLimit ResourceOpenFiles
  let allow = setResourceLimit ResourceOpenFiles
  bracket (allow before {softLimit = ResourceLimit 0}) (\() -> allow before) (\() -> action)

descriptorFolder :: FilePath
descriptorFolder = "/proc/self/fd"

-- | Runs a full collection, and returns the number of bytes that are left. Needs @+RTS -T@.
liveBytes :: IO Int
liveBytes = do
  performMajorGC
  fromIntegral . gcdetails_live_bytes . gc <$> getRTSStats

-- | The physical memory of this process.
residentKilobytes :: IO Int
residentKilobytes = do
  status <- readFile "/proc/self/status"
  value <- evaluate (sum [read number | ["VmRSS:", number, "kB"] <- map words (lines status)])
  value <$ evaluate (length status)

-- | Runs an action that may change the number of capabilities, and then restores that number.
keepingCapabilities :: IO a -> IO a
keepingCapabilities action = bracket getNumCapabilities setNumCapabilities (const action)
