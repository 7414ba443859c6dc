{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | One line for each answer. Lines are gathered and written once a second, or when there are many, by a thread of their
-- own, so that a request pays for no system call and waits for nobody who reads the log.
module Millrace.Cli.AccessLog
  ( AccessLog,
    LogFormat (..),
    withAccessLog,
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
import Millrace.Cli.Address
import Millrace.Cli.Failure
import Millrace.Cli.Json (jsonString)
import Millrace.Cli.StandardStream (writeToOutput)
import Millrace.Timer (timeout)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..))
import System.IO (IOMode (AppendMode, ReadMode), SeekMode (AbsoluteSeek), hFileSize, hSeek, withBinaryFile)

-- | Where the lines go.
--
-- @since 0.1.0
data AccessLog = AccessLog
  { logFormat :: LogFormat,
    logPath :: FilePath,
    -- | the last second of which there was a line, and how it is written: writing it takes longer than all the rest
    logSecond :: IORef (Int64, ByteString),
    logPending :: IORef Pending,
    -- | did the last writing fail?
    logFailed :: IORef Bool,
    -- | full when there is something to do before the second is over
    logWake :: MVar (),
    logEnding :: IORef Bool,
    logEnded :: MVar ()
  }

-- Lines that are not written yet, the last one first, and their bytes; and how many more there would have been.
data Pending = Pending !Int [ByteString] !Int

-- | What a line looks like.
--
-- @since 0.1.0
data LogFormat
  = -- | the combined format of Apache and nginx
    Combined
  | -- | a JSON object on each line
    JsonLines
  deriving (Eq, Show)

-- | Appends to the file at a path (@-@: standard output) while the action runs. The file is opened anew for each
-- writing: to rotate the log, rename it. Throws 'Failure' if it cannot be written to at the beginning; later, what
-- cannot be written is lost, and standard error is told.
--
-- @since 0.1.0
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
    startWriting accessLog = forkIOWithUnmask $ \unmask -> unmask (keepWriting accessLog) `finally` putMVar (logEnded accessLog) ()
    -- Who is stuck in writing need not hear of it at once.
    stopWriting accessLog writer = endAccessLog accessLog >> void (forkIO (killThread writer))
    failure exception =
      Failure
        { failureAttempt = "write the access log " <> path,
          failureReason = ioe_description (exception :: IOException),
          failureRemedy = "--access-log takes a file that can be written to, or - for standard output."
        }

-- | Writes what there is, as the last. Takes two seconds at most: whoever has not taken it then is not waited for, and
-- standard error is told. May be called by any thread, and again.
--
-- @since 0.1.0
endAccessLog :: AccessLog -> IO ()
endAccessLog accessLog = do
  writeIORef (logEnding accessLog) True
  wake accessLog
  ended <- timeout lastMicros (readMVar (logEnded accessLog))
  when (isNothing ended) (tell "millrace: nobody takes the access log: its last lines are lost")

lastMicros :: Int
lastMicros = 2000000

-- | Adds the line of an answer that has been given. Does not block: where the log is not taken as fast as it is written,
-- lines beyond 4 MiB are dropped, and standard error is told how many when it goes on.
--
-- @since 0.1.0
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

-- As many bytes are not kept until the second is over; of so many nothing more is kept.
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
    -- On a full disk every writing would fail, however many there are in a second, and each would be told.
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
      when (count > 0) (tell ("millrace: " <> linesOf count <> " of the access log dropped: it was not taken as fast as it was written"))
    complain count exception =
      tell ("millrace: cannot write the access log " <> path <> ": " <> ioe_description (exception :: IOException) <> "; " <> lost count)
    -- A full disk may have taken the first of them.
    lost count = (if count == 1 then "" else "up to ") <> linesOf count <> " lost"
    linesOf count = show count <> (if count == 1 then " line" else " lines")

append :: FilePath -> [ByteString] -> IO ()
append "-" pieces = writeToOutput (ByteString.concat pieces)
-- GHC's runtime lets nobody read a file by a Handle while another one is there to write to it, nor the other way round:
-- files are served without Handles.
append path pieces = withBinaryFile path AppendMode (\file -> mapM_ (ByteString.hPut file) pieces)

-- What a writing that failed may have left of a line would begin the next one: then that begins behind an end of line.
repair :: FilePath -> IO [ByteString]
repair "-" = pure []
repair path = withBinaryFile path ReadMode (fmap endOfLine . endsWithin) `catch` unknown
  where
    endOfLine isTorn = ["\n" | isTorn]
    endsWithin file = do
      size <- hFileSize file
      if size == 0 then pure False else hSeek file AbsoluteSeek (size - 1) >> (/= "\n") <$> ByteString.hGet file 1
    -- It cannot be read, or has no end.
    unknown :: IOException -> IO [ByteString]
    unknown _ = pure []

-- | A time as a format has it: to the second, and the milliseconds since.
--
-- @since 0.1.0
data Moment = Moment
  { momentSecond :: ByteString,
    momentMilliseconds :: Int
  }

-- | A time in a format.
--
-- @since 0.1.0
momentOf :: LogFormat -> SystemTime -> Moment
momentOf format now = Moment (Char8.pack (formatTime defaultTimeLocale layout (systemToUTCTime now))) (millisecondsOf now)
  where
    layout = case format of
      Combined -> "%d/%b/%Y:%H:%M:%S +0000"
      JsonLines -> "%Y-%m-%dT%H:%M:%S"

millisecondsOf :: SystemTime -> Int
millisecondsOf now = fromIntegral (systemNanoseconds now `div` 1000000)

-- | The line of an answer that was given at this time, with its end of line. Of what was no request there is the request
-- line as it came, or @-@, and in JSON why it was refused. In JSON, an answer that was cut off says so.
--
-- @since 0.1.0
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
    refused reason = ",\"request_line\":" <> jsonString (answerRequestLine answer) <> ",\"refused\":" <> jsonString (Char8.pack (show reason))

-- A request line taken apart.
data LineParts = LineParts
  { method :: ByteString,
    target :: ByteString,
    version :: ByteString
  }

-- Of a head that is not valid the first line may be; nothing is guessed from another one.
lineParts :: Answer -> Maybe LineParts
lineParts answer = case answerRequest answer of
  Just request -> Just (LineParts (requestMethod request) (targetOf request) (versionOf request))
  Nothing -> case Char8.split ' ' (answerRequestLine answer) of
    [first, second, third] -> LineParts first second <$> ByteString.stripPrefix "HTTP/" third
    _ -> Nothing

-- As in nginx's log, no body is one of no bytes.
bytesOf :: Answer -> Int
bytesOf = fromMaybe 0 . answerBytes

targetOf :: Request -> ByteString
targetOf request = rawPathInfo request <> rawQueryString request

versionOf :: Request -> ByteString
versionOf request
  | httpVersion request == http11 = "1.1"
  | httpVersion request == http10 = "1.0"
  | otherwise = Char8.pack (drop 5 (show (httpVersion request)))

-- As nginx has it: what could end the field, the line or the terminal's patience, in hexadecimal.
quoted :: ByteString -> Builder
quoted bytes
  | ByteString.all isPlain bytes = byteString bytes
  | otherwise = foldMap escape (ByteString.unpack bytes)
  where
    isPlain byte = byte >= 0x20 && byte < 0x7f && byte /= 0x22 && byte /= 0x5c
    escape byte = if isPlain byte then word8 byte else "\\x" <> word8HexFixed byte
