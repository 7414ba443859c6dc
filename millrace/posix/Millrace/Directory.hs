-- | Names in the file system: files and directories by their paths, directories as streams, links, permissions and
-- times.
--
-- > main = walk "src" Never (\entry -> when (entryKind entry == RegularFile) (putStrLn (entryPath entry)))
--
-- 'status', 'linkStatus', 'exists' and 'fileStatus' answer at once if the system has the names in memory, on the usual
-- file systems of disks and memory. All other calls are made by helper threads, at most 64 at a time, so that only the
-- calling thread waits for the disk or the network. Such a switch of threads costs more than most calls. So directories
-- are read some thousand names at a time, 'walkWith' gets their sizes and times with them, and 'removeTree' removes
-- some hundred names by one call. All functions are interruptible. A call that a helper has begun then continues
-- without its caller. They wait only for the file system, so none takes a deadline: 'Millrace.Timer.finishBefore' gives
-- one to any of them. They throw an 'IOError' that names the function and the path
-- ('System.IO.Error.isDoesNotExistError', ...). In "Millrace.Simulation" they work on the simulated machine, which has
-- no symbolic links and no owners: functions that need these are refused.
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
  ( -- * Existence and status
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
    Step (..),
    foldEntries,
    Follow (..),
    walk,
    foldTree,

    -- ** With the status of each entry
    Detail (..),
    foldEntriesWith,
    walkWith,
    foldTreeWith,

    -- * Directories as streams
    DirectoryStream,
    openDirectory,
    nextEntry,
    closeDirectory,
    withDirectory,

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

import Control.Exception (bracket, catch, mask_, throwIO)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.IORef
import Data.Int (Int64)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eBADF, eNOENT, eNOTDIR)
import Foreign.Ptr (FunPtr)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Internal.Constants.Files
import Millrace.Internal.DirectoryBatches
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File
import Millrace.Internal.FileJob
import Millrace.Internal.FileStatus
import Millrace.Internal.HelperJob (Output (..))
import System.IO.Error (isAlreadyExistsError, isDoesNotExistError)

foreign import ccall "&mrh_do_status" c_status :: FunPtr Work

foreign import ccall "&mrh_do_exists" c_exists :: FunPtr Work

foreign import ccall "&mrh_do_status_of" c_status_of :: FunPtr Work

foreign import ccall "&mrh_do_realpath" c_realpath :: FunPtr Work

foreign import ccall "&mrh_do_disk_space" c_space :: FunPtr Work

foreign import ccall "&mrh_do_mkdir" c_mkdir :: FunPtr Work

foreign import ccall "&mrh_do_unlink" c_unlink :: FunPtr Work

foreign import ccall "&mrh_do_remove_tree" c_remove_tree :: FunPtr Work

foreign import ccall "&mrh_do_rename" c_rename :: FunPtr Work

foreign import ccall "&mrh_do_link" c_link :: FunPtr Work

foreign import ccall "&mrh_do_symlink" c_symlink :: FunPtr Work

foreign import ccall "&mrh_do_readlink" c_readlink :: FunPtr Work

foreign import ccall "&mrh_do_chmod" c_chmod :: FunPtr Work

foreign import ccall "&mrh_do_chown" c_chown :: FunPtr Work

foreign import ccall "&mrh_do_set_times" c_set_times :: FunPtr Work

-- | Only the owner may do anything.
ownerOnly :: Permissions
ownerOnly = Permissions 0o700

-- | All users may do everything that the program's @umask@ allows.
everybody :: Permissions
everybody = Permissions 0o777

-- | Whether a name exists. A symbolic link to nothing does not, and neither does a name below a file. Throws if that
-- cannot be found out.
exists :: FilePath -> IO Bool
exists path = do
  name <- pathBytes function path
  outcome <- runJob (job c_exists [] [name])
  case outcome of
    Right _ -> return True
    Left code
      | code == eNOENT || code == eNOTDIR -> return False
      | otherwise -> throwIO (failure function path code)
  where
    function = "Millrace.Directory.exists"

-- | The status of a path, after following symbolic links.
status :: FilePath -> IO Status
status = statusBy "Millrace.Directory.status" Always

-- | The status of a path; of a symbolic link itself.
linkStatus :: FilePath -> IO Status
linkStatus = statusBy "Millrace.Directory.linkStatus" Never

-- | The status of an open file.
fileStatus :: File -> IO Status
fileStatus file = onFile "Millrace.Directory.fileStatus" file c_status_of [] Nothing statusFrom

statusBy :: String -> Follow -> FilePath -> IO Status
statusBy function follow path = onPath function path c_status [followNumber follow] statusFrom

statusFrom :: Int64 -> Output -> IO Status
statusFrom _ (Output memory _) = statusAt memory

-- | The absolute path without symbolic links, @.@ and @..@. All of it must exist.
canonicalPath :: FilePath -> IO FilePath
canonicalPath path =
  onPath "Millrace.Directory.canonicalPath" path c_realpath [] (\_ output -> outputBytes output >>= pathFrom)

-- | The space of a file system, in bytes.
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
space :: FilePath -> IO Space
space path = onPath "Millrace.Directory.space" path c_space [] $ \_ output -> do
  numbers <- outputNumbers output
  case numbers of
    [total, available, files, free] -> return (Space total available files free)
    _ -> error "Millrace.Directory.space: four numbers were asked for"

-- | Makes a directory. The @umask@ of the program removes permissions.
createDirectory :: FilePath -> Permissions -> IO ()
createDirectory path permissions =
  onPath "Millrace.Directory.createDirectory" path c_mkdir [bitsOf permissions] (\_ _ -> return ())

-- | Makes a directory and those above it that do not exist. It may exist already.
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
removeDirectory :: FilePath -> IO ()
removeDirectory = removeName "Millrace.Directory.removeDirectory" Directory

-- | Removes a directory with everything in it, or a file. Does not follow symbolic links, not even one that replaces a
-- directory meanwhile, also not above the name that it removes: each name is removed from its open directory. If
-- something in it cannot be removed, it throws, and the rest remains. Names that others remove meanwhile cause no
-- error.
--
-- A helper removes some hundred names at a time. If the caller is interrupted, the helper ends after the name that it
-- is about to remove.
removeTree :: FilePath -> IO ()
removeTree path = pathBytes function path >>= go False
  where
    function = "Millrace.Directory.removeTree"
    go :: Bool -> ByteString -> IO ()
    go hasBegun name = do
      left <- runJob (failingAt function (job c_remove_tree [if hasBegun then 1 else 0] [name])) >>= named function path
      when (left == moreIsLeft) (go True name)

-- Removes an empty directory, or a file.
removeName :: String -> Kind -> FilePath -> IO ()
removeName function kind path = onPath function path c_unlink [if kind == Directory then 1 else 0] (\_ _ -> return ())

-- | The names in a directory, in no particular order, without @.@ and @..@. All of them are in memory then:
-- 'foldEntries' has some thousand at a time.
list :: FilePath -> IO [Entry]
list path =
  stateOf
    <$> foldDirectory (reading "Millrace.Directory.list") path [] (\found entry -> return (Proceed (entry : found)))

-- | @foldEntries directory state step@ gives each name in a directory to an action, in no particular order, without @.@
-- and @..@, until there is no more or the action returns 'Stop'. It reads some thousand names at a time, when those
-- before have been used: so its memory does not grow with the directory, and of a large one that it does not need it
-- reads the beginning only. Of names that are created or removed meanwhile it may give some and not others. The
-- directory is closed whatever happens.
--
-- >>> createDirectory "many" ownerOnly
-- >>> mapM_ (\i -> createSymbolicLink "nowhere" ("many/" ++ show i)) [1 .. 100]
-- >>> foldEntries "many" 0 (\count _ -> return (if count == 9 then Stop 10 else Proceed (count + 1)))
-- 10
-- >>> removeTree "many"
foldEntries :: FilePath -> a -> (a -> Entry -> IO (Step a)) -> IO a
foldEntries path begin step = stateOf <$> foldDirectory (reading "Millrace.Directory.foldEntries") path begin step

-- | 'foldEntries', with more about each entry.
foldEntriesWith :: Detail -> FilePath -> a -> (a -> Entry -> IO (Step a)) -> IO a
foldEntriesWith detail path begin step =
  stateOf
    <$> foldDirectory (reading "Millrace.Directory.foldEntriesWith") {readingDetail = detail} path begin step

-- How list and foldEntries read: the directory may be behind a link, and errors are thrown.
reading :: String -> DirectoryReading
reading function = ReadingDirectory function Always KindOnly "" throwIO

-- | An open directory, whose names are read when 'nextEntry' needs them. Use it for loops that 'foldEntries' cannot
-- express. For one thread at a time.
data DirectoryStream = DirectoryStream !FilePath !Prefix !(Maybe Open) !(IORef Unread)

data Unread
  = Unread !Names !Rest
  | Closed

-- | Opens a directory, and reads its first names. Close it, because the garbage collector does not.
openDirectory :: FilePath -> IO DirectoryStream
openDirectory path = handOver closeDirectory $ do
  (names, rest) <- firstBatch (reading "Millrace.Directory.openDirectory") path
  DirectoryStream path (prefixOf "" path) (opened rest) <$> newIORef (Unread names rest)
  where
    opened Complete = Nothing
    opened (More open _) = Just open

-- | The next name, as 'foldEntries' gives it; 'Nothing' at the end. If it is interrupted, another call returns the same
-- name. Throws if the directory was closed.
nextEntry :: DirectoryStream -> IO (Maybe Entry)
nextEntry (DirectoryStream path prefix _ unread) = do
  before <- readIORef unread
  handOver (\_ -> writeIORef unread before) (go before)
  where
    function = "Millrace.Directory.nextEntry"
    go Closed = throwIO (failure function path eBADF)
    go (Unread names rest)
      | not (isEmpty names) = do
        decode <- pathDecoder
        (entry, others) <- nextName decode prefix names
        Just entry <$ writeIORef unread (Unread others rest)
      | otherwise = case rest of
        Complete -> return Nothing
        More open position -> nextBatch (reading function) path open position >>= go . uncurry Unread

-- | Closes a directory. Does not wait. If a call that was interrupted still reads, that call closes it. Closing it
-- twice is no error.
closeDirectory :: DirectoryStream -> IO ()
closeDirectory (DirectoryStream _ _ open unread) = mask_ (writeIORef unread Closed >> mapM_ closeListing open)

-- | Opens a directory, and closes it when the action has ended.
--
-- >>> createDirectories "one/two" ownerOnly
-- >>> withDirectory "one" (\stream -> fmap entryName <$> nextEntry stream)
-- Just "two"
-- >>> removeTree "one"
withDirectory :: FilePath -> (DirectoryStream -> IO a) -> IO a
withDirectory path = bracket (openDirectory path) closeDirectory

-- | @walk directory follow visit@ visits everything below a directory, and reads a directory only when it has visited
-- what came before. So it needs memory for the current path, with some thousand names for each of its directories, and
-- not for the whole tree. A directory is visited before its contents. Directories that are removed meanwhile, or that
-- may not be read, are skipped after their visit. Of names that are created or removed while their directory is read it
-- may visit some and not others. Of a path that means no directory, it visits the path itself.
walk :: FilePath -> Follow -> (Entry -> IO ()) -> IO ()
walk root follow visit =
  foldTreeFor "Millrace.Directory.walk" KindOnly root follow () (\() entry -> Proceed () <$ visit entry)

-- | 'walk', with more about each entry: the call that reads a directory also gets the sizes, times and so on of what is
-- in it. That is much cheaper than a call for each.
--
-- >>> import Millrace.File
-- >>> createDirectories "tree/a" ownerOnly
-- >>> withFile "tree/a/file" ForWriting (\file -> writeAt file 0 "12345")
-- >>> import Control.Monad (when)
-- >>> let isFile entry = entryKind entry == RegularFile
-- >>> let printSize entry = when (isFile entry) (print (entryRelative entry, statusSize <$> entryStatus entry))
-- >>> walkWith WithStatus "tree" Never printSize
-- ("a/file",Just 5)
-- >>> removeTree "tree"
walkWith :: Detail -> FilePath -> Follow -> (Entry -> IO ()) -> IO ()
walkWith detail root follow visit =
  foldTreeFor "Millrace.Directory.walkWith" detail root follow () (\() entry -> Proceed () <$ visit entry)

-- | @foldTree directory follow state step@ is 'walk' with a state, which ends when the action returns 'Stop'.
--
-- >>> createDirectories "tree/a/b/c" ownerOnly
-- >>> let step entry = if entryName entry == "b" then Stop else Proceed
-- >>> foldTree "tree" Never [] (\seen entry -> return (step entry (entryPath entry : seen)))
-- ["tree/a/b","tree/a"]
-- >>> removeTree "tree"
foldTree :: FilePath -> Follow -> a -> (a -> Entry -> IO (Step a)) -> IO a
foldTree = foldTreeFor "Millrace.Directory.foldTree" KindOnly

-- | 'foldTree', with more about each entry.
foldTreeWith :: Detail -> FilePath -> Follow -> a -> (a -> Entry -> IO (Step a)) -> IO a
foldTreeWith = foldTreeFor "Millrace.Directory.foldTreeWith"

foldTreeFor :: String -> Detail -> FilePath -> Follow -> a -> (a -> Entry -> IO (Step a)) -> IO a
foldTreeFor function detail root follow begin step = do
  above <- if follow == Always then (: []) . identity <$> statusBy function Always root else return []
  isDirectory <- newIORef True
  outcome <- foldDirectory (ReadingDirectory function Always detail "" (unlessFile isDirectory)) root begin (go above)
  wasDirectory <- readIORef isDirectory
  if wasDirectory then return (stateOf outcome) else entryOf root >>= fmap stateOf . step begin
  where
    entryOf path = do
      known <- statusBy function Never path
      let wanted = if detail == WithStatus then Just known else Nothing
      return (Entry (nameOf path) path (statusKind known) (nameOf path) wanted)
    nameOf path = reverse (takeWhile (/= '/') (reverse path))
    unlessFile isDirectory problem
      | (Errno <$> ioe_errno problem) == Just eNOTDIR = (noNames, Complete) <$ writeIORef isDirectory False
      | otherwise = throwIO problem
    go above state entry = do
      outcome <- step state entry
      case outcome of
        Proceed new -> below above entry new
        Stop _ -> return outcome
    below above entry state = case (follow, entryKind entry) of
      (Never, Directory) -> children above entry state
      (Always, kind) | kind `elem` [Directory, SymbolicLink] -> do
        found <- attempt (statusBy function Always (entryPath entry))
        case found of
          Right known
            | statusKind known == Directory && identity known `notElem` above ->
              children (identity known : above) entry state
          _ -> return (Proceed state)
      _ -> return (Proceed state)
    children above entry state =
      foldDirectory
        (ReadingDirectory function follow detail (entryRelative entry ++ "/") skipped)
        (entryPath entry)
        state
        (go above)
    skipped _ = return (noNames, Complete)
    identity known = (statusDevice known, statusInode known)

attempt :: IO a -> IO (Either IOError a)
attempt action = (Right <$> action) `catch` (return . Left)

-- | Gives a file another name. If the new name exists, it is replaced atomically: at every moment it means one of the
-- two files.
rename :: FilePath -> FilePath -> IO ()
rename from to = onPaths "Millrace.Directory.rename" from to c_rename [0]

-- | Gives a file another name. Throws if that name exists.
renameNew :: FilePath -> FilePath -> IO ()
renameNew from to = onPaths "Millrace.Directory.renameNew" from to c_rename [renameNoReplace]

-- | Exchanges two names atomically. Not on every file system (@EINVAL@).
exchange :: FilePath -> FilePath -> IO ()
exchange one other = onPaths "Millrace.Directory.exchange" one other c_rename [renameExchange]

-- | @createLink existing new@ gives a file another name.
createLink :: FilePath -> FilePath -> IO ()
createLink from to = onPaths "Millrace.Directory.createLink" from to c_link []

-- | @createSymbolicLink content path@ makes a symbolic link.
createSymbolicLink :: FilePath -> FilePath -> IO ()
createSymbolicLink content path = onPaths "Millrace.Directory.createSymbolicLink" content path c_symlink []

-- | The content of a symbolic link.
readSymbolicLink :: FilePath -> IO FilePath
readSymbolicLink path =
  onPath "Millrace.Directory.readSymbolicLink" path c_readlink [] (\_ output -> outputBytes output >>= pathFrom)

-- | Sets the permissions. Follows symbolic links.
setPermissions :: FilePath -> Permissions -> IO ()
setPermissions path permissions =
  void $ onPath "Millrace.Directory.setPermissions" path c_chmod [bitsOf permissions] (\result _ -> return result)

-- | @setOwner path user group@ changes the owner, the group or both. Follows symbolic links.
setOwner :: FilePath -> Maybe Word32 -> Maybe Word32 -> IO ()
setOwner path user group =
  onPath "Millrace.Directory.setOwner" path c_chown [number user, number group, followNumber Always] (\_ _ -> return ())
  where
    number = maybe (-1) fromIntegral

-- | @setTimes path accessed modified@ sets the times of the last reading and writing; 'Nothing' leaves one as it is.
-- Follows symbolic links.
setTimes :: FilePath -> Maybe Time -> Maybe Time -> IO ()
setTimes path accessed modified =
  onPath
    "Millrace.Directory.setTimes"
    path
    c_set_times
    (numbers accessed ++ numbers modified ++ [followNumber Always])
    (\_ _ -> return ())
  where
    numbers = maybe [0, timeOmit] (\(Time seconds nanoseconds) -> [seconds, nanoseconds])

bitsOf :: Permissions -> Int64
bitsOf = fromIntegral . permissionBits
