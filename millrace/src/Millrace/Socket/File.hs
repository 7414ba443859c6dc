-- | Sending files over sockets, without copying them through the program.
--
-- >>> import Millrace
-- >>> import Millrace.File
-- >>> withFile "page" ForWriting (\page -> writeAt page 0 "all of the page")
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> withFile "page" ForReading (\page -> sendFile there (fileDescriptor page) 7 8)
-- 8
-- >>> recv here 100
-- "the page"
module Millrace.Socket.File
  ( sendFile,
    sendFileBefore,
    isErrorOfFile,
  )
where

import Control.Exception (throwIO)
import Data.Int (Int64)
import Foreign.C.Error (Errno (..), eBADF)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Foreign (c_is_error_of_file)
import Millrace.Internal.Socket
import Millrace.Operation
import System.Posix.Types (Fd)

-- | Sends so many bytes of a regular file, from an offset, and waits until the system has taken them. Returns how many
-- went: fewer only if the file ended early. The file's own position is neither used nor moved.
--
-- The 'IOError' of a failure names the file descriptor if the file could not be read ('isErrorOfFile', or it is not open), and
-- else the socket.
--
-- Pages that are not in memory are read while the calling capability waits (a mebibyte at a time). On Windows the
-- descriptor is the number of a file's handle.
--
-- @since 0.1.0
sendFile :: Socket -> Fd -> Int64 -> Int64 -> IO Int64
sendFile = sendFileBefore noDeadline

-- | 'sendFile' that gives up at a deadline: an 'IOError' ('Millrace.Deadline.isDeadlineError').
--
-- @since 0.1.0
sendFileBefore :: Deadline -> Socket -> Fd -> Int64 -> Int64 -> IO Int64
sendFileBefore deadline s@(Socket handle _) file offset count = go 0
  where
    go sent
      | sent >= count = return sent
      | otherwise = do
        moved <- perform (before deadline (sendFileRequest handle file (offset + sent) (count - sent)))
        if moved < 0 then blame moved else if moved == 0 then return sent else go (sent + moved)
    blame result = do
      isFile <- if problem == eBADF then isOpen handle else return (isErrorOfFile problem)
      throwIO (failure "Millrace.Socket.File.sendFile" (if isFile then "file descriptor " ++ show file else describe s) result)
      where
        problem = Errno (fromIntegral (negate result))

-- | Does sending a file ('sendFile', 'sendFileRequest') fail with this because the file could not be read? Not if the
-- connection is to blame, or either may be (@EBADF@, @ENOMEM@).
--
-- @since 0.1.0
isErrorOfFile :: Errno -> Bool
isErrorOfFile (Errno number) = c_is_error_of_file (negate (fromIntegral number)) /= 0
