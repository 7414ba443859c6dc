-- Must not know: sockets.

-- | Reads directories, batch by batch: some thousand names at a time, read by a helper.
--
-- 1. A directory that has no more names than fit into a batch is opened, read and closed by one job.
-- 2. The descriptor of a larger one is closed once: by 'closeListing' or, if a helper still reads from it then, when
--    that call ends.
-- 3. A batch that its caller no longer waits for is read again by the next call, so an interruption loses no name.
module Millrace.Internal.DirectoryBatches
  ( Entry (..),
    Detail (..),
    Follow (..),
    followNumber,
    Step (..),
    stateOf,

    -- * Batches
    Names,
    isEmpty,
    Rest (..),
    Open,
    noNames,
    firstBatch,
    nextBatch,
    closeListing,
    nextName,
    Prefix,
    prefixOf,

    -- * Whole directories
    DirectoryReading (..),
    foldDirectory,
  )
where

import Control.Concurrent.MVar (MVar, newMVar, putMVar, takeMVar)
import Control.Exception (catch, mask, mask_, onException)
import Control.Monad (unless)
import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeDrop, unsafeIndex, unsafeTake, unsafeUseAsCString)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.Ptr (FunPtr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Millrace.Internal.Constants.Files
import Millrace.Internal.Constants.Jobs (statusBytes)
import Millrace.Internal.File (pathBytes, pathDecoder)
import Millrace.Internal.FileJob
import Millrace.Internal.FileStatus
import Millrace.Internal.HelperJob (Output (..), meaning)

foreign import ccall "&mrh_do_list" c_list :: FunPtr Work

foreign import ccall "&mrh_do_list_more" c_list_more :: FunPtr Work

-- | A name in a directory.
data Entry = Entry
  { -- | in its directory
    entryName :: !FilePath,
    -- | the path of the directory and the name
    entryPath :: !FilePath,
    entryKind :: !Kind,
    -- | the path below the directory that was read or walked
    entryRelative :: FilePath,
    -- | what the system knew when it read the directory, of a symbolic link itself. 'Nothing' if nobody asked for it
    -- ('WithStatus'), and if the name was removed meanwhile.
    entryStatus :: !(Maybe Status)
  }
  deriving (Eq, Show)

-- | What is wanted of each name in a directory.
data Detail
  = KindOnly
  | -- | Also the status: sizes, times, permissions. It costs another call to the system for each name, but no further
    -- switch of threads.
    WithStatus
  deriving (Eq, Show, Read, Enum, Bounded)

-- | Whether symbolic links to directories are followed.
data Follow
  = Never
  | -- | A link to a directory that contains it is left out.
    Always
  deriving (Eq, Show, Read, Enum, Bounded)

-- | For jobs: whether the last part of a path may be a symbolic link.
followNumber :: Follow -> Int64
followNumber follow = case follow of
  Never -> 0
  Always -> 1

-- | Whether a fold continues.
data Step a
  = Proceed a
  | -- | This is the result: nothing more is read.
    Stop a
  deriving (Eq, Show)

-- | The state that a fold has reached.
stateOf :: Step a -> a
stateOf (Proceed a) = a
stateOf (Stop a) = a

-- | Names that were read together, and are not decoded yet; and an @mrh_status@ for each, if they were asked for.
data Names = Names !ByteString !ByteString

-- | The names of an empty directory.
noNames :: Names
noNames = Names ByteString.empty ByteString.empty

-- | Whether there is no name.
isEmpty :: Names -> Bool
isEmpty (Names names _) = ByteString.null names

-- | The rest of a directory after a batch.
data Rest
  = Complete
  | -- | more names, which begin at this position of the directory
    More !Open !Int64

-- | An open directory: its descriptor, its stage, and a variable that is empty while a helper reads.
data Open = Open !Int64 !(IORef DirectoryState) !(MVar ())

data DirectoryState
  = Idle
  | BeingRead
  | -- | It is to be closed when the helper has read.
    BeingReadLast
  | Closed

-- | Opens a directory and reads its first names. Call it masked, and close what is open then.
firstBatch :: DirectoryReading -> FilePath -> IO (Names, Rest)
firstBatch (ReadingDirectory function follow detail _ _) path = do
  name <- pathBytes function path
  (descriptor, position, names) <-
    runJob
      ( job c_list [followNumber follow, detailNumber detail] [name]
          `meaning` (\descriptor output -> (\(position, names) -> (descriptor, position, names)) <$> batchFrom output)
      )
        { jobDispose = \descriptor -> unless (descriptor == listedAll) (closeNumber (fromIntegral descriptor))
        }
      >>= named function path
  if descriptor == listedAll
    then return (names, Complete)
    else (\open -> (names, More open position)) <$> (Open descriptor <$> newIORef Idle <*> newMVar ())

-- | Reads the names at a position. Interruptible: then the same call can be made again. It first waits for a helper
-- that still reads.
nextBatch :: DirectoryReading -> FilePath -> Open -> Int64 -> IO (Names, Rest)
nextBatch (ReadingDirectory function _ detail _ _) path open@(Open number stage turn) position = mask_ $ do
  takeMVar turn
  writeIORef stage BeingRead
  runJob (job c_list_more [number, position, detailNumber detail] [] `meaning` means) {jobRelease = finish}
    >>= named function path
  where
    means more output = do
      (next, names) <- batchFrom output
      return (names, if more == 0 then Complete else More open next)
    finish = do
      before <- atomicModifyIORef' stage $ \now -> case now of
        BeingReadLast -> (Closed, now)
        _ -> (Idle, now)
      case before of
        BeingReadLast -> closeNumber (fromIntegral number)
        _ -> putMVar turn ()

-- | Closes it. Does not wait.
closeListing :: Open -> IO ()
closeListing (Open number stage _) = mask_ $ do
  before <- atomicModifyIORef' stage $ \now -> case now of
    BeingRead -> (BeingReadLast, now)
    BeingReadLast -> (BeingReadLast, now)
    _ -> (Closed, now)
  case before of
    Idle -> closeNumber (fromIntegral number)
    _ -> return ()

batchFrom :: Output -> IO (Int64, Names)
batchFrom (Output memory count) = do
  position <- peekByteOff memory 0
  size <- fromIntegral <$> (peekByteOff memory batchNamesSize :: IO Int64)
  names <- ByteString.packCStringLen (castPtr (memory `plusPtr` batchNames), size)
  statuses <- ByteString.packCStringLen (castPtr (memory `plusPtr` (batchNames + size)), count - batchNames - size)
  return (position, Names names statuses)

detailNumber :: Detail -> Int64
detailNumber detail = case detail of
  KindOnly -> 0
  WithStatus -> 1

-- | What comes before a name in its paths, with a slash: the directory's path, and its path below the first directory.
data Prefix = Prefix !FilePath FilePath

prefixOf :: FilePath -> FilePath -> Prefix
prefixOf relative path = Prefix (if null path || last path == '/' then path else path ++ "/") relative

-- | The first of the names, which there must be, and the others.
nextName :: (ByteString -> IO FilePath) -> Prefix -> Names -> IO (Entry, Names)
nextName decode (Prefix directory relative) (Names names statuses) = do
  name <- decode (unsafeTake size (unsafeDrop nameHeadSize names))
  known <- if ByteString.null statuses then return Nothing else unsafeUseAsCString statuses (statusIfThere . castPtr)
  return
    ( Entry name (directory ++ name) kind (relative ++ name) known,
      Names (unsafeDrop (nameHeadSize + size) names) (ByteString.drop statusBytes statuses)
    )
  where
    -- The kernel gives no file mode 0.
    statusIfThere memory = do
      known <- statusAt memory
      return (if statusKind known == UnknownKind then Nothing else Just known)
    size = fromIntegral (unsafeIndex names 1) .|. fromIntegral (unsafeIndex names 2) `shiftL` 8
    kind = fromMaybe UnknownKind (lookup (fromIntegral (unsafeIndex names 0)) entryKinds)

-- Most names are of files, so their kind is the first.
entryKinds :: [(Int, Kind)]
entryKinds =
  [ (entryRegular, RegularFile),
    (entryDirectory, Directory),
    (entryLink, SymbolicLink),
    (entryFifo, Fifo),
    (entrySocket, UnixSocket),
    (entryCharacter, CharacterDevice),
    (entryBlock, BlockDevice)
  ]

-- | How a directory is read.
data DirectoryReading = ReadingDirectory
  { -- | the function that reads, for errors
    readingFunction :: String,
    -- | whether the path may be a symbolic link to a directory
    readingFollow :: !Follow,
    readingDetail :: !Detail,
    -- | the directory's path below the first one, with a slash, or empty
    readingRelative :: FilePath,
    -- | Returns the names to use instead of a batch that could not be read, or throws.
    readingProblem :: IOError -> IO (Names, Rest)
  }

-- | Gives the entries of a directory to an action, one after the other. Has one batch in memory.
foldDirectory :: DirectoryReading -> FilePath -> a -> (a -> Entry -> IO (Step a)) -> IO (Step a)
foldDirectory how path begin step = mask $ \restore -> do
  first <- firstBatch how path `catch` problem
  case snd first of
    Complete -> restore (batches first begin)
    More open _ -> do
      outcome <- restore (batches first begin) `onException` closeListing open
      outcome <$ closeListing open
  where
    problem = readingProblem how
    batches (names, rest) state = do
      decode <- pathDecoder
      outcome <- foldNames decode (prefixOf (readingRelative how) path) step names state
      case (outcome, rest) of
        (Proceed new, More open position) -> do
          next <- nextBatch how path open position `catch` problem
          batches next new
        _ -> return outcome

foldNames :: (ByteString -> IO FilePath) -> Prefix -> (a -> Entry -> IO (Step a)) -> Names -> a -> IO (Step a)
foldNames decode prefix step = go
  where
    go names state
      | isEmpty names = return (Proceed state)
      | otherwise = do
        (entry, others) <- nextName decode prefix names
        outcome <- step state entry
        case outcome of
          Proceed new -> go others new
          Stop _ -> return outcome
