-- | Sends back what it receives, to any number of clients. Usage: echo-tcp PORT.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (finally)
import Control.Monad (forever, unless, void)
import qualified Data.ByteString as ByteString
import Millrace.Socket
import Millrace.Socket.ByteString (recv, sendAll)
import System.Environment (getArgs)

main :: IO ()
main = do
  [port] <- getArgs
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  forever $ do
    (peer, _) <- accept listener
    void (forkIO (echo peer `finally` close peer))

echo :: Socket -> IO ()
echo peer = do
  bytes <- recv peer 4096
  unless (ByteString.null bytes) (sendAll peer bytes >> echo peer)
