-- |
-- The bytes of an open file, as a body or a part of one. Must not know: protocols.
module Millrace.Http.Answer.FileBody (readSlice, readPiece, sendingFile, requireAll, descriptorOf) where

import Control.Exception (SomeException, catch, throwIO, toException)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Internal as BI
import Data.Word (Word8)
import Foreign.C.Error (Errno (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange (FileSlice (..))
import Millrace.Http.FileCache (fileError)
import Millrace.Http.Transport (isErrorOfFile)
import Millrace.Http.Transport.Disk (readFileAt)
import System.Posix.Types (Fd (..))

-- | Reads all of a slice to an address. Throws if the file ends before it, or an @IOError@.
readSlice :: FileSlice -> Ptr Word8 -> IO ()
readSlice slice target = do
  result <- readFileAt (descriptorOf slice) target (fromIntegral (sliceLength slice)) (sliceOffset slice)
  when (result /= fromIntegral (sliceLength slice)) (throwIO (unread slice result))

-- | @readPiece slice offset count@ reads up to this many bytes at an offset in the file. Throws if there are none,
-- because the length of the body was announced.
readPiece :: FileSlice -> Integer -> Int -> IO ByteString
readPiece slice offset count = BI.createUptoN count $ \target -> do
  result <- readFileAt (descriptorOf slice) target count (fromInteger offset)
  if result <= 0 then throwIO (unread slice result) else return result

-- | Throws if a slice does not end within its file. Reads the last byte, because some files, such as those in /proc, do
-- not tell their size.
requireAll :: FileSlice -> IO ()
requireAll slice = when (sliceLength slice > 0) $ do
  result <- allocaBytes 1 $ \target ->
    readFileAt (descriptorOf slice) target 1 (sliceOffset slice + sliceLength slice - 1)
  when (result /= 1) (throwIO (unread slice result))

-- | Runs an action that sends a slice. An error of the file is reported as such, and not as an error of the client.
sendingFile :: FileSlice -> IO a -> IO a
sendingFile slice send =
  send `catch` \failure -> throwIO $ case Errno <$> ioe_errno failure of
    Just number | isErrorOfFile number -> fileError (slicePath slice) number
    _ -> failure

-- | The file's descriptor. The slice only borrows it.
descriptorOf :: FileSlice -> Fd
descriptorOf = Fd . fromIntegral . sliceDescriptor

-- The exception for a read that returned too few bytes, or a negative errno.
unread :: FileSlice -> Int -> SomeException
unread slice result
  | result < 0 = toException (fileError (slicePath slice) (Errno (fromIntegral (negate result))))
  | otherwise = toException (FileTruncated (slicePath slice))
