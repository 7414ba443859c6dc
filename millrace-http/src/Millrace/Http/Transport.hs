{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: HTTP.

-- |
-- The bytes of one client: how they are received and sent, under time limits, and how the connection ends.
--
-- A plain socket has a separate constructor, so that its operations are inlined and called directly. All other
-- transports are a record of functions: "Millrace.Http.Transport.Memory" is one, and TLS is another.
--
-- Exposed for other packages of Millrace and for tests. Not covered by the version policy.
module Millrace.Http.Transport
  ( Transport,
    plainTransport,
    otherTransport,
    Functions (..),
    SendsThenReceives (..),
    Received (..),
    Negotiated (..),

    -- * The other side
    SockAddr,
    transportPeer,
    withPeer,
    negotiated,
    isProtected,
    socketOf,
    describeTransport,

    -- * Receiving
    Borrowed,
    borrow,
    borrowedAt,
    borrowedBytes,
    borrowedSize,
    giveBack,
    receiveFirst,
    receiveInto,
    receiveBytes,
    setReceiveDeadline,
    hasArrived,
    arrivedBytes,
    Presence (..),
    presence,
    awaitInput,
    quietMillis,

    -- * Sending
    TimeLimit (..),
    Attempt (..),
    Following (..),
    Piece (..),
    FileSlice (..),
    attemptSend,
    attemptSendTwo,
    attemptSendFile,
    isErrorOfFile,
    queuedBytes,

    -- * Sending, then receiving
    Slice (..),
    SentThenReceived (..),
    sendThenReceive,

    -- * The end
    endSending,
    endReceiving,
    abort,
    closeTransport,

    -- * Reading files
    readFileAt,

    -- * Protection
    Protection (..),
    Others (..),
  )
where

import Control.Exception (SomeException, bracket, mask_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Internal as BI
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr)
import Millrace.Deadline (Deadline)
import Millrace.Http.Transport.Plain
  ( Attempt (..),
    FileSlice (..),
    Following (..),
    Piece (..),
    Presence (..),
    TimeLimit (..),
  )
import qualified Millrace.Http.Transport.Plain as Plain
import Millrace.Operation (bringIntoMemory)
import Millrace.Socket (ShutdownCmd (..), Socket, close, setReadDeadline, shutdown)
import Millrace.Socket.Borrowed
  ( Borrowed,
    Received (..),
    SentThenReceived (..),
    Slice (..),
    borrow,
    borrowedAt,
    borrowedBytes,
    borrowedSize,
    giveBack,
    recvBorrowedWithin,
    sendThenReceiveWithin,
  )
import Millrace.Socket.ByteString (recvBefore, recvBufBefore)
import Millrace.Socket.File (isErrorOfFile)
import Network.Socket (SockAddr)
import System.Posix.Types (Fd (..))

-- | A connection to one client.
data Transport
  = Plain !Socket !SockAddr
  | Other !Functions !SockAddr

-- | A transport on a connected socket, with the client's address. From here on 'closeTransport' closes the socket.
plainTransport :: Socket -> SockAddr -> Transport
plainTransport = Plain

-- | A transport of any other kind, with the client's address.
otherTransport :: Functions -> SockAddr -> Transport
otherTransport = Other

-- | The functions of a transport that is not a plain socket. One thread receives and one sends at a time; all other
-- functions may be called at any time, by any thread. Functions that receive throw an @IOError@ when they fail, of type
-- @TimeExpired@ at the end of their time; an exception that interrupts them must not lose a byte.
data Functions = Functions
  { -- | For messages.
    functionsName :: !String,
    functionsNegotiated :: !(Maybe Negotiated),
    -- | Waits for bytes, no longer than this many microseconds (0: for ever), and hands them to the continuation, in a
    -- buffer from 'borrow' which is the continuation's then. Called with asynchronous exceptions masked. A transport
    -- that waits should keep no buffer meanwhile, and little on the stack.
    functionsReceiveFirst :: !(forall a. Int -> (Received -> IO a) -> IO a),
    -- | Waits for at least one byte, and returns how many it has received: 0 at the end of the stream.
    functionsReceiveInto :: !(Deadline -> Ptr Word8 -> Int -> IO Int),
    -- | Sets a time after which no receive waits, including one that already does.
    functionsSetReceiveDeadline :: !(Deadline -> IO ()),
    functionsHasArrived :: !(IO Bool),
    functionsPresence :: !(IO Presence),
    functionsAwaitInput :: !(IO ()),
    functionsQuietMillis :: !(IO (Maybe Int)),
    -- | Sends some bytes of a piece, at least one.
    functionsSend :: !(Following -> TimeLimit -> Piece -> IO Attempt),
    -- | Sends some bytes of a file, if the transport can do that without reading them.
    functionsSendFile :: !(Maybe (TimeLimit -> FileSlice -> IO Attempt)),
    -- | The implementation of 'sendThenReceive', if the transport has one.
    functionsSendThenReceive :: !(Maybe SendsThenReceives),
    functionsQueuedBytes :: !(IO Int),
    functionsEndSending :: !(IO ()),
    functionsEndReceiving :: !(IO ()),
    functionsAbort :: !(IO ()),
    functionsClose :: !(IO ())
  }

-- | A function as 'sendThenReceive'.
newtype SendsThenReceives = SendsThenReceives (forall a. Int -> Slice -> (SentThenReceived -> IO a) -> IO a)

-- | The parameters that the handshake of a protected connection has negotiated.
data Negotiated = Negotiated
  { -- | The application protocol, if one was negotiated (RFC 7301).
    negotiatedProtocol :: !(Maybe ByteString),
    negotiatedVersion :: !ByteString,
    negotiatedCipher :: !ByteString,
    -- | The server name that the client has sent (RFC 6066).
    negotiatedServerName :: !(Maybe ByteString),
    -- | Whether an earlier session was resumed.
    negotiatedIsResumed :: !Bool,
    -- | The client's certificate in DER, if it has sent one.
    negotiatedPeerCertificate :: !(Maybe ByteString)
  }
  deriving (Eq, Show)

-- | The client's address.
transportPeer :: Transport -> SockAddr
transportPeer (Plain _ peer) = peer
transportPeer (Other _ peer) = peer
{-# INLINE transportPeer #-}

-- | A connection with another client address, as a proxy has told it.
withPeer :: SockAddr -> Transport -> Transport
withPeer peer (Plain socket _) = Plain socket peer
withPeer peer (Other functions _) = Other functions peer

-- | The negotiated parameters. Nothing if the connection is not protected.
negotiated :: Transport -> Maybe Negotiated
negotiated (Plain _ _) = Nothing
negotiated (Other functions _) = functionsNegotiated functions

-- | Whether the connection is protected.
isProtected :: Transport -> Bool
isProtected (Plain _ _) = False
isProtected (Other functions _) = isJust (functionsNegotiated functions)
{-# INLINE isProtected #-}

-- | The socket, if the transport is a plain socket.
socketOf :: Transport -> Maybe Socket
socketOf (Plain socket _) = Just socket
socketOf (Other _ _) = Nothing

-- | For messages.
describeTransport :: Transport -> String
describeTransport (Plain socket _) = show socket
describeTransport (Other functions _) = functionsName functions

-- | @receiveFirst transport micros continue@ waits for the first bytes without holding a buffer, at most this many
-- microseconds (0: for ever). The continuation runs masked, and must return its borrowed buffer.
receiveFirst :: Transport -> Int -> (Received -> IO a) -> IO a
receiveFirst (Plain socket _) micros continue = recvBorrowedWithin (Plain.timeLimit micros) socket borrowedSize continue
receiveFirst (Other functions _) micros continue = receiveFirstByFunctions functions micros continue
{-# INLINE receiveFirst #-}

receiveFirstByFunctions :: Functions -> Int -> (Received -> IO a) -> IO a
receiveFirstByFunctions functions micros continue = mask_ $ functionsReceiveFirst functions micros continue
{-# NOINLINE receiveFirstByFunctions #-}

-- | Waits for at least one byte until the deadline. Returns the number of bytes: 0 at the end of the stream.
receiveInto :: Transport -> Deadline -> Ptr Word8 -> Int -> IO Int
receiveInto (Plain socket _) deadline = recvBufBefore deadline socket
receiveInto (Other functions _) deadline = functionsReceiveInto functions deadline
{-# INLINE receiveInto #-}

-- | Waits for at least one byte until the deadline, and returns at most this many bytes: none at the end of the stream.
receiveBytes :: Transport -> Deadline -> Int -> IO ByteString
receiveBytes (Plain socket _) deadline size = recvBefore deadline socket size
receiveBytes (Other functions _) deadline size =
  B.copy <$> BI.createUptoN size (\target -> functionsReceiveInto functions deadline target size)
{-# NOINLINE receiveBytes #-}

-- | Sets a time after which no receive waits, including one that already does.
setReceiveDeadline :: Transport -> Deadline -> IO ()
setReceiveDeadline (Plain socket _) = setReadDeadline socket
setReceiveDeadline (Other functions _) = functionsSetReceiveDeadline functions

-- | Whether a receive would return at once, with bytes or the end of the stream. Does not block.
hasArrived :: Transport -> IO Bool
hasArrived (Plain socket _) = Plain.hasArrived socket
hasArrived (Other functions _) = functionsHasArrived functions

-- | Bytes that can be received at once into new memory; 0 if that is not known, or if the transport has them
-- in memory already. Does not block.
arrivedBytes :: Transport -> IO Int
arrivedBytes (Plain socket _) = Plain.arrivedBytes socket
arrivedBytes (Other _ _) = return 0

-- | The presence of the client at the other end, as far as it is known. Does not block. Behind a closed connection it
-- is gone.
presence :: Transport -> IO Presence
presence (Plain socket _) = Plain.presence socket
presence (Other functions _) = functionsPresence functions

-- | Waits until a receive would return at once. Receives nothing.
awaitInput :: Transport -> IO ()
awaitInput (Plain socket _) = Plain.awaitInput socket
awaitInput (Other functions _) = functionsAwaitInput functions

-- | For how many milliseconds there was no traffic in either direction, if that is known. A closed connection counts as
-- quiet.
quietMillis :: Transport -> IO (Maybe Int)
quietMillis (Plain socket _) = Plain.quietMillis socket
quietMillis (Other functions _) = functionsQuietMillis functions

-- | Sends some bytes of a piece that is not empty.
attemptSend :: Transport -> Following -> TimeLimit -> Piece -> IO Attempt
attemptSend (Plain socket _) following limit piece = Plain.attemptSend socket following limit piece
attemptSend (Other functions _) following limit piece = functionsSend functions following limit piece
{-# INLINE attemptSend #-}

-- | Sends some bytes of two pieces, together where the transport can. The second one is not empty.
attemptSendTwo :: Transport -> TimeLimit -> Piece -> Piece -> IO Attempt
attemptSendTwo (Plain socket _) limit first second = Plain.attemptSendTwo socket limit first second
attemptSendTwo (Other functions _) limit first@(Piece _ count) second
  | count > 0 = functionsSend functions MoreFollows limit first
  | otherwise = functionsSend functions NothingFollows limit second

-- | Sends some bytes of a file; 0 at its end.
attemptSendFile :: Transport -> TimeLimit -> FileSlice -> IO Attempt
attemptSendFile (Plain socket _) = Plain.attemptSendFile socket
attemptSendFile (Other functions _) = fromMaybe (sendFileByReading functions) (functionsSendFile functions)

-- Reads what fits into a borrowed buffer. What the transport does not take is read again.
sendFileByReading :: Functions -> TimeLimit -> FileSlice -> IO Attempt
sendFileByReading functions limit (FileSlice file offset count) = bracket borrow giveBack $ \buffer -> do
  let size = fromIntegral (min count (fromIntegral borrowedSize))
  result <- fromIntegral <$> readFileAt file (borrowedBytes buffer) size offset
  case compare result 0 of
    LT -> return (Failed (Errno (fromIntegral (negate result))))
    EQ -> return (Moved 0)
    GT ->
      functionsSend
        functions
        (if result < count then MoreFollows else NothingFollows)
        limit
        (Piece (borrowedBytes buffer) (fromIntegral result))

-- | Bytes that were sent and that the client has not acknowledged; 0 if that is not known.
queuedBytes :: Transport -> IO Int
queuedBytes (Plain socket _) = Plain.queuedBytes socket
queuedBytes (Other functions _) = functionsQueuedBytes functions

-- | @sendThenReceive transport micros outgoing continue@ sends bytes of a borrowed buffer, returns the buffer, and then
-- does the same as 'receiveFirst'. The thread parks only once for both. If the transport cannot do this, or cannot send
-- all bytes at once, it receives nothing ('NotSent') and the caller owns the buffer again. The caller must then send
-- the rest of the buffer before anything else. The bytes in the buffer may have changed, but the transport then sends
-- the right ones. In all other cases the buffer is gone, also after an exception. The continuation runs masked.
sendThenReceive :: Transport -> Int -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceive (Plain socket _) micros outgoing continue =
  sendThenReceiveWithin (Plain.timeLimit micros) socket outgoing continue
sendThenReceive (Other functions _) micros outgoing continue =
  sendThenReceiveByFunctions functions micros outgoing continue
{-# INLINE sendThenReceive #-}

sendThenReceiveByFunctions :: Functions -> Int -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceiveByFunctions functions micros outgoing continue = mask_ $ case functionsSendThenReceive functions of
  Just (SendsThenReceives both) -> both micros outgoing continue
  Nothing -> continue (NotSent 0)
{-# NOINLINE sendThenReceiveByFunctions #-}

-- | Ends the sending side: the client finds the end of the stream. Receiving goes on.
endSending :: Transport -> IO ()
endSending (Plain socket _) = shutdown socket ShutdownSend
endSending (Other functions _) = functionsEndSending functions

-- | Ends the receiving side: a thread that receives gets the bytes that have arrived, and then the end of the stream.
-- Never throws an @IOError@.
endReceiving :: Transport -> IO ()
endReceiving (Plain socket _) = Plain.ignoringErrors (shutdown socket ShutdownReceive)
endReceiving (Other functions _) = functionsEndReceiving functions

-- | Ends the connection in both directions, and wakes all threads that wait on it. Never throws an @IOError@.
abort :: Transport -> IO ()
abort (Plain socket _) = Plain.ignoringErrors (shutdown socket ShutdownBoth)
abort (Other functions _) = functionsAbort functions

-- | Closes the connection. Call it once, when no thread uses the connection any more.
closeTransport :: Transport -> IO ()
closeTransport (Plain socket _) = close socket
closeTransport (Other functions _) = functionsClose functions

------------------------------------------------------------------------------------------------------------------------
-- Reading open files, so that only the calling thread waits for the disk

foreign import ccall unsafe "http_file_read"
  c_readFile :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO Int64

foreign import ccall unsafe "http_file_read_at_once"
  c_readFileAtOnce :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO Int64

-- | @readFileAt descriptor destination length offset@: bytes read, fewer only at the end of the file; or a negative
-- errno. Interruptible: what is not in memory is waited for, without holding the capability where the system can tell.
readFileAt :: Fd -> Ptr Word8 -> Int -> Int64 -> IO Int
readFileAt file@(Fd number) target size offset = do
  result <- c_readFileAtOnce number target (fromIntegral size) offset
  if result < 0 && Errno (fromIntegral (negate result)) == eAGAIN then fromDisk else return (fromIntegral result)
  where
    fromDisk = do
      bringIntoMemory file offset (fromIntegral size)
      fromIntegral <$> c_readFile number target (fromIntegral size) offset

------------------------------------------------------------------------------------------------------------------------
-- How the connections of a server become protected, for example by TLS

-- | How connections are protected.
data Protection = Protection
  { -- | Whether this is the first byte of a handshake.
    protectionBeginsWith :: !(Word8 -> Bool),
    -- | Does the handshake with a client that has sent these bytes, and returns the functions of the protected
    -- connection, which also close the socket. If it throws, the server closes the socket.
    protectionHandshake :: !(ByteString -> Socket -> IO Functions),
    protectionOthers :: !Others
  }

-- | How to treat a client that sends no handshake.
data Others
  = -- | Serve it without protection.
    ServedAsTheyAre
  | -- | Send it these bytes, end the connection, and report it.
    AnsweredWith !ByteString !SomeException
