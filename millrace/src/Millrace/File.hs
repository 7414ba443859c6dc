-- | Regular files, read and written at given offsets. A file has no current position, so threads can share it.
--
-- > main = withFile "journal" ForUpdating $ \journal -> do
-- >   end <- fileSize journal
-- >   writeAt journal end "one line more\n"
-- >   sync journal
--
-- On hybrid and io_uring other threads of the capability run while the disk works. On Windows they do as well, except during
-- 'sync'. Elsewhere they wait for the disk, for at most a mebibyte at a time. During opening and closing they always
-- wait. In "Millrace.Simulation" files belong to the simulated machine, and a path is only a name.
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
    writeAt,
    sync,
    removeFile,
    fileDescriptor,
  )
where

import Control.Exception (catch, mask, mask_, onException, throwIO)
import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Foreign.C.Error (Errno, throwErrnoPathIfMinus1)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.Foreign (c_close)
import Millrace.Internal.Socket (callOn)
import Millrace.Operation
import System.IO.Error (ioeSetErrorString, mkIOError)
import System.Posix.Internals (withFilePath)
import System.Posix.Types (Fd (..))

-- | An open file. Close it, because the garbage collector does not.
--
-- @since 0.1.0
data File = File !Handle !FilePath

instance Eq File where
  File a _ == File b _ = a == b

instance Show File where
  showsPrec _ (File _ path) = showString "<file: " . showString path . showChar '>'

-- | How a file is opened.
--
-- @since 0.1.0
data Mode
  = -- | the file must exist, and can only be read
    ForReading
  | -- | the file is emptied, or created
    ForWriting
  | -- | the file is created unless it exists
    ForUpdating
  deriving (Eq, Show, Read, Enum, Bounded)

foreign import ccall unsafe "mrh_open" c_open :: Ptr () -> CInt -> IO CInt

foreign import ccall unsafe "mrh_file_size" c_file_size :: CInt -> IO Int64

foreign import ccall unsafe "mrh_remove" c_remove :: Ptr () -> IO CInt

-- | Opens a file. Programs that are started do not inherit it. Throws for files without offsets, such as FIFOs and
-- terminals, and for a path with a NUL. On POSIX systems a directory can be opened 'ForReading', to 'sync' the names in
-- it.
--
-- @since 0.1.0
openFile :: FilePath -> Mode -> IO File
openFile path mode = mask_ $ do
  descriptor <- withPath "openFile" path $ \name ->
    callOn "Millrace.File.openFile" path (c_open name (fromIntegral (fromEnum mode)))
  handle <- adopt descriptor `onException` c_close descriptor
  return (File handle path)

-- | Closes a file. Operations in flight on it end with an error or complete. Closing a closed file is an error.
--
-- @since 0.1.0
closeFile :: File -> IO ()
closeFile file@(File handle _) = perform (closeRequest handle) >>= checked "closeFile" file

-- | Opens a file, and closes it when the action has ended. An error of closing does not replace the action's own
-- exception.
--
-- @since 0.1.0
withFile :: FilePath -> Mode -> (File -> IO a) -> IO a
withFile path mode action = mask $ \restore -> do
  file <- openFile path mode
  result <- restore (action file) `onException` (closeFile file `catch` ignore)
  result <$ closeFile file
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- | The size in bytes.
--
-- @since 0.1.0
fileSize :: File -> IO Int64
fileSize file@(File handle path) = do
  size <- whileOpen handle (throwErrnoPathIfMinus1 "Millrace.File.fileSize" path . c_file_size)
  maybe (refuse "fileSize" file "it is closed") return size

-- | Reads at most the given number of bytes at an offset; none at the end of the file. It may return fewer bytes before
-- the end, and never more than a mebibyte. The number must be positive. Interruptible.
--
-- @since 0.1.0
readAt :: File -> Int64 -> Int -> IO ByteString
readAt file@(File handle _) offset size = do
  unless (size > 0 && offset >= 0) $ refuse "readAt" file "the size must be positive, and the offset not negative"
  place <- mallocByteString most
  count <- withForeignPtr place $ \buffer ->
    perform (readFileRequest handle offset buffer most) >>= checked "readAt" file
  let bytes = fromForeignPtr place 0 count
  -- Copy the bytes, because otherwise the unused part of the buffer would be kept as long as the bytes are.
  return $! if ByteString.length bytes == most then bytes else ByteString.copy bytes
  where
    most = min size mebibyte

-- | Writes all bytes at an offset. If the offset is beyond the end of the file, zeros fill the gap. If it is
-- interrupted or fails, a part of unknown size may have been written.
--
-- @since 0.1.0
writeAt :: File -> Int64 -> ByteString -> IO ()
writeAt file@(File handle _) offset bytes = do
  unless (offset >= 0) $ refuse "writeAt" file "the offset must not be negative"
  unless (ByteString.null bytes) $ do
    let (part, rest) = ByteString.splitAt mebibyte bytes
    void $
      unsafeUseAsCStringLen part $ \(source, size) ->
        perform (writeFileRequest handle offset (castPtr source) size) >>= checked "writeAt" file
    writeAt file (offset + fromIntegral (ByteString.length part)) rest

-- | Returns when the disk has everything that was written by calls which returned before.
--
-- @since 0.1.0
sync :: File -> IO ()
sync file@(File handle _) = perform (syncFileRequest handle) >>= checked "sync" file

-- | Removes a name. Threads and programs that have the file open can still use it. (Before Windows 10 the name stays in
-- use until all have closed the file.)
--
-- @since 0.1.0
removeFile :: FilePath -> IO ()
removeFile path = withPath "removeFile" path $ void . callOn "Millrace.File.removeFile" path . c_remove

-- | The descriptor's number, for 'Millrace.Socket.File.sendFile'. Do not close it. It is valid until the file is
-- closed.
--
-- @since 0.1.0
fileDescriptor :: File -> Fd
fileDescriptor (File handle _) = Fd (descriptorOf handle)

mebibyte :: Int
mebibyte = 1048576

-- A path in the system's own form: bytes, or UTF-16 on Windows. A path with a NUL is refused, because it would end
-- there and name another file. Only later versions of base check this.
withPath :: String -> FilePath -> (Ptr () -> IO a) -> IO a
withPath function path use
  | '\NUL' `elem` path = refusePath function path "a path has no NUL"
  | otherwise = withFilePath path (use . castPtr)

checked :: String -> File -> Either Errno r -> IO r
checked function file = throwIfFailed ("Millrace.File." ++ function) (show file)

refuse :: String -> File -> String -> IO a
refuse function (File _ path) = refusePath function path

refusePath :: String -> FilePath -> String -> IO a
refusePath function path why =
  throwIO (mkIOError InvalidArgument ("Millrace.File." ++ function) Nothing (Just path) `ioeSetErrorString` why)
