-- Must not know: sockets, WAI.

-- |
-- The server's C code that does not belong to a protocol, as Haskell functions: HTTP dates, opening files, random
-- bytes.
module Millrace.Http.SystemCalls
  ( -- * Dates
    dateLength,
    writeDate,
    currentSeconds,
    readDate,

    -- * Files
    File,
    fileSize,
    openFile,
    examineFile,
    fileBytes,
    fileModified,
    fileDescriptor,
    closeFile,

    -- * Chance
    fillRandom,
  )
where

#include "http_date.h"
#include "http_file.h"

import Data.Int (Int32, Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)

-- | Bytes of an HTTP date.
dateLength :: Int
dateLength = #{const HTTP_DATE_LENGTH}

-- | Writes the date of a time in seconds since 1970.
foreign import ccall unsafe "http_date_write"
  writeDate :: Int64 -> Ptr Word8 -> IO ()

-- | Seconds since 1970, at most one tick of the kernel (some ms) behind.
foreign import ccall unsafe "http_date_current"
  currentSeconds :: IO Int64

foreign import ccall unsafe "http_date_read"
  c_readDate :: Ptr Word8 -> CSize -> IO Int64

-- | Seconds since 1970 of a date in any of the three formats of RFC 9110, section 5.6.7; -1 if it is none.
readDate :: Ptr Word8 -> Int -> IO Int64
readDate text size = c_readDate text (fromIntegral size)

-- | An open file, @fileSize@ bytes of memory.
data File

-- | The size of a 'File' record. The size of the file's content is 'fileBytes'.
fileSize :: Int
fileSize = #{size http_file}

foreign import ccall unsafe "http_file_open_at_once"
  c_openAtOnce :: Ptr () -> Ptr File -> IO CInt

-- A safe call: it waits for the disk, and the capability must not.
foreign import ccall safe "http_file_open"
  c_openWaiting :: Ptr () -> Ptr File -> IO CInt

-- | Opens a regular file for reading, whose path is in the system's own form (@withFilePath@); 0 or a negative errno.
openFile :: Ptr () -> Ptr File -> IO CInt
openFile path file = do
  result <- c_openAtOnce path file
  if result < 0 && Errno (negate result) == eAGAIN then c_openWaiting path file else return result

foreign import ccall unsafe "http_file_examine"
  c_examineFile :: CInt -> Ptr File -> IO CInt

-- | Describes the file of an open descriptor; 0 or a negative errno.
examineFile :: Int32 -> Ptr File -> IO CInt
examineFile = c_examineFile . fromIntegral

-- | The length of the content in bytes.
fileBytes :: Ptr File -> IO Int64
fileBytes = #{peek http_file, size}

-- | The time of the last modification in seconds since 1970.
fileModified :: Ptr File -> IO Int64
fileModified = #{peek http_file, modified_seconds}

-- | The open descriptor.
fileDescriptor :: Ptr File -> IO Int32
fileDescriptor = #{peek http_file, descriptor}

foreign import ccall unsafe "http_file_close"
  c_closeFile :: CInt -> IO ()

-- | Closes a descriptor of 'openFile'.
closeFile :: Int32 -> IO ()
closeFile = c_closeFile . fromIntegral

-- A safe call: soon after the machine has started, random bytes may not be available yet.
foreign import ccall safe "http_random_fill"
  c_fillRandom :: Ptr Word8 -> CSize -> IO CInt

-- | Fills memory of at most 256 bytes with random bytes. 0 or a negative errno.
fillRandom :: Ptr Word8 -> Int -> IO CInt
fillRandom at size = c_fillRandom at (fromIntegral size)
