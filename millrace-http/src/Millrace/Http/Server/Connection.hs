-- |
-- One connection of a server, from the moment it is open until it is closed, and what the threads that accept and end
-- connections need of
-- it, whatever protocol it uses. Must not know: listeners.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Connection
  ( Served,
    newServed,
    servedTransport,
    servedWorker,

    -- * Its life
    runConnection,
    serveTransport,

    -- * What other threads see of it
    isIdle,
    isLeaving,
    requestCount,
    finishSoon,
    giveWay,
  )
where

import Control.Exception
import Control.Monad (forM_, unless, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as LC8
import Data.Either (lefts)
import Millrace.Http.Belongings (endBelongings)
import Millrace.Http.FileCache (closeFileCache)
import qualified Millrace.Http.Http1.Connection as Http1
import qualified Millrace.Http.Http1.Session as Http1
import qualified Millrace.Http.Http2.Session as Http2
import Millrace.Http.Server.Context
import Millrace.Http.Server.Settings (Protocols (..), Settings (..))
import Millrace.Http.Threads.Worker
import Millrace.Http.Transport (Negotiated (..), Transport, closeTransport, isProtected, negotiated)
import Network.HTTP.Types (hConnection, hContentType, status505)
import Network.Wai (Application, responseLBS)

-- | A connection begins with HTTP\/1, unless HTTP\/2 was negotiated.
data Served = Served
  { servedHttp1 :: !Http1.Connection,
    servedHttp2 :: !Http2.Control
  }

-- | Makes a connection on a transport. The caller must close the transport.
newServed :: ServerContext -> Transport -> IO Served
newServed server transport = Served <$> Http1.newConnection server transport <*> Http2.newControl

-- | The transport of the connection, also after a handshake.
servedTransport :: Served -> Transport
servedTransport = Http1.connectionTransport . servedHttp1

-- | The thread that serves the connection.
servedWorker :: Served -> Worker
servedWorker = Http1.connectionWorker . servedHttp1

------------------------------------------------------------------------------------------------------------------------
-- Its life

-- | Serves one connection in this thread, until it ends, with a server context of its own. Closes the transport.
serveTransport :: Settings -> Application -> Transport -> IO ()
serveTransport settings application transport = do
  server <- newServerContext settings
  served <- newServed server transport
  mask_ (runConnection served application (closeTransport transport)) `finally` closeFileCache (serverFiles server)

-- | @runConnection connection application release@ serves the connection and then runs @release@. Call it masked, in a
-- thread of its own, so that the end of the server does not interrupt the cleanup. There is a single exception handler,
-- because every handler takes stack for as long as the connection lives (decision 9).
runConnection :: Served -> Application -> IO () -> IO ()
runConnection served application release = do
  outcome <- atWork (Http1.connectionWorker connection) $ do
    -- Masked, as in Warp: no exception can come between this action and the note that the close action has to run.
    wanted <- settingsOnOpen (serverSettings (Http1.connectionServer connection)) (Http1.connectionPeer connection)
    Http1.noteOpened connection
    when wanted (serve served application)
  finish connection outcome `finally` release
  where
    connection = servedHttp1 served

-- Serves the protocol that was negotiated, or that the first bytes show. Not inlined, like 'finish', to keep the stack
-- small.
serve :: Served -> Application -> IO ()
serve served application
  | agreed == Just (C8.pack "h2") = http2 (Http1.connectionTransport connection) B.empty
  | otherwise = do
    ending <-
      interruptible
        (Http1.runSession connection (if settingsProtocols settings == OnlyHttp2 then refused else application))
    case ending of
      Http1.Finished -> return ()
      Http1.SpeaksHttp2 transport beginning -> do
        http2 transport beginning
        when (isProtected transport) (closeTransport transport)
  where
    connection = servedHttp1 served
    settings = serverSettings (Http1.connectionServer connection)
    agreed = negotiated (Http1.connectionTransport connection) >>= negotiatedProtocol
    http2 transport beginning =
      interruptible
        (Http2.runSession (Http1.connectionServer connection) (servedHttp2 served) transport beginning application)
{-# NOINLINE serve #-}

-- The response to an HTTP/1 request on a server that serves only HTTP/2.
refused :: Application
refused _ respond =
  respond
    (responseLBS status505 [(hConnection, C8.pack "close"), (hContentType, C8.pack "text/plain; charset=utf-8")] text)
  where
    text = LC8.pack "This server speaks HTTP/2 only."

-- Not inlined: code that runs after the session must keep few words on the stack during it (decision 9). Never throws,
-- unless evaluating an exception value itself throws.
finish :: Http1.Connection -> Either SomeException () -> IO ()
finish connection outcome = do
  finished <- try $ do
    Http1.retireEarlyFlush connection
    Http1.endWork connection
    opened <- Http1.wasOpened connection
    when opened (settingsOnClose settings (Http1.connectionPeer connection))
      `finally` endBelongings (Http1.connectionBelongings connection)
  forM_ (lefts [outcome, finished]) $ \failure -> do
    killed <- isKillOfServer (Http1.connectionServer connection) failure
    unless killed (settingsOnException settings Nothing failure `catch` ignore)
  where
    settings = serverSettings (Http1.connectionServer connection)
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE finish #-}

------------------------------------------------------------------------------------------------------------------------
-- What other threads see of it

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

-- | Ends an idle connection. If a request has just been received, it is still answered. If only a part of its head was,
-- it is not: the client finds the connection closed, and may send it again.
giveWay :: Served -> IO ()
giveWay served = do
  asked <- Http2.askToEnd (servedHttp2 served) Http2.ToGiveWay
  unless asked (Http1.giveWay (servedHttp1 served))
