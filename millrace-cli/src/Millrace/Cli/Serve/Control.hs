-- | How a process has a running server read its configuration again, and learns what came of it: by a Unix socket
-- beside the file with the number of the server's process. Must not know: servers, HTTP.
--
-- A signal could not be answered. The one who asks sends a line, and gets a line that says the outcome, and the reasons
-- behind it. Only the server's user, and root, may connect.
module Millrace.Cli.Serve.Control
  ( controlPath,
    withControl,
    Outcome (..),
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
import Millrace.Deadline (Deadline, deadlineAfter)
import Millrace.Socket
import Millrace.Socket.ByteString (recvBefore, sendAllBefore)
import Millrace.Timer (threadDelay)

-- | Where the socket of a server is, by the path of the file with its number.
controlPath :: FilePath -> FilePath
controlPath = (<> ".sock")

-- | What came of reading a configuration again.
data Outcome
  = Taken
  | -- | Nothing has changed, and why.
    Refused String
  deriving (Eq, Show)

-- | @withControl path reload action@ listens beside a path. Who asks says which file is to be read, by its canonical path, and @reload@ gets
-- that. The action gets a function that has the socket at the path while it runs another action, and
-- meanwhile does what is asked for there. It replaces the socket of another server, and the next server may replace
-- this one. Throws 'Failure' if the socket cannot be made.
withControl :: FilePath -> (ByteString -> IO Outcome) -> ((IO () -> IO ()) -> IO a) -> IO a
withControl path reload use = withOwnFile unmade path listening close answered
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
            "'millrace reload' asks there. 'pid-file' is a path of at most 90 bytes that the server's user may write to."
        }
    -- Without a descriptor for a connection, it waits.
    serving listener = forever $
      mask $ \restore -> do
        accepted <- try (accept listener)
        case accepted of
          Left failure -> restore (pause failure)
          Right (client, _) -> void (forkIO (restore (answering client) `finally` close client))
    pause :: IOException -> IO ()
    pause _ = threadDelay 100000
    answering client = answer client reload `catch` ignore

answer :: Socket -> (ByteString -> IO Outcome) -> IO ()
answer client reload = do
  asked <-
    deadlineAfter patienceMicros >>= \deadline ->
      receiveWhile (\soFar -> Char8.last (Char8.cons ' ' soFar) /= '\n' && ByteString.length soFar < questionBytesMax) deadline client
  forM_ (ByteString.stripPrefix question asked >>= ByteString.stripSuffix (Char8.pack "\n")) $ \file -> do
    outcome <- reload file
    deadline <- deadlineAfter patienceMicros
    sendAllBefore deadline client (written outcome)
  where
    patienceMicros = 10000000
    questionBytesMax = 8192

question :: ByteString
question = Char8.pack "reload "

written :: Outcome -> ByteString
written outcome = case outcome of
  Taken -> taken
  Refused reason -> refused <> encodeUtf8 (Text.pack reason)

taken, refused :: ByteString
taken = Char8.pack "taken\n"
refused = Char8.pack "refused\n"

-- | @askToReload deadline path file@ asks the server that listens at a path to read a file, and waits for the outcome, until the deadline. 'Nothing': the server has
-- ended before it said one. Throws 'IOException' if there is no server, and after the deadline.
askToReload :: Deadline -> FilePath -> ByteString -> IO (Maybe Outcome)
askToReload deadline path file = bracket (socket AF_UNIX Stream defaultProtocol) close $ \server -> do
  connectBefore deadline server (SockAddrUnix path)
  sendAllBefore deadline server (question <> file <> Char8.pack "\n")
  understood <$> receiveWhile (const True) deadline server
  where
    understood bytes
      | bytes == taken = Just Taken
      | otherwise = Refused . Text.unpack . decodeUtf8With lenientDecode <$> ByteString.stripPrefix refused bytes

-- All that comes, as long as the condition holds of what has come, and the other side sends more.
receiveWhile :: (ByteString -> Bool) -> Deadline -> Socket -> IO ByteString
receiveWhile wants deadline from = go ByteString.empty
  where
    go soFar
      | wants soFar =
        recvBefore deadline from 4096 >>= \bytes -> if ByteString.null bytes then pure soFar else go (soFar <> bytes)
      | otherwise = pure soFar

ignore :: IOException -> IO ()
ignore _ = pure ()
