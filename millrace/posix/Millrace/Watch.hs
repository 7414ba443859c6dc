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
-- 5. If a file or directory that was named to 'withWatch' is renamed, this is 'MovedAway', and it is no longer watched. If the
--    directory that it is in is watched, too, that reports the rename as for its other names.
-- 6. A directory that may not be read is reported, but not what happens in it. One that was named throws an error.
--
-- Waiting occupies no operating system thread, and is interruptible. The next call returns the events that an interrupted one has
-- taken. All functions throw an 'IOError' that names the function and the path. Only on Linux, for changes made on this machine.
-- Within "Millrace.Simulation" there are no watches.
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
import Control.Exception (bracket, catch, mask_, onException, throwIO)
import Control.Monad (unless, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.IORef
import Data.List (dropWhileEnd, isPrefixOf, stripPrefix)
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eACCES, eNOENT, eNOTDIR)
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
import Millrace.Internal.Park (handOver)
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
    watchPaths :: !(MVar Paths),
    -- | what calls have left that were interrupted or failed
    watchLeft :: !(IORef Batch)
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
  mapM_ (\path -> addNamed watch path >> addTree watch path) paths
  action watch
  where
    open = mask_ $ do
      refuseSimulation
      descriptor <- c_create
      when (descriptor < 0) $ throwIO (failure function "a watch" (Errno (negate descriptor)))
      Watch <$> newPlain "watch" descriptor <*> pure depth <*> newMVar Map.empty <*> newIORef noBatch
    -- Its own moves are reported. For what is below, the directory reports them.
    addNamed watch path = addOne (watchedEvents .|. maskMovedItself) watch path >>= either (throwIO . failure function path) return

function :: String
function = "Millrace.Watch.withWatch"

-- Watches one path. It may be watched already.
addOne :: Word32 -> Watch -> FilePath -> IO (Either Errno ())
addOne events watch path = do
  name <- pathBytes function path
  modifyMVar (watchPaths watch) $ \paths -> do
    number <- ByteString.useAsCString name (\text -> callPlain (watchPlain watch) (\descriptor -> c_add descriptor text events))
    return (if number < 0 then (paths, Left (Errno (negate number))) else (Map.insert number path paths, Right ()))

-- Watches a path and, if the watch is recursive, the directories below, except those that may not be read. Returns what it is, and
-- what is below: first the path. Nothing if it is gone.
addTree :: Watch -> FilePath -> IO [FilePath]
addTree watch path = do
  added <- addOne watchedEvents watch path
  case added of
    Left code
      | code `elem` [eNOENT, eNOTDIR] -> return []
      | code == eACCES -> return [path]
      | otherwise -> throwIO (failure function path code)
    Right () | watchDepth watch == Flat -> return [path]
    Right () -> do
      entries <- list path `catch` unlessUnreadable
      (path :) . concat <$> mapM below entries
  where
    below entry = if entryKind entry == Directory then addTree watch (entryPath entry) else return [entryPath entry]
    -- A file has no entries. Neither has a directory that was removed meanwhile, or that may not be read.
    unlessUnreadable problem = if maybe False ((`elem` [eNOENT, eNOTDIR, eACCES]) . Errno) (ioe_errno problem) then return [] else throwIO problem

-- | Waits for events, and returns all that have arrived.
--
-- @since 0.1.0
nextEvents :: Watch -> IO [Event]
nextEvents = nextEventsBefore noDeadline

-- | 'nextEvents' with a deadline ('isDeadlineError').
--
-- @since 0.1.0
nextEventsBefore :: Deadline -> Watch -> IO [Event]
nextEventsBefore deadline watch = handOver (leave . found) $ do
  left <- atomicModifyIORef' (watchLeft watch) (\known -> (noBatch, known))
  own <- newIORef left
  go own `onException` (readIORef own >>= leave)
  where
    found events = noBatch {batchEvents = reverse events}
    leave batch = atomicModifyIORef' (watchLeft watch) (\later -> (batch `followedBy` later, ()))
    go own = do
      batch <- readIORef own
      when (null (batchEvents batch) && null (batchRecords batch)) $ do
        receive own deadline
        soon <- deadlineAfter 2000
        modifyIORef' own (\new -> new {batchComplete = soon})
      -- The other half of a rename may come a moment later.
      new <- readIORef own
      when (1 `elem` halves (batchRecords new)) $
        receive own (batchComplete new) `catch` \problem -> unless (isDeadlineError problem) (throwIO problem)
      interpret watch own
      events <- reverse . batchEvents <$> readIORef own
      if null events then writeIORef own noBatch >> go own else return (withoutRepetition events)
    receive own limit = do
      raw <- readPlain "Millrace.Watch.nextEvents" (watchPlain watch) limit roomBytes >>= records
      modifyIORef' own (\batch -> batch {batchRecords = batchRecords batch ++ raw})

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

-- What a call has read and not returned.
data Batch = Batch
  { -- | the latest first
    batchEvents :: [Event],
    -- | that are not interpreted yet
    batchRecords :: [Record],
    -- | the cookies of moves whose second half was interpreted together with the first one
    batchPaired :: !(Set.Set Word32),
    -- | when second halves of moves are no longer waited for
    batchComplete :: !Deadline
  }

noBatch :: Batch
noBatch = Batch [] [] Set.empty noDeadline

followedBy :: Batch -> Batch -> Batch
followedBy (Batch events raw paired complete) (Batch laterEvents laterRaw laterPaired laterComplete)
  | null raw = Batch (laterEvents ++ events) laterRaw laterPaired laterComplete
  | otherwise = Batch (laterEvents ++ events) (raw ++ laterRaw) (Set.union paired laterPaired) complete

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

asPrefix :: FilePath -> FilePath
asPrefix directory = if last directory == '/' then directory else directory ++ "/"

headBytes :: Int
headBytes = 16

-- The events of a record; the cookie, if the second half of a move is among them; and an action that finds further events.
data Meaning = Meaning [Event] (Maybe Word32) (IO [Event])

-- Converts the records of a batch to events. Watches new directories, and records the new names of moved ones. After each record it
-- notes in the batch how far it is. So an exception loses nothing: the record is interpreted again. But after an error, which would
-- come again, only what is below the record's path is missing.
interpret :: Watch -> IORef Batch -> IO ()
interpret watch own = readIORef own >>= go . secondHalves
  where
    secondHalves batch = Map.fromList [(recordCookie record, record) | record <- batchRecords batch, record `has` maskMovedTo]
    go movedTo = do
      batch <- readIORef own
      case batchRecords batch of
        [] -> return ()
        record : others -> do
          Meaning events partner findMore <- meaningOf movedTo (batchPaired batch) record
          let note more =
                writeIORef own $
                  batch
                    { batchEvents = reverse (events ++ more) ++ batchEvents batch,
                      batchRecords = others,
                      batchPaired = maybe id Set.insert partner (batchPaired batch)
                    }
          more <- findMore `catch` \problem -> note [] >> throwIO (problem :: IOError)
          note more
          go movedTo
    meaningOf movedTo paired record
      | record `has` maskOverflow = return (Meaning [Event "" Overflowed] Nothing ([] <$ watchAgain))
      | record `has` maskIgnored = nothing <$ modifyMVar_ (watchPaths watch) (return . Map.delete (recordWatch record))
      | record `has` maskMovedTo && recordCookie record `Set.member` paired = return nothing
      | otherwise = do
        known <- Map.lookup (recordWatch record) <$> readMVar (watchPaths watch)
        maybe (return nothing) (at record (Map.lookup (recordCookie record) movedTo)) known
    nothing = Meaning [] Nothing (return [])
    only path change = Meaning [Event path change] Nothing (return [])
    at record partner directory = do
      path <- pathBelow directory record
      meaning record partner path
    pathBelow directory record = do
      name <- pathFrom (recordName record)
      return (if null name then directory else asPrefix directory ++ name)
    meaning record partner path
      | record `has` maskMovedFrom = case partner of
        Just half -> renamed half path (mayBeWatched record)
        Nothing -> only path MovedAway <$ when (mayBeWatched record) (forget path)
      | record `has` maskMovedTo = return (appeared record path MovedIn)
      | record `has` maskMovedItself = movedItself path
      | record `has` maskCreated = return (appeared record path Created)
      | record `has` (maskRemoved .|. maskRemovedItself) = return (only path Removed)
      | record `has` maskModified = return (only path Modified)
      | record `has` maskWritten = return (only path Written)
      | record `has` maskAttributes = return (only path AttributesChanged)
      | otherwise = return nothing
    appeared record path how
      | record `has` maskDirectory && watchDepth watch == Recursive =
        Meaning [Event path how] Nothing (map (`Event` Created) . drop 1 <$> addTree watch path)
      | otherwise = only path how
    -- A watch that is not recursive has few paths, also of files.
    mayBeWatched record = record `has` maskDirectory || watchDepth watch == Flat
    -- If its directory is watched, that has reported the move.
    movedItself path = do
      paths <- readMVar (watchPaths watch)
      if any (path `isDirectlyBelow`) paths then return nothing else only path MovedAway <$ forget path
    path `isDirectlyBelow` directory = maybe False (notElem '/' . dropWhileEnd (== '/')) (stripPrefix (asPrefix directory) path)
    renamed half from isWatched = do
      paths <- readMVar (watchPaths watch)
      case Map.lookup (recordWatch half) paths of
        Nothing -> only from MovedAway <$ when isWatched (forget from)
        Just directory -> do
          to <- pathBelow directory half
          when isWatched (moveBelow from to)
          return (Meaning [Event from (RenamedTo to)] (Just (recordCookie half)) (return []))
    moveBelow from to = modifyMVar_ (watchPaths watch) (return . Map.map (moved from to))
    moved from to path
      | path == from = to
      | asPrefix from `isPrefixOf` path = to ++ drop (length from) path
      | otherwise = path
    -- Removes the watches of a path that was moved away, and those below it.
    forget path = modifyMVar_ (watchPaths watch) $ \paths -> do
      let isBelow known = known == path || asPrefix path `isPrefixOf` known
          (gone, kept) = Map.partition isBelow paths
      kept <$ mapM_ (\number -> callPlain (watchPlain watch) (`c_remove` number)) (Map.keys gone)
    watchAgain = when (watchDepth watch == Recursive) $ do
      paths <- Map.elems <$> readMVar (watchPaths watch)
      mapM_ (addTree watch) paths
