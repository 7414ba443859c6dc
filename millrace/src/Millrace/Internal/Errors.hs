-- | Turns the errors of system calls into 'IOError's.
module Millrace.Internal.Errors (throwIfFailed, failure, throwIfMinusOne) where

import Control.Exception (throwIO)
import Control.Monad (when)
import Foreign.C.Error (Errno, getErrno)
import Millrace.Internal.SystemError (systemError)

-- | @throwIfFailed attempted object@ passes a result on, or throws the error as 'failure' describes it.
throwIfFailed :: String -> String -> Either Errno r -> IO r
throwIfFailed attempted object = either (throwIO . failure attempted object) return
{-# INLINE throwIfFailed #-}

-- | @failure attempted object code@ is the 'IOError' of an error code. It names the function that was attempted, and
-- the object that it was attempted on.
failure :: String -> String -> Errno -> IOError
failure attempted object code = systemError attempted code (Just object)
{-# NOINLINE failure #-}

-- | @throwIfMinusOne attempted object call@ makes a call that returns -1 if it fails, and then throws the error of
-- @errno@.
throwIfMinusOne :: (Eq a, Num a) => String -> String -> IO a -> IO a
throwIfMinusOne attempted object call = do
  result <- call
  when (result == -1) $ getErrno >>= throwIO . failure attempted object
  return result
