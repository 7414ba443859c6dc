-- |
-- An open connection of a server, whatever it speaks: what the threads that accept and end connections must know of it. Must not
-- know: listeners.
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
import Millrace.Http.Transport (Transport, endReceiving)

-- | A connection begins with HTTP\/1, unless the two sides have agreed on HTTP\/2 before.
data Served = Served
  { servedHttp1 :: !Http1.Connection,
    servedHttp2 :: !Http2.Control
  }

-- | A connection on a transport, which stays the caller's to close.
newServed :: ServerContext -> Transport -> IO Served
newServed server transport = Served <$> Http1.newConnection server transport <*> Http2.newControl

servedTransport :: Served -> Transport
servedTransport = Http1.connectionTransport . servedHttp1

-- | The thread that serves it.
servedWorker :: Served -> Worker
servedWorker = Http1.connectionWorker . servedHttp1

-- | Is it waiting for a request, of which nothing has come yet? May be asked by any thread, as all that follows.
isIdle :: Served -> IO Bool
isIdle served = Http2.isIdle (servedHttp2 served) >>= maybe (Http1.isIdle (servedHttp1 served)) return

-- | Has all been said, and only the client's end is waited for?
isLeaving :: Served -> IO Bool
isLeaving served = (||) <$> Http1.isLeaving (servedHttp1 served) <*> Http2.isLeaving (servedHttp2 served)

-- | How many requests have begun.
requestCount :: Served -> IO Int
requestCount served = (+) <$> Http1.requestCount (servedHttp1 served) <*> Http2.requestCount (servedHttp2 served)

-- | Asks an HTTP\/2 connection to answer what has come and to end. False if it does not speak HTTP\/2.
finishSoon :: Served -> IO Bool
finishSoon served = Http2.askToEnd (servedHttp2 served) Http2.ToFinish

-- | Ends a connection that is idle. If a request has just been received, it is still answered.
giveWay :: Served -> IO ()
giveWay served = do
  asked <- Http2.askToEnd (servedHttp2 served) Http2.ToGiveWay
  unless asked (endReceiving (servedTransport served))
