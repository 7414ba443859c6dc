{-# LANGUAGE TupleSections #-}

-- | Watching directories and files for changes (inotify).
--
-- > main = withWatch ["src"] Recursive $ \watch -> forever (nextEvents watch >>= mapM_ print)
--
-- 1. A recursive watch includes directories that are created or moved in later. Entries that such a directory already
--    has when
--    it is noticed are reported as 'Created', perhaps twice.
-- 2. The two halves of a rename are one event, if both names are watched.
-- 3. If events come faster than they are taken, the system drops some. That is reported ('Overflowed'): then read all
--    directories again.
-- 4. Equal events of one file that follow each other are one event.
-- 5. If a file or directory that was named to 'withWatch' is renamed, this is 'MovedAway', and it is no longer watched.
--    If the
--    directory that it is in is watched, too, that reports the rename as for its other names.
-- 6. If a file or directory that was named is replaced by another one, as 'Millrace.File.Temporary.replaceFile' does,
--    this is 'Removed' or 'MovedAway', then 'Created', and the new one is watched. If there is no other one yet,
--    'Removed' is the end of the watch.
-- 7. A directory that may not be read is reported, but not what happens in it. One that was named throws an error.
-- 8. Paths are those at the time when events are taken. So an event of a directory that was renamed later may have its
--    new path.
-- 9. A change is what has happened, and later ones may have undone it: the name may mean something else by now, or
--    nothing. So a program that keeps a copy looks at each path that an event names, at both of a rename, and makes
--    the copy equal to what it finds; below a directory, everything. Two names that were exchanged are two renames.
--
-- Waiting occupies no operating system thread, and is interruptible. The next call returns the events that an
-- interrupted one has taken. All functions throw an 'IOError' that names the function and the path. Only on Linux, for
-- changes made on this machine. Within "Millrace.Simulation" there are no watches.
--
-- >>> import Millrace.Directory
-- >>> createDirectory "watched" ownerOnly
-- >>> withWatch ["watched"] Recursive (\watch -> createDirectory "watched/new" ownerOnly >> nextEvents watch)
-- [Event {eventPath = "watched/new", eventChange = Created, eventSubject = IsDirectory}]
-- >>> removeTree "watched"
module Millrace.Watch
  ( Watch,
    Depth (..),
    withWatch,
    Event (..),
    Change (..),
    Subject (..),
    nextEvents,
    nextEventsBefore,
  )
where

import Control.Concurrent.MVar
import Control.Exception (bracket, catch, mask_, onException, throwIO)
import Control.Monad (forM, unless, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.IORef
import qualified Data.Map.Strict as Map
import qualified Data.Set as Set
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eACCES, eNOENT, eNOTDIR)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, deadlineAfter, isDeadlineError, milliseconds, noDeadline)
import Millrace.Directory (Entry (..), Kind (..), list)
import Millrace.Internal.Constants.Watches
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File (pathBytes, pathFrom)
import Millrace.Internal.HelperJob (refuseSimulation)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.StreamDescriptor
import Millrace.Internal.WatchedPaths

foreign import ccall unsafe "mrh_watch_create" c_create :: IO CInt

foreign import ccall unsafe "mrh_watch_add" c_add :: CInt -> CString -> Word32 -> IO CInt

foreign import ccall unsafe "mrh_watch_remove" c_remove :: CInt -> CInt -> IO CInt

-- | A watch.
data Watch = Watch
  { watchStream :: !StreamDescriptor,
    watchDepth :: !Depth,
    watchPaths :: !(MVar Paths),
    -- | events that calls have left which were interrupted or failed
    watchLeft :: !(IORef Batch)
  }

instance Eq Watch where
  a == b = watchStream a == watchStream b

-- | How far a watch reaches.
data Depth
  = -- | the files that were named, and what is directly in the directories that were named
    Flat
  | -- | everything below the directories
    Recursive
  deriving (Eq, Show, Read, Enum, Bounded)

-- | A change of a path.
data Event = Event
  { eventPath :: !FilePath,
    eventChange :: !Change,
    -- | what the path means, or has meant
    eventSubject :: !Subject
  }
  deriving (Eq, Show)

-- | A change.
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
  | -- | to a path that is not watched
    MovedAway
  | -- | from a path that is not watched
    MovedIn
  | -- | Events were lost; the path is empty, and may stand for any directory.
    Overflowed
  deriving (Eq, Show)

-- | @withWatch paths depth action@ watches files and directories during an action.
withWatch :: [FilePath] -> Depth -> (Watch -> IO a) -> IO a
withWatch paths depth action = bracket open (closeStream . watchStream) $ \watch -> do
  mapM_ (\path -> addNamed watch path >> addTree Named watch path >>= noteReported watch) paths
  action watch
  where
    open = mask_ $ do
      refuseSimulation
      descriptor <- c_create
      when (descriptor < 0) $ throwIO (failure function "a watch" (Errno (negate descriptor)))
      Watch <$> newStreamDescriptor "watch" descriptor <*> pure depth <*> newMVar noPaths <*> newIORef noBatch
    addNamed watch path = addOne Named watch path >>= either (throwIO . failure function path) return

function :: String
function = "Millrace.Watch.withWatch"

-- Watches one path. It may be watched already.
addOne :: Role -> Watch -> FilePath -> IO (Either Errno CInt)
addOne role watch path = modifyMVarMasked (watchPaths watch) $ \paths -> do
  (subject, answer) <- case role of
    Found -> asDirectory (watchedEvents .|. maskNoLink)
    Named -> do
      -- Its own moves are reported. For what is below, the directory reports them.
      let events = watchedEvents .|. maskMovedItself
      outcome <- asDirectory events
      if outcome == (IsDirectory, Left eNOTDIR) then (,) IsFile <$> ask events watch path else return outcome
  return (either (const paths) (\number -> noticed role subject number path paths) answer, answer)
  where
    asDirectory events = (,) IsDirectory <$> ask (events .|. maskOnlyDirectory) watch path

-- Lets the system watch the file or directory that a path means. Returns the system's number of it.
ask :: Word32 -> Watch -> FilePath -> IO (Either Errno CInt)
ask events watch path = do
  name <- pathBytes function path
  number <- ByteString.useAsCString name $ \text ->
    callStream (watchStream watch) (\descriptor -> c_add descriptor text events)
  return (if number < 0 then Left (Errno (negate number)) else Right number)

-- | A path that is watched: its number, and the entries that it has.
data Visit = Visit !CInt [Entry]

-- Watches a path and, if the watch is recursive, the directories below, except those that may not be read. Returns what
-- it has watched: nothing if it is gone. If the path came to mean another directory meanwhile, a rename will be
-- reported, which leads here again.
addTree :: Role -> Watch -> FilePath -> IO [Visit]
addTree role watch path = addOne role watch path >>= either refused added
  where
    refused code = if isGone code || code == eACCES then return [] else throwIO (failure function path code)
    added number
      | watchDepth watch == Flat = return [Visit number []]
      | otherwise = do
        entries <- list path `catch` unlessUnreadable
        meansTheSame <- either (const False) (== number) <$> addOne role watch path
        below <- concat <$> mapM (addTree Found watch . entryPath) (filter ((== Directory) . entryKind) entries)
        return ([Visit number entries | meansTheSame] ++ below)
    isGone code = code `elem` [eNOENT, eNOTDIR]
    -- A file has no entries. Neither has a directory that was removed meanwhile, or that may not be read.
    unlessUnreadable problem
      | maybe False ((\code -> isGone code || code == eACCES) . Errno) (ioe_errno problem) = return []
      | otherwise = throwIO problem

numbersOf :: [Visit] -> [CInt]
numbersOf visits = [number | Visit number _ <- visits]

-- Their entries have been reported, or need not be.
noteReported :: Watch -> [Visit] -> IO ()
noteReported watch visits = modifyMVar_ (watchPaths watch) (\paths -> return $! reported (numbersOf visits) paths)

-- Stops watching the files and directories with these numbers.
forget :: Watch -> [CInt] -> IO ()
forget watch numbers = do
  modifyMVar_ (watchPaths watch) (\paths -> return $! without numbers paths)
  mapM_ (\number -> callStream (watchStream watch) (`c_remove` number)) numbers

-- | Waits for events, and returns all that have arrived.
nextEvents :: Watch -> IO [Event]
nextEvents = nextEventsBefore noDeadline

-- | 'nextEvents' with a deadline ('isDeadlineError').
nextEventsBefore :: Deadline -> Watch -> IO [Event]
nextEventsBefore deadline watch = handOver (leave . found) $ do
  left <- atomicModifyIORef' (watchLeft watch) (noBatch,)
  own <- newIORef left
  go own `onException` (readIORef own >>= leave)
  where
    found events = noBatch {batchEvents = reverse events}
    leave batch = atomicModifyIORef' (watchLeft watch) (\later -> (batch `followedBy` later, ()))
    go own = do
      batch <- readIORef own
      when (null (batchEvents batch) && null (batchRecords batch)) $ do
        receive own deadline
        soon <- deadlineAfter (milliseconds 2)
        modifyIORef' own (\new -> new {batchComplete = soon})
      -- The other half of a rename may come a moment later.
      new <- readIORef own
      when (1 `elem` halves (batchRecords new)) $
        receive own (batchComplete new) `catch` \problem -> unless (isDeadlineError problem) (throwIO problem)
      interpret watch own
      events <- reverse . batchEvents <$> readIORef own
      if null events then writeIORef own noBatch >> go own else return (withoutRepetition events)
    receive own limit = do
      raw <- readStream "Millrace.Watch.nextEvents" (watchStream watch) limit roomBytes >>= records
      modifyIORef' own (\batch -> batch {batchRecords = batchRecords batch ++ raw})

-- For each move, how many of its two halves have arrived.
halves :: [InotifyEvent] -> [Int]
halves raw = Map.elems (Map.fromListWith (+) [(recordCookie record, 1) | record <- raw, isMove record])

roomBytes :: Int
roomBytes = 65536

withoutRepetition :: [Event] -> [Event]
withoutRepetition (one : other : others)
  | one == other = withoutRepetition (other : others)
  | otherwise = one : withoutRepetition (other : others)
withoutRepetition few = few

-- A @struct inotify_event@.
data InotifyEvent = InotifyEvent
  { recordWatch :: !CInt,
    recordMask :: !Word32,
    recordCookie :: !Word32,
    recordName :: !ByteString
  }

-- The records and events that a call has read and not returned.
data Batch = Batch
  { -- | the latest first
    batchEvents :: [Event],
    -- | those that are not interpreted yet
    batchRecords :: [InotifyEvent],
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

isMove :: InotifyEvent -> Bool
isMove record = recordMask record .&. (maskMovedFrom .|. maskMovedTo) /= 0

has :: InotifyEvent -> Word32 -> Bool
has record bits = recordMask record .&. bits /= 0

records :: ByteString -> IO [InotifyEvent]
records bytes
  | ByteString.length bytes < headBytes = return []
  | otherwise = do
    (watch, bits, cookie, size) <- unsafeUseAsCString bytes $ \memory ->
      (,,,) <$> peekByteOff memory 0
        <*> peekByteOff memory 4
        <*> peekByteOff memory 8
        <*> (peekByteOff memory 12 :: IO Word32)
    let end = headBytes + fromIntegral size
        name = ByteString.takeWhile (/= 0) (ByteString.take (fromIntegral size) (ByteString.drop headBytes bytes))
    (InotifyEvent watch bits cookie name :) <$> records (ByteString.drop end bytes)

headBytes :: Int
headBytes = 16

-- The events of a record; the cookie, if the second half of a move is among them; and an action that finds further
-- events, and what is watched because of them.
data Meaning = Meaning [Event] (Maybe Word32) (IO More)

data More = More [Event] [Visit]

nothing :: Meaning
nothing = Meaning [] Nothing nothingMore

nothingMore :: IO More
nothingMore = return (More [] [])

only :: Event -> Meaning
only event = Meaning [event] Nothing nothingMore

-- Converts the records of a batch to events. Watches new directories, and records the new names of moved ones. After
-- each record it notes in the batch how far it is. So an exception loses nothing: the record is interpreted again. But
-- after an error, which would come again, only what is below the record's path is missing.
interpret :: Watch -> IORef Batch -> IO ()
interpret watch own = readIORef own >>= go . secondHalves
  where
    secondHalves batch =
      Map.fromList [(recordCookie record, record) | record <- batchRecords batch, record `has` maskMovedTo]
    go movedTo = do
      batch <- readIORef own
      case batchRecords batch of
        [] -> return ()
        record : others -> do
          Meaning events partner findMore <- meaningOf watch movedTo (batchPaired batch) record
          let note (More more visits) = mask_ $ do
                noteReported watch visits
                writeIORef own $
                  batch
                    { batchEvents = reverse (events ++ more) ++ batchEvents batch,
                      batchRecords = others,
                      batchPaired = maybe id Set.insert partner (batchPaired batch)
                    }
          more <- findMore `catch` \problem -> note (More [] []) >> throwIO (problem :: IOError)
          note more
          go movedTo

-- It may be given the second halves of moves, and the cookies of those that were interpreted with their first halves.
meaningOf :: Watch -> Map.Map Word32 InotifyEvent -> Set.Set Word32 -> InotifyEvent -> IO Meaning
meaningOf watch movedTo paired record
  | record `has` maskOverflow = return (Meaning [Event "" Overflowed IsDirectory] Nothing (watchAgain watch))
  | record `has` maskIgnored = nothing <$ modifyMVar_ (watchPaths watch) (return . without [recordWatch record])
  | record `has` maskMovedTo && recordCookie record `Set.member` paired = return nothing
  | otherwise = do
    paths <- readMVar (watchPaths watch)
    -- The system does not say it of what happens to a directory itself.
    let isItself = ByteString.null (recordName record)
        subject
          | isItself = subjectOf (recordWatch record) paths
          | record `has` maskDirectory = IsDirectory
          | otherwise = IsFile
        at directory = do
          path <- belowDirectory directory record
          meaningAt watch partner record (\change -> Event path change subject)
    maybe (return nothing) at (pathOf (recordWatch record) paths)
  where
    partner = Map.lookup (recordCookie record) movedTo

-- The path of a record that is about a name in this directory, or about the directory.
belowDirectory :: FilePath -> InotifyEvent -> IO FilePath
belowDirectory directory record = do
  name <- pathFrom (recordName record)
  return (if null name then directory else asPrefix directory ++ name)

-- The function makes the event of a change at the record's path.
meaningAt :: Watch -> Maybe InotifyEvent -> InotifyEvent -> (Change -> Event) -> IO Meaning
meaningAt watch partner record event
  | record `has` maskMovedFrom = maybe (movedAway watch away) (renamed watch event) partner
  | record `has` maskMovedTo = return (appeared MovedIn)
  | record `has` maskMovedItself = movedItself watch away
  | record `has` maskCreated = return (appeared Created)
  | record `has` maskRemovedItself = return (Meaning [event Removed] Nothing (renewed watch record path))
  | record `has` maskRemoved = return (only (event Removed))
  | record `has` maskModified = return (only (event Modified))
  | record `has` maskWritten = return (only (event Written))
  | record `has` maskAttributes =
    return (Meaning [event AttributesChanged] Nothing (replaced watch record (event Removed)))
  | otherwise = return nothing
  where
    away = event MovedAway
    path = eventPath away
    appeared how
      | eventSubject away == IsDirectory && watchDepth watch == Recursive =
        Meaning [event how] Nothing (addTree Found watch path >>= unreported watch)
      | otherwise = only (event how)

-- The entries of directories that are new to the watch.
unreported :: Watch -> [Visit] -> IO More
unreported watch visits = do
  paths <- readMVar (watchPaths watch)
  let new = [entry | Visit number entries <- visits, not (isReported number paths), entry <- entries]
      created entry = Event (entryPath entry) Created (if entryKind entry == Directory then IsDirectory else IsFile)
  return (More (map created new) visits)

movedAway :: Watch -> Event -> IO Meaning
movedAway watch event@(Event path _ subject) = do
  paths <- readMVar (watchPaths watch)
  when (subject == IsDirectory || isNamed path paths) $ forget watch (numbersBelow path paths)
  return (only event)

-- If its directory is watched, that has reported the move.
movedItself :: Watch -> Event -> IO Meaning
movedItself watch event@(Event path _ _) = do
  paths <- readMVar (watchPaths watch)
  return $
    if parentIsKnown path paths
      then nothing
      else Meaning [event] Nothing (renewedWithout watch (numbersBelow path paths) path)

-- Another directory may have its old name by now, and yet another its new one: two may be exchanged, and what was
-- watched last may have been found at a name that it had later. So ask the system what both names mean.
renamed :: Watch -> (Change -> Event) -> InotifyEvent -> IO Meaning
renamed watch event half = do
  paths <- readMVar (watchPaths watch)
  case pathOf (recordWatch half) paths of
    Nothing -> movedAway watch away
    Just directory -> do
      to <- belowDirectory directory half
      let isDirectory = eventSubject away == IsDirectory
          concernsUs = isDirectory || isNamed from paths || isNamed to paths
          askAgain
            | isDirectory && watchDepth watch == Recursive =
              mapM (addTree Found watch) [to, from] >>= unreported watch . concat
            | concernsUs = mapM_ (findKnown watch) [to, from] >> nothingMore
            | otherwise = nothingMore
      when concernsUs $ modifyMVar_ (watchPaths watch) (\now -> return $! moved from to now)
      return (Meaning [event (RenamedTo to)] (Just (recordCookie half)) askAgain)
  where
    away = event MovedAway
    from = eventPath away

-- Records that a path means what is watched already, if that is so.
findKnown :: Watch -> FilePath -> IO ()
findKnown watch path = modifyMVarMasked (watchPaths watch) $ \paths -> do
  answer <- ask (watchedEvents .|. maskNoLink) watch path
  case answer of
    Left _ -> return (paths, ())
    Right number
      | isKnown number paths -> return (noticed Found (subjectOf number paths) number path paths, ())
      | otherwise -> (paths, ()) <$ callStream (watchStream watch) (`c_remove` number)

-- The path no longer means what was named. If it means something else, that is watched now.
renewed :: Watch -> InotifyEvent -> FilePath -> IO More
renewed watch record path = do
  paths <- readMVar (watchPaths watch)
  if isNamedNumber (recordWatch record) paths then renewedWithout watch [recordWatch record] path else nothingMore

-- Watches what the path means now, instead of what had these numbers.
renewedWithout :: Watch -> [CInt] -> FilePath -> IO More
renewedWithout watch numbers path = do
  visits <- addTree Named watch path
  More events _ <- unreported watch visits
  forget watch (filter (`notElem` numbersOf visits) numbers)
  paths <- readMVar (watchPaths watch)
  return (More ([Event path Created (subjectOf number paths) | number <- take 1 (numbersOf visits)] ++ events) visits)

-- The attributes of a file change, too, when it loses a name. It may live on: under another name, or because a program
-- has it open.
replaced :: Watch -> InotifyEvent -> Event -> IO More
replaced watch record removed@(Event path _ _) = do
  paths <- readMVar (watchPaths watch)
  if not (isNamedNumber number paths) || parentIsKnown path paths
    then nothingMore
    else do
      answer <- addOne Named watch path
      if answer == Right number then nothingMore else withRemoved <$> renewedWithout watch [number] path
  where
    number = recordWatch record
    withRemoved (More events visits) = More (removed : events) visits

-- Events were lost, so that any path may be wrong. Finds all from what was named.
watchAgain :: Watch -> IO More
watchAgain watch = do
  before <- readMVar (watchPaths watch)
  trees <- forM (namedNumbers before) $ \(number, path) ->
    (,) (Event path Removed (subjectOf number before)) <$> addTree Named watch path
  let visits = concatMap snd trees
      found = Set.fromList (numbersOf visits)
  forget watch (filter (`Set.notMember` found) (allNumbers before))
  return (More [removed | (removed, []) <- trees] visits)
