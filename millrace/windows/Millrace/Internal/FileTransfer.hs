-- | How files are opened, read and written: by operations of the core, and by calls that wait.
module Millrace.Internal.FileTransfer
  ( openDescriptor,
    sizeOfFile,
    readInto,
    writeFrom,
    syncFile,
    removeName,
  )
where

import Control.Exception (throwIO)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (eBADF)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Internal.Errors (throwIfMinusOne)
import Millrace.Internal.File
import Millrace.Operation
import System.Posix.Internals (withFilePath)

foreign import ccall unsafe "mrh_open" c_open :: Ptr () -> CInt -> IO CInt

foreign import ccall unsafe "mrh_file_size" c_file_size :: CInt -> IO Int64

foreign import ccall unsafe "mrh_remove" c_remove :: Ptr () -> IO CInt

-- | @openDescriptor function path mode@ opens a file in a mode of @files.h@. Errors name the function. The caller
-- closes the descriptor.
openDescriptor :: String -> FilePath -> Int -> IO CInt
openDescriptor function path mode = withPath function path $ \name ->
  throwIfMinusOne function path (c_open name (fromIntegral mode))

-- | The size in bytes.
sizeOfFile :: String -> File -> IO Int64
sizeOfFile function file@(File handle path _) =
  whileOpen handle (throwIfMinusOne function path . c_file_size)
    >>= maybe (throwIO (failure function (show file) eBADF)) return

-- | @readInto function file offset memory most@ reads at most @most@ bytes into memory. Returns the number of bytes.
readInto :: String -> File -> Int64 -> ForeignPtr Word8 -> Int -> IO Int
readInto function file@(File handle _ _) offset memory most =
  withForeignPtr memory $ \buffer -> perform (readFileRequest handle offset buffer most) >>= checked function file

-- | Writes all bytes at an offset. Pass at most a mebibyte.
writeFrom :: String -> File -> Int64 -> ByteString -> IO ()
writeFrom function file@(File handle _ _) offset bytes =
  void $
    unsafeUseAsCStringLen bytes $ \(source, size) ->
      perform (writeFileRequest handle offset (castPtr source) size) >>= checked function file

-- | Waits until the disk has everything that was written to the file.
syncFile :: String -> File -> IO ()
syncFile function file@(File handle _ _) = perform (syncFileRequest handle) >>= checked function file

-- | Removes a name.
removeName :: String -> FilePath -> IO ()
removeName function path = withPath function path $ void . throwIfMinusOne function path . c_remove

-- In the system's own form, which is UTF-16.
withPath :: String -> FilePath -> (Ptr () -> IO a) -> IO a
withPath function path use
  | '\NUL' `elem` path = refusePath function path "a path has no NUL"
  | otherwise = withFilePath path (use . castPtr)
