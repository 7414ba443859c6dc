-- | Sends one line to a server on this machine over TLS, and prints what comes back. Usage: ask-tls PORT ANCHORS LINE,
-- where the anchors are the certificates of authorities to trust, a file in PEM.
module Main (main) where

import Control.Exception (bracket)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Socket hiding (close)
import qualified Millrace.Socket as Socket
import Millrace.Tls
import System.Environment (getArgs)

main :: IO ()
main = do
  [port, anchors, line] <- getArgs
  context <- newClientContext clientSettings {clientVerification = Verify (trustIn (PemFile anchors))}
  bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \raw -> do
    connect raw (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))
    bracket (clientHandshake context "localhost" raw) close $ \connection -> do
      print (negotiatedVersion (negotiated connection))
      sendAll connection (Char8.pack line)
      endSending connection
      printAll connection

-- | Receives until the server has ended the stream. Throws if the connection breaks before that.
printAll :: Connection -> IO ()
printAll connection = do
  bytes <- recv connection 4096
  if Char8.null bytes then putStrLn "" else Char8.putStr bytes >> printAll connection
