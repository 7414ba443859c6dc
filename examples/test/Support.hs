-- | What the tests of examples share: running a program, and connecting to it. "Http2Client" of millrace-http's tests
-- takes its connections from here, too.
module Support
  ( running,
    runningWith,
    stop,
    connectWhenReady,

    -- * For Http2Client
    Client,
    Reachable (..),
    send,
    receive,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (IOException, bracket, bracketOnError, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.IO (Handle)
import System.Process
import TestSupport.Folder (freePort)
import TestSupport.Time (within)

-- | Runs an example on a free port and connects to it.
running :: String -> (Socket -> IO a) -> IO a
running program talk = runningWith Inherit program (\_ connection -> talk connection)

-- | Runs an example on a free port, with this destination for its output, and connects to it.
runningWith :: StdStream -> String -> (Maybe Handle -> Socket -> IO a) -> IO a
runningWith output program talk = do
  port <- freePort
  bracket (createProcess (proc program [show port]) {std_out = output}) (\(_, _, _, process) -> stop process) $
    \(_, out, _, _) ->
      within 20 "the conversation" (bracket (connectWhenReady port) close (talk out))

stop :: ProcessHandle -> IO ()
stop process = terminateProcess process >> void (waitForProcess process)

connectWhenReady :: PortNumber -> IO Socket
connectWhenReady port = try attempt >>= either again pure
  where
    attempt = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \connection -> do
      connect connection (loopback port)
      pure connection
    again :: IOException -> IO Socket
    again _ = threadDelay 20000 >> connectWhenReady port

loopback :: PortNumber -> SockAddr
loopback port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

type Client = Socket

-- | Servers to which a client can connect.
class Reachable server where
  withConnection :: server -> (Client -> IO a) -> IO a

instance Reachable PortNumber where
  withConnection port = bracket (connectWhenReady port) close

send :: Client -> ByteString -> IO ()
send = sendAll

-- | Some bytes; none at the end.
receive :: Client -> IO ByteString
receive connection = recv connection 65536
