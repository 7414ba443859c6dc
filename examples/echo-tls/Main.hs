-- | Sends back what it receives over TLS. Usage: echo-tls PORT CHAIN KEY, where the last two are files in PEM.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (bracket, displayException, finally, handle)
import Control.Monad (forever, unless, void)
import qualified Data.ByteString as ByteString
import Millrace.Deadline (deadlineAfter, seconds)
import Millrace.Socket hiding (close)
import qualified Millrace.Socket as Socket
import Millrace.Tls
import System.Environment (getArgs)

main :: IO ()
main = do
  [port, chain, key] <- getArgs
  identity <- loadIdentity (PemFile chain) (PemFile key)
  context <- newServerContext (serverSettings identity)
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  forever $ do
    (peer, _) <- accept listener
    void (forkIO (handle report (serve context peer) `finally` Socket.close peer))

serve :: ServerContext -> Socket -> IO ()
serve context peer = do
  -- A client may never say anything: ten seconds for the handshake.
  deadline <- deadlineAfter (seconds 10)
  bracket (serverHandshakeBefore deadline context peer) close echo

echo :: Connection -> IO ()
echo connection = do
  bytes <- recv connection 4096
  unless (ByteString.null bytes) (sendAll connection bytes >> echo connection)

report :: TlsException -> IO ()
report problem = putStrLn (displayException problem)
