-- | Sends back what it receives, to any number of clients. Usage: echo-tcp PORT.
module Main (main) where

import Control.Monad (unless)
import qualified Data.ByteString as ByteString
import Millrace
import System.Environment (getArgs)

main :: IO ()
main = do
  [port] <- getArgs
  withServer defaultServer (passive port) {queryHost = Just "127.0.0.1"} echo

echo :: Socket -> IO ()
echo peer = do
  bytes <- recv peer 4096
  unless (ByteString.null bytes) (sendAll peer bytes >> echo peer)
