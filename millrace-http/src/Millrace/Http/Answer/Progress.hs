{-# LANGUAGE MagicHash #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- The progress of the answer to one request, and which thread works on it. An application may answer in any of its
-- threads, may
-- answer again when its first answer has failed, and may return at any time. Must not know: protocols.
module Millrace.Http.Answer.Progress
  ( Progress,
    Reached (..),
    Turn (..),
    newProgress,
    beginHere,
    completeHere,
    answerElsewhere,
    conclude,
    isIncomplete,
  )
where

import Control.Concurrent.MVar (newEmptyMVar, takeMVar, tryPutMVar, tryTakeMVar)
import Control.Exception (finally, mask, mask_, onException, throwIO, uninterruptibleMask_)
import Control.Monad (join, when)
import Data.IORef
import Data.Maybe (isNothing)
import GHC.Exts (casMutVar#)
import GHC.IO (IO (..))
import GHC.IORef (IORef (..))
import GHC.STRef (STRef (..))
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange (Detached (..), Exchange, abort)

-- | The progress of one answer. Only the thread that has set it to a state of answering may use the exchange.
newtype Progress = Progress (IORef Reached)

-- | The state of the answer.
data Reached
  = Unanswered
  | -- | In the thread that the application was called in. Or the answer has failed there, and the application has caught the
    -- exception.
    Answering
  | -- | In another thread.
    AnsweringElsewhere !Detached
  | -- | The answer has failed in another thread.
    FailedElsewhere
  | Answered
  | -- | The application has returned, or has failed.
    Past

-- | Is this the first attempt to answer? The remains of an earlier attempt must be taken back.
data Turn = First | Again
  deriving (Eq)

-- | Nothing is answered yet.
newProgress :: IO Progress
newProgress = Progress <$> newIORef Unanswered
{-# INLINE newProgress #-}

-- | Begins an answer in the thread that the application was called in. Throws 'RespondedTwice' or 'UsedTooLate' if
-- there can be none.
beginHere :: Progress -> IO Turn
beginHere progress = do
  isFirst <- beginFirst progress
  if isFirst then return First else begin progress Answering
{-# INLINE beginHere #-}

-- The usual case. Allocates nothing, unlike atomicModifyIORef'.
beginFirst :: Progress -> IO Bool
beginFirst (Progress (IORef (STRef reached))) = IO $ \s -> case casMutVar# reached Unanswered Answering s of
  (# s', 0#, _ #) -> (# s', True #)
  (# s', _, _ #) -> (# s', False #)

begin :: Progress -> Reached -> IO Turn
begin (Progress reached) next = join . atomicModifyIORef' reached $ \now -> case (now, next) of
  (Unanswered, _) -> (next, return First)
  (FailedElsewhere, _) -> (next, return Again)
  (Answering, Answering) -> (next, return Again)
  (Past, _) -> (now, throwIO UsedTooLate)
  _ -> (now, throwIO RespondedTwice)

-- | The answer that was begun by 'beginHere' is complete.
completeHere :: Progress -> IO ()
completeHere (Progress reached) = writeIORef reached Answered
{-# INLINE completeHere #-}

-- | Answers in another thread than the one that the application was called in. If the application ends first,
-- 'conclude' waits until this thread no longer uses the exchange.
answerElsewhere :: Progress -> (Detached -> Turn -> IO ()) -> IO ()
answerElsewhere progress@(Progress reached) answering = mask $ \restore -> do
  hold <- newEmptyMVar
  let detached = Detached hold (isPast progress)
  turn <- begin progress (AnsweringElsewhere detached)
  ((restore (answering detached turn) >> endElsewhere Answered) `onException` endElsewhere FailedElsewhere)
    `finally` tryPutMVar hold ()
  where
    -- Unless the application has ended.
    endElsewhere next = atomicModifyIORef' reached (\now -> (if hasEnded now then now else next, ()))

isPast :: Progress -> IO Bool
isPast (Progress reached) = hasEnded <$> readIORef reached

hasEnded :: Reached -> Bool
hasEnded reached = case reached of
  Past -> True
  _ -> False

-- | The application has ended. Returns the state of its answer; no thread works on the answer any more. If another
-- thread of the application works on the exchange, the exchange is aborted, which ends that work.
conclude :: Progress -> Exchange -> IO Reached
conclude progress@(Progress reference) exchange = do
  reached <- readIORef reference
  case reached of
    Answered -> Answered <$ writeIORef reference Past
    _ -> concludeUnanswered progress exchange
{-# INLINE conclude #-}

concludeUnanswered :: Progress -> Exchange -> IO Reached
concludeUnanswered (Progress reference) exchange = mask_ (atomicModifyIORef' reference (Past,) >>= evict)
  where
    -- If the thread had to be stopped, it is not known what was sent.
    evict (AnsweringElsewhere (Detached hold _)) = uninterruptibleMask_ $ do
      free <- tryTakeMVar hold
      when (isNothing free) (abort exchange >> takeMVar hold)
      _ <- tryPutMVar hold ()
      return (if isNothing free then Past else FailedElsewhere)
    evict reached = return reached
{-# NOINLINE concludeUnanswered #-}

-- | Was an answer begun and not completed?
isIncomplete :: Reached -> Bool
isIncomplete reached = case reached of
  Answering -> True
  FailedElsewhere -> True
  _ -> False
