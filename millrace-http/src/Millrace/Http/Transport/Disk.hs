-- |
-- Reading open files, so that only the calling thread waits for the disk. Must not know: HTTP, sockets.
module Millrace.Http.Transport.Disk (readFileAt) where

import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr)
import Millrace.Operation (bringIntoMemory)
import System.Posix.Types (Fd (..))

foreign import ccall unsafe "http_file_read"
  c_readFile :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO Int64

foreign import ccall unsafe "http_file_read_at_once"
  c_readFileAtOnce :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO Int64

-- | @readFileAt descriptor destination length offset@: bytes read, fewer only at the end of the file; or a negative
-- errno. Interruptible: what is not in memory is waited for, without holding the capability where the system can tell.
readFileAt :: Fd -> Ptr Word8 -> Int -> Int64 -> IO Int
readFileAt file@(Fd number) target size offset = do
  result <- c_readFileAtOnce number target (fromIntegral size) offset
  if result < 0 && Errno (fromIntegral (negate result)) == eAGAIN then fromDisk else return (fromIntegral result)
  where
    fromDisk = do
      bringIntoMemory file offset (fromIntegral size)
      fromIntegral <$> c_readFile number target (fromIntegral size) offset
