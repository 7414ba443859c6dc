-- | Temporary files, and replacing a file so that a crash leaves either the old or the new one.
--
-- > main = replaceFile "settings" (\file -> writeAt file 0 "colour = green\n")
--
-- All functions are interruptible, and leave nothing behind when they are interrupted. 'Millrace.Timer.finishBefore'
-- gives any of them a deadline. They throw an 'IOError' that names the function and the path. In "Millrace.Simulation"
-- they work on the simulated machine, which can crash.
--
-- >>> import Millrace.File
-- >>> replaceFile "example" (\file -> writeAt file 0 "first")
-- >>> replaceFile "example" (\file -> writeAt file 0 "second")
-- >>> withFile "example" ForReading (\file -> readAt file 0 100)
-- "second"
-- >>> removeFile "example"
-- >>> withTemporaryFile "." "example" (\path file -> writeAt file 0 "text" >> fileSize file)
-- 4
module Millrace.File.Temporary
  ( withTemporaryFile,
    withTemporaryDirectory,
    withNamelessFile,
    replaceFile,
  )
where

import Control.Exception (SomeException, catch, mask, onException, throwIO, try, uninterruptibleMask_)
import Control.Monad (unless, void)
import Data.Bits (bit, shiftR, xor)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (FunPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Directory (Permissions (..), Status (..), removeTree, rename, setPermissions, status)
import Millrace.File (Mode (..), closeFile, sync, withFile)
import Millrace.Internal.Constants.Files
import Millrace.Internal.CoreCalls (isSimulatedHere)
import Millrace.Internal.File
import Millrace.Internal.FileJob
import Millrace.Timer (threadDelay)
import Numeric (showHex)
import System.IO.Error (ioeSetFileName, isAlreadyExistsError, isDoesNotExistError, modifyIOError)
import System.IO.Unsafe (unsafePerformIO)

foreign import ccall "&mrh_do_open" c_open :: FunPtr Work

foreign import ccall "&mrh_do_open_temporary" c_open_temporary :: FunPtr Work

foreign import ccall "&mrh_do_mkdir" c_mkdir :: FunPtr Work

foreign import ccall "&mrh_do_unlink" c_unlink :: FunPtr Work

foreign import ccall unsafe "mrh_simulation_random_here" c_chance :: Word64 -> IO Word64

foreign import ccall unsafe "getpid" c_getpid :: IO CInt

-- | @withTemporaryFile directory prefix action@ makes a file that only this user may open, in the directory and with a
-- name that begins with the prefix. It is closed and removed when the action has ended.
withTemporaryFile :: FilePath -> String -> (FilePath -> File -> IO a) -> IO a
withTemporaryFile directory prefix action = mask $ \restore -> do
  file@(File _ path _) <- create "Millrace.File.Temporary.withTemporaryFile" (directory `slash` prefix) 0o600
  outcome <- try (restore (action path file))
  uninterruptibleMask_ (discard file)
  either (throwIO :: SomeException -> IO a) return outcome

-- | Makes a directory that only this user may use, in another one and with a name that begins with the prefix. When the
-- action has ended, it is removed with everything in it.
withTemporaryDirectory :: FilePath -> String -> (FilePath -> IO a) -> IO a
withTemporaryDirectory directory prefix action = mask $ \restore -> do
  path <- withNewName "Millrace.File.Temporary.withTemporaryDirectory" (directory `slash` prefix) makeOne
  outcome <- try (restore (action path))
  uninterruptibleMask_ (removeAtLast 50 path)
  either (throwIO :: SomeException -> IO a) return outcome
  where
    makeOne function path = do
      name <- pathBytes function path
      path <$ (runJob (job c_mkdir [0o700] [name]) {jobDispose = \_ -> removeAtLast 50 path} >>= named function path)

-- | Makes a file without a name on the file system of that directory: no other program can open it, and nothing of it
-- remains, even after a crash. Not on every file system (@EOPNOTSUPP@).
withNamelessFile :: FilePath -> (File -> IO a) -> IO a
withNamelessFile directory action = mask $ \restore -> do
  name <- pathBytes function directory
  file <- openFor function directory ThroughMemory (closing (job c_open_temporary [0o600] [name]))
  result <- restore (action file) `onException` uninterruptibleMask_ (closeFile file `catch` ignore)
  result <$ closeFile file
  where
    function = "Millrace.File.Temporary.withNamelessFile"

-- | @replaceFile path write@ replaces a file, or creates it, with the contents that @write@ writes into an empty one.
-- At every moment, also after a crash of the program or the system, the path means either the old file or all of the
-- new one; when 'replaceFile' has returned, it means the new one. If @write@ throws or is interrupted, nothing has
-- changed.
--
-- The new file has the permissions of the old one, or @rw-r--r--@. A symbolic link is replaced itself. Other names of
-- the old file (hard links) keep the old contents.
replaceFile :: FilePath -> (File -> IO a) -> IO a
replaceFile path write = mask $ \restore -> do
  old <- try (status path)
  permissions <- either unlessMissing (return . statusPermissions) old
  file@(File handle new access) <-
    naming (create "Millrace.File.Temporary.replaceFile" (directory `slash` ('.' : base)) 0o600)
  (`onException` uninterruptibleMask_ (discard file)) $ do
    result <- restore (write (File handle path access))
    naming (setPermissions new permissions)
    naming (sync file >> rename new path)
    -- From here on there is no file to remove.
    closeFile file `catch` ignore
    withFile (if null directory then "." else directory) ForReading sync
    return result
  where
    (directory, base) = splitName path
    -- Errors are about the file that the caller knows.
    naming = modifyIOError (`ioeSetFileName` path)
    unlessMissing problem
      | isDoesNotExistError problem = return (Permissions 0o644)
      | otherwise = throwIO (problem :: IOError)

ignore :: IOError -> IO ()
ignore _ = return ()

-- A call that continues after its caller may still create a file in the directory. Then removing is tried again.
removeAtLast :: Int -> FilePath -> IO ()
removeAtLast left path = removeTree path `catch` again
  where
    again problem = unless (left == 0 || isDoesNotExistError problem) (threadDelay 2000 >> removeAtLast (left - 1) path)

-- Closes and removes a file, and ignores errors. Call it uninterruptibly.
discard :: File -> IO ()
discard file@(File _ path _) = do
  closeFile file `catch` ignore
  removeQuietly path

removeQuietly :: FilePath -> IO ()
removeQuietly path = (pathBytes "removing" path >>= \name -> void (runJob (job c_unlink [0] [name]))) `catch` ignore

-- A new file whose path begins like this. Masked: the caller must remove it.
create :: String -> FilePath -> Int64 -> IO File
create function beginning permissions = withNewName function beginning $ \_ path -> do
  name <- pathBytes function path
  openFor
    function
    path
    ThroughMemory
    (job c_open [openReadWrite + openCreate + openExclusive, permissions] [name])
      { jobDispose =
          \number -> closeNumber (fromIntegral number) >> removeQuietly path
      }

-- Tries names until one is new.
withNewName :: String -> FilePath -> (String -> FilePath -> IO a) -> IO a
withNewName function beginning make = go (100 :: Int)
  where
    go left = do
      suffix <- newSuffix
      make function (beginning ++ "." ++ suffix) `catch` \problem ->
        if isAlreadyExistsError problem && left > 0 then go (left - 1) else throwIO problem

-- Hard to guess for others, and unique in this process.
newSuffix :: IO String
newSuffix = do
  isSimulated <- isSimulatedHere
  if isSimulated then (`showHex` "") <$> c_chance (bit 40) else newRealSuffix

newRealSuffix :: IO String
newRealSuffix = do
  count <- atomicModifyIORef' counter (\n -> (n + 1, n))
  now <- monotonicNanoseconds
  process <- c_getpid
  return (showHex (mixed (now `xor` mixed (fromIntegral process * 65537 + count))) "")
  where
    mixed :: Word64 -> Word64
    mixed word =
      let a = (word `xor` (word `shiftR` 30)) * 0xbf58476d1ce4e5b9
          b = (a `xor` (a `shiftR` 27)) * 0x94d049bb133111eb
       in b `xor` (b `shiftR` 31)

counter :: IORef Word64
counter = unsafePerformIO (newIORef 0)
{-# NOINLINE counter #-}

slash :: FilePath -> FilePath -> FilePath
slash directory name
  | null directory || last directory == '/' = directory ++ name
  | otherwise = directory ++ '/' : name

splitName :: FilePath -> (FilePath, FilePath)
splitName path = case break (== '/') (reverse path) of
  (backwards, "") -> ("", reverse backwards)
  (backwards, rest) -> (reverse rest, reverse backwards)
