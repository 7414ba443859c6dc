-- |
-- One attempt at sending: how long it may wait, and how it ended. Must not know: sockets, HTTP.
module Millrace.Http.Transport.Attempt (TimeLimit (..), Attempt (..), Following (..), Piece (..), FileSlice (..)) where

import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno)
import Foreign.Ptr (Ptr)
import Millrace.Deadline (Deadline)
import System.Posix.Types (Fd)

-- | How long an operation may wait.
data TimeLimit
  = -- | So many microseconds from now; 0 means for ever.
    Within !Int
  | Before !Deadline

-- | How an attempt at sending ended.
data Attempt
  = -- | So many bytes went: 0 only at the end of a file.
    Moved !Int
  | -- | The time limit passed before anything went.
    TimedOut
  | Failed !Errno

-- | What follows at once? The transport may send it together with these bytes.
data Following
  = NothingFollows
  | MoreFollows
  | -- | Nothing is sent after these bytes. A transport that tells the client so may do it now; 'Millrace.Http.Transport.endSending' or
    -- closing comes all the same.
    EndFollows

-- | Bytes in memory: their address and number.
data Piece = Piece !(Ptr Word8) !Int

-- | A part of an open regular file: its offset and its length in bytes.
data FileSlice = FileSlice !Fd !Int64 !Int64
