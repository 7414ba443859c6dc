-- | A program linked without @-threaded@: calls must fail with an explanation.
module Main (main) where

import Control.Exception (try)
import Control.Monad (void)
import Foreign.C.Types (CUInt (..))
import Foreign.Ptr (FunPtr)
import Millrace.Foreign
import Millrace.Manager (MillraceException (NotThreaded))
import System.Exit (exitFailure)

foreign import ccall "&sleep" c_sleep :: FunPtr (CUInt -> IO CUInt)

main :: IO ()
main = do
  outcomes <- mapM try [void (fiberCall c_sleep 0), startCarriers 1]
  print outcomes
  if outcomes == [Left NotThreaded, Left NotThreaded] then putStrLn "2 passed, 0 failed" else exitFailure
