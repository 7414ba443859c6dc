{-# LANGUAGE PackageImports #-}

-- Must not know: the core.

-- | Messages with control messages (ancillary data) and flags, on Millrace's sockets: what "Network.Socket" and
-- "Network.Socket.ByteString" have as @recvBufMsg@, @sendBufMsg@, @recvMsg@ and @sendMsg@.
module Millrace.Compat.SocketMessages
  ( recvBufMsg,
    sendBufMsg,
    recvMsg,
    sendMsg,
  )
where

#include <sys/socket.h>
#include <sys/uio.h>

import Control.Monad (foldM_, forM_, when)
import Data.Bits (complement, finiteBitSize, setBit, testBit, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Internal (createAndTrim')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Word (Word32, Word8)
import Foreign.C.Error (throwErrnoIfMinus1RetryMayBlock)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Socket (SockAddr (SockAddrUnix), Socket, getPeerName, withFdSocket)
import Millrace.Timer (threadDelay)
import Millrace.Wait (threadWaitRead, threadWaitWrite)
import "network" Network.Socket (Cmsg (..), CmsgId (..), MsgFlag)
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)
import System.IO.Error (catchIOError)
import System.Posix.Types (CSsize (..), Fd (..))

foreign import ccall unsafe "recvmsg"
  c_recvmsg :: CInt -> Ptr Word8 -> CInt -> IO CSsize

foreign import ccall unsafe "sendmsg"
  c_sendmsg :: CInt -> Ptr Word8 -> CInt -> IO CSsize

-- | Waits for a message, and writes it into pieces of memory. Returns the sender (@SockAddrUnix ""@ for a Unix socket
-- without a name), the number of bytes, the control messages, for which there is memory of this size, and flags.
-- Descriptors among the control messages are closed in programs that the process starts.
recvBufMsg :: Socket -> [(Ptr Word8, Int)] -> Int -> MsgFlag -> IO (SockAddr, Int, [Cmsg], MsgFlag)
recvBufMsg s pieces controlSize flags =
  allocaBytes addressMost $ \address -> allocaBytes (max 1 controlSize) $ \control ->
    withHeader address addressMost pieces control controlSize $ \header -> do
      count <- attempt s "Network.Socket.recvBufMsg" threadWaitRead $ \descriptor ->
        c_recvmsg descriptor header (numberOf flags + #{const MSG_DONTWAIT | MSG_CMSG_CLOEXEC})
      addressSize <- #{peek struct msghdr, msg_namelen} header :: IO #{type socklen_t}
      sender <- if addressSize == 0 then peerOf s else peekSocketAddress (castPtr address)
      controlled <- #{peek struct msghdr, msg_controllen} header :: IO CSize
      messages <- controlMessages control (fromIntegral controlled)
      flagged <- #{peek struct msghdr, msg_flags} header :: IO CInt
      return (sender, count, messages, flagsOf (flagged .&. complement #{const MSG_CMSG_CLOEXEC}))
  where
    addressMost = #{size struct sockaddr_storage}

-- | Sends a message from pieces of memory, with control messages. Returns the number of bytes sent.
sendBufMsg :: Socket -> SockAddr -> [(Ptr Word8, Int)] -> [Cmsg] -> MsgFlag -> IO Int
sendBufMsg s receiver pieces messages flags =
  allocaBytes addressSize $ \address -> allocaBytes (max 1 controlSize) $ \control -> do
    pokeSocketAddress address receiver
    writeControlMessages control messages
    withHeader (castPtr address) addressSize pieces control controlSize $ \header ->
      attempt s "Network.Socket.sendBufMsg" threadWaitWrite $ \descriptor ->
        c_sendmsg descriptor header (numberOf flags + #{const MSG_DONTWAIT | MSG_NOSIGNAL})
  where
    addressSize = sizeOfSocketAddress receiver
    controlSize = sum (map (spaceOf . cmsgData) messages)

-- | Waits for a message of at most the first number of bytes, with control messages of at most the second one.
recvMsg :: Socket -> Int -> Int -> MsgFlag -> IO (SockAddr, ByteString, [Cmsg], MsgFlag)
recvMsg s size controlSize flags = do
  (bytes, (sender, messages, flagged)) <- createAndTrim' size $ \memory -> do
    (sender, count, messages, flagged) <- recvBufMsg s [(memory, size)] controlSize flags
    return (0, count, (sender, messages, flagged))
  return (sender, bytes, messages, flagged)

-- | Sends the pieces as one message, with control messages. Returns the number of bytes sent.
sendMsg :: Socket -> SockAddr -> [ByteString] -> [Cmsg] -> MsgFlag -> IO Int
sendMsg s receiver texts messages flags = gather texts []
  where
    gather (text : rest) before = unsafeUseAsCStringLen text $ \(start, size) ->
      gather rest ((castPtr start, size) : before)
    gather [] before = sendBufMsg s receiver (reverse before) messages flags

-- The sender of bytes that come without a name.
peerOf :: Socket -> IO SockAddr
peerOf s = getPeerName s `catchIOError` \_ -> return (SockAddrUnix "")

-- Calls until the socket is ready. A Unix socket whose receiver's queue is full looks ready all the same: hence the delay.
attempt :: Socket -> String -> (Fd -> IO ()) -> (CInt -> IO CSsize) -> IO Int
attempt s name wait call = withFdSocket s $ \descriptor -> do
  hasWaited <- newIORef False
  let waitAgain = do
        isFull <- readIORef hasWaited
        when isFull (threadDelay 1000)
        writeIORef hasWaited True
        wait (Fd descriptor)
  fromIntegral <$> throwErrnoIfMinus1RetryMayBlock name (call descriptor) waitAgain

withHeader :: Ptr Word8 -> Int -> [(Ptr Word8, Int)] -> Ptr Word8 -> Int -> (Ptr Word8 -> IO a) -> IO a
withHeader address addressSize pieces control controlSize use =
  allocaBytes #{size struct msghdr} $ \header -> allocaBytes (max 1 (count * #{size struct iovec})) $ \vector -> do
    fillBytes header 0 #{size struct msghdr}
    forM_ (zip [0 ..] pieces) $ \(index, (start, size)) -> do
      let element = vector `plusPtr` (index * #{size struct iovec})
      #{poke struct iovec, iov_base} element start
      #{poke struct iovec, iov_len} element (fromIntegral size :: CSize)
    #{poke struct msghdr, msg_name} header address
    #{poke struct msghdr, msg_namelen} header (fromIntegral addressSize :: #{type socklen_t})
    #{poke struct msghdr, msg_iov} header (vector :: Ptr Word8)
    #{poke struct msghdr, msg_iovlen} header (fromIntegral count :: CSize)
    #{poke struct msghdr, msg_control} header (if controlSize == 0 then nullPtr else control)
    #{poke struct msghdr, msg_controllen} header (fromIntegral controlSize :: CSize)
    use header
  where
    count = length pieces

------------------------------------------------------------------------------------------------------------------------
-- Control messages: each begins with a header, and the next one at a multiple of the size of a word.

headSize :: Int
headSize = aligned #{size struct cmsghdr}

aligned :: Int -> Int
aligned size = (size + word - 1) .&. complement (word - 1)
  where
    word = #{size size_t}

spaceOf :: ByteString -> Int
spaceOf content = headSize + aligned (B.length content)

writeControlMessages :: Ptr Word8 -> [Cmsg] -> IO ()
writeControlMessages = foldM_ $ \at (Cmsg (CmsgId level kind) content) -> do
  let size = B.length content
  fillBytes at 0 (spaceOf content)
  #{poke struct cmsghdr, cmsg_len} at (fromIntegral (headSize + size) :: CSize)
  #{poke struct cmsghdr, cmsg_level} at level
  #{poke struct cmsghdr, cmsg_type} at kind
  unsafeUseAsCStringLen content $ \(start, _) -> copyBytes (at `plusPtr` headSize) (castPtr start) size
  return (at `plusPtr` spaceOf content)

-- The last one may be cut.
controlMessages :: Ptr Word8 -> Int -> IO [Cmsg]
controlMessages at left
  | left < headSize = return []
  | otherwise = do
    size <- fromIntegral <$> (#{peek struct cmsghdr, cmsg_len} at :: IO CSize)
    level <- #{peek struct cmsghdr, cmsg_level} at
    kind <- #{peek struct cmsghdr, cmsg_type} at
    content <- B.packCStringLen (castPtr at `plusPtr` headSize, max 0 (min size left - headSize))
    let next = aligned (max headSize size)
    (Cmsg (CmsgId level kind) content :) <$> controlMessages (at `plusPtr` next) (left - next)

------------------------------------------------------------------------------------------------------------------------
-- Flags: network keeps their constructor to itself.

numberOf :: MsgFlag -> CInt
numberOf flags = foldl setBit 0 (filter (testBit flags) [0 .. finiteBitSize (0 :: CInt) - 1])

flagsOf :: CInt -> MsgFlag
flagsOf = fromIntegral
