-- | Forwards every connection to a port of this machine to another host and port.
module Main (main) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
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
exchange here there = do
  done <- newEmptyMVar
  bracket (forkIO (oneWay here there `finally` putMVar done ())) killThread $ \_ -> do
    oneWay there here
    takeMVar done
  where
    oneWay from to = void (copy (fromSocket from) (toSocket to)) `finally` shutdown to ShutdownSend
