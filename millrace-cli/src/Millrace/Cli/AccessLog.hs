{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | One line for each request. Lines are gathered and written once a second, or when there are many, so that a request
-- pays for no system call.
module Millrace.Cli.AccessLog
  ( AccessLog
  , LogFormat (..)
  , withAccessLog
  , logObservation
  , Moment
  , momentOf
  , renderLine
  ) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (MVar, newMVar, withMVar)
import Control.Exception (IOException, bracket, finally, handle, throwIO, try)
import Control.Monad (forever, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import Data.ByteString.Builder.Extra (safeStrategy, toLazyByteStringWith)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Int (Int64)
import Data.Time (defaultTimeLocale, formatTime)
import Data.Time.Clock.System (SystemTime (..), getSystemTime, systemToUTCTime)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Failure
import Millrace.Cli.Json (jsonString)
import Millrace.Cli.Observation
import Millrace.Timer (threadDelay)
import Network.HTTP.Types
import Network.Socket (SockAddr (..), hostAddress6ToTuple, hostAddressToTuple)
import Network.Wai
import System.IO (IOMode (AppendMode), hFlush, hPutStrLn, stderr, stdout, withBinaryFile)

-- | Where the lines go.
--
-- @since 0.1.0
data AccessLog = AccessLog
  { logFormat :: LogFormat
  , logPath :: FilePath
  , logSecond :: IORef (Int64, ByteString)
  -- ^ the last second of which there was a line, and how it is written: writing it takes longer than all the rest
  , logPending :: IORef Pending
  , logWriting :: MVar ()
  }

-- Lines that are not written yet, the last one first, and their bytes.
data Pending = Pending !Int [ByteString]

-- | What a line looks like.
--
-- @since 0.1.0
data LogFormat
  = Combined
  -- ^ the combined format of Apache and nginx
  | JsonLines
  -- ^ a JSON object on each line
  deriving (Eq, Show)

-- | Appends to the file at a path (@-@: standard output) while the action runs. The file is opened anew for each
-- writing: to rotate the log, rename it. Throws 'Failure' if it cannot be written to at the beginning; later, what
-- cannot be written is lost, and standard error is told.
--
-- @since 0.1.0
withAccessLog :: LogFormat -> FilePath -> (AccessLog -> IO a) -> IO a
withAccessLog format path use = do
  accessLog <- AccessLog format path <$> newIORef (-1, "") <*> newIORef (Pending 0 []) <*> newMVar ()
  handle (throwIO . failure) (append path [])
  bracket (forkIO (forever (threadDelay pauseMicros >> flush accessLog))) killThread (const (use accessLog))
    `finally` flush accessLog
  where
    failure exception =
      Failure
        { failureAttempt = "write the access log " <> path
        , failureReason = ioe_description (exception :: IOException)
        , failureRemedy = "--access-log takes a file that can be written to, or - for standard output."
        }

pauseMicros :: Int
pauseMicros = 1000000

-- | Adds the line of a request that is over. Blocks only when a second's lines are more than 64 KiB and the disk is slow.
--
-- @since 0.1.0
logObservation :: AccessLog -> Observation -> IO ()
logObservation accessLog observation = do
  moment <- currentMoment accessLog
  let line = strict (renderLine (logFormat accessLog) moment observation)
  count <- atomicModifyIORef' (logPending accessLog) $ \(Pending bytes others) ->
    let total = bytes + ByteString.length line in (Pending total (line : others), total)
  when (count >= pendingMax) (flush accessLog)

pendingMax :: Int
pendingMax = 65536

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

flush :: AccessLog -> IO ()
flush accessLog = withMVar (logWriting accessLog) $ \_ -> do
  Pending _ pending <- atomicModifyIORef' (logPending accessLog) (Pending 0 [],)
  unless (null pending) $ try (append (logPath accessLog) (reverse pending)) >>= either complain pure
  where
    complain exception =
      hPutStrLn stderr ("millrace: cannot write the access log: " <> show (exception :: IOException))

append :: FilePath -> [ByteString] -> IO ()
append "-" pieces = mapM_ (ByteString.hPut stdout) pieces >> hFlush stdout
append path pieces = withBinaryFile path AppendMode (\file -> mapM_ (ByteString.hPut file) pieces)

-- | A time as a format has it: to the second, and the milliseconds since.
--
-- @since 0.1.0
data Moment = Moment
  { momentSecond :: ByteString
  , momentMilliseconds :: Int
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

-- | The line of a request that was over at this time, with its end of line.
--
-- @since 0.1.0
renderLine :: LogFormat -> Moment -> Observation -> Builder
renderLine Combined moment observation =
  clientOf request
    <> " - - ["
    <> byteString (momentSecond moment)
    <> "] \""
    <> quoted (requestMethod request <> " " <> targetOf request <> " HTTP/" <> versionOf request)
    <> "\" "
    <> intDec (statusCode (observedStatus observation))
    <> char7 ' '
    <> maybe "-" intDec (observedBytes observation)
    <> field requestHeaderReferer
    <> field requestHeaderUserAgent
    <> char7 '\n'
  where
    request = observedRequest observation
    field get = " \"" <> maybe "-" quoted (get request) <> "\""
renderLine JsonLines moment observation =
  foldMap
    member
    [ ("{\"time\":\"", byteString (momentSecond moment) <> char7 '.' <> milliseconds <> char7 'Z')
    , ("\",\"client\":\"", clientOf request)
    , ("\",\"method\":", jsonString (requestMethod request))
    , (",\"target\":", jsonString (targetOf request))
    , (",\"version\":", jsonString (versionOf request))
    , (",\"status\":", intDec (statusCode (observedStatus observation)))
    , (",\"bytes\":", maybe null' intDec (observedBytes observation))
    , (",\"microseconds\":", word64Dec (observedNanoseconds observation `div` 1000))
    , (",\"host\":", optional requestHeaderHost)
    , (",\"referer\":", optional requestHeaderReferer)
    , (",\"user_agent\":", optional requestHeaderUserAgent)
    , ("}\n", mempty)
    ]
  where
    request = observedRequest observation
    member (before, value) = byteString before <> value
    milliseconds = string7 (drop 1 (show (1000 + momentMilliseconds moment)))
    optional get = maybe null' jsonString (get request)
    null' = "null"

targetOf :: Request -> ByteString
targetOf request = rawPathInfo request <> rawQueryString request

versionOf :: Request -> ByteString
versionOf request
  | httpVersion request == http11 = "1.1"
  | httpVersion request == http10 = "1.0"
  | otherwise = Char8.pack (drop 5 (show (httpVersion request)))

clientOf :: Request -> Builder
clientOf request = case remoteHost request of
  SockAddrInet _ address -> case hostAddressToTuple address of
    (a, b, c, d) -> word8Dec a <> dot <> word8Dec b <> dot <> word8Dec c <> dot <> word8Dec d
  SockAddrInet6 _ _ address _ -> case hostAddress6ToTuple address of
    (a, b, c, d, e, f, g, h) -> foldr1 (\left right -> left <> char7 ':' <> right) (map word16Hex [a, b, c, d, e, f, g, h])
  SockAddrUnix _ -> "unix"
  where
    dot = char7 '.'

-- As nginx has it: what could end the field, the line or the terminal's patience, in hexadecimal.
quoted :: ByteString -> Builder
quoted bytes
  | ByteString.all isPlain bytes = byteString bytes
  | otherwise = foldMap escape (ByteString.unpack bytes)
  where
    isPlain byte = byte >= 0x20 && byte < 0x7f && byte /= 0x22 && byte /= 0x5c
    escape byte = if isPlain byte then word8 byte else "\\x" <> word8HexFixed byte
