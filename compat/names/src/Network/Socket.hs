{-# LANGUAGE PackageImports #-}

-- | "Network.Socket" with Millrace's sockets ("Millrace.Socket" says what they guarantee).
module Network.Socket
  ( module Millrace.Socket,

    -- * Messages in memory
    recvBufFrom,
    sendBufTo,

    -- * Messages with control messages
    recvBufMsg,
    sendBufMsg,
    MsgFlag (MSG_OOB, MSG_DONTROUTE, MSG_PEEK, MSG_EOR, MSG_TRUNC, MSG_CTRUNC, MSG_WAITALL),
    Cmsg (..),
    CmsgId
      ( CmsgId,
        CmsgIdIPv4TTL,
        CmsgIdIPv6HopLimit,
        CmsgIdIPv4TOS,
        CmsgIdIPv6TClass,
        CmsgIdIPv4PktInfo,
        CmsgIdIPv6PktInfo,
        CmsgIdFd,
        UnsupportedCmsgId
      ),
    lookupCmsg,
    filterCmsg,
    decodeCmsg,
    encodeCmsg,
    ControlMessage (..),
    IPv4TTL (..),
    IPv6HopLimit (..),
    IPv4TOS (..),
    IPv6TClass (..),
    IPv4PktInfo (..),
    IPv6PktInfo (..),

    -- * Options
    whenSupported,
    StructLinger (..),

    -- * Waiting by transactions
    waitReadSocketSTM,
    waitAndCancelReadSocketSTM,
    waitWriteSocketSTM,
    waitAndCancelWriteSocketSTM,

    -- * Older names
    fdSocket,
    touchSocket,
  )
where

import Control.Monad.STM (STM)
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Millrace.Compat.SocketMessages (recvBufMsg, sendBufMsg)
import Millrace.Socket
import Millrace.Socket.Datagram (recvFrom, sendTo)
import Millrace.Wait (threadWaitReadSTM, threadWaitWriteSTM)
import "network" Network.Socket
  ( Cmsg (..),
    CmsgId (..),
    ControlMessage (..),
    IPv4PktInfo (..),
    IPv4TOS (..),
    IPv4TTL (..),
    IPv6HopLimit (..),
    IPv6PktInfo (..),
    IPv6TClass (..),
    MsgFlag (..),
    StructLinger (..),
    decodeCmsg,
    encodeCmsg,
    filterCmsg,
    lookupCmsg,
    whenSupported,
  )
import System.Posix.Types (Fd (..))

-- | Waits for a message, and writes at most this many bytes of it into memory. Returns their number, and the sender.
recvBufFrom :: Socket -> Ptr a -> Int -> IO (Int, SockAddr)
recvBufFrom s memory size = do
  (bytes, sender) <- recvFrom s size
  unsafeUseAsCStringLen bytes $ \(start, count) -> do
    copyBytes memory (castPtr start) count
    return (count, sender)

-- | Sends a message from memory. Returns the number of bytes sent.
sendBufTo :: Socket -> Ptr a -> Int -> SockAddr -> IO Int
sendBufTo s memory size receiver = do
  bytes <- unsafePackCStringLen (castPtr memory, size)
  sendTo s bytes receiver

-- | A transaction that succeeds when the socket is readable.
waitReadSocketSTM :: Socket -> IO (STM ())
waitReadSocketSTM s = fst <$> waitAndCancelReadSocketSTM s

-- | A transaction that succeeds when the socket is readable, and an action that ends the wait.
waitAndCancelReadSocketSTM :: Socket -> IO (STM (), IO ())
waitAndCancelReadSocketSTM s = withFdSocket s (threadWaitReadSTM . Fd)

-- | A transaction that succeeds when the socket is writable.
waitWriteSocketSTM :: Socket -> IO (STM ())
waitWriteSocketSTM s = fst <$> waitAndCancelWriteSocketSTM s

-- | A transaction that succeeds when the socket is writable, and an action that ends the wait.
waitAndCancelWriteSocketSTM :: Socket -> IO (STM (), IO ())
waitAndCancelWriteSocketSTM s = withFdSocket s (threadWaitWriteSTM . Fd)

-- | The socket's descriptor, which is valid until the socket is closed.
fdSocket :: Socket -> IO CInt
fdSocket = unsafeFdSocket

-- | Does nothing: a socket stays open until it is closed.
touchSocket :: Socket -> IO ()
touchSocket _ = return ()
