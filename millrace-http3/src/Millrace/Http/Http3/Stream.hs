-- |
-- What HTTP\/3 does for the streams of an endpoint's connections. Must not know: servers.
module Millrace.Http.Http3.Stream (http3, Served (..)) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Int (Int64)
import Millrace.Http.Http3.Endpoint
import Millrace.Http.Http3.Engine (errorCode)
import Millrace.Http.Multiplexed.Stream (Protocol (..))
import Millrace.Http.Transport (Negotiated (..))
import Network.Socket (SockAddr)

-- | An endpoint, a client, and the number of one of its streams.
data Served = Served !Endpoint !SockAddr !Int64

-- | HTTP\/3.
http3 :: Protocol Served
http3 =
  Protocol
    { protocolServer = \(Served endpoint _ _) -> endpointServer endpoint,
      protocolClient = \(Served _ client _) -> client,
      protocolNegotiated = const (Just agreed),
      protocolDescribes =
        \(Served _ client number) -> "HTTP/3 connection of " ++ show client ++ ", stream " ++ show number,
      -- A connection that is lost is not reported by itself: a client may leave without a word.
      protocolTellLoss = \_ -> return (),
      protocolAwait = \(Served endpoint _ _) -> waitFor endpoint,
      protocolFlush = \(Served endpoint _ _) -> flush endpoint,
      protocolFlushIfNeeded = \(Served endpoint _ _) -> flushIfNeeded endpoint,
      protocolWake = \(Served endpoint _ _) -> wakeNow endpoint,
      -- What was read opens the client's window.
      protocolHasRead = \(Served endpoint _ _) -> flushIfNeeded endpoint,
      protocolErrorCode = errorCode
    }

agreed :: Negotiated
agreed =
  Negotiated
    { negotiatedProtocol = Just (C8.pack "h3"),
      negotiatedVersion = C8.pack "TLSv1.3",
      negotiatedCipher = B.empty,
      negotiatedServerName = Nothing,
      negotiatedIsResumed = False,
      negotiatedPeerCertificate = Nothing
    }
