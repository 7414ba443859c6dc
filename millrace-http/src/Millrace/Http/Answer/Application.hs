{-# LANGUAGE MagicHash #-}
{-# LANGUAGE ScopedTypeVariables #-}
{-# LANGUAGE TupleSections #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols.

-- |
-- Runs an application for one request and makes sure that the client gets an answer: the application's, or one that
-- says what
-- failed. Tells the observers.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Answer.Application
  ( Service,
    newService,
    answerByApplication,
    withinTotalTime,
    Refusal (..),
    answerRefused,

    -- * For tests
    serveExchange,
    refuseExchange,
  )
where

import Control.Concurrent (ThreadId, myThreadId)
import Control.Concurrent.MVar (newEmptyMVar, takeMVar, tryPutMVar, tryTakeMVar)
import Control.Exception
  ( Exception (..),
    SomeException,
    bracket,
    catch,
    finally,
    mask,
    mask_,
    onException,
    throwIO,
    toException,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (join, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.IORef
import Data.Maybe (fromMaybe, isNothing)
import GHC.Exts (casMutVar#)
import GHC.IO (IO (..))
import GHC.IORef (IORef (..))
import GHC.STRef (STRef (..))
import Millrace.Deadline (microseconds, monotonicNanoseconds, nanoseconds, noDeadline)
import Millrace.Http.Answer.Observer (Answer (..), RefusalReason (..))
import Millrace.Http.Answer.Plan (withPlan)
import Millrace.Http.Answer.TakenOver (TakenOver, newTakenOver, sentOn, watched)
import Millrace.Http.Context (Context (..), contextVault)
import Millrace.Http.Exception
import Millrace.Http.Exchange
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.RequestLimits (interruptedAfter)
import Millrace.Http.Server.Context (ServerContext (..), newServerContext, reportTo)
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Settings (..))
import Network.HTTP.Types (Method, Status, switchingProtocols101)
import Network.Wai (Application, Request, defaultRequest, requestMethod, vault)
import Network.Wai.Internal (Response (..), ResponseReceived (..))

-- | The means to serve a request: the server, the exchange, and the record for the observers if there are any. Serves
-- many requests if the exchange does.
data Service = Service !ServerContext !Exchange !(Maybe AnswerRecord)

-- | A service of this server on an exchange.
newService :: ServerContext -> Exchange -> Service
newService server exchange = Service server exchange Nothing

-- | Runs the application for a request. Returns when the request is answered, as well as that was possible. Throws only
-- asynchronous exceptions, and those that sending the server's own answer throws.
answerByApplication :: Service -> Application -> Request -> IO ()
answerByApplication service@(Service server exchange _) application request = case serverObservers server of
  [] -> runApplication service application request
  observers -> observed server exchange observers (Subject (Just request) Nothing B.empty) $ \record ->
    runApplication (Service server exchange (Just record)) application request

-- | Only if the settings ask for it is an application interrupted.
withinTotalTime :: Limits -> Application -> Application
withinTotalTime limits application
  | totalMicros limits == 0 = application
  | otherwise = interruptedAfter (microseconds (totalMicros limits)) application

-- | A request that is refused without running the application.
data Refusal = Refusal
  { refusalReason :: !InvalidRequest,
    -- | The method, if it is known.
    refusalMethod :: !Method,
    -- | For observers: the request if its head is complete and valid, and the part of its first line that has arrived.
    refusalAsked :: IO (Maybe Request, ByteString)
  }

-- | Answers a request that is refused.
answerRefused :: Service -> Refusal -> IO ()
answerRefused (Service server exchange _) (Refusal reason method asked) = case serverObservers server of
  [] -> refuse Nothing
  observers -> do
    (request, line) <- asked
    observed server exchange observers (Subject request (Just (RefusedAtOnce reason)) line) (refuse . Just)
  where
    refuse record = do
      closeAfterwards exchange
      answerFailure
        (Service server exchange record)
        defaultRequest {requestMethod = method}
        (usualAnswer server (toException reason))

-- | Serves one request on an exchange, in this thread, with a new server context.
serveExchange :: Settings -> Application -> Exchange -> Request -> IO ()
serveExchange settings application exchange request = asServer settings $ \server ->
  answerByApplication
    (newService server exchange)
    application
    request {vault = contextVault (Context exchange server)}

-- | Refuses a request of this method on an exchange, in this thread, with a new server context.
refuseExchange :: Settings -> Exchange -> Method -> InvalidRequest -> IO ()
refuseExchange settings exchange method reason = asServer settings $ \server ->
  answerRefused (newService server exchange) (Refusal reason method (return (Nothing, B.empty)))

asServer :: Settings -> (ServerContext -> IO a) -> IO a
asServer settings = bracket (newServerContext settings) (closeFileCache . serverFiles)

------------------------------------------------------------------------------------------------------------------------
-- Applications

runApplication :: Service -> Application -> Request -> IO ()
runApplication service@(Service _ exchange _) application request = do
  thread <- myThreadId
  progress <- newProgress
  outcome <- served progress thread `catch` \failure -> Left . (,) failure <$> conclude progress exchange
  case outcome of
    Right () -> return ()
    Left (failure, reached)
      | isAsynchronous failure -> abandon exchange reached >> throwIO failure
      | otherwise -> recover service request reached failure
  where
    -- The application's result may be lazy, and evaluating it may throw. If two exceptions come at once, the second one
    -- is thrown as soon as the handler of the first one ends, so the request must be concluded within the handler.
    served progress thread = do
      ResponseReceived <- application request (respond service request thread progress)
      reached <- conclude progress exchange
      return $! case reached of
        Answered -> Right ()
        _ -> Left (toException NotResponded, reached)

-- The thread is the one that the application was called in.
respond :: Service -> Request -> ThreadId -> Progress -> Response -> IO ResponseReceived
respond service@(Service _ exchange _) request thread progress response = do
  self <- myThreadId
  if self == thread
    then do
      turn <- beginHere progress
      takeBackUnless exchange turn
      compose service request OwnThread response
      completeHere progress
    else answerElsewhere progress $ \detached turn -> do
      takeBackUnless exchange turn
      compose service request (OtherThread detached) response
  return ResponseReceived

-- Called when the application responds again: it has caught an exception of its first response, or is still within the
-- first one.
takeBackUnless :: Exchange -> Turn -> IO ()
takeBackUnless exchange turn = when (turn == Again) $ do
  retraction <- takeBack exchange
  unless (retraction == TakenBack) (throwIO RespondedTwice)
{-# INLINE takeBackUnless #-}

compose :: Service -> Request -> Answerer -> Response -> IO ()
compose (Service server exchange record) request answerer response =
  withPlan server request (possible response) (give exchange record answerer)
  where
    -- Where the application cannot have the connection, its other response counts.
    possible (ResponseRaw _ other) | isNothing (takingOver exchange) = other
    possible given = given

give :: Exchange -> Maybe AnswerRecord -> Answerer -> Plan -> IO ()
give exchange record answerer plan = case record of
  Nothing -> answer exchange answerer plan
  Just present -> recordPlan present exchange plan >>= answer exchange answerer
{-# INLINE give #-}

-- The application threw. If nothing of its response was sent, the client gets another response and the connection
-- stays. Otherwise only closing the connection can tell the client that the response is incomplete.
recover :: Service -> Request -> Reached -> SomeException -> IO ()
recover service@(Service server exchange record) request reached thrown = do
  settle exchange
  setTotalDeadline exchange noDeadline
  reportTo server (Just request) failure
  retraction <- if isUnfinished reached then takeBack exchange else return AlreadySent
  case (retraction, reached) of
    (TakenBack, _) -> do
      mapM_ (`recordRefusal` failure) record
      unless (keepsFraming failure) (closeAfterwards exchange)
      answerFailure
        service
        request
        (fromMaybe (usualAnswer server failure) chosen)
        `onException` abandon exchange Answering
    (AlreadySent, Answered) -> closeAfterwards exchange
    (AlreadySent, _) -> do
      closeAfterwards exchange
      mapM_ recordCut record
      discardUnsent exchange
  where
    (failure, chosen) = case fromException thrown of
      Just (FailedWithAnswer response inner) -> (inner, Just response)
      Nothing -> (thrown, Nothing)
{-# NOINLINE recover #-}

-- Is there no complete answer?
isUnfinished :: Reached -> Bool
isUnfinished reached = case reached of
  Unanswered -> True
  _ -> isIncomplete reached

-- The server's own answer to a failure.
answerFailure :: Service -> Request -> Response -> IO ()
answerFailure service request = compose service request OwnThread

usualAnswer :: ServerContext -> SomeException -> Response
usualAnswer = settingsOnExceptionResponse . serverSettings

-- The session ends during a request that is not answered. The responses to earlier requests are complete, and go out.
abandon :: Exchange -> Reached -> IO ()
abandon exchange reached = void . (try :: IO () -> IO (Either SomeException ())) $ do
  settle exchange
  retraction <- if isIncomplete reached then takeBack exchange else return TakenBack
  when (retraction == TakenBack) (flush exchange)
{-# NOINLINE abandon #-}

-- After an invalid request it is not known where the next request begins.
keepsFraming :: SomeException -> Bool
keepsFraming failure = case fromException failure of
  Just (_ :: InvalidRequest) -> False
  Nothing -> True

------------------------------------------------------------------------------------------------------------------------
-- Observers

-- What was asked: the request, why it was refused, and the first line of a refused request.
data Subject = Subject !(Maybe Request) !(Maybe RefusalReason) !ByteString

-- For the observers: the answer, and how it ended.
data AnswerRecord = AnswerRecord !(IORef Given) !(IORef AnswerEnd)

data Given
  = NotGiven
  | Planned !Status
  | Taken !TakenOver

data AnswerEnd
  = Whole
  | Cut
  | -- It takes the place of the application's answer.
    Refused !RefusalReason

-- Returns the plan to follow instead.
recordPlan :: AnswerRecord -> Exchange -> Plan -> IO Plan
recordPlan (AnswerRecord given _) exchange plan = case plan of
  Plan status _ _ -> plan <$ (writeIORef given $! Planned status)
  TakeOver body -> do
    taken <- newTakenOver (fromMaybe switchingProtocols101 (takingOver exchange))
    writeIORef given (Taken taken)
    return (TakeOver (watched taken body))

recordCut :: AnswerRecord -> IO ()
recordCut (AnswerRecord _ ending) = writeIORef ending Cut

-- The client gets the server's own answer to this exception of the application.
recordRefusal :: AnswerRecord -> SomeException -> IO ()
recordRefusal (AnswerRecord _ ending) failure = mapM_ (writeIORef ending . Refused) reason
  where
    reason
      | Just invalid <- fromException failure = Just (RefusedLater invalid)
      | Just ApplicationTimedOut <- fromException failure = Just OutOfTime
      | isTimeExpired failure = Just OutOfTime
      | otherwise = Nothing

-- Runs an action that answers, and tells the observers about the answer, however the action ends.
observed :: ServerContext -> Exchange -> [Answer -> IO ()] -> Subject -> (AnswerRecord -> IO ()) -> IO ()
observed server exchange observers (Subject request refusal line) answering = do
  record <- AnswerRecord <$> newIORef NotGiven <*> newIORef Whole
  start <- monotonicNanoseconds
  answering record `onException` (recordCut record >> tell record start)
  -- An observer may block. The client does not wait for it.
  sendSoon exchange
  tell record start
  settle exchange
  where
    tell (AnswerRecord givenRef ending) start = do
      given <- readIORef givenRef
      case given of
        NotGiven -> return ()
        Planned status -> bodyBytes exchange >>= tellOf ending start status
        Taken taken -> sentOn taken >>= \(status, bytes) -> tellOf ending start status (Just bytes)
    tellOf ending start status bytes = do
      reached <- readIORef ending
      now <- monotonicNanoseconds
      let refused = refusalOf reached
          taken = nanoseconds (fromIntegral (now - start))
          given = Answer (exchangeClient exchange) request refused line status bytes (isCut reached) taken
      mapM_ (guarded given) observers
    refusalOf reached = case reached of
      Refused reason -> Just reason
      _ -> refusal
    isCut reached = case reached of
      Cut -> True
      _ -> False
    guarded given observer =
      observer given `catch` \failure ->
        if isAsynchronous failure then throwIO failure else reportTo server request failure
{-# NOINLINE observed #-}

------------------------------------------------------------------------------------------------------------------------
-- The progress of an answer

-- | The progress of one answer. Only the thread that has set it to a state of answering may use the exchange.
newtype Progress = Progress (IORef Reached)

-- | The state of the answer.
data Reached
  = Unanswered
  | -- | In the thread that the application was called in. Or the answer has failed there, and the application has
    -- caught the exception.
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
