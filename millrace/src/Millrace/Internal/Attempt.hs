-- | Calls that the core has no operation for: tried without waiting, and again when the socket is ready.
module Millrace.Internal.Attempt (attempt) where

import Control.Exception (throwIO)
import Control.Monad (void)
import Data.Int (Int64)
import Foreign.C.Error (eAGAIN, eINTR, eWOULDBLOCK, errnoToIOError, getErrno)
import Foreign.C.Types (CInt)

import Millrace.Internal.Socket
import Millrace.Operation

-- | Makes a call that does not wait, and makes it again whenever it would have to.
attempt :: String -> Socket -> Request () -> (CInt -> IO Int64) -> IO Int64
attempt function s wait call = do
  (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
  if result >= 0 then return result else again code
  where
    again code
      | code == eINTR = attempt function s wait call
      | code == eAGAIN || code == eWOULDBLOCK = do
          void (perform wait >>= throwIfFailed function (describe s))
          attempt function s wait call
      | otherwise = throwIO (errnoToIOError function code Nothing (Just (describe s)))
