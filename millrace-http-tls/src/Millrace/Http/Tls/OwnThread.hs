-- | Actions that leave the stack of the calling thread as small as it was. Must not know: requests, responses.
--
-- Not covered by the version policy.
module Millrace.Http.Tls.OwnThread (inThreadOfItsOwn) where

import Control.Concurrent (ThreadId, forkIO, throwTo)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask, throwIO, try)

-- | Runs an action in a new thread and waits for it. What the action throws is thrown here. An asynchronous exception
-- that this thread receives meanwhile is passed on to the action, and is thrown here when the action has ended.
inThreadOfItsOwn :: IO a -> IO a
inThreadOfItsOwn action = mask $ \restore -> do
  place <- newEmptyMVar
  thread <- forkIO (try (restore action) >>= putMVar place)
  outcome <- try (takeMVar place)
  case outcome of
    Right ended -> either rethrow return ended
    Left interruption -> endFor thread place interruption >> throwIO interruption
  where
    rethrow :: SomeException -> IO a
    rethrow = throwIO

-- Returns when the thread has ended. Others may interrupt the waiting; the thread learns of that, too.
endFor :: ThreadId -> MVar (Either SomeException a) -> SomeException -> IO ()
endFor thread place interruption =
  try (throwTo thread interruption >> takeMVar place) >>= either (endFor thread place) (const (return ()))
