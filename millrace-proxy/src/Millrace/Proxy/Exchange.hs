{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- Must not know: health.

-- | One request on one connection to a target: sending it, and waiting for the response under the limits.
module Millrace.Proxy.Exchange
  ( Exchange (..),
    newExchange,
    noteClient,
    EndOfBody (..),
    RequestBody (..),
    holdSmallBody,
    framingOf,
    waitingFor,
    sendRequest,
    withSender,
    receiveHead,
    deadlineAfter,
    awaitFrom,
    receiveFrom,
    problem,
    takeHeads,
    noteSent,
    sendPiece,
    causeOf,
    synchronously,
    reasonOf,
    unconnected,
  )
where

import Control.Concurrent.Async (withAsyncWithUnmask)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.Char (isLower, isUpper, toLower)
import Data.IORef
import Data.List (stripPrefix)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eADDRNOTAVAIL, eMFILE, eNFILE, eNOBUFS, eNOMEM)
import GHC.IO.Exception (IOException (..))
import Millrace.Deadline
import Millrace.HttpClient.Http2 (Http2Problem (..), describeHttp2Problem)
import Millrace.Proxy.Body
import Millrace.Proxy.Link
import Millrace.Proxy.Problem
import Millrace.Proxy.RequestHead (BodyFraming (..), ContinueExpectation (..), passedTrailers, waitingOf)
import Millrace.Proxy.ResponseHead
import Millrace.Proxy.Settings
import Millrace.Proxy.Target
import Millrace.Timer (timeout)
import Millrace.Tls (CertificateProblem (..), TlsException (..), TlsProblem (..))
import Network.HTTP.Types (RequestHeaders, ResponseHeaders, hServer, statusCode)
import Network.Wai (Request, RequestBodyLength (..), getRequestBodyChunk, isSecure, requestBodyLength)
import Network.Wai.Handler.Millrace
  ( Presence (..),
    getPresence,
    getRequestTrailers,
    onDisconnect,
    onLoss,
    probeClient,
    sendInterim,
  )
import Numeric (showHex)

-- | A request that is being sent, or whose response is awaited.
data Exchange = Exchange
  { exchangeLimits :: !Limits,
    exchangeTarget :: !Target,
    exchangeRequest :: !Request,
    exchangeLink :: !Link,
    exchangeEnd :: !Deadline,
    -- | The moment at which the request was complete, on the clock of deadlines.
    exchangeSent :: !(IORef (Maybe Word64)),
    exchangeInterrupted :: !(IORef (Maybe SomeException)),
    -- | Whether the target has sent anything.
    exchangeHeard :: !(IORef Bool),
    -- | Full when the target has said 100 (Continue).
    exchangeContinue :: !(MVar ()),
    -- | The client's presence when the response began.
    exchangeClient :: !(IORef Presence),
    -- | Ends the body of a request with trailers.
    exchangeEndBody :: !EndOfBody
  }

-- | The way in which the body of a request is framed on the connection, and ended.
data EndOfBody
  = -- | As in HTTP\/1.1.
    InBytes
  | -- | The connection frames it.
    ByConnection !(RequestHeaders -> IO ())

newExchange :: Limits -> Target -> Request -> Deadline -> Link -> EndOfBody -> IO Exchange
newExchange limits' target request end link endOfBody = do
  sent <- newIORef Nothing
  interrupted <- newIORef Nothing
  heard <- newIORef False
  continue <- newEmptyMVar
  client <- newIORef Present
  return
    Exchange
      { exchangeLimits = limits',
        exchangeTarget = target,
        exchangeRequest = request,
        exchangeLink = link,
        exchangeEnd = end,
        exchangeSent = sent,
        exchangeInterrupted = interrupted,
        exchangeHeard = heard,
        exchangeContinue = continue,
        exchangeClient = client,
        exchangeEndBody = endOfBody
      }

-- | Records whether the client is there. Call it before the first part of a response is passed on, if the rest may have
-- to wait for the target.
noteClient :: Exchange -> IO ()
noteClient exchange = unless (isSecure request) (getPresence request >>= writeIORef (exchangeClient exchange))
  where
    request = exchangeRequest exchange

-- | A problem with the exchange's target.
problem :: Exchange -> Cause -> Problem
problem exchange = Problem (Just (exchangeTarget exchange))

-- | Catches all but asynchronous exceptions.
synchronously :: IO a -> IO (Either SomeException a)
synchronously = tryJust (\failure -> if isAsynchronous failure then Nothing else Just failure)
  where
    isAsynchronous failure = case fromException failure of
      Just (SomeAsyncException _) -> True
      Nothing -> False

-- | A short text for an exception, without the target's name: the message around it has that already.
reasonOf :: SomeException -> String
reasonOf failure@(SomeException inner)
  | Just network <- fromException failure = inSentence (ioe_description network)
  | Just insecure <- fromException failure = without (tlsConnection insecure <> ": ")
  | otherwise = text
  where
    text = takeWhile (/= '\n') (displayException inner)
    without beginning = fromMaybe text (stripPrefix beginning text)

-- | The cause to report for an exception that connecting has thrown.
unconnected :: SomeException -> Cause
unconnected failure
  | wasTooLate failure = TooSlow ToConnect
  | hasNothingLeft failure = NothingLeft (reasonOf failure)
  | isUntrusted (tlsProblem <$> fromException failure) = NotTrusted (reasonOf failure)
  | otherwise = NotConnected (reasonOf failure)
  where
    isUntrusted insecure = case insecure of
      Just (CertificateRefused reason _) -> reason `elem` [UnknownAuthority, SelfSigned]
      _ -> False

-- The system's texts begin with a capital letter. Those that begin with more of them are names.
inSentence :: String -> String
inSentence text = case text of
  first : second : rest | isUpper first && isLower second -> toLower first : second : rest
  _ -> text

hasNothingLeft :: SomeException -> Bool
hasNothingLeft failure = maybe False isShortage (fromException failure >>= ioe_errno)
  where
    isShortage code = Errno code `elem` [eMFILE, eNFILE, eADDRNOTAVAIL, eNOBUFS, eNOMEM]

-- | The cause to report for an exception that an open connection has thrown.
causeOf :: SomeException -> Cause
causeOf failure = case fromException failure of
  Just (ResponseReset code) -> ResetByTarget code
  Just RequestRefused -> RefusedByTarget
  Just trouble@ResponseMalformed -> BadResponse (describeHttp2Problem trouble)
  Just trouble@HeadTooLong -> BadResponse (describeHttp2Problem trouble)
  _ -> ConnectionLost (reasonOf failure)

wasTooLate :: SomeException -> Bool
wasTooLate = maybe False isDeadlineError . fromException

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | The body of a request.
data RequestBody
  = Absent
  | -- | All of it.
    Held !ByteString
  | Streamed !BodyFraming !ContinueExpectation

framingOf :: RequestBody -> BodyFraming
framingOf body = case body of
  Absent -> NoBody
  Held bytes -> CountedBody (ByteString.length bytes)
  Streamed framing _ -> framing

-- | Whether the client waits until the target wants the body.
waitingFor :: RequestBody -> ContinueExpectation
waitingFor body = case body of
  Streamed _ waiting -> waiting
  _ -> SendsAtOnce

-- | Reads a small body, so that it can be sent together with the head. Waits for the client to send it, unless the
-- client itself waits for the target's 100 (Continue). Throws what reading throws.
holdSmallBody :: Request -> IO RequestBody
holdSmallBody request = case requestBodyLength request of
  KnownLength 0 -> return Absent
  KnownLength count
    | count <= heldMax && waiting == SendsAtOnce -> Held . ByteString.concat <$> pieces
    | otherwise -> return (Streamed (CountedBody (fromIntegral count)) waiting)
  ChunkedBody -> return (Streamed ChunksOfBody waiting)
  where
    waiting = waitingOf request
    pieces = getRequestBodyChunk request >>= \piece -> if ByteString.null piece then return [] else (piece :) <$> pieces
    heldMax = 16384

-- | Sends a head, and the body if it is held. Then this also takes what the target answers within a moment, because
-- sending and receiving may be one operation. Throws 'Problem'.
sendRequest :: Exchange -> Source -> ByteString -> RequestBody -> IO ()
sendRequest exchange source bytes body = case body of
  Streamed _ _ -> send exchange [bytes]
  Held rest -> askAll (bytes <> rest)
  Absent -> askAll bytes
  where
    askAll message = do
      begin <- monotonicNanoseconds
      outcome <- synchronously (linkAsk (exchangeLink exchange) (momentOf exchange begin) message)
      case outcome of
        Right (AskedInPart count) -> send exchange [ByteString.drop count message] >> noteSent exchange
        Right (Answered answer) -> sentAt begin >> writeIORef (sourceRest source) answer
        Left failure
          | wasTooLate failure -> sentAt begin
          | otherwise -> throwIO (problem exchange (causeOf failure))
    sentAt = writeIORef (exchangeSent exchange) . Just

-- The time for which the first bytes are awaited without watching the client.
momentOf :: Exchange -> Word64 -> Duration
momentOf exchange now =
  nanoseconds (fromIntegral (min untilEnd (momentWithin (firstByteLimit (exchangeLimits exchange)))))
  where
    untilEnd = if exchangeEnd exchange == noDeadline then maxBound else end - min now end
    end = deadlineNanoseconds (exchangeEnd exchange)

-- | Records that the request is complete.
noteSent :: Exchange -> IO ()
noteSent exchange = monotonicNanoseconds >>= writeIORef (exchangeSent exchange) . Just

send :: Exchange -> [ByteString] -> IO ()
send exchange pieces = do
  deadline <- earlier (exchangeEnd exchange) <$> deadlineAfter (sendLimit (exchangeLimits exchange))
  outcome <- synchronously (linkSend (exchangeLink exchange) deadline pieces)
  case outcome of
    Right () -> return ()
    Left failure
      | wasTooLate failure -> throwIO (problem exchange (TooSlow ToSend))
      | otherwise -> throwIO (problem exchange (causeOf failure))

-- | Sends a piece. Throws 'Problem'.
sendPiece :: Exchange -> ByteString -> IO ()
sendPiece exchange piece = send exchange [piece]

-- | Runs an action while another thread sends the body, if it is streamed. The target may answer before it has received
-- the whole body. Sending ends with the action.
--
-- If the client does not send the body, the action finds the connection ended, and then the reason in
-- 'exchangeInterrupted'.
withSender :: Exchange -> RequestBody -> IO a -> IO a
withSender exchange body action = case body of
  Streamed framing waiting -> withAsyncWithUnmask (sender framing waiting) (const action)
  _ -> action
  where
    sender :: BodyFraming -> ContinueExpectation -> (forall b. IO b -> IO b) -> IO ()
    sender framing waiting unmask = do
      outcome <- try (unmask (awaitContinue waiting >> sendBody exchange framing))
      case outcome of
        Right () -> return ()
        Left failure -> case fromException failure of
          -- The target may have answered before it closed the connection. The thread that waits for the answer finds
          -- out.
          Just (Problem _ cause) | isEnd cause -> noteSent exchange
          _ -> writeIORef (exchangeInterrupted exchange) (Just failure) >> linkInterrupt (exchangeLink exchange)

    -- Reading the body is what tells the client to send it. A target that says nothing may wait for the body.
    awaitContinue SendsAtOnce = return ()
    awaitContinue WaitsToContinue = void (timeout wishMicros (readMVar (exchangeContinue exchange)))
    wishMicros = 1000000
    isEnd cause = case cause of
      ConnectionLost _ -> True
      ResetByTarget _ -> True
      RefusedByTarget -> True
      BadResponse _ -> True
      _ -> False

sendBody :: Exchange -> BodyFraming -> IO ()
sendBody exchange framing = go >> noteSent exchange
  where
    request = exchangeRequest exchange
    inChunks = framing == ChunksOfBody
    go = do
      piece <- getRequestBodyChunk request
      if ByteString.null piece
        then end
        else do
          case exchangeEndBody exchange of
            InBytes | inChunks -> send exchange [Char8.pack (showHex (ByteString.length piece) "\r\n"), piece, "\r\n"]
            _ -> send exchange [piece]
          go
    end = case exchangeEndBody exchange of
      ByConnection finish -> trailersOf >>= finish
      InBytes | inChunks -> do
        trailers <- trailersOf
        send
          exchange
          [ "0\r\n"
              <> ByteString.concat (concat [[CI.original name, ": ", value, "\r\n"] | (name, value) <- trailers])
              <> "\r\n"
          ]
      InBytes -> return ()
    trailersOf = passedTrailers <$> getRequestTrailers request

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Receives at most the given number of bytes within a limit; empty at the end. If that takes longer than a moment,
-- the client is watched meanwhile: when it goes, this ends. Throws 'Problem', or what reading the request's body threw.
receiveFrom :: Exchange -> Wait -> Int -> IO ByteString
receiveFrom exchange wait size =
  awaitFrom exchange wait (\deadline -> linkReceive (exchangeLink exchange) deadline size)

-- | Runs an action that receives from the target, until the deadline that it gets. Watches the client meanwhile, as
-- 'receiveFrom' does, and throws the same exceptions.
awaitFrom :: Exchange -> Wait -> (Deadline -> IO a) -> IO a
awaitFrom exchange wait receive = do
  begin <- monotonicNanoseconds
  outcome <- receiveUntil (deadlineFromNanoseconds (begin + momentWithin limit))
  case outcome of
    Left failure | wasTooLate failure -> slowly begin
    _ -> settled outcome
  where
    link = exchangeLink exchange
    limit = case wait of
      ForFirstByte -> firstByteLimit (exchangeLimits exchange)
      _ -> betweenBytesLimit (exchangeLimits exchange)
    slice = 1000000000
    receiveUntil deadline = synchronously (receive (earlier deadline (exchangeEnd exchange)))
    slowly begin = do
      sent <- readIORef (exchangeSent exchange)
      now <- monotonicNanoseconds
      when (deadlineFromNanoseconds now >= exchangeEnd exchange) (throwIO (problem exchange (TooSlow ForAll)))
      case (sent, wait) of
        -- The client is still sending. The limit counts from the end of that.
        (Nothing, ForFirstByte) -> do
          outcome <- receiveUntil (deadlineFromNanoseconds (now + slice))
          case outcome of
            Left failure | wasTooLate failure -> slowly begin
            _ -> settled outcome
        (Nothing, _) -> endOf (receiveUntil (endAfter begin))
        (Just at, ForFirstByte) ->
          endOf (watchingClient (probing firstProbe (earlier (endAfter (max begin at)) (exchangeEnd exchange))))
        (Just _, _) -> endOf (watchingClient (receiveUntil (endAfter begin)))
    endAfter begin =
      if limit == unlimited
        then noDeadline
        else deadlineFromNanoseconds (begin + min (maxBound - begin) (durationNanoseconds limit))
    endOf action = do
      outcome <- action
      case outcome of
        Left failure | wasTooLate failure -> do
          now <- monotonicNanoseconds
          throwIO
            (problem exchange (TooSlow (if deadlineFromNanoseconds now >= exchangeEnd exchange then ForAll else wait)))
        _ -> settled outcome
    -- A client that has ended its sending side behind the request may wait for the answer. After a while it is asked:
    -- it may be gone. Over TLS that is known.
    probing pause end
      | isSecure request = receiveUntil end
      | otherwise = do
        now <- monotonicNanoseconds
        let next = deadlineFromNanoseconds (now + pause)
        outcome <- receiveUntil (earlier next end)
        case outcome of
          Left failure | wasTooLate failure && next < end -> probeClient request >> probing (2 * pause) end
          _ -> return outcome
    firstProbe = 3000000000
    request = exchangeRequest exchange
    -- Once the response has begun, a client that ends its sending side has left, unless it had done that before.
    watchingClient action = do
      hasEnded <- (== EndedSending) <$> readIORef (exchangeClient exchange)
      (if hasEnded || wait == ForFirstByte then onLoss else onDisconnect) request left action
    left = do
      writeIORef (exchangeInterrupted exchange) (Just (toException (problem exchange ClientLeft)))
      linkInterrupt link
    -- If this side has ended the connection, it has recorded the reason.
    settled outcome = do
      interrupted <- readIORef (exchangeInterrupted exchange)
      case (interrupted, outcome) of
        (Just reason, _) -> throwIO reason
        (Nothing, Right result) -> return result
        (Nothing, Left failure) -> throwIO (problem exchange (causeOf failure))

-- The nanoseconds of a moment, or of the limit if that is shorter.
momentWithin :: Duration -> Word64
momentWithin limit = min moment (durationNanoseconds limit)
  where
    moment = 50000000

-- | The head of the final response, or of the one that changes the protocol. Passes other interim responses on, except
-- 100 (Continue). Throws 'Problem'.
receiveHead :: Exchange -> Source -> IO ResponseHead
receiveHead exchange source = takeHeads exchange oneHead
  where
    oneHead = takeSome source 16384 >>= parse
    parse bytes
      | ByteString.null bytes = throwIO (problem exchange (ConnectionLost "the target closed it"))
      | otherwise = do
        writeIORef (exchangeHeard exchange) True
        case parseResponseHead bytes of
          Malformed reason -> malformed reason
          Parsed found size
            | size > headMax -> malformed "the head is too long"
            | otherwise -> found <$ writeIORef (sourceRest source) (ByteString.drop size bytes)
          Incomplete
            | ByteString.length bytes > headMax -> malformed "the head is too long"
            | otherwise -> do
              more <- sourceMore source 16384
              if ByteString.null more
                then throwIO (problem exchange (ConnectionLost "the target closed it in the middle of the head"))
                else parse (bytes <> more)
    malformed = throwIO . problem exchange . BadResponse
    headMax = headBytesMax (exchangeLimits exchange)

-- If the target does not say what it is, this adds an empty field Server: otherwise the server in front of the proxy
-- would add its own.
withoutServersOwn :: ResponseHeaders -> ResponseHeaders
withoutServersOwn fields = if any ((== hServer) . fst) fields then fields else (hServer, ByteString.empty) : fields

-- | Takes heads until one is final or changes the protocol. Passes the others on, except 100 (Continue).
takeHeads :: Exchange -> IO ResponseHead -> IO ResponseHead
takeHeads exchange oneHead = go (100 :: Int)
  where
    go left = do
      found <- oneHead
      case statusCode (headStatus found) of
        101 -> return found
        code
          | code >= 200 -> return found {headFields = withoutServersOwn (headFields found)}
          | left == 0 -> throwIO (problem exchange (BadResponse "too many interim responses"))
          | otherwise -> do
            when (code == 100) (void (tryPutMVar (exchangeContinue exchange) ()))
            when (code > 101) (sendInterim (exchangeRequest exchange) (headStatus found) (headFields found))
            go (left - 1)
