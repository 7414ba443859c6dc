-- |
-- Runs the code of an application that streams a body, or that has taken a stream over. The application may hand the
-- writing actions to
-- other threads and may keep them for too long; this module sees to it that writes are whole and that late ones fail.
-- Must not know:
-- protocols.
module Millrace.Http.Answer.Streaming (Sink (..), runStreamingBody, runRawBody) where

import Control.Concurrent.MVar (newMVar, putMVar, takeMVar, withMVar)
import Control.Exception (SomeException, catch, finally, throwIO, uninterruptibleMask_)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder)
import Data.IORef
import Millrace.Http.Exception (InvalidResponse (..), isAsynchronous)
import Millrace.Http.Exchange (Answerer (..), Detached (..), RawBody)
import Network.Wai (StreamingBody)

-- | Where a stream goes.
data Sink = Sink
  { sinkWrite :: Builder -> IO (),
    sinkFlush :: IO (),
    -- | Called when an asynchronous exception has interrupted one of the other two, and the sink must find out whether
    -- part of the body is missing.
    sinkInterrupted :: IO ()
  }

-- | Runs a streaming body: see 'guarding'.
runStreamingBody :: Answerer -> Sink -> StreamingBody -> IO ()
runStreamingBody answerer sink body = guarding answerer (sinkInterrupted sink) $ \guarded ->
  body (guarded . sinkWrite sink) (guarded (sinkFlush sink))

-- | @runRawBody answerer receive send body@ runs a raw body: see 'guarding'. Any thread may receive at any time.
runRawBody :: Answerer -> IO ByteString -> (ByteString -> IO ()) -> RawBody -> IO ()
runRawBody answerer receive send body = guarding answerer (return ()) (\guarded -> body receive (guarded . send))

-- Runs the application's code with a function for the actions that write. @interrupted@ is called when an asynchronous
-- exception has interrupted such an action. Returns when the application's code has returned, and then no such action
-- has an effect any more. Throws 'UsedTooLate' if the application returned before another of its threads finished the
-- stream.
guarding :: Answerer -> IO () -> ((IO () -> IO ()) -> IO ()) -> IO ()
guarding answerer interrupted run = do
  isOver <- newIORef False
  lock <- case answerer of
    OwnThread -> newMVar ()
    OtherThread detached -> detachedHold detached <$ putMVar (detachedHold detached) ()
  let guarded action = withMVar lock $ \_ -> do
        late <- (||) <$> readIORef isOver <*> isPast
        when late (throwIO UsedTooLate)
        action `catch` \failure -> do
          when (isAsynchronous failure) interrupted
          throwIO (failure :: SomeException)
      -- The hold of another thread stays empty: that thread works on the exchange again.
      close = uninterruptibleMask_ $ do
        takeMVar lock
        writeIORef isOver True
        case answerer of
          OwnThread -> putMVar lock ()
          OtherThread _ -> return ()
  run guarded `finally` close
  past <- isPast
  when past (throwIO UsedTooLate)
  where
    isPast = case answerer of
      OwnThread -> return False
      OtherThread detached -> detachedIsPast detached
