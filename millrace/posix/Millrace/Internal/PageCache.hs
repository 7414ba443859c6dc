-- Must not know: sockets.

-- | Brings parts of files into the system's memory: helper threads read them, so that no capability waits for the disk.
module Millrace.Internal.PageCache (bringIn, bringIntoMemory) where

import Control.Monad (void, when)
import Data.Int (Int64)
import Foreign.Ptr (FunPtr)
import Millrace.Internal.Constants (stateNotInCache)
import Millrace.Internal.CoreCalls (c_file_cache_state, isSimulatedHere)
import Millrace.Internal.HelperJob
import System.Posix.Types (Fd (..))

foreign import ccall "&mrh_do_load_into_cache" c_do_bring_in :: FunPtr Work

-- | @bringIn file offset count@ has a helper read these bytes, at most a mebibyte of them. Errors are left to the call
-- that reads next. If it is interrupted, it waits for the helper, because the descriptor belongs to the caller.
bringIn :: Fd -> Int64 -> Int64 -> IO ()
bringIn (Fd number) offset count =
  void
    (runJob (job c_do_bring_in [fromIntegral number, offset, min mebibyte count] []) {jobLifetime = EndsBeforeCaller})

-- | @bringIntoMemory file offset count@ waits until the system has these bytes of a regular file in memory, at most a
-- mebibyte of them, so that a call that reads them does not wait for the disk. If they are there, that is one system
-- call for up to 64 KiB, and two or three for more. It does nothing where the system cannot tell, for instance on
-- overlayfs. Errors are left to the call that reads. The descriptor must stay open.
bringIntoMemory :: Fd -> Int64 -> Int64 -> IO ()
bringIntoMemory file@(Fd number) offset count = do
  isSimulated <- isSimulatedHere
  when (not isSimulated && count > 0) $ do
    state <- c_file_cache_state number (fromIntegral offset) (fromIntegral (min mebibyte count))
    when (state == stateNotInCache) $ bringIn file offset count

mebibyte :: Int64
mebibyte = 1048576
