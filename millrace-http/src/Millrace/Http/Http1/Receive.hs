-- Must not know: responses, listeners.

-- |
-- Receives the requests of a connection, one after the other: waits for a head, has it parsed, checks what it says of
-- the request's body, and makes the WAI request.
module Millrace.Http.Http1.Receive (Next (..), receiveRequest, refusedRequest, requestLine) where

import Control.Exception (throwIO, toException)
import Control.Monad (when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Expectation (expectNothing, startExpecting)
import Millrace.Http.Http1.Body
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Exchange (numbered)
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire
import Millrace.Http.Request (keepTarget, makeRequest)
import Millrace.Http.Server.Context (Phase (..), ServerContext (..))
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Transport (isProtected)
import Network.Wai (Request)
import Network.Wai.Internal (RequestBodyLength (..))

-- | What a connection brings next.
data Next
  = -- | A request without a body.
    Bodiless !Request
  | -- | A request with a body, of which a part may have been received.
    WithBody !Request !BodyReader
  | -- | The client, or the server, has ended the connection between two requests.
    NoMore

-- | Waits for the next request. Throws an 'InvalidRequest' for one that is not valid or cannot be served; the input is
-- still at its beginning then. Throws what receiving throws.
receiveRequest :: Connection -> IO Next
receiveRequest connection = do
  size <- awaitHead connection
  if size > 0
    then acceptRequest connection size
    else if size == 0 then return NoMore else throwIO (invalidRequestFromError size)
{-# INLINE receiveRequest #-}

------------------------------------------------------------------------------------------------------------------------
-- Heads

-- The length of the next complete head; 0 if the client (or the server) has ended the connection between requests; or
-- an error of the parser.
awaitHead :: Connection -> IO Int
awaitHead connection = do
  working <- isWorking connection
  count <- if working then (parser connection >>= resetParser) >> inputCount connection else return 0
  if count == 0
    then awaitFirstBytes connection MayStayIdle
    else do
      startTotalDeadline connection
      size <- parseInput connection
      idle <- if size == 0 then dropEmptyLines connection else return False
      afterFirstBytes size idle (flushOutput connection >> awaitRest connection)
  where
    afterFirstBytes size idle continue
      | size /= 0 = return size
      | idle = awaitFirstBytes connection HasHadEmptyLines
      | otherwise = continue

-- Empty lines leave a connection idle once per request. From the second time on they count as the beginning of a head,
-- so that a client cannot keep a connection for ever with them.
data Patience = MayStayIdle | HasHadEmptyLines
  deriving (Eq)

-- Skips empty lines, which do not begin a request (RFC 9112, section 2.2); some clients send one behind a body. True if
-- nothing else has arrived, so that the connection is as idle as before.
dropEmptyLines :: Connection -> IO Bool
dropEmptyLines connection = do
  state <- parser connection
  idle <- (/= 0) <$> parserIsIdle state
  when idle $ do
    inputCount connection >>= dropInput connection
    resetParser state
    clearTotalDeadline connection
  return idle
{-# NOINLINE dropEmptyLines #-}

parseInput :: Connection -> IO Int
parseInput connection = do
  bytes <- inputBytes connection
  count <- inputCount connection
  state <- parser connection
  runParser state bytes count

-- No byte of the next request is here: a kept connection waits at this point.
awaitFirstBytes :: Connection -> Patience -> IO Int
awaitFirstBytes connection patience = do
  working <- isWorking connection
  writeStage connection BetweenRequests
  becomeIdle connection
  phase <- readIORef (serverPhase (connectionServer connection))
  if phase == Over
    then 0 <$ when working (finishResponse connection)
    else do
      arrival <- if working then startNextRequest connection else beginWork connection
      becomeBusy connection
      case arrival of
        Unsent -> finishResponse connection >> awaitFirstBytes connection patience
        Ended -> 0 <$ reportEarlyClose connection
        Arrived -> do
          startTotalDeadline connection
          size <- parseInput connection
          idle <- if size == 0 && patience == MayStayIdle then dropEmptyLines connection else return False
          continue size idle
  where
    continue size idle
      | size /= 0 = return size
      | idle = awaitFirstBytes connection HasHadEmptyLines
      | otherwise = awaitRest connection

-- Taken if the client does not take its response as fast as the server sends it, or if no other request can follow.
finishResponse :: Connection -> IO ()
finishResponse connection = do
  becomeBusy connection
  writeStage connection InResponse
  flushOutput connection
  endWork connection
{-# NOINLINE finishResponse #-}

-- A client that connects and leaves is reported once, and by default not displayed.
reportEarlyClose :: Connection -> IO ()
reportEarlyClose connection = do
  requests <- requestCount connection
  when (requests == 0) (report connection Nothing (toException ConnectionClosedByPeer))

-- The first bytes of a head are here. From now on there is one deadline for the whole head. A client that has sent only
-- empty lines gets no response when the connection ends.
awaitRest :: Connection -> IO Int
awaitRest connection = do
  deadline <- phaseDeadline connection (headMicros (connectionLimits connection))
  go deadline
  where
    go deadline = do
      silent <- (/= 0) <$> (parser connection >>= parserIsIdle)
      writeStage connection (if silent then BetweenRequests else InHead)
      count <- fillInput connection deadline
      if count == 0
        then endEarly silent
        else do
          size <- parseInput connection
          if size /= 0 then return size else go deadline
    endEarly silent
      | silent = 0 <$ reportEarlyClose connection
      | otherwise = do
        -- If the server itself has ended the head, that is not the client's mistake. Without a response it may send the
        -- request again (RFC 9112, section 9.3.1).
        isOurs <- hasGivenWay connection
        if isOurs then return 0 else throwIO IncompleteHeaders

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- Makes the request whose head has this length.
acceptRequest :: Connection -> Int -> IO Next
acceptRequest connection size = do
  countRequest connection
  requests <- requestCount connection
  writeStage connection InRequest
  writeRequest connection keepsOpen (requests < requestsMax limits)
  requestHead <- parser connection
  flags <- headFlags requestHead
  bodyLength <- headContentLength requestHead
  when (flags .&. (flagExpectOther .|. flagHttps) /= 0) (mapM_ throwIO (unservable flags))
  when (fromIntegral bodyLength > bodyBytesMax limits) (throwIO PayloadTooLarge)
  (if flags .&. flagExpectContinue /= 0 && hasBody flags bodyLength then startExpecting else expectNothing)
    (connectionExpectation connection)
  bytes <- inputBytes connection
  if hasBody flags bodyLength
    then acceptBody connection bytes size (knownLength flags bodyLength)
    else do
      writeRequest connection bodyUnread (UnreadBytes 0)
      request <- newRequest connection bytes size noBody (KnownLength 0)
      dropInput connection size
      return (Bodiless request)
  where
    limits = connectionLimits connection
    knownLength flags bodyLength = if flags .&. flagChunked /= 0 then Nothing else Just (fromIntegral bodyLength)
    hasBody flags bodyLength = flags .&. flagChunked /= 0 || bodyLength > 0
    -- RFC 9110, section 7.4: requests for https only on a protected connection.
    unservable flags
      | flags .&. flagHttps /= 0 && not (isProtected (connectionTransport connection)) = Just MisdirectedRequest
      | flags .&. flagExpectOther /= 0 = Just UnsupportedExpectation
      | otherwise = Nothing
{-# INLINE acceptRequest #-}

acceptBody :: Connection -> Ptr Word8 -> Int -> Maybe Int -> IO Next
acceptBody connection bytes size known = do
  body <- newBodyReader connection known
  request <-
    newRequest
      connection
      bytes
      size
      (readBody connection body)
      (maybe ChunkedBody (KnownLength . fromIntegral) known)
  dropInput connection size
  -- The client may wait for earlier responses before it sends the body.
  buffered <- inputCount connection
  when (maybe True (> buffered) known) (flushOutput connection)
  return (WithBody request body)

newRequest :: Connection -> Ptr Word8 -> Int -> IO ByteString -> RequestBodyLength -> IO Request
newRequest connection bytes size body bodyLength = do
  requestHead <- parser connection
  number <- requestCount connection
  request <-
    makeRequest requestHead bytes size (connectionTransport connection) (vaultOf connection number) body bodyLength
  if settingsNoParsePath (serverSettings (connectionServer connection))
    then keepTarget requestHead bytes request
    else return request
{-# NOINLINE newRequest #-}

-- The vault of a request. Not inlined: most applications never use it, and then it costs one small thunk.
vaultOf :: Connection -> Int -> Vault
vaultOf connection number =
  contextVault (Context (numbered connection number) (connectionServer connection))
{-# NOINLINE vaultOf #-}

noBody :: IO ByteString
noBody = return B.empty

------------------------------------------------------------------------------------------------------------------------
-- Requests that are refused

-- | The request, if its head is complete and valid. Parses the head once more: refusing may be slow.
refusedRequest :: Connection -> IO (Maybe Request)
refusedRequest connection = do
  requestHead <- parser connection
  resetParser requestHead
  size <- parseInput connection
  if size <= 0
    then return Nothing
    else do
      flags <- headFlags requestHead
      bodyLength <- headContentLength requestHead
      bytes <- inputBytes connection
      Just
        <$> newRequest
          connection
          bytes
          size
          noBody
          (if flags .&. flagChunked /= 0 then ChunkedBody else KnownLength (fromIntegral (max 0 bodyLength)))

-- | The part of the request line that has arrived, after empty lines (RFC 9112, section 2.2).
requestLine :: Connection -> IO ByteString
requestLine connection = do
  bytes <- inputBytes connection
  count <- inputCount connection
  text <- C8.dropWhile (`elem` "\r\n") <$> B.packCStringLen (castPtr bytes, count)
  let line = C8.takeWhile (/= '\n') (B.take (longestLine (targetMax (connectionLimits connection))) text)
  return (fromMaybe line (B.stripSuffix (C8.pack "\r") line))
  where
    longestLine target = methodLengthMax + 1 + target + B.length (C8.pack " HTTP/1.1\r")
