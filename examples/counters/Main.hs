-- | Prints the counters of the event loops after a thousand threads have slept.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (replicateM_)
import Millrace.Duration (milliseconds)
import Millrace.Manager
import Millrace.Timer (sleep)

main :: IO ()
main = do
  woken <- newEmptyMVar
  replicateM_ 1000 (forkIO (sleep (milliseconds 1) >> putMVar woken ()))
  replicateM_ 1000 (takeMVar woken)
  backend <- chosenBackend
  putStrLn ("backend: " <> backendName backend)
  done <- counters
  putStrLn ("operations: " <> show (operations done) <> ", in flight: " <> show (inFlight done))
