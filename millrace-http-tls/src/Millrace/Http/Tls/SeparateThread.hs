-- Must not know: requests, responses.

-- | Actions that leave the stack of the calling thread as small as it was.
--
-- Not covered by the version policy.
module Millrace.Http.Tls.SeparateThread (inSeparateThread) where

import Control.Concurrent (ThreadId, forkIO, throwTo)
import Control.Concurrent.MVar
import Control.Exception (SomeException, mask, throwIO, try)

-- | Runs an action in a new thread and waits for it. Throws the exception of the action. An asynchronous exception that
-- this thread receives meanwhile is passed on to the action, and is thrown here when the action has ended.
inSeparateThread :: IO a -> IO a
inSeparateThread action = mask $ \restore -> do
  result <- newEmptyMVar
  thread <- forkIO (try (restore action) >>= putMVar result)
  outcome <- try (takeMVar result)
  case outcome of
    Right ended -> either rethrow return ended
    Left interruption -> endFor thread result interruption >> throwIO interruption
  where
    rethrow :: SomeException -> IO a
    rethrow = throwIO

-- Returns when the thread has ended. Other threads may interrupt the wait; each interruption is passed on to the
-- thread.
endFor :: ThreadId -> MVar (Either SomeException a) -> SomeException -> IO ()
endFor thread result interruption =
  try (throwTo thread interruption >> takeMVar result) >>= either (endFor thread result) (const (return ()))
