-- Must not know: servers.

-- |
-- What HTTP\/3 does for the streams of an endpoint's connections.
module Millrace.Http.Http3.Stream (http3, ServedStream (..)) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Int (Int64)
import Millrace.Http.Http3.Endpoint
import Millrace.Http.Http3.Engine (errorCode)
import Millrace.Http.Multiplexed.Stream (Protocol (..))
import Millrace.Http.Transport (Negotiated (..))
import Network.Socket (SockAddr)

-- | An endpoint, a client, and the number of one of its streams.
data ServedStream = ServedStream !Endpoint !SockAddr !Int64

-- | HTTP\/3.
http3 :: Protocol ServedStream
http3 =
  Protocol
    { protocolServer = \(ServedStream endpoint _ _) -> endpointServer endpoint,
      protocolClient = \(ServedStream _ client _) -> client,
      protocolNegotiated = const (Just agreed),
      protocolDescribes =
        \(ServedStream _ client number) -> "HTTP/3 connection of " ++ show client ++ ", stream " ++ show number,
      -- A connection that is lost is not reported by itself: a client may leave without a word.
      protocolTellLoss = \_ -> return (),
      protocolAwait = \(ServedStream endpoint _ _) -> waitFor endpoint,
      protocolFlush = \(ServedStream endpoint _ _) -> flush endpoint,
      protocolFlushIfNeeded = \(ServedStream endpoint _ _) -> flushIfNeeded endpoint,
      protocolWake = \(ServedStream endpoint _ _) -> wakeNow endpoint,
      -- What was read opens the client's window.
      protocolHasRead = \(ServedStream endpoint _ _) -> flushIfNeeded endpoint,
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
