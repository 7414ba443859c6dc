-- |
-- One connection of a server, from the moment it is open until it is closed. Must not know: listeners.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Lifetime (runConnection, serveTransport) where

import Control.Exception
import Control.Monad (forM_, unless, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as LC8
import Data.Either (lefts)
import Millrace.Http.Belongings (endBelongings)
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.Http1.Connection hiding (isIdle, requestCount)
import qualified Millrace.Http.Http1.Session as Http1
import qualified Millrace.Http.Http2.Session as Http2
import Millrace.Http.Server.Context
import Millrace.Http.Server.Served
import Millrace.Http.Server.Settings (Protocols (..), Settings (..))
import Millrace.Http.Server.Worker
import Millrace.Http.Transport (Negotiated (..), Transport, closeTransport, isProtected, negotiated)
import Network.HTTP.Types (hConnection, hContentType, status505)
import Network.Wai (Application, responseLBS)

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
  outcome <- atWork (connectionWorker connection) $ do
    -- Masked, as in Warp: no exception can come between this action and the note that the close action has to run.
    wanted <- settingsOnOpen (serverSettings (connectionServer connection)) (connectionPeer connection)
    noteOpened connection
    when wanted (serve served application)
  finish connection outcome `finally` release
  where
    connection = servedHttp1 served

-- Serves the protocol that was negotiated, or that the first bytes show. Not inlined, like 'finish', to keep the stack
-- small.
serve :: Served -> Application -> IO ()
serve served application
  | agreed == Just (C8.pack "h2") = http2 (connectionTransport connection) B.empty
  | otherwise = do
    ending <- interruptible (Http1.runSession connection (if settingsProtocols settings == OnlyHttp2 then refused else application))
    case ending of
      Http1.Finished -> return ()
      Http1.SpeaksHttp2 transport beginning -> do
        http2 transport beginning
        when (isProtected transport) (closeTransport transport)
  where
    connection = servedHttp1 served
    settings = serverSettings (connectionServer connection)
    agreed = negotiated (connectionTransport connection) >>= negotiatedProtocol
    http2 transport beginning = interruptible (Http2.runSession (connectionServer connection) (servedHttp2 served) transport beginning application)
{-# NOINLINE serve #-}

-- The response to an HTTP/1 request on a server that serves only HTTP/2.
refused :: Application
refused _ respond = respond (responseLBS status505 [(hConnection, C8.pack "close"), (hContentType, C8.pack "text/plain; charset=utf-8")] text)
  where
    text = LC8.pack "This server speaks HTTP/2 only."

-- Not inlined: code that runs after the session must keep few words on the stack during it (decision 9). Never throws,
-- unless evaluating an exception value itself throws.
finish :: Connection -> Either SomeException () -> IO ()
finish connection outcome = do
  finished <- try $ do
    retireEarlyFlush connection
    endWork connection
    opened <- wasOpened connection
    when opened (settingsOnClose settings (connectionPeer connection)) `finally` endBelongings (connectionBelongings connection)
  forM_ (lefts [outcome, finished]) $ \failure -> do
    killed <- isKillOfServer (connectionServer connection) failure
    unless killed (settingsOnException settings Nothing failure `catch` ignore)
  where
    settings = serverSettings (connectionServer connection)
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE finish #-}
