-- | The type of sockets, the bytes and connections that a socket keeps for its next receive or accept, and the calls
-- that set a socket up. Only 'keptOr' waits.
module Millrace.Internal.Socket
  ( Socket (..),
    Kept (..),
    newSocketFrom,
    describe,
    Message (..),
    keepBytes,
    keepBytesFrom,
    keepError,
    carriesMessages,
    keepsBytes,
    keepsAnything,
    keepConnection,
    Keeping (..),
    takeKept,
    keptOr,
    lookAgain,
    firstBytes,
    firstMessage,
    peerOf,
    checkSize,
    checkNotNegative,
    onDescriptor,
    callWhileOpen,
    openDescriptor,
    callOn,
    withAddress,
    addressFrom,
    withAddressBuffer,
    makeOurs,
  )
where

import Control.Exception (throwIO)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Maybe (isJust, isNothing)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eBADF, eINTR, eNAMETOOLONG, eNOMEM, eTIMEDOUT, getErrno)
import Foreign.C.Types (CInt, CUInt)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Marshal.Utils (fillBytes, with)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, sizeOf)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls
import Millrace.Internal.File (pathBytes, pathFrom)
import Millrace.Internal.Handle (retryWaiting)
import Millrace.Internal.Park (Hooks (..), Request (..), performOnce)
import Millrace.Internal.SystemError (systemError)
import Millrace.Operation (Handle, adopt, descriptorOf, failure, isOpen, whileOpen)
import Network.Socket (SockAddr (..), SocketOption (..), SocketType (..))
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | A socket whose operations go through Millrace. Two are equal if they are the same socket.
--
-- A socket that is no longer referred to is not closed by the garbage collector: close it, for instance with
-- @bracket@.
data Socket = Socket !Handle !(IORef Kept)

instance Eq Socket where
  Socket a _ == Socket b _ = a == b

instance Show Socket where
  showsPrec _ (Socket handle _) = showString "<socket: " . shows (descriptorOf handle) . showChar '>'

-- | Bytes, messages or connections that arrived for a thread that was interrupted meanwhile. The next receive or accept
-- takes them.
data Kept
  = KeptNothing
  | -- | Bytes, and then perhaps the error that ended the stream. Not both are empty.
    KeptStream !ByteString !(Maybe Errno)
  | -- | Messages of a socket that is not a stream, the next one first.
    KeptMessages [Message]
  | -- | Connections, the next one first.
    KeptConnections [(Socket, SockAddr)]
  | -- | The socket is closed, and keeps nothing any more.
    KeptClosed

-- | A message, and its sender. The sender of a message that 'Millrace.Socket.ByteString.recv' received is not known on
-- a socket without a peer.
data Message = Message !ByteString !(Maybe SockAddr)

newSocketFrom :: CInt -> IO Socket
newSocketFrom descriptor = Socket <$> adopt descriptor <*> newIORef KeptNothing

-- | The socket's description in error messages.
describe :: Socket -> String
describe = show

-- | Keeps what a receive has returned: the next one begins with it.
keepBytes :: Socket -> ByteString -> IO ()
keepBytes s = keepBytesFrom (peerOf s) s

-- | Keeps the bytes that a receive has returned, as 'keepBytes' does. If they are a message, the action finds its
-- sender.
keepBytesFrom :: IO (Maybe SockAddr) -> Socket -> ByteString -> IO ()
keepBytesFrom findSender s bytes = do
  hasBoundaries <- carriesMessages s
  if hasBoundaries
    then findSender >>= keep s . beforeMessages . Message bytes
    else unless (ByteString.null bytes) $ keep s beforeStream
  where
    beforeStream KeptNothing = KeptStream bytes Nothing
    beforeStream (KeptStream later end) = KeptStream (bytes <> later) end
    beforeStream other = other
    beforeMessages message KeptNothing = KeptMessages [message]
    beforeMessages message (KeptMessages others) = KeptMessages (message : others)
    beforeMessages _ other = other

-- | Keeps the error by which a receive has ended. The system reports a broken connection once, and after that the end
-- of the stream: the next receive would take a stream that was cut off for a complete one.
keepError :: Socket -> Errno -> IO ()
keepError s problem = do
  hasBoundaries <- carriesMessages s
  isConnections <- if hasBoundaries then return False else endsConnection
  when isConnections $ keep s after
  where
    endsConnection
      | problem `elem` [eBADF, eNOMEM, Errno cancelled] = return False
      | problem == eTIMEDOUT = isNothing <$> peerOf s -- with a peer it was a deadline
      | otherwise = return True
    after KeptNothing = KeptStream ByteString.empty (Just problem)
    after (KeptStream earlier Nothing) = KeptStream earlier (Just problem)
    after other = other

-- Wakes threads that wait for what is kept now: see 'keptOr'.
keep :: Socket -> (Kept -> Kept) -> IO ()
keep (Socket handle ref) before = atomicModifyIORef' ref (\kept -> (before kept, ())) >> retryWaiting handle

-- | Whether the socket carries messages rather than a stream. This takes a system call, so ask only when something is
-- kept or much is sent.
carriesMessages :: Socket -> IO Bool
carriesMessages (Socket handle _) = alloca $ \kind -> with (fromIntegral (sizeOf (0 :: CInt))) $ \size -> do
  result <- whileOpen handle $ \descriptor -> c_getsockopt descriptor level name kind size
  if result == Just 0 then (/= Stream) . GeneralSocketType <$> peek kind else return False
  where
    SockOpt level name = Type

-- | The peer's address, if there is one.
peerOf :: Socket -> IO (Maybe SockAddr)
peerOf (Socket handle _) = withAddressBuffer $ \memory size -> do
  result <- whileOpen handle $ \descriptor -> c_getpeername descriptor memory size
  if result == Just 0 then Just <$> (peek size >>= addressFrom memory) else return Nothing

-- | Allocates memory for an address that a call returns, and for its length.
withAddressBuffer :: (Ptr Word8 -> Ptr CUInt -> IO a) -> IO a
withAddressBuffer use = allocaBytes addressSize $ \address -> do
  fillBytes address 0 addressSize
  with (fromIntegral addressLength) (use (address `plusPtr` addressStorage))

-- | Whether the next receive will return something that is kept.
keepsBytes :: Socket -> IO Bool
keepsBytes (Socket _ ref) =
  readIORef ref >>= \kept -> return $ case kept of
    KeptStream _ _ -> True
    KeptMessages _ -> True
    _ -> False
{-# INLINE keepsBytes #-}

-- | Whether anything is kept: bytes, messages or connections.
keepsAnything :: Socket -> IO Bool
keepsAnything (Socket _ ref) =
  readIORef ref >>= \kept -> return $ case kept of
    KeptNothing -> False
    KeptClosed -> False
    _ -> True

-- | The result of keeping a connection.
data Keeping
  = IsKept
  | -- | The socket is closed. The connection is still the caller's.
    NotKept

-- | Keeps a connection: the next accept returns it.
keepConnection :: Socket -> (Socket, SockAddr) -> IO Keeping
keepConnection (Socket handle ref) connection = do
  keeping <- atomicModifyIORef' ref before
  case keeping of
    IsKept -> IsKept <$ retryWaiting handle
    NotKept -> return NotKept
  where
    before KeptNothing = (KeptConnections [connection], IsKept)
    before (KeptConnections others) = (KeptConnections (connection : others), IsKept)
    before other = (other, NotKept)

-- | Reads what is kept, and replaces it by the first result of the function. Costs one read when nothing is kept.
takeKept :: Socket -> (Kept -> (Kept, a)) -> a -> IO a
takeKept (Socket _ ref) split nothing = do
  kept <- readIORef ref
  case kept of
    KeptNothing -> return nothing
    _ -> atomicModifyIORef' ref split
{-# INLINE takeKept #-}

-- | @keptOr s split useKept keep what useEnd@ uses what @split@ finds among what is kept. If it finds nothing, it
-- performs the operation @what@ and uses how that ended.
--
-- This thread, or another one that waits, also gets what is kept while the operation waits: a thread that keeps
-- something makes all waiting threads look again ('retryWaiting'), and a thread that begins to wait looks once more,
-- because something may have been kept in between. Call it masked.
keptOr ::
  Socket ->
  (Kept -> (Kept, Maybe k)) ->
  (k -> IO a) ->
  (Either Errno r -> IO ()) ->
  Request r ->
  (Either Errno r -> IO a) ->
  IO a
keptOr s split useKept keepEnd what useEnd = look
  where
    look = takeKept s split Nothing >>= maybe receive useKept
    receive = do
      value <- performOnce (Hooks (return ()) (lookAgain s split) keepValue) what
      case ended (requestMeaning what) value of
        Retry -> look
        Failed code -> useEnd (Left code)
        Ended result -> useEnd (Right result)
    keepValue value = case ended (requestMeaning what) value of
      Retry -> return ()
      Failed code -> keepEnd (Left code)
      Ended result -> keepEnd (Right result)
{-# INLINE keptOr #-}

-- | Run it when a receive has begun to wait: see 'keptOr'.
lookAgain :: Socket -> (Kept -> (Kept, Maybe k)) -> IO ()
lookAgain (Socket handle ref) split =
  readIORef ref >>= \kept -> case kept of
    KeptNothing -> return ()
    _ -> when (isJust (snd (split kept))) (retryWaiting handle)
{-# INLINE lookAgain #-}

-- | @onDescriptor attempted s detail call@ makes a call with the socket's descriptor. Throws the call's errors, and one
-- for a closed socket; they name the function @attempted@, the socket, and then @detail@. The call must not wait.
onDescriptor :: String -> Socket -> String -> (CInt -> IO CInt) -> IO CInt
onDescriptor attempted s detail call = callWhileOpen attempted s (callOn attempted (describe s ++ detail) . call)

-- | Makes a call that does not wait. Throws for a closed socket, with this function's name. The socket stays open
-- meanwhile.
callWhileOpen :: String -> Socket -> (CInt -> IO a) -> IO a
callWhileOpen attempted s@(Socket handle _) call = whileOpen handle call >>= maybe (isClosed attempted s) return

-- | The descriptor's number; throws for a closed socket, under this name.
openDescriptor :: String -> Socket -> IO CInt
openDescriptor attempted s@(Socket handle _) = do
  open <- isOpen handle
  if open then return (descriptorOf handle) else isClosed attempted s

isClosed :: String -> Socket -> IO a
isClosed attempted s = throwIO (failure attempted (describe s) eBADF)

-- | Repeats a call that a signal interrupted, and throws any other error.
callOn :: String -> String -> IO CInt -> IO CInt
callOn attempted object call = do
  result <- call
  if result >= 0
    then return result
    else do
      code <- getErrno
      if code == eINTR
        then callOn attempted object call
        else throwIO (systemError attempted code (Just object))

-- | @withAddress attempted s address use@ gives @use@ the address in memory, and its size. Throws if the path of a Unix
-- socket is too long, where the network package would call 'error'.
withAddress :: String -> Socket -> SockAddr -> (Ptr SockAddr -> Int -> IO a) -> IO a
withAddress attempted s address use = do
  native <- nativeAddress attempted address
  if isTooLong native
    then throwIO (failure attempted (describe s ++ " to " ++ show address) eNAMETOOLONG)
    else do
      let size = sizeOfSocketAddress native
      allocaBytes size $ \pointer -> do
        pokeSocketAddress pointer native
        use pointer size

-- The size of an address with a path is always that of the longest one.
isTooLong :: SockAddr -> Bool
isTooLong address = case address of
  SockAddrUnix path -> not (null (drop (sizeOfSocketAddress (SockAddrUnix "") - pathOffset) path))
  _ -> False

-- A path is a name of a file like others: its characters become bytes as those of other names do. The network package
-- writes the last eight bits of each character, which is right for abstract names.
nativeAddress :: String -> SockAddr -> IO SockAddr
nativeAddress attempted address = case address of
  SockAddrUnix path@(first : _)
    | first /= '\0' && any (> '\x7f') path ->
      SockAddrUnix . Char8.unpack <$> pathBytes attempted path
  _ -> return address

-- | In every @sockaddr_un@.
pathOffset :: Int
pathOffset = 2

-- | Reads an address of the given size from memory. The network package reads the name of a Unix socket up to the first
-- NUL. An abstract name begins with one (unix(7)), so it is read here. The bytes of a path become characters as those
-- of other names do.
addressFrom :: Ptr Word8 -> CUInt -> IO SockAddr
addressFrom memory size =
  peekSocketAddress (castPtr memory) >>= \address -> case address of
    SockAddrUnix path@(_ : _) | any (> '\x7f') path -> SockAddrUnix <$> pathFrom (Char8.pack path)
    SockAddrUnix "" ->
      SockAddrUnix . abstractName <$> peekArray (fromIntegral size - pathOffset) (memory `plusPtr` pathOffset)
    _ -> return address

-- | Some systems return the length of a path where there is no path.
abstractName :: [Word8] -> String
abstractName bytes
  | all (== 0) bytes = ""
  | otherwise = map (toEnum . fromIntegral) bytes

-- | Makes a descriptor that came from elsewhere non-blocking and closed by exec, as all our sockets are.
makeOurs :: CInt -> IO ()
makeOurs descriptor =
  void $ callOn "Millrace.Socket.fromDescriptor" ("descriptor " ++ show descriptor) (c_set_socket_flags descriptor)

-- | Refuses to receive into an empty buffer: the result would look like the end of the stream.
checkSize :: String -> Socket -> Int -> IO ()
checkSize attempted s size
  | size > 0 = return ()
  | otherwise = refuseSize attempted s "be positive" size
{-# INLINE checkSize #-}

-- | Refuses a negative size. The system would take it for a very large one, and send what lies behind the buffer.
checkNotNegative :: String -> Socket -> Int -> IO ()
checkNotNegative attempted s size
  | size >= 0 = return ()
  | otherwise = refuseSize attempted s "not be negative" size
{-# INLINE checkNotNegative #-}

refuseSize :: String -> Socket -> String -> Int -> IO ()
refuseSize attempted s wanted size =
  throwIO
    ( mkIOError InvalidArgument attempted Nothing (Just (describe s))
        `ioeSetErrorString` ("the size must " ++ wanted ++ ", it is " ++ show size)
    )
{-# NOINLINE refuseSize #-}

-- | At most the given number of the kept bytes; or the next message, cut off after that number; or the kept error.
firstBytes :: Int -> Kept -> (Kept, Maybe (Either Errno ByteString))
firstBytes size kept = case kept of
  KeptStream bytes (Just code) | ByteString.null bytes -> (KeptNothing, Just (Left code))
  KeptStream bytes end -> let (first, rest) = ByteString.splitAt size bytes in (stream rest end, Just (Right first))
  KeptMessages (Message bytes _ : others) -> (messages others, Just (Right (ByteString.take size bytes)))
  _ -> (kept, Nothing)

-- | The next message whose sender is known, cut off after the given number of bytes. The others are left to
-- 'firstBytes'. On a stream, the same as 'firstBytes'.
firstMessage :: Int -> Kept -> (Kept, Maybe (Either Errno (ByteString, Maybe SockAddr)))
firstMessage size kept@(KeptMessages ones) = case break hasSender ones of
  (earlier, Message bytes sender : later) ->
    (messages (earlier ++ later), Just (Right (ByteString.take size bytes, sender)))
  _ -> (kept, Nothing)
  where
    hasSender (Message _ sender) = isJust sender
firstMessage size kept = let (left, first) = firstBytes size kept in (left, fmap withoutSender <$> first)
  where
    withoutSender bytes = (bytes, Nothing)

stream :: ByteString -> Maybe Errno -> Kept
stream bytes end
  | ByteString.null bytes && isNothing end = KeptNothing
  | otherwise = KeptStream bytes end

messages :: [Message] -> Kept
messages [] = KeptNothing
messages ones = KeptMessages ones
