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
import Foreign.C.Error (Errno (..), eBADF, eTIMEDOUT)
import Millrace.Deadline (Deadline, hasPassed, noDeadline)
import Millrace.Internal.CoreCalls (c_is_error_of_file)
import Millrace.Internal.Socket
import Millrace.Operation
import System.Posix.Types (Fd)

-- | Sends a part of a regular file, given by an offset and a number of bytes, and waits until the system has taken it.
-- Returns the number of bytes sent, which is smaller only if the file ended early. It does not use or move the file's
-- position.
--
-- The 'IOError' of a failure names the file descriptor if the file could not be read ('isErrorOfFile', or it is not
-- open), and otherwise the socket.
--
-- Bytes that must come from the disk are read by a helper thread, a mebibyte at a time ('performSendFile'), so that
-- only the calling thread waits. Exceptions, where the capability waits: a file that was opened directly, and file
-- systems that cannot tell what is in memory, such as overlayfs. On Windows, where the capability waits, the descriptor
-- is the number of a file's handle.
sendFile :: Socket -> Fd -> Int64 -> Int64 -> IO Int64
sendFile = sendFileBefore noDeadline

-- | 'sendFile' with a deadline ('Millrace.Deadline.isDeadlineError'). It also ends a transfer that never has to wait
-- for the socket: after each mebibyte the clock is read. It does not end a wait for a disk.
sendFileBefore :: Deadline -> Socket -> Fd -> Int64 -> Int64 -> IO Int64
sendFileBefore deadline s@(Socket handle _) file offset count = go 0
  where
    go sent
      | sent >= count = return sent
      | otherwise = do
        moved <- performSendFile (before deadline) handle file (offset + sent) (count - sent)
        case moved of
          Left code -> blame code
          Right 0 -> return sent
          Right part -> do
            let now = sent + fromIntegral part
            isLate <- if now < count then hasPassed deadline else return False
            if isLate then blame eTIMEDOUT else go now
    blame code = do
      isFile <- if code == eBADF then isOpen handle else return (isErrorOfFile code)
      throwIO
        (failure "Millrace.Socket.File.sendFile" (if isFile then "file descriptor " ++ show file else describe s) code)

-- | Whether sending a file ('sendFile', 'performSendFile') failed because the file could not be read. False if the
-- connection failed, or if it could be either (@EBADF@, @ENOMEM@).
isErrorOfFile :: Errno -> Bool
isErrorOfFile (Errno number) = c_is_error_of_file (negate (fromIntegral number)) /= 0
