{-# LANGUAGE OverloadedStrings #-}

-- Must not know: protocols, connections.

-- | Server-sent events: a response that goes on, and brings the client one event after the other
-- (<https://html.spec.whatwg.org/multipage/server-sent-events.html>). Browsers read it with @EventSource@, and connect
-- again when it ends.
--
-- > clock :: Application
-- > clock request respond = respond . responseEvents request $ \send -> forever $ do
-- >   now <- getCurrentTime
-- >   send (event (Char8.pack (show now)))
-- >   sleep (seconds 1)
module Network.Wai.Millrace.EventStream
  ( responseEvents,
    responseEventsEvery,
    Event (..),
    event,
    lastEventId,
    renderEvent,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Concurrent.STM hiding (registerDelay)
import Control.Exception (SomeException, bracket, throwIO, try)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, byteString, char7, intDec)
import qualified Data.ByteString.Char8 as C8
import Millrace.Duration (Duration, durationMicroseconds, durationMilliseconds, milliseconds, seconds)
import Millrace.Timer (registerDelay)
import Network.HTTP.Types (status200)
import Network.HTTP.Types.Header (hCacheControl, hContentType)
import Network.Wai (Request, Response, requestHeaders, responseStream)
import Network.Wai.Handler.Millrace (isServerEnding, onDisconnect, pauseTimeout)

-- | An event.
data Event = Event
  { -- | The text. Each of its lines gets there as a line.
    eventData :: !ByteString,
    -- | The kind of the event; browsers call those without one @message@.
    eventName :: !(Maybe ByteString),
    -- | Browsers tell the latest identifier when they connect again ('lastEventId').
    eventId :: !(Maybe ByteString),
    -- | How long the client shall wait before it connects again.
    eventRetry :: !(Maybe Duration)
  }
  deriving (Eq, Show)

-- | An event with nothing but a text.
--
-- >>> import Data.ByteString.Builder (toLazyByteString)
-- >>> toLazyByteString (renderEvent (event "two\nlines"))
-- "data: two\ndata: lines\n\n"
event :: ByteString -> Event
event text = Event text Nothing Nothing Nothing

-- | The identifier of the last event that a client has got before it connected again.
lastEventId :: Request -> Maybe ByteString
lastEventId = lookup "Last-Event-ID" . requestHeaders

-- | A response whose events the action sends. Sending waits while the client does not take what was sent before. The
-- response ends when the action returns, or when the server shuts down: then the action is interrupted, and so it is
-- when the client has gone: within a second or two of the end of its connection, unless it goes on taking what is
-- sent. After 15 seconds without an event the client gets a comment, so that nothing on the way takes the connection
-- for a dead one, and so that a client that has vanished without a word is noticed. Limits on the time of the whole
-- request are lifted ('pauseTimeout').
--
-- An exception of the action cuts the response off, so that the client does not take it for complete.
responseEvents :: Request -> ((Event -> IO ()) -> IO ()) -> Response
responseEvents = responseEventsEvery (seconds 15)

-- | 'responseEvents' with another time after which a comment is sent.
responseEventsEvery :: Duration -> Request -> ((Event -> IO ()) -> IO ()) -> Response
responseEventsEvery quietTime request produce = responseStream status200 fields $ \write flush -> do
  pauseTimeout request
  flush
  next <- newEmptyTMVarIO
  outcome <- newEmptyTMVarIO
  seemsGone <- newTVarIO False
  let send = atomically . putTMVar next
      begin = forkIOWithUnmask (\unmask -> try (unmask (produce send)) >>= atomically . putTMVar outcome)
      go quietNow = do
        quiet <- registerDelay (durationMicroseconds quietNow)
        step <-
          atomically $
            (Sent <$> takeTMVar next)
              `orElse` (Over <$> readTMVar outcome)
              `orElse` (Over (Right ()) <$ (isServerEnding request >>= check))
              `orElse` (Doubted <$ (readTVar seemsGone >>= check >> writeTVar seemsGone False))
              `orElse` (Quiet <$ (readTVar quiet >>= check))
        case step of
          Sent one -> write (renderEvent one) >> flush >> go quietNow
          Doubted -> comment >> go (min quietTime firstDoubt)
          Quiet -> comment >> go (min quietTime (quietNow <> quietNow))
          Over result -> either (throwIO :: SomeException -> IO ()) return result
      comment = write ":\n\n" >> flush
  onDisconnect request (atomically (writeTVar seemsGone True)) (bracket begin killThread (const (go quietTime)))
  where
    -- Proxies of nginx's kind would collect the events.
    fields = [(hContentType, "text/event-stream"), (hCacheControl, "no-cache"), ("X-Accel-Buffering", "no")]

data Step
  = Sent !Event
  | Over !(Either SomeException ())
  | -- The client has ended its side of the connection. It may still read. If it is gone, its system answers what is
    -- sent with a reset, which the next sending finds.
    Doubted
  | Quiet

-- After a doubt, the time until the next comment. It doubles until it is the usual one again.
firstDoubt :: Duration
firstDoubt = milliseconds 250

-- | An event as it is sent.
--
-- >>> import Data.ByteString.Builder (toLazyByteString)
-- >>> import Millrace.Duration (seconds)
-- >>> let answer = (event "42") {eventName = Just "answer", eventId = Just "7", eventRetry = Just (seconds 3)}
-- >>> toLazyByteString (renderEvent answer)
-- "event: answer\nid: 7\nretry: 3000\ndata: 42\n\n"
renderEvent :: Event -> Builder
renderEvent (Event text name identifier pause) =
  foldMap (field "event: " . byteString . harmless) name
    <> foldMap (field "id: " . byteString . harmless) identifier
    <> foldMap (field "retry: " . intDec . durationMilliseconds) pause
    <> foldMap (field "data: " . byteString) (linesOf text)
    <> char7 '\n'
  where
    field label value = label <> value <> char7 '\n'
    -- A line end would end the field, and clients ignore identifiers with a zero byte.
    harmless = B.filter (`B.notElem` "\r\n\0")

-- CR and CR LF are line ends here, too.
linesOf :: ByteString -> [ByteString]
linesOf text = case C8.break (`elem` ("\r\n" :: String)) text of
  (line, rest)
    | B.null rest -> [line]
    | "\r\n" `B.isPrefixOf` rest -> line : linesOf (B.drop 2 rest)
    | otherwise -> line : linesOf (B.drop 1 rest)
