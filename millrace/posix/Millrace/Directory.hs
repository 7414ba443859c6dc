-- | Names in the file system: files and directories by their paths, directories as streams, links, permissions and times.
--
-- > main = walk "src" Never (\entry -> when (entryKind entry == RegularFile) (putStrLn (entryPath entry)))
--
-- The calls are made by helper threads, at most 64 at a time, so that only the calling thread waits for the disk or the
-- network. All functions are interruptible. A call that a helper has begun then continues without its caller. They wait only
-- for the file system, so none has a deadline of its own: 'Millrace.Timer.finishBefore' gives one to any of them. They throw an
-- 'IOError' that names the function and the path ('System.IO.Error.isDoesNotExistError', ...). In "Millrace.Simulation" they work on
-- the simulated machine, which has no symbolic links and no owners: functions that need these are refused.
--
-- >>> import Millrace.File
-- >>> createDirectory "example" ownerOnly
-- >>> withFile "example/file" ForWriting (\file -> writeAt file 0 "12345")
-- >>> statusSize <$> status "example/file"
-- 5
-- >>> rename "example/file" "example/other"
-- >>> map entryName <$> list "example"
-- ["other"]
-- >>> removeTree "example"
-- >>> exists "example"
-- False
module Millrace.Directory
  ( -- * What is there
    exists,
    Status (..),
    Kind (..),
    Time (..),
    status,
    linkStatus,
    fileStatus,
    canonicalPath,
    Space (..),
    space,

    -- * Directories
    createDirectory,
    createDirectories,
    removeDirectory,
    removeTree,
    Entry (..),
    list,
    Follow (..),
    walk,

    -- * Names
    rename,
    renameNew,
    exchange,
    createLink,
    createSymbolicLink,
    readSymbolicLink,

    -- * Permissions and times
    Permissions (..),
    ownerOnly,
    everybody,
    setPermissions,
    setOwner,
    setTimes,
  )
where

import Control.Exception (catch, throwIO)
import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Either (fromRight)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eNOTDIR)
import Foreign.Ptr (FunPtr)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Internal.Constants.Files
import Millrace.Internal.File
import Millrace.Internal.FileJob
import Millrace.Internal.Job (Output)
import Numeric (showOct)
import System.IO.Error (isAlreadyExistsError, isDoesNotExistError)

foreign import ccall "&mrh_do_status" c_status :: FunPtr Work

foreign import ccall "&mrh_do_status_of" c_status_of :: FunPtr Work

foreign import ccall "&mrh_do_realpath" c_realpath :: FunPtr Work

foreign import ccall "&mrh_do_space" c_space :: FunPtr Work

foreign import ccall "&mrh_do_mkdir" c_mkdir :: FunPtr Work

foreign import ccall "&mrh_do_unlink" c_unlink :: FunPtr Work

foreign import ccall "&mrh_do_list" c_list :: FunPtr Work

foreign import ccall "&mrh_do_rename" c_rename :: FunPtr Work

foreign import ccall "&mrh_do_link" c_link :: FunPtr Work

foreign import ccall "&mrh_do_symlink" c_symlink :: FunPtr Work

foreign import ccall "&mrh_do_readlink" c_readlink :: FunPtr Work

foreign import ccall "&mrh_do_chmod" c_chmod :: FunPtr Work

foreign import ccall "&mrh_do_chown" c_chown :: FunPtr Work

foreign import ccall "&mrh_do_set_times" c_set_times :: FunPtr Work

-- | The kind of a file.
--
-- @since 0.1.0
data Kind
  = RegularFile
  | Directory
  | SymbolicLink
  | Fifo
  | UnixSocket
  | CharacterDevice
  | BlockDevice
  | -- | the file system does not say; 'linkStatus' does
    UnknownKind
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | A moment, in seconds and nanoseconds since 1970-01-01 00:00 UTC.
--
-- @since 0.1.0
data Time = Time {timeSeconds :: !Int64, timeNanoseconds :: !Int64}
  deriving (Eq, Ord, Show, Read)

-- | The system's data about a file.
--
-- @since 0.1.0
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
--
-- @since 0.1.0
newtype Permissions = Permissions {permissionBits :: Word32}
  deriving (Eq, Ord)

instance Show Permissions where
  showsPrec d (Permissions bits) = showParen (d > 10) (showString "Permissions 0o" . showOct bits)

-- | Only the owner may do anything.
--
-- @since 0.1.0
ownerOnly :: Permissions
ownerOnly = Permissions 0o700

-- | All users may do everything that the program's @umask@ allows.
--
-- @since 0.1.0
everybody :: Permissions
everybody = Permissions 0o777

-- | Whether a name exists. A symbolic link to nothing does not, and neither does a name below a file. Throws if that cannot be found out.
--
-- @since 0.1.0
exists :: FilePath -> IO Bool
exists path =
  (True <$ statusBy "Millrace.Directory.exists" 1 path) `catch` \problem ->
    if isDoesNotExistError problem || fmap Errno (ioe_errno problem) == Just eNOTDIR then return False else throwIO problem

-- | The status of a path, after following symbolic links.
--
-- @since 0.1.0
status :: FilePath -> IO Status
status = statusBy "Millrace.Directory.status" 1

-- | The status of a path; of a symbolic link itself.
--
-- @since 0.1.0
linkStatus :: FilePath -> IO Status
linkStatus = statusBy "Millrace.Directory.linkStatus" 0

-- | The status of an open file.
--
-- @since 0.1.0
fileStatus :: File -> IO Status
fileStatus file = onFile "Millrace.Directory.fileStatus" file c_status_of [] Nothing (const statusFrom)

statusBy :: String -> Int64 -> FilePath -> IO Status
statusBy function follow path = onPath function path c_status [follow] (const statusFrom)

statusFrom :: Output -> IO Status
statusFrom output = do
  numbers <- outputNumbers output
  case numbers of
    [device, inode, mode, links, user, group, size, blocks, _, as, an, ms, mn, cs, cn] ->
      return
        Status
          { statusKind = kindOfMode mode,
            statusPermissions = Permissions (fromIntegral (mode .&. 0o7777)),
            statusSize = size,
            statusAllocated = blocks * 512,
            statusDevice = device,
            statusInode = inode,
            statusLinks = links,
            statusUser = fromIntegral user,
            statusGroup = fromIntegral group,
            statusAccessed = Time as an,
            statusModified = Time ms mn,
            statusChanged = Time cs cn
          }
    _ -> error ("Millrace.Directory: mrh_status has " ++ show (length numbers) ++ " fields")

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

-- | The absolute path without symbolic links, @.@ and @..@. All of it must exist.
--
-- @since 0.1.0
canonicalPath :: FilePath -> IO FilePath
canonicalPath path = onPath "Millrace.Directory.canonicalPath" path c_realpath [] (\_ output -> outputBytes output >>= pathFrom)

-- | The space of a file system, in bytes.
--
-- @since 0.1.0
data Space = Space
  { spaceTotal :: !Int64,
    -- | for programs without privileges
    spaceAvailable :: !Int64,
    -- | the number of files that can exist; 0 if there is no limit
    spaceFiles :: !Int64,
    spaceFilesFree :: !Int64
  }
  deriving (Eq, Show)

-- | The space of the file system that contains the path.
--
-- @since 0.1.0
space :: FilePath -> IO Space
space path = onPath "Millrace.Directory.space" path c_space [] $ \_ output -> do
  numbers <- outputNumbers output
  case numbers of
    [total, available, files, free] -> return (Space total available files free)
    _ -> error "Millrace.Directory.space: four numbers were asked for"

-- | Makes a directory. The @umask@ of the program removes permissions.
--
-- @since 0.1.0
createDirectory :: FilePath -> Permissions -> IO ()
createDirectory path permissions =
  onPath "Millrace.Directory.createDirectory" path c_mkdir [bitsOf permissions] (\_ _ -> return ())

-- | Makes a directory and those above it that do not exist. It may exist already.
--
-- @since 0.1.0
createDirectories :: FilePath -> Permissions -> IO ()
createDirectories path permissions = createOne `catch` makeRoom
  where
    createOne = createDirectory path permissions
    makeRoom problem
      | isAlreadyExistsError problem = do
        kind <- statusKind <$> status path
        unless (kind == Directory) (throwIO problem)
      | isDoesNotExistError problem && above /= path && not (null above) =
        createDirectories above permissions >> createDirectories path permissions
      | otherwise = throwIO problem
    above = dropLast path

-- | The path without its last part.
dropLast :: FilePath -> FilePath
dropLast path = case dropWhile (== '/') (reverse path) of
  "" -> path
  backwards -> case dropWhile (/= '/') backwards of
    "" -> ""
    parent -> case reverse (dropWhile (== '/') parent) of
      "" -> "/"
      directory -> directory

-- | Removes an empty directory.
--
-- @since 0.1.0
removeDirectory :: FilePath -> IO ()
removeDirectory path = onPath "Millrace.Directory.removeDirectory" path c_unlink [1] (\_ _ -> return ())

-- | Removes a directory with everything in it, or a file. Does not follow symbolic links, also if one takes the place of a directory
-- meanwhile. If something in it cannot be removed, it throws, and the rest remains. Names that others remove meanwhile cause no error.
--
-- Every call is about a whole path. Do not use it with privileges below a directory in which other users may write: they could put a link in
-- the place of a directory above, after that was listed.
--
-- @since 0.1.0
removeTree :: FilePath -> IO ()
removeTree path = do
  kind <- statusKind <$> statusBy "Millrace.Directory.removeTree" 0 path
  removeKind kind path
  where
    removeKind Directory directory = do
      entries <- listBy "Millrace.Directory.removeTree" 0 directory `catch` nothingThere
      mapM_ (\entry -> kindOf entry >>= (`removeKind` entryPath entry)) entries
      removeBy 1 directory
    removeKind _ name = removeBy 0 name
    removeBy isDirectory name =
      onPath "Millrace.Directory.removeTree" name c_unlink [isDirectory] (\_ _ -> return ()) `catch` ignoreMissing
    kindOf entry = case entryKind entry of
      UnknownKind -> statusKind <$> linkStatus (entryPath entry)
      kind -> return kind
    nothingThere problem = if isDoesNotExistError problem then return [] else throwIO problem
    ignoreMissing problem = unless (isDoesNotExistError problem) (throwIO problem)

-- | A name in a directory.
--
-- @since 0.1.0
data Entry = Entry
  { -- | in its directory
    entryName :: !FilePath,
    -- | the path of the directory and the name
    entryPath :: !FilePath,
    entryKind :: !Kind
  }
  deriving (Eq, Show)

-- | The names in a directory, in no particular order, without @.@ and @..@.
--
-- @since 0.1.0
list :: FilePath -> IO [Entry]
list = listBy "Millrace.Directory.list" 1

-- The number: whether a symbolic link is followed.
listBy :: String -> Int64 -> FilePath -> IO [Entry]
listBy function follow path = onPath function path c_list [follow] (\_ output -> outputBytes output) >>= mapM entry . pieces
  where
    entry (kind, bytes) = do
      name <- pathFrom bytes
      return (Entry name (below name) (kindOfEntry kind))
    below name = if null path || last path == '/' then path ++ name else path ++ '/' : name
    kindOfEntry code = fromMaybe UnknownKind (lookup code entryKinds)
    entryKinds =
      [ (entryRegular, RegularFile),
        (entryDirectory, Directory),
        (entryLink, SymbolicLink),
        (entryFifo, Fifo),
        (entrySocket, UnixSocket),
        (entryCharacter, CharacterDevice),
        (entryBlock, BlockDevice)
      ]

-- Parses the output of mrh_do_list.
pieces :: ByteString -> [(Int, ByteString)]
pieces bytes = case ByteString.uncons bytes of
  Nothing -> []
  Just (kind, rest) ->
    let (name, others) = ByteString.break (== 0) rest
     in (fromIntegral kind, ByteString.copy name) : pieces (ByteString.drop 1 others)

-- | Whether symbolic links to directories are followed.
--
-- @since 0.1.0
data Follow
  = Never
  | -- | A link to a directory that contains it is left out.
    Always
  deriving (Eq, Show, Read, Enum, Bounded)

-- | @walk directory follow visit@ visits everything below a directory, and reads a directory only when it has visited what
-- came before. So it needs memory for the current path and not for the whole tree. A directory is visited before its
-- contents. Directories that are removed meanwhile, or that may not be read, are skipped after their visit.
--
-- @since 0.1.0
walk :: FilePath -> Follow -> (Entry -> IO ()) -> IO ()
walk root follow visit = do
  top <- identityOf root
  listBy function 1 root >>= mapM_ (go [top])
  where
    function = "Millrace.Directory.walk"
    go above entry = do
      kind <- realKind entry
      visit entry {entryKind = kind}
      case kind of
        Directory -> enter above (entryPath entry)
        SymbolicLink | follow == Always -> do
          isDirectory <- (== Right Directory) <$> attempt (statusKind <$> status (entryPath entry))
          when isDirectory (enter above (entryPath entry))
        _ -> return ()
    enter above path
      | follow == Always = do
        found <- attempt (identityOf path)
        case found of
          Right identity | identity `notElem` above -> children (identity : above) path
          _ -> return ()
      | otherwise = children above path
    children above path = attempt (listBy function 1 path) >>= mapM_ (mapM_ (go above))
    identityOf path = (\known -> (statusDevice known, statusInode known)) <$> statusBy function 1 path
    realKind entry
      | entryKind entry == UnknownKind = fromRight UnknownKind <$> attempt (statusKind <$> linkStatus (entryPath entry))
      | otherwise = return (entryKind entry)

attempt :: IO a -> IO (Either IOError a)
attempt action = (Right <$> action) `catch` (return . Left)

-- | Gives a file another name. If the new name exists, it is replaced atomically: at every moment it means one of the two files.
--
-- @since 0.1.0
rename :: FilePath -> FilePath -> IO ()
rename from to = onPaths "Millrace.Directory.rename" from to c_rename [0]

-- | The same, but throws if the new name exists.
--
-- @since 0.1.0
renameNew :: FilePath -> FilePath -> IO ()
renameNew from to = onPaths "Millrace.Directory.renameNew" from to c_rename [renameNoReplace]

-- | Exchanges two names atomically. Not on every file system (@EINVAL@).
--
-- @since 0.1.0
exchange :: FilePath -> FilePath -> IO ()
exchange one other = onPaths "Millrace.Directory.exchange" one other c_rename [renameExchange]

-- | @createLink existing new@ gives a file another name.
--
-- @since 0.1.0
createLink :: FilePath -> FilePath -> IO ()
createLink from to = onPaths "Millrace.Directory.createLink" from to c_link []

-- | @createSymbolicLink content path@ makes a symbolic link.
--
-- @since 0.1.0
createSymbolicLink :: FilePath -> FilePath -> IO ()
createSymbolicLink content path = onPaths "Millrace.Directory.createSymbolicLink" content path c_symlink []

-- | The content of a symbolic link.
--
-- @since 0.1.0
readSymbolicLink :: FilePath -> IO FilePath
readSymbolicLink path =
  onPath "Millrace.Directory.readSymbolicLink" path c_readlink [] (\_ output -> outputBytes output >>= pathFrom)

-- | Sets the permissions. Follows symbolic links.
--
-- @since 0.1.0
setPermissions :: FilePath -> Permissions -> IO ()
setPermissions path permissions =
  void $ onPath "Millrace.Directory.setPermissions" path c_chmod [bitsOf permissions] (\result _ -> return result)

-- | @setOwner path user group@ changes the owner, the group or both. Follows symbolic links.
--
-- @since 0.1.0
setOwner :: FilePath -> Maybe Word32 -> Maybe Word32 -> IO ()
setOwner path user group =
  onPath "Millrace.Directory.setOwner" path c_chown [number user, number group, 1] (\_ _ -> return ())
  where
    number = maybe (-1) fromIntegral

-- | @setTimes path accessed modified@ sets the times of the last reading and writing; 'Nothing' leaves one as it is. Follows
-- symbolic links.
--
-- @since 0.1.0
setTimes :: FilePath -> Maybe Time -> Maybe Time -> IO ()
setTimes path accessed modified =
  onPath "Millrace.Directory.setTimes" path c_set_times (numbers accessed ++ numbers modified ++ [1]) (\_ _ -> return ())
  where
    numbers = maybe [0, timeOmit] (\(Time seconds nanoseconds) -> [seconds, nanoseconds])

bitsOf :: Permissions -> Int64
bitsOf = fromIntegral . permissionBits
