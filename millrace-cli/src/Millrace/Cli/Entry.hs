-- | What is found below a directory. Knows nothing of how it is looked up ("Millrace.Cli.Root").
module Millrace.Cli.Entry
  ( LinkPolicy (..)
  , Entry (..)
  , OpenFile (..)
  , Problem (..)
  ) where

import Control.Exception (IOException)
import Data.Int (Int64)
import Data.Time.Clock.POSIX (POSIXTime)
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
  deriving (Eq, Show)

-- | A regular, readable file, held open.
--
-- @since 0.1.0
data OpenFile = OpenFile
  { openFilePath :: FilePath
  -- ^ Opening this opens that very file, inside 'Millrace.Cli.Root.withEntry' and in this process only. A path for one
  -- use: another file will have it later, so nothing may be cached under it.
  , openFileSize :: Int64
  -- ^ in bytes
  , openFileModified :: POSIXTime
  , openFileNumber :: Word64
  -- ^ its own among those of its file system
  }
  deriving (Eq, Show)

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
