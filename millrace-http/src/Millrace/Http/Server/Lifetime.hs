-- |
-- One connection of a server, from the moment it is open until it is closed. Must not know: listeners.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Lifetime (runConnection, serveTransport) where

import Control.Exception
import Control.Monad (forM_, when)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Lazy.Char8 as LC8
import Data.Either (lefts)
import Data.IORef (readIORef)
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

-- | Serves one connection in this thread, as a server of its own, until it is over. Closes the transport.
serveTransport :: Settings -> Application -> Transport -> IO ()
serveTransport settings application transport = do
  server <- newServerContext settings
  served <- newServed server transport
  mask_ (runConnection served application (closeTransport transport)) `finally` closeFileCache (serverFiles server)

-- | @runConnection connection application release@ serves the connection and then runs @release@. To be called masked, in a
-- thread of its own: what has to be done at the end is not interrupted by the server's end. There is one handler for all: each
-- is kept for as long as the connection is (decision 9).
runConnection :: Served -> Application -> IO () -> IO ()
runConnection served application release = do
  outcome <- atWork (connectionWorker connection) $ do
    -- Masked, as with Warp: no exception comes between what it does and the note that the other action is to undo it.
    wanted <- settingsOnOpen (serverSettings (connectionServer connection)) (connectionPeer connection)
    noteOpened connection
    when wanted (serve served application)
  finish connection outcome `finally` release
  where
    connection = servedHttp1 served

-- By the protocol that was agreed on, or by the first bytes. Out of line, as the next function.
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

-- What HTTP/1 gets where it is not served.
refused :: Application
refused _ respond = respond (responseLBS status505 [(hConnection, C8.pack "close"), (hContentType, C8.pack "text/plain; charset=utf-8")] text)
  where
    text = LC8.pack "This server speaks HTTP/2 only."

-- Out of line, as all that outlives a session: the fewer words stay on the stack, the better (decision 9). Never throws, unless
-- evaluating an exception value itself throws.
finish :: Connection -> Either SomeException () -> IO ()
finish connection outcome = do
  finished <- try $ do
    retireEarlyFlush connection
    endWork connection
    opened <- wasOpened connection
    when opened (settingsOnClose settings (connectionPeer connection))
  phase <- readIORef (serverPhase (connectionServer connection))
  forM_ (filter (not . isEnd phase) (lefts [outcome, finished])) $ \failure ->
    settingsOnException settings Nothing failure `catch` ignore
  where
    settings = serverSettings (connectionServer connection)
    -- That of the server is no news; others may have killed the thread as well.
    isEnd phase failure = phase == Over && fromException failure == Just ThreadKilled
    ignore :: SomeException -> IO ()
    ignore _ = return ()
{-# NOINLINE finish #-}
