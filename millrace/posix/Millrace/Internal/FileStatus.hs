-- Must not know: sockets.

-- | The system's data about a file, as jobs return them.
module Millrace.Internal.FileStatus
  ( Status (..),
    Kind (..),
    Permissions (..),
    Time (..),
    statusAt,
  )
where

import Data.Bits ((.&.))
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word32, Word8)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekElemOff)
import Millrace.Internal.Constants.Files
import Numeric (showOct)

-- | The kind of a file.
data Kind
  = RegularFile
  | Directory
  | SymbolicLink
  | Fifo
  | UnixSocket
  | CharacterDevice
  | BlockDevice
  | -- | not known: the name was removed before the file system could tell, or the file system does not tell
    UnknownKind
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | A moment, in seconds and nanoseconds since 1970-01-01 00:00 UTC.
data Time = Time {timeSeconds :: !Int64, timeNanoseconds :: !Int64}
  deriving (Eq, Ord, Show, Read)

-- | The system's data about a file.
data Status = Status
  { statusKind :: !Kind,
    statusPermissions :: !Permissions,
    -- | in bytes
    statusSize :: !Int64,
    -- | bytes on the disk, which are less than the size if the file has holes
    statusAllocated :: !Int64,
    statusDevice :: !Int64,
    -- | identifies the file on its device
    statusInode :: !Int64,
    -- | the number of its names
    statusLinks :: !Int64,
    statusUser :: !Word32,
    statusGroup :: !Word32,
    -- | of the last reading; many file systems update it late
    statusAccessed :: !Time,
    -- | of the last writing
    statusModified :: !Time,
    -- | of the last change of the file or of its metadata
    statusChanged :: !Time
  }
  deriving (Eq, Show)

-- | Permissions: the twelve bits of @chmod@.
--
-- >>> Permissions 0o640
-- Permissions 0o640
newtype Permissions = Permissions {permissionBits :: Word32}
  deriving (Eq, Ord)

instance Show Permissions where
  showsPrec d (Permissions bits) = showParen (d > 10) (showString "Permissions 0o" . showOct bits)

-- | The status in an @mrh_status@ (@work.h@), whose fields are all numbers of 64 bits.
statusAt :: Ptr Word8 -> IO Status
statusAt memory = do
  mode <- field 2
  Status (kindOfMode mode) (Permissions (fromIntegral (mode .&. 0o7777)))
    <$> field 6
    <*> ((* 512) <$> field 7)
    <*> field 0
    <*> field 1
    <*> field 3
    <*> (fromIntegral <$> field 4)
    <*> (fromIntegral <$> field 5)
    <*> time 9
    <*> time 11
    <*> time 13
  where
    field :: Int -> IO Int64
    field = peekElemOff (castPtr memory)
    time i = Time <$> field i <*> field (i + 1)

kindOfMode :: Int64 -> Kind
kindOfMode mode = fromMaybe UnknownKind (lookup (mode .&. modeKindMask) table)
  where
    table =
      [ (modeRegular, RegularFile),
        (modeDirectory, Directory),
        (modeLink, SymbolicLink),
        (modeFifo, Fifo),
        (modeSocket, UnixSocket),
        (modeCharacter, CharacterDevice),
        (modeBlock, BlockDevice)
      ]
