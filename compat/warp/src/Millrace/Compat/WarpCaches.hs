{-# LANGUAGE CPP #-}

-- Must not know: connections.

-- | The caches of Warp's internal interface, for programs that use them without a server: of the date, of information
-- about files, and of descriptors.
module Millrace.Compat.WarpCaches
  ( -- * Date
    GMTDate,
    withDateCache,

    -- * Information about files
    FileInfo (..),
    withFileInfoCache,
    getInfo,

    -- * Descriptors
    Fd,
    Refresh,
    withFdCache,
    openFile,
    closeFile,
    setFileCloseOnExec,
  )
where

import Control.Exception (bracket)
import Data.ByteString (ByteString)
import Millrace.Http.Date (currentSeconds, formatHttpDate)
import Millrace.Http.FileCache (FileInfo (..), closeFileCache, fileInfo, newFileCache)
import System.Posix.IO
import System.Posix.Types (Fd)

-- | The value of a Date field.
type GMTDate = ByteString

-- | Runs an action with one that returns the current date. Here it is computed anew when it is asked for, which takes
-- less than looking into a cache of another thread would.
withDateCache :: (IO GMTDate -> IO a) -> IO a
withDateCache use = use (formatHttpDate <$> currentSeconds)

-- | @withFileInfoCache micros use@ runs @use@ with a function that returns information about a file and keeps it for
-- this many microseconds; 0: not at all. The function throws an @IOError@ for a file that cannot be read.
withFileInfoCache :: Int -> ((FilePath -> IO FileInfo) -> IO a) -> IO a
withFileInfoCache micros use = bracket (newFileCache 0 micros) closeFileCache (use . fileInfo)

-- | Information about a file, as it is now. Throws an @IOError@ if it cannot be read.
getInfo :: FilePath -> IO FileInfo
getInfo path = withFileInfoCache 0 ($ path)

-- | An action that marks the entry of a cache as used.
type Refresh = IO ()

-- | Runs an action with a function that returns a file's descriptor. Here it returns none, as Warp's does with a
-- duration of 0: Millrace's descriptors stay within the server, which counts their users ('setFdCacheDuration').
withFdCache :: Int -> ((FilePath -> IO (Maybe Fd, Refresh)) -> IO a) -> IO a
withFdCache _ use = use (const (return (Nothing, return ())))

-- | Opens a file for reading. The descriptor is not passed on to programs that the process starts.
openFile :: FilePath -> IO Fd
openFile path = do
  fd <- openForReading path
  fd <$ setFileCloseOnExec fd

#if MIN_VERSION_unix(2,8,0)
openForReading :: FilePath -> IO Fd
openForReading path = openFd path ReadOnly defaultFileFlags {cloexec = True}
#else
openForReading :: FilePath -> IO Fd
openForReading path = openFd path ReadOnly Nothing defaultFileFlags
#endif

-- | Closes a descriptor of 'openFile'.
closeFile :: Fd -> IO ()
closeFile = closeFd

-- | Programs that the process starts do not get this descriptor.
setFileCloseOnExec :: Fd -> IO ()
setFileCloseOnExec fd = setFdOption fd CloseOnExec True
