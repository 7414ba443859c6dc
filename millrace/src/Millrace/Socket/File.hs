-- | Sending files over sockets, without copying them through the program.
module Millrace.Socket.File
  ( sendFile
  , sendFileBefore
  ) where

import Data.Int (Int64)
import System.Posix.Types (Fd)

import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Socket
import Millrace.Operation

-- | Sends so many bytes of a regular file, from an offset, and waits until the system has taken them. Returns how many
-- went: fewer only if the file ended early. The file's own position is neither used nor moved.
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
                     >>= throwIfFailed "Millrace.Socket.File.sendFile" (describe s ++ ", file descriptor " ++ show file)
          if moved == 0 then return sent else go (sent + moved)
