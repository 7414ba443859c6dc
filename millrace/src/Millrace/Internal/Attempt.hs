-- | Calls that the core has no operation for: tried without waiting, and again when the socket is ready.
module Millrace.Internal.Attempt (attempt, attemptOnce) where

import Control.Exception (allowInterrupt, throwIO)
import Control.Monad (void)
import Data.Int (Int64)
import Foreign.C.Error (eAGAIN, eINTR, eWOULDBLOCK, errnoToIOError, getErrno)
import Foreign.C.Types (CInt)

import Millrace.Internal.Socket
import Millrace.Operation

-- | Makes a call that does not wait, and makes it again whenever it would have to. An exception that has come while it waited
-- is thrown before the next call: what there is stays there.
attempt :: String -> Socket -> Request () -> (CInt -> IO Int64) -> IO Int64
attempt function s wait call = attemptOnce function s call >>= maybe again return
  where
    again = do
      void (perform wait >>= throwIfFailed function (describe s))
      allowInterrupt
      attempt function s wait call

-- | Makes a call that does not wait; 'Nothing' if it would have to.
attemptOnce :: String -> Socket -> (CInt -> IO Int64) -> IO (Maybe Int64)
attemptOnce function s call = do
  (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
  if result >= 0 then return (Just result) else wouldWait code
  where
    wouldWait code
      | code == eINTR = attemptOnce function s call
      | code == eAGAIN || code == eWOULDBLOCK = return Nothing
      | otherwise = throwIO (errnoToIOError function code Nothing (Just (describe s)))
