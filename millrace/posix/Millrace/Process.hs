{-# LANGUAGE TupleSections #-}

-- | Starting other programs, and waiting for their end.
--
-- > main = do
-- >   (exit, out, _) <- readProcess (command "sort" ["-r"]) "a\nb\n"
-- >   print (exit, out)
--
-- 1. A process is given its three standard streams, and no other descriptor of this program. It has no signal blocked
--    or ignored.
-- 2. No zombie remains: a green thread waits for every process, whether or not the program asks how it ended.
-- 3. 'withProcess' and everything built on it end the process, and by default its group, also if the action throws.
-- 4. A program that uses this module must not ignore @SIGCHLD@, nor wait for any child (@waitpid(-1)@). If it does,
--    processes run, and their ends are noticed, but 'waitProcess' throws, because the status with which they ended is
--    lost. No signal reaches another process.
-- 5. Waiting occupies no operating system thread, and is interruptible. Helper threads start programs.
--
-- All functions throw an 'IOError' that names the function and the program; a program that does not exist is
-- 'System.IO.Error.isDoesNotExistError'. Only on Linux. Within "Millrace.Simulation" processes are refused.
--
-- >>> readProcess (command "cat" []) "through cat"
-- (Exited 0,"through cat","")
-- >>> runProcess (command "sh" ["-c", "exit 3"])
-- Exited 3
-- >>> import Millrace.Deadline
-- >>> deadline <- deadlineAfter (milliseconds 100)
-- >>> nothingIfLate (runProcessBefore deadline (command "sleep" ["60"]))
-- Nothing
-- >>> runProcess (command "sh" ["-c", "kill $$"])
-- Killed Terminate
module Millrace.Process
  ( -- * Commands
    Command (..),
    command,
    Wiring (..),
    Group (..),
    Containment (..),
    Limit (..),
    Resource (..),

    -- * Running
    Exit (..),
    runProcess,
    runProcessBefore,
    readProcess,
    readProcessBefore,
    withProcess,

    -- * Processes
    Process,
    startProcess,
    processId,
    processInput,
    processOutput,
    processErrors,
    processTerminal,
    waitProcess,
    waitProcessBefore,
    processExit,
    signalProcess,
    signalGroup,
    terminateProcess,

    -- * Orphans
    adoptingOrphans,

    -- * Pseudo-terminals
    PseudoTerminal,
    readPseudoTerminal,
    readPseudoTerminalBefore,
    writePseudoTerminal,
    writePseudoTerminalBefore,
    setPseudoTerminalSize,
  )
where

import Control.Concurrent (forkIO, forkIOWithUnmask)
import qualified Control.Concurrent as Concurrent
import Control.Concurrent.MVar
import Control.Exception
  ( SomeException,
    bracket,
    bracket_,
    catch,
    finally,
    mask,
    mask_,
    onException,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM_, join, unless, void, when)
import Data.Bits (shiftR, testBit, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Internal as Bytes
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word32)
import Foreign.C.Error (Errno (..), eBADF, eCHILD, eINVAL, ePERM, ePIPE, eSRCH, eTIMEDOUT)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (plusForeignPtr)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (FunPtr, Ptr)
import Foreign.Storable (peek)
import GHC.Conc (labelThread, myThreadId)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, Duration, deadlineAfter, hasPassed, isDeadlineError, noDeadline, nothingIfLate)
import Millrace.Internal.Cgroup
import Millrace.Internal.Constants.Processes
import Millrace.Internal.Constants.Signals
import Millrace.Internal.DescriptorTypes
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File (pathBytes)
import Millrace.Internal.FileJob (closeNumber)
import Millrace.Internal.HelperJob
import Millrace.Internal.Park (handOver)
import Millrace.Internal.StreamDescriptor
import Millrace.Internal.Timer (microsUntil)
import Millrace.Internal.Units (saturated)
import Millrace.Operation (Handle, adopt, closeRequest, descriptorOf, perform, waitReadableRequest, whileOpen)
import Millrace.Pipe (closeReadEnd, closeWriteEnd, readPipeBefore, writePipe)
import Millrace.Timer (threadDelay, timeout)
import System.IO.Error (ioeSetErrorString)
import System.Posix.Types (Fd (..))

foreign import ccall "&mrh_do_spawn" c_spawn :: FunPtr Work

foreign import ccall unsafe "mrh_signal_process" c_signal_process :: CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_signal_group" c_signal_group :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_adopt_orphans" c_adopt_orphans :: CInt -> IO CInt

foreign import ccall "&mrh_do_reap_orphans" c_reap_orphans :: FunPtr Work

foreign import ccall "&mrh_do_group_runs" c_group_runs :: FunPtr Work

foreign import ccall unsafe "mrh_reap" c_reap :: CInt -> IO Int64

foreign import ccall unsafe "mrh_open_pty" c_open_pty :: Ptr CInt -> Ptr CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_pipe" c_pipe :: Ptr CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_set_terminal_size" c_set_size :: CInt -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "mrh_open_null" c_open_null :: IO CInt

-- | A program to be started. 'command' has the defaults.
data Command = Command
  { -- | looked for in @PATH@ unless it has a slash
    commandProgram :: !FilePath,
    commandArguments :: [String],
    -- | 'Nothing' stands for this program's
    commandEnvironment :: !(Maybe [(String, String)]),
    -- | 'Nothing' stands for this program's
    commandDirectory :: !(Maybe FilePath),
    commandInput :: !Wiring,
    commandOutput :: !Wiring,
    commandErrors :: !Wiring,
    commandGroup :: !Group,
    commandContainment :: !Containment,
    commandLimits :: [Limit],
    -- | user and group, by their numbers; needs privileges. 4294967295 is the number of none, and is refused
    -- (@EINVAL@): the system would leave the program its user.
    commandUser :: !(Maybe (Word32, Word32))
  }
  deriving (Eq, Show)

-- | A program with arguments: its streams are this program's, and it begins a new group.
command :: FilePath -> [String] -> Command
command program arguments =
  Command
    { commandProgram = program,
      commandArguments = arguments,
      commandEnvironment = Nothing,
      commandDirectory = Nothing,
      commandInput = Inherit,
      commandOutput = Inherit,
      commandErrors = Inherit,
      commandGroup = NewGroup,
      commandContainment = ByGroup,
      commandLimits = [],
      commandUser = Nothing
    }

-- | The connection of a standard stream.
data Wiring
  = -- | the stream of this program
    Inherit
  | -- | nothing: reading finds the end, and written bytes are lost
    Null
  | -- | a pipe to this program: 'processInput', 'processOutput', 'processErrors'
    NewPipe
  | -- | a descriptor, which stays open here. A non-blocking pipe, such as those of "Millrace.Pipe", is opened once more
    -- for the process, so that it blocks for the process and not here. Other non-blocking files, such as sockets, stay
    -- non-blocking, which few programs expect. So do pipes where @\/proc@ is missing.
    Descriptor !Fd
  | -- | a new terminal, the same one for all streams of the process that ask for it: 'processTerminal'. The process
    -- begins a new session.
    NewTerminal
  deriving (Eq, Show)

-- | The group of a process, which gets signals together.
data Group
  = -- | this program's: the terminal's interrupt key reaches both
    SameGroup
  | -- | a new group. When the process has ended, or is ended, the rest of its group is killed.
    NewGroup
  | -- | a new group, which is not killed when the process has ended
    DetachedGroup
  | -- | a session without a terminal
    NewSession
  deriving (Eq, Show, Read, Enum, Bounded)

-- | What ends with a process.
data Containment
  = -- | what its 'Group' says. A program that leaves the group, as daemons do (@setsid@), goes on
    ByGroup
  | -- | everything that it has started, also what has left its group and has lost its parent: they are in a cgroup,
    -- which is killed when the process has ended. 'waitProcess' returns when nothing is left. It needs cgroup v2, and a
    -- part of its tree that belongs to this program's user: below @Delegate=yes@ of a systemd unit, in most containers,
    -- or as root. Otherwise 'startProcess' throws an 'IOError' that says so. Only a process with the privilege to move
    -- to another cgroup can escape. If this program is itself killed, they go on
    ByCgroup
  deriving (Eq, Show, Read, Enum, Bounded)

-- | A limit on what a process may use. 'Nothing' is no limit.
data Limit = Limit
  { limitResource :: !Resource,
    -- | the soft limit; the process may raise it
    limitSoft :: !(Maybe Int64),
    -- | the hard limit: how far it may raise it
    limitHard :: !(Maybe Int64)
  }
  deriving (Eq, Show)

-- | See @setrlimit(2)@.
data Resource
  = -- | of processor time
    ProcessorSeconds
  | MemoryBytes
  | FileBytes
  | OpenFiles
  | -- | of the user
    Processes
  | CoreBytes
  | StackBytes
  deriving (Eq, Show, Read, Enum, Bounded)

-- | How a process has ended.
data Exit
  = -- | with this code; 0 is success
    Exited !Int
  | -- | by this signal
    Killed !Signal
  deriving (Eq, Ord, Show)

-- | A process that was started.
data Process = Process
  { processCommand :: !Command,
    processNumber :: !CInt,
    processHandle :: !Handle,
    processCgroup :: !(Maybe Cgroup),
    processEnd :: !(MVar (Either SomeException Exit)),
    -- | held while the process is reaped or its group is signalled, so that the number cannot mean another process
    processLock :: !(MVar ()),
    -- | until when its group may continue without it after 'terminateProcess'
    processRespite :: !(IORef (Maybe Deadline)),
    processInputEnd :: !(Maybe WriteEnd),
    processOutputEnd :: !(Maybe ReadEnd),
    processErrorsEnd :: !(Maybe ReadEnd),
    processPty :: !(Maybe PseudoTerminal)
  }

instance Eq Process where
  a == b = processHandle a == processHandle b

instance Show Process where
  showsPrec _ process =
    showString ("<process " ++ show (processId process) ++ ": " ++ commandProgram (processCommand process) ++ ">")

-- | The number of the process. When the process has ended, the number may mean another one.
processId :: Process -> Int
processId = fromIntegral . processNumber

-- | The end of the pipe to its standard input, if that is 'NewPipe'. Close it to let the process find the end.
processInput :: Process -> Maybe WriteEnd
processInput = processInputEnd

-- | The end of the pipe from its standard output, if that is 'NewPipe'.
processOutput :: Process -> Maybe ReadEnd
processOutput = processOutputEnd

-- | The end of the pipe from its standard errors, if that is 'NewPipe'.
processErrors :: Process -> Maybe ReadEnd
processErrors = processErrorsEnd

-- | The terminal of the process, if a stream is 'NewTerminal'.
processTerminal :: Process -> Maybe PseudoTerminal
processTerminal = processPty

-- | Reads what the process has written to its terminal; nothing when it has closed it.
readPseudoTerminal :: PseudoTerminal -> Int -> IO ByteString
readPseudoTerminal = readPseudoTerminalBefore noDeadline

-- | 'readPseudoTerminal' with a deadline.
readPseudoTerminalBefore :: Deadline -> PseudoTerminal -> Int -> IO ByteString
readPseudoTerminalBefore deadline (PseudoTerminal stream) =
  readStream "Millrace.Process.readPseudoTerminal" stream deadline

-- | Writes what the process reads from its terminal, as if it was typed.
writePseudoTerminal :: PseudoTerminal -> ByteString -> IO ()
writePseudoTerminal = writePseudoTerminalBefore noDeadline

-- | 'writePseudoTerminal' with a deadline. When it has passed, a part of unknown size has been written.
writePseudoTerminalBefore :: Deadline -> PseudoTerminal -> ByteString -> IO ()
writePseudoTerminalBefore deadline (PseudoTerminal stream) =
  writeStream "Millrace.Process.writePseudoTerminal" stream deadline

-- | @setPseudoTerminalSize terminal rows columns@ tells the process how large its terminal is (@SIGWINCH@). A new one
-- has 24 rows and 80 columns.
setPseudoTerminalSize :: PseudoTerminal -> Int -> Int -> IO ()
setPseudoTerminalSize (PseudoTerminal stream) rows columns = do
  result <- callStream stream (\descriptor -> c_set_size descriptor (cells rows) (cells columns))
  when (result < 0) $ throwIO (failure "Millrace.Process.setPseudoTerminalSize" (show stream) (Errno (negate result)))
  where
    -- The system has 16 bits for each.
    cells = saturated . max 0 . min 65535

-- The descriptors that were made for the start: those that the process gets, those to be closed when it has started,
-- and our ends.
data Wired = Wired
  { wiredStreams :: [CInt],
    wiredInput :: Maybe WriteEnd,
    wiredOutput :: Maybe ReadEnd,
    wiredErrors :: Maybe ReadEnd,
    wiredTerminal :: Maybe PseudoTerminal
  }

-- | Starts a program. Throws the error of @exec@ if that fails. The caller must close the ends of pipes ('withProcess'
-- does it); waiting for the process is not necessary.
startProcess :: Command -> IO Process
startProcess what = handOver discard $ do
  when (maybe False (\(user, group) -> maxBound `elem` [user, group]) (commandUser what)) $
    throwIO $
      failure startFunction (commandProgram what) eINVAL
        `ioeSetErrorString` "no user and no group has the number 4294967295"
  theirs <- newIORef []
  ours <- newIORef (return ())
  let undo = uninterruptibleMask_ (takeAll theirs >>= mapM_ closeNumber >> join (readIORef ours))
  (`onException` undo) $ do
    wired <- wire what theirs ours
    -- A helper that has begun needs them even after its caller has stopped waiting, so the job closes them.
    cgroup <- if commandContainment what == ByCgroup then Just <$> makeCgroup startFunction else return Nothing
    modifyIORef' ours (>> forM_ cgroup (forkIO . endCgroup))
    toClose <- takeAll theirs
    (number, pidfd) <- spawn what wired cgroup (mapM_ closeNumber toClose)
    handle <- adopt pidfd `onException` killUnwanted number pidfd
    ending <- newEmptyMVar
    lock <- newMVar ()
    respite <- newIORef Nothing
    let process =
          Process
            { processCommand = what,
              processNumber = number,
              processHandle = handle,
              processCgroup = cgroup,
              processEnd = ending,
              processLock = lock,
              processRespite = respite,
              processInputEnd = wiredInput wired,
              processOutputEnd = wiredOutput wired,
              processErrorsEnd = wiredErrors wired,
              processPty = wiredTerminal wired
            }
    void $ forkIOWithUnmask (\_ -> keepProcess process)
    return process
  where
    takeAll ref = atomicModifyIORef' ref ([],)
    discard process = uninterruptibleMask_ $ do
      void (kill process)
      closeEnds process

closeEnds :: Process -> IO ()
closeEnds process = do
  mapM_ closeWriteEnd (processInputEnd process)
  mapM_ closeReadEnd (processOutputEnd process)
  mapM_ closeReadEnd (processErrorsEnd process)
  mapM_ (\(PseudoTerminal stream) -> closeStream stream) (processPty process)

startFunction :: String
startFunction = "Millrace.Process.startProcess"

-- Makes the streams. Each is recorded as soon as it exists, so that it is closed after an exception.
wire :: Command -> IORef [CInt] -> IORef (IO ()) -> IO Wired
wire what theirs ours = do
  terminal <- if NewTerminal `elem` wirings then Just <$> newTerminal else return Nothing
  (input, inputEnd) <- stream terminal 0 (commandInput what) (newEnd 1 (\pipe -> (Just (WriteEnd pipe), Nothing)))
  (output, outputEnd) <- stream terminal 1 (commandOutput what) (newEnd 0 (\pipe -> (Nothing, Just (ReadEnd pipe))))
  (errors, errorsEnd) <- stream terminal 2 (commandErrors what) (newEnd 0 (\pipe -> (Nothing, Just (ReadEnd pipe))))
  return (Wired [input, output, errors] (fst inputEnd) (snd outputEnd) (snd errorsEnd) (fst <$> terminal))
  where
    wirings = [commandInput what, commandOutput what, commandErrors what]
    none = (Nothing, Nothing)
    stream terminal standard wiring newOne = case wiring of
      Inherit -> return (standard, none)
      Null -> do
        descriptor <- c_open_null >>= orFail
        atStart descriptor
        return (descriptor, none)
      Descriptor (Fd descriptor) -> return (descriptor, none)
      NewTerminal -> return (maybe standard snd terminal, none)
      NewPipe -> newOne
    -- Our end is the one with this index.
    newEnd index ends = allocaArray 2 $ \memory -> do
      _ <- c_pipe memory (if index == 0 then 1 else 0) (if index == 1 then 1 else 0) >>= orFail
      numbers <- peekArray 2 memory
      case if index == (1 :: Int) then reverse numbers else numbers of
        [our, their] -> do
          atStart their
          made <- newStreamDescriptor ("pipe of " ++ commandProgram what) our
          modifyIORef' ours (>> closeStream made)
          return (their, ends made)
        _ -> error "Millrace.Process: two elements were asked for"
    newTerminal = alloca $ \our -> alloca $ \their -> do
      _ <- c_open_pty our their 24 80 >>= orFail
      peek their >>= atStart
      made <- peek our >>= newStreamDescriptor ("terminal of " ++ commandProgram what)
      modifyIORef' ours (>> closeStream made)
      (,) (PseudoTerminal made) <$> peek their
    atStart descriptor = modifyIORef' theirs (descriptor :)
    orFail result
      | result < 0 = throwIO (failure startFunction (commandProgram what) (Errno (negate result)))
      | otherwise = return result

spawn :: Command -> Wired -> Maybe Cgroup -> IO () -> IO (CInt, CInt)
spawn what wired cgroup release = do
  texts <- mapM (pathBytes startFunction) (strings ++ limits) `onException` release
  let (whole, start, _) =
        Bytes.toForeignPtr (ByteString.concat (concatMap (\text -> [text, ByteString.singleton 0]) texts))
  result <-
    runJob
      (job c_spawn numbers [])
        { jobMemory =
            Just (whole `plusForeignPtr` start),
          jobRelease = release,
          jobDispose = uncurry killUnwanted . both
        }
  either (throwIO . spawnFailure) (return . both) result
  where
    spawnFailure (Errno number)
      | number >= fromIntegral cgroupError =
        cannotContain startFunction (commandProgram what) (Errno (number - fromIntegral cgroupError))
      | otherwise = failure startFunction (commandProgram what) (Errno number)
    both value = (fromIntegral (value `shiftR` 32), fromIntegral (value .&. 0xffffffff))
    strings =
      [commandProgram what, fromMaybe "" (commandDirectory what), maybe "" cgroupMembers cgroup]
        ++ arguments
        ++ environment
    arguments = commandProgram what : commandArguments what
    environment = maybe [] (map (\(name, value) -> name ++ '=' : value)) (commandEnvironment what)
    limits = map limitText (commandLimits what)
    numbers =
      map fromIntegral (wiredStreams wired)
        ++ [ fromIntegral (length arguments),
             if isJust (commandEnvironment what) then fromIntegral (length environment) else -1,
             fromIntegral (length limits),
             groupNumber,
             maybe (-1) (fromIntegral . fst) (commandUser what),
             maybe (-1) (fromIntegral . snd) (commandUser what)
           ]
    groupNumber = case commandGroup what of
      _ | isJust (wiredTerminal wired) -> groupTerminal
      SameGroup -> groupSame
      NewGroup -> groupNew
      DetachedGroup -> groupNew
      NewSession -> groupSession

limitText :: Limit -> String
limitText (Limit resource soft hard) = unwords [show (resourceNumber resource), value soft, value hard]
  where
    value = show . fromMaybe (-1)

resourceNumber :: Resource -> Int
resourceNumber resource = case resource of
  ProcessorSeconds -> resourceCpu
  MemoryBytes -> resourceMemory
  FileBytes -> resourceFile
  OpenFiles -> resourceFiles
  Processes -> resourceProcesses
  CoreBytes -> resourceCore
  StackBytes -> resourceStack

-- Ends a process that no thread has taken over, even if Millrace cannot wait: then it looks again from time to time.
killUnwanted :: CInt -> CInt -> IO ()
killUnwanted number pidfd = do
  _ <- c_signal_group pidfd number (saturated (signalNumber Kill))
  _ <- c_signal_process pidfd (saturated (signalNumber Kill))
  void (forkIO (reapAfter 1000))
  where
    reapAfter pauseMicros = do
      result <- c_reap pidfd
      if result == 0
        then Concurrent.threadDelay pauseMicros >> reapAfter (min 1000000 (2 * pauseMicros))
        else closeNumber pidfd

-- Waits for the end, and reaps the process.
awaitEnd :: Handle -> IO (Either SomeException Exit)
awaitEnd handle = try go
  where
    go = do
      hasEnded handle
      result <- c_reap (descriptorOf handle)
      if result == 0 then go else exitOf result
    exitOf result
      | Errno (fromIntegral (negate result)) == eCHILD = throwIO endUnknown
      | result < 0 = throwIO (failure "Millrace.Process" "a process" (Errno (fromIntegral (negate result))))
      | testBit result 31 = return (Killed (Numbered code))
      | otherwise = return (Exited code)
      where
        code = fromIntegral (result .&. 0xffff)

-- Another part of the program has reaped the process.
endUnknown :: IOError
endUnknown =
  failure "Millrace.Process.waitProcess" "a process" eCHILD
    `ioeSetErrorString` "nobody knows how it has ended: this program ignores SIGCHLD, or waits for any child \
                        \(waitpid of -1)"

-- Returns when the process has ended. A failed wait, for which there was no memory, says nothing about the process.
hasEnded :: Handle -> IO ()
hasEnded handle = perform (waitReadableRequest handle) >>= either (\_ -> threadDelay 10000 >> hasEnded handle) return

-- Runs in the thread that waits for a process, from its start to its end.
keepProcess :: Process -> IO ()
keepProcess process = uninterruptibleMask_ $ do
  myThreadId >>= (`labelThread` ("Millrace keeper of process " ++ show (processId process)))
  hasEnded handle
  respite <- readIORef (processRespite process)
  when (isJust respite && (hasGroup process || isJust (processCgroup process))) $ awaitGroup process
  mapM_ endCgroup (processCgroup process)
  -- Until it is reaped, its number means this group only.
  takeMVar (processLock process)
  when (ownsGroup process || isJust respite && hasGroup process) $ void (signalGroupNow Kill process)
  outcome <- awaitEnd handle
  putMVar (processEnd process) outcome
  putMVar (processLock process) ()
  void (perform (closeRequest handle))
  where
    handle = processHandle process

-- Waits until nothing runs in the cgroup or the group of a process that has ended, but not longer than its respite.
awaitGroup :: Process -> IO ()
awaitGroup process = go 1000
  where
    go pauseMicros = do
      respite <- readIORef (processRespite process)
      left <- maybe (return 0) microsUntil respite
      -- If the system cannot tell, the group gets its time.
      runs <- maybe groupRuns isPopulated (processCgroup process)
      when (runs && left > 0) $ threadDelay (min left pauseMicros) >> go (min 50000 (2 * pauseMicros))
    groupRuns = either (const True) (/= 0) <$> runJob (job c_group_runs [fromIntegral (processNumber process)] [])

signalGroupNow :: Signal -> Process -> IO CInt
signalGroupNow signal process =
  c_signal_group (descriptorOf (processHandle process)) (processNumber process) (saturated (signalNumber signal))

ownsGroup :: Process -> Bool
ownsGroup process = commandGroup (processCommand process) == NewGroup || isJust (processPty process)

hasGroup :: Process -> Bool
hasGroup process = commandGroup (processCommand process) /= SameGroup || isJust (processPty process)

-- | Waits for the end of a process. Any number of threads may do so.
waitProcess :: Process -> IO Exit
waitProcess process = readMVar (processEnd process) >>= either throwIO return

-- | 'waitProcess' with a deadline ('Millrace.Deadline.isDeadlineError'). When that has passed, the process continues.
waitProcessBefore :: Deadline -> Process -> IO Exit
waitProcessBefore deadline process =
  endedBy deadline process >>= maybe (throwIO (tooLate "Millrace.Process.waitProcess" process)) return

tooLate :: String -> Process -> IOError
tooLate function process = failure function (show process) eTIMEDOUT

-- How the process has ended, if it has by the deadline.
endedBy :: Deadline -> Process -> IO (Maybe Exit)
endedBy deadline process = do
  limit <- if deadline == noDeadline then return (-1) else microsUntil deadline
  ended <- processExit process
  maybe (timeout limit (waitProcess process)) (return . Just) ended

-- | How the process has ended, if it has.
processExit :: Process -> IO (Maybe Exit)
processExit process = tryReadMVar (processEnd process) >>= traverse (either throwIO return)

-- | Sends a signal to the process. Does nothing if it has ended.
signalProcess :: Signal -> Process -> IO ()
signalProcess signal process = do
  result <- whileOpen (processHandle process) (`c_signal_process` saturated (signalNumber signal))
  forM_ result $ \code ->
    unless (code >= 0 || Errno (negate code) == eSRCH) $
      throwIO (failure "Millrace.Process.signalProcess" (show process) (Errno (negate code)))

-- | Sends a signal to the group of the process. Only to the process if it is in this program's group, or has left its
-- own for another one. Does nothing if the process has ended.
signalGroup :: Signal -> Process -> IO ()
signalGroup signal process
  | not (hasGroup process) = signalProcess signal process
  | otherwise = do
    result <- withMVar (processLock process) $ \() -> do
      ended <- tryReadMVar (processEnd process)
      maybe (signalGroupNow signal process) (\_ -> return 0) ended
    let code = Errno (negate result)
    when (result < 0) $
      if code == eSRCH
        then signalProcess signal process
        else throwIO (failure "Millrace.Process.signalGroup" (show process) code)

-- Kills a process, wherever it is, and its group. 'False' if it may not be killed: then do not wait for it.
kill :: Process -> IO Bool
kill process = do
  signalGroup Kill process `catch` ignore
  result <- whileOpen (processHandle process) (`c_signal_process` saturated (signalNumber Kill))
  return (maybe True (\code -> Errno (negate code) /= ePERM) result)
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- Kills it, and waits for its end.
end :: String -> Process -> IO Exit
end function process = do
  mayKill <- kill process
  unless mayKill $ throwIO (failure function (show process) ePERM)
  waitProcess process

-- | @terminateProcess (seconds 5) process@ asks the process and its group to end (@SIGTERM@), with 'ByCgroup'
-- everything that it has started. It kills them when they have not done so after the given time, and waits for the end:
-- of the process, and until nothing runs in its group or its cgroup, or the time is over. So the worker of a script
-- that ends at once has its time, too. If it is interrupted, it kills them at once. Throws for a process that may not
-- be signalled (@EPERM@), because it has become another user's.
terminateProcess :: Duration -> Process -> IO Exit
terminateProcess grace process = (`onException` atOnce) $ do
  deadline <- deadlineAfter grace
  writeIORef (processRespite process) (Just deadline)
  maybe (signalGroup Terminate process) askAll (processCgroup process)
  ended <- endedBy deadline process
  maybe (end "Millrace.Process.terminateProcess" process) return ended
  where
    atOnce = writeIORef (processRespite process) Nothing >> kill process
    -- Each gets the signal once: programs take a second one for a demand to hurry.
    askAll cgroup = do
      signalProcess Terminate process
      askMembers Terminate (processNumber process) cgroup

-- | While the action runs, this process adopts the orphans among its descendants (it is a /subreaper/): when a process
-- ends whose children go on, this process becomes their parent, in place of process 1. It reaps those that end, within
-- a second. The first process of a container adopts orphans in any case, and needs this to reap them.
--
-- It also reaps children that other libraries have started, so the program must start processes by this module alone.
-- Adopted processes are not ended: see 'ByCgroup'. Use it once, around the whole program.
--
-- > main = adoptingOrphans $ do
-- >   ...
adoptingOrphans :: IO a -> IO a
adoptingOrphans action =
  bracket_ (setAdopting 1) (setAdopting 0) $
    bracket
      (forkIOWithUnmask (\unmask -> unmask reapForEver))
      (uninterruptibleMask_ . Concurrent.killThread)
      (const action)
  where
    setAdopting adopts = do
      refuseSimulation
      result <- c_adopt_orphans adopts
      when (result < 0) $
        throwIO (failure "Millrace.Process.adoptingOrphans" "this process" (Errno (negate result)))
    reapForEver = do
      _ <- runJob (job c_reap_orphans [] [])
      threadDelay 1000000
      reapForEver

-- | Starts a program, and runs an action with its process. When the action returns or throws, the process and its group
-- are killed unless they have ended. Then it waits for the end of the process, and closes the ends of pipes. A process
-- that may not be killed, because it has become another user's as @sudo@ does, continues, and 'withProcess' does not
-- wait for it.
withProcess :: Command -> (Process -> IO a) -> IO a
withProcess what action = mask $ \restore -> do
  process <- startProcess what
  outcome <- try (restore (action process))
  uninterruptibleMask_ $ do
    ended <- tryReadMVar (processEnd process)
    mayWait <- maybe (kill process) (\_ -> return True) ended
    when mayWait $ void (readMVar (processEnd process))
    closeEnds process
  either (throwIO :: SomeException -> IO a) return outcome

-- | Runs a program to its end.
runProcess :: Command -> IO Exit
runProcess = runProcessBefore noDeadline

-- | 'runProcess' with a deadline ('Millrace.Deadline.isDeadlineError'). When that passes, the process and its group are
-- killed, and it throws when the process has ended. Throws @EPERM@ if they may not be killed.
runProcessBefore :: Deadline -> Command -> IO Exit
runProcessBefore deadline what = withProcess what (endBefore "Millrace.Process.runProcess" deadline)

-- Waits for the end of a process. At the deadline it ends the process, and then throws.
endBefore :: String -> Deadline -> Process -> IO Exit
endBefore function deadline process =
  endedBy deadline process >>= maybe (end function process >> throwIO (tooLate function process)) return

-- | Runs a program to its end. Its input is the given bytes, and its output and its errors are returned.
readProcess :: Command -> ByteString -> IO (Exit, ByteString, ByteString)
readProcess = readProcessBefore noDeadline

-- | 'readProcess' with a deadline ('Millrace.Deadline.isDeadlineError'), also for other processes that have the output
-- open, such as daemons that the process has started. When it passes, the process and its group are killed, and it
-- throws when the process has ended.
readProcessBefore :: Deadline -> Command -> ByteString -> IO (Exit, ByteString, ByteString)
readProcessBefore deadline what input = withProcess piped $ \process -> do
  out <- reading process (processOutput process)
  errors <- reading process (processErrors process)
  _ <- forkIO (mapM_ feed (processInput process))
  exit <- endBefore function deadline process
  (,,) exit <$> out <*> errors
  where
    function = "Millrace.Process.readProcess"
    piped = what {commandInput = NewPipe, commandOutput = NewPipe, commandErrors = NewPipe}
    reading process = maybe (return (return ByteString.empty)) $ \out -> do
      done <- newEmptyMVar
      _ <- mask_ $ forkIO (readToEnd deadline out >>= putMVar done)
      return (takeMVar done >>= maybe (throwIO (tooLate function process)) return)
    feed into = (writePipe into input `catch` ignoreClosed) `finally` closeWriteEnd into
    -- Closed by the process, or here, because the caller was interrupted.
    ignoreClosed problem = unless (maybe False ((`elem` [ePIPE, eBADF]) . Errno) (ioe_errno problem)) (throwIO problem)

-- All bytes until the end of the pipe, or until it is closed here. 'Nothing' if the deadline passes before. The clock
-- is read for each piece, because a process that always writes would never let the deadline of a read pass.
readToEnd :: Deadline -> ReadEnd -> IO (Maybe ByteString)
readToEnd deadline out = fmap (ByteString.concat . reverse) <$> go []
  where
    go parts = do
      part <- nothingIfLate (readPipeBefore deadline out 65536 `catch` closed)
      isLate <- hasPassed deadline
      case part of
        Just bytes | ByteString.null bytes -> return (Just parts)
        Just bytes | not isLate -> go (bytes : parts)
        _ -> return Nothing
    closed :: IOError -> IO ByteString
    closed problem
      | isDeadlineError problem = throwIO problem
      | otherwise = return ByteString.empty
