{-# LANGUAGE OverloadedStrings #-}

-- | The head of a request for a target. Everything in it is checked here, whatever server the application runs on: a line end
-- or a blank in the wrong place would make two requests of one. Must not know: connections.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Proxy.RequestHead
  ( Outgoing (..),
    BodyFraming (..),
    composeHead,
    wantedUpgrade,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.CaseInsensitive as CI
import Data.Maybe (fromMaybe, isJust)
import Millrace.Proxy.Field
import Millrace.Proxy.Forwarding
import Millrace.Proxy.Identifier (isRequestId, isTraceParent)
import Millrace.Proxy.Settings
import Network.HTTP.Types (Header, methodConnect, methodTrace)
import Network.HTTP.Types.Version (http10, http11)
import Network.Wai (Request, RequestBodyLength (..), httpVersion, rawPathInfo, rawQueryString, requestBodyLength, requestHeaderHost, requestHeaders, requestMethod)

-- | What a head is made of besides the request.
data Outgoing = Outgoing
  { outgoingHost :: !HostField,
    outgoingForwarding :: !Forwarding,
    -- | The target's name and port.
    outgoingAuthority :: !ByteString,
    -- | The protocol to change to.
    outgoingUpgrade :: !(Maybe ByteString),
    outgoingBody :: !BodyFraming,
    -- | New identifiers for where the client has none: of the request and of the trace.
    outgoingIdentifiers :: !(Maybe (ByteString, ByteString))
  }

-- | How the body of a request is framed.
data BodyFraming
  = NoBody
  | CountedBody !Int
  | ChunksOfBody
  deriving (Eq, Show)

-- How a proxy treats a field.
data Kind
  = ForTarget
  | -- | It concerns the connection, or the proxy writes its own.
    NotPassed
  | Options
  | ClaimsForwarded
  | ClaimsFor
  | ClaimsProto
  | ClaimsHost
  | RequestIdentifier
  | TraceIdentifier
  | ViaField

kindOf :: ByteString -> Kind
kindOf name = case ByteString.length name of
  2 | name == "te" -> NotPassed
  3 | name == "via" -> ViaField
  4 | name == "host" -> NotPassed
  6 | name == "expect" -> NotPassed
  7 | name == "trailer" || name == "upgrade" -> NotPassed
  9 | name == "forwarded" -> ClaimsForwarded
  10
    | name == "connection" -> Options
    | name == "keep-alive" -> NotPassed
  11 | name == "traceparent" -> TraceIdentifier
  12 | name == "x-request-id" -> RequestIdentifier
  14 | name == "content-length" || name == "http2-settings" -> NotPassed
  15 | name == "x-forwarded-for" -> ClaimsFor
  16
    | name == "x-forwarded-host" -> ClaimsHost
    | name == "proxy-connection" -> NotPassed
  17
    | name == "transfer-encoding" -> NotPassed
    | name == "x-forwarded-proto" -> ClaimsProto
  19 | name == "proxy-authorization" -> NotPassed
  _
    -- CGI and its successors make one name of "X_Y" and "X-Y": a client could forge the fields of proxies.
    | ByteString.elem 95 name -> case kindOf (Char8.map (\c -> if c == '_' then '-' else c) name) of
      ForTarget -> ForTarget
      _ -> NotPassed
    | otherwise -> ForTarget

-- What was found in the client's fields. Lists are in reverse.
data Sorted = Sorted
  { sortedPassed :: [Header],
    sortedClaims :: !Claimed,
    sortedOptions :: [ByteString],
    sortedRequestId :: !(Maybe ByteString),
    sortedTrace :: !(Maybe ByteString),
    sortedVia :: [ByteString]
  }

sorted :: [Header] -> Sorted
sorted = go (Sorted [] claimsNothing [] Nothing Nothing [])
  where
    go found [] = found
    go found (field@(name, value) : rest) = case kindOf (CI.foldedCase name) of
      ForTarget -> go found {sortedPassed = field : sortedPassed found} rest
      NotPassed -> go found rest
      Options -> go found {sortedOptions = tokensOf value ++ sortedOptions found} rest
      ClaimsForwarded -> go found {sortedClaims = claims {claimedForwarded = claimedForwarded claims ++ [value]}} rest
      ClaimsFor -> go found {sortedClaims = claims {claimedFor = claimedFor claims ++ [value]}} rest
      ClaimsProto -> go found {sortedClaims = claims {claimedProto = claimedProto claims ++ [value]}} rest
      ClaimsHost -> go found {sortedClaims = claims {claimedHost = claimedHost claims ++ [value]}} rest
      RequestIdentifier -> go found {sortedRequestId = if isRequestId value then Just value else sortedRequestId found} rest
      TraceIdentifier -> go found {sortedTrace = if isTraceParent value then Just value else sortedTrace found} rest
      ViaField -> go found {sortedVia = sortedVia found ++ [value]} rest
      where
        claims = sortedClaims found

-- | The head, or why the request cannot be passed on.
composeHead :: Outgoing -> Request -> Either String ByteString
composeHead outgoing request
  | not (isToken (requestMethod request)) = Left "the method is not a token"
  | not (isTarget target) = Left "the target has a blank or a control character"
  | Just bad <- firstBad fields = Left ("the field " <> show (CI.original (fst bad)) <> " has a character that is not allowed")
  | not (isFieldText host) = Left "the host has a control character"
  | otherwise = Right (ByteString.concat pieces)
  where
    target = rawPathInfo request <> rawQueryString request
    found = sorted (requestHeaders request)
    fields = withoutNamed (sortedOptions found) (sortedPassed found)
    host = case outgoingHost outgoing of
      KeepHost -> fromMaybe (outgoingAuthority outgoing) (requestHeaderHost request)
      TargetHost -> outgoingAuthority outgoing
      FixedHost name -> name
    pieces =
      requestMethod request :
      " " :
      target :
      " HTTP/1.1\r\nHost: " :
      host :
      "\r\n" :
      foldl (\rest (name, value) -> CI.original name : ": " : value : "\r\n" : rest) behind fields
    behind =
      framing
        ++ forwardedLines (outgoingForwarding outgoing) request (sortedClaims found)
        ++ identifiers
        ++ ["Via: ", via]
        ++ upgrade
    framing = case outgoingBody outgoing of
      CountedBody count -> ["Content-Length: ", Char8.pack (show count), "\r\n"]
      ChunksOfBody -> ["Transfer-Encoding: chunked\r\n"]
      NoBody -> ["Content-Length: 0\r\n" | requestMethod request `elem` ["POST", "PUT", "PATCH"]]
    identifiers =
      line "X-Request-Id: " (orMade fst (sortedRequestId found)) ++ line "traceparent: " (orMade snd (sortedTrace found))
    orMade part = maybe (part <$> outgoingIdentifiers outgoing) Just
    line name = maybe [] (\value -> [name, value, "\r\n"])
    via = ByteString.intercalate ", " (filter isFieldText (sortedVia found) ++ [version <> " millrace\r\n"])
    version
      | httpVersion request == http11 = "1.1"
      | httpVersion request == http10 = "1.0"
      | otherwise = "2"
    upgrade = case outgoingUpgrade outgoing of
      Just protocol -> ["Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n\r\n"]
      Nothing -> ["\r\n"]

firstBad :: [Header] -> Maybe Header
firstBad = foldr (\field@(name, value) rest -> if isToken (CI.original name) && isFieldText value then rest else Just field) Nothing

isTarget :: ByteString -> Bool
isTarget bytes = not (ByteString.null bytes) && ByteString.all (\byte -> byte > 32 && byte /= 127) bytes

-- | The protocol that the client asks to change to, if it may: only in a request without a body, because programs disagree about
-- where such a body ends.
wantedUpgrade :: Settings -> Request -> Maybe ByteString
wantedUpgrade settings request
  | httpVersion request == http10 || requestMethod request `elem` [methodConnect, methodTrace] = Nothing
  | hasBody = Nothing
  | otherwise = case [tokensOf value | (name, value) <- requestHeaders request, CI.foldedCase name == "upgrade"] of
    [[protocol]] | hasOption && upgrades settings protocol && isProtocol protocol -> Just protocol
    _ -> Nothing
  where
    hasBody = case requestBodyLength request of
      KnownLength 0 -> any ((== "content-length") . CI.foldedCase . fst) (requestHeaders request)
      _ -> not (isStream && isJust (lookup "sec-websocket-key" (requestHeaders request)))
    -- On HTTP/2 what the client sends on the stream belongs to the new protocol.
    isStream = httpVersion request /= http11
    hasOption = or ["upgrade" `elem` tokensOf value | (name, value) <- requestHeaders request, CI.foldedCase name == "connection"]
    isProtocol = ByteString.all (\byte -> byte > 32 && byte < 127 && byte /= 44)
