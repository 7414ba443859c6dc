-- |
-- What HTTP\/2 does for the streams of a connection. Must not know: sockets, servers.
module Millrace.Http.Http2.Stream (http2, Served (..)) where

import Millrace.Http.Http2.Connection
import Millrace.Http.Multiplexed.Stream (Protocol (..))
import Millrace.Http.Transport (describeTransport, negotiated, transportPeer)

-- | A connection and the number of one of its streams.
data Served = Served !Connection !Int

-- | HTTP\/2.
http2 :: Protocol Served
http2 =
  Protocol
    { protocolServer = \(Served connection _) -> connectionServer connection,
      protocolClient = \(Served connection _) -> transportPeer (connectionTransport connection),
      protocolNegotiated = \(Served connection _) -> negotiated (connectionTransport connection),
      protocolDescribes =
        \(Served connection number) -> describeTransport (connectionTransport connection) ++ ", stream " ++ show number,
      protocolTellLoss = \(Served connection _) -> tellLoss connection,
      protocolAwait = \(Served connection _) -> waitForWith connection,
      protocolFlush = \(Served connection _) -> flush connection,
      protocolFlushIfNeeded = \(Served connection _) -> flushIfNeeded connection,
      protocolWake = \(Served connection _) -> wakeNow connection,
      protocolHasRead = \_ -> return (),
      protocolErrorCode = fromIntegral
    }
