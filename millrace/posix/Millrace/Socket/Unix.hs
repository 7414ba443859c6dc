-- | The special abilities of Unix sockets: they pass descriptors and credentials beside bytes, know their peers, and
-- can have names that are in no file system.
--
-- > -- Hand a connection over to another process, with what was read of it.
-- > handOverTo worker connection begin = do
-- >   descriptor <- socketToFd connection
-- >   sendPassing worker nothingPassed {passedDescriptors = [Fd descriptor]} begin
-- >   closeFd (Fd descriptor)
--
-- All functions throw 'IOError' that names the function and the socket. Only on Linux; sockets of "Millrace.Simulation"
-- refuse all of it (@EOPNOTSUPP@).
--
-- >>> import Millrace
-- >>> import Millrace.Pipe
-- >>> (here, there) <- socketPair AF_UNIX Stream defaultProtocol
-- >>> (out, into) <- newPipe
-- >>> sendPassing here nothingPassed {passedDescriptors = [writeEndDescriptor into]} "a pipe"
-- >>> (text, Passed [descriptor] Nothing) <- receivePassing there 100
-- >>> text
-- "a pipe"
-- >>> copy <- writeEndFromDescriptor descriptor
-- >>> writePipe copy "through it" >> readPipe out 100
-- "through it"
-- >>> (== Right True) . fmap ((> 0) . credentialsProcess) . Right <$> peerCredentials here :: IO Bool
-- True
module Millrace.Socket.Unix
  ( -- * Passing descriptors and credentials
    Passed (..),
    nothingPassed,
    sendPassing,
    sendPassingBefore,
    receivePassing,
    receivePassingBefore,

    -- * Credentials
    Credentials (..),
    peerCredentials,
    setReceivesCredentials,
    getReceivesCredentials,

    -- * Names
    abstractName,
  )
where

import Control.Exception (throwIO, uninterruptibleMask_)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Error (eINVAL, eMFILE)
import Foreign.C.Types (CInt (..), CSize (..), CUInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (peekArray, withArray)
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Attempt (attempt)
import Millrace.Internal.Constants.Sockets
import Millrace.Internal.CoreCalls (c_close, c_getsockopt)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Socket (getSocketOption, setSocketOption)
import Millrace.Socket.ByteString (recvBefore, sendAllBefore)
import Network.Socket (SockAddr (..), SocketOption (..))
import System.Posix.Types (Fd (..))

foreign import ccall unsafe "mrh_send_passing"
  c_send_passing ::
    CInt -> Ptr a -> CSize -> Ptr CInt -> CUInt -> Ptr Word32 -> IO Int64

foreign import ccall unsafe "mrh_receive_passing"
  c_receive_passing ::
    CInt -> Ptr Word8 -> CSize -> Ptr Word8 -> IO Int64

-- | The identity of a process.
data Credentials = Credentials
  { -- | its number; 0 if the receiver's process namespace does not have it
    credentialsProcess :: !Word32,
    credentialsUser :: !Word32,
    credentialsGroup :: !Word32
  }
  deriving (Eq, Show, Read)

-- | Descriptors and credentials that are passed beside bytes.
data Passed = Passed
  { -- | At most 253. The receiver gets new descriptors for the same files and sockets.
    passedDescriptors :: ![Fd],
    -- | The sender's. The system refuses wrong ones (@EPERM@), except from the superuser.
    passedCredentials :: !(Maybe Credentials)
  }
  deriving (Eq, Show)

-- | Neither descriptors nor credentials.
nothingPassed :: Passed
nothingPassed = Passed {passedDescriptors = [], passedCredentials = Nothing}

-- | Sends bytes to the peer, and passes descriptors and credentials with the first of them. There must be at least one
-- byte, because a stream passes nothing without bytes (@EINVAL@). Waits while the socket is full. The caller keeps the
-- descriptors. If it is interrupted or fails, it may have passed everything and sent a part of the bytes.
sendPassing :: Socket -> Passed -> ByteString -> IO ()
sendPassing = sendPassingBefore noDeadline

-- | 'sendPassing' with a deadline ('Millrace.Deadline.isDeadlineError').
sendPassingBefore :: Deadline -> Socket -> Passed -> ByteString -> IO ()
sendPassingBefore deadline s@(Socket handle _) (Passed descriptors credentials) bytes = do
  when (ByteString.null bytes || length descriptors > passedMost) $ throwIO (failure function (describe s) eINVAL)
  sent <- withArray [number | Fd number <- descriptors] $ \passed -> withCredentials $ \theirs ->
    unsafeUseAsCStringLen bytes $ \(start, size) ->
      attempt function s "" deadline (waitWritableRequest handle) $ \descriptor ->
        c_send_passing descriptor start (fromIntegral size) passed (fromIntegral (length descriptors)) theirs
  let rest = ByteString.drop (fromIntegral sent) bytes
  unless (ByteString.null rest) $ sendAllBefore deadline s rest
  where
    function = "Millrace.Socket.Unix.sendPassing"
    withCredentials use = case credentials of
      Nothing -> use nullPtr
      Just (Credentials process user theirGroup) -> withArray [process, user, theirGroup] use

-- | Waits for bytes, and receives at most the given number, with what was passed beside them. None: the peer has shut
-- down sending. The caller must close the descriptors; exec closes them, too. Credentials come if
-- 'setReceivesCredentials' asks for them. On a stream, bytes with something beside them are not mixed with bytes that
-- were sent before or after.
--
-- Throws if this process has too many descriptors (@EMFILE@); then those that came are closed and the bytes are lost.
-- If it is interrupted when a message has just arrived, the next receive gets the bytes, and the descriptors are
-- closed.
receivePassing :: Socket -> Int -> IO (ByteString, Passed)
receivePassing = receivePassingBefore noDeadline

-- | 'receivePassing' with a deadline ('Millrace.Deadline.isDeadlineError').
receivePassingBefore :: Deadline -> Socket -> Int -> IO (ByteString, Passed)
receivePassingBefore deadline s@(Socket handle _) size = handOver giveBack $ do
  checkSize function s size
  isKept <- keepsBytes s
  -- Bytes that an interrupted receive has left come without descriptors and credentials.
  if isKept then withNothing <$> recvBefore deadline s size else receiveNow
  where
    function = "Millrace.Socket.Unix.receivePassing"
    withNothing bytes = (bytes, nothingPassed)
    receiveNow = do
      memory <- mallocByteString size
      allocaBytes arrivedSize $ \beside -> do
        count <- withForeignPtr memory $ \buffer ->
          attempt function s "" deadline (waitReadableRequest handle) $ \descriptor ->
            c_receive_passing descriptor buffer (fromIntegral size) beside
        passed <- passedIn beside
        isPartly <- peekByteOff beside arrivedIsPartly :: IO Word32
        when (isPartly /= 0) $ closeAll passed >> throwIO (failure function (describe s) eMFILE)
        let bytes = ByteString.copy (fromForeignPtr memory 0 (fromIntegral count))
        bytes `seq` return (bytes, passed)
    giveBack (bytes, passed) = closeAll passed >> keepBytesFrom (peerOf s) s bytes
    closeAll passed = uninterruptibleMask_ (mapM_ (\(Fd number) -> c_close number) (passedDescriptors passed))

-- Reads an mrh_arrived.
passedIn :: Ptr Word8 -> IO Passed
passedIn beside = do
  count <- peekByteOff beside arrivedCount :: IO Word32
  numbers <- peekArray (fromIntegral count) (beside `plusPtr` arrivedPassed) :: IO [CInt]
  hasCredentials <- peekByteOff beside arrivedHasCredentials :: IO Word32
  theirs <- credentialsAt (beside `plusPtr` arrivedCredentials)
  return (Passed (map Fd numbers) (if hasCredentials == 0 then Nothing else Just theirs))

credentialsAt :: Ptr Word8 -> IO Credentials
credentialsAt memory = do
  numbers <- peekArray 3 (castPtr memory)
  case numbers of
    [process, user, theirGroup] -> return (Credentials process user theirGroup)
    _ -> error "Millrace.Socket.Unix: three numbers were asked for"

-- | The identity of the peer when it connected, made the pair of sockets, or began to listen (@SO_PEERCRED@). Only for
-- streams and pairs of sockets. Does not wait.
peerCredentials :: Socket -> IO Credentials
peerCredentials s = allocaBytes credentialsSize $ \memory -> with (fromIntegral credentialsSize) $ \size -> do
  void . onDescriptor "Millrace.Socket.Unix.peerCredentials" s "" $ \descriptor ->
    c_getsockopt descriptor level name memory size
  credentialsAt memory
  where
    SockOpt level name = optionPeerCredentials

-- | Whether the system adds the sender's credentials to each message that has none (@SO_PASSCRED@). Does not wait.
setReceivesCredentials :: Socket -> Bool -> IO ()
setReceivesCredentials s isOn = setSocketOption s optionPassCredentials (fromEnum isOn)

-- | What 'setReceivesCredentials' has set.
getReceivesCredentials :: Socket -> IO Bool
getReceivesCredentials s = (/= 0) <$> getSocketOption s optionPassCredentials

-- | A name outside the file system: it needs no file, has no permissions, and is free again when its socket is closed.
-- Characters stand for bytes, at most 107 of them.
--
-- >>> import Millrace
-- >>> s <- socket AF_UNIX Stream defaultProtocol
-- >>> bind s (abstractName "millrace-example") >> (== abstractName "millrace-example") <$> getSocketName s
-- True
abstractName :: String -> SockAddr
abstractName name = SockAddrUnix ('\0' : name)
