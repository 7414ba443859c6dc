-- | TLS in borrowed buffers, for servers with many waiting connections: see "Millrace.Socket.Borrowed". Bytes are
-- decrypted and encrypted in place, and a waiting connection occupies no buffer.
--
-- For protocols that announce the length of their messages: here a truncated stream ends like one that the peer has
-- ended. One thread at a time may receive, and one may send. No function waits for another thread.
--
-- Errors of TLS are thrown as an @IOError@ of type 'ResourceVanished', so that users of sockets need no other handler.
module Millrace.Tls.Borrowed
  ( -- * Receiving
    Received (..),
    receiveBorrowed,
    receiveBuf,
    hasInput,

    -- * Sending
    Limit (..),
    Attempt (..),
    Following (..),
    attemptSend,
    attemptSendFile,

    -- * Sending, and then receiving
    Slice (..),
    SentThenReceived (..),
    sendThenReceive,
  )
where

import Control.Concurrent.MVar
import Control.Exception (Exception (..), catch, mask_, onException, throwIO)
import Control.Monad (when)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (eBADF, ePIPE)
import Foreign.Ptr (Ptr, plusPtr)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Socket.Borrowed
import Millrace.Tls.Error (TlsException)
import Millrace.Tls.Internal.TlsCalls
import Millrace.Tls.Internal.TlsConnection hiding (attemptSend, attemptSendFile, receiveBorrowed)
import qualified Millrace.Tls.Internal.TlsConnection as Internal
import System.Posix.Types (Fd)

-- | Receives at least one byte and at most 'borrowedSize' into a buffer that is borrowed when they arrive, and passes
-- it to the continuation, which must return it. The continuation runs masked. An interrupted receive loses no byte.
receiveBorrowed :: Limit -> Connection -> (Received -> IO a) -> IO a
receiveBorrowed limit connection continue = mask_ $ do
  isHere <- hasInput connection
  if isHere then receiveKept limit connection continue else receiveNext limit connection continue
{-# INLINE receiveBorrowed #-}

receiveNext :: Limit -> Connection -> (Received -> IO a) -> IO a
receiveNext limit connection continue = receiveSealed limit connection (openThen limit connection continue)
{-# INLINE receiveNext #-}

-- Receives bytes that have already arrived.
receiveKept :: Limit -> Connection -> (Received -> IO a) -> IO a
receiveKept limit connection continue = borrow >>= \buffer -> openThen limit connection continue (Received buffer 0)
{-# NOINLINE receiveKept #-}

-- Decrypts received bytes in place. Incomplete records give no bytes. Call it masked.
openThen :: Limit -> Connection -> (Received -> IO a) -> Received -> IO a
openThen _ _ continue EndOfStream = continue EndOfStream
openThen limit connection continue (Received buffer count) = do
  step <- withState connection $ \state ->
    c_receiveInPlace state (borrowedBytes buffer) (fromIntegral count) (fromIntegral borrowedSize)
  when (stepHasMore step) $ flushNow connection `onException` giveBack buffer
  case stepStatus step of
    Done -> continue (Received buffer (stepPlain step))
    status -> giveBack buffer >> withoutPlain limit connection continue status
{-# INLINE openThen #-}

withoutPlain :: Limit -> Connection -> (Received -> IO a) -> Status -> IO a
withoutPlain limit connection continue status = case status of
  WantsInput -> receiveNext limit connection continue
  Ended -> continue EndOfStream
  _ -> throwStatus "Millrace.Tls.Borrowed.receiveBorrowed" connection status
{-# NOINLINE withoutPlain #-}

-- | Receives at least one byte and at most this many into memory. Returns how many: 0 at the end of the stream. An
-- interrupted receive loses no byte.
receiveBuf :: Limit -> Connection -> Ptr Word8 -> Int -> IO Int
receiveBuf limit connection target size = handOver (unread connection target) (open Nothing)
  where
    open input = do
      step <- case input of
        Nothing -> openInto target (0 :: Int)
        Just (buffer, count) -> openInto (borrowedBytes buffer) count <* giveBack buffer
      when (stepHasMore step) $ flushNow connection
      case stepStatus step of
        Done -> return (stepPlain step)
        WantsInput -> receiveSealed limit connection openReceived
        Ended -> return 0
        status -> throwStatus "Millrace.Tls.Borrowed.receiveBuf" connection status
    openReceived EndOfStream = return 0
    openReceived (Received buffer count) = open (Just (buffer, count))
    openInto bytes count =
      withState connection $ \state -> c_receive state bytes (fromIntegral count) target (fromIntegral size)

-- Throws the reason why a step did nothing.
throwStatus :: String -> Connection -> Status -> IO a
throwStatus attempted connection status = case status of
  Failed -> throwFailure connection `catch` (throwIO . asError)
  _ -> throwErrno connection attempted eBADF
  where
    asError :: TlsException -> IOException
    asError problem =
      IOError Nothing ResourceVanished attempted (displayException problem) Nothing (Just (show connection))

-- | What follows the bytes of a send at once.
data Following
  = NothingFollows
  | -- | Few bytes wait for what follows, so that both are sent together.
    MoreFollows
  | -- | These bytes are the last ones. When all of them are sealed, the same send tells the peer that nothing more
    -- comes, and nothing can be sent any more.
    EndFollows

-- | Sends some of these bytes, and waits at most until the limit. After 'TimedOut' the next attempt must begin with the
-- same bytes, because some of them may already be on their way.
attemptSend :: Following -> Limit -> Connection -> Ptr Word8 -> Int -> IO Attempt
attemptSend following limit connection bytes count = do
  unfinished <- readMVar (sending connection)
  case following of
    MoreFollows | unfinished == 0 && count <= fewBytes -> later
    EndFollows -> Internal.attemptSendLast limit connection bytes count
    _ -> Internal.attemptSend limit connection bytes count
  where
    later = do
      step <- withState connection $ \state -> c_sendLater state bytes (fromIntegral count)
      case stepStatus step of
        Done -> return (Moved count)
        Failed -> throwStatus "Millrace.Tls.Borrowed.attemptSend" connection Failed
        -- A message of the peer has arrived in part.
        WantsInput -> Internal.attemptSend limit connection bytes count
        SendingEnded -> return (Refused ePIPE)
        _ -> return (Refused eBADF)

fewBytes :: Int
fewBytes = 4096

-- | Sends some bytes of a regular file, as 'attemptSend' does, given by their offset and number. Sends 0 bytes at the
-- end of the file.
attemptSendFile :: Limit -> Connection -> Fd -> Int64 -> Int64 -> IO Attempt
attemptSendFile = Internal.attemptSendFile

-- | @sendThenReceive micros connection slice continue@ sends bytes of a borrowed buffer, returns the buffer, and then
-- receives as 'receiveBorrowed' does, for at most this number of microseconds (0: for ever). The thread is woken once
-- for both.
--
-- 1. The send does not wait. If the socket does not take all bytes at once, or there is already something to receive,
-- nothing is received ('NotSent' 0). The caller owns the buffer again, but its bytes are overwritten. The next attempt
-- to send must be for as many bytes, and sends the right ones.
-- 2. In all other cases, exceptions included, the buffer is returned.
sendThenReceive :: Int -> Connection -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceive micros connection (Slice buffer offset count) continue = mask_ $ do
  unfinished <- readMVar (sending connection)
  if unfinished /= 0
    then continue (NotSent 0)
    else do
      step <- withState connection $ \state ->
        c_sendInPlace state bytes (fromIntegral count) (fromIntegral (borrowedSize - offset))
      if stepStatus step /= Done || stepPlain step == 0
        then continue (NotSent 0)
        else
          if stepHasMore step || stepHasInput step
            then keep 0 (stepOut step)
            else
              sendThenReceiveSealed
                micros
                connection
                (Slice buffer offset (stepOut step))
                (sealedThen (stepOut step))
  where
    bytes = borrowedBytes buffer `plusPtr` offset
    sealedThen total (NotSent sent) = keep sent total
    sealedThen _ (Sent received) = openThen (Within micros) connection (continue . Sent) received
    keep sent total = do
      withState connection $ \state -> c_putBack state (bytes `plusPtr` sent) (fromIntegral (total - sent))
      modifyMVar_ (sending connection) (const (return count))
      continue (NotSent 0)
{-# INLINE sendThenReceive #-}
