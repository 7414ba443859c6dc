-- | Millrace's sockets in tests: listeners, pairs of connected sockets, small servers, and streams of bytes over them.
module TestSupport.Sockets
  ( -- * Listeners
    loopbackAddress,
    newListener,
    withListener,

    -- * Connections
    connectTo,
    withConnectionTo,
    tcpPair,
    unixPair,
    withTcpPair,
    withUnixPair,
    withPairOf,

    -- * Servers
    withTcpServer,
    serving,

    -- * Streams of bytes
    receiveStream,
    receiveExactly,
    receiveUntil,
    receiveHead,
    sendStream,
    echoStream,
  )
where

import Control.Concurrent (forkFinally, forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, bracketOnError, catch, finally)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef
import Millrace.Socket
import Millrace.Socket.ByteString
import TestSupport.ByteStream (bytesAt, checkFrom, receiveExactlyBy, receiveUntilBy)
import TestSupport.Message (receiveHeadBy)
import TestSupport.Time (within)

-- | A port of the loopbackAddress interface; 0 lets the system choose one.
loopbackAddress :: PortNumber -> SockAddr
loopbackAddress port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

-- | A TCP socket that listens on a free port, and its address.
newListener :: IO (Socket, SockAddr)
newListener = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  setSocketOption listener ReuseAddr 1
  bind listener (loopbackAddress 0)
  listen listener 1024
  (,) listener <$> getSocketName listener

-- | Listens on a free port for the time of an action.
withListener :: (Socket -> SockAddr -> IO a) -> IO a
withListener = bracket newListener (close . fst) . uncurry

-- | A TCP connection to this address.
connectTo :: SockAddr -> IO Socket
connectTo address = bracketOnError (socket AF_INET Stream defaultProtocol) close $ \s -> connect s address >> return s

-- | Connects to a port of the loopbackAddress interface for the time of an action.
withConnectionTo :: PortNumber -> (Socket -> IO a) -> IO a
withConnectionTo port = bracket (connectTo (loopbackAddress port)) close

-- | Two ends of a TCP connection: the one that connected, and the one that was accepted.
tcpPair :: IO (Socket, Socket)
tcpPair = withListener $ \listener address -> bracketOnError (connectTo address) close $ \one -> do
  (other, _) <- accept listener
  return (one, other)

-- | Two connected Unix sockets.
unixPair :: IO (Socket, Socket)
unixPair = socketPair AF_UNIX Stream defaultProtocol

-- | Two ends of a TCP connection for the time of an action.
withTcpPair :: (Socket -> Socket -> IO a) -> IO a
withTcpPair = withPairOf tcpPair

-- | Two connected Unix sockets for the time of an action.
withUnixPair :: (Socket -> Socket -> IO a) -> IO a
withUnixPair = withPairOf unixPair

-- | Makes two sockets for the time of an action.
withPairOf :: IO (Socket, Socket) -> (Socket -> Socket -> IO a) -> IO a
withPairOf create = bracket create (\(one, other) -> close one >> close other) . uncurry

-- | Runs a handler for each connection to a free port, while the action runs with that port. The handler gets the
-- number of the connection, counted from 1.
withTcpServer :: (Int -> Socket -> IO ()) -> (PortNumber -> IO a) -> IO a
withTcpServer handler use = withListener $ \listener _ -> serving listener handler (socketPort listener >>= use)

-- | Runs a handler for each connection to a listening socket while the action runs. The handler gets the number of the
-- connection, counted from 1.
serving :: Socket -> (Int -> Socket -> IO ()) -> IO a -> IO a
serving listener handler use = do
  open <- newIORef []
  let accepting number = do
        (peer, _) <- accept listener
        done <- newEmptyMVar
        runner <- forkFinally (handler number peer `finally` close peer) (const (putMVar done ()))
        modifyIORef' open ((runner, done) :)
        accepting (number + 1)
  bracket (forkIO (accepting 1 `catch` ignore)) killThread (const use)
    `finally` (readIORef open >>= mapM_ (\(runner, done) -> killThread runner >> readMVar done))
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()

-- | Receives and checks until the end of the stream; returns its length. Asks for at most this number of bytes at a
-- time.
receiveStream :: Socket -> Int -> Int -> IO Int
receiveStream s most position = do
  bytes <- recv s most
  if ByteString.null bytes then return position else checkFrom position bytes >>= receiveStream s most

-- | Receives and checks a number of bytes from a position. Returns the position after them.
receiveExactly :: Socket -> Int -> Int -> IO Int
receiveExactly = receiveExactlyBy . recv

-- | Receives until these bytes have come, or the end.
receiveUntil :: ByteString -> Socket -> IO ByteString
receiveUntil awaited s = within 20 ("receiving " ++ show awaited) (receiveUntilBy (recv s 4096) awaited)

-- | Receives the head of a request; nothing at the end of the stream.
receiveHead :: Socket -> IO (Maybe ByteString)
receiveHead s = receiveHeadBy (recv s 16384)

-- | Sends a number of bytes of the stream from a position. Returns the position after them.
sendStream :: Socket -> Int -> Int -> IO Int
sendStream s position count = sendAll s (bytesAt position count) >> (return $! position + count)

-- | Checks the bytes from a position and sends them back, until the end of the stream. Returns the position of the end.
echoStream :: Socket -> Int -> IO Int
echoStream s position = do
  bytes <- recv s 3000
  if ByteString.null bytes
    then return position
    else do
      next <- checkFrom position bytes
      sendAll s bytes
      echoStream s next
