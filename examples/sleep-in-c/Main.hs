-- | A thousand calls of C's sleep at the same time, on a few OS threads.
module Main (main) where

import Control.Concurrent.Async (replicateConcurrently)
import Foreign.C.Types (CUInt (..))
import Foreign.Ptr (FunPtr)
import Millrace.Foreign (fiberCall)
import System.Timeout (timeout)

foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)

main :: IO ()
main = do
  slept <- replicateConcurrently 1000 (fiberCall c_sleep 1)
  print (sum slept)
  timeout 100000 (fiberCall c_sleep 60) >>= print
