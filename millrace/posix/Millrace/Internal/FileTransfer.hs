{-# LANGUAGE RankNTypes #-}

-- Must not know: sockets.

-- | How files are opened, read and written: by operations of the core or, with backends that would wait for the disk
-- (epoll, kqueue), by helper threads.
module Millrace.Internal.FileTransfer
  ( openDescriptor,
    sizeOfFile,
    readInto,
    readIntoCallers,
    writeFrom,
    writeFromCallers,
    writeToEnd,
    syncFile,
    removeName,
  )
where

import Control.Exception (throwIO, uninterruptibleMask_)
import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Internal (toForeignPtr)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, eIO)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (ForeignPtr, plusForeignPtr, withForeignPtr)
import Foreign.Ptr (FunPtr, Ptr, castPtr)
import Millrace.Internal.CoreCalls (isSimulatedHere)
import Millrace.Internal.Errors (throwIfMinusOne)
import Millrace.Internal.File
import Millrace.Internal.FileJob
import Millrace.Internal.Handle (Handle (..))
import Millrace.Internal.HelperJob (Output)
import Millrace.Operation
import System.Posix.Internals (withFilePath)

foreign import ccall unsafe "mrh_open" c_open :: Ptr () -> CInt -> IO CInt

foreign import ccall unsafe "mrh_open_flags" c_open_flags :: CInt -> CInt

foreign import ccall unsafe "mrh_file_size" c_file_size :: CInt -> IO Int64

foreign import ccall unsafe "mrh_remove" c_remove :: Ptr () -> IO CInt

foreign import ccall unsafe "mrh_read_cached" c_read_cached :: Word64 -> Ptr Word8 -> Word64 -> Word64 -> IO Int64

foreign import ccall unsafe "mrh_leaves_files_to_helpers" c_leaves_files_to_helpers :: IO CInt

foreign import ccall "&mrh_do_open" c_do_open :: FunPtr Work

foreign import ccall "&mrh_do_read" c_do_read :: FunPtr Work

foreign import ccall "&mrh_do_write" c_do_write :: FunPtr Work

foreign import ccall "&mrh_do_sync" c_do_sync :: FunPtr Work

foreign import ccall "&mrh_do_unlink" c_do_unlink :: FunPtr Work

-- | @openDescriptor function path mode@ opens a file in a mode of @files.h@. Errors name the function. Call it masked,
-- and close the descriptor.
openDescriptor :: String -> FilePath -> Int -> IO CInt
openDescriptor function path mode = do
  name <- pathBytes function path
  isSimulated <- isSimulatedHere
  if isSimulated
    then withFilePath path $ \bytes -> throwIfMinusOne function path (c_open (castPtr bytes) code)
    else
      runJob (job c_do_open [fromIntegral (c_open_flags code), 0o666] [name]) {jobDispose = closeNumber . fromIntegral}
        >>= named function path . fmap fromIntegral
  where
    code = fromIntegral mode

-- | The size in bytes. Does not wait for the disk: the system has the size of an open file in memory.
sizeOfFile :: String -> File -> IO Int64
sizeOfFile function file@(File handle path _) =
  whileOpen handle (throwIfMinusOne function path . c_file_size)
    >>= maybe (throwIO (failure function (show file) eBADF)) return

-- | @readInto function file offset memory most@ reads at most @most@ bytes into memory: at once if the system has them
-- in memory, otherwise it waits for the disk. Returns the number of bytes.
readInto :: String -> File -> Int64 -> ForeignPtr Word8 -> Int -> IO Int
readInto = readBy onFile

-- | Reads into memory that the caller uses again, also after an interruption. So an interruption waits for the end of a
-- call that has begun.
readIntoCallers :: String -> File -> Int64 -> ForeignPtr Word8 -> Int -> IO Int
readIntoCallers = readBy onFileStaying

-- A function that has a helper do a job on a file: 'onFile', 'onFileStaying'.
type Asking =
  String -> File -> FunPtr Work -> [Int64] -> Maybe (ForeignPtr Word8) -> (Int64 -> Output -> IO Int64) -> IO Int64

readBy :: Asking -> String -> File -> Int64 -> ForeignPtr Word8 -> Int -> IO Int
readBy ask function file@(File handle@(Handle number) _ memory) offset target most = do
  cached <-
    if memory == PastMemory
      then return notInMemory
      else withForeignPtr target $ \buffer ->
        c_read_cached number buffer (fromIntegral most) (fromIntegral offset)
  if Errno (fromIntegral (negate cached)) == eAGAIN && cached < 0
    then fromDisk
    else
      if cached >= 0
        then return (fromIntegral cached)
        else throwIO (failure function (show file) (Errno (fromIntegral (negate cached))))
  where
    -- A direct read would wait for the disk within the call, although it must not.
    notInMemory = let Errno code = eAGAIN in fromIntegral (negate code)
    fromDisk = do
      helpersDoIt <- c_leaves_files_to_helpers
      if helpersDoIt /= 0 then fromIntegral <$> byHelper else byOperation
    byOperation =
      withForeignPtr target $ \buffer -> perform (readFileRequest handle offset buffer most) >>= checked function file
    byHelper = ask function file c_do_read [offset, fromIntegral most] (Just target) result

-- | Writes all bytes at an offset. Pass at most a mebibyte.
writeFrom :: String -> File -> Int64 -> ByteString -> IO ()
writeFrom = writeBy onFile id

-- | Writes bytes that the caller changes later, also after an interruption. So an interruption waits for the end of a
-- call that has begun.
writeFromCallers :: String -> File -> Int64 -> ByteString -> IO ()
writeFromCallers = writeBy onFileStaying id

-- | Writes bytes for a caller that must know whether they are in the file. An interruption waits for the end of a write
-- that has begun, and performs the last argument if all bytes were written.
writeToEnd :: String -> File -> Int64 -> ByteString -> IO () -> IO ()
writeToEnd function file offset bytes whenWritten = writeBy noting uninterruptibleMask_ function file offset bytes
  where
    noting = onFileUntil (endingBeforeCaller (const whenWritten) (return ()))

writeBy :: Asking -> (forall a. IO a -> IO a) -> String -> File -> Int64 -> ByteString -> IO ()
writeBy ask masked function file@(File handle _ _) offset bytes = do
  helpersDoIt <- c_leaves_files_to_helpers
  if helpersDoIt /= 0
    then void (ask function file c_do_write [offset, fromIntegral size] (Just target) result)
    else withForeignPtr target $ \source ->
      masked (perform (writeFileRequest handle offset source size)) >>= checked function file >>= allOfIt
  where
    allOfIt count = when (count < size) $ throwIO (failure function (show file) eIO)
    (whole, start, size) = toForeignPtr bytes
    target = whole `plusForeignPtr` start

-- | Waits until the disk has everything that was written to the file.
syncFile :: String -> File -> IO ()
syncFile function file@(File handle _ _) = do
  helpersDoIt <- c_leaves_files_to_helpers
  if helpersDoIt /= 0
    then void (onFile function file c_do_sync [] Nothing result)
    else perform (syncFileRequest handle) >>= checked function file

-- | Removes a name.
removeName :: String -> FilePath -> IO ()
removeName function path = do
  name <- pathBytes function path
  isSimulated <- isSimulatedHere
  if isSimulated
    then withFilePath path $ \bytes -> void (throwIfMinusOne function path (c_remove (castPtr bytes)))
    else void (runJob (job c_do_unlink [0] [name]) >>= named function path)

result :: Int64 -> b -> IO Int64
result count _ = return count
