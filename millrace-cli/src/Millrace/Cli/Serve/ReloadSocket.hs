-- Must not know: servers, HTTP.

-- | A Unix socket by which another process asks the server to read its configuration again, and gets the outcome. The
-- socket is beside the file with the number of the server's process.
--
-- A signal could not be answered. The client sends a line. The server answers with a line that says the outcome,
-- followed by the reasons. Only the server's user, and root, may connect.
module Millrace.Cli.Serve.ReloadSocket
  ( reloadSocketPath,
    withReloadSocket,
    ReloadOutcome (..),
    askToReload,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (IOException, bracket, bracketOnError, catch, finally, mask, toException, try)
import Control.Monad (forM_, forever, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.Text as Text
import Data.Text.Encoding (decodeUtf8With, encodeUtf8)
import Data.Text.Encoding.Error (lenientDecode)
import Millrace.Cli.Base.Failure (Failure (..), reasonOf)
import Millrace.Cli.Base.System (reserveForOwner)
import Millrace.Cli.Serve.OwnFile
import Millrace.Deadline (Deadline, deadlineAfter, microseconds)
import Millrace.Socket
import Millrace.Socket.ByteString (recvBefore, sendAllBefore)
import Millrace.Timer (threadDelay)

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
