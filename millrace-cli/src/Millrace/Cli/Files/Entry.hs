-- Must not know: HTTP.

-- | Files and directories below a root. "Millrace.Cli.Files.Root" looks them up.
module Millrace.Cli.Files.Entry
  ( LinkPolicy (..),
    Entry (..),
    OpenFile (..),
    FileIdentity (..),
    FileState (..),
    Glimpse (..),
    Nanoseconds,
    saturated,
    Problem (..),
  )
where

import Control.Exception (IOException)
import Data.Int (Int64)
import Data.Word (Word64)

-- | The symbolic links that are followed.
data LinkPolicy
  = -- | Only links that stay inside the root.
    StayInside
  | -- | All links.
    FollowLinks
  deriving (Eq, Show)

-- | A file or directory below a root.
data Entry
  = -- | A path that opens this very directory. It is valid only in this process, and until
    -- 'Millrace.Cli.Files.Root.withEntry' ends.
    Directory FilePath
  | File OpenFile

-- | A regular, readable file, held open.
data OpenFile = OpenFile
  { -- | A path that opens this very file. It is valid only in this process, and until
    -- 'Millrace.Cli.Files.Root.withEntry' ends. Do not cache anything under it: another file will have this path later.
    openFilePath :: FilePath,
    openFileIdentity :: FileIdentity,
    -- | As the file was when it was opened.
    openFileState :: FileState,
    -- | As it is now. Valid only while the file is open.
    openFileStateNow :: IO FileState
  }

-- | Tells a file from all others that there are at the same time.
data FileIdentity = FileIdentity
  { -- | The file system. 0 on Windows, where it is not needed.
    identityDevice :: !Word64,
    -- | Different from that of all other files of its file system.
    identityNumber :: !Word64
  }
  deriving (Eq, Ord, Show)

-- | The numbers that change when a file does.
data FileState = FileState
  { -- | In bytes.
    stateSize :: !Int64,
    -- | When the content was changed. Programs can set this time.
    stateModified :: !Nanoseconds,
    -- | When content, name, permissions or the other time were changed. Programs cannot set this time. On Windows it is
    -- the other one.
    stateChanged :: !Nanoseconds
  }
  deriving (Eq, Ord, Show)

-- | The object of a name in a directory, found without opening it.
data Glimpse
  = -- | A directory and its time of change.
    DirectorySeen Nanoseconds
  | -- | A regular, readable file: its size in bytes and its time of change.
    FileSeen Int64 Nanoseconds
  | -- | An object that is not served.
    NothingSeen
  | -- | A link, or an object that must be opened to know what it is.
    MustBeLookedUp
  deriving (Eq, Show)

-- | Nanoseconds since the beginning of 1970, without leap seconds. Not a @POSIXTime@: that is a fraction, and comparing
-- two of them costs more than asking the system for one.
type Nanoseconds = Int64

-- | A time of any year. File systems have years beyond the range of this number (ext4 until 2446). Such a time becomes
-- the latest or the earliest time of the range, and not a time of another century.
--
-- >>> saturated (1000000000 * 13000000000)
-- 9223372036854775807
saturated :: Integer -> Nanoseconds
saturated = fromInteger . max (toInteger (minBound :: Nanoseconds)) . min (toInteger (maxBound :: Nanoseconds))

-- | The reason why a path cannot be served.
data Problem
  = -- | No such file, or an object that is not served: outside the root, a pipe, a socket, a device.
    Missing
  | -- | Permissions forbid it.
    Unreadable
  | OutOfDescriptors
  | -- | Any other reason: an input error, no memory.
    Faulty IOException
  deriving (Eq, Show)
