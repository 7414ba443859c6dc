-- |
-- Serves a connection: request after request, until one side ends it. Must not know: listeners.
--
-- The loop over requests is tail-recursive, so nothing is on the stack between two requests. With a stack frame per
-- request every park would have to walk a longer stack.
module Millrace.Http.Http1.Session (runSession, refuse, isLeaving) where

import Control.Exception
  ( Exception (..),
    IOException,
    SomeException,
    catch,
    evaluate,
    onException,
    throwIO,
    toException,
  )
import Control.Monad (unless, void, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.Maybe (fromMaybe, isJust)
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import GHC.IO (unsafeDupableInterleaveIO)
import Millrace.Http.Answer.Application
  ( Refusal (..),
    Service,
    answerByApplication,
    answerRefused,
    newService,
    withinTotalTime,
  )
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Exchange (Exchange)
import Millrace.Http.Expectation (expectNothing, startExpecting)
import Millrace.Http.Farewell (linger, lingerMicros)
import Millrace.Http.Http1.Body
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Exchange (exchangeWithBody, exchangeWithoutBody, numbered, sendWaiting)
import Millrace.Http.Http1.Life (endRequest)
import Millrace.Http.Http1.Request (keepTarget, makeRequest)
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire
import Millrace.Http.Server.Context (Phase (..), ServerContext (..))
import Millrace.Http.Server.Limits (Limits (..), millisInMicros)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Transport (hasArrived, isProtected)
import Network.HTTP.Types (methodGet, methodHead)
import Network.Wai (Application, Request)
import Network.Wai.Internal (RequestBodyLength (..))

-- | Serves a connection that works on its first bytes, until it ends, in the thread that works on it. Reports exceptions
-- through the settings. Throws only asynchronous ones.
runSession :: Connection -> Application -> IO ()
runSession connection application =
  asThunk
    ( serve
        connection
        (serviceOf connection (exchangeWithoutBody connection))
        (withinTotalTime (connectionLimits connection) application)
    )
    `catch` \failure -> endRequest connection >> endSession connection failure
{-# INLINE runSession #-}

-- Runs an action as the evaluation of a thunk. When a thread parks, GHC's threadPaused walks its stack down to the
-- first update frame that it has already marked. The handlers below this frame are half of a parked connection's stack
-- and never change, so this saves walking them (decision 17).
asThunk :: IO a -> IO a
asThunk action = unsafeDupableInterleaveIO action >>= evaluate
{-# NOINLINE asThunk #-}

-- The vault of a request. Not inlined: most applications never use it, and then it costs one small thunk.
vaultOf :: Connection -> Int -> Vault
vaultOf connection number =
  contextVault (Context (numbered connection number) (serverFiles (connectionServer connection)))
{-# NOINLINE vaultOf #-}

-- | Whether all responses were sent, and only the client's end of the connection is missing. Any thread may call this.
isLeaving :: Connection -> IO Bool
isLeaving connection = (== InFarewell) <$> readStage connection

serviceOf :: Connection -> Exchange -> Service
serviceOf connection = newService (connectionServer connection)

serve :: Connection -> Service -> Application -> IO ()
serve connection service application = do
  size <- awaitHead connection
  if size > 0
    then do
      keep <- serveRequest connection service application size
      if keep then serve connection service application else closeAfterResponse connection
    else unless (size == 0) (throwIO (invalidRequestFromError size))

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

-- True if another request may follow.
serveRequest :: Connection -> Service -> Application -> Int -> IO Bool
serveRequest connection bodiless application size = do
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
    then do
      let known = if flags .&. flagChunked /= 0 then Nothing else Just (fromIntegral bodyLength)
      body <- newBodyReader connection known
      let exchange = exchangeWithBody connection body
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
      complete <-
        (runApplication connection (serviceOf connection exchange) application request >> finishBody connection body)
          `onException` forsakeBody connection body
      keep <- readRequest connection keepsOpen
      return (complete && keep)
    else do
      writeRequest connection bodyUnread (UnreadBytes 0)
      request <- newRequest connection bytes size noBody (KnownLength 0)
      dropInput connection size
      runApplication connection bodiless application request
      readRequest connection keepsOpen
  where
    limits = connectionLimits connection
    hasBody flags bodyLength = flags .&. flagChunked /= 0 || bodyLength > 0
    -- RFC 9110, section 7.4: requests for https only on a protected connection.
    unservable flags
      | flags .&. flagHttps /= 0 && not (isProtected (connectionTransport connection)) = Just MisdirectedRequest
      | flags .&. flagExpectOther /= 0 = Just UnsupportedExpectation
      | otherwise = Nothing

-- Sends the responses to earlier requests, so that the client need not wait for them while the application runs.
runApplication :: Connection -> Service -> Application -> Request -> IO ()
runApplication connection service application request = do
  sendWaiting connection
  answerByApplication service application request
  endRequest connection
  void (acquireOutput connection)
{-# INLINE runApplication #-}

newRequest :: Connection -> Ptr Word8 -> Int -> IO ByteString -> RequestBodyLength -> IO Request
newRequest connection bytes size body bodyLength = do
  requestHead <- parser connection
  number <- requestCount connection
  request <-
    makeRequest requestHead bytes size (connectionTransport connection) (vaultOf connection number) body bodyLength
  if settingsNoParsePath (settingsOf connection) then keepTarget requestHead bytes request else return request
{-# NOINLINE newRequest #-}

noBody :: IO ByteString
noBody = return B.empty

------------------------------------------------------------------------------------------------------------------------
-- Ends

settingsOf :: Connection -> Settings
settingsOf = serverSettings . connectionServer

-- The last response is in the output. The socket can be closed behind it if the client has ended its side and there is
-- no unread input. The kernel may still hold some: some clients send an empty line behind a body.
closeAfterResponse :: Connection -> IO ()
closeAfterResponse connection = do
  flushLast connection
  unread <- inputCount connection
  allRead <- isAllRead <$> readRequest connection bodyUnread
  flags <- parser connection >>= headFlags
  more <-
    if unread > 0 || not allRead || flags .&. flagKeepAlive /= 0
      then return True
      else hasArrived (connectionTransport connection)
  if more
    then farewell connection lingerMicros
    else when (farewellMicros > 0) (farewell connection farewellMicros)
  where
    farewellMicros = millisInMicros (settingsGracefulClose1Millis (settingsOf connection))
{-# NOINLINE closeAfterResponse #-}

-- An exception has ended the session outside of the application.
endSession :: Connection -> SomeException -> IO ()
endSession connection failure = do
  when (isAsynchronous failure) (throwIO failure)
  reached <- readStage connection
  case fromException failure of
    Just reason -> refuse connection reason
    Nothing
      | isTimeExpired failure && reached == InHead -> refuse connection RequestTimedOut
      | isTimeExpired failure && reached == BetweenRequests -> return ()
      | otherwise -> do
        report connection Nothing failure
        -- A send has failed, and has ended the connection. Reading the client's further bytes prevents a reset, which
        -- could destroy the response on its way.
        when (reached == InResponse) (farewell connection lingerMicros)

-- | Answers input that is not a valid request, or that cannot be served, then closes (RFC 9112, section 9.6). The input
-- is still at its beginning.
refuse :: Connection -> InvalidRequest -> IO ()
refuse connection reason = do
  report connection Nothing (toException reason)
  working <- isWorking connection
  when working . (`catch` unsaid) $ do
    clearTotalDeadline connection
    -- What the parser has found is valid: a refused HEAD request gets no body either.
    method <- parser connection >>= headMethod
    expectNothing (connectionExpectation connection)
    writeRequest connection bodyUnread (UnreadBytes 0)
    answerRefused (serviceOf connection (exchangeWithoutBody connection)) $
      Refusal
        { refusalReason = reason,
          refusalMethod = if method == methodCodeHead then methodHead else methodGet,
          refusalAsked = (,) <$> refusedRequest connection <*> requestLine connection
        }
    flushOutput connection
    farewell connection lingerMicros
  where
    -- It is not worth a report that the client has gone, but it is worth one that a request got no response.
    unsaid second = unless (isAsynchronous second || isInputOutput second) (report connection Nothing second)
    isInputOutput second = isJust (fromException second :: Maybe IOException)

-- The request, if its head is complete and valid. Parses the head once more: refusing may be slow.
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

-- The part of the request line that has arrived, after empty lines (RFC 9112, section 2.2).
requestLine :: Connection -> IO ByteString
requestLine connection = do
  bytes <- inputBytes connection
  count <- inputCount connection
  text <- C8.dropWhile (`elem` "\r\n") <$> B.packCStringLen (castPtr bytes, count)
  let line = C8.takeWhile (/= '\n') (B.take (longestLine (targetMax (connectionLimits connection))) text)
  return (fromMaybe line (B.stripSuffix (C8.pack "\r") line))
  where
    longestLine target = methodLengthMax + 1 + target + B.length (C8.pack " HTTP/1.1\r")

farewell :: Connection -> Int -> IO ()
farewell connection micros = writeStage connection InFarewell >> linger (connectionTransport connection) micros
