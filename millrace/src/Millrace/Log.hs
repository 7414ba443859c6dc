-- Must not know: sockets, servers.

-- | Log files. A thread writes the lines, once a second or when there are many. So a thread that logs makes no system
-- call, and does not wait for a slow disk or for a program that reads the log. Lines that come faster than they can be
-- written are dropped and counted; with 'WaitForSpace', the threads that log them wait.
--
-- > main = withLog (logTo "app.log") {logRotation = Rotation 10000000 5} $ \output -> do
-- >   logLine output "begins"
--
-- To be rotated by another program, such as logrotate, a log needs no signal: its file is opened again for each write,
-- so it is enough to rename it.
--
-- >>> import qualified Data.ByteString.Char8 as Char8
-- >>> withLog (logTo "example.log") (\output -> mapM_ (logLine output . Char8.pack) ["one", "two"])
-- >>> readFile "example.log"
-- "one\ntwo\n"
--
-- The output of another program, of which no line may be lost. While the disk is slower than the program, the program
-- waits: its output waits in the pipe.
--
-- >>> import Control.Monad (forM_)
-- >>> import Millrace.Pipe (readPipe)
-- >>> import Millrace.Process
-- >>> import Millrace.Stream (linesOf)
-- >>> let logAll output next = next >>= mapM_ (\line -> logLine output line >> logAll output next)
-- >>> :{
-- withLog (logTo "program.log") {logWhenFull = WaitForSpace} $ \output ->
--   withProcess (command "seq" ["400000"]) {commandOutput = NewPipe} $ \process -> do
--     forM_ (processOutput process) $ \out -> linesOf 1000 (readPipe out 65536) >>= logAll output
--     waitProcess process
-- :}
-- Exited 0
-- >>> last . lines <$> readFile "program.log"
-- "400000"
module Millrace.Log
  ( Log,
    withLog,
    checkLog,
    logLine,
    logBytes,
    endLog,

    -- * Where to, and what if that fails
    LogSettings (..),
    logTo,
    LogTarget (..),
    Rotation (..),
    WhenFull (..),
    LogProblem (..),
    describeLogProblem,
  )
where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread)
import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar)
import Control.Exception (IOException, bracket, catch, finally, mask_, onException, throwIO, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Either (isLeft)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (isNothing)
import GHC.IO.Exception (IOException (..))
import Millrace.Internal.StandardStream (printLine)
import Millrace.Timer (threadDelay, timeout)
import System.Directory (renameFile)
import System.IO
  ( IOMode (AppendMode, ReadMode),
    SeekMode (AbsoluteSeek),
    hFileSize,
    hSeek,
    withBinaryFile,
  )
import System.IO.Error (isAlreadyInUseError)

-- | How a log is written.
data LogSettings = LogSettings
  { logTarget :: !LogTarget,
    logRotation :: !Rotation,
    logWhenFull :: !WhenFull,
    -- | Runs when lines were lost, in the thread that writes: at most once a second, and at the end.
    logProblem :: LogProblem -> IO ()
  }

-- | Where lines go.
data LogTarget
  = -- | They are appended to the file at this path.
    LogFile !FilePath
  | -- | The action gets some whole lines at a time. It may wait, and throws an @IOError@ if it fails.
    LogAction (ByteString -> IO ())

-- | Whether a log renames its file when that is large.
data Rotation
  = -- | It never does.
    NoRotation
  | -- | @Rotation bytes kept@: a write that would make the file larger than this goes to a new file. The old one is
    -- renamed to @log.1@, the one before to @log.2@, and so on. This many old ones are kept, at least one. A write is
    -- not divided, so a file may be larger by what comes within a second.
    Rotation !Int64 !Int
  deriving (Eq, Show)

-- | What happens to a line while 4 MiB of others have not been written.
data WhenFull
  = -- | It is dropped, and counted: 'Dropped'. Logging never waits.
    DropLines
  | -- | The thread that logs it waits until it is being written (back-pressure). No line is lost because it came too
    -- fast.
    --
    -- * If the thread is interrupted while it waits, the line is left out, unless the writing of it has just begun.
    -- * If the target cannot be written to, lines are lost as 'NotWritten' says, and nobody waits for it to recover: a
    --   thread waits for a second at most, until the next attempt.
    -- * If the target takes no more, a thread waits until the log ends. Lines that wait then are its last lines.
    --
    -- The actions of the log's target and 'logProblem' must not log to the same log: they would wait for themselves.
    WaitForSpace
  deriving (Eq, Show)

-- | Why lines are missing.
data LogProblem
  = -- | The target could not be written to. Of these lines the first ones may be there.
    NotWritten !Int !IOException
  | -- | This many lines came faster than they could be written.
    Dropped !Int
  | -- | At the end the target did not take the last lines in time.
    EndedUnwritten
  deriving (Eq, Show)

-- | A log at a path, without rotation, that drops lines when it is full, and prints its problems on standard error.
logTo :: FilePath -> LogSettings
logTo path = LogSettings (LogFile path) NoRotation DropLines (printLine . describeLogProblem ("the log " ++ path))

-- | What to tell people about a problem of the log with this name.
--
-- >>> describeLogProblem "the log app.log" (Dropped 2)
-- "2 lines of the log app.log dropped: they came faster than they could be written"
describeLogProblem :: String -> LogProblem -> String
describeLogProblem name problem = case problem of
  NotWritten count reason ->
    "cannot write " ++ name ++ ": " ++ ioe_description reason ++ "; " ++ upTo count ++ counted count ++ " lost"
  Dropped count ->
    counted count ++ " of " ++ name ++ " dropped: they came faster than they could be written"
  EndedUnwritten -> name ++ " takes no more: its last lines are lost"
  where
    counted count = show count ++ (if count == 1 then " line" else " lines")
    -- A full disk may have taken the first lines.
    upTo count = if count == 1 then "" else "up to "

-- | An open log.
data Log = Log
  { logSettings :: LogSettings,
    logPending :: !(IORef Pending),
    -- | Whether the last write failed.
    logFailed :: !(IORef Bool),
    -- | Full when the writer must not wait for the end of the second.
    logWake :: !(MVar ()),
    logEnding :: !(IORef Bool),
    logEnded :: !(MVar ())
  }

data Pending
  = -- The bytes of the lines that are not written yet, these lines, how many lines were dropped, and the lines for
    -- which there is no space. In both lists the latest line is the first.
    Pending !Int [ByteString] !Int [Waiting]
  | -- Nothing will be written any more.
    Ended

-- A line whose thread waits until it is written, and what wakes the thread.
data Waiting = Waiting !(MVar ()) !ByteString

nothing :: Pending
nothing = Pending 0 [] 0 []

-- | A log while the action runs. Throws an @IOError@ at the beginning if the target cannot be written to. Afterwards
-- its last lines are written, as 'endLog' says.
withLog :: LogSettings -> (Log -> IO a) -> IO a
withLog settings use = do
  output <-
    Log settings <$> newIORef nothing <*> newIORef False <*> newEmptyMVar <*> newIORef False <*> newEmptyMVar
  checkLog settings
  bracket (startWriting output) (stopWriting output) (const (use output))
  where
    startWriting output =
      forkIOWithUnmask $ \unmask ->
        unmask (keepWriting output) `finally` (takePending output Ended >> putMVar (logEnded output) ())
    -- A writer that blocks may take long to notice that it is killed. Do not wait for it.
    stopWriting output writer = endLog output >> void (forkIO (killThread writer))

-- | Throws an @IOError@ if the target of a log cannot be written to.
checkLog :: LogSettings -> IO ()
checkLog settings = write settings []

-- | Writes the last lines and ends the log. Takes two seconds at most: if the lines are not written by then, that is
-- 'EndedUnwritten'. May be called by any thread, and more than once. Lines that come later are lost, and no thread
-- waits for them.
endLog :: Log -> IO ()
endLog output = do
  writeIORef (logEnding output) True
  wake output
  ended <- timeout lastMicros (readMVar (logEnded output))
  when (isNothing ended) $ do
    _ <- takePending output Ended
    logProblem (logSettings output) EndedUnwritten

lastMicros :: Int
lastMicros = 2000000

-- | Adds a line; its end is added to it. If lines come faster than they can be written, those beyond 4 MiB are dropped,
-- and it does not wait; with 'WaitForSpace' it waits. Of a text with several lines each is counted.
logLine :: Log -> ByteString -> IO ()
logLine output text = logBytes output (Char8.snoc text '\n')

-- | 'logLine' with a line that has its end already.
logBytes :: Log -> ByteString -> IO ()
logBytes output line = do
  outcome <- atomicModifyIORef' (logPending output) adding
  case outcome of
    Added bytes -> when (bytes >= batchBytes) (wake output)
    Full -> case whenFull of
      DropLines -> wake output
      WaitForSpace -> awaitWriting output line
    Late -> return ()
  where
    whenFull = logWhenFull (logSettings output)
    adding (Pending bytes others dropped waiting)
      | bytes < pendingMax =
        let total = bytes + ByteString.length line in (Pending total (line : others) dropped waiting, Added total)
      | otherwise = (Pending bytes others (if whenFull == DropLines then dropped + 1 else dropped) waiting, Full)
    adding Ended = (Ended, Late)

-- What became of a line: it was added, and so many bytes are pending; there was no space; the log has ended.
data Outcome = Added !Int | Full | Late

-- Waits until a line, for which there is no space, has left the pending ones.
awaitWriting :: Log -> ByteString -> IO ()
awaitWriting output line = do
  taken <- newEmptyMVar
  mask_ $ do
    isWaiting <- atomicModifyIORef' (logPending output) (enqueued taken)
    when isWaiting $ do
      wake output
      takeMVar taken `onException` atomicModifyIORef' (logPending output) (withdrawn taken)
  where
    enqueued taken (Pending bytes others dropped waiting) =
      (Pending bytes others dropped (Waiting taken line : waiting), True)
    enqueued _ Ended = (Ended, False)
    withdrawn taken (Pending bytes others dropped waiting) =
      (Pending bytes others dropped (filter (\(Waiting other _) -> other /= taken) waiting), ())
    withdrawn _ Ended = (Ended, ())

-- With this many bytes pending, lines are written before the second is over. Beyond the maximum there is no space for
-- further lines.
batchBytes, pendingMax :: Int
batchBytes = 65536
pendingMax = 4194304

wake :: Log -> IO ()
wake output = void (tryPutMVar (logWake output) ())

keepWriting :: Log -> IO ()
keepWriting output = do
  failed <- readIORef (logFailed output)
  _ <- timeout pauseMicros (if failed then awaitEnding else takeMVar (logWake output))
  ending <- readIORef (logEnding output)
  takePending output (if ending then Ended else nothing) >>= uncurry (writePending output)
  unless ending (keepWriting output)
  where
    -- On a full disk every write fails, and each failure causes a message: so at most one write in a second.
    awaitEnding = do
      takeMVar (logWake output)
      ending <- readIORef (logEnding output)
      unless ending awaitEnding

pauseMicros :: Int
pauseMicros = 1000000

-- Takes the lines that are not written yet, in their order, and how many were dropped, and wakes the threads that wait.
takePending :: Log -> Pending -> IO ([ByteString], Int)
takePending output after = do
  before <- atomicModifyIORef' (logPending output) change
  case before of
    Ended -> return ([], 0)
    Pending _ pending dropped waiting -> do
      forM_ waiting (\(Waiting taken _) -> tryPutMVar taken ())
      return (reverse pending ++ [line | Waiting _ line <- reverse waiting], dropped)
  where
    change before = (case before of Ended -> Ended; Pending {} -> after, before)

writePending :: Log -> [ByteString] -> Int -> IO ()
writePending output pending dropped =
  unless (null pending) $ do
    failed <- readIORef (logFailed output)
    repaired <- if failed then repair (logTarget settings) else return []
    outcome <- try (write settings (repaired ++ pending))
    writeIORef (logFailed output) (isLeft outcome)
    either (logProblem settings . NotWritten (length pending + dropped)) (const (tellDropped dropped)) outcome
  where
    settings = logSettings output
    tellDropped count = when (count > 0) (logProblem settings (Dropped count))

write :: LogSettings -> [ByteString] -> IO ()
write settings pieces = case logTarget settings of
  LogAction action -> action (ByteString.concat pieces)
  LogFile path -> do
    rotate (logRotation settings) path (sum (map ByteString.length pieces))
    -- GHC's run-time system does not let one Handle read a file while another Handle writes to it. Files of
    -- "Millrace.File" have no such rule.
    patiently (100 :: Int) (withBinaryFile path AppendMode (\file -> mapM_ (ByteString.hPut file) pieces))
  where
    -- It lets only one Handle write to a file, either. Another log of this program may do so now, for a moment.
    patiently left action =
      action `catch` \problem ->
        if isAlreadyInUseError problem && left > 0
          then threadDelay 10000 >> patiently (left - 1) action
          else throwIO problem

-- Makes space for this many bytes.
rotate :: Rotation -> FilePath -> Int -> IO ()
rotate NoRotation _ _ = return ()
rotate (Rotation most kept) path count = do
  size <- withBinaryFile path ReadMode hFileSize `catch` missing
  when (size > 0 && size + fromIntegral count > fromIntegral most) $ mapM_ moveOn [max 1 kept, max 1 kept - 1 .. 1]
  where
    missing :: IOException -> IO Integer
    missing _ = return 0
    name :: Int -> FilePath
    name number = path ++ (if number == 0 then "" else '.' : show number)
    moveOn 1 = renameFile path (name 1)
    -- There are fewer old files as yet.
    moveOn number =
      renameFile (name (number - 1)) (name number)
        `catch` \absent -> let _ = absent :: IOException in return ()

-- A write that failed may have left part of a line. Then the next write must begin with a line end.
repair :: LogTarget -> IO [ByteString]
repair (LogAction _) = return []
repair (LogFile path) = withBinaryFile path ReadMode (fmap endOfLine . endsWithin) `catch` unknown
  where
    endOfLine isTorn = [Char8.pack "\n" | isTorn]
    endsWithin file = do
      size <- hFileSize file
      if size == 0
        then return False
        else hSeek file AbsoluteSeek (size - 1) >> (/= Char8.pack "\n") <$> ByteString.hGet file 1
    -- The file cannot be read, or has no end.
    unknown :: IOException -> IO [ByteString]
    unknown _ = return []
