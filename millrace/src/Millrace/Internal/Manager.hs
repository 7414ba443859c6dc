-- | The manager threads: one per capability, each driving the loop of its capability.
--
-- They start when an operation first finds a capability without a loop. This module handles slots and results, whatever
-- the operations are.
module Millrace.Internal.Manager
  ( Backend (..),
    backendName,
    MillraceException (..),
    selectBackend,
    chosenBackend,
    probeBackend,
    RunTimeSystem (..),
    runTimeSystem,
    checkLayout,
    ensureManagers,
    ensureGroup,
    slotTableOf,
    timerTableOf,
    numberOf,
    activeLoops,
    atNextIteration,

    -- * For simulations
    Lock,
    newLock,
    withLock,
    Manager (..),
    pollAll,
    attendCallbacks,
    withSimulatedManager,
  )
where

import Control.Concurrent
  ( forkOn,
    getNumCapabilities,
    myThreadId,
    rtsSupportsBoundThreads,
    threadCapability,
    yield,
  )
import Control.Concurrent.MVar (MVar, newEmptyMVar, newMVar, putMVar, takeMVar, tryPutMVar, withMVar)
import Control.Exception
  ( Exception (..),
    SomeException,
    bracket_,
    catch,
    mask_,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM_, mfilter, unless, void, when)
import Data.Bits (unsafeShiftR, (.&.))
import Data.Either (fromRight)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import Data.Int (Int64)
import Data.List (find, intercalate)
import Data.Maybe (fromMaybe)
import Data.Primitive.Array (Array, arrayFromList, indexArray, sizeofArray)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eMFILE, eNFILE)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (alloca, allocaBytes, mallocBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, peekByteOff)
import GHC.Conc (ThreadId (..), labelThread)
import Millrace.Internal.CallbackQueue
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls
import Millrace.Internal.DeferredActions
import Millrace.Internal.Errors (failure)
import Millrace.Internal.RtsExit
import Millrace.Internal.SlotTable
import Millrace.Internal.SystemError (systemError)
import Millrace.Internal.TimerTable
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)

-- | The interface of the operating system that carries out operations. Without a choice, the first one that works is
-- used, except 'IoUring', which is only used by name.
data Backend
  = -- | Linux 5.19 and later, where io_uring is allowed: sockets wait by epoll, and files are io_uring's
    Hybrid
  | -- | Linux
    Epoll
  | -- | Linux 5.19 and later, where io_uring is allowed: it does everything
    IoUring
  | -- | FreeBSD, NetBSD, macOS
    Kqueue
  | -- | Windows
    Iocp
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | The name that @MILLRACE_BACKEND@ and the command line use: @"hybrid"@, @"epoll"@, @"io_uring"@, @"kqueue"@,
-- @"iocp"@.
backendName :: Backend -> String
backendName Hybrid = "hybrid"
backendName Epoll = "epoll"
backendName IoUring = "io_uring"
backendName Kqueue = "kqueue"
backendName Iocp = "iocp"

backendCode :: Backend -> CInt
backendCode Hybrid = backendHybrid
backendCode Epoll = backendEpoll
backendCode IoUring = backendIoUring
backendCode Kqueue = backendKqueue
backendCode Iocp = backendIocp

-- | Why Millrace cannot work in this program. Failed operations throw 'IOError' instead, also if there are no
-- descriptors for the loop that a capability gets at its first operation.
data MillraceException
  = -- | The program was linked without @-threaded@.
    NotThreaded
  | -- | No loop could be made: the requested backend, and why it failed.
    BackendUnavailable String String
  | -- | A backend was selected after another one had been chosen.
    AlreadyStarted Backend
  deriving (Eq)

instance Exception MillraceException

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show MillraceException where
  showsPrec _ problem = showString $ case problem of
    NotThreaded ->
      "Millrace needs GHC's threaded run-time system: link the program with -threaded. \
      \Its package's .cabal file can say\n\
      \  ghc-options: -threaded\n\
      \in the section of the executable. If you do not edit that package, add these lines to \
      \cabal.project, with its name:\n\
      \  package NAME\n\
      \    ghc-options: -threaded"
    BackendUnavailable what why ->
      "Millrace cannot start with " ++ what ++ ": " ++ why ++ ". `millrace doctor` tells which backends work here."
    AlreadyStarted backend ->
      "Millrace has already started with " ++ backendName backend
        ++ "; select a backend before the first operation of the program."

data Manager = Manager
  { managerLoop :: !(Ptr Loop),
    managerSlots :: !SlotTable,
    managerTimers :: !TimerTable,
    managerCallbacks :: !CallbackQueue,
    managerDeferred :: !DeferredActions,
    -- | of the capability
    managerNumber :: !Int
  }

-- By index of the loop. Replaced as a whole when it grows.
managers :: IORef (Array Manager)
managers = unsafePerformIO (newIORef (arrayFromList []))
{-# NOINLINE managers #-}

requestedBackend :: IORef (Maybe Backend)
requestedBackend = unsafePerformIO (newIORef Nothing)
{-# NOINLINE requestedBackend #-}

-- | A lock and its epoch. After a fork, a thread that does not exist in the child may hold the inherited lock.
newtype Lock = Lock (IORef (Int64, MVar ()))

newLock :: IO Lock
newLock = newMVar () >>= \lock -> Lock <$> newIORef (0, lock)

-- | Runs one action at a time in this process.
withLock :: Lock -> IO a -> IO a
withLock (Lock ref) action = do
  epoch <- c_epoch
  fresh <- newMVar ()
  current <- atomicModifyIORef' ref $ \old@(oldEpoch, lock) ->
    if oldEpoch == epoch then (old, lock) else ((epoch, fresh), fresh)
  withMVar current (const action)

startLock :: Lock
startLock = unsafePerformIO newLock
{-# NOINLINE startLock #-}

-- The epoch that 'managers' belongs to. Written under the lock.
managersEpoch :: IORef Int64
managersEpoch = unsafePerformIO (newIORef 0)
{-# NOINLINE managersEpoch #-}

-- | Makes sure that every capability has a loop and a manager thread. Returns when they run. If a
-- capability is switched off meanwhile, it and those after it get none.
ensureManagers :: IO ()
ensureManagers = withGroup $ do
  existing <- readIORef managers
  count <- getNumCapabilities
  when (sizeofArray existing == 0) $ c_epoch >>= wakeManagersAtExit
  startFrom (sizeofArray existing) count
  where
    startFrom number count = when (number < count) $ do
      start <- startManager number
      case start of
        Started -> startFrom (number + 1) count
        NotStarted -> return ()

-- Runs one action at a time, masked, with the group of this process.
withGroup :: IO a -> IO a
withGroup action = do
  unless rtsSupportsBoundThreads $ throwIO NotThreaded
  mask_ $
    withLock startLock $ do
      areOurs <- managersAreOurs
      unless areOurs forgetParent
      startGroup
      action

-- | Makes sure that there is a group to adopt descriptors into. Cheap if there is one.
ensureGroup :: IO ()
ensureGroup = do
  canAdopt <- c_can_adopt
  when (canAdopt == 0) ensureManagers

-- In the child of a fork: its parent's manager threads do not exist here, and C frees their loops (@process_group@).
forgetParent :: IO ()
forgetParent = writeIORef managers (arrayFromList []) >> c_epoch >>= writeIORef managersEpoch

-- 'False' in the child of a fork until its own managers start.
managersAreOurs :: IO Bool
managersAreOurs = (==) <$> c_epoch <*> readIORef managersEpoch

startGroup :: IO ()
startGroup = do
  hasGroup <- c_has_group
  when (hasGroup == 0) $ do
    requested <- readIORef requestedBackend
    count <- getNumCapabilities
    result <- c_create_group (maybe backendAuto backendCode requested) (fromIntegral count)
    when (result < 0) $ do
      wanted <- maybe byEnvironment (return . backendName) requested
      throwIO (noLoop wanted result)

-- The choice when the program does not select a backend.
byEnvironment :: IO String
byEnvironment = maybe "the first backend that works" named . mfilter (not . null) <$> lookupEnv "MILLRACE_BACKEND"
  where
    named value =
      "MILLRACE_BACKEND=" ++ value ++ " (it may be " ++ intercalate ", " ("auto" : map backendName [minBound ..]) ++ ")"

-- Too many open files are no fault of the backend.
noLoop :: String -> CInt -> SomeException
noLoop wanted result
  | code `elem` [eMFILE, eNFILE] = toException (failure "Millrace" "a loop of the I/O manager" code)
  | otherwise = toException (BackendUnavailable wanted (show (systemError "" code Nothing)))
  where
    code = Errno (negate result)

-- The outcome of starting a manager.
data Start
  = Started
  | -- The capability is switched off.
    NotStarted

-- Uninterruptible: otherwise the next thread that needs a manager would start another one.
startManager :: Int -> IO Start
startManager number = do
  outcome <- newEmptyMVar
  void $
    forkOn number $ do
      begun <- try (beginManager number)
      putMVar outcome begun
      forM_ (fromRight Nothing begun) $ \manager -> do
        completions <- mallocBytes (completionsPerPoll * completionSize)
        runManager manager completions
  begun <- uninterruptibleMask_ (takeMVar outcome)
  either (throwIO :: SomeException -> IO Start) (return . maybe NotStarted (const Started)) begun

beginManager :: Int -> IO (Maybe Manager)
beginManager number = do
  self <- myThreadId
  labelThread self ("Millrace manager " ++ show number)
  numbered self >>= traverse begin
  where
    -- This thread is on another capability if its own was switched off before it ran.
    numbered self = do
      before <- c_capability
      (here, _) <- threadCapability self
      after <- c_capability
      return (if here == number && before == after then Just before else Nothing)
    begin capability = do
      checkLayout capability number
      loop <- createLoop
      manager <- newManager loop number
      atomicModifyIORef' managers $ \old -> (arrayFromList (foldr (:) [manager] old), ())
      c_attach loop (fromIntegral number) capability
      return manager

-- | Compares the layout of GHC's run-time system that Millrace assumes with the results of its public functions. The
-- calling thread must run on this capability, which must have this number. Does not block.
checkLayout :: Ptr Capability -> Int -> IO ()
checkLayout capability number = do
  ThreadId self <- myThreadId
  c_check_layout self capability (fromIntegral number)

newManager :: Ptr Loop -> Int -> IO Manager
newManager loop number =
  Manager loop <$> newSlotTable completionsPerPoll <*> newTimerTable <*> newCallbackQueue <*> newDeferredActions
    <*> pure number

createLoop :: IO (Ptr Loop)
createLoop = alloca $ \result -> do
  status <- c_create_loop result
  when (status < 0) $ throwIO (noLoop "another loop" status)
  peek result

completionsPerPoll :: Int
completionsPerPoll = 256

-- With fewer completions the memory is probably in the cache, so there are no cache misses to overlap.
fewCompletions :: Int
fewCompletions = 4

-- | Polls, wakes the threads whose operations have ended, and lets them run. Sleeps only when two polls in a row found
-- nothing. A 'yield' follows the first empty poll, so that other threads can submit operations before the manager
-- decides to sleep. Callbacks that wait for a thread keep it awake.
runManager :: Manager -> Ptr Completion -> IO ()
runManager manager completions = busy
  where
    deferred = managerDeferred manager
    busy = polled $ \count -> do
      callbacks <- attendCallbacks manager
      yield
      case callbacks of
        NoneWait | count == 0 -> idle
        _ -> busy
    idle =
      polled $ \count ->
        if count > 0 then yield >> busy else trySleep deferred >>= \isFree -> if isFree then sleep else busy
    polled continue = runDeferred deferred >> pollAll manager completions >>= maybe goHome continue
    sleep = do
      permission <- c_prepare_wait (managerLoop manager)
      when (permission > 0) $ c_wait (managerLoop manager)
      wakeUp deferred
      if permission == notOwner then goHome else busy
    goHome = moveToOwnCapability manager completions

-- | Delivers all completions before the next 'yield': with a million threads in the run queue, each 'yield' takes so
-- long that one batch for each would be far too slow. Returns the size of the last batch that was not empty. 'Nothing':
-- the calling thread must not act for the loop.
pollAll :: Manager -> Ptr Completion -> IO (Maybe Int)
pollAll manager completions = pollAfter 0
  where
    pollAfter before = do
      answer <- c_poll (managerLoop manager) completions (fromIntegral completionsPerPoll)
      if answer == notOwner then return Nothing else deliverAll before (fromIntegral answer)
    deliverAll before count = do
      when (count >= fewCompletions) $ fetchWaiters (managerSlots manager) count (slotAt completions)
      deliver manager completions count >>= enqueue (managerCallbacks manager)
      if count == completionsPerPoll then pollAfter count else return (Just (if count == 0 then before else count))

-- The slot of a completion. 'Nothing' if it is the completion of a timer.
slotAt :: Ptr Completion -> Int -> IO (Maybe Int)
slotAt completions i = do
  token <- Token <$> peekByteOff completions (i * completionSize + completionToken)
  return (if isTimer token then Nothing else Just (numberOf token))
{-# INLINE slotAt #-}

-- | Makes sure that callbacks that are due run.
attendCallbacks :: Manager -> IO WaitingCallbacks
attendCallbacks = attend . managerCallbacks
{-# INLINE attendCallbacks #-}

-- | Runs an action with a manager that 'slotTableOf' and 'timerTableOf' find by the index of a simulation's loop, and
-- an array for the completions of a poll. The caller polls, and attends to callbacks.
withSimulatedManager :: Ptr Loop -> (Manager -> Ptr Completion -> IO a) -> IO a
withSimulatedManager loop use = do
  manager <- newManager loop 0
  let unused = manager {managerLoop = nullPtr}
      beside old = arrayFromList (take simulatedLoop (foldr (:) (repeat unused) old) ++ [manager])
  before <- readIORef managers
  bracket_ (writeIORef managers (beside before)) (writeIORef managers before) $
    allocaBytes (completionsPerPoll * completionSize) (use manager)

-- While setNumCapabilities has switched a capability off, its threads run elsewhere, and the manager serves its loop
-- from there. Once it is on again, only a thread on that capability may touch the loop.
moveToOwnCapability :: Manager -> Ptr Completion -> IO ()
moveToOwnCapability manager completions = void $
  forkOn (managerNumber manager) $ do
    self <- myThreadId
    labelThread self ("Millrace manager " ++ show (managerNumber manager))
    runManager manager completions

-- Returns the callbacks that are due, the last one first.
deliver :: Manager -> Ptr Completion -> Int -> IO [IO ()]
deliver manager completions count = go 0 []
  where
    go i due
      | i >= count = return due
      | otherwise = do
        let offset = i * completionSize
        token <- Token <$> peekByteOff completions (offset + completionToken)
        value <- Value <$> peekByteOff completions (offset + completionResult)
        if isTimer token
          then deliverTimer manager token value due >>= go (i + 1)
          else do
            userData <- peekByteOff completions (offset + completionUserData) :: IO Word64
            if userData .&. callbackFlag == 0 then wakeThread manager token value else runCallback manager token value
            go (i + 1) due

wakeThread :: Manager -> Token -> Value -> IO ()
wakeThread manager token value = do
  signal <- resultVariable (managerSlots manager) (numberOf token)
  void (tryPutMVar signal value)

runCallback :: Manager -> Token -> Value -> IO ()
runCallback manager token value = do
  callback <- takeCallback (managerSlots manager) (numberOf token)
  c_release token
  callback value `catch` ignore

-- A timer that was stopped from another capability has failed.
deliverTimer :: Manager -> Token -> Value -> [IO ()] -> IO [IO ()]
deliverTimer manager token (Value result) due = do
  action <- takeAction (managerTimers manager) (numberOf token)
  c_release token
  case action of
    _ | result < 0 -> return due
    Wake signal -> due <$ tryPutMVar signal ()
    Perform now -> due <$ (now `catch` ignore)
    Callback callback -> return (callback : due)
    Unused -> return due

ignore :: SomeException -> IO ()
ignore _ = return ()

-- | Whether a token identifies a timer and not a slot. See @token.h@.
isTimer :: Token -> Bool
isTimer (Token token) = token .&. 1 /= 0

-- | The number of the slot or the timer inside a token.
numberOf :: Token -> Int
numberOf (Token token) = fromIntegral (token `unsafeShiftR` 1 .&. 0xffffff)
{-# INLINE numberOf #-}

-- | The tables of the loop that a token belongs to.
slotTableOf :: Token -> IO SlotTable
slotTableOf token = managerSlots <$> managerOf token
{-# INLINE slotTableOf #-}

timerTableOf :: Token -> IO TimerTable
timerTableOf token = managerTimers <$> managerOf token
{-# INLINE timerTableOf #-}

managerOf :: Token -> IO Manager
managerOf (Token token) = do
  all' <- readIORef managers
  let index = fromIntegral (token `unsafeShiftR` 50)
  if index < sizeofArray all' then return $! indexArray all' index else outsideManager
{-# INLINE managerOf #-}

-- For a thread outside a simulation that has begun an operation on its machine when 'managers' did not have its manager
-- yet, or no longer. Nothing refers to these tables, so the next major collection ends the thread's wait with an
-- exception.
outsideManager :: IO Manager
outsideManager = newManager nullPtr 0
{-# NOINLINE outsideManager #-}

-- | The loops that run now.
activeLoops :: IO [Ptr Loop]
activeLoops = filter (/= nullPtr) . foldr ((:) . managerLoop) [] <$> ownManagers

-- The managers of this process. Does not start any.
ownManagers :: IO (Array Manager)
ownManagers = do
  areOurs <- managersAreOurs
  if areOurs then readIORef managers else return (arrayFromList [])

-- | The manager of this capability runs an action before it looks for events again: after the threads that can run now
-- have run. 'False' if there is no manager, it sleeps or it has too many actions: then the action will not run.
--
-- 1. It runs at most once, in the manager's thread, and must neither wait nor take long. Its exceptions are lost.
-- 2. Not within a simulation, where the result is 'False'.
--
-- Does not block. Use it for work that one thread can do for many, or that is needed only if the caller does not do it
-- itself.
atNextIteration :: IO () -> IO Bool
atNextIteration action = mask_ $ do
  all' <- ownManagers
  (capability, _) <- myThreadId >>= threadCapability
  let count = sizeofArray all'
  if capability < count && count <= simulatedLoop
    then defer (managerDeferred (indexArray all' capability)) action
    else return False

-- | Whether Millrace knows the run-time system of the GHC that the program was built with.
data RunTimeSystem
  = -- | Millrace was tested with this version, and the check at start-up found its layout.
    KnownLayout
  | -- | Millrace uses public functions only: threads that wait may move to other capabilities, which costs time, and
    -- there are no simulations.
    UnknownLayout
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | Whether Millrace knows the layout of this run-time system. Starts the managers if they do not run yet.
runTimeSystem :: IO RunTimeSystem
runTimeSystem = do
  ensureManagers
  isKnown <- c_knows_layout
  return (if isKnown /= 0 then KnownLayout else UnknownLayout)

-- | Selects the backend for this program; 'Nothing' stands for the automatic choice, which honours the environment
-- variable @MILLRACE_BACKEND@. Call it before the first operation. Throws 'AlreadyStarted' when another backend
-- runs already.
selectBackend :: Maybe Backend -> IO ()
selectBackend wanted = do
  hasGroup <- c_has_group
  if hasGroup == 0
    then writeIORef requestedBackend wanted
    else do
      running <- chosenBackend
      when (maybe False (/= running) wanted) $ throwIO (AlreadyStarted running)

-- | The backend that is in use. If there is none yet, it is chosen now, for good; no thread is started. Within a
-- simulation it is the program's, too. Throws 'MillraceException' when there is none.
chosenBackend :: IO Backend
chosenBackend = do
  code <- withGroup c_backend
  return (fromMaybe minBound (find ((== code) . backendCode) [minBound ..]))

-- | 'Nothing' if the backend works on this machine, or 'Just' the reason why it does not. Starts nothing.
probeBackend :: Backend -> IO (Maybe String)
probeBackend backend = allocaBytes size $ \reason -> do
  result <- c_backend_probe (backendCode backend) reason (fromIntegral size)
  if result == 0 then return Nothing else Just <$> peekCString reason
  where
    size = 256
