{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | A reverse proxy as a WAI application: requests go on to other servers over HTTP\/1.1 and HTTP\/2.
--
-- > main = do
-- >   target <- either fail return (parseTarget "http://127.0.0.1:3000")
-- >   withProxy defaultSettings [target] (run 8080)
--
-- * Bodies are streamed both ways: at most 64 KiB of one are held. A body of a request up to 16 KiB is read before it
--   is sent.
-- * Connections to targets are kept. If the target closes one before it has answered, the request is sent again on a
--   new one, provided that the method is idempotent and there is no body. When no connection can be made, the next
--   target is tried.
-- * Fields that concern the connection are left out (RFC 9110, section 7.6.1), and those of 'Forwarding', X-Request-Id,
--   @traceparent@ and Via are added.
-- * Requests share the connections of HTTP\/2. Those that a target has not looked at are sent again on another one.
--   Trailers, resets and extended CONNECT are passed on, so gRPC and WebSockets are, too.
-- * A client that leaves ends its request. The target may answer before it has all of a request.
-- * Messages that two programs could read differently are refused: two lengths, a length and a coding, other codings
--   than @chunked@, bare line feeds, folded lines, control characters, unclear sizes of chunks. A target that sends
--   such a message gets no further request on that connection, and the client gets 502. If a target sends anything
--   without a request, its connection is closed.
-- * A connection on which a target authenticates a client (NTLM, Negotiate) belongs to that client, and ends with its
--   connection.
-- * CONNECT and TRACE are not passed on. OPTIONS goes as far as its Max-Forwards says. A request that comes a second
--   time is answered with 508.
--
-- Trailers are passed from and to clients of HTTP\/2. On HTTP\/1 the server drops them.
--
-- Two servers in one program, the second one a proxy for the first:
--
-- >>> import Millrace
-- >>> import Network.HTTP.Types (status200)
-- >>> import Network.Wai (rawPathInfo, responseLBS)
-- >>> import Network.Wai.Handler.Millrace (testWithApplication)
-- >>> let answer request = responseLBS status200 [] (Data.String.fromString (show (rawPathInfo request)))
-- >>> let application request respond = respond (answer request)
-- >>> :{
-- testWithApplication (return application) $ \behind ->
--   withProxy defaultSettings [Target Http (AtHost "127.0.0.1" behind)] $ \proxy ->
--     testWithApplication (return proxy) $ \port -> do
--       client <- socket AF_INET Stream defaultProtocol
--       connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
--       sendAll client "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
--       answer <- recv client 4096
--       print (last (Data.ByteString.Char8.lines answer))
-- :}
-- "\"/hello\""
module Millrace.Proxy
  ( -- * A proxy
    withProxy,
    withWatchedProxy,
    TargetState (..),
    TargetHealth (..),

    -- * Targets
    Target (..),
    Scheme (..),
    Address (..),
    parseTarget,
    showTarget,

    -- * Settings
    Settings (..),
    defaultSettings,
    HostField (..),
    Forwarding (..),
    Tracing (..),
    Balancing (..),
    byClient,
    Limits (..),
    defaultLimits,
    ActiveCheck (..),
    defaultActiveCheck,

    -- * Problems
    Problem (..),
    Cause (..),
    Wait (..),
    describeProblem,
    problemStatus,
    problemResponse,
    onExceptionResponse,
  )
where

import Control.Concurrent.Async (withAsync)
import Control.Exception
import Control.Monad (forever, when)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (byteString)
import Data.IORef
import Data.Maybe (fromMaybe, isJust, isNothing)
import Millrace.Deadline
import Millrace.Proxy.Balance
import Millrace.Proxy.Body
import Millrace.Proxy.Chain
import Millrace.Proxy.Exchange
import Millrace.Proxy.Field (withoutNamed)
import Millrace.Proxy.ForwardedRequest
import Millrace.Proxy.Health
import Millrace.Proxy.Identifier
import Millrace.Proxy.Link
import Millrace.Proxy.Member
import Millrace.Proxy.Pinned
import Millrace.Proxy.Pool
import Millrace.Proxy.Problem
import Millrace.Proxy.RequestHead
import Millrace.Proxy.ResponseHead
import Millrace.Proxy.Settings
import Millrace.Proxy.SharedConnections
import Millrace.Proxy.Stream
import Millrace.Proxy.Target
import Millrace.Proxy.Tunnel
import Millrace.Timer (threadDelay)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Millrace (extendedConnect, resetRequest)

-- The state that all requests of a proxy share.
data Proxy = Proxy
  { proxySettings :: !Settings,
    proxyBalancer :: !Balancer,
    proxySecured :: !Secured,
    proxyIdentifiers :: !Identifiers,
    proxyName :: !ProxyName,
    proxyPins :: !Pins
  }

-- | Runs an action with a proxy for these targets, of which there must be one at least. Afterwards the connections that
-- were kept are closed. Throws a @SettingsError@ of "Millrace.Tls" for settings of TLS that cannot be used.
--
-- The application waits for targets and clients without occupying an operating system thread. Before it has responded
-- it throws only what reading the request's body throws; a 'Problem' is answered. Behind that it throws the 'Problem'
-- of a response that broke off, so that the server cuts the client's response off as well.
withProxy :: Settings -> [Target] -> (Application -> IO a) -> IO a
withProxy settings targets use = withWatchedProxy settings targets (\application _ -> use application)

-- | Runs an action with a proxy for these targets, as 'withProxy' does. The action also gets a function that returns
-- the state of the targets, in the order of the list. The function does not block, and contacts no target.
--
-- > withWatchedProxy defaultSettings targets $ \proxy states ->
-- >   run 8080 $ \request respond ->
-- >     if rawPathInfo request == "/targets" then states >>= respond . shown else proxy request respond
withWatchedProxy :: Settings -> [Target] -> (Application -> IO [TargetState] -> IO a) -> IO a
withWatchedProxy settings targets use = do
  secured <- newSecured (tlsSettings settings) (map targetScheme targets)
  members <- mapM (newMember (limits settings)) targets
  balancer <- newBalancer (balancing settings) members
  identifiers <- newIdentifiers
  pins <- newPins
  let proxy = Proxy settings balancer secured identifiers (newProxyName identifiers) pins
      checks = maybe [] (\check -> map (watchHealth settings (proxySecured proxy) check) members) (activeCheck settings)
  alongside (tidying proxy members : checks) (use (serve proxy) (mapM memberState members))
    `finally` mapM_ (\member -> closePool (memberPool member) >> closeShared (memberShared member)) members
  where
    tidying proxy members = forever $ do
      threadDelay tidyingMicros
      mapM_ (\member -> tidyPool (memberPool member) >> closeUnused (memberShared member)) members
      tidyPins (proxyPins proxy)

-- Runs actions while another one runs.
alongside :: [IO ()] -> IO a -> IO a
alongside others action = foldr (\other -> withAsync other . const) action others

------------------------------------------------------------------------------------------------------------------------
-- Requests

serve :: Proxy -> Application
serve proxy request respond
  | requestMethod request `elem` [methodConnect, methodTrace] = refuse MethodRefused
  | isJust (extendedConnect request) && isNothing (wantedUpgrade (proxySettings proxy) request) = refuse ProtocolRefused
  | hasBeenAt (proxyName proxy) request = refuse Loop
  | otherwise = case onward request of
    Onward passed -> passOn proxy passed respond
    EndsHere -> respond optionsResponse
    Unclear -> refuse (BadRequest "Max-Forwards is no number")
  where
    refuse cause = refuseWith (proxySettings proxy) request respond (Problem Nothing cause)

refuseWith :: Settings -> Request -> (Response -> IO ResponseReceived) -> Problem -> IO ResponseReceived
refuseWith settings request respond reason =
  onProblem settings request reason >> respondToProblem settings request reason >>= respond

-- Passes a request on to one target after the other, until one answers.
passOn :: Proxy -> Application
passOn proxy request respond = do
  end <- deadlineAfter (wholeLimit (limits settings))
  body <- maybe (holdSmallBody request) (const (return Absent)) upgrade
  identifiers <- case tracing settings of
    MakeIdentifiers -> curry Just <$> requestId (proxyIdentifiers proxy) <*> traceParent (proxyIdentifiers proxy)
    PassIdentifiers -> return Nothing
  let outgoing =
        Outgoing
          { outgoingVia = viaText (proxyName proxy) request,
            outgoingHost = hostField settings,
            outgoingForwarding = forwarding settings,
            outgoingAuthority = ByteString.empty,
            outgoingUpgrade = upgrade,
            outgoingBody = framingOf body,
            outgoingWaiting = waitingFor body,
            outgoingIdentifiers = identifiers
          }
      forwarded = ForwardedRequest request respond end body upgrade outgoing
      try' tried former = do
        pinned <- if null tried then pinnedMember (proxyPins proxy) request else return Nothing
        chosen <- maybe (chooseMember (proxyBalancer proxy) request tried) (return . Just) pinned
        case chosen of
          Nothing -> refuse former
          Just member -> do
            result <- working member (passTo proxy forwarded member)
            case result of
              Delivered received -> return received
              Failed reason TryOthers -> try' (member : tried) reason
              Failed reason GiveUp -> refuse reason
  try' [] (Problem Nothing (NotConnected "there is no target"))
  where
    settings = proxySettings proxy
    upgrade = wantedUpgrade settings request
    refuse reason = do
      -- A reset says more than 502 to a client that knows resets: calls of gRPC are cancelled so. Responding throws
      -- then.
      mapM_ (resetRequest request) (resetOf reason)
      refuseWith settings request respond reason

-- Whether a connection that was kept may be used.
data Origin = FromPool | New
  deriving (Eq)

-- A connection, and whether this request must still close it.
data Holding = Holding !Link !Owner !(IORef Bool)

-- Whose requests a connection may carry.
data Owner = Anybody | ThisClient
  deriving (Eq)

-- A target that negotiates its version is asked for HTTP/2 until it has chosen HTTP/1.1.
passTo :: Proxy -> ForwardedRequest -> Member -> IO ForwardOutcome
passTo proxy forwarded member = case targetScheme (memberTarget member) of
  Http -> overVersion1
  Https1 -> overVersion1
  -- Over HTTP/2 no connection belongs to a client.
  Https -> do
    known <- knownVersion (memberShared member)
    if known == Just Version1 || asksForConnection (forwardedRequest forwarded) then overVersion1 else overVersion2
  _ -> overVersion2
  where
    overVersion1 = passInBytes proxy forwarded FromPool member
    overVersion2 =
      passOnStream (proxySettings proxy) (proxySecured proxy) forwarded member >>= maybe overVersion1 return

passInBytes :: Proxy -> ForwardedRequest -> Origin -> Member -> IO ForwardOutcome
passInBytes proxy forwarded origin member = mask $ \restore -> do
  kept <- if origin == FromPool then takeKept else return Nothing
  case kept of
    Just (link, owner) -> do
      result <- holding link owner restore
      case result of
        -- It had been closed, or was being closed.
        Left (reason, Silent) | isRepeatable forwarded -> isGone reason (passInBytes proxy forwarded New member)
        _ -> concluded result
    Nothing -> do
      made <- connected >>= withDescriptors
      case made of
        Right link -> holding link Anybody restore >>= concluded
        Left reason -> Failed reason TryOthers <$ noteProblem settings member reason
  where
    settings = proxySettings proxy
    target = memberTarget member
    connected = do
      deadline <- earlier (forwardedDeadline forwarded) <$> deadlineAfter (connectLimit (limits settings))
      outcome <- synchronously (connectLink deadline (onlyVersion1 (proxySecured proxy)) target)
      return (either (Left . Problem (Just target) . unconnected) (Right . fst) outcome)
    -- Unused connections are closed for one that is needed.
    withDescriptors (Left (Problem _ (NothingLeft _))) =
      mapM_ (closeKept . memberPool) (balancerMembers (proxyBalancer proxy)) >> connected
    withDescriptors made = return made
    takeKept = do
      own <- takePinned (proxyPins proxy) (forwardedRequest forwarded) member
      case own of
        Just link -> return (Just (link, ThisClient))
        Nothing -> fmap (,Anybody) <$> takeLink (memberPool member)
    holding link owner restore = do
      mine <- newIORef True
      let releaseLink = readIORef mine >>= \still -> when still (writeIORef mine False >> linkClose link)
      restore (onLink proxy forwarded member (Holding link owner mine)) `onException` releaseLink <* releaseLink
    isGone reason again = case problemCause reason of
      ConnectionLost _ -> again
      _ -> concluded (Left (reason, Heard))
    concluded (Right received) = return (Delivered received)
    concluded (Left (reason, hearing)) = do
      noteProblem settings member reason
      return . Failed reason $ case (hearing, problemCause reason) of
        (Silent, ConnectionLost _) | isRepeatable forwarded -> TryOthers
        _ -> GiveUp

-- Whether the target had sent anything.
data Hearing = Heard | Silent

-- Sends the request and passes the response on. A 'Problem' from before the response is returned.
onLink :: Proxy -> ForwardedRequest -> Member -> Holding -> IO (Either (Problem, Hearing) ResponseReceived)
onLink proxy forwarded member held@(Holding link _ _) = case composeHead outgoing request of
  Left reason -> return (Left (Problem Nothing (BadRequest reason), Heard))
  Right bytes -> do
    exchange <- newExchange (limits settings) target request (forwardedDeadline forwarded) link InBytes
    source <- newSource (receiveFrom exchange ForFirstByte)
    begun <- try (sendRequest exchange source bytes (forwardedBody forwarded))
    case begun of
      Left reason -> return (Left (reason, Silent))
      Right () -> withSender exchange (forwardedBody forwarded) $ do
        outcome <- try (receiveHead exchange source >>= checked)
        case outcome of
          Left reason ->
            readIORef (exchangeHeard exchange) >>= \heard -> return (Left (reason, if heard then Heard else Silent))
          Right found -> do
            noteSuccess member
            Right <$> deliver proxy forwarded member held exchange source found
  where
    settings = proxySettings proxy
    request = forwardedRequest forwarded
    target = memberTarget member
    outgoing = (forwardedOutgoing forwarded) {outgoingAuthority = memberAuthority member}
    checked found
      | statusCode (headStatus found) == 101 && forwardedUpgrade forwarded `notElem` map Just (headUpgrade found) =
        throwIO (Problem (Just target) (BadResponse "it changes to a protocol that was not asked for"))
      | otherwise = return found

------------------------------------------------------------------------------------------------------------------------
-- Responses

deliver :: Proxy -> ForwardedRequest -> Member -> Holding -> Exchange -> Source -> ResponseHead -> IO ResponseReceived
deliver proxy forwarded member held@(Holding link _ _) exchange source found
  | statusCode status == 101 = do
    rest <- takeRest
    respond $
      responseRaw
        ( \receive send ->
            send (switchingHead (fromMaybe "" (forwardedUpgrade forwarded)) found)
              >> passBothWays (tunnelLimit (limits settings)) (memberTarget member) link rest receive send
        )
        ( problemResponse
            (Problem (Just (memberTarget member)) (BadResponse "this connection cannot change its protocol"))
        )
  | hasNoBody =
    releaseLink >> respond (responseBuilder status (if statusCode status == 204 then withoutLength else fields) mempty)
  | otherwise = case headFraming found of
    Counted count -> do
      rest <- readIORef (sourceRest source)
      if ByteString.length rest >= count
        then do
          writeIORef (sourceRest source) (ByteString.drop count rest)
          releaseLink
          respond (responseBuilder status fields (byteString (ByteString.take count rest)))
        else streamed
    _ -> streamed
  where
    settings = proxySettings proxy
    request = forwardedRequest forwarded
    respond = forwardedRespond forwarded
    status = headStatus found
    fields = headFields found
    withoutLength = filter ((/= hContentLength) . fst) fields
    hasNoBody = requestMethod request == methodHead || statusCode status `elem` [204, 304]
    takeRest = readIORef (sourceRest source) <* writeIORef (sourceRest source) ByteString.empty
    releaseLink = release proxy forwarded member held exchange source found
    streamed = do
      noteClient exchange
      (received, extent) <- respondStreaming forwarded status fields $ \write flush -> do
        let more size = flush >> receiveFrom exchange ForMoreBytes size
            failed (Broken reason) = throwIO (Problem (Just (memberTarget member)) (BadResponse reason))
        withoutNamed (headOptions found)
          <$> passBody (headFraming found) source {sourceMore = more} write `catch` failed
      when (extent == Whole && headFraming found /= UntilEnd) releaseLink
      return received

-- Keeps the connection if both sides are done with it: the request is sent, and nothing came behind the response.
release :: Proxy -> ForwardedRequest -> Member -> Holding -> Exchange -> Source -> ResponseHead -> IO ()
release proxy forwarded member (Holding link owner mine) exchange source found = do
  sent <- readIORef (exchangeSent exchange)
  usedUp <- isUsedUp source
  interrupted <- readIORef (exchangeInterrupted exchange)
  when (headKeeping found == MayStay && usedUp && isJust sent && isNothing interrupted) . mask_ $ do
    writeIORef mine False
    if owner == ThisClient || pinsConnection request (headFields found)
      then keepPinned (proxyPins proxy) request member link
      else keepLink (memberPool member) link
  where
    request = forwardedRequest forwarded
