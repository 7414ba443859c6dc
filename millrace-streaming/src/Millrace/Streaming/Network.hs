-- | TCP and Unix servers and clients with the interface of "Data.Streaming.Network" (streaming-commons), on Millrace's
-- sockets. A program that uses only the names exported here changes its import, and nothing else. For
-- "Data.Conduit.Network" (conduit-extra) import "Millrace.Streaming.Conduit".
--
-- > main = runTCPServer (serverSettingsTCP 7000 "127.0.0.1") $ \app -> do
-- >   bytes <- appRead app
-- >   appWrite app bytes
--
-- __Settings.__ Port, host, address family, path, 'setAfterBind' and 'setNeedLocalAddr' mean what they mean there. The
-- differences:
--
-- * 'setReadBufferSize' limits what one 'appRead' returns, which is never more than 16 KiB. No memory is held while a
--   read waits,
--   whatever the size is. A size that is not positive makes each read throw an 'IOError'.
-- * 'appRawSocket' is 'Nothing', because a socket of the network package would be served by GHC's I/O manager. Use
--   'runTCPServerWithHandle' for a server that needs the socket.
-- * The socket that 'setAfterBind' gets is one of the network package, for options and for its name. Closing it does
--   not end the
--   server. Interrupt the server's thread instead (@killThread@).
-- * A client that has a name to connect to tries its addresses as "Millrace.Socket.Connect" does: when one has not
--   answered
--   after a quarter of a second, the next one is tried at the same time.
--
-- __Waiting.__ Reading, writing, accepting and connecting park the thread, and are interruptible. streaming-commons
-- creates the listening socket: if 'setHost' or the host of 'serverSettingsTCP' is a name, its look-up occupies an OS
-- thread. A read that is interrupted loses no byte: the next one returns it. After a write that was interrupted, a part
-- of unknown size has been sent.
--
-- __Ends and exceptions.__ A connection is closed when its action ends, by a result or an exception. An exception of
-- one connection's action goes to GHC's handler of uncaught exceptions, which prints it, and does not concern the
-- server. If descriptors run out, the server continues to accept as soon as there are some again. A server ends when it
-- is interrupted. Connections that it has accepted continue, as in streaming-commons. ("Millrace.Socket.Connect" has
-- servers that wait for their connections, with a limit on their number.)
--
-- __Errors__ are Millrace's 'IOError's, which name function and socket: also those of connecting, where
-- "Millrace.Socket.Connect" and "Millrace.Name" have other types. If connecting fails for all addresses of a name, it
-- is the error of the last one.
--
-- __Not here__ are UDP, and the functions that return sockets of the network package (@bindPortTCP@, @getSocketTCP@,
-- @acceptSafe@, ...).
--
-- >>> import Control.Concurrent
-- >>> import Network.Socket (PortNumber, socketPort)
-- >>> port <- newEmptyMVar :: IO (MVar PortNumber)
-- >>> let settings = setAfterBind (\s -> socketPort s >>= putMVar port) (serverSettingsTCP 0 "127.0.0.1")
-- >>> server <- forkIO (runTCPServer settings (\app -> appRead app >>= appWrite app))
-- >>> number <- takeMVar port
-- >>> runTCPClient (clientSettingsTCP (fromIntegral number) "127.0.0.1") (\app -> appWrite app "echo" >> appRead app)
-- "echo"
-- >>> killThread server
module Millrace.Streaming.Network
  ( -- * TCP
    runTCPServer,
    runTCPServerWithHandle,
    ConnectionHandle,
    runTCPClient,

    -- * Unix sockets
    runUnixServer,
    runUnixClient,

    -- * From streaming-commons, unchanged
    module Data.Streaming.Network,
  )
where

import Control.Concurrent (forkIOWithUnmask)
import Control.Exception
  ( bracket,
    bracketOnError,
    finally,
    mask_,
    onException,
    uninterruptibleMask_,
  )
import Control.Monad (forever, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Streaming.Network
  ( AppData,
    AppDataUnix,
    ClientSettings,
    ClientSettingsUnix,
    HasAfterBind (..),
    HasPath (..),
    HasPort (..),
    HasReadBufferSize (..),
    HasReadWrite (..),
    HostPreference,
    ServerSettings,
    ServerSettingsUnix,
    appCloseConnection,
    appLocalAddr,
    appRawSocket,
    appRead,
    appSockAddr,
    appWrite,
    clientSettingsTCP,
    clientSettingsUnix,
    getAddrFamily,
    getAfterBind,
    getHost,
    getNeedLocalAddr,
    getPath,
    getPort,
    getReadBufferSize,
    serverSettingsTCP,
    serverSettingsTCPSocket,
    serverSettingsUnix,
    setAddrFamily,
    setAfterBind,
    setHost,
    setNeedLocalAddr,
    setPath,
    setPort,
    setReadBufferSize,
  )
import qualified Data.Streaming.Network as Theirs
import Data.Streaming.Network.Internal (AppData (..), AppDataUnix (..), ServerSettings (..))
import Millrace.Name (Query (..), host)
import Millrace.Socket
import Millrace.Socket.Borrowed (borrowedSize)
import Millrace.Socket.ByteString (recv, sendAll)
import Millrace.Socket.Connect (connectTo)
import qualified Network.Socket as Network

-- | A function that gets a connection, the peer's address, and this end's address if 'setNeedLocalAddr' asks for it.
type ConnectionHandle = Socket -> SockAddr -> Maybe SockAddr -> IO ()

-- | Listens, and runs an action for each connection, in a new thread. It returns only by an exception: when it is
-- interrupted, cannot listen, or cannot accept any more. A socket given by 'serverSettingsTCPSocket' is not closed, and
-- no connection in its queue is lost.
runTCPServer :: ServerSettings -> (AppData -> IO ()) -> IO a
runTCPServer settings serve =
  runTCPServerWithHandle
    settings
    (\connection peer local -> serve (appData (getReadBufferSize settings) connection peer local))

-- | Runs a server as 'runTCPServer' does, for an action that needs the socket itself, which is Millrace's. It is closed
-- when the action has ended.
runTCPServerWithHandle :: ServerSettings -> ConnectionHandle -> IO a
runTCPServerWithHandle settings handle = withListener $ \listener -> do
  getAfterBind settings listener
  acceptOn listener $ \connection peer -> do
    local <- if getNeedLocalAddr settings then Just <$> getSocketName connection else return Nothing
    handle connection peer local
  where
    withListener =
      maybe
        (withTheirs (Theirs.bindPortTCP (serverPort settings) (serverHost settings)))
        (\given use -> use given)
        (serverSocket settings)

-- | Connects, runs an action, and closes the connection. 'appLocalAddr' is 'Nothing', as in streaming-commons.
runTCPClient :: ClientSettings -> (AppData -> IO a) -> IO a
runTCPClient settings use = bracket (connectTo query) close $ \connection -> do
  setSocketOption connection NoDelay 1
  peer <- getPeerName connection
  use (appData (getReadBufferSize settings) connection peer Nothing)
  where
    query =
      (host (Char8.unpack (getHost settings)) (show (getPort settings)))
        { queryFamily =
            getAddrFamily settings,
          queryFlags = []
        }

-- | Listens on a path, and runs an action for each connection, as 'runTCPServer' does. A file that has the path is
-- removed first. The path stays when the server has ended.
runUnixServer :: ServerSettingsUnix -> (AppDataUnix -> IO ()) -> IO a
runUnixServer settings serve = withTheirs (Theirs.bindPath (getPath settings)) $ \listener -> do
  getAfterBind settings listener
  acceptOn listener (\connection _ -> serve (appDataUnix (getReadBufferSize settings) connection))

-- | Connects to a path, runs an action, and closes the connection.
runUnixClient :: ClientSettingsUnix -> (AppDataUnix -> IO a) -> IO a
runUnixClient settings = bracket connected close . (. appDataUnix (getReadBufferSize settings))
  where
    connected =
      bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \s ->
        s <$ connect s (SockAddrUnix (getPath settings))

appData :: Int -> Socket -> SockAddr -> Maybe SockAddr -> AppData
appData size connection peer local =
  AppData
    { appRead' = receive size connection,
      appWrite' = sendAll connection,
      appSockAddr' = peer,
      appLocalAddr' = local,
      appCloseConnection' = close connection,
      appRawSocket' = Nothing
    }

appDataUnix :: Int -> Socket -> AppDataUnix
appDataUnix size connection = AppDataUnix {appReadUnix = receive size connection, appWriteUnix = sendAll connection}

-- A receive of more than this would need memory while it waits.
receive :: Int -> Socket -> IO ByteString
receive size connection = recv connection (min borrowedSize size)

-- A socket of streaming-commons while something uses it.
withTheirs :: IO Network.Socket -> (Network.Socket -> IO a) -> IO a
withTheirs create = bracket create (uninterruptibleMask_ . Network.close)

-- Accepts until it is interrupted. If an interrupted accept has kept a connection, it is served, because the listening
-- socket may be used by others after this.
acceptOn :: Network.Socket -> (Socket -> SockAddr -> IO ()) -> IO a
acceptOn theirs serve = bracket (duplicateNetworkSocket theirs) close $ \listener ->
  forever (mask_ (accept listener >>= begin)) `onException` (acceptNow listener >>= mapM_ begin)
  where
    begin (connection, peer) =
      void
        (forkIOWithUnmask (\unmask -> unmask (serve connection peer) `finally` close connection))
        `onException` close connection
