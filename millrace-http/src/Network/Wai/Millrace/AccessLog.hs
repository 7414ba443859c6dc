{-# LANGUAGE OverloadedStrings #-}

-- Must not know: connections.

-- | An access log: one line for each answer. It is written as "Millrace.Log" says, so a request does not wait for it,
-- unless 'Millrace.Log.logWhenFull' says so.
--
-- > main = withAccessLog Combined (logTo "access.log") $ \_ logAnswer ->
-- >   runSettings (setPort 3000 (setOnAnswer logAnswer defaultSettings)) application
--
-- What a line of the combined format looks like:
--
-- > 192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /a?b=c HTTP/1.1" 200 1234 "http://example.org/" "curl/8.5.0"
module Network.Wai.Millrace.AccessLog
  ( withAccessLog,
    LogFormat (..),

    -- * One line
    Moment,
    momentOf,
    renderLine,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder
import Data.ByteString.Builder.Extra (safeStrategy, toLazyByteStringWith)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Time (defaultTimeLocale, formatTime)
import Data.Time.Clock.System (SystemTime (..), getSystemTime, systemToUTCTime)
import Millrace.Http.FieldSyntax (hostText)
import Millrace.Http.JsonString (jsonString)
import Millrace.Log (Log, LogSettings, logBytes, withLog)
import Network.HTTP.Types
import Network.Socket (SockAddr)
import Network.Wai
import Network.Wai.Handler.Millrace (Answer (..), RefusalReason (..), durationNanoseconds)

-- | The format of a line.
data LogFormat
  = -- | The combined format of Apache and nginx.
    Combined
  | -- | A JSON object on each line: time, client, method, target, version, status, bytes, microseconds, host, referer,
    -- user_agent; also cut_off, refused (why), and of a request that was refused at once request_line.
    JsonLines
  deriving (Eq, Show)

-- | Passes what 'Network.Wai.Handler.Millrace.setOnAnswer' takes, and the open log, so that a program that ends by
-- other ways can end it ('Millrace.Log.endLog'). Throws an 'IOError' at the beginning if the log cannot be written to.
withAccessLog :: LogFormat -> LogSettings -> (Log -> (Answer -> IO ()) -> IO a) -> IO a
withAccessLog format settings use = withLog settings $ \output -> do
  second <- newIORef (-1, "")
  use output $ \answer -> do
    moment <- currentMoment format second
    logBytes output (strict (renderLine format moment answer))

-- Most lines fit into the first piece.
strict :: Builder -> ByteString
strict = Lazy.toStrict . toLazyByteStringWith (safeStrategy 384 4096) Lazy.empty

-- The reference has the second of the latest line, and its text. Making the text takes longer than the rest of a line.
currentMoment :: LogFormat -> IORef (Int64, ByteString) -> IO Moment
currentMoment format latest = do
  now <- getSystemTime
  (second, text) <- readIORef latest
  if second == systemSeconds now
    then pure (Moment text (millisecondsOf now))
    else do
      let moment = momentOf format now
      writeIORef latest (systemSeconds now, momentSecond moment)
      pure moment

-- | A time in the text of a format: up to the second, and the milliseconds.
data Moment = Moment
  { momentSecond :: ByteString,
    momentMilliseconds :: Int
  }

-- | A time in a format.
--
-- >>> import Data.ByteString.Builder (toLazyByteString)
-- >>> import Data.Time.Clock.System
-- >>> import Network.HTTP.Types (status404)
-- >>> import Network.Socket (SockAddr (..), tupleToHostAddress)
-- >>> import Network.Wai.Handler.Millrace (Answer (..), microseconds)
-- >>> let peer = SockAddrInet 1 (tupleToHostAddress (192, 0, 2, 7))
-- >>> let answer = Answer peer Nothing Nothing "GET /a b HTTP/1.1" status404 (Just 11) False (microseconds 1500)
-- >>> toLazyByteString (renderLine Combined (momentOf Combined (MkSystemTime 784111777 0)) answer)
-- "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a b HTTP/1.1\" 404 11 \"-\" \"-\"\n"
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
  client (answerClient answer)
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
      ("\",\"client\":\"", client (answerClient answer)),
      ("\",\"method\":", optional (method <$> parts)),
      (",\"target\":", optional (target <$> parts)),
      (",\"version\":", optional (version <$> parts)),
      (",\"status\":", intDec (statusCode (answerStatus answer))),
      (",\"bytes\":", intDec (bytesOf answer)),
      (",\"microseconds\":", word64Dec (durationNanoseconds (answerDuration answer) `div` 1000)),
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
    refused reason = firstLine reason <> ",\"refused\":" <> jsonString (Char8.pack (show reason))
    firstLine reason = case reason of
      RefusedAtOnce _ -> ",\"request_line\":" <> jsonString (answerRequestLine answer)
      _ -> mempty

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

client :: SockAddr -> Builder
client = maybe "unix" byteString . hostText
