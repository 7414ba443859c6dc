-- | Options of sockets by name and type, where @setSocketOption@ of "Millrace.Socket" takes numbers.
--
-- > main = withServer defaultServer (passive "7000") $ \connection -> do
-- >   setNoDelay connection True
-- >   setKeepAlive connection (Just defaultKeepAlive)
-- >   serve connection
--
-- No function waits. All throw an 'IOError' that names the function and the socket: for a closed socket (@EBADF@), and
-- if the system does not know the option for sockets of this type (@ENOPROTOOPT@, @EOPNOTSUPP@). A machine of
-- "Millrace.Simulation" knows few options and refuses the others. Only on Linux.
--
-- >>> import Millrace
-- >>> s <- socket AF_INET Stream defaultProtocol
-- >>> setNoDelay s True >> getNoDelay s
-- True
-- >>> setKeepAlive s (Just defaultKeepAlive {keepAliveIdle = seconds 10}) >> getKeepAlive s
-- Just (KeepAliveTimes {keepAliveIdle = seconds 10, keepAliveInterval = seconds 15, keepAliveProbes = 4})
-- >>> close s
module Millrace.Socket.Option
  ( -- * Peers that have disappeared
    KeepAliveTimes (..),
    defaultKeepAlive,
    setKeepAlive,
    getKeepAlive,
    setUnacknowledgedLimit,
    getUnacknowledgedLimit,

    -- * Sending
    setNoDelay,
    getNoDelay,
    setSendBuffer,
    getSendBuffer,
    setReceiveBuffer,
    getReceiveBuffer,

    -- * Binding
    setAddressReuse,
    getAddressReuse,
    setPortSharing,
    getPortSharing,
    setOnlyIPv6,
    getOnlyIPv6,

    -- * Closing
    AtClose (..),
    setAtClose,
    getAtClose,
    closeWithReset,

    -- * Connections that begin with bytes
    setFastOpen,
    connectSending,
    connectSendingBefore,
  )
where

import Control.Exception (onException, throwIO)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Foreign.C.Error (Errno (..), eINPROGRESS, eINTR, getErrno)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff, sizeOf)
import Millrace.Deadline
  ( Deadline,
    Duration,
    durationMilliseconds,
    durationSeconds,
    milliseconds,
    minutes,
    noDeadline,
    seconds,
    unlimited,
  )
import Millrace.Internal.Constants.Sockets
import Millrace.Internal.CoreCalls (c_getsockopt, c_setsockopt)
import Millrace.Internal.Socket
import Millrace.Internal.Units (saturated)
import Millrace.Operation
import Millrace.Socket (close)
import Millrace.Socket.ByteString (sendAllBefore)
import Network.Socket (SockAddr, SocketOption (SoError, SockOpt))

foreign import ccall unsafe "mrh_connect_with" c_connect_with :: CInt -> Ptr a -> CSize -> Ptr b -> CUInt -> IO Int64

-- | How the system finds out that a peer has disappeared, for instance because its machine has lost power.
data KeepAliveTimes = KeepAliveTimes
  { -- | A probe is sent to the peer after this time in which nothing arrived.
    keepAliveIdle :: !Duration,
    -- | Without an answer, the next probe follows after this time.
    keepAliveInterval :: !Duration,
    -- | The connection ends with @ETIMEDOUT@ after this many probes without an answer.
    keepAliveProbes :: !Int
  }
  deriving (Eq, Show)

-- | After a minute, every quarter of a minute, four times: a peer that has gone is noticed within two minutes. (The
-- system's values are two hours, 75 seconds and nine times.)
defaultKeepAlive :: KeepAliveTimes
defaultKeepAlive = KeepAliveTimes {keepAliveIdle = minutes 1, keepAliveInterval = seconds 15, keepAliveProbes = 4}

-- | Whether the system sends keep-alive probes to the peer of a TCP connection (@SO_KEEPALIVE@, @TCP_KEEPIDLE@,
-- @TCP_KEEPINTVL@, @TCP_KEEPCNT@). Connections that a listening socket accepts begin with its options. The times are
-- rounded up to seconds, and must be between 1 and 32767 of them, the probes between 1 and 127 (@EINVAL@).
setKeepAlive :: Socket -> Maybe KeepAliveTimes -> IO ()
setKeepAlive s wanted = case wanted of
  Nothing -> set 0 ", keep-alive off" optionKeepAlive
  Just (KeepAliveTimes idle interval probes) -> do
    set (durationSeconds idle) ", keep-alive after seconds" optionKeepAliveIdle
    set (durationSeconds interval) ", keep-alive interval in seconds" optionKeepAliveInterval
    set probes ", keep-alive probes" optionKeepAliveProbes
    set 1 ", keep-alive on" optionKeepAlive
  where
    set value what option = setNumber "Millrace.Socket.Option.setKeepAlive" what option s value

-- | The times that 'setKeepAlive' has set, or the system's. 'Nothing' if it sends no probes.
getKeepAlive :: Socket -> IO (Maybe KeepAliveTimes)
getKeepAlive s = do
  isOn <- get optionKeepAlive
  if isOn == 0
    then return Nothing
    else
      Just
        <$> ( KeepAliveTimes
                <$> (seconds <$> get optionKeepAliveIdle)
                <*> (seconds <$> get optionKeepAliveInterval)
                <*> get optionKeepAliveProbes
            )
  where
    get option = getNumber "Millrace.Socket.Option.getKeepAlive" "" option s

-- | The connection ends with @ETIMEDOUT@ when the peer has not acknowledged sent bytes for this time
-- (@TCP_USER_TIMEOUT@), which is rounded up to milliseconds. 'unlimited' leaves it to the system, which gives up after
-- a quarter of an hour or so.
setUnacknowledgedLimit :: Socket -> Duration -> IO ()
setUnacknowledgedLimit s limit =
  setNumber "Millrace.Socket.Option.setUnacknowledgedLimit" "" optionUserTimeout s millis
  where
    millis = if limit == unlimited then 0 else max 1 (durationMilliseconds limit)

-- | What 'setUnacknowledgedLimit' has set.
getUnacknowledgedLimit :: Socket -> IO Duration
getUnacknowledgedLimit s = limit <$> getNumber "Millrace.Socket.Option.getUnacknowledgedLimit" "" optionUserTimeout s
  where
    limit millis = if millis == 0 then unlimited else milliseconds millis

-- | Whether TCP sends a short segment at once (@TCP_NODELAY@) or waits for the acknowledgement of the one before, which
-- is the default.
setNoDelay :: Socket -> Bool -> IO ()
setNoDelay = setFlag "Millrace.Socket.Option.setNoDelay" optionNoDelay

-- | What 'setNoDelay' has set.
getNoDelay :: Socket -> IO Bool
getNoDelay = getFlag "Millrace.Socket.Option.getNoDelay" optionNoDelay

-- | Requests memory of this size for bytes that were sent and are not acknowledged (@SO_SNDBUF@). The system reserves
-- twice as much, because it needs some memory itself, and has a limit (@net.core.wmem_max@). A TCP connection whose
-- memory was set no longer adapts it to the network.
setSendBuffer :: Socket -> Int -> IO ()
setSendBuffer = setNumber "Millrace.Socket.Option.setSendBuffer" "" optionSendBuffer

-- | How many bytes the system has reserved for sending.
getSendBuffer :: Socket -> IO Int
getSendBuffer = getNumber "Millrace.Socket.Option.getSendBuffer" "" optionSendBuffer

-- | Requests memory of this size for bytes that have arrived and were not received (@SO_RCVBUF@, @net.core.rmem_max@).
-- Set it before connecting or listening, because it decides on the largest window.
setReceiveBuffer :: Socket -> Int -> IO ()
setReceiveBuffer = setNumber "Millrace.Socket.Option.setReceiveBuffer" "" optionReceiveBuffer

-- | How many bytes the system has reserved for receiving.
getReceiveBuffer :: Socket -> IO Int
getReceiveBuffer = getNumber "Millrace.Socket.Option.getReceiveBuffer" "" optionReceiveBuffer

-- | Whether the socket may be bound to an address that connections of an earlier server still use (@SO_REUSEADDR@).
setAddressReuse :: Socket -> Bool -> IO ()
setAddressReuse = setFlag "Millrace.Socket.Option.setAddressReuse" optionReuseAddress

-- | What 'setAddressReuse' has set.
getAddressReuse :: Socket -> IO Bool
getAddressReuse = getFlag "Millrace.Socket.Option.getAddressReuse" optionReuseAddress

-- | Whether sockets of the same user may be bound to the same address and port (@SO_REUSEPORT@). The system then
-- distributes connections and datagrams among them. All must have set it before they were bound.
setPortSharing :: Socket -> Bool -> IO ()
setPortSharing = setFlag "Millrace.Socket.Option.setPortSharing" optionReusePort

-- | What 'setPortSharing' has set.
getPortSharing :: Socket -> IO Bool
getPortSharing = getFlag "Millrace.Socket.Option.getPortSharing" optionReusePort

-- | Whether an IPv6 socket refuses IPv4 (@IPV6_V6ONLY@). 'Millrace.Socket.socket' makes sockets that do not. Set it
-- before binding.
setOnlyIPv6 :: Socket -> Bool -> IO ()
setOnlyIPv6 = setFlag "Millrace.Socket.Option.setOnlyIPv6" optionOnlyIPv6

-- | What 'setOnlyIPv6' has set.
getOnlyIPv6 :: Socket -> IO Bool
getOnlyIPv6 = getFlag "Millrace.Socket.Option.getOnlyIPv6" optionOnlyIPv6

-- | How closing a connection treats sent bytes that the peer has not acknowledged.
data AtClose
  = -- | The system delivers them, and closing returns at once. This is the system's default.
    DeliverLater
  | -- | The system delivers them, and closing waits for at most this time, rounded up to seconds, with all threads of
    -- its capability: 'Millrace.Socket.gracefulClose' is better.
    DeliverFirst !Duration
  | -- | They are discarded. The peer gets a reset, and this system keeps nothing of the connection.
    ResetConnection
  deriving (Eq, Show)

-- | Sets how 'close' treats bytes that the peer has not acknowledged (@SO_LINGER@).
setAtClose :: Socket -> AtClose -> IO ()
setAtClose s atClose = allocaBytes lingerSize $ \memory -> do
  pokeByteOff memory lingerIsOn isOn
  pokeByteOff memory lingerSeconds time
  void . onDescriptor "Millrace.Socket.Option.setAtClose" s (", " ++ show atClose) $ \descriptor ->
    c_setsockopt descriptor level name memory (fromIntegral lingerSize)
  where
    SockOpt level name = optionLinger
    isOn, time :: CInt
    (isOn, time) = case atClose of
      DeliverLater -> (0, 0)
      DeliverFirst limit -> (1, saturated (max 1 (durationSeconds limit)))
      ResetConnection -> (1, 0)

-- | What 'setAtClose' has set.
getAtClose :: Socket -> IO AtClose
getAtClose s = allocaBytes lingerSize $ \memory -> with (fromIntegral lingerSize) $ \size -> do
  void . onDescriptor "Millrace.Socket.Option.getAtClose" s "" $ \descriptor ->
    c_getsockopt descriptor level name memory size
  isOn <- peekByteOff memory lingerIsOn :: IO CInt
  time <- peekByteOff memory lingerSeconds :: IO CInt
  return (meaning isOn (fromIntegral time))
  where
    SockOpt level name = optionLinger
    meaning 0 _ = DeliverLater
    meaning _ 0 = ResetConnection
    meaning _ time = DeliverFirst (seconds time)

-- | Closes a connection at once: the peer's next receive fails (@ECONNRESET@), and bytes in transit are lost. For peers
-- that misbehave. It wakes threads that wait on the socket, as 'close' does. A closed socket stays as it is.
--
-- >>> import Millrace
-- >>> import System.IO.Error (tryIOError)
-- >>> listener <- socket AF_INET Stream defaultProtocol
-- >>> bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) >> listen listener 1
-- >>> client <- socket AF_INET Stream defaultProtocol
-- >>> getSocketName listener >>= connect client
-- >>> accept listener >>= closeWithReset . fst
-- >>> either (const "reset") show <$> tryIOError (recv client 10)
-- "reset"
closeWithReset :: Socket -> IO ()
closeWithReset s@(Socket handle _) = do
  open <- isOpen handle
  when open ((setAtClose s ResetConnection `onException` close s) >> close s)

-- | Allows the given number of clients at a time to begin connections to this listening socket with bytes
-- (@TCP_FASTOPEN@), before their addresses are verified. Does nothing unless the system allows it to servers: bit 2 of
-- @net.ipv4.tcp_fastopen@. Such bytes may arrive twice, so the request in them must be safe to repeat.
setFastOpen :: Socket -> Int -> IO ()
setFastOpen = setNumber "Millrace.Socket.Option.setFastOpen" ", fast open" optionFastOpen

-- | Connects, and sends bytes with the first packet if the system knows the peer's cookie from an earlier connection
-- (TCP fast open, RFC 7413): the answer comes a round trip earlier. Otherwise it connects, asks for a cookie, and then
-- sends the bytes. It returns when the system has taken all bytes. That may be before the peer has accepted: if it
-- refuses, the next receive or send throws.
--
-- As after 'Millrace.Socket.connect', close the socket if it throws. Interruptible.
connectSending :: Socket -> SockAddr -> ByteString -> IO ()
connectSending = connectSendingBefore noDeadline

-- | 'connectSending' with a deadline ('Millrace.Deadline.isDeadlineError').
connectSendingBefore :: Deadline -> Socket -> SockAddr -> ByteString -> IO ()
connectSendingBefore deadline s@(Socket handle _) address bytes = do
  taken <- withAddress function s address $ \memory length' -> unsafeUseAsCStringLen bytes $ \(start, size) ->
    begin (\descriptor -> c_connect_with descriptor start (fromIntegral size) memory (fromIntegral length'))
  let rest = ByteString.drop taken bytes
  unless (ByteString.null rest) $ sendAllBefore deadline s rest
  where
    function = "Millrace.Socket.Option.connectSending"
    what = describe s ++ " to " ++ show address
    begin call = do
      (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
      outcome result code
      where
        outcome result code
          | result >= 0 = return (fromIntegral result)
          | code == eINTR = begin call
          | code == eINPROGRESS = 0 <$ waitUntilConnected
          | otherwise = throwIO (failure function what code)
    waitUntilConnected = do
      perform (before deadline (waitWritableRequest handle)) >>= throwIfFailed function what
      problem <- getNumber function "" (SockOpt socketLevel errorOption) s
      unless (problem == 0) $ throwIO (failure function what (Errno (fromIntegral problem)))
    SockOpt socketLevel errorOption = SoError

setFlag :: String -> SocketOption -> Socket -> Bool -> IO ()
setFlag function option s isOn = setNumber function (if isOn then ", on" else ", off") option s (fromEnum isOn)

getFlag :: String -> SocketOption -> Socket -> IO Bool
getFlag function option s = (/= 0) <$> getNumber function "" option s

setNumber :: String -> String -> SocketOption -> Socket -> Int -> IO ()
setNumber function what (SockOpt level name) s value = with (saturated value) $ \memory ->
  void . onDescriptor function s what $ \descriptor ->
    c_setsockopt descriptor level name memory (fromIntegral (sizeOf (0 :: CInt)))

getNumber :: String -> String -> SocketOption -> Socket -> IO Int
getNumber function what (SockOpt level name) s =
  alloca $ \memory -> with (fromIntegral (sizeOf (0 :: CInt))) $ \size -> do
    poke memory (0 :: CInt)
    void . onDescriptor function s what $ \descriptor -> c_getsockopt descriptor level name memory size
    fromIntegral <$> peek memory
