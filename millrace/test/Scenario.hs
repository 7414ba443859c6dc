-- | Scenarios that need a separate process: limits, dispositions of signals, the choice of a backend, printed messages.
--
-- A test runs this program again with @--scenario NAME@; the scenario ends without an exception if all is well.
module Scenario
  ( runScenario,
    scenarioPasses,
    scenarioPassesIn,
    scenarioPassesWith,
    scenarioPrints,
  )
where

import BoundThreads (boundThreads)
import Control.Concurrent (setNumCapabilities, threadDelay)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, bracket_, catch, displayException, fromException, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM_, unless, void, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Data.List (isInfixOf, uncons)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.C.Error (eACCES, eBADF, eCHILD, eCONNRESET, eIO, eMFILE, ePIPE)
import Foreign.C.Types (CInt (..), CUInt (..))
import Foreign.Marshal.Utils (fillBytes)
import Millrace.Deadline
import Millrace.Directory (Permissions (..), createDirectory, exists, ownerOnly, setPermissions)
import Millrace.File
import Millrace.File.Access (writeVectorAt)
import Millrace.File.Buffered (withWriter, writeBytes)
import Millrace.File.Temporary (replaceFile, withTemporaryDirectory, withTemporaryFile)
import Millrace.Manager
import Millrace.Name (Query (..), passive)
import qualified Millrace.Process as Process
import Millrace.Signal (Signal (Terminate, User2))
import Millrace.Simulation (Outcome (..), calm, simulate)
import Millrace.Socket
import Millrace.Socket.Borrowed
import Millrace.Socket.ByteString
import Millrace.Socket.Connect (Server (..), defaultServer, withRunningServer)
import Millrace.Socket.Option (connectSending, setFastOpen)
import Millrace.Timer (getSystemTimerManager, registerTimeout)
import qualified Millrace.Timer as Timer
import Millrace.Watch
import Support
import System.Environment (getEnv, getEnvironment, getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO (hClose, hGetContents, hPutStrLn, stderr)
import System.Posix.IO (closeFd, dupTo)
import System.Posix.Process (getAnyProcessStatus)
import System.Posix.Resource
import System.Posix.Signals (Handler (..), installHandler, sigCHLD, sigPIPE)
import System.Posix.Types (Fd)
import System.Process
import Terminals (terminalAtSignal, terminalFunctions, terminalOfTest, withoutTerminal)
import Test.Hspec (pendingWith)

-- | Runs a scenario in a new process, on this process's backend. If it fails, so does the test, with its output.
scenarioPasses :: String -> IO ()
scenarioPasses name = do
  (code, printed) <- runAgain [] name
  unless (code == ExitSuccess) $ ioError (userError (name ++ ": " ++ show code ++ "\n" ++ printed))

-- | Runs a scenario by means of a program that runs the program named by its last arguments. The test is pending if it
-- ends with 77.
scenarioPassesIn :: [String] -> String -> IO ()
scenarioPassesIn within' name = do
  (code, printed) <- runAgainBy within' [] name
  case code of
    ExitSuccess -> return ()
    ExitFailure 77 -> pendingWith ("this system does not allow it: " ++ printed)
    _ -> ioError (userError (name ++ ": " ++ show code ++ "\n" ++ printed))

-- | Runs a scenario as 'scenarioPasses' does, with more environment variables.
scenarioPassesWith :: [(String, String)] -> String -> IO ()
scenarioPassesWith settings name = scenarioPrints settings name ""

-- | Runs a scenario with more environment variables; it must end well, and print this among other things.
scenarioPrints :: [(String, String)] -> String -> String -> IO ()
scenarioPrints settings name expected = do
  (code, printed) <- runAgain settings name
  unless (code == ExitSuccess && expected `isInfixOf` printed) $
    ioError (userError (name ++ ": " ++ show code ++ "\n" ++ printed))

runAgain :: [(String, String)] -> String -> IO (ExitCode, String)
runAgain = runAgainBy []

runAgainBy :: [String] -> [(String, String)] -> String -> IO (ExitCode, String)
runAgainBy starter settings name = do
  program <- getExecutablePath
  inherited <- getEnvironment
  let environment = settings ++ filter ((`notElem` map fst settings) . fst) inherited
  within 30 name $
    withCreateProcess
      ( uncurry
          proc
          ( fromMaybe (program, []) (uncons starter) `followedBy` [program | not (null starter)]
              `followedBy` ["--scenario", name]
          )
      )
        { env = Just environment,
          std_err = CreatePipe,
          std_in = NoStream
        }
      $ \_ _ errors child -> do
        printed <- maybe (return "") hGetContents errors
        code <- length printed `seq` waitForProcess child
        mapM_ hClose errors
        return (code, printed)
  where
    followedBy (command, arguments) more = (command, arguments ++ more)

-- | The other side: runs the scenario of that name in this process.
runScenario :: String -> IO ()
runScenario name = case lookup name scenarios of
  Just scenario -> within 25 name scenario
  Nothing -> ioError (userError ("there is no scenario " ++ name))

scenarios :: [(String, IO ())]
scenarios =
  [ ("accept-without-descriptors", acceptWithoutDescriptors),
    ("give-up-without-descriptors", giveUpWithoutDescriptors),
    ("server-with-few-descriptors", serverWithFewDescriptors),
    ("begin-without-descriptors", beginWithoutDescriptors),
    ("socket-without-descriptors", socketWithoutDescriptors),
    ("threads-end-without-descriptors", threadsEndWithoutDescriptors),
    ("timers-without-descriptors", timersWithoutDescriptors),
    ("children-ignored", installHandler sigCHLD Ignore Nothing >> childrenOfOthers),
    ("children-reaped-by-others", bracket (start (forever reapAny)) stop (const childrenOfOthers)),
    ("high-descriptors", highDescriptors),
    ("bound-before-first-operation", boundThreads),
    ("capabilities-go-while-managers-start", capabilitiesGoWhileManagersStart),
    ("send-then-receive-without-loop", sendThenReceiveWithoutLoop),
    ("broken-pipe", brokenPipe),
    ("fast-open", fastOpen),
    ("stopped-disk", stoppedDisk),
    ("writes-of-nothing", writesOfNothing),
    ("replace-for-ever", replaceForEver),
    ("replace-once", replaceOnce),
    ("select-before-start", selectBeforeStart),
    ("unknown-backend", unknownBackend),
    ("choose-within-a-simulation", chooseWithinSimulation),
    ("throwing-callback", throwingCallback),
    ("unreadable-directories", unreadableDirectories),
    ("nested-timeouts", nestedTimeouts),
    ("end-beside-others", endBesideOthers),
    ("terminal", terminalOfTest),
    ("terminal-functions", terminalFunctions),
    ("terminal-at-terminate", terminalAtSignal Terminate),
    ("terminal-at-user2", terminalAtSignal User2),
    ("without-terminal", withoutTerminal)
  ]

-- Ends while other threads have a process, a temporary directory and a writer.
endBesideOthers :: IO ()
endBesideOthers = do
  root <- getEnv "MILLRACE_TEST_PATH"
  ready <- newEmptyMVar
  let holding with = void (start (with (putMVar ready () >> threadDelay 60000000)))
      held with = holding with >> takeMVar ready
  held $ \hold -> withTemporaryDirectory root "temporary" (const hold)
  held $ \hold ->
    withFile
      (root ++ "/written")
      ForWriting
      (\file -> withWriter file 0 (\writer -> writeBytes writer (bytesAt 0 10) >> hold))
  held $ \hold ->
    Process.withProcess ((Process.command "sleep" ["30"]) {Process.commandErrors = Process.Null}) $ \process -> do
      withFile (root ++ "/child") ForWriting (\file -> writeAt file 0 (Char8.pack (show (Process.processId process))))
      hold

-- Exceptions of several timeouts come to one thread at the same time. On eight capabilities, GHC 9.0's run-time system
-- ends, loses a thread or lets an exception out if they come from several of these, or if a thread is killed while it
-- throws one.
nestedTimeouts :: IO ()
nestedTimeouts = do
  setNumCapabilities 8
  jobs <- forM [1 .. 20] $ \seed -> start $ do
    random <- newRandom seed
    let soon = between random 1 600
    replicateM_ 2000 $ do
      outer <- soon
      inner <- soon
      delay <- soon
      void (Timer.timeout outer (Timer.timeout inner (Timer.threadDelay delay)))
  mapM_ finish jobs

-- Those below a watched one, also new ones, are reported and not entered. A named one is an error.
unreadableDirectories :: IO ()
unreadableDirectories = withTemporaryDirectory "." "unreadable" $ \root -> do
  let unreadable name = createDirectory (root ++ name) (Permissions 0)
      readable name = exists (root ++ name) >>= \isThere -> when isThere (setPermissions (root ++ name) ownerOnly)
  bracket_
    (unreadable "/closed" >> createDirectory (root ++ "/open") ownerOnly)
    (mapM_ readable ["/closed", "/later"])
    $ do
      failsWith (withWatch [root ++ "/closed"] Recursive (\_ -> return ())) >>= \problem ->
        require (hasCode eACCES problem) (show problem)
      withWatch [root] Recursive $ \watch -> do
        unreadable "/later"
        nextEvents watch >>= \events -> require (events == [Event (root ++ "/later") Created IsDirectory]) (show events)
        createDirectory (root ++ "/open/new") ownerOnly
        nextEvents watch
          >>= \events -> require (events == [Event (root ++ "/open/new") Created IsDirectory]) (show events)

-- The first operation on new capabilities, which gives them their loops one after the other, races with switching them
-- off.
capabilitiesGoWhileManagersStart :: IO ()
capabilitiesGoWhileManagersStart = forM_ [8, 16 .. 64] $ \count -> do
  setNumCapabilities count
  early <- startOn (count - 8) (Timer.threadDelay 1)
  threadDelay (5 * count)
  setNumCapabilities 1
  threadDelay 1000
  setNumCapabilities count
  within 5 "the operation that was first" (finish early)
  later <- forM [count - 8 .. count - 1] $ \capability -> startOn capability (Timer.threadDelay 1)
  within 5 "operations on each of them" (mapM_ finish later)

-- | Runs an action while no descriptor is left. The action's argument frees one.
withoutDescriptors :: (IO () -> IO a) -> IO a
withoutDescriptors action = do
  taken <- descriptorCount
  let limit = ResourceLimit (fromIntegral taken + 30)
  setResourceLimit ResourceOpenFiles (ResourceLimits limit limit)
  fillers <- takeAll
  when (null fillers) $ ioError (userError "the limit of descriptors does not work")
  action (mapM_ closeFd fillers)

takeAll :: IO [Fd]
takeAll = do
  next <- try (openToRead "/dev/null") :: IO (Either IOError Fd)
  either (const (return [])) (\fd -> (fd :) <$> takeAll) next

clientsOf :: SockAddr -> Int -> IO [Socket]
clientsOf _ count = forM [1 .. count] $ \_ -> socket AF_INET Stream defaultProtocol

acceptWithoutDescriptors :: IO ()
acceptWithoutDescriptors = withListener $ \listener address -> do
  clients <- clientsOf address 5
  acceptor <- start $
    forM clients $ \_ -> do
      (connection, _) <- accept listener
      sendAll connection (bytesAt 0 10)
      return connection
  threadDelay 50000
  withoutDescriptors $ \release -> do
    forM_ clients $ \client -> connect client address
    threadDelay 300000
    before <- counters
    threadDelay 1000000
    after <- counters
    let calls = systemCalls after - systemCalls before
        tries = resubmissions after - resubmissions before
    over <- isOver acceptor
    require (not over) "accept ended although there was no descriptor"
    require (calls < 200) ("accept spins: " ++ show calls ++ " system calls within a second")
    require (tries >= 3) ("accept has stopped: " ++ show tries ++ " attempts within a second")
    release
    connections <- within 2 "accepting again" (finish acceptor)
    forM_ clients $ \client -> receiveExactly client 0 10
    -- And again, with waiting acceptors of which there are more than connections.
    mapM_ close (clients ++ connections)

-- A server begins while few files may be open. Later there may be more, so that its clients find room in this process.
serverWithFewDescriptors :: IO ()
serverWithFewDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  let setLimit most = setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit most}
  ready <- newEmptyMVar
  full <- newEmptyMVar
  served <- newIORef (0 :: Int)
  setLimit 100
  let server = defaultServer {serverReady = putMVar ready, serverFull = putMVar full ()}
      serve connection = atomicModifyIORef' served (\count -> (count + 1, ())) >> void (recv connection 1)
  withRunningServer server (passive "0") {queryHost = Just "127.0.0.1"} serve $ do
    addresses <- takeMVar ready
    setLimit 1000
    forM_ addresses $ \address -> do
      clients <- clientsOf address 85
      forM_ clients (`connect` address)
      within 10 "word that it is full" (takeMVar full)
      threadDelay 100000
      count <- readIORef served
      require (count == 84) ("of 100 descriptors it left 16 to others, but served " ++ show count)
      mapM_ close clients

giveUpWithoutDescriptors :: IO ()
giveUpWithoutDescriptors = withListener $ \listener address -> do
  clients <- clientsOf address 2
  withoutDescriptors $ \release -> do
    forM_ clients $ \client -> connect client address
    deadline <- deadlineAfter (milliseconds 300)
    problem <- failsWith (void (acceptBefore deadline listener))
    require (isDeadlineError problem) ("not a deadline error: " ++ show problem)
    victim <- start (accept listener)
    threadDelay 100000
    stop victim
    closed <- start (accept listener)
    threadDelay 100000
    release
    connections <- within 2 "accepting again" ((:) <$> finish closed <*> ((: []) <$> accept listener))
    require (length connections == 2) "a connection was lost"

foreign import ccall safe "unistd.h usleep"
  c_usleep :: CUInt -> IO CInt

-- More calls at a time than the run-time system keeps threads for: those that are too many end.
threadsEndWithoutDescriptors :: IO ()
threadsEndWithoutDescriptors = do
  _ <- loopCount
  withoutDescriptors $ \_ -> do
    calls <- forM [1 .. 40 :: Int] $ \_ -> start (c_usleep 100000)
    mapM_ finish calls
    threadDelay 100000

-- A thread on a capability without a loop cannot wait for a deadline if no loop can be made. What its
-- action has made is released.
timersWithoutDescriptors :: IO ()
timersWithoutDescriptors = do
  capability <- loopCount
  setNumCapabilities (capability + 1)
  later <- deadlineAfter (minutes 1)
  held <- newIORef (0 :: Int)
  made <- newEmptyMVar
  let make = atomicModifyIORef' held (\n -> (n + 1, ())) >> putMVar made ()
      release () = atomicModifyIORef' held (\n -> (n - 1, ()))
      fails job = within 5 "the failure" (outcomeOf job) >>= either isRefusal (const didNotFail)
      didNotFail = ioError (userError "it did not fail")
      isRefusal problem = require (maybe False (hasCode eMFILE) (fromException problem)) (show problem)
  withoutDescriptors $ \_ -> startOn capability (Timer.finishBeforeOr later release make) >>= fails
  within 5 "what was made" (takeMVar made)
  readIORef held `shouldBecome` 0

-- Their exit codes are lost, and nothing else.
childrenOfOthers :: IO ()
childrenOfOthers = withTemporaryDirectory "." "children" $ \root -> do
  replicateM_ 20 $ do
    Process.withProcess (Process.command "sh" ["-c", "echo x > " ++ root ++ "/ran"]) $ \process -> do
      outcome <- try (within 5 "the end" (Process.waitProcess process))
      case outcome of
        Right exit -> require (exit == Process.Exited 0) (show exit)
        Left problem -> require (hasCode eCHILD problem && "SIGCHLD" `isInfixOf` show problem) (show problem)
      Process.signalProcess Terminate process
      Process.signalGroup Terminate process
    ran <- exists (root ++ "/ran")
    require ran "the program did not run"
    removeFile (root ++ "/ran")
  Process.withProcess (Process.command "sleep" ["60"]) $ \process ->
    ignoringErrors (within 5 "the end that was asked for" (void (Process.terminateProcess (seconds 4) process)))

reapAny :: IO ()
reapAny = ignoringErrors (void (getAnyProcessStatus False False)) >> threadDelay 100

-- The system takes no byte, and says so without an error.
writesOfNothing :: IO ()
writesOfNothing = withTemporaryDirectory "." "nothing" $ \root -> do
  let inFile name = withFile (root ++ name) ForWriting
      fails what action = do
        outcome <- try (within 5 what action)
        require (either (hasCode eIO) (const False) outcome) (what ++ ": " ++ show (outcome :: Either IOError ()))
  fails "writeAt" (inFile "/one" (\file -> writeAt file 0 (bytesAt 0 10)))
  fails "writeVectorAt" (inFile "/two" (\file -> writeVectorAt file 0 [bytesAt 0 10, bytesAt 10 10]))

ignoringErrors :: IO () -> IO ()
ignoringErrors action = action `catch` ignore
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- From 1,048,576 on there are numbers only where the system was told so (fs.nr_open). In a simulation they mean its
-- machine's.
highDescriptors :: IO ()
highDescriptors = do
  raised <- try (setResourceLimit ResourceOpenFiles (ResourceLimits limit limit))
  case raised of
    Left problem -> hPutStrLn stderr ("not tested, for there are no such numbers: " ++ show (problem :: IOError))
    Right () -> withUnixPair $ \one other -> do
      high <- withFdSocket one (\number -> dupTo (fromIntegral number) 1048600)
      bracket (fromDescriptor (fromIntegral high)) close $ \s -> do
        void (sendStream s 0 10 >> receiveExactly other 0 10)
        void (sendStream other 10 10 >> receiveExactly s 10 10)
        kind <- getSocketType s
        require (kind == Stream) (show kind)
      gone <- try (closeFd high)
      require (either (hasCode eBADF) (const False) gone) "it was not closed"
  where
    limit = ResourceLimit 1100000

-- It can be tried again when there are some.
beginWithoutDescriptors :: IO ()
beginWithoutDescriptors = withoutDescriptors $ \release -> do
  problem <- failsWith (void loopCount)
  require (hasCode eMFILE problem) (show problem)
  release
  withUnixPair $ \one other -> sendStream one 0 10 >> void (receiveExactly other 0 10)

socketWithoutDescriptors :: IO ()
socketWithoutDescriptors = do
  _ <- loopCount
  withoutDescriptors $ \_ -> do
    problem <- failsWith (void (socket AF_INET Stream defaultProtocol))
    require (hasCode eMFILE problem) (show problem)
    pairProblem <- failsWith (void unixPair)
    require (hasCode eMFILE pairProblem) (show pairProblem)

-- A capability is added, and there are no descriptors for its loop.
sendThenReceiveWithoutLoop :: IO ()
sendThenReceiveWithoutLoop = withUnixPair $ \one _ -> do
  before <- residentKilobytes
  withoutDescriptors $ \release -> do
    setNumCapabilities 3
    startOn 2 (replicateM_ 5000 (sendOne one)) >>= finish
    release
  after <- residentKilobytes
  require (after - before < 40000) ("buffers are lost: " ++ show (after - before) ++ " kB")
  where
    sendOne s = do
      buffer <- borrow
      fillBytes (borrowedBytes buffer) 1 borrowedSize
      problem <- failsWith (sendThenReceiveWithin unlimited s (Slice buffer 0 1) (const (return ())))
      require (hasCode eMFILE problem) (show problem)

-- With the system's own disposition SIGPIPE would kill this process.
brokenPipe :: IO ()
brokenPipe = do
  void (installHandler sigPIPE Default Nothing)
  forM_ [send', sendAll', sendMany'] $ \sendTo ->
    forM_ [tcpPair, unixPair] $ \create ->
      bracket create (close . fst) $ \(one, other) -> do
        close other
        outcome <- try (replicateM_ 5 (sendTo one >> threadDelay 20000))
        case outcome of
          Right () -> ioError (userError "sending to nobody does not fail")
          Left problem -> require (hasCode ePIPE problem || hasCode eCONNRESET problem) (show problem)
  where
    send' s = void (send s (bytesAt 0 100))
    sendAll' s = sendAll s (bytesAt 0 300000)
    sendMany' s = sendMany s (replicate 20 (bytesAt 0 100))

selectBeforeStart :: IO ()
selectBeforeStart = do
  selectBackend (Just IoUring)
  selectBackend (Just Epoll)
  chosen <- chosenBackend
  require (chosen == Epoll) ("selected epoll, got " ++ show chosen)
  selectBackend (Just Epoll)
  selectBackend Nothing
  problem <- failsWith (selectBackend (Just IoUring))
  require (problem == AlreadyStarted Epoll) (show problem)
  require ("epoll" `isInfixOf` displayException problem) (displayException problem)

-- Nothing has been started before.
chooseWithinSimulation :: IO ()
chooseWithinSimulation = do
  outcome <-
    simulate (calm 1) (chosenBackend <* withUnixPair (\one other -> sendStream one 0 10 >> receiveExactly other 0 10))
  inside <- either throwIO return (outcomeResult outcome)
  chosenBackend >>= \outside -> require (inside == outside) ("it was " ++ show inside ++ ", and is " ++ show outside)
  withUnixPair $ \one other -> sendStream one 0 10 >> void (receiveExactly other 0 10)

unknownBackend :: IO ()
unknownBackend = do
  problem <- failsWith (void loopCount)
  case problem of
    BackendUnavailable _ _ -> return ()
    other -> throwIO other
  require (all (`isInfixOf` show problem) ["MILLRACE_BACKEND=nonsense", "epoll", "auto"]) (show problem)
  again <- failsWith (void (socket AF_INET Stream defaultProtocol))
  require (again == problem) (show again)

-- The exception is reported as that of any thread, and what comes later still comes.
throwingCallback :: IO ()
throwingCallback = do
  manager <- getSystemTimerManager
  void (registerTimeout manager 1000 (ioError (userError "thrown by a callback")))
  threadDelay 50000
  (one, other) <- unixPair
  void (registerTimeout manager 1000 (sendAll one (ByteString.replicate 3 1)))
  bytes <- recv other 3
  require (ByteString.length bytes == 3) "nothing came"

-- The first connection gets a cookie; the kernel counts the others whose first packet had bytes, on both sides.
fastOpen :: IO ()
fastOpen = withListener $ \listener address -> do
  setFastOpen listener 10
  replicateM_ 5 $
    bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
      connectSending client address (bytesAt 0 5000)
      bracket (fst <$> accept listener) close $ \server -> do
        void (receiveExactly server 0 5000)
        sendAll server (bytesAt 0 10)
        void (receiveExactly client 0 10)
  known <- pairs . map words . lines <$> readFile "/proc/net/netstat"
  let count name = sum [read value | (names, values) <- known, (here, value) <- zip names values, here == name] :: Int
  require
    (count "TCPFastOpenActive" >= 4)
    ("of five connections only so many began with bytes: " ++ show (count "TCPFastOpenActive"))
  require (count "TCPFastOpenPassive" >= 4) ("so many were accepted with bytes: " ++ show (count "TCPFastOpenPassive"))
  where
    pairs (names : values : others) = (names, values) : pairs others
    pairs _ = []

-- Each fsync takes three seconds here.
stoppedDisk :: IO ()
stoppedDisk = withTemporaryFile "." "stopped" $ \_ file -> do
  writeAt file 0 (bytesAt 0 1000)
  begin <- monotonicNanoseconds
  soon <- deadlineAfter (milliseconds 50)
  outcome <- failsWith (syncBefore soon file)
  end <- monotonicNanoseconds
  require (isDeadlineError outcome) ("not its deadline: " ++ show outcome)
  require (end - begin < 2000000000) "it has waited for the disk"
  readAt file 0 1000 >>= void . checkFrom 0

-- They replace the file that the environment names. What it contains is one byte, a number of times.
replaceForEver, replaceOnce :: IO ()
replaceForEver = getEnv "MILLRACE_TEST_PATH" >>= \path -> forever (mapM_ (replaceBy path) [65 .. 90])
replaceOnce = getEnv "MILLRACE_TEST_PATH" >>= (`replaceBy` 66)

replaceBy :: FilePath -> Word8 -> IO ()
replaceBy path byte =
  replaceFile path $ \file -> forM_ [0 .. 3] $ \i -> writeAt file (i * 50000) (ByteString.replicate 50000 byte)
