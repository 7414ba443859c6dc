-- Must not know: listeners.

-- |
-- Serves a connection: request after request, until one side ends it.
--
-- The loop over requests is tail-recursive, so nothing is on the stack between two requests. With a stack frame per
-- request every park would have to walk a longer stack.
module Millrace.Http.Http1.Session (runSession, refuse, isLeaving) where

import Control.Exception
  ( Exception (..),
    IOException,
    SomeException,
    catch,
    evaluate,
    onException,
    throwIO,
    toException,
  )
import Control.Monad (unless, when)
import Data.Bits ((.&.))
import Data.Maybe (isJust)
import GHC.IO (unsafeDupableInterleaveIO)
import Millrace.Http.Answer.Application (Refusal (..), Service, answerRefused, newService, withinTotalTime)
import Millrace.Http.Delivery (linger, lingerMicros)
import Millrace.Http.Exception
import Millrace.Http.Exchange (Exchange)
import Millrace.Http.Expectation (expectNothing)
import Millrace.Http.Http1.Body
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Exchange (answerRequest, endRequest, exchangeWithBody, exchangeWithoutBody)
import Millrace.Http.Http1.Receive
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Wire
import Millrace.Http.Server.Context (ServerContext (..))
import Millrace.Http.Server.Limits (millisInMicros)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Transport (hasArrived)
import Network.HTTP.Types (methodGet, methodHead)
import Network.Wai (Application, Request)

-- | Serves a connection that works on its first bytes, until it ends, in the thread that works on it. Reports
-- exceptions through the settings. Throws only asynchronous ones.
runSession :: Connection -> Application -> IO ()
runSession connection application =
  asThunk
    ( serve
        connection
        (serviceOf connection (exchangeWithoutBody connection))
        (withinTotalTime (connectionLimits connection) application)
    )
    `catch` \failure -> endRequest connection >> endSession connection failure
{-# INLINE runSession #-}

-- Runs an action as the evaluation of a thunk. When a thread parks, GHC's threadPaused walks its stack down to the
-- first update frame that it has already marked. The handlers below this frame are half of a parked connection's stack
-- and never change, so this saves walking them (decision 17).
asThunk :: IO a -> IO a
asThunk action = unsafeDupableInterleaveIO action >>= evaluate
{-# NOINLINE asThunk #-}

-- | Whether all responses were sent, and only the client's end of the connection is missing. Any thread may call this.
isLeaving :: Connection -> IO Bool
isLeaving connection = (== InFarewell) <$> readStage connection

serviceOf :: Connection -> Exchange -> Service
serviceOf connection = newService (connectionServer connection)

serve :: Connection -> Service -> Application -> IO ()
serve connection bodiless application = do
  next <- receiveRequest connection
  case next of
    Bodiless request -> do
      answerRequest connection bodiless application request
      keep <- readRequest connection keepsOpen
      if keep then serve connection bodiless application else closeAfterResponse connection
    WithBody request body -> do
      keep <- serveWithBody connection application request body
      if keep then serve connection bodiless application else closeAfterResponse connection
    NoMore -> return ()

-- True if another request may follow.
serveWithBody :: Connection -> Application -> Request -> BodyReader -> IO Bool
serveWithBody connection application request body = do
  complete <-
    (answerRequest connection service application request >> finishBody connection body)
      `onException` forsakeBody connection body
  keep <- readRequest connection keepsOpen
  return (complete && keep)
  where
    service = serviceOf connection (exchangeWithBody connection body)
{-# NOINLINE serveWithBody #-}

------------------------------------------------------------------------------------------------------------------------
-- Ends

settingsOf :: Connection -> Settings
settingsOf = serverSettings . connectionServer

-- The last response is in the output. The socket can be closed behind it if the client has ended its side and there is
-- no unread input. The kernel may still hold some: some clients send an empty line behind a body.
closeAfterResponse :: Connection -> IO ()
closeAfterResponse connection = do
  flushLast connection
  unread <- inputCount connection
  allRead <- isAllRead <$> readRequest connection bodyUnread
  flags <- parser connection >>= headFlags
  more <-
    if unread > 0 || not allRead || flags .&. flagKeepAlive /= 0
      then return True
      else hasArrived (connectionTransport connection)
  if more
    then farewell connection lingerMicros
    else when (farewellMicros > 0) (farewell connection farewellMicros)
  where
    farewellMicros = millisInMicros (settingsGracefulClose1Millis (settingsOf connection))
{-# NOINLINE closeAfterResponse #-}

-- An exception has ended the session outside of the application.
endSession :: Connection -> SomeException -> IO ()
endSession connection failure = do
  when (isAsynchronous failure) (throwIO failure)
  reached <- readStage connection
  case fromException failure of
    Just reason -> refuse connection reason
    Nothing
      | isTimeExpired failure && reached == InHead -> refuse connection RequestTimedOut
      | isTimeExpired failure && reached == BetweenRequests -> return ()
      | otherwise -> do
        report connection Nothing failure
        -- A send has failed, and has ended the connection. Reading the client's further bytes prevents a reset, which
        -- could destroy the response on its way.
        when (reached == InResponse) (farewell connection lingerMicros)

-- | Answers input that is not a valid request, or that cannot be served, then closes (RFC 9112, section 9.6). The input
-- is still at its beginning.
refuse :: Connection -> InvalidRequest -> IO ()
refuse connection reason = do
  report connection Nothing (toException reason)
  working <- isWorking connection
  when working . (`catch` unsaid) $ do
    clearTotalDeadline connection
    -- What the parser has found is valid: a refused HEAD request gets no body either.
    method <- parser connection >>= headMethod
    expectNothing (connectionExpectation connection)
    writeRequest connection bodyUnread (UnreadBytes 0)
    answerRefused (serviceOf connection (exchangeWithoutBody connection)) $
      Refusal
        { refusalReason = reason,
          refusalMethod = if method == methodCodeHead then methodHead else methodGet,
          refusalAsked = (,) <$> refusedRequest connection <*> requestLine connection
        }
    flushOutput connection
    farewell connection lingerMicros
  where
    -- It is not worth a report that the client has gone, but it is worth one that a request got no response.
    unsaid second = unless (isAsynchronous second || isInputOutput second) (report connection Nothing second)
    isInputOutput second = isJust (fromException second :: Maybe IOException)

farewell :: Connection -> Int -> IO ()
farewell connection micros = writeStage connection InFarewell >> linger (connectionTransport connection) micros
