{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers.

-- | A client that translates: the example writes and reads HTTP/1, and the connection carries HTTP/2. So examples that
-- are written in bytes of HTTP/1 also run over HTTP/2.
--
-- Each request becomes a stream: its head a header block, and its body DATA, with the trailers of a chunked one. The
-- response on the stream becomes a response of HTTP/1, chunked if its length was not announced. The next request begins
-- when the last response is complete, as pipelined requests would. A stream that is reset within a response ends the
-- connection. So does an error, if the example sends nothing more, because servers of HTTP/1 close then.
--
-- One thread receives frames, another one sends them. The windows grow by the bytes that the example has read, so an
-- example that does not read stops the server.
module SpeakingHttp2 (speakingHttp2) where

import Carrier (Ends (..))
import Control.Concurrent.Async (withAsync)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Char (isSpace, toLower, toUpper)
import Data.IORef
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust, isNothing)
import Http2Frame
import Network.HTTP.Types (statusMessage)
import Numeric (readHex, showHex)

-- | Runs an action with a connection that translates to HTTP/2.
speakingHttp2 :: Ends -> (Ends -> IO a) -> IO a
speakingHttp2 ends use = do
  connection <- newConnection ends
  sendAll connection (preface <> encodeFrame (settingsFrame []))
  withAsync (noted connection (receiveFrames connection)) $ \_ ->
    withAsync (noted connection (sendRequests connection)) $ \_ ->
      use (Ends (put connection) (atomically (writeTVar (inputHasEnded connection) True)) (receive connection))

data Connection = Connection
  { connectionEnds :: !Ends,
    -- | The lock that is held while frames are sent.
    sending :: !(MVar ()),
    -- | Bytes of HTTP/1 that the example has sent, and that are not translated yet.
    input :: !(TVar ByteString),
    inputHasEnded :: !(TVar Bool),
    -- | The remaining windows for sending: the connection's, that of a new stream, and the difference of each stream's
    -- from that.
    connectionWindow :: !(TVar Int),
    initialWindow :: !(TVar Int),
    streamWindows :: !(TVar (Map.Map StreamId Int)),
    -- | The request whose response the example has not received completely.
    current :: !(TVar (Maybe Exchange)),
    -- | The response's part that has arrived on its stream.
    arrived :: !(TQueue Arrival),
    -- | Bytes of HTTP/1 that the example can receive.
    output :: !(TVar ByteString),
    -- | Whether the last response was an error.
    hasFailed :: !(TVar Bool),
    -- | Nothing more can be added to the output.
    outputHasEnded :: !(TVar Bool),
    -- | The exception that ended the connection.
    over :: !(TVar (Maybe (Either SomeException ())))
  }

data Exchange = Exchange
  { exchangeStream :: !StreamId,
    exchangeMethod :: !ByteString,
    exchangeVersion :: !ByteString,
    -- | Whether it is the last request of its connection.
    exchangeIsLast :: !Bool,
    exchangeIsUpgrade :: !Bool,
    exchangeFraming :: !Framing
  }

data Framing
  = -- | The response has not begun.
    NoneYet
  | Chunked
  | -- | Its length is known, or the end of the connection ends it, or there is none.
    Plain

data Arrival
  = Block !Fields !Bool
  | -- | With the size of its frame.
    Bytes !ByteString !Int !Bool
  | Cut

newConnection :: Ends -> IO Connection
newConnection ends =
  Connection ends <$> newMVar ()
    <*> newTVarIO ""
    <*> newTVarIO False
    <*> newTVarIO 65535
    <*> newTVarIO 65535
    <*> newTVarIO Map.empty
    <*> newTVarIO Nothing
    <*> newTQueueIO
    <*> newTVarIO ""
    <*> newTVarIO False
    <*> newTVarIO False
    <*> newTVarIO Nothing

-- A thread of the connection. The example gets its exception when there is nothing more to receive.
noted :: Connection -> IO () -> IO ()
noted connection action = try action >>= atomically . writeTVar (over connection) . Just

-- The server may have closed the connection. The receiving thread notices that.
sendAll :: Connection -> ByteString -> IO ()
sendAll connection bytes = withMVar (sending connection) (\() -> unlessClosed (send bytes))
  where
    Ends send _ _ = connectionEnds connection

sendFrames :: Connection -> [Frame] -> IO ()
sendFrames connection = sendAll connection . B.concat . map encodeFrame

unlessClosed :: IO () -> IO ()
unlessClosed action = void (try action :: IO (Either IOError ()))

endSending :: Connection -> IO ()
endSending connection = unlessClosed end
  where
    Ends _ end _ = connectionEnds connection

put :: Connection -> ByteString -> IO ()
put connection bytes = do
  ended <- readTVarIO (over connection)
  either throwIO (const (return ())) (fromMaybe (Right ()) ended)
  atomically (modifyTVar' (input connection) (<> bytes))

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- Nothing if the input has ended before.
takeThrough :: Connection -> ByteString -> IO (Maybe ByteString)
takeThrough connection mark = atomically $ do
  bytes <- readTVar (input connection)
  ended <- readTVar (inputHasEnded connection)
  let (before, rest) = B.breakSubstring mark bytes
  case () of
    _ | not (B.null rest) -> Just before <$ writeTVar (input connection) (B.drop (B.length mark) rest)
    _ | ended -> return Nothing
    _ -> retry

-- At least one byte and at most this many; none at the end of the input.
takeSome :: Connection -> Int -> IO ByteString
takeSome connection most = atomically $ do
  bytes <- readTVar (input connection)
  ended <- readTVar (inputHasEnded connection)
  when (B.null bytes && not ended) retry
  B.take most bytes <$ writeTVar (input connection) (B.drop most bytes)

sendRequests :: Connection -> IO ()
sendRequests connection = go 1
  where
    go stream = do
      atomically (readTVar (current connection) >>= check . isNothing)
      text <- takeThrough connection "\r\n\r\n"
      case dropEmptyLines <$> text of
        Nothing -> endSending connection >> atomically retry
        Just bytes
          -- There were only empty lines.
          | B.null bytes -> go stream
          | otherwise -> sendRequest connection stream bytes >> go (stream + 2)
    dropEmptyLines = C8.dropWhile (`C8.elem` "\r\n")

sendRequest :: Connection -> StreamId -> ByteString -> IO ()
sendRequest connection stream text = do
  (method, target, version) <- case C8.split ' ' line of
    [method, target, version] | B.isPrefixOf "HTTP/1." version -> return (method, target, version)
    _ -> fail ("no request of HTTP/1: " ++ show line)
  let has name value =
        or [C8.map toLower (trim token) == value | (key, given) <- fields, key == name, token <- C8.split ',' given]
      protocol = if has "connection" "upgrade" && method == "GET" then lookup "upgrade" fields else Nothing
      isLast = has "connection" "close" || version == "HTTP/1.0" && not (has "connection" "keep-alive")
      (size, isChunked) = (lookup "content-length" fields >>= fmap fst . C8.readInt, has "transfer-encoding" "chunked")
      hasBody = isChunked || maybe False (> 0) size || isJust protocol
      frame = headersFrame stream ([EndHeaders | fits] ++ [EndStream | not hasBody])
      encoded = literals (pseudo method target version protocol ++ filter ((`notElem` dropped protocol) . fst) fields)
      fits = B.length encoded <= 16384
      continued bytes =
        let (part, after) = B.splitAt 16384 bytes
         in continuationFrame stream [EndHeaders | B.null after] part :
            if B.null after
              then []
              else continued after
  atomically (writeTVar (current connection) (Just (Exchange stream method version isLast (isJust protocol) NoneYet)))
  sendFrames connection (frame (B.take 16384 encoded) : if fits then [] else continued (B.drop 16384 encoded))
  case size of
    _ | isJust protocol -> sendTunnel connection stream
    _ | isChunked -> sendChunks connection stream
    Just count | count > 0 -> sendCounted connection stream count
    _ -> return ()
  where
    (line, rest) = B.breakSubstring "\r\n" text
    fields = map field (linesOf (B.drop 2 rest))
    field bytes = let (name, value) = C8.break (== ':') bytes in (C8.map toLower name, trim (B.drop 1 value))
    trim = fst . C8.spanEnd isSpace . C8.dropWhile isSpace
    host = lookup "host" fields
    dropped protocol =
      ["host", "connection", "keep-alive", "transfer-encoding", "upgrade"] ++ ["sec-websocket-key" | isJust protocol]
    pseudo method target version protocol
      | method == "CONNECT" = [(":method", method), (":authority", target)]
      | otherwise =
        [(":method", if isJust protocol then "CONNECT" else method)]
          ++ [(":protocol", value) | Just value <- [protocol]]
          ++ [(":scheme", scheme)]
          ++ [ (":authority", value)
               | Just value <-
                   [ if B.null authority
                       then
                         if version == "HTTP/1.0"
                           then Just (fromMaybe "a" host)
                           else host
                       else Just authority
                   ]
             ]
          ++ [(":path", path)]
      where
        (scheme, authority, path) = case B.breakSubstring "://" target of
          (_, "") -> ("http", "", target)
          (named', after) ->
            let (name, behind) = C8.break (`C8.elem` "/?") (B.drop 3 after)
             in (named', name, if B.isPrefixOf "/" behind then behind else "/" <> behind)

linesOf :: ByteString -> [ByteString]
linesOf text
  | B.null text = []
  | otherwise = let (line, rest) = B.breakSubstring "\r\n" text in line : linesOf (B.drop 2 rest)

-- Ends the stream if the example ends its side within a request.
giveUp :: Connection -> StreamId -> IO ()
giveUp connection stream = sendFrames connection [resetFrame stream Cancel]

sendCounted :: Connection -> StreamId -> Int -> IO ()
sendCounted connection stream left = do
  bytes <- takeSome connection (min 16384 left)
  let rest = left - B.length bytes
  if B.null bytes
    then giveUp connection stream
    else sendData connection stream bytes (rest == 0) >> unless (rest == 0) (sendCounted connection stream rest)

sendTunnel :: Connection -> StreamId -> IO ()
sendTunnel connection stream = do
  bytes <- takeSome connection 16384
  sendData connection stream bytes (B.null bytes)
  unless (B.null bytes) (sendTunnel connection stream)

sendChunks :: Connection -> StreamId -> IO ()
sendChunks connection stream =
  takeThrough connection "\r\n" >>= \case
    Nothing -> giveUp connection stream
    Just digits -> case readHex (C8.unpack digits) of
      [(0, "")] -> trailers []
      [(size, "")] -> chunk size
      _ -> fail ("no size of a chunk: " ++ show digits)
  where
    chunk left
      | left == (0 :: Int) =
        takeThrough connection "\r\n" >>= maybe (giveUp connection stream) (const (sendChunks connection stream))
      | otherwise = do
        bytes <- takeSome connection (min 16384 left)
        if B.null bytes
          then giveUp connection stream
          else sendData connection stream bytes False >> chunk (left - B.length bytes)
    trailers given =
      takeThrough connection "\r\n" >>= \case
        Nothing -> giveUp connection stream
        Just "" | null given -> sendData connection stream "" True
        Just "" -> sendFrames connection [headersFrame stream [EndHeaders, EndStream] (literals (reverse given))]
        Just line ->
          let (name, value) = C8.break (== ':') line
           in trailers
                ((C8.map toLower name, C8.dropWhile (== ' ') (B.drop 1 value)) : given)

-- Waits until the windows are open. Stops sending when the response is complete.
sendData :: Connection -> StreamId -> ByteString -> Bool -> IO ()
sendData connection stream bytes isLast = do
  allowed <- atomically $ do
    exchange <- readTVar (current connection)
    ended <- readTVar (over connection)
    if fmap exchangeStream exchange /= Just stream || isJust ended
      then return Nothing
      else do
        spent <- Map.findWithDefault 0 stream <$> readTVar (streamWindows connection)
        allowed <-
          min <$> readTVar (connectionWindow connection) <*> fmap (+ spent) (readTVar (initialWindow connection))
        let size = min allowed (B.length bytes)
        when (size <= 0 && not (B.null bytes)) retry
        modifyTVar' (connectionWindow connection) (subtract size)
        modifyTVar' (streamWindows connection) (Map.insert stream (spent - size))
        return (Just size)
  forM_ allowed $ \size -> do
    let (piece, rest) = B.splitAt size bytes
    sendFrames connection [dataFrame stream [EndStream | isLast && B.null rest] piece]
    unless (B.null rest) (sendData connection stream rest isLast)

------------------------------------------------------------------------------------------------------------------------
-- Frames

receiveFrames :: Connection -> IO ()
receiveFrames connection = do
  decoder <- newDecoder
  held <- newIORef Nothing
  let go bytes = case decodeFrame bytes of
        Just (frame, rest) -> frameArrived connection decoder held frame >> go rest
        Nothing -> do
          more <- try (get 65536) :: IO (Either IOError ByteString)
          case more of
            Right piece | not (B.null piece) -> go (bytes <> piece)
            _ -> return ()
  go ""
  where
    Ends _ _ get = connectionEnds connection

frameArrived :: Connection -> Decoder -> IORef (Maybe (Bool, [ByteString])) -> Frame -> IO ()
frameArrived connection decoder held frame = case frameType frame of
  Headers -> blockPart (hasFlag EndStream frame) [unpadded]
  Continuation ->
    readIORef held >>= maybe (fail "CONTINUATION out of place") (\(end, parts) -> blockPart end (payload : parts))
  Data -> came (Bytes unpadded (B.length payload) (hasFlag EndStream frame))
  Reset -> came Cut
  Settings | not (hasFlag Ack frame) -> do
    forM_
      (lookup InitialWindowSize (settingsOf frame))
      (atomically . writeTVar (initialWindow connection) . fromIntegral)
    sendFrames connection [settingsAck]
  Ping | not (hasFlag Ack frame) -> sendFrames connection [pingAck payload]
  WindowUpdate
    | stream == 0 -> atomically (modifyTVar' (connectionWindow connection) (+ increment))
    | otherwise -> atomically (modifyTVar' (streamWindows connection) (Map.insertWith (+) stream increment))
  _ -> return ()
  where
    stream = frameStream frame
    payload = framePayload frame
    increment = fromIntegral (word32At 0 payload)
    unpadded
      | hasFlag Padded frame =
        let size = fromIntegral (B.head payload) in B.drop 1 (B.take (B.length payload - size) payload)
      | otherwise = payload
    blockPart end parts
      | hasFlag EndHeaders frame = do
        writeIORef held Nothing
        fields <- decodeBlock decoder (B.concat (reverse parts))
        came (Block fields end)
      | otherwise = writeIORef held (Just (end, parts))
    -- Ignores frames of other streams: their requests are over.
    came arrival = do
      wanted <- atomically $ do
        exchange <- readTVar (current connection)
        let isCurrent = fmap exchangeStream exchange == Just stream
        isCurrent <$ when isCurrent (writeTQueue (arrived connection) arrival)
      case arrival of
        Bytes _ size _ | not wanted && size > 0 -> sendFrames connection [windowUpdate 0 (fromIntegral size)]
        _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- Responses

-- At most this many bytes; none at the end.
receive :: Connection -> Int -> IO ByteString
receive connection most = do
  failed <- readTVarIO (hasFailed connection)
  enough <- if failed then registerDelay patienceMicros else newTVarIO False
  (result, exchange) <- atomically $ do
    bytes <- readTVar (output connection)
    ended <- readTVar (outputHasEnded connection)
    next <- if B.length bytes < most && not ended then tryReadTQueue (arrived connection) else return Nothing
    case next of
      Just arrival -> (,) (Left arrival) <$> readTVar (current connection)
      _
        | not (B.null bytes) ->
          (Right (B.take most bytes), Nothing) <$ writeTVar (output connection) (B.drop most bytes)
      _ | ended -> return (Right "", Nothing)
      Nothing ->
        readTVar (over connection) >>= maybe (awaitEnough enough) (either throwSTM (const (return (Right "", Nothing))))
  case result of
    Right bytes -> return bytes
    Left arrival -> do
      mapM_ (translate connection arrival) exchange
      receive connection most
  where
    patienceMicros = 300000
    awaitEnough enough = do
      readTVar enough >>= check
      readTVar (current connection) >>= check . isNothing
      (Right "", Nothing) <$ writeTVar (outputHasEnded connection) True

translate :: Connection -> Arrival -> Exchange -> IO ()
translate connection arrival exchange = case (arrival, exchangeFraming exchange) of
  (Block fields _, NoneYet) | B.isPrefixOf "1" (statusOf fields) -> write (headOf (statusOf fields) (ordinary fields))
  (Block fields end, NoneYet) -> do
    let isTunnel =
          B.isPrefixOf "2" (statusOf fields) && (exchangeIsUpgrade exchange || exchangeMethod exchange == "CONNECT")
        status = if isTunnel && exchangeIsUpgrade exchange then "101" else statusOf fields
        isPlain =
          isTunnel
            || isJust (lookup "content-length" fields)
            || exchangeMethod exchange == "HEAD"
            || status `elem` ["204", "304"]
        isChunked = not isPlain && exchangeVersion exchange /= "HTTP/1.0"
        framing =
          [("transfer-encoding", "chunked") | isChunked]
            ++ [("connection", "close") | exchangeIsLast exchange && not isTunnel]
        begun = exchange {exchangeFraming = if isChunked then Chunked else Plain}
    atomically (writeTVar (current connection) (Just begun) >> writeTVar (hasFailed connection) (status >= "400"))
    write (headOf status (ordinary fields ++ framing))
    when end (finish begun [])
  (Block trailers _, _) -> finish exchange trailers
  (Bytes bytes size end, framing) -> do
    unless (B.null bytes) . write $ case framing of
      Chunked -> C8.pack (showHex (B.length bytes) "\r\n") <> bytes <> "\r\n"
      _ -> bytes
    when (size > 0) $
      sendFrames
        connection
        (windowUpdate 0 (fromIntegral size) : [windowUpdate (exchangeStream exchange) (fromIntegral size) | not end])
    when end (finish exchange [])
  (Cut, _) -> atomically (writeTVar (current connection) Nothing >> endBoth) >> endSending connection
  where
    -- What the example has sent behind the last request gets nowhere.
    endBoth =
      writeTVar (outputHasEnded connection) True
        >> writeTVar (input connection) ""
        >> writeTVar (inputHasEnded connection) True
    write bytes = atomically (modifyTVar' (output connection) (<> bytes))
    statusOf = fromMaybe "" . lookup ":status"
    ordinary = filter (not . B.isPrefixOf ":" . fst)
    finish over' trailers = do
      let isLast = exchangeIsLast over' || exchangeIsUpgrade over'
      case exchangeFraming over' of
        Chunked -> write (B.concat ("0\r\n" : map row trailers ++ ["\r\n"]))
        _ -> return ()
      atomically $ do
        writeTVar (current connection) Nothing
        void (flushTQueue (arrived connection))
        when isLast endBoth
      when isLast (endSending connection)

headOf :: ByteString -> Fields -> ByteString
headOf status fields =
  B.concat
    ( ["HTTP/1.1 ", status, " ", statusMessage (toEnum (maybe 0 fst (C8.readInt status))), "\r\n"]
        ++ map row fields
        ++ ["\r\n"]
    )

-- A field name in its usual spelling.
row :: (ByteString, ByteString) -> ByteString
row (name, value) = B.concat [usual, ": ", value, "\r\n"]
  where
    usual = if name == "etag" then "ETag" else C8.intercalate "-" (map capital (C8.split '-' name))
    capital part = maybe part (\(first, rest) -> C8.cons (toUpper first) rest) (C8.uncons part)
