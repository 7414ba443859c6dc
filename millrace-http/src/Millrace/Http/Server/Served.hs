-- |
-- An open connection, whatever protocol it uses: what the threads that accept and end connections need of it. Must
-- not know: listeners.
module Millrace.Http.Server.Served
  ( Served (..),
    newServed,
    servedTransport,
    servedWorker,
    isIdle,
    isLeaving,
    requestCount,
    finishSoon,
    giveWay,
  )
where

import Control.Monad (unless)
import qualified Millrace.Http.Http1.Connection as Http1
import qualified Millrace.Http.Http1.Session as Http1
import qualified Millrace.Http.Http2.Session as Http2
import Millrace.Http.Server.Context (ServerContext)
import Millrace.Http.Server.Worker (Worker)
import Millrace.Http.Transport (Transport)

-- | A connection begins with HTTP\/1, unless HTTP\/2 was negotiated.
data Served = Served
  { servedHttp1 :: !Http1.Connection,
    servedHttp2 :: !Http2.Control
  }

-- | Makes a connection on a transport. The caller must close the transport.
newServed :: ServerContext -> Transport -> IO Served
newServed server transport = Served <$> Http1.newConnection server transport <*> Http2.newControl

servedTransport :: Served -> Transport
servedTransport = Http1.connectionTransport . servedHttp1

-- | The thread that serves the connection.
servedWorker :: Served -> Worker
servedWorker = Http1.connectionWorker . servedHttp1

-- | Whether it waits for a request of which no byte has come. Any thread may call this and the functions below.
isIdle :: Served -> IO Bool
isIdle served = Http2.isIdle (servedHttp2 served) >>= maybe (Http1.isIdle (servedHttp1 served)) return

-- | Whether all responses were sent, and only the client's end of the connection is missing.
isLeaving :: Served -> IO Bool
isLeaving served = (||) <$> Http1.isLeaving (servedHttp1 served) <*> Http2.isLeaving (servedHttp2 served)

-- | The number of requests that have begun.
requestCount :: Served -> IO Int
requestCount served = (+) <$> Http1.requestCount (servedHttp1 served) <*> Http2.requestCount (servedHttp2 served)

-- | Asks an HTTP\/2 connection to answer the requests it has received, and then to end. False if the connection does
-- not use HTTP\/2.
finishSoon :: Served -> IO Bool
finishSoon served = Http2.askToEnd (servedHttp2 served) Http2.ToFinish

-- | Ends an idle connection. If a request has just been received, it is still answered. If only a part of its head was, it is not: the
-- client finds the connection closed, and may send it again.
giveWay :: Served -> IO ()
giveWay served = do
  asked <- Http2.askToEnd (servedHttp2 served) Http2.ToGiveWay
  unless asked (Http1.giveWay (servedHttp1 served))
