-- | Forwards every connection to a port of this machine to another host and port.
module Main (main) where

import Control.Concurrent.Async (concurrently_)
import Control.Exception (bracket, finally)
import Control.Monad (void)
import Millrace
import Millrace.Stream
import System.Environment (getArgs)

main :: IO ()
main = do
  [port, toHost, toPort] <- getArgs
  let listenOn = (passive port) {queryHost = Just "127.0.0.1"}
  withServer defaultServer listenOn $ \here ->
    bracket (connectTo (host toHost toPort)) close $ \there -> exchange here there

-- Forwards in both directions, until both have ended.
exchange :: Socket -> Socket -> IO ()
exchange here there = concurrently_ (oneWay here there) (oneWay there here)
  where
    oneWay from to = void (copy (fromSocket from) (toSocket to)) `finally` shutdown to ShutdownSend
