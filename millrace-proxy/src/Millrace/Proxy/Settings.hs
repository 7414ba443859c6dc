{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | The settings of a proxy, and its limits.
module Millrace.Proxy.Settings
  ( Settings (..),
    defaultSettings,
    HostField (..),
    Forwarding (..),
    Tracing (..),
    Balancing (..),
    Limits (..),
    defaultLimits,
    ActiveCheck (..),
    defaultActiveCheck,
    byClient,
  )
where

import Data.ByteString (ByteString)
import Data.Maybe (fromMaybe)
import Millrace.Deadline (Duration, hours, minutes, seconds, unlimited)
import Millrace.Http.FieldSyntax (hostText)
import Millrace.Proxy.Problem (Problem, problemResponse)
import Millrace.Proxy.Target (Target)
import Millrace.Tls (ClientSettings, clientSettings)
import Network.HTTP.Types (Status (..))
import Network.Wai (Request, Response, remoteHost)

-- | The settings of a proxy. Begin with 'defaultSettings'.
data Settings = Settings
  { hostField :: !HostField,
    forwarding :: !Forwarding,
    tracing :: !Tracing,
    balancing :: !Balancing,
    limits :: !Limits,
    -- | Whether a client may change to this protocol on its connection, such as @websocket@. The name is in lower case.
    upgrades :: ByteString -> Bool,
    -- | For targets with TLS. The application protocols are those of the target's 'Millrace.Proxy.Scheme'.
    tlsSettings :: !ClientSettings,
    -- | Requests that check whether the targets work. 'Nothing': only requests show that.
    activeCheck :: !(Maybe ActiveCheck),
    -- | Called for each request that could not be passed on, or whose response could not be passed back. Must not
    -- block.
    onProblem :: Request -> Problem -> IO (),
    -- | The response for a request that could not be passed on, for example with a page of the site. 'problemResponse'
    -- is the usual one. Not for a response that breaks off: see 'Millrace.Proxy.onExceptionResponse'.
    respondToProblem :: Request -> Problem -> IO Response,
    -- | Called when an active check has changed the health of a target: 'Nothing' if it is well again, else the reason.
    onHealth :: Target -> Maybe String -> IO ()
  }

-- | The client's Host is kept; its fields about other proxies are replaced; identifiers are made; the targets take
-- turns; all upgrades but @h2c@ are passed on; certificates are verified; there are no active checks, the observers do
-- nothing, and problems are answered with a line of text.
defaultSettings :: Settings
defaultSettings =
  Settings
    { hostField = KeepHost,
      forwarding = ReplaceForwarded,
      tracing = MakeIdentifiers,
      balancing = RoundRobin,
      limits = defaultLimits,
      upgrades = (/= "h2c"),
      tlsSettings = clientSettings,
      activeCheck = Nothing,
      onProblem = \_ _ -> return (),
      respondToProblem = \_ problem -> return (problemResponse problem),
      onHealth = \_ _ -> return ()
    }

-- | The value of the field Host that a target gets.
data HostField
  = -- | The host that the client asked for.
    KeepHost
  | -- | The target's name and port.
    TargetHost
  | -- | Always this.
    FixedHost !ByteString
  deriving (Eq, Show)

-- | The values of the fields Forwarded, X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host that a target gets.
-- Other fields in which proxies speak of clients (all of @X-Forwarded-*@, X-Real-IP, X-Client-IP, True-Client-IP) are
-- passed on or left out with the client's own.
data Forwarding
  = -- | The client as this proxy sees it. The client's own fields are left out, because they can be forged.
    ReplaceForwarded
  | -- | The client's fields, followed by the client. Use it only if every client is a proxy that you trust.
    AppendForwarded
  | -- | The client's fields, unchanged.
    PassForwarded
  deriving (Eq, Show)

-- | The treatment of X-Request-Id and @traceparent@ (W3C Trace Context).
data Tracing
  = -- | Valid ones are passed on, and missing ones are made. The field @tracestate@ belongs to a valid @traceparent@.
    MakeIdentifiers
  | -- | Passed on.
    PassIdentifiers
  deriving (Eq, Show)

-- | The way to choose one of several targets for a request.
data Balancing
  = -- | They take turns.
    RoundRobin
  | -- | The one that works on the fewest requests of this proxy.
    LeastConnections
  | -- | Always one target for a key, as long as it is well. If a target goes, only its own keys move.
    HashOf (Request -> ByteString)

-- | The client's address, as a key for 'HashOf'. Without the port.
byClient :: Request -> ByteString
byClient = fromMaybe "unix" . hostText . remoteHost

-- | The limits of a proxy: how long it waits, and how much it keeps. After a time limit the answer is 504.
data Limits = Limits
  { -- | For a connection to be ready: the name is looked up, an address answers, the handshake of TLS is done.
    connectLimit :: !Duration,
    -- | For each part of a request to be taken.
    sendLimit :: !Duration,
    -- | From the end of the request to the first byte of the response.
    firstByteLimit :: !Duration,
    -- | Between two parts of a response.
    betweenBytesLimit :: !Duration,
    -- | For all of it, tunnels excepted.
    wholeLimit :: !Duration,
    -- | The time for which a tunnel, such as a WebSocket, may be silent in both directions.
    tunnelLimit :: !Duration,
    -- | The number of unused connections that are kept for each target.
    keptConnections :: !Int,
    -- | The time for which an unused connection is kept. Should be less than the targets keep theirs.
    keepLimit :: !Duration,
    -- | The number of failures in a row after which a target is left out, if there are others.
    failuresMax :: !Int,
    -- | The time for which it is then left out.
    leftOutFor :: !Duration,
    -- | Bytes of the head of a response.
    headBytesMax :: !Int,
    -- | After this silence a target that speaks HTTP\/2 and has work is asked by PING. After as
    -- much more its connection is given up.
    silenceLimit :: !Duration
  }

-- | 10 seconds to connect, 60 for each part of a request and a response, none for the whole, an hour for a silent
-- tunnel. 128 connections are kept for each target, for 50 seconds. Three failures leave a target out for 10 seconds. A
-- head has 64 KiB. A target of HTTP\/2 is asked by PING after 15 seconds.
defaultLimits :: Limits
defaultLimits =
  Limits
    { connectLimit = seconds 10,
      sendLimit = minutes 1,
      firstByteLimit = minutes 1,
      betweenBytesLimit = minutes 1,
      wholeLimit = unlimited,
      tunnelLimit = hours 1,
      keptConnections = 128,
      keepLimit = seconds 50,
      failuresMax = 3,
      leftOutFor = seconds 10,
      headBytesMax = 65536,
      silenceLimit = seconds 15
    }

-- | Checks that ask targets whether they are well.
data ActiveCheck = ActiveCheck
  { -- | The path of the request, which is a GET.
    checkPath :: !ByteString,
    -- | The time from one check to the next.
    checkInterval :: !Duration,
    -- | How long a check may take.
    checkLimit :: !Duration,
    -- | Checks in a row that must fail before a target is left out.
    checkFailures :: !Int,
    -- | Checks in a row that must succeed before it is used again.
    checkSuccesses :: !Int,
    -- | Whether a target that answers with this status is well.
    checkAccepts :: Status -> Bool
  }

-- | @/@ every 5 seconds, with a limit of 2 seconds; two failures or successes in a row; 2xx and 3xx are good.
defaultActiveCheck :: ActiveCheck
defaultActiveCheck =
  ActiveCheck
    { checkPath = "/",
      checkInterval = seconds 5,
      checkLimit = seconds 2,
      checkFailures = 2,
      checkSuccesses = 2,
      checkAccepts = \status -> statusCode status >= 200 && statusCode status < 400
    }
