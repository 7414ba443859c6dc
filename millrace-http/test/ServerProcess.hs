-- | Runs servers in separate processes, by starting this program again. So the tests do not affect their limits,
-- their memory and their processor time.
module ServerProcess
  ( ServerProcess (..),
    withServerProcess,
    roleOfThisProcess,

    -- * What the system says about it (Linux)
    ProcessorTime (..),
    processorTime,
    residentBytes,
    peakBytes,
    forgetPeak,
  )
where

import Control.Exception (IOException, bracket, finally, try)
import Control.Monad (forM)
import qualified Data.ByteString.Char8 as C8
import Network.Socket (withFdSocket)
import Network.Wai.Handler.Millrace (openFreePort)
import Support (close)
import System.Directory (listDirectory)
import System.Environment (getExecutablePath, lookupEnv)
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Posix.Types (Fd (..))
import System.Process

data ServerProcess = ServerProcess
  { serverPort :: !Int,
    serverPid :: !Pid
  }

-- | The server that this process is to run; Nothing for the tests.
roleOfThisProcess :: IO (Maybe String)
roleOfThisProcess = lookupEnv variable

variable :: String
variable = "MILLRACE_HTTP_TEST_SERVER"

-- | A server with a limit on descriptors. It has inherited its listening socket, so clients need not wait for it.
withServerProcess :: String -> Int -> (ServerProcess -> IO a) -> IO a
withServerProcess role descriptors use =
  bracket openFreePort (close . snd) $ \(port, listener) -> withFdSocket listener $ \descriptor -> do
    setFdOption (Fd descriptor) CloseOnExec False
    program <- getExecutablePath
    let arguments = ["-c", script, show descriptor, show descriptors, program, variable, role]
    withCreateProcess (proc "python3" arguments) $ \_ _ _ process -> do
      pid <- getPid process >>= maybe (fail "the server has ended") return
      use (ServerProcess port pid) `finally` terminateProcess process
  where
    script =
      unlines
        [ "import os, resource, sys",
          "os.dup2(int(sys.argv[1]), 3)",
          "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))",
          "os.environ.update({'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid()), sys.argv[4]: sys.argv[5]})",
          "os.execv(sys.argv[3], [sys.argv[3], '+RTS', '-T', '-RTS'])"
        ]

-- | What the system's scheduler says of a process, in seconds.
data ProcessorTime = ProcessorTime
  { secondsUsed :: !Double,
    -- | For how long its threads waited for a processor, because others used all of them.
    secondsWaited :: !Double
  }

-- | The processor time of all its threads, including the kernel's part, exact to the nanosecond: @stat@ counts
-- hundredths of a second. The time of threads that have ended does not count; the run-time system keeps its own.
processorTime :: ServerProcess -> IO ProcessorTime
processorTime server = do
  threads <- listDirectory (path server "task")
  times <- forM threads $ \thread ->
    either nothing numbers <$> try (readProc server ("task/" ++ thread ++ "/schedstat"))
  return (ProcessorTime (seconds [used | used : _ <- times]) (seconds [waited | _ : waited : _ <- times]))
  where
    seconds nanoseconds = fromIntegral (sum nanoseconds) / 1e9
    numbers line = [maybe 0 fst (C8.readInteger word) | word <- C8.words line]
    nothing :: IOException -> [Integer]
    nothing _ = []

residentBytes, peakBytes :: ServerProcess -> IO Int
residentBytes = statusBytes "VmRSS:"
peakBytes = statusBytes "VmHWM:"

-- | Resets 'peakBytes'.
forgetPeak :: ServerProcess -> IO ()
forgetPeak server = C8.writeFile (path server "clear_refs") (C8.pack "5")

statusBytes :: String -> ServerProcess -> IO Int
statusBytes name server = do
  rows <- map C8.words . C8.lines <$> readProc server "status"
  return (sum (take 1 [1024 * number amount | key : amount : _ <- rows, key == C8.pack name]))

readProc :: ServerProcess -> String -> IO C8.ByteString
readProc server = C8.readFile . path server

path :: ServerProcess -> String -> FilePath
path server name = "/proc/" ++ show (serverPid server) ++ "/" ++ name

number :: C8.ByteString -> Int
number = maybe 0 fst . C8.readInt
