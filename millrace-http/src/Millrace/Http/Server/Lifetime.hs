-- |
-- One connection of a server, from the moment it is open until it is closed. Must not know: listeners.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Lifetime (runConnection, serveTransport) where

import Control.Exception
import Control.Monad (forM_, when)
import Data.Either (lefts)
import Data.IORef (readIORef)
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Session (runSession)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.Worker
import Millrace.Http.Transport (Transport, closeTransport)
import Network.Wai (Application)

-- | Serves one connection in this thread, as a server of its own, until it is over. Closes the transport.
serveTransport :: Settings -> Application -> Transport -> IO ()
serveTransport settings application transport = do
  server <- newServerContext settings
  connection <- newConnection server transport
  mask_ (runConnection connection application (closeTransport transport)) `finally` closeFileCache (serverFiles server)

-- | @runConnection connection application release@ serves the connection and then runs @release@. To be called masked, in a
-- thread of its own: what has to be done at the end is not interrupted by the server's end. There is one handler for all: each
-- is kept for as long as the connection is (decision 9).
runConnection :: Connection -> Application -> IO () -> IO ()
runConnection connection application release = do
  outcome <- atWork (connectionWorker connection) $ do
    -- Masked, as with Warp: no exception comes between what it does and the note that the other action is to undo it.
    wanted <- settingsOnOpen (serverSettings (connectionServer connection)) (connectionPeer connection)
    noteOpened connection
    when wanted (interruptible (runSession connection application))
  finish connection outcome `finally` release

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
