-- Must not know: sockets.

-- | Descriptors without offsets that are not sockets, such as pipes and terminals: reading and writing them without
-- holding a capability, and without losing what an interrupted thread has read.
module Millrace.Internal.StreamDescriptor
  ( StreamDescriptor (..),
    Sharing (..),
    newStreamDescriptor,
    newShared,
    readStream,
    writeStream,
    writeSome,
    takeKept,
    keepInStream,
    closeStream,
    callStream,
    streamNumber,
  )
where

import Control.Exception (allowInterrupt, catch, mask_, onException, throwIO, uninterruptibleMask_)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, eINVAL, eIO)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Millrace.Deadline (Deadline)
import Millrace.Internal.Errors (failure, throwIfFailed)
import Millrace.Internal.Park (handOver)
import Millrace.Operation
  ( Handle,
    adopt,
    before,
    closeRequest,
    descriptorOf,
    foreignHandle,
    perform,
    waitReadableRequest,
    waitWritableRequest,
    whileOpen,
  )
import System.Posix.Types (Fd (..))

foreign import ccall unsafe "mrh_read_plain" c_read :: CInt -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "mrh_write_plain" c_write :: CInt -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "mrh_read_shared" c_read_shared :: CInt -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "mrh_write_shared" c_write_shared :: CInt -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "mrh_close" c_close :: CInt -> IO CInt

-- | The owner of a descriptor.
data Sharing
  = -- | this program's: it is non-blocking, and closed by 'closeStream'
    Own
  | -- | shared with other programs, whose flags must not be changed
    WithOthers
  deriving (Eq)

-- | A descriptor, the bytes that an interrupted reader has left, and its name in errors.
data StreamDescriptor = StreamDescriptor !Handle !Sharing !(IORef ByteString) !String

instance Eq StreamDescriptor where
  StreamDescriptor _ _ a _ == StreamDescriptor _ _ b _ = a == b

instance Show StreamDescriptor where
  showsPrec _ (StreamDescriptor _ _ _ name) = showString name

-- | Takes over a non-blocking descriptor, and closes it if that fails. Call it masked.
newStreamDescriptor :: String -> CInt -> IO StreamDescriptor
newStreamDescriptor what descriptor = do
  handle <- adopt descriptor `onException` uninterruptibleMask_ (c_close descriptor)
  kept <- newIORef ByteString.empty
  return (StreamDescriptor handle Own kept ("<" ++ what ++ ": " ++ show descriptor ++ ">"))

-- | A descriptor that other programs share.
newShared :: String -> CInt -> IO StreamDescriptor
newShared what descriptor = do
  kept <- newIORef ByteString.empty
  return (StreamDescriptor (foreignHandle (Fd descriptor)) WithOthers kept ("<" ++ what ++ ">"))

-- | Makes a call that does not wait and returns a negative errno if it fails. If our descriptor was closed, it returns
-- @-EBADF@ without the call, because the number may mean another file then.
callStream :: StreamDescriptor -> (CInt -> IO CInt) -> IO CInt
callStream (StreamDescriptor handle _ _ _) call =
  fromMaybe (let Errno code = eBADF in negate code) <$> whileOpen handle call

-- | The descriptor's number. When the descriptor was closed, the number may mean another file: see 'callStream'.
streamNumber :: StreamDescriptor -> CInt
streamNumber (StreamDescriptor handle _ _ _) = descriptorOf handle

-- | Reads at most the given number of bytes; none at the end. If a thread is interrupted, the next read returns its
-- bytes.
readStream :: String -> StreamDescriptor -> Deadline -> Int -> IO ByteString
readStream function stream@(StreamDescriptor handle sharing _ name) deadline size = handOver (keepInStream stream) $ do
  unless (size > 0) $ throwIO (failure function name eINVAL)
  kept <- takeKept stream size
  if ByteString.null kept then mallocByteString size >>= receive else return kept
  where
    receive memory = do
      count <- withForeignPtr memory $ \buffer ->
        onDescriptor function stream (\descriptor -> call descriptor buffer (fromIntegral size))
      case count of
        _
          | count >= 0 -> return $! ByteString.copy (fromForeignPtr memory 0 (fromIntegral count))
          | errnoOf count == eAGAIN -> do
            perform (before deadline (waitReadableRequest handle)) >>= throwIfFailed function name
            allowInterrupt
            receive memory
          | errnoOf count == eIO -> return ByteString.empty -- a terminal whose other end is closed
          | otherwise -> throwIO (failure function name (errnoOf count))
    call = if sharing == Own then c_read else c_read_shared

-- | At most this many of the bytes that an interrupted reader has left.
takeKept :: StreamDescriptor -> Int -> IO ByteString
takeKept (StreamDescriptor _ _ kept _) size =
  atomicModifyIORef' kept (\bytes -> let (now, later) = ByteString.splitAt size bytes in (later, now))

-- | Keeps these bytes for the next read.
keepInStream :: StreamDescriptor -> ByteString -> IO ()
keepInStream (StreamDescriptor _ _ kept _) bytes =
  unless (ByteString.null bytes) $ atomicModifyIORef' kept (\later -> (bytes <> later, ()))

-- | Writes at most 64 KiB in one call, which does not wait. Returns the number of bytes that it has written, or a
-- negative errno.
writeSome :: String -> StreamDescriptor -> Ptr Word8 -> Int -> IO Int64
writeSome function stream@(StreamDescriptor _ sharing _ _) memory left =
  onDescriptor function stream (\descriptor -> call descriptor memory (fromIntegral (min left 65536)))
  where
    call = if sharing == Own then c_write else c_write_shared

-- | Writes all bytes. If it is interrupted or fails, a part of unknown size may have been written.
writeStream :: String -> StreamDescriptor -> Deadline -> ByteString -> IO ()
writeStream function stream@(StreamDescriptor handle _ _ name) deadline bytes =
  unsafeUseAsCStringLen bytes $ \(source, size) -> mask_ (go (castPtr source) size)
  where
    go memory left = when (left > 0) $ do
      count <- writeSome function stream memory left
      if count >= 0
        then allowInterrupt >> go (memory `plusPtr` fromIntegral count) (left - fromIntegral count)
        else do
          unless (errnoOf count == eAGAIN) $ throwIO (failure function name (errnoOf count))
          perform (before deadline (waitWritableRequest handle)) >>= throwIfFailed function name
          allowInterrupt
          go memory left

errnoOf :: Int64 -> Errno
errnoOf = Errno . fromIntegral . negate

onDescriptor :: String -> StreamDescriptor -> (CInt -> IO Int64) -> IO Int64
onDescriptor function (StreamDescriptor handle sharing _ name) call
  | sharing == WithOthers = call (descriptorOf handle)
  | otherwise = whileOpen handle call >>= maybe (throwIO (failure function name eBADF)) return

-- | Closes our descriptor; threads that wait for it end with an error. Closing it again does nothing.
-- Uninterruptible: otherwise a second exception, while a handler closes one of two ends, would leave the other one
-- open. It waits only for operations that it ends itself.
closeStream :: StreamDescriptor -> IO ()
closeStream (StreamDescriptor handle sharing _ _) = when (sharing == Own) . uninterruptibleMask_ $ close `catch` ignore
  where
    close = void (perform (closeRequest handle))
    ignore :: IOError -> IO ()
    ignore _ = return ()
