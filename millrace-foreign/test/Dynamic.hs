-- | A program linked to the shared libraries of its packages, which is what GHCi and Template Haskell load: the
-- package's must hold all of its C and assembly, and its calls must come before libc's.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (replicateM)
import Data.Maybe (isNothing)
import Foreign.C.Types (CUInt (..))
import Foreign.Ptr (FunPtr)
import Millrace.Foreign
import System.Exit (exitFailure)
import System.Timeout (timeout)

foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)

main :: IO ()
main = do
  startCarriers 1
  done <- replicateM 100 $ do
    one <- newEmptyMVar
    one <$ forkIO (fiberCall c_sleep 1 >>= putMVar one)
  slept <- timeout 30000000 (mapM takeMVar done) -- one after the other: 100 s
  interrupted <- timeout 10000 (fiberCall c_sleep 60)
  print (slept, interrupted)
  if slept == Just (replicate 100 0) && isNothing interrupted then putStrLn "2 passed, 0 failed" else exitFailure
