-- | Calls that the core has no operation for: tried without waiting, and again when the socket is ready.
module Millrace.Internal.Attempt (attempt, attemptOnce, rest) where

import Control.Exception (allowInterrupt, throwIO)
import Control.Monad (unless, void, when)
import Data.Int (Int64)
import Foreign.C.Error (Errno (..), eAGAIN, eINTR, eTIMEDOUT, eWOULDBLOCK, errnoToIOError, getErrno)
import Foreign.C.Types (CInt)
import Millrace.Deadline (Deadline, deadlineAfter)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Timer (threadDelay)

-- | Makes a call that does not wait, and makes it again whenever it would have to, until a deadline. An exception that has
-- come while it waited is thrown before the next call: what there is stays there. What errors say of the socket besides is
-- the third argument.
attempt :: String -> Socket -> String -> Deadline -> Request () -> (CInt -> IO Int64) -> IO Int64
attempt function s detail deadline wait call = go 0
  where
    go failures = attemptOnce function s detail call >>= maybe (again failures) return
    again failures = do
      rest function s detail deadline failures
      perform (before deadline wait) >>= void . throwIfFailed function (describe s ++ detail)
      allowInterrupt
      go (failures + 1)

-- | Once a call fails that was made because the socket was ready, somebody else was faster. When it goes on failing, readiness
-- does not mean what it should: poll(2) says of a Unix datagram socket without a peer that it can send, whatever the queue
-- of the receiver. Throws when the deadline has passed meanwhile.
rest :: String -> Socket -> String -> Deadline -> Int -> IO ()
rest function s detail deadline failures = unless (failures < 2) $ do
  threadDelay (min longestRestMicros (500 * 2 ^ min 10 (failures - 1)))
  now <- deadlineAfter 0
  when (deadline <= now) $ throwIO (failure function (describe s ++ detail) timedOut)
  where
    timedOut = let Errno code = eTIMEDOUT in negate (fromIntegral code)

longestRestMicros :: Int
longestRestMicros = 16000

-- | Makes a call that does not wait; 'Nothing' if it would have to.
attemptOnce :: String -> Socket -> String -> (CInt -> IO Int64) -> IO (Maybe Int64)
attemptOnce function s detail call = do
  (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
  if result >= 0 then return (Just result) else wouldWait code
  where
    wouldWait code
      | code == eINTR = attemptOnce function s detail call
      | code == eAGAIN || code == eWOULDBLOCK = return Nothing
      | otherwise = throwIO (errnoToIOError function code Nothing (Just (describe s ++ detail)))
