{-# LANGUAGE BangPatterns #-}
{-# LANGUAGE RankNTypes #-}

-- | One connection: passes received bytes to OpenSSL, and OpenSSL's bytes to the socket. No call of OpenSSL waits.
--
-- 1. One thread at a time receives from the socket and passes the bytes on: @receiving@ is its lock, which it holds
--    while it waits. Otherwise two threads could pass bytes on in another order than they arrived.
-- 2. One thread at a time makes bytes to send and sends them: @sending@ is its lock. Records must go in the order in
--    which
--    they were made.
-- 3. Bytes that a receiving thread makes (an alert, an answer to a key update) are kept in C. They are sent at once if
--    no thread is sending and the socket can take them, and otherwise before the next bytes to send. So a receive never
--    waits to send.
-- 4. Bytes that were made and could not be sent are kept in C, too. So a send that ran out of time leaves the
--    connection intact.
module Millrace.Tls.Internal.TlsConnection
  ( Connection (..),
    Negotiated (..),
    newConnection,
    expectPeer,
    Choice,
    handshake,
    closeConnection,
    withState,
    throwFailure,
    throwErrno,

    -- * Receiving
    Limit (..),
    Received (..),
    receiveSealed,
    receiveBorrowed,
    receiveInto,
    unread,
    handOver,
    hasInput,
    isQuiet,

    -- * Sending
    Attempt (..),
    attemptSend,
    attemptSendLast,
    attemptSendFile,
    sendThenReceiveSealed,
    flushNow,
    sendWhole,
    sendWholeFile,
    endSending,
  )
where

import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Either (fromRight)
import Data.IORef
import Data.Int (Int64)
import Data.List (find)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, ePIPE, eTIMEDOUT)
import Foreign.C.String (CString, withCString)
import Foreign.ForeignPtr
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek)
import Millrace.Deadline (Deadline, Duration, deadlineAfter, isDeadlineError, microseconds, unlimited)
import Millrace.Operation
import Millrace.Socket (ShutdownCmd (..), Socket, close, shutdown, socketHandle)
import Millrace.Socket.Borrowed
import Millrace.Tls.Error
import Millrace.Tls.Internal.Certificate
import Millrace.Tls.Internal.Context
import Millrace.Tls.Internal.Identity (Identity, withIdentity)
import Millrace.Tls.Internal.OpenSslProblem
import Millrace.Tls.Internal.TlsCalls
import Millrace.Tls.Settings (Version (..))
import System.Posix.Types (Fd (..))

-- | A connection whose handshake is done. Two are equal if they are the same one.
--
-- Close it: the garbage collector frees memory, but closes no socket.
data Connection = Connection
  { -- | The socket that carries the connection.
    connectionSocket :: !Socket,
    connectionState :: !(ForeignPtr ConnectionState),
    connectionRole :: !Role,
    -- | A description for messages.
    connectionName :: !String,
    receiving :: !(MVar ()),
    -- | The number of plain bytes that the latest attempt has encrypted, if their records were not sent completely.
    sending :: !(MVar Int),
    -- | Whether a send was incomplete. If so, closing must not tell the peer that it has received everything.
    isCutShort :: !(IORef Bool),
    -- | What the handshake has negotiated.
    negotiated :: !Negotiated
  }

instance Eq Connection where
  one == other = connectionState one == connectionState other

instance Show Connection where
  showsPrec _ connection = showString "<TLS connection on " . showString (connectionName connection) . showChar '>'

-- | The negotiated parameters of a connection.
data Negotiated = Negotiated
  { negotiatedVersion :: !Version,
    -- | The cipher by OpenSSL's name, for instance @TLS_AES_128_GCM_SHA256@.
    negotiatedCipher :: !ByteString,
    -- | The group of the key exchange, for instance @x25519@. Nothing if the session was resumed without an exchange.
    negotiatedGroup :: !(Maybe ByteString),
    -- | The application protocol (ALPN).
    negotiatedProtocol :: !(Maybe ByteString),
    -- | The name that the client asked for (SNI).
    negotiatedServerName :: !(Maybe ByteString),
    -- | Whether an earlier session was resumed.
    negotiatedIsResumed :: !Bool,
    -- | The other side's certificate.
    negotiatedPeerCertificate :: !(Maybe Certificate)
  }
  deriving (Eq, Show)

-- Makes a call that neither waits nor throws.
withState :: Connection -> (Ptr ConnectionState -> IO a) -> IO a
withState connection call = do
  result <- call (unsafeForeignPtrToPtr (connectionState connection))
  touchForeignPtr (connectionState connection)
  return result
{-# INLINE withState #-}

newConnection :: Role -> Context -> Socket -> IO Connection
newConnection role context socket = mask_ $ do
  state <- withContext context c_connectionNew
  when (state == nullPtr) $ lastError >>= throwIO . SettingsError "a connection" OutOfMemory
  owned <- newForeignPtr c_connectionFree state
  Connection socket owned role (show socket) <$> newMVar () <*> newMVar 0 <*> newIORef False <*> return nothingYet
  where
    nothingYet = Negotiated Tls12 ByteString.empty Nothing Nothing Nothing False Nothing

-- | Sets the server that a client expects: a name or an address.
expectPeer :: Connection -> String -> IO Connection
expectPeer connection name = do
  isGood <-
    if null plain || '\NUL' `elem` plain
      then return 0
      else withCString plain $ \text ->
        withState connection (`c_connectionExpect` text)
  when (isGood == 0) $ throwIO (SettingsError (show name) BadServerName "")
  return connection {connectionName = connectionName connection ++ " to " ++ name}
  where
    -- A name that ends with a dot is complete. Names in certificates do not have that dot.
    plain = if not (null name) && last name == '.' then init name else name

------------------------------------------------------------------------------------------------------------------------
-- Failing

-- | Throws the reason for which the connection has failed. First tells the peer, if that needs no waiting.
throwFailure :: Connection -> IO a
throwFailure connection = do
  flushNow connection
  failure' <- withState connection readFailure
  problem <-
    maybe
      (return (internalProblem (connectionRole connection) (connectionName connection)))
      (exceptionFrom (connectionRole connection) (connectionName connection))
      failure'
  throwIO problem

throwTruncated :: Connection -> String -> IO a
throwTruncated connection =
  throwIO . TlsException (connectionRole connection) (connectionName connection) Truncated Nothing

throwErrno :: Connection -> String -> Errno -> IO a
throwErrno connection attempted code = throwIO (failure attempted (show connection) code)

------------------------------------------------------------------------------------------------------------------------
-- Limits

-- | How long an operation may wait.
data Limit
  = -- | This number of microseconds from now; 0 means for ever.
    Within !Int
  | Before !Deadline

limited :: Limit -> Request a -> Request a
limited (Within micros) = within (timeLimit micros)
limited (Before deadline) = before deadline
{-# INLINE limited #-}

timeLimit :: Int -> Duration
timeLimit micros = if micros == 0 then unlimited else microseconds micros
{-# INLINE timeLimit #-}

-- Receives encrypted bytes from the socket. The continuation runs masked, and this must be called masked.
receiveSealed :: Limit -> Connection -> (Received -> IO a) -> IO a
receiveSealed limit connection continue = do
  holdsBack <- withState connection c_holdsBack
  when (holdsBack /= 0) $ awaitRequest limit connection
  receiveWithin limit connection continue
{-# INLINE receiveSealed #-}

-- A server's tickets wait for its first answer, so that both go together. But a client may not send its request before
-- the tickets have come, or before an acknowledgement, which the kernel delays by 40 milliseconds (RFC 9293, sections
-- 3.7.4 and 3.8.6.3).
--
-- This waits for the request and receives nothing. With a receive and its continuation on the stack, a connection of a
-- web server would not fit into the first kilobyte of its thread.
awaitRequest :: Limit -> Connection -> IO ()
awaitRequest limit connection = do
  soon <- deadlineAfter (microseconds patienceMicros)
  let isSoon = case limit of
        Within micros -> micros /= 0 && micros <= patienceMicros
        Before deadline -> deadline <= soon
  unless isSoon $ do
    outcome <- perform (before soon (waitReadableRequest (socketHandle (connectionSocket connection))))
    when (either (== eTIMEDOUT) (const False) outcome) $ flushNow connection
  where
    patienceMicros = 2000
{-# NOINLINE awaitRequest #-}

receiveWithin :: Limit -> Connection -> (Received -> IO a) -> IO a
receiveWithin limit connection = case limit of
  Within micros -> recvBorrowedWithin (timeLimit micros) (connectionSocket connection) borrowedSize
  Before deadline -> recvBorrowed deadline (connectionSocket connection) borrowedSize
{-# INLINE receiveWithin #-}

-- | Sends encrypted bytes of a borrowed buffer, and then receives, for at most this many microseconds; 0 means for
-- ever. The continuation runs masked.
sendThenReceiveSealed :: Int -> Connection -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceiveSealed micros connection = sendThenReceiveWithin (timeLimit micros) (connectionSocket connection)
{-# INLINE sendThenReceiveSealed #-}

------------------------------------------------------------------------------------------------------------------------
-- The handshake

-- | Chooses the identities for a client that asks for this name, or for none. 'Nothing' refuses the client. An empty
-- list shows it the context's identities.
type Choice = Maybe String -> IO (Maybe [Identity])

-- | Does the handshake, which begins with bytes that the peer has already sent. Returns what was negotiated. If it
-- fails or is interrupted, the connection is unusable, and the caller still owns the socket. The action that chooses
-- identities runs only for contexts that ask for it, and may be interrupted.
handshake :: Choice -> Deadline -> ByteString -> Connection -> IO Connection
handshake choice deadline first connection =
  mask $ \restore -> (begin >>= go restore) `onException` withState connection c_connectionClose
  where
    begin = unsafeUseAsCStringLen first $ \(bytes, count) -> step (castPtr bytes) count
    -- One step. Its bytes must be sent before anything else happens.
    step :: Ptr Word8 -> Int -> IO Status
    step bytes count = bracket borrow giveBack $ \out -> do
      made <- withState connection $ \state ->
        c_handshake state bytes (fromIntegral count) (borrowedBytes out) (fromIntegral borrowedSize)
      sendNow (borrowedBytes out) (stepOut made)
      when (stepHasMore made && (stepStatus made /= Done || connectionRole connection == Client)) $ sendKept out
      return (stepStatus made)
    sendKept out = do
      made <- withState connection $ \state -> c_collect state (borrowedBytes out) (fromIntegral borrowedSize)
      sendNow (borrowedBytes out) (stepOut made)
      when (stepHasMore made) $ sendKept out
    sendNow bytes count = do
      attempt <- transmit (Before deadline) connection bytes count
      case attempt of
        Moved _ -> return ()
        TimedOut -> throwErrno connection attempted eTIMEDOUT
        -- If the peer has sent an alert before it closed the connection, report that.
        Refused errno -> if errno == ePIPE then return () else throwErrno connection attempted errno
    go :: (forall a. IO a -> IO a) -> Status -> IO Connection
    go restore status = case status of
      Done -> do
        found <- withState connection readNegotiated
        return connection {negotiated = found}
      WantsInput -> receiveStep >>= go restore
      WantsIdentity -> choose restore >> step nullPtr 0 >>= go restore
      Failed -> throwFailure connection
      _ -> throwErrno connection attempted eBADF
    receiveStep = do
      input <- receiveSealed (Before deadline) connection return
      case input of
        EndOfStream -> throwTruncated connection "during the handshake"
        Received buffer count -> step (borrowedBytes buffer) count `finally` giveBack buffer
    choose :: (forall a. IO a -> IO a) -> IO ()
    choose restore = do
      name <- withState connection c_nameAsked >>= textOrNothing
      identities <- restore (choice (Char8.unpack <$> name)) `onException` tellOf NameFailed
      mapM_ (mapM_ use) identities `onException` tellOf NameFailed
      withState connection (c_answer (maybe NameUnknown (const NameServed) identities))
    use identity = do
      isUsed <- withState connection $ \state -> withIdentity identity (c_use state)
      when (isUsed == 0) $ lastError >>= throwIO . SettingsError (show identity) UnusableIdentity
    -- Tells the client that the server has failed.
    tellOf answer = do
      withState connection (c_answer answer)
      void (step nullPtr 0) `catch` ignore
    ignore :: IOException -> IO ()
    ignore _ = return ()
    attempted = "Millrace.Tls.handshake"

readNegotiated :: Ptr ConnectionState -> IO Negotiated
readNegotiated state = do
  version <- c_version state
  cipher <- c_cipher state >>= textOrNothing
  group <- c_group state >>= textOrNothing
  protocol <- alloca $ \memory -> do
    size <- c_protocol state memory
    if size == 0
      then return Nothing
      else
        peek memory >>= \bytes ->
          justShared <$> ByteString.packCStringLen (castPtr bytes, fromIntegral size)
  name <- c_serverName state >>= textOrNothing
  isResumed <- c_isResumed state
  certificate <- c_peerCertificate state >>= takeCertificate
  return
    Negotiated
      { negotiatedVersion = if version == version12 then Tls12 else Tls13,
        negotiatedCipher = fromMaybe ByteString.empty cipher,
        negotiatedGroup = group,
        negotiatedProtocol = protocol,
        negotiatedServerName = name,
        negotiatedIsResumed = isResumed /= 0,
        negotiatedPeerCertificate = certificate
      }

textOrNothing :: CString -> IO (Maybe ByteString)
textOrNothing text
  | text == nullPtr = return Nothing
  | otherwise = justShared <$> ByteString.packCString text

justShared :: ByteString -> Maybe ByteString
justShared text = Just $! shared text

-- Shares the text of common values: thousands of connections may be open.
shared :: ByteString -> ByteString
shared text = fromMaybe text (find (== text) common)

common :: [ByteString]
common =
  map
    Char8.pack
    [ "TLS_AES_128_GCM_SHA256",
      "TLS_AES_256_GCM_SHA384",
      "TLS_CHACHA20_POLY1305_SHA256",
      "ECDHE-ECDSA-AES128-GCM-SHA256",
      "ECDHE-RSA-AES128-GCM-SHA256",
      "ECDHE-ECDSA-AES256-GCM-SHA384",
      "ECDHE-RSA-AES256-GCM-SHA384",
      "x25519",
      "secp256r1",
      "P-256",
      "http/1.1",
      "h2"
    ]
{-# NOINLINE common #-}

------------------------------------------------------------------------------------------------------------------------
-- Receiving

-- | Whether a receive can return bytes at once, because they have already been received. Bytes in the socket do not
-- count.
hasInput :: Connection -> IO Bool
hasInput connection = (/= 0) <$> withState connection c_hasInput

open :: Connection -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO TlsStep
open connection bytes count target size = do
  step <- withState connection $ \state -> c_receive state bytes (fromIntegral count) target (fromIntegral size)
  when (stepHasMore step) $ flushNow connection
  return step
{-# INLINE open #-}

-- | Receives at least one byte and at most this many into memory; 0 at the end of the stream. Call it masked.
receiveInto :: String -> Limit -> Connection -> Ptr Word8 -> Int -> IO Int
receiveInto attempted limit connection target size = withMVar (receiving connection) $ \_ ->
  open connection nullPtr 0 target size >>= go
  where
    go step = case stepStatus step of
      Done -> return (stepPlain step)
      WantsInput -> receiveMore >>= maybe (throwTruncated connection "") go
      Ended -> return 0
      Failed -> throwFailure connection
      _ -> throwErrno connection attempted eBADF
    receiveMore = receiveSealed limit connection openInto
    openInto EndOfStream = return Nothing
    openInto (Received buffer count) =
      Just <$> open connection (borrowedBytes buffer) count target size <* giveBack buffer

-- | Receives at least one byte and at most this many into a buffer that is borrowed when they arrive. Call it masked.
receiveBorrowed :: String -> Limit -> Connection -> Int -> IO Received
receiveBorrowed attempted limit connection size = withMVar (receiving connection) $ \_ -> do
  isHere <- hasInput connection
  if isHere then openBorrowed nullPtr 0 >>= use else receiveMore
  where
    receiveMore = do
      next <- receiveSealed limit connection openReceived
      maybe (throwTruncated connection "") use next
    openReceived EndOfStream = return Nothing
    openReceived (Received buffer count) =
      Just <$> (openBorrowed (borrowedBytes buffer) count <* giveBack buffer) `onException` giveBack buffer
    openBorrowed bytes count = do
      plain <- borrow
      step <- open connection bytes count (borrowedBytes plain) (min size borrowedSize)
      if stepStatus step == Done
        then return (Right (Received plain (stepPlain step)))
        else Left (stepStatus step) <$ giveBack plain
    use (Right received) = return received
    use (Left status) = case status of
      WantsInput -> receiveMore
      Ended -> return EndOfStream
      Failed -> throwFailure connection
      _ -> throwErrno connection attempted eBADF

-- | Puts plain bytes back: the next receive begins with them.
unread :: Connection -> Ptr Word8 -> Int -> IO ()
unread connection bytes count = withState connection $ \state -> c_unread state bytes (fromIntegral count)

-- | Whether the peer has sent nothing for the application, and has not ended the stream either. Processes messages of
-- TLS itself that have arrived, such as a server's tickets, which may come at any time. Loses no byte of the
-- application. Does not block unless another thread receives.
isQuiet :: Connection -> IO Bool
isQuiet connection = mask_ . withMVar (receiving connection) $ \_ ->
  allocaBytes sealedSize $ \sealed -> alloca $ \plain -> do
    let takeArrived =
          perform (atOnce (recvRequest (socketHandle (connectionSocket connection)) sealed sealedSize))
            >>= either (return . (== eAGAIN)) opened
        opened 0 = return False
        opened count = open connection sealed count plain 1 >>= go
        go step = case stepStatus step of
          WantsInput -> takeArrived
          Done -> False <$ unread connection plain (stepPlain step)
          _ -> return False
    isHere <- hasInput connection
    if isHere then open connection nullPtr 0 plain 1 >>= go else takeArrived
  where
    sealedSize = 512

-- | Runs a masked action whose result must not be lost. If an exception comes between its end and the caller's next
-- instruction, undoes it with the result.
handOver :: (a -> IO ()) -> IO a -> IO a
handOver keep action = do
  finished <- newIORef Nothing
  mask_ (action >>= \result -> result <$ writeIORef finished (Just result)) `catch` \exception -> do
    readIORef finished >>= mapM_ keep
    throwIO (exception :: SomeException)
{-# INLINE handOver #-}

------------------------------------------------------------------------------------------------------------------------
-- Sending

-- | The result of an attempt to send.
data Attempt
  = -- | The number of bytes that were sent: 0 only at the end of a file.
    Moved !Int
  | -- | The time limit has passed, and no byte counts as sent. Some may be on their way: attempt the same bytes again,
    -- or close.
    TimedOut
  | Refused !Errno

-- | Sends encrypted bytes. Keeps the unsent rest, which is sent before everything else. The caller holds the lock, and
-- is masked.
transmit :: Limit -> Connection -> Ptr Word8 -> Int -> IO Attempt
transmit limit connection = go
  where
    below = socketHandle (connectionSocket connection)
    go !bytes !count
      | count <= 0 = return (Moved 0)
      | otherwise = do
        gone <- newIORef 0
        result <-
          performKeeping (writeIORef gone . fromRight 0) (limited limit (partial (sendRequest below bytes count)))
            `onException` (readIORef gone >>= \some -> keepUnsent (bytes `plusPtr` some) (count - some))
        case result of
          Right some -> go (bytes `plusPtr` some) (count - some)
          Left code -> (if code == eTIMEDOUT then TimedOut else Refused code) <$ keepUnsent bytes count
    keepUnsent bytes count = withState connection $ \state -> c_putBack state bytes (fromIntegral count)

-- | Sends the kept bytes, as many as the socket takes without waiting, if no thread is sending.
flushNow :: Connection -> IO ()
flushNow connection =
  mask_ $ tryTakeMVar (sending connection) >>= mapM_ (\before' -> flush `finally` putMVar (sending connection) before')
  where
    flush = bracket borrow giveBack go
    go out = do
      made <- withState connection $ \state -> c_collect state (borrowedBytes out) (fromIntegral borrowedSize)
      attempt <- transmit (Within (-1)) connection (borrowedBytes out) (stepOut made)
      case attempt of
        Moved _ | stepHasMore made -> go out
        _ -> return ()

-- A function that encrypts bytes into memory of the given size.
type Seal = Ptr ConnectionState -> Ptr Word8 -> Int -> IO TlsStep

sealBytes :: Ptr Word8 -> Int -> Seal
sealBytes bytes count state out capacity = c_send state bytes (fromIntegral count) out (fromIntegral capacity)

sealLast :: Ptr Word8 -> Int -> Seal
sealLast bytes count state out capacity = c_sendLast state bytes (fromIntegral count) out (fromIntegral capacity)

sealFile :: Fd -> Int64 -> Int64 -> Seal
sealFile (Fd file) offset count state out capacity =
  c_sendFile state file offset (fromIntegral (min count 0xfffffff)) out (fromIntegral capacity)

-- | Sends some of these bytes, at least one.
attemptSend :: Limit -> Connection -> Ptr Word8 -> Int -> IO Attempt
attemptSend limit connection bytes count = withOutput count $ attemptSealing limit connection (sealBytes bytes count)

-- | Sends some of the last bytes of the connection, as 'attemptSend' does. When all are sealed, the same send tells the
-- peer that nothing more comes.
attemptSendLast :: Limit -> Connection -> Ptr Word8 -> Int -> IO Attempt
attemptSendLast limit connection bytes count = withOutput count $ attemptSealing limit connection (sealLast bytes count)

-- | Sends some bytes of a file; 0 at its end.
attemptSendFile :: Limit -> Connection -> Fd -> Int64 -> Int64 -> IO Attempt
attemptSendFile limit connection file offset count = do
  bringPiece file offset count
  withOutput (fromIntegral (min count (fromIntegral recordBufferSize))) $
    attemptSealing limit connection (sealFile file offset count)

-- Brings a part of the file into memory: at most the content of four records, which the encrypting function reads at a
-- time. Otherwise that function would wait for the disk.
bringPiece :: Fd -> Int64 -> Int64 -> IO ()
bringPiece file offset count = bringIntoMemory file offset (min count (4 * 16384))

attemptSealing :: Limit -> Connection -> Seal -> Ptr Word8 -> Int -> IO Attempt
attemptSealing limit connection seal out capacity = modifyMVarMasked (sending connection) begin
  where
    begin 0 = sealNext
    begin unfinished = do
      -- The bytes of the previous attempt, which are already encrypted.
      made <- withState connection $ \state -> c_collect state out (fromIntegral capacity)
      attempt <- transmit limit connection out (stepOut made)
      case attempt of
        Moved _ -> if stepHasMore made then begin unfinished else return (0, Moved unfinished)
        _ -> return (unfinished, attempt)
    sealNext = do
      made <- withState connection $ \state -> seal state out capacity
      case stepStatus made of
        Done -> do
          attempt <- transmit limit connection out (stepOut made)
          case attempt of
            Moved _ -> if stepPlain made == 0 && stepOut made > 0 then sealNext else return (0, Moved (stepPlain made))
            _ -> return (stepPlain made, attempt)
        -- Earlier records go first.
        WantsInput -> do
          attempt <- transmit limit connection out (stepOut made)
          case attempt of
            Moved _ -> awaitInput limit connection >>= maybe sealNext (\ended -> return (0, ended))
            _ -> return (0, attempt)
        Failed -> throwFailure connection
        BadFile -> return (0, Refused (Errno (fromIntegral (stepPlain made))))
        SendingEnded -> return (0, Refused ePIPE)
        _ -> return (0, Refused eBADF)

-- | Waits for the rest of a message that the peer has sent in parts after the handshake: OpenSSL encrypts nothing
-- before. If another thread receives, that thread brings it. The time limit begins only after this.
awaitInput :: Limit -> Connection -> IO (Maybe Attempt)
awaitInput limit connection = do
  somebodyReceives <- isEmptyMVar (receiving connection)
  if somebodyReceives
    then Nothing <$ readMVar (receiving connection)
    else try (withMVar (receiving connection) (const receiveOne)) >>= either ended (const (return Nothing))
  where
    receiveOne = receiveSealed limit connection openReceived
    openReceived EndOfStream = throwTruncated connection ""
    openReceived (Received buffer count) = open connection (borrowedBytes buffer) count nullPtr 0 *> giveBack buffer
    ended problem
      | isDeadlineError problem = return (Just TimedOut)
      | otherwise = throwIO problem

-- | Sends all of these bytes.
sendWhole :: String -> Limit -> Connection -> Ptr Word8 -> Int -> IO ()
sendWhole attempted limit connection whole total = notingCut connection . withOutput total $ \out capacity -> do
  let go !bytes !count = when (count > 0) $ do
        moved <- sealing attempted limit connection (sealBytes bytes count) out capacity
        go (bytes `plusPtr` moved) (count - moved)
  go whole total

-- | Sends this many bytes of a file, and returns how many the file had.
sendWholeFile :: String -> Limit -> Connection -> Fd -> Int64 -> Int64 -> IO Int64
sendWholeFile attempted limit connection file offset total =
  notingCut connection . withOutput (fromIntegral (min total 65536)) $ \out capacity -> do
    let go !sent
          | sent >= total = return sent
          | otherwise = do
            bringPiece file (offset + sent) (total - sent)
            moved <- sealing attempted limit connection (sealFile file (offset + sent) (total - sent)) out capacity
            if moved == 0 then return sent else go (sent + fromIntegral moved)
    go 0

notingCut :: Connection -> IO a -> IO a
notingCut connection action = action `onException` writeIORef (isCutShort connection) True

sealing :: String -> Limit -> Connection -> Seal -> Ptr Word8 -> Int -> IO Int
sealing attempted limit connection seal out capacity = do
  -- The caller has given up an earlier attempt. Its bytes are sent before the new ones.
  modifyMVarMasked_ (sending connection) (const (return 0))
  attempt <- attemptSealing limit connection seal out capacity
  case attempt of
    Moved count -> return count
    TimedOut -> throwErrno connection attempted eTIMEDOUT
    Refused errno -> throwErrno connection attempted errno

-- Memory for sealed bytes: a borrowed buffer for few, and for many as much as four records need, which one system call
-- sends.
withOutput :: Int -> (Ptr Word8 -> Int -> IO a) -> IO a
withOutput total use
  | total <= borrowedSize - 256 = withBorrowed
  | otherwise = bracket c_recordBufferAlloc c_recordBufferFree $ \memory ->
    if memory == nullPtr then withBorrowed else use memory recordBufferSize
  where
    withBorrowed = bracket borrow giveBack $ \out -> use (borrowedBytes out) borrowedSize

-- | Ends the sending side. Receiving still works.
endSending :: Limit -> Connection -> IO ()
endSending limit connection = do
  modifyMVarMasked_ (sending connection) $ \_ -> do
    withState connection c_end
    0 <$ bracket borrow giveBack flush
  shutdown (connectionSocket connection) ShutdownSend
  where
    flush out = do
      made <- withState connection $ \state -> c_collect state (borrowedBytes out) (fromIntegral borrowedSize)
      attempt <- transmit limit connection (borrowedBytes out) (stepOut made)
      case attempt of
        Moved _ -> when (stepHasMore made) $ flush out
        TimedOut -> throwErrno connection "Millrace.Tls.endSending" eTIMEDOUT
        Refused errno -> throwErrno connection "Millrace.Tls.endSending" errno

-- | Closes the socket. Tells the peer first, if that needs no waiting and every send was complete. Operations that wait
-- on the connection end with an error.
closeConnection :: Connection -> IO ()
closeConnection connection = mask_ $ do
  unfinished <- tryReadMVar (sending connection)
  wasCutShort <- readIORef (isCutShort connection)
  when (unfinished == Just 0 && not wasCutShort) $ withState connection c_end >> flushNow connection `catch` ignore
  close (connectionSocket connection)
  withState connection c_connectionClose
  where
    ignore :: IOException -> IO ()
    ignore problem = void (return problem)
