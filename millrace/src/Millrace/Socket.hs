-- | Stream sockets under the names that "Network.Socket" gives them, on a type of their own.
--
-- > main = do
-- >   listener <- socket AF_INET Stream defaultProtocol
-- >   setSocketOption listener ReuseAddr 1
-- >   bind listener (SockAddrInet 7000 (tupleToHostAddress (127, 0, 0, 1)))
-- >   listen listener 1024
-- >   forever $ do
-- >     (peer, _) <- accept listener
-- >     forkIO (echo peer `finally` close peer)
--
-- What "Network.Socket" does not promise and this module does:
--
-- 1. A thread that is interrupted in 'accept' loses no connection: that of another thread that waits returns it, or the next
--    one that begins.
-- 2. 'close' wakes every thread that waits on the socket; their operations throw (@EBADF@).
-- 3. A closed socket stays closed: its number may be used again by the system, but never by it.
-- 4. 'accept' goes on when descriptors or memory run out, as soon as there are some again.
--
-- All functions throw 'IOError' that names the function and the socket. Those that wait are interruptible, and park the
-- thread without occupying an operating system thread. Functions that are exported from "Network.Socket" unchanged
-- ('getAddrInfo', ...) behave as described there.
--
-- Not here: of "Network.Socket" @recvBufFrom@, @sendBufTo@, @recvBufMsg@, @sendBufMsg@ and what belongs to them (@Cmsg@,
-- @MsgFlag@ and its @MSG_@ values), @fdSocket@, @touchSocket@, @whenSupported@ and @StructLinger@ (which 'getSockOpt'
-- takes all the same); of "Network.Socket.ByteString" @recvMsg@, @sendMsg@ and @sendManyTo@; all of
-- "Network.Socket.ByteString.Lazy"; and what came to these after version 3.1.2. What needs them takes the descriptor
-- ('withFdSocket') or a socket of that package ('socketToFd').
--
-- A server and a client in one program:
--
-- >>> import Control.Concurrent (forkIO)
-- >>> import Millrace
-- >>> listener <- socket AF_INET Stream defaultProtocol
-- >>> bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
-- >>> listen listener 1
-- >>> _ <- forkIO (accept listener >>= \(peer, _) -> recv peer 100 >>= sendAll peer >> close peer)
-- >>> client <- socket AF_INET Stream defaultProtocol
-- >>> getSocketName listener >>= connect client
-- >>> sendAll client "echo"
-- >>> recv client 100
-- "echo"
-- >>> recv client 100
-- ""
module Millrace.Socket
  ( -- * Sockets
    Socket,
    socket,
    openSocket,
    socketPair,
    bind,
    listen,
    accept,
    acceptBefore,
    acceptNow,
    connect,
    connectBefore,
    recvBuf,
    sendBuf,
    shutdown,
    close,
    close',
    gracefulClose,
    hasEnded,

    -- * Deadlines
    setReadDeadline,
    setWriteDeadline,

    -- * Names
    getSocketName,
    getPeerName,
    socketPort,
    socketPortSafe,

    -- * Options
    SocketOption (..),
    getSocketOption,
    setSocketOption,
    getSockOpt,
    setSockOpt,
    getSocketType,

    -- * Unix sockets
    getPeerCredential,
    sendFd,
    recvFd,

    -- * From and to descriptors
    fromNetworkSocket,
    fromDescriptor,
    mkSocket,
    withFdSocket,
    unsafeFdSocket,
    socketToFd,
    socketToHandle,
    socketHandle,

    -- * Addresses
    module Network.Socket,
  )
where

import Control.Exception (bracket, catch, finally, mask_, onException, uninterruptibleMask_)
import Control.Monad (void, when, (>=>))
import Data.IORef (atomicModifyIORef')
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, eMFILE, eNFILE, eNOBUFS, eNOMEM)
import Foreign.C.Types (CInt, CUInt)
import Foreign.ForeignPtr (mallocForeignPtrBytes, withForeignPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Marshal.Utils (fillBytes, with)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (Storable, peek, peekByteOff, sizeOf)
import Millrace.Deadline (Deadline, deadlineAfter, noDeadline)
import Millrace.Internal.Attempt (attempt)
import Millrace.Internal.Constants
import Millrace.Internal.Foreign
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Internal.Units (thousandfold)
import Millrace.Operation
import Millrace.Socket.ByteString (recvBuf, sendBuf)
import Network.Socket
  ( AddrInfo (..),
    AddrInfoFlag (..),
    Family (..),
    FlowInfo,
    HostAddress,
    HostAddress6,
    HostName,
    NameInfoFlag (..),
    PortNumber,
    ProtocolNumber,
    ScopeID,
    ServiceName,
    ShutdownCmd (..),
    SockAddr (..),
    SocketOption (..),
    SocketType (..),
    addrInfoFlagImplemented,
    defaultHints,
    defaultPort,
    defaultProtocol,
    getAddrInfo,
    getCloseOnExec,
    getNameInfo,
    getNonBlock,
    hostAddress6ToTuple,
    hostAddressToTuple,
    ifIndexToName,
    ifNameToIndex,
    isSupportedFamily,
    isSupportedSockAddr,
    isSupportedSocketOption,
    isSupportedSocketType,
    isUnixDomainSocketAvailable,
    maxListenQueue,
    packFamily,
    setCloseOnExecIfNeeded,
    setNonBlockIfNeeded,
    tupleToHostAddress,
    tupleToHostAddress6,
    unpackFamily,
    withSocketsDo,
  )
import qualified Network.Socket as Network
import System.IO (IOMode)
import qualified System.IO as IO

-- | Creates a non-blocking socket that is closed by exec. On IPv6, also takes IPv4 traffic (@IPV6_V6ONLY@ off), as
-- "Network.Socket" does. Does not block.
--
-- @since 0.1.0
socket :: Family -> SocketType -> ProtocolNumber -> IO Socket
socket family kind@(GeneralSocketType typeNumber) protocol = mask_ $ do
  descriptor <-
    callOn "Millrace.Socket.socket" (show family ++ " " ++ show kind) $
      c_socket (Network.packFamily family) typeNumber protocol
  created <- newSocketFrom descriptor `onException` c_close descriptor
  when (family == AF_INET6 && kind `elem` [Stream, Datagram]) $
    setSocketOption created IPv6Only 0 `onException` close created
  return created

-- | The socket that an 'AddrInfo' describes.
--
-- @since 0.1.0
openSocket :: AddrInfo -> IO Socket
openSocket info = socket (addrFamily info) (addrSocketType info) (addrProtocol info)

-- | Two Unix sockets connected to each other. Windows has no such pair (@EOPNOTSUPP@).
--
-- @since 0.1.0
socketPair :: Family -> SocketType -> ProtocolNumber -> IO (Socket, Socket)
socketPair family kind@(GeneralSocketType typeNumber) protocol = mask_ $
  allocaArray 2 $ \pair -> do
    void $
      callOn "Millrace.Socket.socketPair" (show family ++ " " ++ show kind) $
        c_socketpair (Network.packFamily family) typeNumber protocol pair
    descriptors <- peekArray 2 pair
    case descriptors of
      [one, other] -> do
        first <- newSocketFrom one `onException` (c_close one >> c_close other)
        second <- newSocketFrom other `onException` (c_close other >> close first)
        return (first, second)
      _ -> error "Millrace.Socket.socketPair: two elements were asked for"

-- | Gives the socket a local address. Does not block.
--
-- @since 0.1.0
bind :: Socket -> SockAddr -> IO ()
bind s address = withAddress "Millrace.Socket.bind" s address $ \pointer size ->
  void $
    onDescriptor "Millrace.Socket.bind" s (" to " ++ show address) $ \descriptor ->
      c_bind descriptor pointer (fromIntegral size)

-- | Makes the socket take connections, with a queue of so many.
--
-- @since 0.1.0
listen :: Socket -> Int -> IO ()
listen s backlog = void $ onDescriptor "Millrace.Socket.listen" s "" (`c_listen` fromIntegral backlog)

-- | Takes the next connection, and waits for one. Connections that were reset while they were queued are passed over.
-- When descriptors or memory run out it tries again, from ten to two hundred milliseconds later.
--
-- @since 0.1.0
accept :: Socket -> IO (Socket, SockAddr)
accept = acceptBefore noDeadline

-- | 'accept' that gives up at a deadline.
--
-- @since 0.1.0
acceptBefore :: Deadline -> Socket -> IO (Socket, SockAddr)
acceptBefore deadline s = handOver (giveBackConnection s) $
  takeConnection s return (before deadline) $ \address ->
    throwIfFailed "Millrace.Socket.accept" (describe s) >=> newConnection address

-- | Takes a connection that has come already; 'Nothing' if there is none, or if descriptors or memory have run out, for which
-- 'accept' waits. Does not block. For servers that take all there are before they serve the first one:
--
-- > acceptAll listener = (:) <$> accept listener <*> others
-- >   where others = acceptNow listener >>= maybe (return []) (\connection -> (connection :) <$> others)
--
-- @since 0.1.0
acceptNow :: Socket -> IO (Maybe (Socket, SockAddr))
acceptNow s = handOver (mapM_ (giveBackConnection s)) $
  takeConnection s (return . Just) atOnce $ \address result -> case result of
    Left code | code `elem` [eAGAIN, eMFILE, eNFILE, eNOBUFS, eNOMEM] -> return Nothing
    _ -> Just <$> (throwIfFailed "Millrace.Socket.acceptNow" (describe s) result >>= newConnection address)

-- A connection that is kept, or the result of accepting one in this manner, whose peer's address is left at a place.
takeConnection ::
  Socket -> ((Socket, SockAddr) -> IO a) -> (Request CInt -> Request CInt) -> (Ptr Word8 -> Either Errno CInt -> IO a) -> IO a
takeConnection s@(Socket handle _) useKept manner useResult = do
  place <- mallocForeignPtrBytes addressSize
  withForeignPtr place $ \address -> do
    fillBytes address 0 addressSize
    keptOr s firstConnection useKept (keepLate address) (manner (acceptRequest handle address)) (useResult address)
  where
    keepLate address = either (const (return ())) (newConnection address >=> giveBackConnection s)
{-# INLINE takeConnection #-}

giveBackConnection :: Socket -> (Socket, SockAddr) -> IO ()
giveBackConnection s connection = do
  keeping <- keepConnection s connection
  case keeping of
    IsKept -> return ()
    NotKept -> uninterruptibleMask_ (close (fst connection))

firstConnection :: Kept -> (Kept, Maybe (Socket, SockAddr))
firstConnection (KeptConnections [one]) = (KeptNothing, Just one)
firstConnection (KeptConnections (one : others)) = (KeptConnections others, Just one)
firstConnection other = (other, Nothing)

newConnection :: Ptr Word8 -> CInt -> IO (Socket, SockAddr)
newConnection address descriptor = do
  accepted <- newSocketFrom descriptor `onException` c_close descriptor
  peer <- (peekByteOff address addressLength >>= addressFrom (address `plusPtr` addressStorage)) `onException` close accepted
  return (accepted, peer)

-- | Connects to an address. If it is interrupted or fails, the socket is of no use but to be closed.
--
-- @since 0.1.0
connect :: Socket -> SockAddr -> IO ()
connect = connectBefore noDeadline

-- | 'connect' that gives up at a deadline.
--
-- @since 0.1.0
connectBefore :: Deadline -> Socket -> SockAddr -> IO ()
connectBefore deadline s@(Socket handle _) address = withAddress function s address $ \pointer size ->
  perform (before deadline (connectRequest handle pointer size))
    >>= throwIfFailed function (describe s ++ " to " ++ show address)
  where
    function = "Millrace.Socket.connect"

-- | Shuts down one or both directions. What was sent before is still delivered. What waits in such a direction ends, on any
-- capability: receives as at the end of the stream, also on datagram sockets, accepts and sends with an 'IOError' (@EINVAL@,
-- @EPIPE@). Does not block.
--
-- @since 0.1.0
shutdown :: Socket -> ShutdownCmd -> IO ()
shutdown s@(Socket handle _) how =
  perform (shutdownRequest handle how) >>= throwIfFailed "Millrace.Socket.shutdown" (describe s)

-- | Closes the socket. Every thread that waits on it wakes with an error, whatever capability it is on; then the
-- descriptor is closed. Closing a closed socket does nothing. Waits only for the end of the operations that are in flight
-- on it, and of calls with its number. Throws no 'IOError', so that in @bracket@ it hides none.
--
-- @since 0.1.0
close :: Socket -> IO ()
close s = close' s `catch` ignore
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- | 'close' that throws what the system has to say of it.
--
-- @since 0.1.0
close' :: Socket -> IO ()
close' s@(Socket handle keptRef) = mask_ $ do
  result <- perform (closeRequest handle) `finally` closeKept
  case result of
    Left code | code == eBADF -> return () -- it is closed already
    _ -> throwIfFailed "Millrace.Socket.close" (describe s) result
  where
    -- After the close: until then, an accept that is interrupted may keep a connection.
    closeKept =
      atomicModifyIORef' keptRef (\kept -> (KeptClosed, connections kept))
        >>= uninterruptibleMask_ . mapM_ (close . fst)
    connections (KeptConnections ones) = ones
    connections _ = []

-- | Says goodbye before closing: shuts down sending, then waits, at most so many milliseconds, for the peer to close,
-- so that it receives everything and no reset. Errors of the peer are ignored, and the socket's own deadlines do not count
-- any more: that one of them has passed is why many a connection is closed.
--
-- @since 0.1.0
gracefulClose :: Socket -> Int -> IO ()
gracefulClose s@(Socket handle _) waitMillis = linger `finally` close s
  where
    linger = do
      deadline <- deadlineAfter (thousandfold waitMillis)
      void (setDeadline handle Reading noDeadline)
      perform (shutdownRequest handle ShutdownSend) >>= either (const (return ())) (\() -> allocaBytes size (drain deadline))
    -- What has come is received without a look at the clock, and a peer may have something to say for ever.
    drain deadline buffer = do
      result <- perform (before deadline (recvRequest handle buffer size))
      now <- deadlineAfter 0
      when (either (const False) (> 0) result && now < deadline) $ drain deadline buffer
    size = 1024

-- | Has the peer ended the connection or its half of it, as far as the system knows? Bytes that came before may still wait
-- to be received. Outside Linux a peer that has ended its half only is noticed by receiving. Does not block; throws
-- 'IOError' for a socket that is closed here.
--
-- @since 0.1.0
hasEnded :: Socket -> IO Bool
hasEnded s = (/= 0) <$> onDescriptor "Millrace.Socket.hasEnded" s "" c_ended

-- | Sets the moment at which receiving and accepting on this socket give up, until it is set again; 'noDeadline' for
-- never. It holds for threads that wait already, on any capability, and for all calls to come; of this and a call's own
-- deadline the earlier counts. A call that finds its bytes at hand does not look at the clock.
--
-- Meant to be pushed forward at every sign of life: moving it to a later moment is a store, and sets no timer. Throws
-- 'IOError' for a closed socket. Does not block.
--
-- > serve connection = do
-- >   deadlineAfter 10000000 >>= setReadDeadline connection     -- ten seconds for each request
-- >   request <- recv connection 4096
-- >   unless (ByteString.null request) (answer connection request >> serve connection)
--
-- @since 0.1.0
setReadDeadline :: Socket -> Deadline -> IO ()
setReadDeadline = setDeadlineOf "Millrace.Socket.setReadDeadline" Reading
{-# INLINE setReadDeadline #-}

-- | The same for sending and connecting.
--
-- @since 0.1.0
setWriteDeadline :: Socket -> Deadline -> IO ()
setWriteDeadline = setDeadlineOf "Millrace.Socket.setWriteDeadline" Writing
{-# INLINE setWriteDeadline #-}

setDeadlineOf :: String -> Direction -> Socket -> Deadline -> IO ()
setDeadlineOf attempted direction s@(Socket handle _) deadline =
  setDeadline handle direction deadline >>= throwIfFailed attempted (describe s)
{-# INLINE setDeadlineOf #-}

-- | The socket's own address.
--
-- @since 0.1.0
getSocketName :: Socket -> IO SockAddr
getSocketName = nameBy "Millrace.Socket.getSocketName" c_getsockname

-- | The peer's address.
--
-- @since 0.1.0
getPeerName :: Socket -> IO SockAddr
getPeerName = nameBy "Millrace.Socket.getPeerName" c_getpeername

nameBy :: String -> (CInt -> Ptr Word8 -> Ptr CUInt -> IO CInt) -> Socket -> IO SockAddr
nameBy attempted call s = withAddressPlace $ \place size -> do
  void $ onDescriptor attempted s "" (\descriptor -> call descriptor place size)
  peek size >>= addressFrom place

-- | The local port; throws for a Unix socket.
--
-- @since 0.1.0
socketPort :: Socket -> IO PortNumber
socketPort s = do
  name <- getSocketName s
  case portOf name of
    Just port -> return port
    Nothing -> ioError (userError ("Millrace.Socket.socketPort: " ++ describe s ++ " has no port, it is " ++ show name))

-- | The local port; 'Nothing' for a Unix socket.
--
-- @since 0.1.0
socketPortSafe :: Socket -> IO (Maybe PortNumber)
socketPortSafe s = portOf <$> getSocketName s

portOf :: SockAddr -> Maybe PortNumber
portOf address = case address of
  SockAddrInet port _ -> Just port
  SockAddrInet6 port _ _ _ -> Just port
  _ -> Nothing

-- | Reads an option that is a number; 'Linger' in seconds, 0 if it is off.
--
-- @since 0.1.0
getSocketOption :: Socket -> SocketOption -> IO Int
getSocketOption s option
  | option == Linger = fromIntegral <$> onOption c_linger
  | otherwise = alloca $ \value -> with (fromIntegral (sizeOf (0 :: CInt))) $ \size -> do
    void $ onOption $ \descriptor -> c_getsockopt descriptor level name (value :: Ptr CInt) size
    fromIntegral <$> peek value
  where
    SockOpt level name = option
    onOption = onDescriptor "Millrace.Socket.getSocketOption" s (", " ++ show option)

-- | Sets an option that is a number; 'Linger' to so many seconds, 0 for off. A 'close' that lingers blocks its capability.
--
-- @since 0.1.0
setSocketOption :: Socket -> SocketOption -> Int -> IO ()
setSocketOption s option value
  | option == Linger = void $ onOption (`c_set_linger` fromIntegral value)
  | otherwise = with (fromIntegral value :: CInt) $ \pointer ->
    void $ onOption $ \descriptor -> c_setsockopt descriptor level name pointer (fromIntegral (sizeOf (0 :: CInt)))
  where
    SockOpt level name = option
    onOption = onDescriptor "Millrace.Socket.setSocketOption" s (", " ++ show option)

-- | Reads an option of any type, which must be the system's. What the system leaves out is 0.
--
-- @since 0.1.0
getSockOpt :: Storable a => Socket -> SocketOption -> IO a
getSockOpt s option@(SockOpt level name) = reading undefined
  where
    -- The argument has a size, and nothing else.
    reading :: Storable b => b -> IO b
    reading kind = alloca $ \place -> do
      fillBytes place 0 (sizeOf kind)
      with (fromIntegral (sizeOf kind)) $ \size ->
        void $
          onDescriptor "Millrace.Socket.getSockOpt" s (", " ++ show option) $ \descriptor ->
            c_getsockopt descriptor level name place size
      peek place

-- | Sets an option of any type, which must be the system's.
--
-- @since 0.1.0
setSockOpt :: Storable a => Socket -> SocketOption -> a -> IO ()
setSockOpt s option@(SockOpt level name) value = with value $ \place ->
  void $
    onDescriptor "Millrace.Socket.setSockOpt" s (", " ++ show option) $ \descriptor ->
      c_setsockopt descriptor level name place (fromIntegral (sizeOf value))

-- | Whether it is a stream, a datagram socket, ...
--
-- @since 0.1.0
getSocketType :: Socket -> IO SocketType
getSocketType s = GeneralSocketType . fromIntegral <$> getSocketOption s Type

-- | Process, user and group of the peer, as far as the system tells them.
--
-- @since 0.1.0
getPeerCredential :: Socket -> IO (Maybe CUInt, Maybe CUInt, Maybe CUInt)
getPeerCredential s = withNetworkSocket "getPeerCredential" s Network.getPeerCredential

-- | Sends a descriptor to the peer, with a byte to carry it. Waits while the system has no room for it. Windows and
-- simulated machines pass none (@EOPNOTSUPP@).
--
-- @since 0.1.0
sendFd :: Socket -> CInt -> IO ()
sendFd s@(Socket handle _) descriptor =
  void $
    attempt "Millrace.Socket.sendFd" s (", descriptor " ++ show descriptor) noDeadline (waitWritableRequest handle) $ \number ->
      c_send_descriptor number descriptor

-- | Waits for a descriptor, which is then the caller's to close; it is closed by exec. What carries it is dropped, and
-- others that come with it are closed. Throws if something else comes, or the end of the stream (@ENOMSG@), and if no
-- descriptor is left to receive it as (@EMFILE@): it is lost then. When it is interrupted while it waits, it has received
-- none; one that has come at the very same moment is closed.
--
-- @since 0.1.0
recvFd :: Socket -> IO CInt
recvFd s@(Socket handle _) =
  handOver (void . c_close) $
    fromIntegral <$> attempt "Millrace.Socket.recvFd" s "" noDeadline (waitReadableRequest handle) c_receive_descriptor

-- The same socket by another descriptor, for what is rare enough to be left to network.
withNetworkSocket :: String -> Socket -> (Network.Socket -> IO a) -> IO a
withNetworkSocket name s = bracket (duplicate name s >>= Network.mkSocket) closeTheirs

duplicate :: String -> Socket -> IO CInt
duplicate name s = onDescriptor ("Millrace.Socket." ++ name) s "" c_duplicate

-- | Takes over a socket of "Network.Socket". The old one is closed (its descriptor is duplicated) and must not be
-- used any more. If there is no descriptor left for that, it stays as it is.
--
-- @since 0.1.0
fromNetworkSocket :: Network.Socket -> IO Socket
fromNetworkSocket old = mask_ $ do
  descriptor <- Network.withFdSocket old $ \number ->
    callOn "Millrace.Socket.fromNetworkSocket" (show old) (c_duplicate number)
  taken <- fromDescriptor descriptor `onException` c_close descriptor
  taken <$ (closeTheirs old `onException` close taken)

-- Closes a socket of the network package. GHC's I/O manager (before base 4.16) takes a lock for each capability to do so, and an
-- exception that comes while it waits for the second leaves the first one locked: threads that wait for certain descriptors
-- then do so for ever.
closeTheirs :: Network.Socket -> IO ()
closeTheirs = uninterruptibleMask_ . Network.close

-- | Takes over the descriptor of a socket, for instance one that was inherited. If it throws, the descriptor is still the
-- caller's to close.
--
-- @since 0.1.0
fromDescriptor :: CInt -> IO Socket
fromDescriptor descriptor = makeOurs descriptor >> newSocketFrom descriptor

-- | The same under the name that "Network.Socket" has for it.
--
-- @since 0.1.0
mkSocket :: CInt -> IO Socket
mkSocket = fromDescriptor

-- | The descriptor's number, for calls that Millrace does not make. It must not be closed, and is valid only as long
-- as nobody closes the socket. For a call that does not wait 'Millrace.Operation.whileOpen' sees to that.
--
-- So it is nothing to make another socket of: one of "Network.Socket" (@mkSocket@) closes its descriptor when it is
-- collected, under the feet of this one and of whoever gets the number next. Who wants such a socket takes 'socketToFd',
-- which ends this one.
--
-- @since 0.1.0
withFdSocket :: Socket -> (CInt -> IO a) -> IO a
withFdSocket s use = openDescriptor "Millrace.Socket.withFdSocket" s >>= use

-- | The descriptor's number, as in 'withFdSocket'.
--
-- @since 0.1.0
unsafeFdSocket :: Socket -> IO CInt
unsafeFdSocket s = withFdSocket s return

-- | Closes the socket, and returns another descriptor of what it was, which is the caller's to close; it is non-blocking and
-- closed by exec. Throws if there are bytes, messages or connections that an interrupted receive or accept has left:
-- receive or accept them first.
--
-- @since 0.1.0
socketToFd :: Socket -> IO CInt
socketToFd = toDescriptor "socketToFd"

-- | Makes a handle of a socket, which is closed. Throws as 'socketToFd' does. Reading and writing the handle waits in GHC's
-- own manager.
--
-- @since 0.1.0
socketToHandle :: Socket -> IOMode -> IO IO.Handle
socketToHandle s mode = mask_ $ toDescriptor "socketToHandle" s >>= Network.mkSocket >>= (`Network.socketToHandle` mode)

toDescriptor :: String -> Socket -> IO CInt
toDescriptor name s = handOver (void . c_close) $ do
  isLeft <- keepsAnything s
  when isLeft . ioError . userError $
    "Millrace.Socket." ++ name ++ ": " ++ describe s
      ++ " has what an interrupted receive or accept has left: receive or accept it first"
  descriptor <- duplicate name s
  descriptor <$ (close s `onException` c_close descriptor)

-- | The socket's handle, for "Millrace.Operation".
--
-- @since 0.1.0
socketHandle :: Socket -> Handle
socketHandle (Socket handle _) = handle
