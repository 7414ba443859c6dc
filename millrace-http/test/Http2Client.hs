{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A client of HTTP/2 for tests, one thread for each connection. It speaks in frames ('sendFrames', 'nextEvent'), or
-- in requests and answers ('ask'). It is polite unless told otherwise: it acknowledges settings and pings and gives the
-- server new windows. Everything it waits for has a time limit.
--
-- The connection is a pair of functions on bytes, so it may be a socket, memory or TLS ('http2Over').
module Http2Client
  ( -- * Connections
    Http2,
    Conduct (..),
    polite,
    silent,
    withHttp2,
    withHttp2As,
    http2OnClient,
    http2Over,
    handshake,
    closing,

    -- * Frames
    sendFrame,
    sendFrames,
    sendBytes,
    Event (..),
    EndOfStream (..),
    nextEvent,
    nextEventWithin,
    eventsUntil,
    eventsUntilEnd,
    untilSilence,
    roundTrip,
    module Http2Frame,

    -- * Requests and answers
    ask,
    openStream,
    sendRequest,
    sendBody,
    nextStream,
    awaitAnswer,
    awaitHead,
    awaitStream,
    Answer (..),
    StreamEnd (..),
    answerStatus,
    answerBody,
    answerField,
    get,
    post,
    block,
  )
where

import Control.Exception (mask_, try)
import Control.Monad (forM_, unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe)
import Http2Frame
import Support (Client, Reachable, receive, send, withConnection)
import System.Timeout (timeout)
import TestSupport.Time (within)

------------------------------------------------------------------------------------------------------------------------
-- Connections

-- | What a client does by itself when it receives a frame.
data Conduct = Conduct
  { conductSettings :: !Acknowledging,
    conductPings :: !Acknowledging,
    conductWindows :: !Refilling
  }

data Acknowledging = Acknowledges | KeepsQuiet
  deriving (Eq)

data Refilling = Refills | LetsThemShrink
  deriving (Eq)

-- | Does everything that a client should.
polite :: Conduct
polite = Conduct Acknowledges Acknowledges Refills

-- | Sends nothing by itself.
silent :: Conduct
silent = Conduct KeepsQuiet KeepsQuiet LetsThemShrink

data Http2 = Http2
  { http2Send :: ByteString -> IO (),
    http2Receive :: IO ByteString,
    http2Conduct :: Conduct,
    http2Held :: IORef ByteString,
    http2Decoder :: Decoder,
    -- | An incomplete header block: its stream, its flags and its parts, latest first.
    http2Block :: IORef (Maybe (StreamId, EndOfStream, [ByteString])),
    http2Next :: IORef StreamId,
    http2Answers :: IORef (Map.Map StreamId Answer),
    http2SendWindows :: IORef SendWindows
  }

-- | The rest of the server's windows.
data SendWindows = SendWindows
  { sendConnection :: !Int,
    -- | The window of a stream on which nothing was sent.
    sendInitial :: !Int,
    -- | The difference to that.
    sendStreams :: !(Map.Map StreamId Int)
  }

data EndOfStream = Last | MoreComes
  deriving (Eq, Show)

-- | A connection with the preface, default settings, and the polite conduct.
withHttp2 :: Reachable server => server -> (Http2 -> IO a) -> IO a
withHttp2 = withHttp2As polite []

-- | A connection with another conduct and other settings.
withHttp2As :: Reachable server => Conduct -> [(Setting, Word)] -> server -> (Http2 -> IO a) -> IO a
withHttp2As conduct settings server use = withConnection server $ \client -> do
  http2 <- http2OnClient conduct client
  handshake http2 settings
  use http2

-- | A client on a connected socket. Sends nothing yet.
http2OnClient :: Conduct -> Client -> IO Http2
http2OnClient conduct client = http2Over conduct (send client) (receive client)

-- | A client over any connection: how bytes are sent, and how some are received (none at the end). Sends nothing yet.
http2Over :: Conduct -> (ByteString -> IO ()) -> IO ByteString -> IO Http2
http2Over conduct sending receiving =
  Http2 sending receiving conduct <$> newIORef ""
    <*> newDecoder
    <*> newIORef Nothing
    <*> newIORef 1
    <*> newIORef Map.empty
    <*> newIORef (SendWindows 65535 65535 Map.empty)

-- | Sends the preface and settings. Waits for nothing.
handshake :: Http2 -> [(Setting, Word)] -> IO ()
handshake http2 settings =
  sendBytes http2 (preface <> encodeFrame (settingsFrame [(name, fromIntegral value) | (name, value) <- settings]))

-- | Runs an action whose sends may fail because the server has closed the connection. Catches no other exception: a
-- thread that ignored an asynchronous one would continue, and the thread that cancels it would wait for ever.
closing :: IO () -> IO ()
closing action = void (try action :: IO (Either IOError ()))

------------------------------------------------------------------------------------------------------------------------
-- Frames

sendBytes :: Http2 -> ByteString -> IO ()
sendBytes = http2Send

sendFrame :: Http2 -> Frame -> IO ()
sendFrame http2 = sendBytes http2 . encodeFrame

-- | In one piece.
sendFrames :: Http2 -> [Frame] -> IO ()
sendFrames http2 = sendBytes http2 . B.concat . map encodeFrame

-- | The content of a frame. A header block is one event, even in several frames. Padding is dropped.
data Event
  = GotHeaders !StreamId !Fields !EndOfStream
  | GotData !StreamId !ByteString !EndOfStream
  | GotReset !StreamId !ErrorCode
  | GotSettings ![(Setting, Word)]
  | GotSettingsAck
  | GotPing !ByteString
  | GotPingAck !ByteString
  | -- | The last stream that the server has processed or will.
    GotGoAway !StreamId !ErrorCode !ByteString
  | GotWindow !StreamId !Word
  | GotOther !Frame
  | -- | The end of the connection, orderly or not.
    Closed
  deriving (Eq, Show)

-- | Waits for the next event, and does what the conduct asks for.
nextEvent :: Http2 -> IO Event
nextEvent http2 = nextEventBy (fmap Just . within 30 "the next frame") http2 >>= maybe (nextEvent http2) return

-- | Nothing if nothing arrives for this many microseconds.
nextEventWithin :: Int -> Http2 -> IO (Maybe Event)
nextEventWithin micros = nextEventBy (timeout micros)

-- Only the wait has a time limit, and its result is kept, so an event is never lost in the middle.
nextEventBy :: (IO ByteString -> IO (Maybe ByteString)) -> Http2 -> IO (Maybe Event)
nextEventBy limited http2 = do
  held <- readIORef (http2Held http2)
  case decodeFrame held of
    Just (frame, rest) ->
      writeIORef (http2Held http2) rest >> interpret http2 frame >>= maybe (nextEventBy limited http2) (known frame)
    Nothing ->
      limited more >>= \case
        Nothing -> return Nothing
        Just arrived
          | B.null arrived -> return (Just Closed)
          | otherwise -> nextEventBy limited http2
  where
    known frame event = Just event <$ (react http2 frame event >> note http2 event)
    more = mask_ $ do
      arrived <- either (const B.empty :: IOError -> ByteString) id <$> try (http2Receive http2)
      arrived <$ modifyIORef' (http2Held http2) (<> arrived)

-- Nothing for a part of a header block that continues.
interpret :: Http2 -> Frame -> IO (Maybe Event)
interpret http2 frame = case frameType frame of
  Headers -> beginBlock (ending frame) (unprioritised (unpadded frame))
  Continuation -> continueBlock
  Data -> event (GotData stream (unpadded frame) (ending frame))
  Reset -> event (GotReset stream (errorOf (word32At 0 payload)))
  Settings
    | hasFlag Ack frame -> event GotSettingsAck
    | otherwise -> event (GotSettings [(name, fromIntegral value) | (name, value) <- settingsOf frame])
  Ping
    | hasFlag Ack frame -> event (GotPingAck payload)
    | otherwise -> event (GotPing payload)
  GoAway -> event (GotGoAway (word32At 0 payload) (errorOf (word32At 4 payload)) (B.drop 8 payload))
  WindowUpdate -> event (GotWindow stream (fromIntegral (word32At 0 payload)))
  _ -> event (GotOther frame)
  where
    stream = frameStream frame
    payload = framePayload frame
    event = return . Just
    unprioritised bytes = if hasFlag WithPriority frame then B.drop 5 bytes else bytes
    beginBlock end part = goOn end [part]
    continueBlock =
      readIORef (http2Block http2) >>= \case
        Just (expected, end, parts) | expected == stream -> goOn end (payload : parts)
        _ -> fail ("CONTINUATION out of place: " ++ show frame)
    goOn end parts
      | hasFlag EndHeaders frame = do
        writeIORef (http2Block http2) Nothing
        fields <- decodeBlock (http2Decoder http2) (B.concat (reverse parts))
        event (GotHeaders stream fields end)
      | otherwise = Nothing <$ writeIORef (http2Block http2) (Just (stream, end, parts))

ending :: Frame -> EndOfStream
ending frame = if hasFlag EndStream frame then Last else MoreComes

unpadded :: Frame -> ByteString
unpadded frame
  | hasFlag Padded frame =
    let payload = framePayload frame in B.drop 1 (B.take (B.length payload - padding payload) payload)
  | otherwise = framePayload frame
  where
    padding payload = if B.null payload then 0 else fromIntegral (B.head payload)

react :: Http2 -> Frame -> Event -> IO ()
react http2 frame event = case event of
  GotSettings _ | conductSettings conduct == Acknowledges -> reply [settingsAck]
  GotPing payload | conductPings conduct == Acknowledges -> reply [pingAck payload]
  GotData stream _ end
    | conductWindows conduct == Refills && size > 0 ->
      reply (windowUpdate 0 size : [windowUpdate stream size | end == MoreComes])
  _ -> return ()
  where
    conduct = http2Conduct http2
    size = fromIntegral (B.length (framePayload frame))
    -- A server that has closed its side may not take them any more.
    reply = closing . sendFrames http2

-- | All events up to the first that is wanted, which is the last; or up to the end of the connection.
eventsUntil :: (Event -> Bool) -> Http2 -> IO [Event]
eventsUntil wanted http2 = within 30 "an event" go
  where
    go = nextEvent http2 >>= \event -> if event == Closed || wanted event then return [event] else (event :) <$> go

-- | All events up to the end of the connection.
eventsUntilEnd :: Http2 -> IO [Event]
eventsUntilEnd = eventsUntil (const False)

-- | All events until none comes for this many microseconds, or until the end.
untilSilence :: Int -> Http2 -> IO [Event]
untilSilence micros http2 =
  nextEventWithin micros http2 >>= \case
    Nothing -> return []
    Just Closed -> return [Closed]
    Just other -> (other :) <$> untilSilence micros http2

-- | Sends a PING and waits for its acknowledgement, which means that the server has processed everything that was sent
-- before. Returns the events until then; the last one is the acknowledgement or 'Closed'.
roundTrip :: Http2 -> IO [Event]
roundTrip http2 = closing (sendFrame http2 (pingFrame mark)) >> eventsUntil (== GotPingAck mark) http2
  where
    mark = "roundtrp"

------------------------------------------------------------------------------------------------------------------------
-- Requests and answers

-- | What came on a stream.
data Answer = Answer
  { -- | Interim responses, with their @:status@.
    answerInterim :: ![Fields],
    -- | The response's head; empty before it has come.
    answerHead :: !Fields,
    -- | The content of its DATA frames, the latest first.
    answerPieces :: ![ByteString],
    answerTrailers :: !Fields,
    answerEnd :: !StreamEnd
  }
  deriving (Eq, Show)

data StreamEnd
  = -- | More may come.
    Open
  | Complete
  | ResetWith !ErrorCode
  | -- | The connection ended before.
    Broken
  deriving (Eq, Show)

answerStatus :: Answer -> Maybe Int
answerStatus answer = lookup ":status" (answerHead answer) >>= fmap fst . C8.readInt

answerBody :: Answer -> ByteString
answerBody = B.concat . reverse . answerPieces

answerField :: ByteString -> Answer -> Maybe ByteString
answerField name = lookup name . answerHead

note :: Http2 -> Event -> IO ()
note http2 event = case event of
  GotHeaders stream fields end -> change stream (ended end . gotFields fields)
  GotData stream bytes end ->
    change stream (ended end . (\answer -> answer {answerPieces = bytes : answerPieces answer}))
  -- An answer that was complete before stays so (RFC 9113, 8.1).
  GotReset stream code ->
    change stream (\answer -> if answerEnd answer == Complete then answer else answer {answerEnd = ResetWith code})
  GotWindow 0 size ->
    modifyIORef'
      (http2SendWindows http2)
      (\windows -> windows {sendConnection = sendConnection windows + fromIntegral size})
  GotWindow stream size ->
    modifyIORef'
      (http2SendWindows http2)
      (\windows -> windows {sendStreams = Map.insertWith (+) stream (fromIntegral size) (sendStreams windows)})
  GotSettings settings ->
    forM_ (lookup InitialWindowSize settings) $ \size ->
      modifyIORef' (http2SendWindows http2) (\windows -> windows {sendInitial = fromIntegral size})
  _ -> return ()
  where
    change stream f = modifyIORef' (http2Answers http2) (Map.alter (Just . f . fromMaybe nothingYet) stream)
    ended Last answer = answer {answerEnd = Complete}
    ended MoreComes answer = answer

nothingYet :: Answer
nothingYet = Answer [] [] [] [] Open

gotFields :: Fields -> Answer -> Answer
gotFields fields answer
  | not (null (answerHead answer)) = answer {answerTrailers = fields}
  | maybe False ("1" `B.isPrefixOf`) (lookup ":status" fields) =
    answer {answerInterim = answerInterim answer ++ [fields]}
  | otherwise = answer {answerHead = fields}

-- | The number that the next stream gets.
nextStream :: Http2 -> IO StreamId
nextStream http2 = atomicModifyIORef' (http2Next http2) (\stream -> (stream + 2, stream))

-- | Sends a request's head on a new stream; the body, if there is one, must follow.
openStream :: Http2 -> [Flag] -> Fields -> IO StreamId
openStream http2 flags fields = do
  stream <- nextStream http2
  stream <$ sendFrames http2 (block stream flags fields)

-- | Sends a whole request. Waits where the server's windows are used up.
sendRequest :: Http2 -> Fields -> ByteString -> IO StreamId
sendRequest http2 fields body
  | B.null body = openStream http2 [EndStream] fields
  | otherwise = do
    stream <- openStream http2 [] fields
    stream <$ sendBody http2 stream [EndStream] body

-- | Sends a nonempty part of a request's body; the flags are for its last frame. Waits for the server's windows. Stops
-- when the stream has ended.
sendBody :: Http2 -> StreamId -> [Flag] -> ByteString -> IO ()
sendBody http2 stream flags = within 30 "the server's windows" . go
  where
    go bytes = do
      windows <- readIORef (http2SendWindows http2)
      over <- maybe False ((/= Open) . answerEnd) . Map.lookup stream <$> readIORef (http2Answers http2)
      let spent = Map.findWithDefault 0 stream (sendStreams windows)
          (piece, rest) = B.splitAt (minimum [16384, sendConnection windows, sendInitial windows + spent]) bytes
          size = B.length piece
      unless over $
        if size == 0
          then nextEvent http2 >>= \event -> unless (event == Closed) (go bytes)
          else do
            writeIORef
              (http2SendWindows http2)
              windows
                { sendConnection =
                    sendConnection windows - size,
                  sendStreams = Map.insert stream (spent - size) (sendStreams windows)
                }
            sendFrame http2 (dataFrame stream (if B.null rest then flags else []) piece)
            unless (B.null rest) (go rest)

-- | A HEADERS frame, and CONTINUATION frames for what does not fit into one frame of 16,384 bytes.
block :: StreamId -> [Flag] -> Fields -> [Frame]
block stream flags fields = case split (literals fields) of
  [] -> [headersFrame stream (EndHeaders : flags) ""]
  [only] -> [headersFrame stream (EndHeaders : flags) only]
  first : rest ->
    headersFrame stream flags first :
    map (continuationFrame stream []) (init rest)
      ++ [continuationFrame stream [EndHeaders] (last rest)]
  where
    split bytes
      | B.null bytes = []
      | otherwise = let (part, rest) = B.splitAt 16384 bytes in part : split rest

-- | Sends a request and waits for its answer.
ask :: Http2 -> Fields -> ByteString -> IO Answer
ask http2 fields body = sendRequest http2 fields body >>= awaitAnswer http2

-- | Waits until a stream has ended, and forgets it. Keeps events of other streams.
awaitAnswer :: Http2 -> StreamId -> IO Answer
awaitAnswer http2 stream = do
  answer <- awaitStream ((/= Open) . answerEnd) http2 stream
  answer <$ modifyIORef' (http2Answers http2) (Map.delete stream)

-- | Waits until a response's head has come on a stream, or its end.
awaitHead :: Http2 -> StreamId -> IO Answer
awaitHead = awaitStream (\answer -> not (null (answerHead answer)) || answerEnd answer /= Open)

awaitStream :: (Answer -> Bool) -> Http2 -> StreamId -> IO Answer
awaitStream enough http2 stream = within 30 ("stream " ++ show stream) go
  where
    go = do
      answer <- Map.findWithDefault nothingYet stream <$> readIORef (http2Answers http2)
      if enough answer
        then return answer
        else nextEvent http2 >>= \event -> if event == Closed then return answer {answerEnd = Broken} else go

-- | The fields of a GET, and those of a POST.
get, post :: ByteString -> Fields
get path = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)]
post path = (":method", "POST") : drop 1 (get path)
