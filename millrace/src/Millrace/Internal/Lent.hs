-- | Lent buffers, and the one receive that all others with lent buffers are made of.
module Millrace.Internal.Lent
  ( Lent,
    lentSize,
    lentBytes,
    lentAt,
    borrow,
    giveBack,
    receiveLent,
    sendThenReceive,
  )
where

import Control.Exception (mask_, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (memcpy)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.C.Error (eNOMEM, errnoToIOError)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import GHC.IO.Exception (IOErrorType (InvalidArgument))
import Millrace.Internal.Constants
import Millrace.Internal.Foreign (LentBuffer, c_give_back, c_lend)
import Millrace.Internal.Park (Request, performOnce)
import Millrace.Internal.Socket
import Millrace.Operation (failure, recvLentRequest, sendThenReceiveRequest, throwIfFailed)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | 'lentSize' bytes of memory outside the Haskell heap, aligned for words.
--
-- @since 0.1.0
newtype Lent = Lent (Ptr LentBuffer)
  deriving (Eq)

-- | How many bytes a buffer holds.
--
-- @since 0.1.0
lentSize :: Int
lentSize = bufferBytesMax

-- | The bytes of a buffer.
--
-- @since 0.1.0
lentBytes :: Lent -> Ptr Word8
lentBytes (Lent buffer) = castPtr buffer `plusPtr` bufferBytesAt
{-# INLINE lentBytes #-}

-- | The buffer whose 'lentBytes' these are.
--
-- @since 0.1.0
lentAt :: Ptr Word8 -> Lent
lentAt bytes = Lent (castPtr (bytes `plusPtr` negate bufferBytesAt))
{-# INLINE lentAt #-}

-- | Takes a buffer without receiving. Does not block. Throws an 'IOError' without memory. O(1).
--
-- @since 0.1.0
borrow :: IO Lent
borrow = do
  buffer <- c_lend
  when (buffer == nullPtr) $ throwIO (errnoToIOError "Millrace.Socket.Lent.borrow" eNOMEM Nothing Nothing)
  return (Lent buffer)
{-# INLINE borrow #-}

-- | Gives a buffer back; does nothing with what the end of a stream brings. Does not block. O(1).
--
-- @since 0.1.0
giveBack :: Lent -> IO ()
giveBack (Lent buffer) = c_give_back buffer
{-# INLINE giveBack #-}

-- | For a function of this name, with a limit on the time.
receiveLent :: String -> (Request LentBuffer -> Request LentBuffer) -> Socket -> Int -> (Lent -> Int -> IO a) -> IO a
receiveLent attempted limit s@(Socket handle _) size continue = mask_ $ do
  checkSize attempted s size
  takeKept s split Nothing >>= maybe receiveNext (continueKept attempted s continue)
  where
    split = firstBytes (min size lentSize)
    receiveNext = do
      answer <- performOnce (return ()) (lookAgain s split) (keepLate s) (limit (recvLentRequest handle size))
      if answer == recalled
        then receiveAgain attempted limit s size continue
        else throwIfFailed attempted (describe s) answer >>= continueWith continue
{-# INLINE receiveLent #-}

-- Apart: what it needs would make the stacks of all that wait larger.
receiveAgain :: String -> (Request LentBuffer -> Request LentBuffer) -> Socket -> Int -> (Lent -> Int -> IO a) -> IO a
receiveAgain = receiveLent
{-# NOINLINE receiveAgain #-}

continueWith :: (Lent -> Int -> IO a) -> Int64 -> IO a
continueWith continue result
  | result == 0 = continue (Lent nullPtr) 0
  | otherwise = do
    let buffer = bufferOf result
    count <- receivedCount buffer
    continue buffer count
{-# INLINE continueWith #-}

-- | For a function of this name, with a limit on the time.
sendThenReceive ::
  String ->
  (Request LentBuffer -> Request LentBuffer) ->
  Socket ->
  Lent ->
  Int ->
  Int ->
  (Int -> IO a) ->
  (Lent -> Int -> IO a) ->
  IO a
sendThenReceive attempted limit s@(Socket handle _) outgoing@(Lent buffer) offset count unsent continue = mask_ $ do
  unless (count > 0 && offset >= 0 && count <= lentSize - offset) $ do
    giveBack outgoing
    throwIO
      ( mkIOError InvalidArgument attempted Nothing (Just (describe s))
          `ioeSetErrorString` ("a buffer has no " ++ show count ++ " bytes from " ++ show offset ++ " on that could be sent")
      )
  keeps <- keepsBytes s
  if keeps
    then unsent 0
    else do
      answer <-
        performOnce
          (giveBack outgoing)
          (lookAgain s (firstBytes lentSize))
          late
          (limit (sendThenReceiveRequest handle buffer offset count))
      if answer <= notSent
        then unsent (fromIntegral (notSent - answer))
        else
          if answer == recalled
            then receiveAgain attempted limit s lentSize continue
            else throwIfFailed attempted (describe s) answer >>= continueWith continue
  where
    late answer = if answer <= notSent then giveBack outgoing else keepLate s answer
{-# INLINE sendThenReceive #-}

-- For a function of this name.
continueKept :: String -> Socket -> (Lent -> Int -> IO a) -> Either Int64 ByteString -> IO a
continueKept attempted s continue = either (throwIO . failure attempted (describe s)) (copyKept continue)

copyKept :: (Lent -> Int -> IO a) -> ByteString -> IO a
copyKept continue kept
  | ByteString.null kept = continue (Lent nullPtr) 0
  | otherwise = do
    buffer <- borrow
    unsafeUseAsCStringLen kept $ \(source, count) -> memcpy (lentBytes buffer) (castPtr source) count
    continue buffer (ByteString.length kept)

bufferOf :: Int64 -> Lent
bufferOf = Lent . intPtrToPtr . IntPtr . fromIntegral

receivedCount :: Lent -> IO Int
receivedCount (Lent buffer) = fromIntegral <$> (peekByteOff buffer bufferLengthAt :: IO Word64)

-- What came for a thread that was interrupted meanwhile.
keepLate :: Socket -> Int64 -> IO ()
keepLate s result
  | result < 0 = keepError s result
  | result == 0 = keepBytes s ByteString.empty
  | otherwise = do
    let buffer = bufferOf result
    count <- receivedCount buffer
    ByteString.packCStringLen (castPtr (lentBytes buffer), count) >>= keepBytes s
    giveBack buffer
