-- | "Network.Socket.ByteString" with Millrace's sockets.
module Network.Socket.ByteString
  ( send,
    sendAll,
    sendTo,
    sendAllTo,
    sendMany,
    sendManyTo,
    recv,
    recvFrom,
    sendMsg,
    recvMsg,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Millrace.Compat.SocketMessages (recvMsg, sendMsg)
import Millrace.Socket (SockAddr, Socket)
import Millrace.Socket.ByteString (recv, send, sendAll, sendMany)
import Millrace.Socket.Datagram (recvFrom, sendAllTo, sendTo)

-- | Sends the pieces as one message.
sendManyTo :: Socket -> [ByteString] -> SockAddr -> IO ()
sendManyTo s pieces = sendAllTo s (B.concat pieces)
