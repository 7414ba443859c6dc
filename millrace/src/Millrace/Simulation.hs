-- | Runs a program on a simulated machine with virtual sockets, virtual time and chosen faults. The same seed gives the
-- same run.
--
-- > main = do
-- >   outcome <- simulate (troubled 42) $ do
-- >     listener <- socket AF_INET Stream defaultProtocol
-- >     bind listener (SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1)))
-- >     listen listener 16
-- >     ...
-- >   either throwIO print (outcomeResult outcome)
--
-- Within 'simulate', everything of "Millrace.Socket" and the modules below it, "Millrace.File" and what is built on it,
-- "Millrace.Timer", "Millrace.Deadline" and "Millrace.Operation" works on the simulated machine, in all threads of the
-- program. Whenever all of them wait, the clock jumps to the next event. So a simulated day takes only the time of the
-- work in it.
--
-- What makes a run repeatable, and what does not:
--
-- 1. All threads run on one capability, and switch only where they wait or 'yield': the run-time system's timer is
--    stopped
--    meanwhile. A thread that computes for ever keeps all others from running.
-- 2. @threadDelay@ of base, other sockets, the real time and the system's random numbers are not simulated, and may
--    differ
--    from run to run. Draw random numbers with 'chance'. While a thread is in a @safe@ foreign call,
--    other threads run, and no virtual time passes. After 200 ms the call is assumed to wait for the real world.
-- 3. Threads of the process outside the simulation, if they run meanwhile, change the order of threads in about one of
--    a thousand runs: they use up the same block of the nursery, and a request to switch threads at its end (which
--    'forkIO' makes) may be theirs. If all of them wait, runs repeat.
-- 4. One simulation runs at a time.
--
-- A day of waiting passes at once, and a deadlock is found:
--
-- >>> import Control.Concurrent (newEmptyMVar, takeMVar)
-- >>> import Millrace
-- >>> day <- simulate (calm 1) (sleep (hours 24))
-- >>> durationNanoseconds (outcomeDuration day) `div` 1000000000
-- 86400
-- >>> stuck <- simulate (calm 1) (newEmptyMVar >>= takeMVar :: IO ())
-- >>> either (take 26 . show) show (outcomeResult stuck)
-- "Deadlock in a simulation: "
module Millrace.Simulation
  ( -- * Running
    simulate,
    Outcome (..),
    SimulationException (..),
    Waiting (..),

    -- * Plans
    Plan (..),
    calm,
    troubled,
    Fault (..),

    -- * Within a simulation
    now,
    chance,
    note,

    -- * Crashes
    crash,
    untilCrash,
  )
where

import Control.Concurrent
  ( forkIO,
    forkIOWithUnmask,
    forkOn,
    getNumCapabilities,
    rtsSupportsBoundThreads,
    setNumCapabilities,
    yield,
  )
import qualified Control.Concurrent as Base
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception
  ( Exception (..),
    SomeAsyncException,
    SomeException,
    bracket,
    catch,
    mask,
    mask_,
    onException,
    throwIO,
    throwTo,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM, forM_, unless, void, when)
import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (IORef, newIORef, readIORef, writeIORef)
import Data.Int (Int32)
import Data.List (sortOn)
import Data.Maybe (isJust)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Error (Errno (..))
import Foreign.C.String (peekCString, withCString)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, pokeByteOff)
import Millrace.Duration (Duration, durationNanoseconds, microseconds, milliseconds, nanoseconds, seconds)
import Millrace.Internal.CallbackQueue (WaitingCallbacks (..))
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls
import Millrace.Internal.Manager
import Millrace.Internal.Simulation.Constants
import Millrace.Internal.Simulation.MachineCalls hiding (Plan)
import qualified Millrace.Internal.Simulation.MachineCalls as Foreign
import Millrace.Internal.SystemError (prepareSystemErrors, systemError)
import Millrace.Internal.Timer
import Millrace.Internal.Units (saturatedWord)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC, performMinorGC)

------------------------------------------------------------------------------------------------------------------------
-- Plans

-- | What may happen to an operation.
data Fault
  = -- | it transfers only a few bytes
    ShortTransfer
  | -- | its completion is reported later
    Delay
  | -- | the connection is reset before it
    Reset
  | -- | the connection is reset after it
    ResetAfter
  | -- | a send first shuts its direction down, so that the peer sees the end of the stream
    HalfClose
  | -- | the sent bytes arrive much later, as do all bytes after them
    Stall
  | -- | an accept, a new socket or an opened file finds no free descriptor (@EMFILE@)
    NoDescriptors
  | -- | an accept, a send or a new socket finds no memory (@ENOBUFS@)
    NoBuffers
  | -- | a write, a sync or the creation of a file finds the disk full (@ENOSPC@)
    DiskFull
  | -- | a datagram never arrives
    Loss
  | -- | a datagram arrives twice
    Duplication
  | -- | a datagram takes longer, and later ones may arrive before it
    Overtaken
  | -- | the first attempt is interrupted as if by a signal, and the core tries again
    Interrupted
  | -- | its cancellation takes time, and it may succeed meanwhile
    LateCancel
  | -- | a call on a file or directory fails (@EIO@). After a sync that fails in this way, what was to be synced never
    -- will be, although it can still be read: that is Linux's way. 'troubled' machines have none.
    DiskError
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | The properties and the faults of a machine. Begin with 'calm' or 'troubled'.
data Plan = Plan
  { -- | The seed, from which everything random is computed.
    planSeed :: Word64,
    -- | How often each fault happens, per million operations to which it can happen.
    planFaultRates :: [(Fault, Int)],
    -- | Faults of chosen operations, by number. The first operation is 1. A new socket, an opened file, a sent
    -- datagram and a call on a path count as one operation each.
    planFaults :: [(Int, Fault)],
    -- | The longest 'Delay', 'Overtaken' and 'LateCancel'.
    planDelay :: Duration,
    -- | How long a 'Stall' lasts.
    planStall :: Duration,
    -- | The latency from one end of a connection to the other.
    planLatency :: Duration,
    -- | The rate of each direction of a connection; 0 for no limit.
    planBytesPerSecond :: Int,
    -- | How many unreceived bytes a direction can hold; 0 for 208 KiB. Of this and of all other numbers, negative ones
    -- mean 0.
    planBufferBytes :: Int,
    -- | The size of all files together; 0 for no limit.
    planDiskBytes :: Int,
    -- | The number of open descriptors; 0 for no limit.
    planDescriptors :: Int,
    -- | Whether independent completions come in any order.
    planReorders :: Bool,
    -- | Whether to keep a trace, which takes memory.
    planTraces :: Bool
  }
  deriving (Eq, Show)

-- | A machine with this seed, on which nothing fails and links have no latency.
calm :: Word64 -> Plan
calm seed =
  Plan
    { planSeed = seed,
      planFaultRates = [],
      planFaults = [],
      planDelay = milliseconds 10,
      planStall = seconds 30,
      planLatency = mempty,
      planBytesPerSecond = 0,
      planBufferBytes = 212992,
      planDiskBytes = 0,
      planDescriptors = 0,
      planReorders = False,
      planTraces = True
    }

-- | A machine with this seed, from which its faults, their rates and the speed of its links are computed.
troubled :: Word64 -> Plan
troubled seed =
  (calm seed)
    { planFaultRates = [(fault, rate (fromEnum fault)) | fault <- [minBound .. LateCancel]],
      planLatency = [mempty, microseconds 50, milliseconds 2, milliseconds 80] !! below 4 20,
      planBytesPerSecond = [0, 0, 10000000, 200000] !! below 4 21,
      planBufferBytes = [212992, 65536, 4096, 600] !! below 4 22,
      planReorders = below 2 23 == 1
    }
  where
    -- Most faults are rare on any one machine, and some do not occur.
    rate salt = [0, 0, 1000, 5000, 20000, 100000] !! below 6 salt
    below :: Int -> Int -> Int
    below bound salt = fromIntegral (mixed salt `shiftR` 20 `mod` fromIntegral bound)
    -- SplitMix64 (Steele, Lea, Flood 2014)
    mixed :: Int -> Word64
    mixed salt = finish (seed * 0x9e3779b97f4a7c15 + fromIntegral salt * 0xd1342543de82ef95)
    finish z0 =
      let z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xbf58476d1ce4e5b9
          z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94d049bb133111eb
       in z2 `xor` (z2 `shiftR` 31)

withPlan :: Plan -> (Ptr Foreign.Plan -> IO a) -> IO a
withPlan what use = allocaBytes planSize $ \memory -> allocaBytes (max 1 (length faults * plannedSize)) $ \planned -> do
  fillBytes memory 0 planSize
  pokeByteOff memory planSeedOffset (planSeed what)
  forM_ (planFaultRates what) $ \(fault, rate) ->
    pokeByteOff memory (planRates + 4 * faultCode fault) (saturatedWord rate)
  forM_ (zip [0 ..] faults) $ \(i, (operation, fault)) -> do
    pokeByteOff planned (i * plannedSize + plannedOperation) (natural operation)
    pokeByteOff planned (i * plannedSize + plannedFault) (fromIntegral (faultCode fault) :: Word32)
  pokeByteOff memory planPlanned (planned :: Ptr Word8)
  pokeByteOff memory planPlannedCount (fromIntegral (length faults) :: Word64)
  pokeByteOff memory planDelayMax (nanosecondsOf planDelay)
  pokeByteOff memory planStallTime (nanosecondsOf planStall)
  pokeByteOff memory planLatencyTime (nanosecondsOf planLatency)
  pokeByteOff memory planRate (natural (planBytesPerSecond what))
  pokeByteOff memory planBuffer (saturatedWord (planBufferBytes what))
  pokeByteOff memory planDisk (natural (planDiskBytes what))
  pokeByteOff memory planDescriptorsOffset (saturatedWord (planDescriptors what))
  pokeByteOff memory planReordersFlag (flag (planReorders what))
  pokeByteOff memory planTracesFlag (flag (planTraces what))
  use memory
  where
    faults = sortOn fst (planFaults what)
    faultCode fault = fromEnum fault + 1
    -- Half of what there is, because the machine adds times to its clock.
    nanosecondsOf field = min (maxBound `quot` 2) (durationNanoseconds (field what)) :: Word64
    natural number = fromIntegral (max 0 number) :: Word64
    flag value = if value then 1 else 0 :: Word8

------------------------------------------------------------------------------------------------------------------------
-- Outcomes

-- | The result of a run.
data Outcome a = Outcome
  { -- | the result of the action; a 'Deadlock' if there was one
    outcomeResult :: Either SomeException a,
    outcomeSeed :: Word64,
    -- | one line per event: the time in seconds, what happened, and on which descriptor
    outcomeTrace :: ByteString,
    -- | the duration on the machine's clock
    outcomeDuration :: Duration,
    outcomeOperations :: Int,
    -- | the number of faults
    outcomeFaults :: Int,
    -- | the operations in flight when the action ended; they were then ended
    outcomeWaiting :: [Waiting],
    -- | the descriptors that were open when the action ended; they were then closed
    outcomeOpenDescriptors :: Int,
    -- | the bytes that had been sent but not received
    outcomeBufferedBytes :: Int,
    -- | the buffers of "Millrace.Socket.Borrowed" that had not been given back then
    outcomeBorrowedBuffers :: Int
  }

-- | An operation that has not ended.
data Waiting = Waiting
  { -- | the number of the thread that waits for it, as 'show' prints it for a @ThreadId@
    waitingThread :: Word64,
    -- | such as @"recv"@
    waitingOperation :: String,
    waitingDescriptor :: Maybe Int,
    -- | its deadline, in nanoseconds on the machine's clock
    waitingUntil :: Maybe Word64
  }
  deriving (Eq, Show)

-- | Failures of a simulation, in contrast to those of the program in it.
data SimulationException
  = -- | All threads wait, and no event will ever come. These are the operations in flight. Threads that wait for a
    -- variable are not among them. It is thrown to the action. A thread that waits for the real world has 20 ms: see
    -- 'simulate'.
    Deadlock [Waiting]
  | -- | The machine could not be created.
    NoMachine IOError
  | -- | Millrace was not tested with this version of GHC, so that runs might not repeat:
    -- 'Millrace.Manager.runTimeSystem'.
    UnknownScheduler
  | -- | A simulation was started inside another one.
    WithinSimulation
  | -- | This function was called outside a simulation.
    OutsideSimulation String
  | -- | The action has ended, but other threads of it do not end: they begin new operations whenever theirs are ended
    -- with an error.
    ThreadsGoOn

instance Exception SimulationException

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show SimulationException where
  showsPrec _ problem = showString $ case problem of
    Deadlock [] ->
      "Deadlock in a simulation: no operation is in flight, and no timer. Threads may wait for variables, or \
      \in the real "
        ++ "world: Control.Concurrent.threadDelay, foreign calls and sockets of the network package have no \
           \virtual time."
    Deadlock waiting -> unlines ("Deadlock in a simulation. Nothing will end these operations:" : map describe waiting)
    NoMachine reason -> "A simulated machine could not be made: " ++ show reason
    UnknownScheduler ->
      "A simulation needs a version of GHC that Millrace was tested with. With this one, its runs might not repeat."
    WithinSimulation -> "A simulation cannot begin within another one."
    OutsideSimulation what -> what ++ " works within Millrace.Simulation.simulate only."
    ThreadsGoOn ->
      "The simulated program has ended, but other threads of it go on. End them in the action, for instance \
      \with bracket."
    where
      describe w =
        "  thread " ++ show (waitingThread w) ++ ": " ++ waitingOperation w
          ++ maybe "" ((" on descriptor " ++) . show) (waitingDescriptor w)

waitingOn :: Ptr Loop -> IO [(Token, Waiting)]
waitingOn loop = do
  count <- fromIntegral <$> c_loop_list loop nullPtr 0
  allocaBytes (max 1 (count * pendingSize)) $ \list -> do
    void (c_loop_list loop list (fromIntegral count))
    forM [0 .. count - 1] $ \i -> peekWaiting (list `plusPtr` (i * pendingSize))

-- The token, and what it stands for.
peekWaiting :: Ptr Word8 -> IO (Token, Waiting)
peekWaiting memory = do
  token <- peekByteOff memory pendingToken
  kind <- peekByteOff memory pendingKind
  descriptor <- peekByteOff memory pendingDescriptor :: IO Int32
  deadline <- peekByteOff memory pendingDeadline
  userData <- peekByteOff memory pendingUserData
  name <- c_kind_name kind >>= peekCString
  return
    ( Token token,
      Waiting
        { waitingThread = userData `shiftR` threadShift,
          waitingOperation = name,
          waitingDescriptor = if descriptor < 0 then Nothing else Just (fromIntegral descriptor),
          waitingUntil = if deadline == 0 then Nothing else Just deadline
        }
    )

------------------------------------------------------------------------------------------------------------------------
-- Running

simulationLock :: Lock
simulationLock = unsafePerformIO newLock
{-# NOINLINE simulationLock #-}

-- | Runs an action on a new machine. When the action has ended, it returns the outcome. It also closes remaining
-- descriptors, ends remaining operations with an error, and drops remaining timers.
--
-- Everything outside this library happens in the real world: @Control.Concurrent.threadDelay@, foreign calls, sockets
-- of the network package, and with them @withApplication@ of millrace-http. No virtual time passes for it. A program
-- that waits for it longer than 20 ms (200 ms in a @safe@ foreign call) while no other thread can run is in a
-- 'Deadlock'.
--
-- The program runs on one capability meanwhile ('setNumCapabilities'). Interruptible: an exception first ends the
-- action. Throws 'WithinSimulation', 'UnknownScheduler', 'NoMachine' or 'ThreadsGoOn', and
-- 'Millrace.Manager.NotThreaded'.
simulate :: Plan -> IO a -> IO (Outcome a)
simulate what action = do
  unless rtsSupportsBoundThreads $ throwIO NotThreaded
  here <- c_simulation_here
  unless (here == nullPtr) $ throwIO WithinSimulation
  prepareSystemErrors
  -- Masked until this thread waits for the end of the run. That wait can be interrupted.
  withLock simulationLock $
    onOneCapability $
      mask_ $ do
        done <- newEmptyMVar
        given <- newIORef Nothing
        void $ forkOn 0 $ try (runMachine what given action) >>= putMVar done
        result <-
          takeMVar done `catch` \problem -> do
            writeIORef given (Just (problem :: SomeException))
            void (uninterruptibleMask_ (takeMVar done))
            throwIO problem
        either (throwIO :: SomeException -> IO b) return result

onOneCapability :: IO a -> IO a
onOneCapability action = bracket getNumCapabilities restore $ \count -> when (count > 1) giveUpOthers >> action
  where
    restore count = when (count > 1) (setNumCapabilities count)
    -- The threads of the other capabilities move to this one, and each arrival interrupts the thread that runs here.
    giveUpOthers = setNumCapabilities 1 >> Base.threadDelay 2000

-- A simulation that runs.
data Run a = Run
  { runManagerOf :: Manager,
    runCompletions :: Ptr Completion,
    runMachineOf :: Ptr Machine,
    runLoop :: Ptr Loop,
    runResult :: IORef (Maybe (Either SomeException a)),
    runInterruption :: IORef (Maybe SomeException),
    -- | How many safe foreign calls are known to last: those of managers that wait for the real world, for instance.
    runLastingCalls :: IORef Int,
    runMain :: Base.ThreadId
  }

runMachine :: Plan -> IORef (Maybe SomeException) -> IO a -> IO (Outcome a)
runMachine what interruption action =
  withPlan what $ \plan -> alloca $ \machinePointer -> alloca $ \loopPointer -> do
    c_capability >>= \capability -> checkLayout capability 0
    isKnown <- c_knows_layout
    when (isKnown == 0) $ throwIO UnknownScheduler
    status <- c_simulation_begin plan machinePointer loopPointer
    when (status < 0) $
      throwIO (NoMachine (systemError "simulate" (Errno (negate status)) Nothing))
    machine <- peek machinePointer
    loop <- peek loopPointer
    -- Do this first: a thread outside the simulation may already run, and begin an operation on the machine.
    withSimulatedManager loop $ \manager completions -> do
      performMinorGC -- so that the nursery is empty at the start of every run
      begin <- c_now
      result <- newIORef Nothing
      lasting <- callsUnderWay >>= newIORef
      mainThread <- forkIOWithUnmask $ \unmask -> try (unmask action) >>= writeIORef result . Just
      let run = Run manager completions machine loop result interruption lasting mainThread
      end <- drive run
      outcome <- report what run begin end
      tidyUp run tidyUpRounds `onException` c_simulation_abandon
      c_simulation_end
      return outcome

-- Whether anything has happened in an iteration.
data Iteration = Busy | Idle
  deriving (Eq)

-- Polls once, and lets all threads run that can.
iteration :: Run a -> IO Iteration
iteration run = do
  collectIfLow
  count <- pollAll (runManagerOf run) (runCompletions run)
  callbacks <- attendCallbacks (runManagerOf run)
  yield
  return (if maybe False (> 0) count || callbacks == SomeWait then Busy else Idle)

-- Uses up the rest of a nursery that is nearly used up, block by block.
collectIfLow :: IO ()
collectIfLow = do
  isLow <- c_nursery_is_low
  when (isLow /= 0) $ newIORef isLow >>= readIORef >> collectIfLow

-- Two empty polls with a 'yield' between them mean that all threads wait, unless a thread that ran meanwhile has woken
-- another.
drive :: Run a -> IO (Either SomeException a)
drive run = busy patience
  where
    busy left = do
      activity <- iteration run
      result <- readIORef (runResult run)
      given <- readIORef (runInterruption run)
      case (result, given) of
        (Just end, _) -> return end
        (Nothing, Just problem) -> writeIORef (runInterruption run) Nothing >> throwToMain problem >> busy left
        (Nothing, Nothing) -> if activity == Busy then busy patience else idle handOversMax callPatience left
    idle handOvers calls left = do
      activity <- iteration run
      othersRun <- (/= 0) <$> c_others_can_run
      hasEnded <- isJust <$> readIORef (runResult run)
      mayReturn <- callsMayReturn run calls
      let next
            | activity == Busy || hasEnded = busy patience
            | othersRun && handOvers > 0 = idle (handOvers - 1) calls left
            | mayReturn = when (calls <= callPauses) c_pause >> idle handOvers (calls - 1) left
            | otherwise = skip othersRun left
      next
    skip othersRun left = do
      moved <- c_machine_skip (runLoop run)
      if moved /= 0 || othersRun then busy patience else stuck left
    -- No event will come on this machine. A thread outside may still wake another, for instance one in a foreign call.
    stuck left
      | left > 0 = c_pause >> busy (left - 1)
      | otherwise = do
        waiting <- map snd <$> waitingOn (runLoop run)
        throwToMain (toException (Deadlock waiting))
        busy patience
    -- A new thread throws it, because throwing waits until the target can receive it, and the target may wait for a
    -- completion.
    throwToMain problem = void (forkIO (throwTo (runMain run) problem))

callsUnderWay :: IO Int
callsUnderWay = fromIntegral <$> c_calls_under_way

-- Whether a thread is in a safe foreign call that may return soon. Such a thread does not wait. A call that does not
-- return within the limit is no longer waited for.
callsMayReturn :: Run a -> Int -> IO Bool
callsMayReturn run patienceLeft = do
  count <- callsUnderWay
  lasting <- readIORef (runLastingCalls run)
  let mayReturn = count > lasting && patienceLeft > 0
  unless (mayReturn || count == lasting) $ writeIORef (runLastingCalls run) count
  return mayReturn

-- How often to check whether safe foreign calls have returned before the clock advances: at first without a pause,
-- because most take microseconds, and then every millisecond of real time.
callPatience, callPauses :: Int
callPatience = callPauses + 50
callPauses = 200

-- How often threads may wake each other, with nothing else happening, before the clock advances: a thread that yields
-- in a loop until time has passed must not wait for ever.
handOversMax :: Int
handOversMax = 10000

-- How many milliseconds of real time to wait before reporting a deadlock.
patience :: Int
patience = 20

report :: Plan -> Run a -> Word64 -> Either SomeException a -> IO (Outcome a)
report what run begin end = do
  endTime <- c_now
  waiting <- waitingOn (runLoop run)
  lent <- c_loop_buffers_out (runLoop run)
  state <- allocaBytes stateSize $ \memory -> do
    c_machine_inspect (runMachineOf run) memory
    peekArray (stateSize `div` 8) memory
  trace <- alloca $ \size -> do
    text <- c_machine_trace (runMachineOf run) size
    length' <- peek size
    ByteString.packCStringLen (text, fromIntegral length')
  let number i = fromIntegral (state !! i)
  return
    Outcome
      { outcomeResult = end,
        outcomeSeed = planSeed what,
        outcomeTrace = trace,
        outcomeDuration = nanoseconds (fromIntegral (endTime - begin)),
        outcomeOperations = number 0,
        outcomeFaults = number 1,
        outcomeWaiting = map snd waiting,
        outcomeOpenDescriptors = number 2,
        outcomeBufferedBytes = number 3,
        outcomeBorrowedBuffers = fromIntegral lent
      }

tidyUpRounds :: Int
tidyUpRounds = 1000

-- Ends all operations in flight, and those that the woken threads begin. Stops timers. Threads that waited for one, or
-- for a variable, can never be woken, and a garbage collection ends them while the machine still exists.
tidyUp :: Run a -> Int -> IO ()
tidyUp run rounds = do
  c_machine_close_all (runMachineOf run)
  waiting <- waitingOn (runLoop run)
  mapM_ end waiting
  performMajorGC
  activity <- iteration run
  when (activity == Busy || not (null waiting)) $ do
    when (rounds == 0) $ throwIO ThreadsGoOn
    moved <- c_machine_skip (runLoop run) -- a cancellation may take its time
    tidyUp run (if activity == Busy || moved == 0 then rounds - 1 else rounds)
  where
    end (token, w)
      | waitingOperation w == "timeout" = mask_ (void (stopTimer (Timer token)))
      | otherwise = c_cancel token

------------------------------------------------------------------------------------------------------------------------
-- Within

withMachine :: String -> (Ptr Machine -> IO a) -> IO a
withMachine what use = do
  machine <- c_simulation_here
  when (machine == nullPtr) $ throwIO (OutsideSimulation ("Millrace.Simulation." ++ what))
  use machine

-- | Nanoseconds on the machine's clock, which starts at one second. Throws 'OutsideSimulation'.
now :: IO Word64
now = withMachine "now" (const c_now)

-- | A random number from 0 to one less than the given one, computed from the seed. Throws 'OutsideSimulation'.
chance :: Int -> IO Int
chance bound = withMachine "chance" $ \machine -> fromIntegral <$> c_machine_chance machine (fromIntegral (max 1 bound))

-- | Adds a line to the trace. Throws 'OutsideSimulation'.
note :: String -> IO ()
note text = withMachine "note" $ \machine -> withCString text (c_machine_line machine)

------------------------------------------------------------------------------------------------------------------------
-- Crashes

-- | The power fails, and comes back. From now on every call on a file that was open fails (@EIO@), and the disk has
-- what a crash leaves: everything that was synced, and of the rest any part, drawn from the seed. POSIX promises
-- nothing more:
--
-- 1. The bytes and the size of a file are safe after 'Millrace.File.sync' of the file. Before, any sectors (512 bytes)
--    of a write may have come
--    to the disk, and any of the sizes that the file has had.
-- 2. A name is safe after 'Millrace.File.sync' of its directory. Before, it may mean what it has meant at any time
--    since, on its own: a rename
--    may leave the new name, the old one, both or none.
--
-- Threads continue. Use 'untilCrash' for a program that ends with the power. Sockets are not touched. Throws
-- 'OutsideSimulation'.
--
-- >>> import Millrace.File
-- >>> let write file = writeAt file 0 "text" >> sync file
-- >>> let program = withFile "note" ForWriting write >> withFile "/" ForReading sync
-- >>> outcome <- simulate (calm 1) (program >> crash >> withFile "note" ForReading (\file -> readAt file 0 10))
-- >>> either show show (outcomeResult outcome)
-- "\"text\""
crash :: IO ()
crash = withMachine "crash" c_machine_crash

-- | @untilCrash count program@ runs a program that the power leaves at its @count@-th call on files or directories.
-- That call may still have its effect; it and all later ones fail (@EIO@). So handlers and finalizers run, and can
-- change nothing on the disk. When the program has ended, the power comes back, as after 'crash', and the result is
-- 'Nothing'. If the program ends before, nothing happens to it. End its threads with it. Throws 'OutsideSimulation'.
--
-- >>> import Millrace.File
-- >>> let program = withFile "note" ForWriting (\file -> writeAt file 0 "text" >> sync file)
-- >>> outcome <- simulate (calm 1) ((,) <$> untilCrash 2 program <*> untilCrash 1000 program)
-- >>> either show show (outcomeResult outcome)
-- "(Nothing,Just ())"
untilCrash :: Int -> IO a -> IO (Maybe a)
untilCrash count program = withMachine "untilCrash" $ \machine -> mask $ \restore -> do
  c_machine_fail_power_after machine (fromIntegral (max 1 count))
  outcome <- try (restore program)
  hasPower <- c_machine_has_power machine
  if hasPower /= 0 then c_machine_fail_power_after machine 0 else c_machine_crash machine
  case outcome of
    Right result | hasPower /= 0 -> return (Just result)
    Left problem | hasPower /= 0 || isInterruption problem -> throwIO problem
    _ -> return Nothing
  where
    isInterruption problem = isJust (fromException problem :: Maybe SomeAsyncException)
