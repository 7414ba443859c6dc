-- | A thousand calls of C's sleep at the same time, on a few OS threads.
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (replicateM, replicateM_)
import Foreign.C.Types (CUInt (..))
import Foreign.Ptr (FunPtr)
import Millrace.Foreign (fiberCall)
import System.Timeout (timeout)

foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)

main :: IO ()
main = do
  done <- newEmptyMVar
  replicateM_ 1000 (forkIO (fiberCall c_sleep 1 >>= putMVar done))
  slept <- replicateM 1000 (takeMVar done)
  print (sum slept)
  timeout 100000 (fiberCall c_sleep 60) >>= print
