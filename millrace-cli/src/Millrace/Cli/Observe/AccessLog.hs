{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: connections.

-- | The access log: one line for each answer. A thread writes the lines, once a second or when there are
-- many. So a request pays for no system call, and never waits for a program that reads the log.
module Millrace.Cli.Observe.AccessLog
  ( AccessLog,
    LogFormat (..),
    withAccessLog,
    accessLogFailure,
    endAccessLog,
    logAnswer,
    Moment,
    momentOf,
    renderLine,
  )
where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread)
import Control.Concurrent.MVar (MVar, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar)
import Control.Exception (bracket, catch, finally, handle, throwIO, try)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import Data.ByteString.Builder.Extra (safeStrategy, toLazyByteStringWith)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Either (isLeft)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isNothing)
import Data.Time (defaultTimeLocale, formatTime)
import Data.Time.Clock.System (SystemTime (..), getSystemTime, systemToUTCTime)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Address
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.Json (jsonString)
import Millrace.Cli.Base.StandardStream (writeToOutput)
import Millrace.Timer (timeout)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..))
import System.IO (IOMode (AppendMode, ReadMode), SeekMode (AbsoluteSeek), hFileSize, hSeek, withBinaryFile)

-- | An open access log.
data AccessLog = AccessLog
  { logFormat :: LogFormat,
    logPath :: FilePath,
    -- | The second of the latest line, and its text. Making the text takes longer than the rest of a line.
    logSecond :: IORef (Int64, ByteString),
    logPending :: IORef Pending,
    -- | Whether the last write failed.
    logFailed :: IORef Bool,
    -- | Full when the writer must not wait for the end of the second.
    logWake :: MVar (),
    logEnding :: IORef Bool,
    logEnded :: MVar ()
  }

-- The bytes of the lines that are not written yet, these lines, the latest one first, and how many lines were dropped.
data Pending = Pending !Int [ByteString] !Int

-- | The format of a line.
data LogFormat
  = -- | The combined format of Apache and nginx.
    Combined
  | -- | A JSON object on each line.
    JsonLines
  deriving (Eq, Show)

-- | Appends to the file at a path (@-@ is standard output) while the action runs. The file is opened again for each
-- write: to rotate the log, rename it. Throws 'FileFailure' if the file cannot be written to at the beginning. Lines
-- that cannot be written later are lost, and a message on standard error says so.
withAccessLog :: LogFormat -> FilePath -> (AccessLog -> IO a) -> IO a
withAccessLog format path use = do
  accessLog <-
    AccessLog format path
      <$> newIORef (-1, "")
      <*> newIORef nothing
      <*> newIORef False
      <*> newEmptyMVar
      <*> newIORef False
      <*> newEmptyMVar
  handle (throwIO . failure) (append path [])
  bracket (startWriting accessLog) (stopWriting accessLog) (const (use accessLog))
  where
    startWriting accessLog =
      forkIOWithUnmask $ \unmask -> unmask (keepWriting accessLog) `finally` putMVar (logEnded accessLog) ()
    -- A writer that blocks may take long to notice that it is killed. Do not wait for it.
    stopWriting accessLog writer = endAccessLog accessLog >> void (forkIO (killThread writer))
    failure exception = accessLogFailure path (ioe_description (exception :: IOException))

-- | The access log cannot be written, for a reason.
accessLogFailure :: FilePath -> String -> FileFailure
accessLogFailure path reason =
  FileFailure
    ["access-log"]
    path
    Failure
      { failureAttempt = "write the access log " <> path,
        failureReason = reason,
        failureRemedy = "'access-log' names a file that the server's user may write to, or is - for standard output."
      }

-- | Writes the last lines and ends the log. Takes two seconds at most: if the lines are not written by then, a message
-- on standard error says so. May be called by any thread, and more than once.
endAccessLog :: AccessLog -> IO ()
endAccessLog accessLog = do
  writeIORef (logEnding accessLog) True
  wake accessLog
  ended <- timeout lastMicros (readMVar (logEnded accessLog))
  when (isNothing ended) (tell "millrace: nobody reads the access log: its last lines are lost")

lastMicros :: Int
lastMicros = 2000000

-- | Adds the line of an answer. Does not block. If lines come faster than the log is read, those beyond 4 MiB are
-- dropped, and a later message on standard error says how many.
logAnswer :: AccessLog -> Answer -> IO ()
logAnswer accessLog answer = do
  moment <- currentMoment accessLog
  let line = strict (renderLine (logFormat accessLog) moment answer)
  count <- atomicModifyIORef' (logPending accessLog) (adding line)
  when (count >= batchBytes) (wake accessLog)
  where
    adding line (Pending bytes others dropped)
      | bytes >= pendingMax = (Pending bytes others (dropped + 1), bytes)
      | otherwise = let total = bytes + ByteString.length line in (Pending total (line : others) dropped, total)

nothing :: Pending
nothing = Pending 0 [] 0

-- With this many bytes pending, lines are written before the second is over. Beyond the maximum, further lines are
-- dropped.
batchBytes, pendingMax :: Int
batchBytes = 65536
pendingMax = 4194304

wake :: AccessLog -> IO ()
wake accessLog = void (tryPutMVar (logWake accessLog) ())

-- Most lines fit into the first piece.
strict :: Builder -> ByteString
strict = Lazy.toStrict . toLazyByteStringWith (safeStrategy 384 4096) Lazy.empty

currentMoment :: AccessLog -> IO Moment
currentMoment accessLog = do
  now <- getSystemTime
  (second, text) <- readIORef (logSecond accessLog)
  if second == systemSeconds now
    then pure (Moment text (millisecondsOf now))
    else do
      let moment = momentOf (logFormat accessLog) now
      writeIORef (logSecond accessLog) (systemSeconds now, momentSecond moment)
      pure moment

keepWriting :: AccessLog -> IO ()
keepWriting accessLog = do
  failed <- readIORef (logFailed accessLog)
  _ <- timeout pauseMicros (if failed then awaitEnding else takeMVar (logWake accessLog))
  ending <- readIORef (logEnding accessLog)
  writePending accessLog
  unless ending (keepWriting accessLog)
  where
    -- On a full disk every write fails, and each failure causes a message: so at most one write in a second.
    awaitEnding = do
      takeMVar (logWake accessLog)
      ending <- readIORef (logEnding accessLog)
      unless ending awaitEnding

pauseMicros :: Int
pauseMicros = 1000000

writePending :: AccessLog -> IO ()
writePending accessLog = do
  Pending _ pending dropped <- atomicModifyIORef' (logPending accessLog) (nothing,)
  unless (null pending) $ do
    repaired <- readIORef (logFailed accessLog) >>= \failed -> if failed then repair path else pure []
    outcome <- try (append path (repaired ++ reverse pending))
    writeIORef (logFailed accessLog) (isLeft outcome)
    either (complain (length pending + dropped)) (const (tellDropped dropped)) outcome
  where
    path = logPath accessLog
    tellDropped count =
      when
        (count > 0)
        ( tell
            ( "millrace: "
                <> linesOf count
                <> " of the access log dropped: the log was not read as fast as it was written"
            )
        )
    complain count exception =
      tell
        ( "millrace: cannot write the access log "
            <> path
            <> ": "
            <> ioe_description (exception :: IOException)
            <> "; "
            <> lost count
        )
    -- A full disk may have taken the first lines.
    lost count = (if count == 1 then "" else "up to ") <> linesOf count <> " lost"
    linesOf count = show count <> (if count == 1 then " line" else " lines")

append :: FilePath -> [ByteString] -> IO ()
append "-" pieces = writeToOutput (ByteString.concat pieces)
-- GHC's run-time system does not let one Handle read a file while another Handle writes to it. That does not matter
-- here, because files are served without Handles.
append path pieces = withBinaryFile path AppendMode (\file -> mapM_ (ByteString.hPut file) pieces)

-- A write that failed may have left part of a line. Then the next write must begin with a line end.
repair :: FilePath -> IO [ByteString]
repair "-" = pure []
repair path = withBinaryFile path ReadMode (fmap endOfLine . endsWithin) `catch` unknown
  where
    endOfLine isTorn = ["\n" | isTorn]
    endsWithin file = do
      size <- hFileSize file
      if size == 0 then pure False else hSeek file AbsoluteSeek (size - 1) >> (/= "\n") <$> ByteString.hGet file 1
    -- The file cannot be read, or has no end.
    unknown :: IOException -> IO [ByteString]
    unknown _ = pure []

-- | A time in the text of a format: up to the second, and the milliseconds.
data Moment = Moment
  { momentSecond :: ByteString,
    momentMilliseconds :: Int
  }

-- | A time in a format.
momentOf :: LogFormat -> SystemTime -> Moment
momentOf format now =
  Moment (Char8.pack (formatTime defaultTimeLocale layout (systemToUTCTime now))) (millisecondsOf now)
  where
    layout = case format of
      Combined -> "%d/%b/%Y:%H:%M:%S +0000"
      JsonLines -> "%Y-%m-%dT%H:%M:%S"

millisecondsOf :: SystemTime -> Int
millisecondsOf now = fromIntegral (systemNanoseconds now `div` 1000000)

-- | The line of an answer that was given at this time, with its line end. If the input was not a valid request, the
-- line has the request line as it came, or @-@, and in JSON why the request was refused. In JSON, an answer that was
-- cut off says so.
renderLine :: LogFormat -> Moment -> Answer -> Builder
renderLine Combined moment answer =
  renderHost (answerClient answer)
    <> " - - ["
    <> byteString (momentSecond moment)
    <> "] \""
    <> quoted requestLine
    <> "\" "
    <> intDec (statusCode (answerStatus answer))
    <> char7 ' '
    <> intDec (bytesOf answer)
    <> field requestHeaderReferer
    <> field requestHeaderUserAgent
    <> char7 '\n'
  where
    field get = " \"" <> maybe "-" quoted (answerRequest answer >>= get) <> "\""
    requestLine = case answerRequest answer of
      Just request -> requestMethod request <> " " <> targetOf request <> " HTTP/" <> versionOf request
      Nothing -> if ByteString.null (answerRequestLine answer) then "-" else answerRequestLine answer
renderLine JsonLines moment answer =
  foldMap
    member
    [ ("{\"time\":\"", byteString (momentSecond moment) <> char7 '.' <> milliseconds <> char7 'Z'),
      ("\",\"client\":\"", renderHost (answerClient answer)),
      ("\",\"method\":", optional (method <$> parts)),
      (",\"target\":", optional (target <$> parts)),
      (",\"version\":", optional (version <$> parts)),
      (",\"status\":", intDec (statusCode (answerStatus answer))),
      (",\"bytes\":", intDec (bytesOf answer)),
      (",\"microseconds\":", word64Dec (answerNanoseconds answer `div` 1000)),
      (",\"host\":", field requestHeaderHost),
      (",\"referer\":", field requestHeaderReferer),
      (",\"user_agent\":", field requestHeaderUserAgent),
      (if answerIsCutOff answer then ",\"cut_off\":true" else "", mempty),
      ("", maybe mempty refused (answerRefusal answer)),
      ("}\n", mempty)
    ]
  where
    parts = lineParts answer
    member (before, value) = byteString before <> value
    milliseconds = string7 (drop 1 (show (1000 + momentMilliseconds moment)))
    field get = optional (answerRequest answer >>= get)
    optional = maybe "null" jsonString
    refused reason =
      ",\"request_line\":"
        <> jsonString (answerRequestLine answer)
        <> ",\"refused\":"
        <> jsonString (Char8.pack (show reason))

-- A request line taken apart.
data LineParts = LineParts
  { method :: ByteString,
    target :: ByteString,
    version :: ByteString
  }

-- The first line of an invalid head may be valid. If it is not, nothing is guessed from it.
lineParts :: Answer -> Maybe LineParts
lineParts answer = case answerRequest answer of
  Just request -> Just (LineParts (requestMethod request) (targetOf request) (versionOf request))
  Nothing -> case Char8.split ' ' (answerRequestLine answer) of
    [first, second, third] -> LineParts first second <$> ByteString.stripPrefix "HTTP/" third
    _ -> Nothing

-- An answer without a body counts as one of no bytes, as in nginx's log.
bytesOf :: Answer -> Int
bytesOf = fromMaybe 0 . answerBytes

targetOf :: Request -> ByteString
targetOf request = rawPathInfo request <> rawQueryString request

versionOf :: Request -> ByteString
versionOf request
  | httpVersion request == http11 = "1.1"
  | httpVersion request == http10 = "1.0"
  | otherwise = Char8.pack (drop 5 (show (httpVersion request)))

-- Bytes that could end the field or the line, or confuse a terminal, become hexadecimal, as in nginx's log.
quoted :: ByteString -> Builder
quoted bytes
  | ByteString.all isPlain bytes = byteString bytes
  | otherwise = foldMap escape (ByteString.unpack bytes)
  where
    isPlain byte = byte >= 0x20 && byte < 0x7f && byte /= 0x22 && byte /= 0x5c
    escape byte = if isPlain byte then word8 byte else "\\x" <> word8HexFixed byte
