-- | The socket type, and the calls that set a socket up; nothing here waits.
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
    withAddressPlace,
    makeOurs,
  )
where

import Control.Exception (throwIO)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Int (Int64)
import Data.Maybe (isJust, isNothing)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eBADF, eINTR, eNAMETOOLONG, eNOMEM, eTIMEDOUT, errnoToIOError, getErrno)
import Foreign.C.Types (CInt, CUInt)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Marshal.Array (peekArray)
import Foreign.Marshal.Utils (fillBytes, with)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, sizeOf)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.Constants
import Millrace.Internal.Foreign
import Millrace.Internal.Handle (recall)
import Millrace.Internal.Park (Request, performOnce)
import Millrace.Operation (Handle, adopt, descriptorOf, failure, isOpen, whileOpen)
import Network.Socket (SockAddr (..), SocketOption (..), SocketType (..))
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | A socket whose operations go through Millrace. Two are equal if they are the same socket.
--
-- A socket that is no longer referred to is not closed by the garbage collector: close it, for instance with
-- @bracket@.
--
-- @since 0.1.0
data Socket = Socket !Handle !(IORef Kept)

instance Eq Socket where
  Socket a _ == Socket b _ = a == b

instance Show Socket where
  showsPrec _ (Socket handle _) = showString "<socket: " . shows (descriptorOf handle) . showChar '>'

-- | What arrived for a thread that had been interrupted meanwhile, and waits for the next one who asks.
data Kept
  = KeptNothing
  | -- | bytes, then the error that ended the stream; 0: none
    KeptStream !ByteString !Int64
  | -- | of a socket that is no stream; the next one first
    KeptMessages [Message]
  | -- | the next one first
    KeptConnections [(Socket, SockAddr)]
  | -- | the socket is closed, and keeps nothing any more
    KeptClosed

-- | Who has sent it is not known if it was received without asking, on a socket without a peer.
data Message = Message !ByteString !(Maybe SockAddr)

newSocketFrom :: CInt -> IO Socket
newSocketFrom descriptor = Socket <$> adopt descriptor <*> newIORef KeptNothing

-- | For error messages.
describe :: Socket -> String
describe = show

-- | Gives back what a receive has returned: the next one begins with it.
keepBytes :: Socket -> ByteString -> IO ()
keepBytes s = keepBytesFrom (peerOf s) s

-- | The same, with a way to tell who has sent it if it is a message.
keepBytesFrom :: IO (Maybe SockAddr) -> Socket -> ByteString -> IO ()
keepBytesFrom findSender s bytes = do
  hasBoundaries <- carriesMessages s
  if hasBoundaries
    then findSender >>= keep s . beforeMessages . Message bytes
    else unless (ByteString.null bytes) $ keep s beforeStream
  where
    beforeStream KeptNothing = KeptStream bytes 0
    beforeStream (KeptStream later end) = KeptStream (bytes <> later) end
    beforeStream other = other
    beforeMessages message KeptNothing = KeptMessages [message]
    beforeMessages message (KeptMessages others) = KeptMessages (message : others)
    beforeMessages _ other = other

-- | Gives back the error by which a receive has ended. The system tells of the end of a connection once, and of the end of
-- the stream ever after: who came next would take what was cut off for complete.
keepError :: Socket -> Int64 -> IO ()
keepError s problem = do
  hasBoundaries <- carriesMessages s
  isConnections <- if hasBoundaries then return False else endsConnection
  when isConnections $ keep s after
  where
    endsConnection
      | negate problem `elem` map codeOf [eBADF, eNOMEM] || problem `elem` [cancelled, recalled] = return False
      | negate problem == codeOf eTIMEDOUT = isNothing <$> peerOf s -- else it was a deadline
      | otherwise = return True
    after KeptNothing = KeptStream ByteString.empty problem
    after (KeptStream earlier 0) = KeptStream earlier problem
    after other = other
    codeOf (Errno code) = fromIntegral code

-- Somebody may be waiting for what is kept now: see 'keptOr'.
keep :: Socket -> (Kept -> Kept) -> IO ()
keep (Socket handle ref) before = atomicModifyIORef' ref (\kept -> (before kept, ())) >> recall handle

-- | Is it no stream? Asked only where something is kept or very much sent: a socket that is accepted need not pay for it.
carriesMessages :: Socket -> IO Bool
carriesMessages (Socket handle _) = alloca $ \kind -> with (fromIntegral (sizeOf (0 :: CInt))) $ \size -> do
  result <- whileOpen handle $ \descriptor -> c_getsockopt descriptor level name kind size
  if result == Just 0 then (/= Stream) . GeneralSocketType <$> peek kind else return False
  where
    SockOpt level name = Type

-- | The peer's address, if there is one.
peerOf :: Socket -> IO (Maybe SockAddr)
peerOf (Socket handle _) = withAddressPlace $ \place size -> do
  result <- whileOpen handle $ \descriptor -> c_getpeername descriptor place size
  if result == Just 0 then Just <$> (peek size >>= addressFrom place) else return Nothing

-- | Room for an address that a call tells, and for its length.
withAddressPlace :: (Ptr Word8 -> Ptr CUInt -> IO a) -> IO a
withAddressPlace use = allocaBytes addressSize $ \address -> do
  fillBytes address 0 addressSize
  with (fromIntegral addressLength) (use (address `plusPtr` addressStorage))

-- | Will the next receive begin with something that was given back?
keepsBytes :: Socket -> IO Bool
keepsBytes (Socket _ ref) =
  readIORef ref >>= \kept -> return $ case kept of
    KeptStream _ _ -> True
    KeptMessages _ -> True
    _ -> False
{-# INLINE keepsBytes #-}

-- | Does it keep anything at all that was given back?
keepsAnything :: Socket -> IO Bool
keepsAnything (Socket _ ref) =
  readIORef ref >>= \kept -> return $ case kept of
    KeptNothing -> False
    KeptClosed -> False
    _ -> True

-- | Gives back a connection: the next accept returns it. 'False': the socket is closed, and the connection is still the
-- caller's.
keepConnection :: Socket -> (Socket, SockAddr) -> IO Bool
keepConnection (Socket handle ref) connection = do
  isKept <- atomicModifyIORef' ref before
  isKept <$ when isKept (recall handle)
  where
    before KeptNothing = (KeptConnections [connection], True)
    before (KeptConnections others) = (KeptConnections (connection : others), True)
    before other = (other, False)

-- | Looks at what is kept and leaves what the function returns first. Costs one read when nothing is kept.
takeKept :: Socket -> (Kept -> (Kept, a)) -> a -> IO a
takeKept (Socket _ ref) split nothing = do
  kept <- readIORef ref
  case kept of
    KeptNothing -> return nothing
    _ -> atomicModifyIORef' ref split
{-# INLINE takeKept #-}

-- | What the function finds among what is kept, or else the result of a receive. What is kept while that waits, this thread
-- or another one that waits gets: who keeps something has all of them look, and who begins to wait looks once more, for the
-- other may have come in between. To be called masked.
keptOr ::
  Socket -> (Kept -> (Kept, Maybe k)) -> (k -> IO a) -> (Int64 -> IO ()) -> Request b -> (Int64 -> IO a) -> IO a
keptOr s split useKept keepLate what useResult = look
  where
    look = takeKept s split Nothing >>= maybe receive useKept
    receive = do
      result <- performOnce (return ()) (lookAgain s split) keepLate what
      if result == recalled then look else useResult result
{-# INLINE keptOr #-}

-- | To be done when a receive has begun to wait.
lookAgain :: Socket -> (Kept -> (Kept, Maybe k)) -> IO ()
lookAgain (Socket handle ref) split =
  readIORef ref >>= \kept -> case kept of
    KeptNothing -> return ()
    _ -> when (isJust (snd (split kept))) (recall handle)
{-# INLINE lookAgain #-}

-- | A call on the socket's descriptor, for a function of this name: throws its errors, and one for a closed socket. What
-- is said of the socket besides is the third argument. The call must not wait.
onDescriptor :: String -> Socket -> String -> (CInt -> IO CInt) -> IO CInt
onDescriptor attempted s detail call = callWhileOpen attempted s (callOn attempted (describe s ++ detail) . call)

-- | A call that does not wait; throws for a closed socket, under this name. Nobody can close the socket meanwhile.
callWhileOpen :: String -> Socket -> (CInt -> IO a) -> IO a
callWhileOpen attempted s@(Socket handle _) call = whileOpen handle call >>= maybe (isClosed attempted s) return

-- | The descriptor's number; throws for a closed socket, under this name.
openDescriptor :: String -> Socket -> IO CInt
openDescriptor attempted s@(Socket handle _) = do
  open <- isOpen handle
  if open then return (descriptorOf handle) else isClosed attempted s

isClosed :: String -> Socket -> IO a
isClosed attempted s = throwIO (failure attempted (describe s) closed)
  where
    closed = let Errno code = eBADF in negate (fromIntegral code)

-- | Repeats a call that a signal interrupted, and throws what else it fails with.
callOn :: String -> String -> IO CInt -> IO CInt
callOn attempted object call = do
  result <- call
  if result >= 0
    then return result
    else do
      code <- getErrno
      if code == eINTR
        then callOn attempted object call
        else throwIO (errnoToIOError attempted code Nothing (Just object))

-- | An address in memory, and its size, for a function of this name that is going to do something with it to the socket.
-- The network package would end a program that names a Unix socket for which there is no room (@error@).
withAddress :: String -> Socket -> SockAddr -> (Ptr SockAddr -> Int -> IO a) -> IO a
withAddress attempted s address use
  | isTooLong address = throwIO (failure attempted (describe s ++ " to " ++ show address) nameTooLong)
  | otherwise = allocaBytes size $ \pointer -> do
    pokeSocketAddress pointer address
    use pointer size
  where
    size = sizeOfSocketAddress address
    nameTooLong = let Errno code = eNAMETOOLONG in negate (fromIntegral code)

-- An address that has a path is as large as there can be.
isTooLong :: SockAddr -> Bool
isTooLong address = case address of
  SockAddrUnix path -> not (null (drop (sizeOfSocketAddress (SockAddrUnix "") - pathOffset) path))
  _ -> False

-- | In every @sockaddr_un@.
pathOffset :: Int
pathOffset = 2

-- | The address at a place, of so many bytes. The network package reads the name of a Unix socket up to the first NUL, which is
-- the first character of an abstract one (unix(7)).
addressFrom :: Ptr Word8 -> CUInt -> IO SockAddr
addressFrom place size =
  peekSocketAddress (castPtr place) >>= \address -> case address of
    SockAddrUnix "" -> SockAddrUnix . abstractName <$> peekArray (fromIntegral size - pathOffset) (place `plusPtr` pathOffset)
    _ -> return address

-- | Some systems tell room for a name where there is none.
abstractName :: [Word8] -> String
abstractName bytes
  | all (== 0) bytes = ""
  | otherwise = map (toEnum . fromIntegral) bytes

-- | Makes a descriptor that came from elsewhere what every socket of ours is: non-blocking, and closed by exec.
makeOurs :: CInt -> IO ()
makeOurs descriptor =
  void $ callOn "Millrace.Socket.fromDescriptor" ("descriptor " ++ show descriptor) (c_make_ours descriptor)

-- | An end of stream and an empty buffer would look the same.
checkSize :: String -> Socket -> Int -> IO ()
checkSize attempted s size
  | size > 0 = return ()
  | otherwise = refuseSize attempted s "be positive" size
{-# INLINE checkSize #-}

-- | A negative size is a very large one to the system, which would send what lies behind the buffer.
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

-- | At most so many of the bytes that are kept, or the next message, cut off after so many; or the error that is due.
firstBytes :: Int -> Kept -> (Kept, Maybe (Either Int64 ByteString))
firstBytes size (KeptStream bytes end)
  | ByteString.null bytes = (KeptNothing, Just (Left end))
  | otherwise = let (first, rest) = ByteString.splitAt size bytes in (stream rest end, Just (Right first))
firstBytes size (KeptMessages (Message bytes _ : others)) = (messages others, Just (Right (ByteString.take size bytes)))
firstBytes _ other = (other, Nothing)

-- | The next message of which the sender is known, cut off after so many bytes. The others are left to 'firstBytes'. Of a
-- stream what that returns.
firstMessage :: Int -> Kept -> (Kept, Maybe (Either Int64 (ByteString, Maybe SockAddr)))
firstMessage size kept@(KeptMessages ones) = case break hasSender ones of
  (earlier, Message bytes sender : later) -> (messages (earlier ++ later), Just (Right (ByteString.take size bytes, sender)))
  _ -> (kept, Nothing)
  where
    hasSender (Message _ sender) = isJust sender
firstMessage size kept = let (left, first) = firstBytes size kept in (left, fmap ofNobody <$> first)
  where
    ofNobody bytes = (bytes, Nothing)

stream :: ByteString -> Int64 -> Kept
stream bytes end
  | ByteString.null bytes && end == 0 = KeptNothing
  | otherwise = KeptStream bytes end

messages :: [Message] -> Kept
messages [] = KeptNothing
messages ones = KeptMessages ones
