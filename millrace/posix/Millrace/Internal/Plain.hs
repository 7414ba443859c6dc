-- | Descriptors without offsets that are not sockets, such as pipes and terminals: reading and writing them without
-- holding a capability, and without losing what an interrupted thread has read. Must not know: sockets.
module Millrace.Internal.Plain
  ( Plain (..),
    Sharing (..),
    newPlain,
    newShared,
    readPlain,
    writePlain,
    writeSome,
    takeKept,
    keepInPlain,
    closePlain,
    callPlain,
    plainDescriptor,
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
  = -- | this program's: it is non-blocking, and closed by 'closePlain'
    Own
  | -- | shared with other programs, whose flags must not be changed
    WithOthers
  deriving (Eq)

-- | A descriptor, the bytes that an interrupted reader has left, and its name in errors.
data Plain = Plain !Handle !Sharing !(IORef ByteString) !String

instance Eq Plain where
  Plain _ _ a _ == Plain _ _ b _ = a == b

instance Show Plain where
  showsPrec _ (Plain _ _ _ name) = showString name

-- | Takes over a non-blocking descriptor, and closes it if that fails. Call it masked.
newPlain :: String -> CInt -> IO Plain
newPlain what descriptor = do
  handle <- adopt descriptor `onException` uninterruptibleMask_ (c_close descriptor)
  kept <- newIORef ByteString.empty
  return (Plain handle Own kept ("<" ++ what ++ ": " ++ show descriptor ++ ">"))

-- | A descriptor that other programs share.
newShared :: String -> CInt -> IO Plain
newShared what descriptor = do
  kept <- newIORef ByteString.empty
  return (Plain (foreignHandle (Fd descriptor)) WithOthers kept ("<" ++ what ++ ">"))

-- | A call that does not wait and returns a negative errno if it fails: @-EBADF@ without a call, if the descriptor of
-- our own was closed. Its number may mean another file then.
callPlain :: Plain -> (CInt -> IO CInt) -> IO CInt
callPlain (Plain handle _ _ _) call = fromMaybe (let Errno code = eBADF in negate code) <$> whileOpen handle call

-- | The descriptor's number. When it was closed, that may mean another file: see 'callPlain'.
plainDescriptor :: Plain -> CInt
plainDescriptor (Plain handle _ _ _) = descriptorOf handle

-- | Reads at most the given number of bytes; none at the end. If a thread is interrupted, the next read returns its
-- bytes.
readPlain :: String -> Plain -> Deadline -> Int -> IO ByteString
readPlain function plain@(Plain handle sharing _ name) deadline size = handOver (keepInPlain plain) $ do
  unless (size > 0) $ throwIO (failure function name eINVAL)
  kept <- takeKept plain size
  if ByteString.null kept then mallocByteString size >>= receive else return kept
  where
    receive place = do
      count <- withForeignPtr place $ \buffer ->
        onDescriptor function plain (\descriptor -> call descriptor buffer (fromIntegral size))
      case count of
        _
          | count >= 0 -> return $! ByteString.copy (fromForeignPtr place 0 (fromIntegral count))
          | errnoOf count == eAGAIN -> do
            perform (before deadline (waitReadableRequest handle)) >>= throwIfFailed function name
            allowInterrupt
            receive place
          | errnoOf count == eIO -> return ByteString.empty -- a terminal whose other end is closed
          | otherwise -> throwIO (failure function name (errnoOf count))
    call = if sharing == Own then c_read else c_read_shared

-- | At most this many of the bytes that an interrupted reader has left.
takeKept :: Plain -> Int -> IO ByteString
takeKept (Plain _ _ kept _) size =
  atomicModifyIORef' kept (\bytes -> let (now, later) = ByteString.splitAt size bytes in (later, now))

-- | The next read returns these bytes.
keepInPlain :: Plain -> ByteString -> IO ()
keepInPlain (Plain _ _ kept _) bytes =
  unless (ByteString.null bytes) $ atomicModifyIORef' kept (\later -> (bytes <> later, ()))

-- | One call, which does not wait, and writes at most 64 KiB: how many bytes it has written, or a negative errno.
writeSome :: String -> Plain -> Ptr Word8 -> Int -> IO Int64
writeSome function plain@(Plain _ sharing _ _) place left =
  onDescriptor function plain (\descriptor -> call descriptor place (fromIntegral (min left 65536)))
  where
    call = if sharing == Own then c_write else c_write_shared

-- | Writes all bytes. If it is interrupted or fails, a part of unknown size may have been written.
writePlain :: String -> Plain -> Deadline -> ByteString -> IO ()
writePlain function plain@(Plain handle _ _ name) deadline bytes =
  unsafeUseAsCStringLen bytes $ \(source, size) -> mask_ (go (castPtr source) size)
  where
    go place left = when (left > 0) $ do
      count <- writeSome function plain place left
      if count >= 0
        then allowInterrupt >> go (place `plusPtr` fromIntegral count) (left - fromIntegral count)
        else do
          unless (errnoOf count == eAGAIN) $ throwIO (failure function name (errnoOf count))
          perform (before deadline (waitWritableRequest handle)) >>= throwIfFailed function name
          allowInterrupt
          go place left

errnoOf :: Int64 -> Errno
errnoOf = Errno . fromIntegral . negate

onDescriptor :: String -> Plain -> (CInt -> IO Int64) -> IO Int64
onDescriptor function (Plain handle sharing _ name) call
  | sharing == WithOthers = call (descriptorOf handle)
  | otherwise = whileOpen handle call >>= maybe (throwIO (failure function name eBADF)) return

-- | Closes a descriptor of our own; threads that wait for it end with an error. Closing it again does nothing.
-- Uninterruptible: otherwise a second exception, while a handler closes one of two ends, would leave the other one
-- open. It waits only for operations that it ends itself.
closePlain :: Plain -> IO ()
closePlain (Plain handle sharing _ _) = when (sharing == Own) . uninterruptibleMask_ $ close `catch` ignore
  where
    close = void (perform (closeRequest handle))
    ignore :: IOError -> IO ()
    ignore _ = return ()
