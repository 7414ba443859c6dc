-- | Answers whatever it receives with 500 bytes, on GHC's own I/O manager and the network package. Usage: tcp500 PORT.
-- It has the loop of the libuv paper: 'recvBuf', 'sendAll', 'yield', with a green thread per connection.
module Main (main) where

import Control.Concurrent (forkIO, yield)
import Control.Exception (SomeException, handle, mask_)
import Control.Monad (forever, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Word (Word8)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Ptr (Ptr)
import Network.Socket
import Network.Socket.ByteString (sendAll)
import System.Environment (getArgs)

answer :: ByteString
answer = Char8.append headPart (Char8.replicate (500 - Char8.length headPart) 'x')
  where
    headPart = Char8.pack "HTTP/1.1 200 OK\r\nContent-Length: 460\r\n\r\n"

-- The loop is a tail call: GHC visits all frames of a stack each time its thread blocks, so there must not be a frame
-- per request. State is passed in arguments, because a closure per connection would have left the cache.
serve :: Socket -> Ptr Word8 -> Int -> IO ()
serve connection buffer size = do
  received <- recvBuf connection buffer size
  when (received > 0) $ do
    sendAll connection answer
    yield
    serve connection buffer size

main :: IO ()
main = do
  [port] <- getArgs
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet (fromInteger (read port)) (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 4096
  forever . mask_ $ do
    (connection, _) <- accept listener
    setSocketOption connection NoDelay 1
    void . forkIO $ do
      buffer <- mallocBytes bufferSize
      handle ignore (serve connection buffer bufferSize)
      free buffer
      close connection
  where
    bufferSize = 2048
    -- A client may reset its connection. That is not reported.
    ignore :: SomeException -> IO ()
    ignore _ = pure ()
