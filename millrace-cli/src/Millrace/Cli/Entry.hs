-- | What is found below a directory. Knows nothing of how it is looked up ("Millrace.Cli.Root").
module Millrace.Cli.Entry
  ( LinkPolicy (..)
  , Entry (..)
  , OpenFile (..)
  , Glimpse (..)
  , Nanoseconds
  , saturated
  , Problem (..)
  ) where

import Control.Exception (IOException)
import Data.Int (Int64)
import Data.Word (Word64)

-- | What to do about symbolic links.
--
-- @since 0.1.0
data LinkPolicy
  = StayInside
  -- ^ a link that leads outside the root leads nowhere
  | FollowLinks
  -- ^ links lead anywhere
  deriving (Eq, Show)

-- | What was found below a root.
--
-- @since 0.1.0
data Entry
  = Directory FilePath
  -- ^ opening this opens that very directory, inside 'Millrace.Cli.Root.withEntry' and in this process only
  | File OpenFile

-- | A regular, readable file, held open.
--
-- @since 0.1.0
data OpenFile = OpenFile
  { openFilePath :: FilePath
  -- ^ Opening this opens that very file, inside 'Millrace.Cli.Root.withEntry' and in this process only. A path for one
  -- use: another file will have it later, so nothing may be cached under it.
  , openFileSize :: Int64
  -- ^ in bytes
  , openFileModified :: Nanoseconds
  , openFileNumber :: Word64
  -- ^ its own among those of its file system
  , openFileState :: IO (Int64, Nanoseconds)
  -- ^ its size in bytes and the time of its last change as they are now, for as long as it is open
  }

-- | What a name in a directory stands for, seen without opening it.
--
-- @since 0.1.0
data Glimpse
  = DirectorySeen
  | FileSeen Int64 Nanoseconds
  -- ^ a regular, readable file: its size in bytes and the time of its last change
  | NothingSeen
  -- ^ nothing that is served
  | MustBeLookedUp
  -- ^ it leads somewhere else, or cannot be seen like that
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
  = Missing
  -- ^ no such file, or one that is not served: outside the root, a pipe, a socket, a device
  | Unreadable
  -- ^ permissions forbid it
  | OutOfDescriptors
  | Faulty IOException
  -- ^ anything else: an input error, no memory
  deriving (Eq, Show)
