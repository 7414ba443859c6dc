-- | Serves the protocol of "Lines" to as many clients as come. Usage: line-server PORT.
module Main (main) where

import Control.Concurrent (forkFinally)
import Control.Monad (forever, void)
import Lines (serve)
import Millrace.Socket
import System.Environment (getArgs)

main :: IO ()
main = do
  [port] <- getArgs
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  forever $ do
    (client, _) <- accept listener
    void (forkFinally (serve client) (\_ -> close client))
