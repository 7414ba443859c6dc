-- | The @millrace@ executable from outside: started, spoken to, stopped.
module Program
  ( Server (..),
    Outcome (..),
    withServer,
    withCommand,
    runMillrace,
    millracePath,
    asNobody,
    nobodys,
    serverPort,
    nextLine,
    nextErrorLine,
    signalServer,
    signalChild,
    waitForExit,
    curl,
    hasHttp3,
    curlHasHttp3,
    python3,
    within,
    eventually,
  )
where

import Control.Exception (bracket)
import Control.Monad (void, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, stripPrefix)
import Data.Maybe (fromMaybe)
import System.Directory (copyFile, findExecutable)
import System.Environment (getEnvironment)
import System.Exit (ExitCode)
import System.FilePath ((</>))
import System.IO (Handle, hClose, hGetLine)
import System.Posix.Files (setFileMode)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (Signal, sigKILL, signalProcess)
import System.Posix.User (getRealUserID)
import System.Process
import TestSupport.Time (eventually, within)

-- | A server that is listening.
data Server = Server
  { serverUrl :: String,
    serverBackendLine :: String,
    serverProcess :: ProcessHandle,
    serverOutput :: Handle,
    serverErrors :: Handle
  }

-- | How a program ended.
data Outcome = Outcome
  { outcomeExit :: ExitCode,
    outcomeOutput :: String,
    outcomeErrors :: String
  }
  deriving (Eq, Show)

millracePath :: IO FilePath
millracePath = fromMaybe (error "millrace is not on the PATH of the tests") <$> findExecutable "millrace"

-- | Root may read everything, so the server then runs as another user, from a folder where that user finds it.
asNobody :: FilePath -> [String] -> (Server -> IO a) -> IO a
asNobody site arguments use = do
  (program, first) <- nobodys site
  withCommand program (first ++ arguments) use

-- | The program that runs @millrace@ as an ordinary user, and what is to be put before its arguments. It may be in this
-- directory. The user is one of this process alone: the kernel counts locked memory by user, and other test suites may
-- run at the same time.
nobodys :: FilePath -> IO (FilePath, [String])
nobodys directory = do
  user <- getRealUserID
  path <- millracePath
  if user == 0
    then do
      copyFile path (directory </> "millrace")
      setFileMode (directory </> "millrace") 0o755
      process <- getProcessID
      pure
        ( "setpriv",
          [ "--reuid="
              <> show (20000 + process `mod` 40000),
            "--regid=65534",
            "--clear-groups",
            directory </> "millrace"
          ]
        )
    else pure (path, [])

-- | Starts @millrace@ with these arguments, waits for its readiness lines, and kills it afterwards if it still runs.
withServer :: [String] -> (Server -> IO a) -> IO a
withServer arguments use = do
  path <- millracePath
  withCommand path arguments use

-- | 'withServer' with another executable, which must talk as @millrace@ does.
withCommand :: FilePath -> [String] -> (Server -> IO a) -> IO a
withCommand path arguments use = bracket start kill ready
  where
    start = createProcess (proc path arguments) {std_in = NoStream, std_out = CreatePipe, std_err = CreatePipe}
    ready (_, Just output, Just errors, process) = do
      first <- line output
      second <- line output
      case stripPrefix "listening on " first of
        Just url -> use (Server url second process output errors)
        Nothing -> fail ("unexpected first line: " <> first)
    ready _ = fail "no pipes"
    kill (_, output, errors, process) = do
      getPid process >>= mapM_ (signalProcess sigKILL)
      void (waitForProcess process)
      mapM_ hClose output
      mapM_ hClose errors

-- | The port in its URL.
serverPort :: Server -> Int
serverPort = read . reverse . takeWhile (/= ':') . reverse . serverUrl

line :: Handle -> IO String
line = within 60 "a line of output" . hGetLine

-- | What the server says after its readiness lines.
nextLine :: Server -> IO String
nextLine = line . serverOutput

-- | What it says on standard error.
nextErrorLine :: Server -> IO String
nextErrorLine = line . serverErrors

signalServer :: Signal -> Server -> IO ()
signalServer signal server = getPid (serverProcess server) >>= mapM_ (signalProcess signal)

-- | Sends a signal to the processes that the server's process has started.
signalChild :: Signal -> Server -> IO ()
signalChild signal server = getPid (serverProcess server) >>= mapM_ (children >=> mapM_ (signalProcess signal))
  where
    children parent = map read . words <$> readFile ("/proc/" <> show parent <> "/task/" <> show parent <> "/children")

-- | Waits for at most this many seconds.
waitForExit :: Int -> Server -> IO ExitCode
waitForExit seconds = within seconds "the server to end" . waitForProcess . serverProcess

-- | Runs @millrace@ to its end, with these additions to the environment.
runMillrace :: [(String, String)] -> [String] -> IO Outcome
runMillrace additions arguments = do
  path <- millracePath
  environment <- getEnvironment
  let changed = additions ++ filter ((`notElem` map fst additions) . fst) environment
  (code, output, errors) <-
    within 60 "millrace to end" (readCreateProcessWithExitCode (proc path arguments) {env = Just changed} "")
  pure (Outcome code output errors)

-- | What curl prints, without dot segments being resolved by it. For head and body in one, give @-i@.
curl :: [String] -> IO String
curl arguments = within 30 "curl" (readProcess "curl" (curlOptions ++ arguments) "")

-- | Whether @millrace@ is built with HTTP\/3.
hasHttp3 :: IO Bool
hasHttp3 = not . isInfixOf "\"http3\": null" . outcomeOutput <$> runMillrace [] ["doctor", "--json"]

curlHasHttp3 :: IO Bool
curlHasHttp3 = isInfixOf "HTTP3" <$> curl ["--version"]

-- | What a program in Python, given as its lines, prints about these bytes.
python3 :: [String] -> ByteString -> IO String
python3 program input =
  withCreateProcess (proc "python3" ["-c", unlines program]) {std_in = CreatePipe, std_out = CreatePipe} $
    \toProgram fromProgram _ _ ->
      case (toProgram, fromProgram) of
        (Just to, Just from) -> ByteString.hPut to input >> hClose to >> Char8.unpack <$> ByteString.hGetContents from
        _ -> fail "no pipes"

curlOptions :: [String]
curlOptions = ["--silent", "--show-error", "--path-as-is", "--max-time", "50", "--noproxy", "*"]
