-- Must not know: servers, HTTP.

-- | The file with the number of the server's process, and a Unix socket beside it by which another process asks the
-- server to read its configuration again, and gets the outcome.
--
-- A signal could not be answered. The client sends a line. The server answers with a line that says the outcome,
-- followed by the reasons. Only the server's user, and root, may connect.
module Millrace.Cli.Serve.PidFile
  ( -- * While a server runs
    withPidFile,
    pidFileFailure,
    ReloadOutcome (..),

    -- * Asking a server
    askToReload,
    reloadSocketPath,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Exception
import Control.Monad (forM_, forever, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (isJust)
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With, encodeUtf8)
import Data.Text.Encoding.Error (lenientDecode)
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.System (FileIdentity, identityOf, processNumber, reserveForOwner)
import Millrace.Deadline (Deadline, deadlineAfter, microseconds)
import Millrace.Socket
import Millrace.Socket.ByteString (recvBefore, sendAllBefore)
import Millrace.Timer (threadDelay)
import System.Directory (removeFile, renameFile)
import System.IO (Handle, IOMode (WriteMode), hClose, hFlush, hPrint, openBinaryFile)

-- | The path of a server's socket, by the path of the file with its number.
reloadSocketPath :: FilePath -> FilePath
reloadSocketPath = (<> ".sock")

-- | The outcome of reading a configuration again.
data ReloadOutcome
  = Taken
  | -- | The server goes on with the old configuration, for this reason.
    Refused String
  deriving (Eq, Show)

-- | @withReloadSocket path reload action@ makes a socket beside a path. The action gets a function that moves the
-- socket to the path while it runs another action. Meanwhile it answers requests there: each has the canonical path of
-- a configuration file, with which it calls @reload@. It replaces the socket of another server, and the next server may
-- replace this one. Throws 'Failure' if the socket cannot be made.
withReloadSocket :: FilePath -> (ByteString -> IO ReloadOutcome) -> ((IO () -> IO ()) -> IO a) -> IO a
withReloadSocket path reload use = withOwnFile unmade path listening close answered
  where
    answered listener whileThere = use (bracket (forkIO (serving listener)) killThread . const . whileThere)
    listening beside =
      bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
        bind listener (SockAddrUnix beside)
        -- Before it listens nobody can connect.
        reserveForOwner beside
        listener <$ listen listener 16
    unmade failure =
      Failure
        { failureAttempt = "make the socket " <> path,
          failureReason = reasonOf (toException failure),
          failureRemedy =
            "'millrace reload' asks there. 'pid-file' has at most 90 bytes, and the server's user may write \
            \to its folder."
        }
    -- If there is no descriptor for a connection, it waits and tries again.
    serving listener = forever $
      mask $ \restore -> do
        accepted <- try (accept listener)
        case accepted of
          Left failure -> restore (pause failure)
          Right (client, _) -> void (forkIO (restore (answering client) `finally` close client))
    pause :: IOException -> IO ()
    pause _ = threadDelay 100000
    answering client = answer client reload `catch` ignore

answer :: Socket -> (ByteString -> IO ReloadOutcome) -> IO ()
answer client reload = do
  asked <-
    deadlineAfter (microseconds patienceMicros) >>= \deadline ->
      receiveWhile isBegun deadline client
  forM_ (ByteString.stripPrefix question asked >>= ByteString.stripSuffix (Char8.pack "\n")) $ \file -> do
    outcome <- reload file
    deadline <- deadlineAfter (microseconds patienceMicros)
    sendAllBefore deadline client (written outcome)
  where
    isBegun soFar = not (Char8.isSuffixOf (Char8.pack "\n") soFar) && ByteString.length soFar < questionBytesMax
    patienceMicros = 10000000
    questionBytesMax = 8192

question :: ByteString
question = Char8.pack "reload "

written :: ReloadOutcome -> ByteString
written outcome = case outcome of
  Taken -> taken
  Refused reason -> refused <> encodeUtf8 (Text.pack reason)

taken, refused :: ByteString
taken = Char8.pack "taken\n"
refused = Char8.pack "refused\n"

-- | @askToReload deadline path file@ asks the server that listens at a path to read a file, and waits for the outcome,
-- until the deadline. 'Nothing': the server has ended before it answered. Throws 'IOException' if there is no server,
-- and after the deadline.
askToReload :: Deadline -> FilePath -> ByteString -> IO (Maybe ReloadOutcome)
askToReload deadline path file = bracket (socket AF_UNIX Stream defaultProtocol) close $ \server -> do
  connectBefore deadline server (SockAddrUnix path)
  sendAllBefore deadline server (question <> file <> Char8.pack "\n")
  understood <$> receiveWhile (const True) deadline server
  where
    understood bytes
      | bytes == taken = Just Taken
      | otherwise = Refused . Text.unpack . decodeUtf8With lenientDecode <$> ByteString.stripPrefix refused bytes

-- Receives until the other side ends, or until the condition no longer holds for the bytes that have come.
receiveWhile :: (ByteString -> Bool) -> Deadline -> Socket -> IO ByteString
receiveWhile wants deadline from = go ByteString.empty
  where
    go soFar
      | wants soFar =
        recvBefore deadline from 4096 >>= \bytes -> if ByteString.null bytes then pure soFar else go (soFar <> bytes)
      | otherwise = pure soFar

ignore :: IOException -> IO ()
ignore _ = pure ()

------------------------------------------------------------------------------------------------------------------------
-- The pid file

-- | Makes the file and the socket, if there is a path. The action gets a function that moves them to their paths while
-- it runs another action: from then on this process answers there, and until then another one may. Throws 'FileFailure'
-- if they cannot be made.
withPidFile :: Maybe FilePath -> (ByteString -> IO ReloadOutcome) -> ((IO () -> IO ()) -> IO a) -> IO a
withPidFile Nothing _ use = use id
withPidFile (Just path) reload use =
  withReloadSocket (reloadSocketPath path) reload $ \whileAsked ->
    withOwnFile failed path numbered hClose (\_ whileThere -> use (whileAsked . whileThere))
  where
    numbered beside =
      bracketOnError (openBinaryFile beside WriteMode) hClose $ \file -> file <$ (number file >> hFlush file)
    number :: Handle -> IO ()
    number file = processNumber >>= hPrint file
    failed = pidFileFailure path . reasonOf . toException

-- | The file cannot be made, for a reason.
pidFileFailure :: FilePath -> String -> FileFailure
pidFileFailure path reason =
  FileFailure
    ["pid-file"]
    path
    Failure
      { failureAttempt = "write the pid file " <> path,
        failureReason = reason,
        failureRemedy = "'pid-file' names a file in a folder that the server's user may write to."
      }

------------------------------------------------------------------------------------------------------------------------
-- A file that each of several processes may put at one path: the latest one has it, and only the one whose file is
-- there removes it.
--
-- A process that cannot start must leave the file of a running one alone. So the file is made beside its path, and
-- moved there when nothing can fail any more. In the end the file at the path is removed only if it is still the same
-- one, by the numbers of its device and its inode: its name and its content, such as the number of a process, may be
-- those of the next process.

-- | @withOwnFile failure path make release use@: makes a file beside @path@, in the same folder, and runs an action.
-- The action gets the result of @make@, and a function that moves the file to @path@ while it runs another action. The
-- result of @make@ must keep the file in use, for example open: otherwise another file could get the number of its
-- inode. If making or moving throws an 'IOException', this throws @failure@ of that exception.
--
-- > withOwnFile id "/run/me.pid" (`openFile` WriteMode) hClose $ \file whileThere ->
-- >   hPutStrLn file "1" >> whileThere serve
withOwnFile ::
  Exception e =>
  (IOException -> e) ->
  FilePath ->
  (FilePath -> IO a) ->
  (a -> IO ()) ->
  (a -> (IO () -> IO ()) -> IO b) ->
  IO b
withOwnFile failure path make release use = do
  beside <- (\number -> path <> "." <> show number) <$> processNumber
  -- It may be left from a process that had the same number and was killed.
  removeQuietly beside
  bracket
    (explained (make beside) >>= \made -> (,) made <$> identityOf beside)
    (\(made, identity) -> removeOwn identity beside >> release made)
    $ \(made, identity) ->
      use made (bracket_ (explained (renameFile beside path)) (removeOwn identity path))
  where
    explained action = action `catch` (throwIO . failure)

removeOwn :: Maybe FileIdentity -> FilePath -> IO ()
removeOwn identity path = do
  found <- identityOf path
  when (isJust found && found == identity) (removeQuietly path)

-- It may not be there.
removeQuietly :: FilePath -> IO ()
removeQuietly path = removeFile path `catch` ignore
