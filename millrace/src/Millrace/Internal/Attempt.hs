-- | Calls that the core has no operation for. They are tried without waiting, and again when the socket is ready.
module Millrace.Internal.Attempt (attempt, attemptOnce, pauseAfter) where

import Control.Exception (allowInterrupt, throwIO)
import Control.Monad (unless, when)
import Data.Int (Int64)
import Foreign.C.Error (eAGAIN, eINTR, eTIMEDOUT, eWOULDBLOCK, getErrno)
import Foreign.C.Types (CInt)
import Millrace.Deadline (Deadline, deadlineAfter)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Timer (threadDelay)

-- | @attempt function s detail deadline wait call@ makes a call that does not wait, and makes it again whenever the socket is
-- ready, until the deadline. An exception that comes while it waits is thrown before the next call, so the call takes nothing.
-- Errors name the function, the socket, and then @detail@.
attempt :: String -> Socket -> String -> Deadline -> Request () -> (CInt -> IO Int64) -> IO Int64
attempt function s detail deadline wait call = go 0
  where
    go failures = attemptOnce function s detail call >>= maybe (again failures) return
    again failures = do
      pauseAfter function s detail deadline failures
      perform (before deadline wait) >>= throwIfFailed function (describe s ++ detail)
      allowInterrupt
      go (failures + 1)

-- | Pauses, depending on how many calls in a row failed although the socket was ready. The first two cause no
-- pause: another thread was probably faster. Further failures mean that readiness says nothing: poll(2) reports a Unix
-- datagram socket without a peer as ready to send even when the receiver's queue is full. Throws when the deadline has
-- passed meanwhile.
pauseAfter :: String -> Socket -> String -> Deadline -> Int -> IO ()
pauseAfter function s detail deadline failures = unless (failures < 2) $ do
  threadDelay (min longestPauseMicros (500 * 2 ^ min 10 (failures - 1)))
  now <- deadlineAfter 0
  when (deadline <= now) $ throwIO (failure function (describe s ++ detail) eTIMEDOUT)

longestPauseMicros :: Int
longestPauseMicros = 16000

-- | Makes a call that does not wait. 'Nothing' if it would have to.
attemptOnce :: String -> Socket -> String -> (CInt -> IO Int64) -> IO (Maybe Int64)
attemptOnce function s detail call = do
  (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
  if result >= 0 then return (Just result) else failed code
  where
    failed code
      | code == eINTR = attemptOnce function s detail call
      | code == eAGAIN || code == eWOULDBLOCK = return Nothing
      | otherwise = throwIO (failure function (describe s ++ detail) code)
