-- | What is found below a directory. "Millrace.Cli.Root" looks it up. Must not know: HTTP.
module Millrace.Cli.Entry
  ( LinkPolicy (..),
    Entry (..),
    OpenFile (..),
    Glimpse (..),
    Nanoseconds,
    saturated,
    Problem (..),
  )
where

import Control.Exception (IOException)
import Data.Int (Int64)
import Data.Word (Word64)

-- | What to do about symbolic links.
--
-- @since 0.1.0
data LinkPolicy
  = -- | a link that leads outside the root leads nowhere
    StayInside
  | -- | links lead anywhere
    FollowLinks
  deriving (Eq, Show)

-- | What was found below a root.
--
-- @since 0.1.0
data Entry
  = -- | opening this opens that very directory, inside 'Millrace.Cli.Root.withEntry' and in this process only
    Directory FilePath
  | File OpenFile

-- | A regular, readable file, held open.
--
-- @since 0.1.0
data OpenFile = OpenFile
  { -- | Opening this opens that very file, inside 'Millrace.Cli.Root.withEntry' and in this process only. A path for one
    -- use: another file will have it later, so nothing may be cached under it.
    openFilePath :: FilePath,
    -- | in bytes
    openFileSize :: Int64,
    openFileModified :: Nanoseconds,
    -- | its own among those of its file system
    openFileNumber :: Word64,
    -- | its size in bytes and the time of its last change as they are now, for as long as it is open
    openFileState :: IO (Int64, Nanoseconds)
  }

-- | What a name in a directory stands for, seen without opening it.
--
-- @since 0.1.0
data Glimpse
  = DirectorySeen
  | -- | a regular, readable file: its size in bytes and the time of its last change
    FileSeen Int64 Nanoseconds
  | -- | nothing that is served
    NothingSeen
  | -- | it leads somewhere else, or cannot be seen like that
    MustBeLookedUp
  deriving (Eq, Show)

-- | Since the beginning of 1970, without leap seconds. Not a @POSIXTime@: that is a fraction, and comparing two costs more
-- than asking the system for one.
--
-- @since 0.1.0
type Nanoseconds = Int64

-- | A time of any year. File systems have years that this number does not reach (ext4 until 2446): such a time becomes the
-- latest there is, or the earliest, and not one of another century.
--
-- >>> saturated (1000000000 * 13000000000)
-- 9223372036854775807
--
-- @since 0.1.0
saturated :: Integer -> Nanoseconds
saturated = fromInteger . max (toInteger (minBound :: Nanoseconds)) . min (toInteger (maxBound :: Nanoseconds))

-- | Why there is nothing to serve.
--
-- @since 0.1.0
data Problem
  = -- | no such file, or one that is not served: outside the root, a pipe, a socket, a device
    Missing
  | -- | permissions forbid it
    Unreadable
  | OutOfDescriptors
  | -- | anything else: an input error, no memory
    Faulty IOException
  deriving (Eq, Show)
