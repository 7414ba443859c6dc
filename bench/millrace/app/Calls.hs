{-# LANGUAGE CPP #-}

-- | Calls blocking C functions from many threads. One source serves both sides: with MILLRACE defined the calls are
-- 'fiberCall', without it they are @safe@ foreign calls. The functions and the measurement are in @call.c@, which
-- prints the seconds that the calls took and the bytes of memory in use before them.
--
-- > calls sleep CALLERS CALLS      each of CALLERS threads makes CALLS calls that sleep for 1 ms in C
-- > calls hold CALLERS CALLS       the same with half a second, so that all calls are in flight at once
-- > calls ask CALLERS CALLS        the same with a question over a socket and a blocking read of the answer
-- > calls empty CALLERS CALLS      the same with a function that does nothing
module Main (main) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, replicateM_)
import Foreign.C.Types (CInt (..))
import System.Environment (getArgs)
#ifdef MILLRACE
import Foreign.Ptr (FunPtr)
import Millrace.Foreign (fiberCall)

foreign import ccall "&call_sleep" sleepPointer :: FunPtr (CInt -> IO CInt)
foreign import ccall "&call_ask" askPointer :: FunPtr (CInt -> IO CInt)
foreign import ccall "&call_nothing" nothingPointer :: FunPtr (CInt -> IO CInt)

callSleep, callAsk, callNothing :: CInt -> IO CInt
callSleep = fiberCall sleepPointer
callAsk = fiberCall askPointer
callNothing = fiberCall nothingPointer
#else

foreign import ccall safe "call_sleep" callSleep :: CInt -> IO CInt
foreign import ccall safe "call_ask" callAsk :: CInt -> IO CInt
foreign import ccall safe "call_nothing" callNothing :: CInt -> IO CInt
#endif

foreign import ccall unsafe "call_open" callOpen :: IO CInt

foreign import ccall unsafe "call_measure_begin" measureBegin :: IO ()

foreign import ccall unsafe "call_measure_end" measureEnd :: IO ()

-- | One thread per argument. Each makes the given number of calls with its argument.
callers :: Int -> (CInt -> IO CInt) -> [CInt] -> IO ()
callers times call arguments = do
  measureBegin
  ends <- forM arguments $ \argument -> do
    end <- newEmptyMVar
    _ <- forkIO (replicateM_ times (call argument) >> putMVar end ())
    pure end
  mapM_ takeMVar ends
  measureEnd

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    ["sleep", n, times] -> callers (read times) callSleep (replicate (read n) 1)
    ["hold", n, times] -> callers (read times) callSleep (replicate (read n) 500)
    ["ask", n, times] -> mapM (const callOpen) [1 .. read n :: Int] >>= callers (read times) callAsk
    ["empty", n, times] -> callers (read times) callNothing (replicate (read n) 0)
    _ -> error "usage: calls sleep|hold|ask|empty CALLERS CALLS"
