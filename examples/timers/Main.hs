-- | A hundred thousand threads that sleep, a timeout, and a timer that is moved.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (replicateM_)
import Millrace.Duration
import Millrace.Timer

main :: IO ()
main = do
  woken <- newEmptyMVar
  replicateM_ 100000 (forkIO (sleep (milliseconds 1) >> putMVar woken ()))
  replicateM_ 100000 (takeMVar woken)

  timeoutAfter (milliseconds 10) (sleep (minutes 1)) >>= print

  manager <- getSystemTimerManager
  fired <- newEmptyMVar
  timer <- registerTimeout manager 60000000 (putMVar fired "fired")
  updateTimeout manager timer 10000
  takeMVar fired >>= putStrLn
