{-# LANGUAGE MagicHash #-}
{-# LANGUAGE ScopedTypeVariables #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- The life of a connection: request after request, until one side has had enough. Knows nothing of listening and of
-- other connections.
--
-- The loop over requests is tail-recursive and nothing is on the stack between two requests: a frame per request would
-- make every park walk a longer stack.
module Millrace.Http.Session (runSession, isLeaving) where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Concurrent.MVar (newEmptyMVar, takeMVar, tryPutMVar, tryTakeMVar)
import Control.Exception
  ( Exception (..),
    IOException,
    SomeException,
    catch,
    evaluate,
    finally,
    mask,
    mask_,
    onException,
    throwIO,
    toException,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (join, unless, void, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.Maybe (fromMaybe, isJust, isNothing)
import Data.Vault.Lazy (Vault)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import GHC.Exts (casMutVar#)
import GHC.IO (IO (..), unsafeDupableInterleaveIO)
import GHC.IORef (IORef (..))
import GHC.STRef (STRef (..))
import Millrace.Deadline (Deadline, deadlineAfter, earlier, monotonicNanoseconds)
import Millrace.Http.Answer (Answer (..))
import Millrace.Http.Arrival (hasArrived)
import Millrace.Http.Body
import Millrace.Http.Connection
import Millrace.Http.Context (Context (..), contextVault, earlyHints, liftedBy)
import Millrace.Http.Endpoint (Endpoint (..), Phase (..))
import Millrace.Http.Exception
import Millrace.Http.Expectation (setExpectation)
import Millrace.Http.Limits (Limits (..), millisInMicros)
import Millrace.Http.Proxy (readProxyHeader)
import Millrace.Http.Request (keepTarget, makeRequest)
import Millrace.Http.Response
import Millrace.Http.Settings (Settings (..))
import Millrace.Http.Wire
import Millrace.Http.Worker (isThisThread)
import Millrace.Socket (ShutdownCmd (..), shutdown)
import Millrace.Socket.ByteString (recvBefore)
import Millrace.Timer (liftableTimeout)
import Network.HTTP.Types (ResponseHeaders)
import Network.Wai (Application, Request, defaultRequest)
import Network.Wai.Internal (RequestBodyLength (..), Response (..), ResponseReceived (..))

-- | Serves a connection until it is over, in the thread that is at work on it. Returns when the socket is to be closed.
-- Exceptions are reported through the settings; only asynchronous ones are thrown on.
runSession :: Connection -> Application -> IO ()
runSession connection application = do
  outcome <- try (readProxyHeader connection)
  case outcome of
    Left failure -> forgetInput connection >> endSession connection failure
    Right told ->
      let known = maybe connection (\peer -> connection {connectionPeer = peer}) told
       in asThunk (serve known (limited known application)) `catch` endSession known

-- Runs an action as the evaluation of a thunk. When a thread parks, GHC's threadPaused goes through its stack, down to the
-- first update frame that it has met before. Handlers and clean-up that stand below this one are half of what a parked
-- connection has on its stack, and never change (decision 17).
asThunk :: IO a -> IO a
asThunk action = unsafeDupableInterleaveIO action >>= evaluate
{-# NOINLINE asThunk #-}

-- What applications can ask for besides the request. Out of line: most do not, and then it is one small thunk.
vaultOf :: Connection -> Vault
vaultOf connection =
  contextVault
    Context
      { contextSocket = connectionSocket connection,
        contextFiles = endpointFiles (connectionEndpoint connection),
        contextHints = inOwnThread . sendHints connection,
        contextPause = \lift -> inOwnThread (clearTotalDeadline connection >> lift)
      }
  where
    -- No other thread is known not to be past the request.
    inOwnThread action = do
      own <- isThisThread (connectionWorker connection)
      working <- isWorking connection
      when (own && working) action
{-# NOINLINE vaultOf #-}

sendHints :: Connection -> ResponseHeaders -> IO ()
sendHints connection fields = do
  phase <- readPhase connection
  flags <- parser connection >>= headFlags
  -- RFC 9110, section 15.2: no 1xx to HTTP/1.0.
  when (phase == inRequest && flags .&. flagVersion11 /= 0) $ do
    settleEarlyFlush connection
    hints <- either throwIO return (earlyHints fields)
    flushOutput connection
    sendString connection hints

-- Where a connection is, for 'endSession', 'sendHints' and 'isLeaving'.
betweenRequests, inHead, inRequest, inResponse, inFarewell :: Int
betweenRequests = 0
inHead = 1
inRequest = 2
inResponse = 3
inFarewell = 4

-- | Has all been said, and only the client's end is waited for? May be asked by any thread.
isLeaving :: Connection -> IO Bool
isLeaving connection = (== inFarewell) <$> readPhase connection

serve :: Connection -> Application -> IO ()
serve connection application = do
  size <- awaitHead connection
  if size > 0
    then do
      keep <- serveRequest connection application size
      if keep then serve connection application else closeAfterResponse connection
    else when (size < 0) (throwIO (invalidRequestFromError size))

------------------------------------------------------------------------------------------------------------------------
-- Heads

-- The length of the next complete head, 0 if the client (or the server) has ended the connection between requests, or
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
      case () of
        _
          | size /= 0 -> return size
          | idle -> awaitFirstBytes connection HasHadEmptyLines
          | otherwise -> flushOutput connection >> awaitRest connection

-- Empty lines leave a connection idle once per request. From the second time on they count as the beginning of a head:
-- whoever sends nothing else is not there for ever.
data Patience = MayStayIdle | HasHadEmptyLines
  deriving (Eq)

-- Empty lines are no beginning of a request (RFC 9112, section 2.2); some clients send one behind a body. Of a connection
-- on which nothing else has come: True, and it is as idle as before.
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

-- Nothing of the next request is here: this is where a kept connection waits.
awaitFirstBytes :: Connection -> Patience -> IO Int
awaitFirstBytes connection patience = do
  working <- isWorking connection
  writePhase connection betweenRequests
  setIdle connection True
  phase <- readIORef (endpointPhase (connectionEndpoint connection))
  if phase == Over
    then 0 <$ when working (finishResponse connection)
    else do
      count <- if working then turnAround connection else beginWork connection
      setIdle connection False
      case compare count 0 of
        LT -> finishResponse connection >> awaitFirstBytes connection patience
        EQ -> 0 <$ reportEarlyClose connection
        GT -> do
          startTotalDeadline connection
          size <- parseInput connection
          idle <- if size == 0 && patience == MayStayIdle then dropEmptyLines connection else return False
          case () of
            _
              | size /= 0 -> return size
              | idle -> awaitFirstBytes connection HasHadEmptyLines
              | otherwise -> awaitRest connection

-- The client does not take its response as fast as we send it, or there will be no other request.
finishResponse :: Connection -> IO ()
finishResponse connection = do
  setIdle connection False
  writePhase connection inResponse
  flushOutput connection
  endWork connection
{-# NOINLINE finishResponse #-}

-- A client that connects and leaves is reported once, and not displayed by default.
reportEarlyClose :: Connection -> IO ()
reportEarlyClose connection = do
  requests <- requestCount connection
  when (requests == 0) (report connection Nothing (toException ConnectionClosedByPeer))

-- The first bytes of a head are here: from now on there is one deadline for all of it, however slowly it comes. A client
-- that has sent nothing but empty lines asks for nothing, and gets no answer when the connection ends.
awaitRest :: Connection -> IO Int
awaitRest connection = do
  deadline <- phaseDeadline connection (headMicros (connectionLimits connection))
  go deadline
  where
    go deadline = do
      silent <- (/= 0) <$> (parser connection >>= parserIsIdle)
      writePhase connection (if silent then betweenRequests else inHead)
      count <- fillInput connection deadline
      case () of
        _
          | count == 0 && silent -> 0 <$ reportEarlyClose connection
          | count == 0 -> throwIO IncompleteHeaders
          | otherwise -> do
            size <- parseInput connection
            if size /= 0 then return size else go deadline

------------------------------------------------------------------------------------------------------------------------
-- Requests

-- True if another request may follow.
serveRequest :: Connection -> Application -> Int -> IO Bool
serveRequest connection application size = do
  countRequest connection
  requests <- requestCount connection
  writePhase connection inRequest
  writeRegister connection keepRegister (if requests < requestsMax limits then 1 else 0)
  requestHead <- parser connection
  flags <- headFlags requestHead
  bodyLength <- headContentLength requestHead
  when (flags .&. (flagExpectOther .|. flagHttps) /= 0) (throwIO (unservable flags))
  when (fromIntegral bodyLength > bodyBytesMax limits) (throwIO PayloadTooLarge)
  setExpectation (connectionExpectation connection) (flags .&. flagExpectContinue /= 0 && hasBody flags bodyLength)
  bytes <- inputBytes connection
  if hasBody flags bodyLength
    then do
      let known = if flags .&. flagChunked /= 0 then Nothing else Just (fromIntegral bodyLength)
      body <- newBodyReader connection known
      request <-
        newRequest connection bytes size (readBody connection body) (maybe ChunkedBody (KnownLength . fromIntegral) known)
      dropInput connection size
      -- The client may wait for earlier responses before it sends the body.
      buffered <- inputCount connection
      when (maybe True (> buffered) known) (flushOutput connection)
      complete <-
        (runApplication connection application request (foreseeEnd connection body) >> finishBody connection body)
          `onException` forsakeBody connection body
      keep <- readRegister connection keepRegister
      return (complete && keep /= 0)
    else do
      writeRegister connection bodyPendingRegister 0
      request <- newRequest connection bytes size noBody (KnownLength 0)
      dropInput connection size
      runApplication connection application request (\_ -> return ())
      keep <- readRegister connection keepRegister
      return (keep /= 0)
  where
    limits = connectionLimits connection
    hasBody flags bodyLength = flags .&. flagChunked /= 0 || bodyLength > 0
    -- RFC 9110, section 7.4: https only on a connection that is.
    unservable flags = if flags .&. flagHttps /= 0 then MisdirectedRequest else UnsupportedExpectation

newRequest :: Connection -> Ptr Word8 -> Int -> IO ByteString -> RequestBodyLength -> IO Request
newRequest connection bytes size body bodyLength = do
  requestHead <- parser connection
  request <- makeRequest requestHead bytes size (connectionPeer connection) (vaultOf connection) body bodyLength
  if settingsNoParsePath (settingsOf connection) then keepTarget requestHead bytes request else return request
{-# NOINLINE newRequest #-}

noBody :: IO ByteString
noBody = return B.empty

-- How far the answer to a request is. Only the thread that has moved it to one of the states of answering may touch the
-- output.
data Progress
  = Unanswered
  | -- In the thread that the application was called in; or it has failed there, and the application has caught that.
    Answering
  | -- In another thread.
    AnsweringElsewhere !Hold
  | -- It has failed there.
    FailedElsewhere
  | Answered
  | Past
  deriving (Eq)

-- Begins the first answer in the thread that the application was called in; False if it may not be the first. Allocates
-- nothing, as 'atomicModifyIORef\'' does.
beginFirst :: IORef Progress -> IO Bool
beginFirst (IORef (STRef progress)) = IO $ \s -> case casMutVar# progress Unanswered Answering s of
  (# s', 0#, _ #) -> (# s', True #)
  (# s', _, _ #) -> (# s', False #)

-- Begins an answer, and says whether it is the first. What an attempt that has failed has left must be taken back.
begin :: IORef Progress -> Progress -> IO Bool
begin progress next = join . atomicModifyIORef' progress $ \now -> case now of
  Unanswered -> (next, return True)
  FailedElsewhere -> (next, return False)
  Answering | next == Answering -> (next, return False)
  Past -> (now, throwIO UsedTooLate)
  _ -> (now, throwIO RespondedTwice)

-- The answer that another thread has begun goes on to this, unless the application has ended.
endElsewhere :: IORef Progress -> Progress -> IO ()
endElsewhere progress next = atomicModifyIORef' progress $ \now -> (if now == Past then now else next, ())

-- The application has ended. How far it came with its answer; nobody works on that any more.
conclude :: Connection -> IORef Progress -> IO Progress
conclude connection progress = do
  reached <- readIORef progress
  case reached of
    Answered -> Answered <$ writeIORef progress Past
    _ -> mask_ (atomicModifyIORef' progress (Past,) >>= expel connection)

-- Another thread of the application's may be working on the connection, whose memory is not ours before it has let go. The
-- connection ends then, and so does what that thread waits for; of the output nothing is known.
expel :: Connection -> Progress -> IO Progress
expel connection (AnsweringElsewhere hold) = uninterruptibleMask_ $ do
  free <- tryTakeMVar hold
  when (isNothing free) (breakConnection connection >> takeMVar hold)
  _ <- tryPutMVar hold ()
  return (if isNothing free then Past else FailedElsewhere)
expel _ reached = return reached

-- Was an answer begun that is not complete?
isBroken :: Progress -> Bool
isBroken reached = reached == Answering || reached == FailedElsewhere

-- To be run before a response is composed. May that be made of the request's body?
type Beforehand = Bool -> IO ()

runApplication :: Connection -> Application -> Request -> Beforehand -> IO ()
runApplication connection application request beforehand = case endpointObservers (connectionEndpoint connection) of
  [] -> answerByApplication connection application request beforehand
  observers -> observed connection observers (Just request) Nothing B.empty $ \told ->
    answerByApplication told application request beforehand

answerByApplication :: Connection -> Application -> Request -> Beforehand -> IO ()
answerByApplication connection application request beforehand = do
  thread <- myThreadId
  progress <- newIORef Unanswered
  sendSoon connection
  outcome <- served progress thread `catch` \failure -> Left . (,) failure <$> conclude connection progress
  case outcome of
    Right () -> settleEarlyFlush connection
    Left (failure, reached)
      | isAsynchronous failure -> abandon connection reached >> throwIO failure
      | otherwise -> recover connection request reached beforehand failure
  where
    -- What the application returns may be lazy, and that fail. Of two exceptions that come at once the second one is thrown as
    -- soon as the first one's handler ends; nothing may go on before this is concluded.
    served progress thread = do
      ResponseReceived <- application request (respond connection request thread progress beforehand)
      reached <- conclude connection progress
      return $! (if reached == Answered then Right () else Left (toException NotResponded, reached))

-- Only if the settings ask for it is an application interrupted. Its operations on the client have the same limit, and
-- a little earlier, so that a slow client makes them fail and is no reason to interrupt.
limited :: Connection -> Application -> Application
limited connection application
  | micros == 0 = application
  | otherwise = \request respond' -> do
    outcome <- liftableTimeout (micros + graceMicros) $ \lift -> application (liftedBy lift request) respond'
    maybe (throwIO ApplicationTimedOut) return outcome
  where
    micros = totalMicros (connectionLimits connection)
    graceMicros = 200000

-- Runs what answers, and tells of the answer, however that ends.
observed :: Connection -> [Answer -> IO ()] -> Maybe Request -> Maybe InvalidRequest -> ByteString -> (Connection -> IO ()) -> IO ()
observed connection observers request refusal line answering = do
  writeRegister connection responseCutRegister 0
  status <- newIORef Nothing
  start <- monotonicNanoseconds
  answering connection {connectionStatus = Just status}
    `onException` (writeRegister connection responseCutRegister 1 >> tell status start)
  -- Who is told may wait for something; the client does not wait for that.
  sendSoon connection
  tell status start
  settleEarlyFlush connection
  where
    tell place start = do
      size <- readRegister connection responseBytesRegister
      cut <- readRegister connection responseCutRegister
      now <- monotonicNanoseconds
      let bytes = if size < 0 then Nothing else Just size
          told status = Answer (connectionPeer connection) request refusal line status bytes (cut /= 0) (now - start)
      -- Without a status there was no answer, or a raw one.
      readIORef place >>= mapM_ (\status -> mapM_ (guarded (told status)) observers)
    guarded told observer =
      observer told `catch` \failure -> if isAsynchronous failure then throwIO failure else report connection request failure
{-# NOINLINE observed #-}

-- The thread is the one that the application was called in.
respond :: Connection -> Request -> ThreadId -> IORef Progress -> Beforehand -> Response -> IO ResponseReceived
respond connection request thread progress beforehand response = do
  self <- myThreadId
  if self == thread
    then do
      isFirst <- beginFirst progress
      unless isFirst (begin progress Answering >>= takeBackUnless connection)
      compose connection request progress beforehand Nothing response
      -- The client may be waited for here: an application that gives that up has not responded yet.
      settleEarlyFlush connection
      writeIORef progress Answered
      -- The application may have other things to do before it returns; the client does not wait for that.
      sendSoon connection
    else answerElsewhere progress $ \hold isFirst -> do
      takeBackUnless connection isFirst
      compose connection request progress beforehand (Just hold) response
      sendSoon connection
  return ResponseReceived

-- The application has caught an exception that its first response raised, and tries another one; or it does so within its
-- first response.
takeBackUnless :: Connection -> Bool -> IO ()
takeBackUnless connection isFirst = unless isFirst $ do
  streams <- readRegister connection streamingRegister
  restarted <- if streams == 0 then takeBack connection else return False
  unless restarted (throwIO RespondedTwice)
{-# NOINLINE takeBackUnless #-}

-- Takes back what there is of a response; False if some of it was sent already. An exception may have come while the responses
-- before it were waited for, and it had not begun.
takeBack :: Connection -> IO Bool
takeBack connection = do
  phase <- readPhase connection
  if phase == inResponse then restartResponse connection else return True

compose :: Connection -> Request -> IORef Progress -> Beforehand -> Maybe Hold -> Response -> IO ()
compose connection request progress beforehand hold response = do
  settleEarlyFlush connection
  beginResponse connection
  -- It may be made lazily, all of it, and that take its time; the responses before it do not wait for that.
  sendSoon connection
  beforehand $! isStream response
  answer connection request ((== Past) <$> readIORef progress) hold response

isStream :: Response -> Bool
isStream ResponseStream {} = True
isStream _ = False

-- What waits in the output goes out when this thread waits for something, unless that is settled before.
sendSoon :: Connection -> IO ()
sendSoon connection = do
  waiting <- outputEnd connection
  when (waiting > 0) $ do
    settleEarlyFlush connection
    left <- outputEnd connection
    when (left > 0) (armEarlyFlush connection)
{-# NOINLINE sendSoon #-}

-- The thread that the application was called in may end before this one does. 'expel' waits for it to let go.
answerElsewhere :: IORef Progress -> (Hold -> Bool -> IO ()) -> IO ()
answerElsewhere progress answering = mask $ \restore -> do
  hold <- newEmptyMVar
  isFirst <- begin progress (AnsweringElsewhere hold)
  ((restore (answering hold isFirst) >> endElsewhere progress Answered) `onException` endElsewhere progress FailedElsewhere)
    `finally` tryPutMVar hold ()
{-# NOINLINE answerElsewhere #-}

beginResponse :: Connection -> IO ()
beginResponse connection = do
  outputEnd connection >>= writeRegister connection responseStartRegister
  readRegister connection sendsRegister >>= writeRegister connection responseSendsRegister
  writePhase connection inResponse

-- The application threw. If nothing of its response was sent the client gets another one, and the connection goes on;
-- otherwise only closing it can tell the client that the response is incomplete.
recover :: Connection -> Request -> Progress -> Beforehand -> SomeException -> IO ()
recover connection request reached beforehand failure = do
  settleEarlyFlush connection
  clearTotalDeadline connection
  report connection (Just request) failure
  clean <- if reached == Unanswered || isBroken reached then takeBack connection else return False
  if clean
    then do
      beginResponse connection
      unless (keepsFraming failure) (writeRegister connection keepRegister 0)
      beforehand False
      answer connection request (return False) Nothing (settingsOnExceptionResponse (settingsOf connection) failure)
        `onException` abandon connection Answering
    else do
      writeRegister connection keepRegister 0
      unless (reached == Answered) $ writeRegister connection responseCutRegister 1 >> setOutputEnd connection 0

-- The session ends in a request that is not answered. The responses to those before it are whole, and go out.
abandon :: Connection -> Progress -> IO ()
abandon connection reached = void . (try :: IO () -> IO (Either SomeException ())) $ do
  settleEarlyFlush connection
  clean <- if isBroken reached then takeBack connection else return True
  when clean (flushOutput connection)
{-# NOINLINE abandon #-}

-- After a fault of the client's, where the next request begins is in doubt.
keepsFraming :: SomeException -> Bool
keepsFraming failure = case fromException failure of
  Just (_ :: InvalidRequest) -> False
  Nothing -> True

------------------------------------------------------------------------------------------------------------------------
-- Ends

settingsOf :: Connection -> Settings
settingsOf = endpointSettings . connectionEndpoint

-- The last response is in the output; the socket can be closed behind it if the client has said that nothing more comes,
-- and there is no unread input. That may be in the kernel still: some clients send an empty line behind a body.
closeAfterResponse :: Connection -> IO ()
closeAfterResponse connection = do
  flushOutput connection
  unread <- inputCount connection
  pending <- readRegister connection bodyPendingRegister
  flags <- parser connection >>= headFlags
  more <- if unread > 0 || pending /= 0 || flags .&. flagKeepAlive /= 0 then return True else hasArrived (connectionSocket connection)
  if more
    then linger connection lingerMicros
    else when (farewellMicros > 0) (linger connection farewellMicros)
  where
    farewellMicros = millisInMicros (settingsGracefulClose1Millis (settingsOf connection))

-- An exception has ended the session outside of the application.
endSession :: Connection -> SomeException -> IO ()
endSession connection failure = do
  when (isAsynchronous failure) (throwIO failure)
  phase <- readPhase connection
  case fromException failure of
    Just reason -> refuse connection reason
    Nothing
      | isTimeExpired failure && phase == inHead -> refuse connection RequestTimedOut
      | isTimeExpired failure && phase == betweenRequests -> return ()
      | otherwise -> do
        report connection Nothing failure
        -- Sending has failed, and has ended the connection. What the client sends on must not take away what is on its way.
        when (phase == inResponse) (linger connection lingerMicros)

-- Answers what is no request, or none that can be served, and closes (RFC 9112, section 9.6). The input is still at its
-- beginning.
refuse :: Connection -> InvalidRequest -> IO ()
refuse connection reason = do
  report connection Nothing failure
  working <- isWorking connection
  when working . (`catch` unsaid) $ do
    clearTotalDeadline connection
    case endpointObservers (connectionEndpoint connection) of
      [] -> answerRefused connection
      observers -> do
        request <- refusedRequest connection
        line <- requestLine connection
        observed connection observers request (Just reason) line answerRefused
    flushOutput connection
    linger connection lingerMicros
  where
    failure = toException reason
    -- That the client has gone is no news; that there is no response for it would be.
    unsaid second = unless (isAsynchronous second || isInputOutput second) (report connection Nothing second)
    isInputOutput second = isJust (fromException second :: Maybe IOException)
    -- What the parser has found out holds: a refused HEAD has no body either.
    answerRefused told = do
      setExpectation (connectionExpectation connection) False
      writeRegister connection bodyPendingRegister 0
      writeRegister connection keepRegister 0
      beginResponse connection
      answer told defaultRequest (return False) Nothing (settingsOnExceptionResponse (settingsOf connection) failure)

-- The request, if its head is whole and valid: it is parsed once more, for refusing need not be quick.
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
      Just <$> newRequest connection bytes size noBody (if flags .&. flagChunked /= 0 then ChunkedBody else KnownLength (fromIntegral (max 0 bodyLength)))

-- What has come of the request line, behind empty lines (RFC 9112, section 2.2).
requestLine :: Connection -> IO ByteString
requestLine connection = do
  bytes <- inputBytes connection
  count <- inputCount connection
  text <- C8.dropWhile (`elem` "\r\n") <$> B.packCStringLen (castPtr bytes, count)
  let line = C8.takeWhile (/= '\n') (B.take (longestLine (targetMax (connectionLimits connection))) text)
  return (fromMaybe line (B.stripSuffix (C8.pack "\r") line))
  where
    longestLine target = methodLengthMax + 1 + target + B.length (C8.pack " HTTP/1.1\r")

-- What has come is not the beginning of a request.
forgetInput :: Connection -> IO ()
forgetInput connection = do
  working <- isWorking connection
  when working (inputCount connection >>= dropInput connection)

-- Closing a socket that has unread input resets the connection, and the reset may overtake the response. So the client
-- is told that nothing more comes, and gets a little time to stop sending (RFC 9112, section 9.6).
linger :: Connection -> Int -> IO ()
linger connection micros = void . (try :: IO () -> IO (Either SomeException ())) $ do
  writePhase connection inFarewell
  shutdown socket ShutdownSend
  limit <- deadlineAfter micros
  drain limit lingerBytes
  where
    socket = connectionSocket connection
    drain :: Deadline -> Int -> IO ()
    drain limit left = when (left > 0) $ do
      pause <- deadlineAfter lingerPauseMicros
      bytes <- recvBefore (earlier limit pause) socket lingerPiece
      unless (B.null bytes) (drain limit (left - B.length bytes))

-- At most so long, and at most this long without a byte, and at most so many bytes: some clients send all of a body
-- before they look for an answer.
lingerMicros, lingerPauseMicros, lingerBytes, lingerPiece :: Int
lingerMicros = 5000000
lingerPauseMicros = 1000000
lingerBytes = 1073741824
lingerPiece = 65536
