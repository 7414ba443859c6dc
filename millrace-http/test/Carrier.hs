-- | What carries bytes between the tests' servers and clients: here, sockets alone. Tests of other packages have a
-- module of the same name, and run the same examples over something else.
module Carrier (serveOn, Ends (..), withEnds) where

import Data.ByteString (ByteString)
import Network.Socket (ShutdownCmd (..), Socket, shutdown)
import qualified Network.Socket.ByteString as Socket
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Settings, runSettingsSocket)

-- | Serves an application on a socket that listens.
serveOn :: Settings -> Socket -> Application -> IO ()
serveOn = runSettingsSocket

-- | A client's connection: how bytes are sent, how the sending ends, and how at most this many are received.
data Ends = Ends (ByteString -> IO ()) (IO ()) (Int -> IO ByteString)

-- | Uses a connected socket.
withEnds :: Socket -> (Ends -> IO a) -> IO a
withEnds client use = use (Ends (Socket.sendAll client) (shutdown client ShutdownSend) (Socket.recv client))
