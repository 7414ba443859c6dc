-- | Calls for which the core has no operation. They are tried without waiting, and again when the socket is ready.
module Millrace.Internal.Attempt (attempt, attemptOnce, receiveMessages, nameless) where

import Control.Exception (allowInterrupt, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.C.Error (eAGAIN, eINTR, eTIMEDOUT, eWOULDBLOCK, getErrno)
import Foreign.C.Types (CInt)
import Millrace.Deadline (Deadline, hasPassed)
import Millrace.Internal.CoreCalls (c_ended, c_has_error)
import Millrace.Internal.Socket
import Millrace.Operation
import Millrace.Timer (threadDelay)
import Network.Socket (SockAddr (..))

-- | @attempt function s detail deadline wait call@ makes a call that does not wait, and makes it again whenever the
-- socket is ready, until the deadline. An exception that comes while it waits is thrown before the next call, so the
-- call takes nothing. Errors name the function, the socket, and then @detail@.
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
  isLate <- hasPassed deadline
  when isLate $ throwIO (failure function (describe s ++ detail) eTIMEDOUT)

longestPauseMicros :: Int
longestPauseMicros = 16000

-- | Makes a call that does not wait. Returns 'Nothing' if it would have to.
attemptOnce :: String -> Socket -> String -> (CInt -> IO Int64) -> IO (Maybe Int64)
attemptOnce function s detail call = do
  (result, code) <- callWhileOpen function s $ \descriptor -> (,) <$> call descriptor <*> getErrno
  if result >= 0 then return (Just result) else failed code
  where
    failed code
      | code == eINTR = attemptOnce function s detail call
      | code == eAGAIN || code == eWOULDBLOCK = return Nothing
      | otherwise = throwIO (failure function (describe s ++ detail) code)

-- | @receiveMessages function s deadline size keptMessage end call@ receives messages. If an interrupted receive has
-- left a message, it returns @keptMessage@ of that. Otherwise it makes a call that does not wait, and makes it again
-- whenever the socket is ready, until the deadline. Returns @end@ if the socket was shut down for receiving and no
-- message is left. Run it in @handOver@.
receiveMessages :: String -> Socket -> Deadline -> Int -> ((ByteString, SockAddr) -> a) -> IO a -> IO (Maybe a) -> IO a
receiveMessages function s@(Socket handle _) deadline size keptMessage end call =
  takeKept s message Nothing >>= maybe (go 0) useKept
  where
    message = firstMessage size
    useKept = either (throwIO . failure function (describe s)) (fmap keptMessage . withSender)
    withSender (bytes, sender) = (,) bytes . fromMaybe nameless <$> maybe (peerOf s) (return . Just) sender
    go failures = do
      -- On a socket that was shut down for receiving, a call that does not wait fails with EAGAIN, as if it would have
      -- to.
      isOver <- if failures < 2 then return False else holds c_ended
      call >>= maybe (if isOver then end else waitAfter failures) return
    -- An error in the socket's error queue makes it readable until the program takes the error out. Millrace cannot do
    -- that.
    waitAfter failures = do
      isInVain <- if failures < 2 then return False else holds c_has_error
      when isInVain $ pauseAfter function s "" deadline failures
      keptOr s message useKept (\_ -> return ()) (before deadline (waitReadableRequest handle)) $ \result ->
        throwIfFailed function (describe s) result >> go (failures + 1)
    holds ask = (/= 0) <$> onDescriptor function s "" ask
{-# INLINE receiveMessages #-}

-- | The sender of a message from a Unix socket without a name.
nameless :: SockAddr
nameless = SockAddrUnix ""
