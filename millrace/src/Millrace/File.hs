-- | Regular files, read and written at given offsets. A file has no current position, so threads can share it.
--
-- > main = withFile "journal" ForUpdating $ \journal -> do
-- >   end <- fileSize journal
-- >   writeAt journal end "one line more\n"
-- >   sync journal
--
-- Only the calling thread waits for the disk. Bytes that the system has in memory are read at once. The rest is done by
-- io_uring or, with other backends, by helper threads, of which there are at most 64. A file whose name the system has
-- in memory is opened for reading at once, on the usual file systems of disks and memory; helper threads open the
-- others, and remove files. (On Windows other threads of the capability wait during opening, removing and 'sync'.) In
-- "Millrace.Simulation" files belong to the simulated machine, which can crash.
--
-- A thread that is interrupted while a helper works for it does not wait for the helper. At a deadline the caller does
-- not wait for the disk either: the operation ends later, and owns its memory until then. 'Millrace.Timer.finishBefore'
-- does the same for the functions of "Millrace.Directory" and "Millrace.File.Access".
--
-- All functions throw an 'IOError' that names the function and the file. 'System.IO.Error.isFullError' recognises a
-- full disk.
--
-- >>> withFile "journal" ForWriting (\journal -> writeAt journal 0 "first line\n" >> sync journal)
-- >>> withFile "journal" ForUpdating (\journal -> fileSize journal >>= \end -> writeAt journal end "second line\n")
-- >>> withFile "journal" ForReading (\journal -> readAt journal 6 100)
-- "line\nsecond line\n"
-- >>> removeFile "journal"
module Millrace.File
  ( File,
    Mode (..),
    openFile,
    closeFile,
    withFile,
    fileSize,
    readAt,
    readExactlyAt,
    writeAt,
    sync,
    removeFile,

    -- * With deadlines
    openFileBefore,
    readAtBefore,
    readExactlyAtBefore,
    writeAtBefore,
    syncBefore,
    removeFileBefore,

    -- * Descriptors
    fileDescriptor,
  )
where

import Control.Exception (catch, mask, onException, throwIO, uninterruptibleMask_)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Int (Int64)
import Millrace.Deadline (Deadline)
import Millrace.Internal.CoreCalls (c_close)
import Millrace.Internal.File
import Millrace.Internal.FileTransfer
import Millrace.Internal.InTime (inTime)
import Millrace.Internal.Park (handOver)
import Millrace.Operation
import System.IO.Error (eofErrorType, ioeSetErrorString, mkIOError)
import System.Posix.Types (Fd (..))

-- | How a file is opened.
data Mode
  = -- | the file must exist, and can only be read
    ForReading
  | -- | the file is emptied, or created
    ForWriting
  | -- | the file is created unless it exists
    ForUpdating
  deriving (Eq, Show, Read, Enum, Bounded)

-- | Opens a file. Programs that are started do not inherit it. Throws for files without offsets, such as FIFOs and
-- terminals, and for a path with a NUL. On POSIX systems a directory can be opened 'ForReading', to 'sync' the names in
-- it.
openFile :: FilePath -> Mode -> IO File
openFile path mode = handOver closeQuietly $ do
  descriptor <- openDescriptor "Millrace.File.openFile" path (fromEnum mode)
  handle <- adopt descriptor `onException` c_close descriptor
  return (File handle path ThroughMemory)

closeQuietly :: File -> IO ()
closeQuietly file = uninterruptibleMask_ (closeFile file `catch` ignore)
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- | Closes a file. Operations in flight on it end with an error or complete. Closing a closed file is an error.
closeFile :: File -> IO ()
closeFile file@(File handle _ _) = perform (closeRequest handle) >>= checked "Millrace.File.closeFile" file

-- | Opens a file, and closes it when the action has ended. An error of closing does not replace the action's own
-- exception.
withFile :: FilePath -> Mode -> (File -> IO a) -> IO a
withFile path mode action = mask $ \restore -> do
  file <- openFile path mode
  result <- restore (action file) `onException` closeQuietly file
  result <$ closeFile file

-- | The size in bytes.
fileSize :: File -> IO Int64
fileSize = sizeOfFile "Millrace.File.fileSize"

-- | Reads at most the given number of bytes at an offset; none at the end of the file. It may return fewer bytes before
-- the end, and never more than a mebibyte. The number must be positive. Interruptible.
readAt :: File -> Int64 -> Int -> IO ByteString
readAt file offset size = do
  unless (size > 0 && offset >= 0) $
    refuse "Millrace.File.readAt" file "the size must be positive, and the offset not negative"
  memory <- mallocByteString most
  count <- readInto "Millrace.File.readAt" file offset memory most
  let bytes = fromForeignPtr memory 0 count
  -- Copy the bytes, because otherwise the unused part of the buffer would be kept as long as the bytes are.
  return $! if ByteString.length bytes == most then bytes else ByteString.copy bytes
  where
    most = min size mebibyte

-- | Reads exactly the given number of bytes at an offset. If the file ends before, it throws an 'IOError'
-- ('System.IO.Error.isEOFError') that says how many there were. All of them are in memory at once.
--
-- >>> withFile "page" ForWriting (\file -> writeAt file 0 "text")
-- >>> withFile "page" ForReading (\file -> readExactlyAt file 1 2)
-- "ex"
-- >>> removeFile "page"
readExactlyAt :: File -> Int64 -> Int -> IO ByteString
readExactlyAt file offset size = do
  unless (size >= 0 && offset >= 0) $ refuse function file "the size and the offset must not be negative"
  ByteString.concat <$> go 0
  where
    function = "Millrace.File.readExactlyAt"
    go done
      | done == size = return []
      | otherwise = do
        part <- readAt file (offset + fromIntegral done) (size - done)
        when (ByteString.null part) $ throwIO (endsAfter done)
        (part :) <$> go (done + ByteString.length part)
    endsAfter done =
      mkIOError eofErrorType function Nothing (Just (show file))
        `ioeSetErrorString` concat ["the file ends after ", show done, " of the ", show size, " bytes at ", show offset]

-- | Writes all bytes at an offset. If the offset is beyond the end of the file, zeros fill the gap. If it is
-- interrupted or fails, a part of unknown size may have been written.
writeAt :: File -> Int64 -> ByteString -> IO ()
writeAt file offset bytes = do
  unless (offset >= 0) $ refuse "Millrace.File.writeAt" file "the offset must not be negative"
  unless (ByteString.null bytes) $ do
    let (part, rest) = ByteString.splitAt mebibyte bytes
    writeFrom "Millrace.File.writeAt" file offset part
    writeAt file (offset + fromIntegral (ByteString.length part)) rest

-- | Returns when the disk has everything that was written by calls which returned before.
sync :: File -> IO ()
sync = syncFile "Millrace.File.sync"

-- | Removes a name. Threads and programs that have the file open can still use it. (Before Windows 10 the name stays in
-- use until all have closed the file.)
removeFile :: FilePath -> IO ()
removeFile = removeName "Millrace.File.removeFile"

-- | The descriptor's number, for 'Millrace.Socket.File.sendFile'. Do not close it. It is valid until the file is
-- closed.
fileDescriptor :: File -> Fd
fileDescriptor (File handle _ _) = Fd (descriptorOf handle)

-- | 'openFile' with a deadline ('Millrace.Deadline.isDeadlineError'). A file that is opened too late is closed.
openFileBefore :: Deadline -> FilePath -> Mode -> IO File
openFileBefore deadline path mode = inTime deadline "Millrace.File.openFile" path closeQuietly (openFile path mode)

-- | 'readAt' with a deadline.
--
-- >>> import Millrace.Deadline
-- >>> withFile "page" ForWriting (\file -> writeAt file 0 "text")
-- >>> soon <- deadlineAfter (seconds 5)
-- >>> withFile "page" ForReading (\file -> readAtBefore soon file 0 100)
-- "text"
-- >>> removeFileBefore soon "page"
readAtBefore :: Deadline -> File -> Int64 -> Int -> IO ByteString
readAtBefore deadline file offset size = onFileBefore deadline "Millrace.File.readAt" file (readAt file offset size)

-- | 'readExactlyAt' with a deadline.
readExactlyAtBefore :: Deadline -> File -> Int64 -> Int -> IO ByteString
readExactlyAtBefore deadline file offset size =
  onFileBefore deadline "Millrace.File.readExactlyAt" file (readExactlyAt file offset size)

-- | 'writeAt' with a deadline. When it has passed, a part of unknown size has been written or will be.
writeAtBefore :: Deadline -> File -> Int64 -> ByteString -> IO ()
writeAtBefore deadline file offset bytes =
  onFileBefore deadline "Millrace.File.writeAt" file (writeAt file offset bytes)

-- | 'sync' with a deadline.
syncBefore :: Deadline -> File -> IO ()
syncBefore deadline file = onFileBefore deadline "Millrace.File.sync" file (sync file)

-- | 'removeFile' with a deadline. When it has passed, the name may still be removed.
removeFileBefore :: Deadline -> FilePath -> IO ()
removeFileBefore deadline path = inTime deadline "Millrace.File.removeFile" path return (removeFile path)

onFileBefore :: Deadline -> String -> File -> IO a -> IO a
onFileBefore deadline function file = inTime deadline function (show file) (\_ -> return ())

mebibyte :: Int
mebibyte = 1048576
