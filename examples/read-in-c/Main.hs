-- | Calls C's read on a pipe that stays empty, with a deadline.
module Main (main) where

import Foreign.C.Error (eTIMEDOUT, getErrno)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (FunPtr, Ptr)
import Millrace.Deadline (deadlineAfter, milliseconds)
import Millrace.Foreign (CallOptions (..), defaultCall, fiberCallWith)
import System.Posix.IO (createPipe)
import System.Posix.Types (CSsize (..), Fd (..))

foreign import ccall "&read" c_read :: FunPtr (CInt -> Ptr () -> CSize -> IO CSsize)

main :: IO ()
main = do
  (Fd readEnd, _writeEnd) <- createPipe
  deadline <- deadlineAfter (milliseconds 100)
  allocaBytes 100 $ \buffer -> do
    count <- fiberCallWith defaultCall {callDeadline = deadline} c_read readEnd buffer 100
    errno <- getErrno
    print (count, errno == eTIMEDOUT)
