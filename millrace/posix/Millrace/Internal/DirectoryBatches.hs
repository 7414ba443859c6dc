-- Must not know: sockets.

-- | Reads directories, batch by batch: some thousand names at a time, read by a helper.
--
-- 1. A directory that has no more names than fit into a batch is opened, read and closed by one job.
-- 2. The descriptor of a larger one is closed once: by 'closeListing' or, if a helper still reads from it then, when
--    that call ends.
-- 3. A batch that its caller no longer waits for is read again by the next call, so an interruption loses no name.
module Millrace.Internal.DirectoryBatches
  ( Kind (..),
    Entry (..),
    Follow (..),
    followNumber,
    Step (..),
    stateOf,

    -- * Batches
    Names,
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
import Data.ByteString.Unsafe (unsafeDrop, unsafeIndex, unsafeTake)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.Ptr (FunPtr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Millrace.Internal.Constants.Files
import Millrace.Internal.File (pathBytes, pathDecoder)
import Millrace.Internal.FileJob
import Millrace.Internal.HelperJob (Output (..), meaning)

foreign import ccall "&mrh_do_list" c_list :: FunPtr Work

foreign import ccall "&mrh_do_list_more" c_list_more :: FunPtr Work

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

-- | A name in a directory.
data Entry = Entry
  { -- | in its directory
    entryName :: !FilePath,
    -- | the path of the directory and the name
    entryPath :: !FilePath,
    entryKind :: !Kind
  }
  deriving (Eq, Show)

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

-- | Names that were read together, and are not decoded yet.
type Names = ByteString

-- | The names of an empty directory.
noNames :: Names
noNames = ByteString.empty

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
firstBatch :: String -> Follow -> FilePath -> IO (Names, Rest)
firstBatch function follow path = do
  name <- pathBytes function path
  (descriptor, position, names) <-
    runJob
      ( job c_list [followNumber follow] [name]
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
nextBatch :: String -> FilePath -> Open -> Int64 -> IO (Names, Rest)
nextBatch function path open@(Open number stage turn) position = mask_ $ do
  takeMVar turn
  writeIORef stage BeingRead
  runJob (job c_list_more [number, position] [] `meaning` means) {jobRelease = finish} >>= named function path
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
  names <- ByteString.packCStringLen (castPtr (memory `plusPtr` batchNames), count - batchNames)
  return (position, names)

-- | A directory's path with a slash.
type Prefix = FilePath

prefixOf :: FilePath -> Prefix
prefixOf path = if null path || last path == '/' then path else path ++ "/"

-- | The first of the names, which there must be, and the others.
nextName :: (ByteString -> IO FilePath) -> Prefix -> Names -> IO (Entry, Names)
nextName decode prefix names = do
  name <- decode (unsafeTake size (unsafeDrop nameHeadSize names))
  return (Entry name (prefix ++ name) kind, unsafeDrop (nameHeadSize + size) names)
  where
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
    -- | Returns the names to use instead of a batch that could not be read, or throws.
    readingProblem :: IOError -> IO (Names, Rest)
  }

-- | Gives the entries of a directory to an action, one after the other. Has one batch in memory.
foldDirectory :: DirectoryReading -> FilePath -> a -> (a -> Entry -> IO (Step a)) -> IO (Step a)
foldDirectory (ReadingDirectory function follow problem) path begin step = mask $ \restore -> do
  first <- firstBatch function follow path `catch` problem
  case snd first of
    Complete -> restore (batches first begin)
    More open _ -> do
      outcome <- restore (batches first begin) `onException` closeListing open
      outcome <$ closeListing open
  where
    batches (names, rest) state = do
      decode <- pathDecoder
      outcome <- foldNames decode (prefixOf path) step names state
      case (outcome, rest) of
        (Proceed new, More open position) -> do
          next <- nextBatch function path open position `catch` problem
          batches next new
        _ -> return outcome

foldNames :: (ByteString -> IO FilePath) -> Prefix -> (a -> Entry -> IO (Step a)) -> Names -> a -> IO (Step a)
foldNames decode prefix step = go
  where
    go names state
      | ByteString.null names = return (Proceed state)
      | otherwise = do
        (entry, others) <- nextName decode prefix names
        outcome <- step state entry
        case outcome of
          Proceed new -> go others new
          Stop _ -> return outcome
