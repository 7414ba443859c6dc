{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- | The head of a request for a target. Everything in it is checked here, whatever server the application runs on: a
-- line end or a blank inside a field would make two requests of one.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Proxy.RequestHead
  ( Outgoing (..),
    BodyFraming (..),
    ContinueExpectation (..),
    waitingOf,
    composeHead,
    composeFields,
    wantedUpgrade,
    passedTrailers,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.Maybe (fromMaybe, isJust, isNothing)
import Millrace.Http.FieldSyntax (isFieldValue, isToken)
import Millrace.Proxy.Field
import Millrace.Proxy.Forwarding
import Millrace.Proxy.Identifier (isRequestId, isTraceParent)
import Millrace.Proxy.Settings
import Network.HTTP.Types (Header, methodConnect, methodTrace)
import Network.HTTP.Types.Version (http10, http11)
import Network.Wai
  ( Request,
    RequestBodyLength (..),
    httpVersion,
    rawPathInfo,
    rawQueryString,
    requestBodyLength,
    requestHeaderHost,
    requestHeaders,
    requestMethod,
  )
import Network.Wai.Handler.Millrace (mayBeTrailer)

-- | The parts of a head that do not come from the request.
data Outgoing = Outgoing
  { -- | The text that the proxy adds to Via.
    outgoingVia :: !ByteString,
    outgoingHost :: !HostField,
    outgoingForwarding :: !Forwarding,
    -- | The target's name and port.
    outgoingAuthority :: !ByteString,
    -- | The protocol to change to.
    outgoingUpgrade :: !(Maybe ByteString),
    outgoingBody :: !BodyFraming,
    outgoingWaiting :: !ContinueExpectation,
    -- | New identifiers for where the client has none: of the request and of the trace.
    outgoingIdentifiers :: !(Maybe (ByteString, ByteString))
  }

-- | Whether the client waits for 100 (Continue) before it sends the body (RFC 9110, section 10.1.1).
data ContinueExpectation = WaitsToContinue | SendsAtOnce
  deriving (Eq, Show)

-- | Reads that from a request. HTTP\/1.0 has no such expectation.
waitingOf :: Request -> ContinueExpectation
waitingOf request
  | httpVersion request /= http10 && any isExpectation (requestHeaders request) = WaitsToContinue
  | otherwise = SendsAtOnce
  where
    isExpectation (name, value) = CI.foldedCase name == "expect" && CI.mk value == ("100-continue" :: CI.CI ByteString)

-- | The framing of a request's body.
data BodyFraming
  = NoBody
  | CountedBody !Int
  | ChunksOfBody
  deriving (Eq, Show)

-- The ways in which a proxy treats a field.
data FieldTreatment
  = ForTarget
  | -- | It concerns the connection, or the proxy writes its own.
    NotPassed
  | Options
  | TransferOptions
  | ClaimsForwarded
  | ClaimsFor
  | ClaimsProto
  | ClaimsHost
  | ClaimsOther
  | RequestIdentifier
  | TraceIdentifier
  | TraceState
  | ViaField

kindOf :: ByteString -> FieldTreatment
kindOf name = case ByteString.length name of
  2 | name == "te" -> TransferOptions
  3 | name == "via" -> ViaField
  4 | name == "host" -> NotPassed
  6 | name == "expect" -> NotPassed
  7 | name == "trailer" || name == "upgrade" -> NotPassed
  9
    | name == "forwarded" -> ClaimsForwarded
    | name == "x-real-ip" -> ClaimsOther
  10
    | name == "connection" -> Options
    | name == "keep-alive" -> NotPassed
    | name == "tracestate" -> TraceState
  11
    | name == "traceparent" -> TraceIdentifier
    | name == "x-client-ip" -> ClaimsOther
  12 | name == "x-request-id" -> RequestIdentifier
  14
    | name == "content-length" || name == "http2-settings" -> NotPassed
    | name == "true-client-ip" -> ClaimsOther
  15 | name == "x-forwarded-for" -> ClaimsFor
  16
    | name == "x-forwarded-host" -> ClaimsHost
    | name == "proxy-connection" -> NotPassed
  17
    | name == "transfer-encoding" -> NotPassed
    | name == "x-forwarded-proto" -> ClaimsProto
  19 | name == "proxy-authorization" -> NotPassed
  _
    | "x-forwarded-" `ByteString.isPrefixOf` name -> ClaimsOther
    -- CGI and its successors make one name of "X_Y" and "X-Y": a client could forge the fields of proxies.
    | ByteString.elem 95 name -> case kindOf (Char8.map (\c -> if c == '_' then '-' else c) name) of
      ForTarget -> ForTarget
      _ -> NotPassed
    | otherwise -> ForTarget

-- | The trailers that are passed on, of requests and of responses: those that may be trailers at all, without what the
-- proxy drops from heads or writes itself.
passedTrailers :: [Header] -> [Header]
passedTrailers =
  filter
    ( \(name, value) ->
        mayBeTrailer name
          && isForTarget (kindOf (CI.foldedCase name))
          && isToken (CI.original name)
          && isFieldValue value
    )
  where
    isForTarget ForTarget = True
    isForTarget _ = False

-- The client's fields, sorted by how they are treated. Lists are in reverse.
data Sorted = Sorted
  { sortedPassed :: [Header],
    sortedClaims :: !Claimed,
    -- | The values of Connection, and those of TE.
    sortedOptions :: [ByteString],
    sortedCodings :: [ByteString],
    -- | Fields of other names in which proxies speak of clients.
    sortedOthers :: [Header],
    sortedRequestId :: !(Maybe ByteString),
    -- | All fields of the name.
    sortedTraces :: [ByteString],
    sortedTraceStates :: [Header],
    sortedVia :: [ByteString]
  }

-- Whether the client takes trailers.
data Trailing = TakesTrailers | NoTrailers
  deriving (Eq)

sorted :: [Header] -> Sorted
sorted = go (Sorted [] claimsNothing [] [] [] Nothing [] [] [])
  where
    go found [] = found {sortedClaims = inOrder (sortedClaims found), sortedVia = reverse (sortedVia found)}
    go found (field@(name, value) : rest) = case kindOf (CI.foldedCase name) of
      ForTarget -> go found {sortedPassed = field : sortedPassed found} rest
      NotPassed -> go found rest
      Options -> go found {sortedOptions = value : sortedOptions found} rest
      TransferOptions -> go found {sortedCodings = value : sortedCodings found} rest
      ClaimsForwarded -> go found {sortedClaims = claims {claimedForwarded = value : claimedForwarded claims}} rest
      ClaimsFor -> go found {sortedClaims = claims {claimedFor = value : claimedFor claims}} rest
      ClaimsProto -> go found {sortedClaims = claims {claimedProto = value : claimedProto claims}} rest
      ClaimsHost -> go found {sortedClaims = claims {claimedHost = value : claimedHost claims}} rest
      RequestIdentifier ->
        go found {sortedRequestId = if isRequestId value then Just value else sortedRequestId found} rest
      ClaimsOther -> go found {sortedOthers = field : sortedOthers found} rest
      TraceIdentifier -> go found {sortedTraces = value : sortedTraces found} rest
      TraceState -> go found {sortedTraceStates = field : sortedTraceStates found} rest
      ViaField -> go found {sortedVia = value : sortedVia found} rest
      where
        claims = sortedClaims found

-- The parts of a head that both versions of HTTP send.
data Composed = Composed
  { composedPath :: !ByteString,
    composedHost :: !ByteString,
    -- | The client's fields, in reverse.
    composedFields :: [Header],
    -- | The proxy's own.
    composedOwn :: [(OwnField, ByteString)],
    composedTrailing :: !Trailing
  }

-- The parts of a head, or why the request cannot be passed on.
composed :: Outgoing -> Request -> Either String Composed
composed outgoing request
  | not (isToken (requestMethod request)) = Left "the method is not a token"
  | not (isTarget target) = Left "the target has a blank or a control character"
  | Just bad <- firstBad fields =
    Left ("the field " <> show (CI.original (fst bad)) <> " has a character that is not allowed")
  | not (isFieldValue host) = Left "the host has a control character"
  | otherwise = case optionsOf (sortedOptions found) of
    Left reason -> Left reason
    Right options -> Right (Composed target host (withoutNamed options fields) own trailing)
  where
    target = rawPathInfo request <> rawQueryString request
    found = sorted (requestHeaders request)
    fields = others ++ traceStates ++ sortedPassed found
    trailing = if sortedCodings found `names` "trailers" then TakesTrailers else NoTrailers
    others = if outgoingForwarding outgoing == ReplaceForwarded then [] else sortedOthers found
    -- Two are as bad as none (Trace Context, section 3.2).
    trace = case sortedTraces found of
      [one] | isTraceParent one -> Just one
      _ -> Nothing
    traceStates = if isJust trace || isNothing (outgoingIdentifiers outgoing) then sortedTraceStates found else []
    host = case outgoingHost outgoing of
      KeepHost -> fromMaybe (outgoingAuthority outgoing) (requestHeaderHost request)
      TargetHost -> outgoingAuthority outgoing
      FixedHost name -> name
    own =
      contentLength
        ++ [(expectField, "100-continue") | outgoingWaiting outgoing == WaitsToContinue]
        ++ forwardedFields (outgoingForwarding outgoing) request (sortedClaims found)
        ++ field requestIdField (orMade fst (sortedRequestId found))
        ++ field traceField (orMade snd trace)
        ++ [(viaField, joined (filter isFieldValue (sortedVia found) ++ [outgoingVia outgoing]))]
    contentLength = case outgoingBody outgoing of
      CountedBody count -> [(lengthField, Char8.pack (show count))]
      NoBody
        | isNothing (outgoingUpgrade outgoing) ->
          [(lengthField, "0") | requestMethod request `elem` ["POST", "PUT", "PATCH"]]
      _ -> []
    orMade part = maybe (part <$> outgoingIdentifiers outgoing) Just
    field name = maybe [] (\value -> [(name, value)])

lengthField, expectField, requestIdField, traceField, viaField :: OwnField
expectField = ownField "Expect"
lengthField = ownField "Content-Length"
requestIdField = ownField "X-Request-Id"
traceField = ownField "traceparent"
viaField = ownField "Via"

-- | The head for a target that speaks HTTP\/1.1, or why the request cannot be passed on.
composeHead :: Outgoing -> Request -> Either String ByteString
composeHead outgoing request = ByteString.concat . pieces <$> composed outgoing request
  where
    pieces parts =
      requestMethod request :
      " " :
      composedPath parts :
      " HTTP/1.1\r\nHost: " :
      composedHost parts :
      foldl
        (\rest (name, value) -> "\r\n" : CI.original name : ": " : value : rest)
        (behind parts)
        (composedFields parts)
    behind parts = foldr (\(own, value) rest -> ownLine own : value : rest) ending (composedOwn parts)
    ending = case outgoingUpgrade outgoing of
      Just protocol -> ["\r\nConnection: Upgrade\r\nUpgrade: ", protocol, "\r\n\r\n"]
      Nothing ->
        [if outgoingBody outgoing == ChunksOfBody then "\r\nTransfer-Encoding: chunked\r\n\r\n" else "\r\n\r\n"]

-- | The fields for a target that speaks HTTP\/2, the pseudo-fields first. An upgrade becomes an extended CONNECT (RFC
-- 8441).
composeFields :: ByteString -> Outgoing -> Request -> Either String [(ByteString, ByteString)]
composeFields scheme outgoing request = do
  parts <- composed outgoing request
  if isPath (composedPath parts)
    then Right (pseudo parts ++ foldl passed (own parts) (composedFields parts))
    else Left "the target is not a path"
  where
    isPath path = ByteString.take 1 path == "/" || path == "*"
    pseudo parts = case outgoingUpgrade outgoing of
      Nothing -> (":method", requestMethod request) : pseudoFields parts
      Just protocol -> (":method", methodConnect) : (":protocol", protocol) : pseudoFields parts
    pseudoFields parts = [(":scheme", scheme), (":authority", composedHost parts), (":path", composedPath parts)]
    passed rest (name, value)
      | isJust (outgoingUpgrade outgoing) && CI.foldedCase name == "sec-websocket-key" = rest
      | otherwise = (CI.foldedCase name, withoutBlanks value) : rest
    own parts =
      [(ownName name, value) | (name, value) <- composedOwn parts]
        ++ [("te", "trailers") | composedTrailing parts == TakesTrailers]

firstBad :: [Header] -> Maybe Header
firstBad =
  foldr
    (\field@(name, value) rest -> if isToken (CI.original name) && isFieldValue value then rest else Just field)
    Nothing

isTarget :: ByteString -> Bool
isTarget bytes = not (ByteString.null bytes) && ByteString.all (\byte -> byte > 32 && byte /= 127) bytes

-- | The protocol that the client asks to change to, if it may: only in a request without a body, because programs
-- disagree about where such a body ends. A length of 0 is no body.
wantedUpgrade :: Settings -> Request -> Maybe ByteString
wantedUpgrade settings request
  | httpVersion request == http10 || requestMethod request `elem` [methodConnect, methodTrace] = Nothing
  | hasBody = Nothing
  | otherwise = case traverse (tokensOf . pure) (valuesOf "upgrade") of
    Just [[protocol]] | hasOption && upgrades settings protocol && isProtocol protocol -> Just protocol
    _ -> Nothing
  where
    hasBody = case requestBodyLength request of
      KnownLength 0 -> False
      _ -> not isStream
    -- On HTTP/2 what the client sends on the stream belongs to the new protocol.
    isStream = httpVersion request /= http11
    hasOption = valuesOf "connection" `names` "upgrade"
    valuesOf wanted = [value | (name, value) <- requestHeaders request, CI.foldedCase name == wanted]
    isProtocol = ByteString.all (\byte -> byte > 32 && byte < 127 && byte /= 44)
