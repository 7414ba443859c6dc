-- | Stream sockets, with the names of "Network.Socket" and their own type.
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
-- This module guarantees more than "Network.Socket":
--
-- 1. A thread that is interrupted in 'accept' loses no connection: another 'accept' returns it, one that already waits
--    or the next one.
-- 2. 'close' wakes every thread that waits on the socket; their operations throw (@EBADF@).
-- 3. A closed socket stays closed: if the system uses its number again, the old socket never reaches the new one.
-- 4. If descriptors or memory run out, 'accept' continues as soon as there are some again.
-- 5. The path of a Unix socket names a file as other paths do: its characters become bytes by the encoding of file
-- names
--    ('GHC.IO.Encoding.getFileSystemEncoding'). Those of an abstract name are bytes.
--
-- All functions throw 'IOError' that names the function and the socket. Those that wait are interruptible, and park the
-- thread without occupying an operating system thread. Functions that are exported from "Network.Socket" unchanged
-- ('getAddrInfo', ...) behave as described there: 'getAddrInfo' waits in a thread of the system, without a deadline.
-- "Millrace.Name" looks names up with one.
--
-- Not provided: of "Network.Socket" @recvBufFrom@, @sendBufTo@, @recvBufMsg@, @sendBufMsg@ and their types (@Cmsg@,
-- @MsgFlag@ and its @MSG_@ values), @fdSocket@, @touchSocket@, @whenSupported@ and @StructLinger@ (which 'getSockOpt'
-- takes all the same); of "Network.Socket.ByteString" @recvMsg@, @sendMsg@ and @sendManyTo@; all of
-- "Network.Socket.ByteString.Lazy"; and everything added after network 3.1.2. To use them, take the descriptor
-- ('withFdSocket') or make a socket of that package ('socketToFd').
--
-- On Linux there are more modules: "Millrace.Socket.Connect" looks names up and serves, "Millrace.Socket.Option" has
-- options by name and type, "Millrace.Socket.Unix" passes descriptors and credentials, "Millrace.Socket.Batch",
-- "Millrace.Socket.Gso" and "Millrace.Socket.Multicast" are for datagrams, and "Millrace.Splice" moves bytes within
-- the kernel.
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
    gracefulCloseWithin,
    hasEnded,
    isQuiet,

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
    duplicateNetworkSocket,
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
import Millrace.Deadline (Deadline, Duration, deadlineAfter, hasPassed, milliseconds, noDeadline)
import Millrace.Internal.Attempt (attempt)
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Internal.Units (saturated)
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

-- | Creates a non-blocking socket that is closed by exec. An IPv6 socket also accepts IPv4 traffic (@IPV6_V6ONLY@ is
-- off), as in "Network.Socket". Does not block.
socket :: Family -> SocketType -> ProtocolNumber -> IO Socket
socket family kind@(GeneralSocketType typeNumber) protocol = handOver close $ do
  descriptor <-
    callOn "Millrace.Socket.socket" (show family ++ " " ++ show kind) $
      c_socket (Network.packFamily family) typeNumber protocol
  created <- newSocketFrom descriptor `onException` c_close descriptor
  when (family == AF_INET6 && kind `elem` [Stream, Datagram]) $
    setSocketOption created IPv6Only 0 `onException` close created
  return created

-- | The socket that an 'AddrInfo' describes.
openSocket :: AddrInfo -> IO Socket
openSocket info = socket (addrFamily info) (addrSocketType info) (addrProtocol info)

-- | Two Unix sockets that are connected to each other. Not on Windows (@EOPNOTSUPP@).
socketPair :: Family -> SocketType -> ProtocolNumber -> IO (Socket, Socket)
socketPair family kind@(GeneralSocketType typeNumber) protocol = handOver (\(one, other) -> close one >> close other) $
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

-- | Binds the socket to a local address. On Linux, a socket file that a dead program has left at a path is replaced, as
-- by "Network.Socket"; one that a program has, and any other file, is not. Two programs that bind to the same path at
-- the same time may both succeed, before they listen: the later one has the path. Does not block.
bind :: Socket -> SockAddr -> IO ()
bind s address = withAddress "Millrace.Socket.bind" s address $ \pointer size ->
  void $
    onDescriptor "Millrace.Socket.bind" s (" to " ++ show address) $ \descriptor ->
      c_bind descriptor pointer (fromIntegral size)

-- | Makes the socket listen, with a queue of the given length.
listen :: Socket -> Int -> IO ()
listen s backlog = void $ onDescriptor "Millrace.Socket.listen" s "" (`c_listen` saturated backlog)

-- | Waits for the next connection and returns it. Skips connections that were reset in the queue. If descriptors or
-- memory run out, it tries again after 10 to 200 milliseconds.
accept :: Socket -> IO (Socket, SockAddr)
accept = acceptBefore noDeadline

-- | 'accept' with a deadline.
acceptBefore :: Deadline -> Socket -> IO (Socket, SockAddr)
acceptBefore deadline s = handOver (giveBackConnection s) $
  takeConnection s return (before deadline) $ \address ->
    throwIfFailed "Millrace.Socket.accept" (describe s) >=> newConnection address

-- | Returns a connection that has already come; 'Nothing' if there is none, or if descriptors or memory have run out
-- ('accept' waits then). Does not block. For servers that accept all waiting connections before they serve the first
-- one:
--
-- > acceptAll listener = (:) <$> accept listener <*> others
-- >   where others = acceptNow listener >>= maybe (return []) (\connection -> (connection :) <$> others)
acceptNow :: Socket -> IO (Maybe (Socket, SockAddr))
acceptNow s = handOver (mapM_ (giveBackConnection s)) $
  takeConnection s (return . Just) atOnce $ \address result -> case result of
    Left code | code `elem` [eAGAIN, eMFILE, eNFILE, eNOBUFS, eNOMEM] -> return Nothing
    _ -> Just <$> (throwIfFailed "Millrace.Socket.acceptNow" (describe s) result >>= newConnection address)

-- Takes a connection that an interrupted accept has kept, if there is one. Otherwise accepts one, for at most the time
-- that @limit@ sets. The system has written the peer's address to the address that is passed to @useResult@. A
-- connection that arrives after an interruption is kept for the next accept.
takeConnection ::
  Socket ->
  ((Socket, SockAddr) -> IO a) ->
  (Request CInt -> Request CInt) ->
  (Ptr Word8 -> Either Errno CInt -> IO a) ->
  IO a
takeConnection s@(Socket handle _) useKept limit useResult = do
  memory <- mallocForeignPtrBytes addressSize
  withForeignPtr memory $ \address -> do
    fillBytes address 0 addressSize
    keptOr s firstConnection useKept (keepLate address) (limit (acceptRequest handle address)) (useResult address)
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
  peer <-
    (peekByteOff address addressLength >>= addressFrom (address `plusPtr` addressStorage)) `onException` close accepted
  return (accepted, peer)

-- | Connects to an address. If it is interrupted or fails, close the socket: it cannot be used again.
connect :: Socket -> SockAddr -> IO ()
connect = connectBefore noDeadline

-- | 'connect' with a deadline.
connectBefore :: Deadline -> Socket -> SockAddr -> IO ()
connectBefore deadline s@(Socket handle _) address = withAddress function s address $ \pointer size ->
  perform (before deadline (connectRequest handle pointer size))
    >>= throwIfFailed function (describe s ++ " to " ++ show address)
  where
    function = "Millrace.Socket.connect"

-- | Shuts down one or both directions. Bytes that were sent before are still delivered. Operations that wait in such a
-- direction end, on any capability: receives as at the end of the stream, also on datagram sockets; accepts and sends
-- with an 'IOError' (@EINVAL@, @EPIPE@). Does not block.
shutdown :: Socket -> ShutdownCmd -> IO ()
shutdown s@(Socket handle _) how =
  perform (shutdownRequest handle how) >>= throwIfFailed "Millrace.Socket.shutdown" (describe s)

-- | Closes the socket. First it wakes every thread that waits on it, on any capability, with an error. It waits only
-- for the end of operations in flight on it and of calls with its number. Closing a closed socket does nothing. It
-- never throws an 'IOError', and is not interruptible, so in @bracket@ it does not hide another exception.
close :: Socket -> IO ()
close s = uninterruptibleMask_ (close' s `catch` ignore)
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- | Closes the socket as 'close' does, but throws the system's error, and can be interrupted while it waits. The socket
-- is closed even so.
close' :: Socket -> IO ()
close' s@(Socket handle keptRef) = mask_ $ do
  result <- perform (closeRequest handle) `finally` closeKept
  case result of
    Left code | code == eBADF -> return () -- it is closed already
    _ -> throwIfFailed "Millrace.Socket.close" (describe s) result
  where
    -- This comes after the close, because until then an interrupted accept may keep a connection.
    closeKept =
      atomicModifyIORef' keptRef (\kept -> (KeptClosed, connections kept))
        >>= uninterruptibleMask_ . mapM_ (close . fst)
    connections (KeptConnections ones) = ones
    connections _ = []

-- | Closes gracefully: shuts down sending, then waits until the peer closes, at most the given number of milliseconds.
-- So the peer receives everything, and no reset. Errors of the peer are ignored. The socket's own deadlines no longer
-- apply, because one that passed is often the reason for closing.
gracefulClose :: Socket -> Int -> IO ()
gracefulClose s waitMillis = gracefulCloseWithin (milliseconds waitMillis) s

-- | 'gracefulClose' with a 'Duration'.
gracefulCloseWithin :: Duration -> Socket -> IO ()
gracefulCloseWithin limit s@(Socket handle _) = linger `finally` close s
  where
    linger = do
      deadline <- deadlineAfter limit
      void (setDeadline handle Reading noDeadline)
      perform (shutdownRequest handle ShutdownSend)
        >>= either (const (return ())) (\() -> allocaBytes size (drain deadline))
    -- A receive that does not wait does not check its deadline, and a peer may send for ever. So check the time here.
    drain deadline buffer = do
      result <- perform (before deadline (recvRequest handle buffer size))
      isLate <- hasPassed deadline
      when (either (const False) (> 0) result && not isLate) $ drain deadline buffer
    size = 1024

-- | Whether the system knows that the peer has closed the connection or shut down sending. Bytes from before may still
-- wait to be received. On systems other than Linux, only receiving shows that the peer has shut down sending. Does not
-- block. Throws an 'IOError' for a socket that is closed on this side.
hasEnded :: Socket -> IO Bool
hasEnded s = (/= 0) <$> onDescriptor "Millrace.Socket.hasEnded" s "" c_ended

-- | Whether the peer has sent nothing that was not received, and has not ended the connection either. If not, do not
-- use the socket again, because a byte may have been taken. Does not block.
isQuiet :: Socket -> IO Bool
isQuiet s =
  alloca $ \memory -> either (== eAGAIN) (const False) <$> perform (atOnce (recvRequest (socketHandle s) memory 1))

-- | Sets the deadline of receiving and accepting on this socket, until it is set again; 'noDeadline' removes it. It
-- applies to threads that already wait, on any capability, and to all later calls. The earlier of this and a call's own
-- deadline counts. A call that need not wait does not check the deadline.
--
-- Move it forward at every activity of the peer: moving it to a later moment is one store and sets no timer. Throws an
-- 'IOError' for a closed socket. Does not block.
--
-- > serve connection = do
-- >   deadlineAfter (seconds 10) >>= setReadDeadline connection     -- ten seconds for each request
-- >   request <- recv connection 4096
-- >   unless (ByteString.null request) (answer connection request >> serve connection)
setReadDeadline :: Socket -> Deadline -> IO ()
setReadDeadline = setDeadlineOf "Millrace.Socket.setReadDeadline" Reading
{-# INLINE setReadDeadline #-}

-- | Sets the deadline of sending and connecting on this socket, as 'setReadDeadline' does for receiving and accepting.
setWriteDeadline :: Socket -> Deadline -> IO ()
setWriteDeadline = setDeadlineOf "Millrace.Socket.setWriteDeadline" Writing
{-# INLINE setWriteDeadline #-}

setDeadlineOf :: String -> Direction -> Socket -> Deadline -> IO ()
setDeadlineOf attempted direction s@(Socket handle _) deadline =
  setDeadline handle direction deadline >>= throwIfFailed attempted (describe s)
{-# INLINE setDeadlineOf #-}

-- | The socket's own address.
getSocketName :: Socket -> IO SockAddr
getSocketName = nameBy "Millrace.Socket.getSocketName" c_getsockname

-- | The peer's address.
getPeerName :: Socket -> IO SockAddr
getPeerName = nameBy "Millrace.Socket.getPeerName" c_getpeername

nameBy :: String -> (CInt -> Ptr Word8 -> Ptr CUInt -> IO CInt) -> Socket -> IO SockAddr
nameBy attempted call s = withAddressBuffer $ \memory size -> do
  void $ onDescriptor attempted s "" (\descriptor -> call descriptor memory size)
  peek size >>= addressFrom memory

-- | The local port. Throws for a Unix socket.
socketPort :: Socket -> IO PortNumber
socketPort s = do
  name <- getSocketName s
  case portOf name of
    Just port -> return port
    Nothing -> ioError (userError ("Millrace.Socket.socketPort: " ++ describe s ++ " has no port, it is " ++ show name))

-- | The local port; 'Nothing' for a Unix socket.
socketPortSafe :: Socket -> IO (Maybe PortNumber)
socketPortSafe s = portOf <$> getSocketName s

portOf :: SockAddr -> Maybe PortNumber
portOf address = case address of
  SockAddrInet port _ -> Just port
  SockAddrInet6 port _ _ _ -> Just port
  _ -> Nothing

-- | Reads an option that is a number. 'Linger' is in seconds, or 0 if it is off.
getSocketOption :: Socket -> SocketOption -> IO Int
getSocketOption s option
  | option == Linger = fromIntegral <$> onOption c_linger
  | otherwise = alloca $ \value -> with (fromIntegral (sizeOf (0 :: CInt))) $ \size -> do
    void $ onOption $ \descriptor -> c_getsockopt descriptor level name (value :: Ptr CInt) size
    fromIntegral <$> peek value
  where
    SockOpt level name = option
    onOption = onDescriptor "Millrace.Socket.getSocketOption" s (", " ++ show option)

-- | Sets an option that is a number. 'Linger' is in seconds; 0 switches it off. A 'close' that lingers blocks its
-- capability.
setSocketOption :: Socket -> SocketOption -> Int -> IO ()
setSocketOption s option value
  | option == Linger = void $ onOption (`c_set_linger` saturated value)
  | otherwise = with (saturated value) $ \pointer ->
    void $ onOption $ \descriptor -> c_setsockopt descriptor level name pointer (fromIntegral (sizeOf (0 :: CInt)))
  where
    SockOpt level name = option
    onOption = onDescriptor "Millrace.Socket.setSocketOption" s (", " ++ show option)

-- | Reads an option of any type, which must match the system's. Bytes that the system does not fill are 0.
getSockOpt :: Storable a => Socket -> SocketOption -> IO a
getSockOpt s option@(SockOpt level name) = reading undefined
  where
    -- The argument is only for its type, whose size it gives; it is never evaluated.
    reading :: Storable b => b -> IO b
    reading kind = alloca $ \memory -> do
      fillBytes memory 0 (sizeOf kind)
      with (fromIntegral (sizeOf kind)) $ \size ->
        void $
          onDescriptor "Millrace.Socket.getSockOpt" s (", " ++ show option) $ \descriptor ->
            c_getsockopt descriptor level name memory size
      peek memory

-- | Sets an option of any type, which must be the system's.
setSockOpt :: Storable a => Socket -> SocketOption -> a -> IO ()
setSockOpt s option@(SockOpt level name) value = with value $ \memory ->
  void $
    onDescriptor "Millrace.Socket.setSockOpt" s (", " ++ show option) $ \descriptor ->
      c_setsockopt descriptor level name memory (fromIntegral (sizeOf value))

-- | The type of the socket, such as 'Stream' or 'Datagram'.
getSocketType :: Socket -> IO SocketType
getSocketType s = GeneralSocketType . fromIntegral <$> getSocketOption s Type

-- | Process, user and group of the peer, if the system knows them.
getPeerCredential :: Socket -> IO (Maybe CUInt, Maybe CUInt, Maybe CUInt)
getPeerCredential s = withNetworkSocket "getPeerCredential" s Network.getPeerCredential

-- | Sends a descriptor to the peer, in a message of one byte. Waits while the socket cannot take it. Not on Windows or
-- simulated machines (@EOPNOTSUPP@).
sendFd :: Socket -> CInt -> IO ()
sendFd s@(Socket handle _) descriptor =
  void $
    attempt "Millrace.Socket.sendFd" s (", descriptor " ++ show descriptor) noDeadline (waitWritableRequest handle) $
      \number ->
        c_send_descriptor number descriptor

-- | Waits for a descriptor. The caller must close it; exec closes it too. The message's byte is dropped, and further
-- descriptors in it are closed. Throws if something else arrives or the stream ends (@ENOMSG@). If no descriptor number
-- is free, it throws (@EMFILE@) and the descriptor is lost. If it is interrupted, a descriptor that arrived at the same
-- moment is closed.
recvFd :: Socket -> IO CInt
recvFd s@(Socket handle _) =
  handOver (void . c_close) $
    fromIntegral <$> attempt "Millrace.Socket.recvFd" s "" noDeadline (waitReadableRequest handle) c_receive_descriptor

-- Calls a function of the network package with a duplicate of the descriptor, for rare functions that Millrace does not
-- have.
withNetworkSocket :: String -> Socket -> (Network.Socket -> IO a) -> IO a
withNetworkSocket name s = bracket (duplicate name s >>= Network.mkSocket) closeTheirs

duplicate :: String -> Socket -> IO CInt
duplicate name s = onDescriptor ("Millrace.Socket." ++ name) s "" c_duplicate

-- | Takes over a socket of "Network.Socket". Its descriptor is duplicated and the old socket closed, so do not use that
-- any more. If there is no free descriptor, the old socket is unchanged.
fromNetworkSocket :: Network.Socket -> IO Socket
fromNetworkSocket old = handOver close $ do
  taken <- duplicateAs "fromNetworkSocket" old
  taken <$ (closeTheirs old `onException` close taken)

-- | A socket for the same connection, or with the same queue of connections, as one of "Network.Socket", which stays
-- open: both must be closed. Closing one of them does not wake threads that wait on the other. Does not block.
duplicateNetworkSocket :: Network.Socket -> IO Socket
duplicateNetworkSocket = handOver close . duplicateAs "duplicateNetworkSocket"

-- Call it masked.
duplicateAs :: String -> Network.Socket -> IO Socket
duplicateAs name theirs = do
  descriptor <- Network.withFdSocket theirs $ \number ->
    callOn ("Millrace.Socket." ++ name) (show theirs) (c_duplicate number)
  fromDescriptor descriptor `onException` c_close descriptor

-- Closes a socket of the network package. GHC's I/O manager (before base 4.16) takes a lock of each capability for
-- this. If an exception comes while it waits for the second lock, the first one stays locked, and threads that wait for
-- some descriptors wait for ever.
closeTheirs :: Network.Socket -> IO ()
closeTheirs = uninterruptibleMask_ . Network.close

-- | Takes over the descriptor of a socket, for example an inherited one. If it throws, the caller must close the
-- descriptor.
fromDescriptor :: CInt -> IO Socket
fromDescriptor descriptor = makeOurs descriptor >> newSocketFrom descriptor

-- | 'fromDescriptor' under the name that "Network.Socket" has for it.
mkSocket :: CInt -> IO Socket
mkSocket = fromDescriptor

-- | The descriptor's number, for calls that Millrace does not have. Do not close it. It is valid until the socket is
-- closed. 'Millrace.Operation.whileOpen' keeps the socket open during a call that does not wait.
--
-- Do not make another socket from it. A socket of "Network.Socket" (@mkSocket@) closes its descriptor when it is
-- garbage-collected, which breaks this socket and any later descriptor with the same number. Use 'socketToFd' instead,
-- which closes this socket.
withFdSocket :: Socket -> (CInt -> IO a) -> IO a
withFdSocket s use = openDescriptor "Millrace.Socket.withFdSocket" s >>= use

-- | The descriptor's number, as in 'withFdSocket'.
unsafeFdSocket :: Socket -> IO CInt
unsafeFdSocket s = withFdSocket s return

-- | Closes the socket and returns a new descriptor for the same connection, which the caller must close. It is
-- non-blocking and closed by exec. Throws if an interrupted receive or accept has left bytes, messages or connections:
-- receive or accept these first.
socketToFd :: Socket -> IO CInt
socketToFd = toDescriptor "socketToFd"

-- | Converts a socket to a handle, and closes the socket. Throws as 'socketToFd' does. GHC's own manager serves the
-- handle.
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
socketHandle :: Socket -> Handle
socketHandle (Socket handle _) = handle
