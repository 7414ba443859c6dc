-- | "Network.Socket.ByteString" with Millrace's sockets. Not there are @recvMsg@ and @sendMsg@.
module Network.Socket.ByteString
  ( send,
    sendAll,
    sendTo,
    sendAllTo,
    sendMany,
    sendManyTo,
    recv,
    recvFrom,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Millrace.Socket (SockAddr, Socket)
import Millrace.Socket.ByteString (recv, send, sendAll, sendMany)
import Millrace.Socket.Datagram (recvFrom, sendAllTo, sendTo)

-- | Sends the pieces as one message.
sendManyTo :: Socket -> [ByteString] -> SockAddr -> IO ()
sendManyTo s pieces = sendAllTo s (B.concat pieces)
