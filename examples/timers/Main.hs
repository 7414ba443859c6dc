-- | A hundred thousand threads that sleep, a timeout, and a timer that is moved.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (replicateM_)
import Millrace.Timer

main :: IO ()
main = do
  woken <- newEmptyMVar
  replicateM_ 100000 (forkIO (threadDelay 1000 >> putMVar woken ()))
  replicateM_ 100000 (takeMVar woken)

  timeout 10000 (threadDelay 60000000) >>= print

  manager <- getSystemTimerManager
  rung <- newEmptyMVar
  bell <- registerTimeout manager 60000000 (putMVar rung "rung")
  updateTimeout manager bell 10000
  takeMVar rung >>= putStrLn
