{-# LANGUAGE RankNTypes #-}

-- | Borrowed buffers, and the receives that use them.
module Millrace.Internal.Borrowed
  ( Borrowed,
    borrowedSize,
    borrowedBytes,
    borrowedAt,
    borrow,
    giveBack,
    Received (..),
    WithTimeLimit,
    receiveBorrowed,
    receiveBytes,
    Slice (..),
    SentThenReceived (..),
    sendThenReceive,
  )
where

import Control.Exception (mask_, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (create)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.C.Error (Errno, eNOMEM)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls
import Millrace.Internal.Handle (Handle (..))
import Millrace.Internal.Park
import Millrace.Internal.Socket
import Millrace.Operation (failure)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | 'borrowedSize' bytes of memory outside the Haskell heap, aligned for words.
newtype Borrowed = Borrowed (Ptr Buffer)
  deriving (Eq)

-- | How many bytes a buffer holds.
borrowedSize :: Int
borrowedSize = bufferBytesMax

-- | The bytes of a buffer.
borrowedBytes :: Borrowed -> Ptr Word8
borrowedBytes (Borrowed buffer) = castPtr buffer `plusPtr` bufferBytesAt
{-# INLINE borrowedBytes #-}

-- | The buffer whose 'borrowedBytes' these are.
borrowedAt :: Ptr Word8 -> Borrowed
borrowedAt bytes = Borrowed (castPtr (bytes `plusPtr` negate bufferBytesAt))
{-# INLINE borrowedAt #-}

-- | Takes a buffer without receiving. Does not block. Throws an 'IOError' when there is no memory. O(1).
borrow :: IO Borrowed
borrow = do
  buffer <- c_borrow
  when (buffer == nullPtr) $ throwIO (failure "Millrace.Socket.Borrowed.borrow" "a buffer" eNOMEM)
  return (Borrowed buffer)
{-# INLINE borrow #-}

-- | Gives a buffer back. Does not block. O(1).
giveBack :: Borrowed -> IO ()
giveBack (Borrowed buffer) = c_give_back buffer
{-# INLINE giveBack #-}

-- | The result of a receive.
data Received
  = -- | A buffer, which the receiver now owns, and the number of bytes in it: at least one.
    Received !Borrowed !Int
  | -- | The stream has ended, or a message was empty. There is no buffer.
    EndOfStream

-- The result of a receive: the address of its buffer, or 0 at the end of the stream.
receivedFrom :: Int64 -> IO Received
receivedFrom 0 = return EndOfStream
receivedFrom address = Received (Borrowed buffer) . fromIntegral <$> (peekByteOff buffer bufferLengthAt :: IO Word64)
  where
    buffer = intPtrToPtr (IntPtr (fromIntegral address))
{-# INLINE receivedFrom #-}

-- Receives bytes, up to a maximum, into a buffer that the loop provides when they arrive.
receiveRequest :: Handle -> Int -> Request (IO Received)
receiveRequest (Handle handle) size =
  (request kindRecv handle receivedFrom) {requestFlags = flagBorrow, requestLength = fromIntegral size}
{-# INLINE receiveRequest #-}

-- | Adds a limit on the time to a request.
type WithTimeLimit = forall r. Request r -> Request r

-- | Receives for a function of this name, with a limit on the time.
receiveBorrowed :: String -> WithTimeLimit -> Socket -> Int -> (Received -> IO a) -> IO a
receiveBorrowed attempted limit s@(Socket handle _) size continue = mask_ $ do
  checkSize attempted s size
  takeKept s split Nothing >>= maybe receiveNext (continueKept attempted s continue)
  where
    split = firstBytes (min size borrowedSize)
    receiveNext = do
      value <- performOnce (Hooks (return ()) (lookAgain s split) (keepValue s)) (limit (receiveRequest handle size))
      case ended receivedFrom value of
        Retry -> receiveAgain attempted limit s size continue
        Failed code -> throwIO (failure attempted (describe s) code)
        Ended received -> received >>= continue
{-# INLINE receiveBorrowed #-}

-- Not inlined: its variables would make the stacks of all waiting threads larger.
receiveAgain :: String -> WithTimeLimit -> Socket -> Int -> (Received -> IO a) -> IO a
receiveAgain = receiveBorrowed
{-# NOINLINE receiveAgain #-}

-- | Receives bytes, up to a maximum, for a function of this name, with a limit on the time. Call it masked.
--
-- The bytes arrive in a buffer that the loop provides. One call into C copies them, gives the buffer back and, if the
-- thread had to wait, ends the wait.
receiveBytes :: String -> WithTimeLimit -> Socket -> Int -> IO ByteString
receiveBytes attempted limit s@(Socket handle _) size = do
  checkSize attempted s size
  look
  where
    split = firstBytes size
    look = takeKept s split Nothing >>= maybe receiveNext (either failed return)
    receiveNext =
      performEnding hooks (copyBy c_take_bytes (return ())) (keepBytes s) endWait (limit (receiveRequest handle size))
    hooks = Hooks (return ()) (lookAgain s split) (keepValue s)
    endWait ticket = waitFor (keepValue s) ticket >>= copyBy (c_end_receive ticket) (c_end_wait ticket)
    failed = throwIO . failure attempted (describe s)
    -- The second argument runs if there is nothing to copy.
    copyBy copy withoutBytes value = case ended receivedFrom value of
      Retry -> withoutBytes >> look
      Failed code -> withoutBytes >> failed code
      Ended receiving -> do
        received <- receiving
        case received of
          EndOfStream -> ByteString.empty <$ withoutBytes
          Received (Borrowed buffer) count -> create count (copy buffer)

-- | Bytes of a borrowed buffer.
data Slice = Slice
  { sliceBuffer :: !Borrowed,
    -- | The position of the first one in the buffer.
    sliceOffset :: !Int,
    -- | Their number.
    sliceCount :: !Int
  }

-- | The result of sending a 'Slice' and then receiving.
data SentThenReceived
  = -- | Only this many bytes were sent, and nothing was received. The caller owns the buffer again.
    NotSent !Int
  | -- | All bytes were sent, and the buffer was given back. This was received.
    Sent !Received

-- | Sends and receives for a function of this name, with a limit on the time.
sendThenReceive :: String -> WithTimeLimit -> Socket -> Slice -> (SentThenReceived -> IO a) -> IO a
sendThenReceive attempted limit s@(Socket handle _) outgoing@(Slice buffer offset count) continue = mask_ $ do
  unless (count > 0 && offset >= 0 && count <= borrowedSize - offset) $
    giveBack buffer >> refuseSlice attempted s outgoing
  isKept <- keepsBytes s
  if isKept
    then continue (NotSent 0)
    else do
      value <-
        performOnce
          (Hooks (giveBack buffer) (lookAgain s (firstBytes borrowedSize)) keepUnlessUnsent)
          (limit (sendThenReceiveRequest handle outgoing))
      case unsent value of
        Just sent -> continue (NotSent sent)
        Nothing -> case ended receivedFrom value of
          Retry -> receiveAgain attempted limit s borrowedSize (continue . Sent)
          Failed code -> throwIO (failure attempted (describe s) code)
          Ended received -> received >>= continue . Sent
  where
    keepUnlessUnsent value = maybe (keepValue s value) (const (giveBack buffer)) (unsent value)
{-# INLINE sendThenReceive #-}

-- The number of bytes sent, if not all were.
unsent :: Value -> Maybe Int
unsent (Value value)
  | value <= notSent = Just (fromIntegral (notSent - value))
  | otherwise = Nothing
{-# INLINE unsent #-}

-- Sends without waiting, and then receives like 'receiveRequest'. Submitting the request gives the buffer away, unless
-- the result says that not all bytes were sent: see @MR_SEND_THEN_RECEIVE@ in @millrace.h@.
sendThenReceiveRequest :: Handle -> Slice -> Request ()
sendThenReceiveRequest (Handle handle) (Slice (Borrowed buffer) offset count) =
  (request kindSendThenReceive handle (const ()))
    { requestBuffer = castPtr buffer,
      requestLength = fromIntegral count,
      requestOffset = fromIntegral offset
    }
{-# INLINE sendThenReceiveRequest #-}

refuseSlice :: String -> Socket -> Slice -> IO a
refuseSlice attempted s (Slice _ offset count) =
  throwIO
    ( mkIOError InvalidArgument attempted Nothing (Just (describe s))
        `ioeSetErrorString` ("a buffer does not have " ++ show count ++ " bytes from " ++ show offset ++ " on")
    )
{-# NOINLINE refuseSlice #-}

-- Continues with bytes that were kept, or throws the kept error for a function of this name.
continueKept :: String -> Socket -> (Received -> IO a) -> Either Errno ByteString -> IO a
continueKept attempted s continue = either (throwIO . failure attempted (describe s)) (copyKept continue)

copyKept :: (Received -> IO a) -> ByteString -> IO a
copyKept continue kept
  | ByteString.null kept = continue EndOfStream
  | otherwise = do
    buffer <- borrow
    unsafeUseAsCStringLen kept $ \(source, count) -> copyBytes (borrowedBytes buffer) (castPtr source) count
    continue (Received buffer (ByteString.length kept))

-- Keeps bytes that arrived for a thread that was interrupted meanwhile.
keepValue :: Socket -> Value -> IO ()
keepValue s value = case ended receivedFrom value of
  Retry -> return ()
  Failed code -> keepError s code
  Ended receiving -> do
    received <- receiving
    case received of
      EndOfStream -> keepBytes s ByteString.empty
      Received (Borrowed buffer) count -> create count (c_take_bytes buffer) >>= keepBytes s
