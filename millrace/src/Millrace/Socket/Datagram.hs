{-# LANGUAGE BangPatterns #-}

-- | Messages without a connection, with the names of "Network.Socket.ByteString". The socket has the type @Datagram@.
--
-- > main = do
-- >   s <- socket AF_INET Datagram defaultProtocol
-- >   bind s (SockAddrInet 7000 0)
-- >   forever $ recvFrom s 1500 >>= uncurry (sendAllTo s)
--
-- A message arrives as a whole: once, more than once or not at all. A message that an interrupted thread has received
-- is returned by another 'recvFrom', one that already waits or the next one. "Millrace.Socket.ByteString" also works on
-- such sockets if they have a peer ('Millrace.Socket.connect').
--
-- All functions throw 'IOError' that names the function and the socket. They wait without occupying an operating system
-- thread. Within "Millrace.Simulation" there are no datagrams between Unix sockets.
--
-- >>> import Millrace
-- >>> let newSocket = socket AF_INET Datagram defaultProtocol
-- >>> (server, client) <- (,) <$> newSocket <*> newSocket
-- >>> bind server (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
-- >>> getSocketName server >>= sendTo client "one message"
-- 11
-- >>> fst <$> recvFrom server 1500
-- "one message"
module Millrace.Socket.Datagram
  ( recvFrom,
    recvFromBefore,
    sendTo,
    sendToBefore,
    sendAllTo,
    sendAllToBefore,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Maybe (fromMaybe)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (castPtr)
import Foreign.Storable (peek, poke)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Internal.Attempt (attempt, attemptOnce, nameless, receiveMessages)
import Millrace.Internal.Constants
import Millrace.Internal.CoreCalls (c_receive_from, c_send_to)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.Socket
import Millrace.Operation
import Network.Socket (SockAddr (..))

-- | Waits for a message, and returns it with its sender: @SockAddrUnix ""@ for a Unix socket without a name. A message
-- longer than the given number of bytes is truncated. Throws for a size that is not positive. On a stream it returns
-- received bytes and the peer. If the socket was shut down for receiving and no message is left, it returns an empty
-- message.
--
-- An error of the socket, for instance because a sent message found no receiver, is thrown once. A program that has
-- requested a queue of errors (@IP_RECVERR@) must take them out itself, with the socket's descriptor. While the queue
-- has an error, messages are received up to 16 ms late, and the only deadline that ends the wait is that of
-- 'recvFromBefore'.
recvFrom :: Socket -> Int -> IO (ByteString, SockAddr)
recvFrom = recvFromBefore noDeadline

-- | 'recvFrom' with a deadline ('Millrace.Deadline.isDeadlineError').
recvFromBefore :: Deadline -> Socket -> Int -> IO (ByteString, SockAddr)
recvFromBefore !deadline s !size = handOver giveBack $ do
  checkSize function s size
  receiveMessages function s deadline size id theEnd receiveOnce
  where
    function = "Millrace.Socket.Datagram.recvFrom"
    giveBack (bytes, sender) = keepBytesFrom (return (Just sender)) s bytes
    theEnd = (,) ByteString.empty . fromMaybe nameless <$> peerOf s
    receiveOnce = do
      memory <- mallocByteString size
      received <- withForeignPtr memory $ \buffer -> withAddressBuffer $ \address length' -> do
        count <- attemptOnce function s "" $ \descriptor ->
          poke length' (fromIntegral addressLength)
            >> c_receive_from descriptor buffer (fromIntegral size) address length'
        mapM (\known -> (,) (fromIntegral known) <$> (peek length' >>= addressFrom address)) count
      mapM (copyOf memory) received
    copyOf memory (count, sender) = do
      let bytes = ByteString.copy (fromForeignPtr memory 0 count)
      bytes `seq` return (bytes, sender)

-- | Sends a message to an address, and returns its length. Waits while the system cannot take it.
--
-- The system does not report when the full queue of a Unix socket that is not this one's peer can take messages again.
-- So sending is tried at least every 16 ms. The only deadline that ends this is that of 'sendToBefore'.
sendTo :: Socket -> ByteString -> SockAddr -> IO Int
sendTo = sendToBefore noDeadline

-- | 'sendTo' with a deadline.
sendToBefore :: Deadline -> Socket -> ByteString -> SockAddr -> IO Int
sendToBefore deadline s@(Socket handle _) message address =
  unsafeUseAsCStringLen message $ \(bytes, size) -> withAddress function s address $ \memory length' ->
    fmap fromIntegral . attempt function s (" to " ++ show address) deadline (waitWritableRequest handle) $
      \descriptor ->
        c_send_to descriptor bytes (fromIntegral size) (castPtr memory) (fromIntegral length')
  where
    function = "Millrace.Socket.Datagram.sendTo"

-- | Sends a message to an address, as 'sendTo' does, and returns nothing.
sendAllTo :: Socket -> ByteString -> SockAddr -> IO ()
sendAllTo = sendAllToBefore noDeadline

-- | 'sendAllTo' with a deadline.
sendAllToBefore :: Deadline -> Socket -> ByteString -> SockAddr -> IO ()
sendAllToBefore deadline s message address = void (sendToBefore deadline s message address)
