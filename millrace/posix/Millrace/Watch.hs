-- | Watching directories and files for changes (inotify).
--
-- > main = withWatch ["src"] Recursive $ \watch -> forever (nextEvents watch >>= mapM_ print)
--
-- 1. A recursive watch includes directories that are created or moved in later. Entries that such a directory already has when
--    it is noticed are reported as 'Created', perhaps twice.
-- 2. The two halves of a rename are one event, if both names are watched.
-- 3. If events come faster than they are taken, the system drops some. That is reported ('Overflowed'): then read all
--    directories again.
-- 4. Equal events of one file that follow each other are one event.
--
-- Waiting occupies no operating system thread, and is interruptible; events that were just taken may be lost
-- then. All functions throw an 'IOError' that names the function and the path. Only on Linux, for changes made on this
-- machine. Within "Millrace.Simulation" there are no watches.
--
-- >>> import Millrace.Directory
-- >>> createDirectory "watched" ownerOnly
-- >>> withWatch ["watched"] Recursive (\watch -> createDirectory "watched/new" ownerOnly >> nextEvents watch)
-- [Event {eventPath = "watched/new", eventChange = Created}]
-- >>> removeTree "watched"
module Millrace.Watch
  ( Watch,
    Depth (..),
    withWatch,
    Event (..),
    Change (..),
    nextEvents,
    nextEventsBefore,
  )
where

import Control.Concurrent.MVar
import Control.Exception (bracket, catch, mask_, throwIO)
import Control.Monad (when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.List (isPrefixOf)
import qualified Data.Map.Strict as Map
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eNOENT, eNOTDIR)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, deadlineAfter, isDeadlineError, noDeadline)
import Millrace.Directory (Entry (..), Kind (..), list)
import Millrace.Internal.Constants.Watches
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File (pathBytes, pathFrom)
import Millrace.Internal.Job (refuseSimulation)
import Millrace.Internal.Plain

foreign import ccall unsafe "mrh_watch_create" c_create :: IO CInt

foreign import ccall unsafe "mrh_watch_add" c_add :: CInt -> CString -> Word32 -> IO CInt

foreign import ccall unsafe "mrh_watch_remove" c_remove :: CInt -> CInt -> IO CInt

-- | A watch.
--
-- @since 0.1.0
data Watch = Watch
  { watchPlain :: !Plain,
    watchDepth :: !Depth,
    watchPaths :: !(MVar Paths)
  }

-- | By the numbers that the system has given them.
type Paths = Map.Map CInt FilePath

instance Eq Watch where
  a == b = watchPlain a == watchPlain b

-- | How far a watch reaches.
--
-- @since 0.1.0
data Depth
  = -- | the files that were named, and what is directly in the directories that were named
    Flat
  | -- | everything below the directories
    Recursive
  deriving (Eq, Show, Read, Enum, Bounded)

-- | A change of a path.
--
-- @since 0.1.0
data Event = Event
  { eventPath :: !FilePath,
    eventChange :: !Change
  }
  deriving (Eq, Show)

-- | A change.
--
-- @since 0.1.0
data Change
  = -- | The name is new.
    Created
  | -- | Something was written, or the size was changed.
    Modified
  | -- | A program that had opened it for writing has closed it: it is likely to be complete.
    Written
  | -- | permissions, times, owner, number of names
    AttributesChanged
  | Removed
  | -- | to this path
    RenamedTo !FilePath
  | -- | to a place that is not watched
    MovedAway
  | -- | from a place that is not watched
    MovedIn
  | -- | Events were lost; the path is empty.
    Overflowed
  deriving (Eq, Show)

-- | @withWatch paths depth action@ watches files and directories during an action.
--
-- @since 0.1.0
withWatch :: [FilePath] -> Depth -> (Watch -> IO a) -> IO a
withWatch paths depth action = bracket open (closePlain . watchPlain) $ \watch -> do
  mapM_ (\path -> addTree watch path >>= \found -> when (null found) (addOrThrow watch path)) paths
  action watch
  where
    open = mask_ $ do
      refuseSimulation
      descriptor <- c_create
      when (descriptor < 0) $ throwIO (failure function "a watch" (Errno (negate descriptor)))
      Watch <$> newPlain "watch" descriptor <*> pure depth <*> newMVar Map.empty
    addOrThrow watch path = do
      added <- addOne watch path
      either (throwIO . failure function path) return added

function :: String
function = "Millrace.Watch.withWatch"

-- Watches one path. It may be watched already.
addOne :: Watch -> FilePath -> IO (Either Errno ())
addOne watch path = do
  name <- pathBytes function path
  modifyMVar (watchPaths watch) $ \paths -> do
    number <- ByteString.useAsCString name (\text -> c_add (plainDescriptor (watchPlain watch)) text watchedEvents)
    return (if number < 0 then (paths, Left (Errno (negate number))) else (Map.insert number path paths, Right ()))

-- Watches a path and, if the watch is recursive, the directories below. Returns what it is, and what is below: first the path. Nothing
-- if it is gone.
addTree :: Watch -> FilePath -> IO [FilePath]
addTree watch path = do
  added <- addOne watch path
  case added of
    Left code
      | code `elem` [eNOENT, eNOTDIR] -> return []
      | otherwise -> throwIO (failure function path code)
    Right () | watchDepth watch == Flat -> return [path]
    Right () -> do
      entries <- list path `catch` gone
      below <- mapM (\entry -> if entryKind entry == Directory then addTree watch (entryPath entry) else return [entryPath entry]) entries
      return (path : concat below)
  where
    -- A file has no entries. Neither has a directory that was removed meanwhile.
    gone problem = if maybe False ((`elem` [eNOENT, eNOTDIR]) . Errno) (ioe_errno problem) then return [] else throwIO problem

-- | Waits for events, and returns all that have arrived.
--
-- @since 0.1.0
nextEvents :: Watch -> IO [Event]
nextEvents = nextEventsBefore noDeadline

-- | 'nextEvents' with a deadline ('isDeadlineError').
--
-- @since 0.1.0
nextEventsBefore :: Deadline -> Watch -> IO [Event]
nextEventsBefore deadline watch = do
  raw <- readPlain "Millrace.Watch.nextEvents" (watchPlain watch) deadline roomBytes >>= records
  -- The other half of a rename may come a moment later.
  more <- if any (== 1) (halves raw) then afterAMoment else return []
  events <- interpret watch (raw ++ more)
  if null events then nextEventsBefore deadline watch else return (withoutRepetition events)
  where
    afterAMoment = do
      soon <- deadlineAfter 2000
      (readPlain "Millrace.Watch.nextEvents" (watchPlain watch) soon roomBytes >>= records) `catch` \problem ->
        if isDeadlineError problem then return [] else throwIO problem

-- For each move, how many of its two halves have arrived.
halves :: [Record] -> [Int]
halves raw = Map.elems (Map.fromListWith (+) [(recordCookie record, 1) | record <- raw, isMove record])

roomBytes :: Int
roomBytes = 65536

withoutRepetition :: [Event] -> [Event]
withoutRepetition (one : other : others)
  | one == other = withoutRepetition (other : others)
  | otherwise = one : withoutRepetition (other : others)
withoutRepetition few = few

-- A @struct inotify_event@.
data Record = Record
  { recordWatch :: !CInt,
    recordMask :: !Word32,
    recordCookie :: !Word32,
    recordName :: !ByteString
  }

isMove :: Record -> Bool
isMove record = recordMask record .&. (maskMovedFrom .|. maskMovedTo) /= 0

has :: Record -> Word32 -> Bool
has record bits = recordMask record .&. bits /= 0

records :: ByteString -> IO [Record]
records bytes
  | ByteString.length bytes < headBytes = return []
  | otherwise = do
    (watch, bits, cookie, size) <- unsafeUseAsCString bytes $ \place ->
      (,,,) <$> peekByteOff place 0 <*> peekByteOff place 4 <*> peekByteOff place 8 <*> (peekByteOff place 12 :: IO Word32)
    let end = headBytes + fromIntegral size
        name = ByteString.takeWhile (/= 0) (ByteString.take (fromIntegral size) (ByteString.drop headBytes bytes))
    (Record watch bits cookie name :) <$> records (ByteString.drop end bytes)

headBytes :: Int
headBytes = 16

-- Converts records to events. Watches new directories, and records the new names of moved ones.
interpret :: Watch -> [Record] -> IO [Event]
interpret watch raw = concat <$> mapM eventsOf raw
  where
    eventsOf record
      | record `has` maskOverflow = [Event "" Overflowed] <$ watchAgain
      | record `has` maskIgnored = [] <$ modifyMVar_ (watchPaths watch) (return . Map.delete (recordWatch record))
      | otherwise = do
        known <- Map.lookup (recordWatch record) <$> readMVar (watchPaths watch)
        maybe (return []) (at record) known
    at record directory = do
      name <- pathFrom (recordName record)
      let path = if null name then directory else directory ++ (if last directory == '/' then "" else "/") ++ name
      change record path
    change record path
      | record `has` maskMovedFrom = case partnerOf record maskMovedTo of
        Just partner -> renamed partner path (record `has` maskDirectory)
        Nothing -> [Event path MovedAway] <$ when (record `has` maskDirectory) (forget path)
      | record `has` maskMovedTo = case partnerOf record maskMovedFrom of
        Just _ -> return []
        Nothing -> appeared record path MovedIn
      | record `has` maskCreated = appeared record path Created
      | record `has` (maskRemoved .|. maskRemovedItself) = return [Event path Removed]
      | record `has` maskModified = return [Event path Modified]
      | record `has` maskWritten = return [Event path Written]
      | record `has` maskAttributes = return [Event path AttributesChanged]
      | otherwise = return []
    partnerOf record bits = Map.lookup (recordCookie record) (if bits == maskMovedTo then movedTo else movedFrom)
    movedTo = byCookie maskMovedTo
    movedFrom = byCookie maskMovedFrom
    byCookie bits = Map.fromList [(recordCookie record, record) | record <- raw, record `has` bits]
    appeared record path how
      | record `has` maskDirectory && watchDepth watch == Recursive = do
        found <- addTree watch path
        return (Event path how : [Event below Created | below <- drop 1 found])
      | otherwise = return [Event path how]
    renamed partner from isDirectory = do
      paths <- readMVar (watchPaths watch)
      case Map.lookup (recordWatch partner) paths of
        Nothing -> [Event from MovedAway] <$ when isDirectory (forget from)
        Just directory -> do
          name <- pathFrom (recordName partner)
          let to = directory ++ "/" ++ name
          when isDirectory (moveBelow from to)
          return [Event from (RenamedTo to)]
    moveBelow from to = modifyMVar_ (watchPaths watch) (return . Map.map (moved from to))
    moved from to path
      | path == from = to
      | (from ++ "/") `isPrefixOf` path = to ++ drop (length from) path
      | otherwise = path
    -- Removes the watches of a path that was moved away, and those below it.
    forget path = modifyMVar_ (watchPaths watch) $ \paths -> do
      let isBelow known = known == path || (path ++ "/") `isPrefixOf` known
          (gone, kept) = Map.partition isBelow paths
      kept <$ mapM_ (c_remove (plainDescriptor (watchPlain watch))) (Map.keys gone)
    watchAgain = when (watchDepth watch == Recursive) $ do
      paths <- Map.elems <$> readMVar (watchPaths watch)
      mapM_ (addTree watch) paths
