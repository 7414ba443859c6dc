{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | The reasons why a request is not passed on, or its response not passed back.
module Millrace.Proxy.Problem
  ( Problem (..),
    Cause (..),
    Wait (..),
    describeProblem,
    problemStatus,
    problemResponse,
    optionsResponse,
    resetOf,
    isFaultOfTarget,
  )
where

import Control.Exception (Exception (..))
import qualified Data.ByteString.Lazy as Lazy
import Data.Word (Word32)
import Millrace.Proxy.Target (Target, showTarget)
import Network.HTTP.Types
  ( Header,
    Status (..),
    hContentType,
    mkStatus,
    status200,
    status400,
    status405,
    status501,
    status502,
    status503,
    status504,
  )
import Network.Wai (Response, responseLBS)

-- | A request that was not passed on, or whose response was not passed back, and why.
data Problem = Problem
  { -- | The target of the request. 'Nothing': it was sent to none.
    problemTarget :: !(Maybe Target),
    problemCause :: !Cause
  }
  deriving (Eq, Show)

instance Exception Problem where
  displayException = describeProblem

-- | What went wrong.
data Cause
  = -- | There is no connection, and why.
    NotConnected !String
  | -- | The target's certificate comes from no trusted authority, and which certificate it is.
    NotTrusted !String
  | -- | This machine has no descriptor, port or memory left for a connection, and which it is.
    NothingLeft !String
  | -- | Something took too long.
    TooSlow !Wait
  | -- | The connection failed or ended before the response was complete, and how.
    ConnectionLost !String
  | -- | The response is one that two programs could read differently, and how.
    BadResponse !String
  | -- | The target has reset the request's stream, with this error code of HTTP\/2 (RFC 9113, section 7).
    ResetByTarget !Word32
  | -- | The target has refused the request without looking at it, more than once.
    RefusedByTarget
  | -- | The target cannot change to the protocol that the client asks for: it takes no extended CONNECT (RFC 8441).
    CannotUpgrade
  | -- | The proxy does not pass on the protocol that the client asks for by an extended CONNECT.
    ProtocolRefused
  | -- | The client has closed its connection.
    ClientLeft
  | -- | The request cannot be passed on safely, and why.
    BadRequest !String
  | -- | The proxy does not pass this method on.
    MethodRefused
  | -- | The request has come through this proxy before: one of its targets leads back to it.
    Loop
  deriving (Eq, Show)

-- | The event that the proxy was waiting for.
data Wait
  = -- | A connection.
    ToConnect
  | -- | The target takes no more of the request.
    ToSend
  | -- | The beginning of the response.
    ForFirstByte
  | -- | More of the response.
    ForMoreBytes
  | -- | The end of everything.
    ForAll
  deriving (Eq, Show)

-- | One line for a log: the target and the cause.
describeProblem :: Problem -> String
describeProblem problem = case (problemCause problem, showTarget <$> problemTarget problem) of
  (NotConnected reason, Just target) -> "no connection to " <> target <> ": " <> reason
  (NotTrusted reason, Just target) -> "no connection to " <> target <> ": " <> reason
  (cause, target) -> maybe "" (<> ": ") target <> describeCause cause

describeCause :: Cause -> String
describeCause given = case given of
  NotConnected reason -> "no connection: " <> reason
  NotTrusted reason -> "no connection: " <> reason
  NothingLeft reason -> "this machine can open no further connection: " <> reason
  TooSlow ToConnect -> "no connection within the time limit"
  TooSlow ToSend -> "it takes no more of the request within the time limit"
  TooSlow ForFirstByte -> "no response within the time limit"
  TooSlow ForMoreBytes -> "the response stopped for longer than the time limit"
  TooSlow ForAll -> "request and response took longer than the time limit"
  ConnectionLost reason -> "the connection ended before the end of the response: " <> reason
  BadResponse reason -> "the response is malformed: " <> reason
  ResetByTarget code -> "the target has reset the stream, with the error code " <> show code
  RefusedByTarget -> "the target has refused the request unseen"
  CannotUpgrade -> "the target takes no extended CONNECT, which the upgrade needs on HTTP/2"
  ProtocolRefused -> "the protocol that the client asks for is not passed on"
  ClientLeft -> "the client left"
  BadRequest reason -> "the request cannot be passed on: " <> reason
  MethodRefused -> "the method is not passed on"
  Loop -> "it has come through this proxy before: a target leads back to it"

-- | The status that tells a client. 499 is nginx's number for a client that has gone.
problemStatus :: Problem -> Status
problemStatus problem = case problemCause problem of
  TooSlow _ -> status504
  ClientLeft -> mkStatus 499 "Client Closed Request"
  BadRequest _ -> status400
  MethodRefused -> status405
  Loop -> mkStatus 508 "Loop Detected"
  RefusedByTarget -> status503
  NothingLeft _ -> status503
  CannotUpgrade -> status501
  ProtocolRefused -> status501
  _ -> status502

-- | The usual response that tells a client about a problem: 'problemStatus' and a line of text.
problemResponse :: Problem -> Response
problemResponse reason = responseLBS status fields text
  where
    status = problemStatus reason
    fields =
      (hContentType, "text/plain; charset=utf-8") :
      [allowField | statusCode status == 405]
        ++ [("Retry-After", "1") | statusCode status == 503]
    text = Lazy.fromStrict (statusMessage status <> "\n")

-- | The HTTP\/2 error code to pass to a client, if the target has sent one that is about the request and not about the
-- target itself.
resetOf :: Problem -> Maybe Word32
resetOf problem = case problemCause problem of
  RefusedByTarget -> Just refusedStream
  ResetByTarget code | code == cancel -> Just cancel
  _ -> Nothing
  where
    -- Of RFC 9113, section 7.
    refusedStream = 7
    cancel = 8

-- | The answer to a request that ends at the proxy and asks what is possible (OPTIONS).
optionsResponse :: Response
optionsResponse = responseLBS status200 [allowField] Lazy.empty

allowField :: Header
allowField = ("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")

-- | Whether it counts against the health of the target.
isFaultOfTarget :: Problem -> Bool
isFaultOfTarget problem = case problemCause problem of
  NotConnected _ -> True
  NotTrusted _ -> True
  TooSlow _ -> True
  ConnectionLost _ -> True
  BadResponse _ -> True
  RefusedByTarget -> True
  ResetByTarget code -> code `elem` [internalError, enhanceYourCalm]
  _ -> False
  where
    -- Of RFC 9113, section 7. The other codes are about the request.
    internalError = 2
    enhanceYourCalm = 11
