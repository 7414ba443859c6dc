{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE ScopedTypeVariables #-}

-- | What the tests share: jobs whose outcome the test thread asks for, limits of time, byte streams in which every
-- mistake shows, sockets to begin with, and what the process holds.
--
-- Nothing here asserts in another thread than the test's: a job ends with its result or its exception, and 'finish'
-- passes that on. Limits of time are base's own, so that what is tested does not supervise itself.
module Support
  ( -- * Jobs
    Job,
    start,
    startOn,
    finish,
    outcomeOf,
    isOver,
    stop,
    interrupt,
    within,
    killInEach,
    killOneIn,
    pause,
    eventually,
    shouldBecome,

    -- * Child processes
    forked,
    succeeds,
    inChild,

    -- * Failing
    require,
    failsWith,
    hasCode,
    isErrno,

    -- * Random numbers
    Random,
    newRandom,
    below,
    between,
    firstSeed,
    machineSeeds,
    forSeeds,

    -- * Streams of bytes
    bytesAt,
    checkFrom,
    receiveStream,
    receiveExactly,
    sendStream,
    echoStream,

    -- * Sockets
    withListener,
    newListener,
    connectTo,
    tcpPair,
    unixPair,
    withTcpPair,
    withUnixPair,
    withPairOf,
    withAbstractSockets,

    -- * What only works with a known run-time system
    needingKnownLayout,

    -- * What the process holds
    openToRead,
    descriptorCount,
    inFlightNow,
    liveBytes,
    residentKilobytes,
    withoutLeaks,
    keepingCapabilities,
  )
where

import Control.Concurrent
import Control.Exception
  ( AsyncException (..),
    Exception,
    SomeException,
    bracket,
    bracketOnError,
    evaluate,
    fromException,
    mask_,
    throwIO,
    try,
  )
import qualified Control.Exception as Exception
import Control.Monad (forM, forM_, unless, void, when, (>=>))
import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), throwErrnoPathIfMinus1)
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))
import GHC.IO.Exception (IOException (..))
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Millrace.Deadline (isDeadlineError)
import qualified Millrace.Manager as Manager
import Millrace.Socket
import Millrace.Socket.ByteString
import System.Directory (listDirectory)
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.IO (hPutStrLn, stderr)
import System.Mem (performMajorGC)
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessID, getProcessStatus)
import System.Posix.Types (Fd (..), ProcessID)
import qualified System.Timeout as Base
import Test.Hspec (SpecWith, beforeWith, pendingWith)
import Text.Read (readMaybe)

-- | A thread and its outcome.
data Job a = Job ThreadId (MVar (Either SomeException a))

start :: IO a -> IO (Job a)
start action = startBy (\run -> forkIOWithUnmask (\unmask -> run (unmask action)))

-- | Runs the action on the capability with this number, permanently.
startOn :: Int -> IO a -> IO (Job a)
startOn capability action = startBy (\run -> forkOnWithUnmask capability (\unmask -> run (unmask action)))

startBy :: ((IO a -> IO ()) -> IO ThreadId) -> IO (Job a)
startBy fork = do
  outcome <- newEmptyMVar
  thread <- mask_ (fork (try >=> putMVar outcome))
  return (Job thread outcome)

-- | Waits for the result, and throws the job's exception.
finish :: Job a -> IO a
finish job = outcomeOf job >>= either throwIO return

outcomeOf :: Job a -> IO (Either SomeException a)
outcomeOf (Job _ outcome) = readMVar outcome

isOver :: Job a -> IO Bool
isOver (Job _ outcome) = not <$> isEmptyMVar outcome

-- | Kills the thread and waits for its end.
stop :: Job a -> IO ()
stop job@(Job thread _) = killThread thread >> void (outcomeOf job)

-- | Throws an exception to the job.
interrupt :: Exception e => Job a -> e -> IO ()
interrupt (Job thread _) = throwTo thread

-- | Fails if the action takes longer than this many seconds.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  Base.timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

-- | Kills threads in each of these actions, which get a number each, at random moments. They may also end at a
-- deadline, but not fail.
killInEach :: [(String, Int -> IO ())] -> IO ()
killInEach actions =
  forM_ actions $ \(name, action) -> do
    jobs <- forM [1 .. 24] $ \seed -> start $ do
      random <- newRandom seed
      delay <- below random 6000
      victim <- start (action seed)
      threadDelay delay
      killVictim name victim
    mapM_ finish jobs

-- | Runs an action in one thread, which is killed after a tenth of a second.
killOneIn :: (String, Int -> IO ()) -> IO ()
killOneIn (name, action) = do
  victim <- start (action 1)
  void (eventually 100 (isOver victim))
  killVictim name victim

killVictim :: String -> Job () -> IO ()
killVictim name victim@(Job thread _) =
  within 20 name (killThread thread >> outcomeOf victim) >>= either unlessEnded return
  where
    unlessEnded problem
      | Just ThreadKilled <- fromException problem = return ()
      | Just late <- fromException problem, isDeadlineError late = return ()
      | otherwise = ioError (userError (name ++ ": " ++ show problem))

-- | A child that runs an action within some seconds, and exits with success unless that throws.
forked :: IO () -> IO ProcessID
forked action = forkProcess $ do
  outcome <- try (within 15 "the child" action) :: IO (Either SomeException ())
  case outcome of
    Right () -> exitImmediately ExitSuccess
    Left problem -> hPutStrLn stderr ("in the child: " ++ show problem) >> exitImmediately (ExitFailure 1)

-- | Waits for its end.
succeeds :: ProcessID -> IO ()
succeeds child = within 20 "the child's end" $ do
  status <- getProcessStatus True False child
  require (status == Just (Exited ExitSuccess)) ("the child ended with " ++ show status)

inChild :: IO () -> IO ()
inChild action = forked action >>= succeeds

-- | Sleeps with base's own function.
pause :: Int -> IO ()
pause = threadDelay

-- | Repeats the question for at most this many milliseconds, until the answer is True.
eventually :: Int -> IO Bool -> IO Bool
eventually millis condition = do
  holds <- condition
  if holds
    then return True
    else
      if millis <= 0
        then return False
        else pause 2000 >> eventually (millis - 2) condition

-- | Within two seconds the value is as expected.
shouldBecome :: (Eq a, Show a) => IO a -> a -> IO ()
shouldBecome current expected = do
  reached <- eventually 2000 ((== expected) <$> current)
  unless reached $ do
    value <- current
    ioError (userError ("expected to become " ++ show expected ++ ", but it stays " ++ show value))

-- | Fails in the thread that runs it. In a job, 'finish' passes the failure to the test.
require :: Bool -> String -> IO ()
require condition message = unless condition (ioError (userError message))

-- | Runs an action that must throw, and returns its exception.
failsWith :: Exception e => IO a -> IO e
failsWith action = try action >>= either return (const (ioError (userError "no exception was thrown")))

-- | Whether it is the error with this @errno@.
hasCode :: Errno -> IOError -> Bool
hasCode expected problem = (Errno <$> ioe_errno problem) == Just expected

-- | Whether it failed with this @errno@.
isErrno :: Errno -> Either SomeException a -> Bool
isErrno expected (Left problem) = maybe False (hasCode expected) (fromException problem)
isErrno _ (Right _) = False

-- | A generator (splitmix) for one thread.
newtype Random = Random (IORef Word64)

newRandom :: Int -> IO Random
newRandom seed = Random <$> newIORef (fromIntegral seed * 0x9e3779b97f4a7c15)

-- | From 0 to one less than the limit.
below :: Random -> Int -> IO Int
below (Random ref) limit = do
  state <- (+ 0x9e3779b97f4a7c15) <$> readIORef ref
  writeIORef ref $! state
  let a = (state `xor` (state `shiftR` 30)) * 0xbf58476d1ce4e5b9
      b = (a `xor` (a `shiftR` 27)) * 0x94d049bb133111eb
  return $! fromIntegral ((b `xor` (b `shiftR` 31)) `mod` fromIntegral limit)

between :: Random -> Int -> Int -> IO Int
between random low high = (low +) <$> below random (high - low + 1)

-- | The first seed of tests that run several simulated machines: 1, or @MILLRACE_FIRST_SEED@ in the environment.
firstSeed :: IO Word64
firstSeed = maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MILLRACE_FIRST_SEED"

-- | This many seeds, from the first one.
machineSeeds :: Int -> IO [Word64]
machineSeeds count = (\first -> take count [first ..]) <$> firstSeed

-- | Runs a test with each of this many seeds.
forSeeds :: Int -> (Word64 -> IO ()) -> IO ()
forSeeds count test = machineSeeds count >>= mapM_ test

period :: Int
period = 65521

-- A prime number of bytes without regularity, twice, so that a slice of it can begin anywhere.
twoPeriods :: ByteString
twoPeriods = once <> once
  where
    once =
      fst (ByteString.unfoldrN period (\x -> Just (fromIntegral (x `shiftR` 33), x * 6364136223846793005 + 1)) seed)
    seed = 42 :: Word64
{-# NOINLINE twoPeriods #-}

-- | The bytes of the stream that begin at a position: bytes that are lost, repeated or exchanged show.
bytesAt :: Int -> Int -> ByteString
bytesAt position count
  | count <= period = ByteString.take count (ByteString.drop (position `mod` period) twoPeriods)
  | otherwise = ByteString.concat (go position count)
  where
    go from left
      | left <= 0 = []
      | otherwise = bytesAt from (min left period) : go (from + period) (left - period)

-- | Fails unless these bytes belong at this position. Returns the position after them.
checkFrom :: Int -> ByteString -> IO Int
checkFrom position bytes
  | bytes == bytesAt position count = return $! position + count
  | otherwise = ioError (userError ("the stream is wrong within " ++ show count ++ " bytes from " ++ show position))
  where
    count = ByteString.length bytes

-- | Receives and checks until the end of the stream; returns its length. Never asks for more than this many bytes.
receiveStream :: Socket -> Int -> Int -> IO Int
receiveStream s most position = do
  bytes <- recv s most
  if ByteString.null bytes then return position else checkFrom position bytes >>= receiveStream s most

-- | Receives and checks this many bytes from a position.
receiveExactly :: Socket -> Int -> Int -> IO Int
receiveExactly s position count
  | count == 0 = return position
  | otherwise = do
    bytes <- recv s (min count 65536)
    when (ByteString.null bytes) $ ioError (userError ("the stream ended at " ++ show position))
    next <- checkFrom position bytes
    receiveExactly s next (count - ByteString.length bytes)

-- | Sends this many bytes of the stream from a position; returns the position after them.
sendStream :: Socket -> Int -> Int -> IO Int
sendStream s position count = sendAll s (bytesAt position count) >> (return $! position + count)

-- | Checks the bytes from a position and sends them back, until the end of the stream. Returns the position of the end.
echoStream :: Socket -> Int -> IO Int
echoStream s position = do
  bytes <- recv s 3000
  if ByteString.null bytes
    then return position
    else do
      next <- checkFrom position bytes
      sendAll s bytes
      echoStream s next

newListener :: IO (Socket, SockAddr)
newListener = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  (,) listener <$> getSocketName listener

-- | A listening TCP socket on a port of its own.
withListener :: (Socket -> SockAddr -> IO a) -> IO a
withListener = bracket newListener (close . fst) . uncurry

connectTo :: SockAddr -> IO Socket
connectTo address = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \s -> connect s address >> return s

-- | Two ends of a TCP connection.
tcpPair :: IO (Socket, Socket)
tcpPair = withListener $ \listener address -> bracketOnError (connectTo address) close $ \one -> do
  (other, _) <- accept listener
  return (one, other)

withTcpPair :: (Socket -> Socket -> IO a) -> IO a
withTcpPair = withPairOf tcpPair

withUnixPair :: (Socket -> Socket -> IO a) -> IO a
withUnixPair = withPairOf unixPair

unixPair :: IO (Socket, Socket)
unixPair = socketPair AF_UNIX Stream defaultProtocol

withPairOf :: IO (Socket, Socket) -> (Socket -> Socket -> IO a) -> IO a
withPairOf create = bracket create (\(one, other) -> close one >> close other) . uncurry

-- | Two Unix sockets, each with an abstract name (Linux).
withAbstractSockets :: SocketType -> (Socket -> SockAddr -> Socket -> SockAddr -> IO a) -> IO a
withAbstractSockets kind use = do
  process <- getProcessID
  let named word = SockAddrUnix ("\0millrace-test-" ++ show process ++ word)
      create = (,) <$> socket AF_UNIX kind defaultProtocol <*> socket AF_UNIX kind defaultProtocol
  withPairOf create $ \one other -> do
    bind one (named "one")
    bind other (named "other")
    use one (named "one") other (named "other")

-- | A descriptor of a file or a directory. The function of unix has other arguments since 2.8.
openToRead :: FilePath -> IO Fd
openToRead path = Fd <$> throwErrnoPathIfMinus1 "open" path (withCString path (`c_open` 0))

foreign import capi unsafe "fcntl.h open" c_open :: CString -> CInt -> IO CInt

descriptorCount :: IO Int
descriptorCount = length <$> listDirectory "/proc/self/fd"

inFlightNow :: IO Word64
inFlightNow = Manager.inFlight <$> Manager.counters

-- | Runs a full collection, and returns the number of bytes that are left.
liveBytes :: IO Int
liveBytes = do
  performMajorGC
  fromIntegral . gcdetails_live_bytes . gc <$> getRTSStats

residentKilobytes :: IO Int
residentKilobytes = do
  status <- readFile "/proc/self/status"
  value <- evaluate (sum [read number | ["VmRSS:", number, "kB"] <- map words (lines status)])
  value <$ evaluate (length status)

-- | Fails if the action leaves descriptors open or operations in flight.
withoutLeaks :: IO a -> IO a
withoutLeaks action = do
  _ <- Manager.loopCount -- the loops' own descriptors are there from now on
  operationsBefore <- inFlightNow
  descriptorsBefore <- descriptorCount
  result <- action
  -- Otherwise the count may include something that an earlier test was just releasing.
  (max operationsBefore <$> inFlightNow) `shouldBecome` operationsBefore
    `Exception.catch` explain
      "operations in flight"
  (max descriptorsBefore <$> descriptorCount) `shouldBecome` descriptorsBefore `Exception.catch` explain "descriptors"
  return result
  where
    explain what (problem :: IOException) = ioError (userError (what ++ ": " ++ ioe_description problem))

-- | An action that may change the number of descriptors.
keepingCapabilities :: IO a -> IO a
keepingCapabilities action = bracket getNumCapabilities setNumCapabilities (const action)

-- | Leaves tests out, as pending, where Millrace does not know the layout of the run-time system.
needingKnownLayout :: SpecWith a -> SpecWith a
needingKnownLayout = beforeWith $ \argument -> do
  layout <- Manager.runTimeSystem
  when (layout == Manager.UnknownLayout) $ pendingWith "the layout of this run-time system is not known"
  return argument
