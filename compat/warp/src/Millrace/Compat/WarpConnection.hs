{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: requests.

-- | Connections that a program makes itself, as functions that send and receive, and servers on them: what Warp's
-- internal interface offers to packages like warp-tls.
module Millrace.Compat.WarpConnection
  ( -- * Buffers
    Buffer,
    BufSize,
    WriteBuffer (..),
    createWriteBuffer,
    allocateBuffer,
    freeBuffer,
    copy,

    -- * Files
    FileId (..),
    SendFile,
    sendFile,
    readSendFile,

    -- * Connections
    Recv,
    RecvBuf,
    Connection (..),
    Transport (..),
    socketConnection,
    makeGracefulRecv,

    -- * Servers
    runSettingsConnection,
    runSettingsConnectionMaker,
    runSettingsConnectionMakerSecure,
  )
where

import Control.Concurrent.STM (TVar, atomically, check, newTVarIO, orElse, readTVar)
import Control.Exception
import Control.Monad (unless, void)
import Data.Bifunctor (first)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.IORef
import Data.Word (Word16, Word8)
import Data.X509 (CertificateChain (..), encodeSignedObject)
import Foreign.C.Error (Errno (..), eIO, ePIPE, eTIMEDOUT, errnoToIOError)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import GHC.IO.Exception (IOException (..))
import Millrace.Deadline (Deadline, deadlineNanoseconds, monotonicNanoseconds, noDeadline)
import Millrace.Http.Server.Connection (serveTransport)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.State
import qualified Millrace.Http.Transport as Http
import Millrace.Timer (registerDelay, threadDelay, timeout)
import qualified Network.Socket as Network
import Network.Socket.ByteString (recv, sendAll, sendMany)
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (makeServerState)
import Numeric (showHex)
import System.IO (IOMode (ReadMode), SeekMode (AbsoluteSeek), hSeek, withBinaryFile)
import System.IO.Error (isFullError)
import System.Posix.Types (Fd)

------------------------------------------------------------------------------------------------------------------------
-- Buffers

-- | Memory.
type Buffer = Ptr Word8

-- | Bytes.
type BufSize = Int

-- | A buffer, its size, and how it is freed.
data WriteBuffer = WriteBuffer
  { bufBuffer :: Buffer,
    bufSize :: !BufSize,
    bufFree :: IO ()
  }

-- | A buffer of this size. Its 'bufFree' must run once.
createWriteBuffer :: BufSize -> IO WriteBuffer
createWriteBuffer size = (\buffer -> WriteBuffer buffer size (freeBuffer buffer)) <$> allocateBuffer size

-- | Memory of the C heap.
allocateBuffer :: Int -> IO Buffer
allocateBuffer = mallocBytes

-- | Frees memory of 'allocateBuffer'.
freeBuffer :: Buffer -> IO ()
freeBuffer = free

-- | Copies bytes to an address, and returns the address behind them.
copy :: Ptr Word8 -> ByteString -> IO (Ptr Word8)
copy target bytes = BU.unsafeUseAsCStringLen bytes $ \(source, size) -> do
  copyBytes target (castPtr source) size
  return (target `plusPtr` size)

------------------------------------------------------------------------------------------------------------------------
-- Files

-- | A file, by path, and by descriptor if it is open.
data FileId = FileId
  { fileIdPath :: FilePath,
    fileIdFd :: Maybe Fd
  }

-- | Sends a head and a part of a file: the file, an offset and a length in bytes, what to run after each piece, and the
-- bytes that come before.
type SendFile = FileId -> Integer -> Integer -> IO () -> [ByteString] -> IO ()

-- | Sends a file on a socket. The buffer is not used.
sendFile :: Network.Socket -> Buffer -> BufSize -> (ByteString -> IO ()) -> SendFile
sendFile _ = readSendFile

-- | Sends a file by reading it. The buffer is not used. A file that ends too early is an 'IOError'.
readSendFile :: Buffer -> BufSize -> (ByteString -> IO ()) -> SendFile
readSendFile _ _ send file offset count hook beginning = do
  mapM_ send (filter (not . B.null) beginning)
  withBinaryFile (fileIdPath file) ReadMode $ \file' -> hSeek file' AbsoluteSeek offset >> pass file' count
  where
    pass file' left = unless (left <= 0) $ do
      piece <- B.hGetSome file' (fromIntegral (min left pieceBytes))
      if B.null piece
        then ioError (errnoToIOError "sendFile: the file is shorter than it was" eIO Nothing (Just (fileIdPath file)))
        else send piece >> hook >> pass file' (left - fromIntegral (B.length piece))
    pieceBytes = 32768

------------------------------------------------------------------------------------------------------------------------
-- Connections

-- | Receives some bytes; none at the end.
type Recv = IO ByteString

-- | Fills a buffer; False if the end comes before.
type RecvBuf = Buffer -> BufSize -> IO Bool

-- | What a server can do with a connection. Only 'connSendAll', 'connRecv', 'connClose' and 'connMySockAddr' are used.
data Connection = Connection
  { connSendMany :: [ByteString] -> IO (),
    -- | Sends all bytes.
    connSendAll :: ByteString -> IO (),
    connSendFile :: SendFile,
    -- | Runs once.
    connClose :: IO (),
    -- | Receives some bytes; none at the end.
    connRecv :: Recv,
    connRecvBuf :: RecvBuf,
    connWriteBuffer :: IORef WriteBuffer,
    connHTTP2 :: IORef Bool,
    -- | The server's address.
    connMySockAddr :: Network.SockAddr,
    connAppsInProgress :: TVar Int
  }

-- | How a connection is protected.
data Transport
  = TCP
  | TLS
      { tlsMajorVersion :: Int,
        tlsMinorVersion :: Int,
        -- | The result of ALPN (RFC 7301).
        tlsNegotiatedProtocol :: Maybe ByteString,
        tlsChiperID :: Word16,
        tlsClientCertificate :: Maybe CertificateChain
      }
  | QUIC
      { quicNegotiatedProtocol :: Maybe ByteString,
        quicChiperID :: Word16,
        quicClientCertificate :: Maybe CertificateChain
      }

-- | A connection on a connected socket.
socketConnection :: Settings -> Network.Socket -> IO Connection
socketConnection _ s = do
  buffer <- createWriteBuffer 16384 >>= newIORef
  isHttp2 <- newIORef False
  running <- newTVarIO 0
  name <- Network.getSocketName s
  return
    Connection
      { connSendMany = sendMany s,
        connSendAll = sendAll s,
        connSendFile = sendFile s nullPtr 0 (sendAll s),
        connClose = (readIORef buffer >>= bufFree) >> Network.close s,
        connRecv = recv s 16384,
        connRecvBuf = fillFrom (recv s),
        connWriteBuffer = buffer,
        connHTTP2 = isHttp2,
        connMySockAddr = name,
        connAppsInProgress = running
      }

fillFrom :: (Int -> IO ByteString) -> RecvBuf
fillFrom _ _ 0 = return True
fillFrom receive target size = do
  bytes <- receive size
  if B.null bytes then return False else copy target bytes >>= \next -> fillFrom receive next (size - B.length bytes)

-- | A function that receives, and one of Warp's that does the same until the server ends. Here they are equal: the
-- server itself wakes connections that wait.
makeGracefulRecv :: Settings -> Network.Socket -> Recv -> Recv
makeGracefulRecv _ _ receive = receive

------------------------------------------------------------------------------------------------------------------------
-- Servers

-- | Serves connections that an action makes, with the client's address, until the action throws. Then waits for the
-- connections to end, for 'Network.Wai.Handler.Warp.setGracefulShutdownTimeout'.
runSettingsConnection :: Settings -> IO (Connection, Network.SockAddr) -> Application -> IO ()
runSettingsConnection settings = runSettingsConnectionMaker settings . fmap (first return)

-- | Serves connections that are completed in threads of their own: the outer action returns the inner one.
runSettingsConnectionMaker :: Settings -> IO (IO Connection, Network.SockAddr) -> Application -> IO ()
runSettingsConnectionMaker settings =
  runSettingsConnectionMakerSecure settings . fmap (first (fmap (,TCP)))

-- | Serves connections that may be protected. A lack of descriptors is reported, and a tenth of a second later the next
-- connection is asked for.
runSettingsConnectionMakerSecure ::
  Settings -> IO (IO (Connection, Transport), Network.SockAddr) -> Application -> IO ()
runSettingsConnectionMakerSecure given next application = do
  (state, settings) <- makeServerState given
  settingsBeforeMainLoop settings
  acceptFor settings state `catch` report settings
  announceShutdown state
  awaitConnections settings state
  where
    acceptFor settings state = do
      made <- tryJust (guarded isFullError) next
      case made of
        Right (complete, peer) ->
          mask_ $ countConnection state >> settingsFork settings (serveOne settings state complete peer)
        Left full -> report settings full >> threadDelay 100000
      acceptFor settings state
    serveOne ::
      Settings -> ServerState -> IO (Connection, Transport) -> Network.SockAddr -> (forall a. IO a -> IO a) -> IO ()
    serveOne settings state complete peer unmask =
      (unmask serve `catch` settingsOnException settings Nothing) `finally` discountConnection state
      where
        serve = complete >>= uncurry (transportOf peer) >>= serveTransport settings application
    guarded isWanted failure = if isWanted failure then Just failure else Nothing
    -- A listening socket that was closed is the usual end, which 'defaultOnException' does not print.
    report :: Settings -> IOException -> IO ()
    report settings = settingsOnException settings Nothing . toException

awaitConnections :: Settings -> ServerState -> IO ()
awaitConnections settings state = do
  late <- maybe (newTVarIO False) (registerDelay . (* 1000000)) (settingsGracefulShutdownSeconds settings)
  atomically ((currentOpenConnectionsSTM state >>= check . (== 0)) `orElse` (readTVar late >>= check))

-- | The server's transport of a connection. What was received and not asked for stays in a variable.
transportOf :: Network.SockAddr -> Connection -> Transport -> IO Http.Transport
transportOf peer connection protection = do
  left <- newIORef B.empty
  limit <- newIORef noDeadline
  return (Http.otherTransport (functionsOf connection protection left limit) peer)

functionsOf :: Connection -> Transport -> IORef ByteString -> IORef Deadline -> Http.Functions
functionsOf connection protection left limit =
  Http.Functions
    { Http.functionsName = "<connection to " ++ show (connMySockAddr connection) ++ ">",
      Http.functionsNegotiated = negotiatedFrom protection,
      Http.functionsReceiveFirst = \micros continue -> receiveSome micros Http.borrowedSize >>= borrowed >>= continue,
      Http.functionsReceiveInto = \deadline target size -> do
        micros <- microsUntil deadline
        bytes <- receiveSome micros size
        B.length bytes <$ copy target bytes,
      Http.functionsSetReceiveDeadline = writeIORef limit,
      Http.functionsHasArrived = not . B.null <$> readIORef left,
      Http.functionsPresence = return Http.Present,
      Http.functionsAwaitInput = return (),
      Http.functionsQuietMillis = return Nothing,
      Http.functionsSend = \_ wait (Http.Piece bytes count) -> sendPiece wait bytes count,
      Http.functionsSendFile = Nothing,
      Http.functionsSendThenReceive = Nothing,
      Http.functionsQueuedBytes = return 0,
      Http.functionsEndSending = return (),
      Http.functionsEndReceiving = return (),
      Http.functionsAbort = return (),
      Http.functionsClose = connClose connection
    }
  where
    receiveSome micros size = do
      kept <- readIORef left
      bytes <- if B.null kept then receiveWithin micros else return kept
      let (now, later) = B.splitAt size bytes
      now <$ writeIORef left later
    receiveWithin micros = do
      bound <- readIORef limit >>= microsUntil
      let shortest = minimum (filter (> 0) [micros, bound, maxBound])
      received <- if shortest == maxBound then Just <$> connRecv connection else timeout shortest (connRecv connection)
      maybe (ioError (errnoToIOError "receiving" eTIMEDOUT Nothing Nothing)) return received
    borrowed bytes
      | B.null bytes = return Http.EndOfStream
      | otherwise = do
        buffer <- Http.borrow
        void (copy (Http.borrowedBytes buffer) bytes)
        return (Http.Received buffer (B.length bytes))
    sendPiece wait bytes count = do
      piece <- BI.create count (\target -> copyBytes target bytes count)
      micros <- case wait of
        Http.Within micros -> return micros
        Http.Before deadline -> microsUntil deadline
      let send = connSendAll connection piece
      outcome <- try (if micros == 0 then Just <$> send else timeout micros send)
      return $ case outcome of
        Right (Just ()) -> Http.Moved count
        Right Nothing -> Http.TimedOut
        Left failure -> Http.Failed (maybe ePIPE Errno (ioe_errno failure))

-- | 0 if there is no deadline; at least one microsecond otherwise.
microsUntil :: Deadline -> IO Int
microsUntil deadline
  | deadline == noDeadline = return 0
  | otherwise = do
    now <- monotonicNanoseconds
    let left = if deadlineNanoseconds deadline > now then deadlineNanoseconds deadline - now else 0
    return (fromIntegral (left `quot` 1000) + 1)

negotiatedFrom :: Transport -> Maybe Http.Negotiated
negotiatedFrom protection = case protection of
  TCP -> Nothing
  TLS major minor protocol cipher chain -> Just (agreed ("TLSv" ++ versionText major minor) protocol cipher chain)
  QUIC protocol cipher chain -> Just (agreed "TLSv1.3" protocol cipher chain)
  where
    agreed version protocol cipher chain =
      Http.Negotiated
        { Http.negotiatedProtocol = protocol,
          Http.negotiatedVersion = Char8.pack version,
          Http.negotiatedCipher = Char8.pack ("0x" ++ showHex cipher ""),
          Http.negotiatedServerName = Nothing,
          Http.negotiatedIsResumed = False,
          Http.negotiatedPeerCertificate = chain >>= leaf
        }
    -- On the wire TLS 1.2 is 3.3.
    versionText 3 minor = "1." ++ show (minor - 1)
    versionText major minor = show major ++ "." ++ show minor
    leaf (CertificateChain (certificate : _)) = Just (encodeSignedObject certificate)
    leaf (CertificateChain []) = Nothing
