-- wai before 3.2.4 has no other name for setting the body.
{-# OPTIONS_GHC -Wno-deprecations #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols.

-- |
-- Limits on the time and the body of some requests, beside those that the settings give to all.
module Millrace.Http.RequestLimits
  ( limitTime,
    requestDeadline,
    pauseTimeout,
    limitBody,
    interruptedAfter,
  )
where

import Control.Exception (finally, throwIO)
import Control.Monad (when)
import qualified Data.ByteString as B
import Data.IORef (atomicModifyIORef', newIORef)
import Data.Maybe (fromMaybe)
import qualified Data.Vault.Lazy as Vault
import Data.Word (Word64)
import Millrace.Deadline (Deadline, deadlineAfter, earlier, noDeadline)
import Millrace.Duration (Duration, milliseconds)
import Millrace.Http.Context (Context (..), contextOf)
import Millrace.Http.Exception (InvalidRequest (..), InvalidResponse (..))
import Millrace.Http.Exchange (ifServing, setTotalDeadline, totalDeadline)
import Millrace.Timer (liftableTimeout)
import Network.Wai
  ( Application,
    Middleware,
    Request,
    RequestBodyLength (..),
    getRequestBodyChunk,
    requestBodyLength,
    vault,
  )
import qualified Network.Wai.Internal as Wai
import System.IO.Unsafe (unsafePerformIO)

-- The action that lifts the time limit of a request, if the request has one.
liftKey :: Vault.Key (IO ())
liftKey = unsafePerformIO Vault.newKey
{-# NOINLINE liftKey #-}

liftOf :: Request -> IO ()
liftOf request = fromMaybe (return ()) (Vault.lookup liftKey (vault request))

-- | Interrupts an application that takes longer, and throws 'ApplicationTimedOut'. Its
-- operations on the client should have the same limit, and have it a little earlier, so that a slow client makes them
-- fail and is no reason to interrupt.
interruptedAfter :: Duration -> Application -> Application
interruptedAfter limit application request respond = do
  outcome <- liftableTimeout (limit <> milliseconds 200) (\lift -> application (lifting lift) respond)
  maybe (throwIO ApplicationTimedOut) return outcome
  where
    lifting lift = request {vault = Vault.insert liftKey (lift >> liftOf request) (vault request)}

-- | Limits the time of an application, for the requests that get to it. When the time is over,
--
-- * reading the request body throws 'RequestTimedOut' (408), and sending an answer ends the connection;
-- * operations that were given 'requestDeadline' throw; if nobody catches that, the client gets a 503;
-- * a fifth of a second later the application is interrupted, and throws 'ApplicationTimedOut' (503).
--
-- 'pauseTimeout' lifts the limit. A limit within another one can only be shorter. The time that a response takes which
-- is a stream counts, too.
--
-- > route request respond = case pathInfo request of
-- >   "reports" : _ -> limitTime (seconds 60) reports request respond
-- >   _ -> limitTime (seconds 5) pages request respond
limitTime :: Duration -> Middleware
limitTime limit application request respond = do
  ending <- deadlineAfter limit
  let within = interruptedAfter limit application request respond
  case contextExchange <$> contextOf request of
    Nothing -> within
    Just exchange -> do
      outer <- totalDeadline exchange
      setTotalDeadline exchange (earlier outer ending)
      within `finally` setTotalDeadline exchange outer

-- | The time at which a request must be answered: that of 'limitTime', or of
-- 'Network.Wai.Handler.Millrace.setTotalTimeout'. Give it to what the application waits for, such as a database.
-- 'noDeadline' if there is none, and for requests that were not made by this server. Does not block.
--
-- > deadline <- requestDeadline request
-- > rows <- query (untilDeadline deadline connection) statement
requestDeadline :: Request -> IO Deadline
requestDeadline request = maybe (return noDeadline) (totalDeadline . contextExchange) (contextOf request)

-- | Lifts the limits that count the application's own time: from now on 'limitTime' and
-- 'Network.Wai.Handler.Millrace.setTotalTimeout' do not concern this request, for example because its response is a
-- stream without end. The other limits stay. They count only the time for which the server waits for the client, so an
-- application needs no pause for work between reading and writing, unlike with Warp. Does not block. Does nothing in
-- other threads than the one the application was called in. Of requests that were not made by this server, it lifts
-- only 'limitTime'.
pauseTimeout :: Request -> IO ()
pauseTimeout request = case contextExchange <$> contextOf request of
  Nothing -> liftOf request
  Just exchange -> ifServing exchange (setTotalDeadline exchange noDeadline >> liftOf request)

-- | A request whose body may have at most this many bytes. Throws 'PayloadTooLarge' (413) at once if the client has
-- announced more; otherwise reading the body throws it as soon as there is more. Use it where less is allowed than
-- 'Network.Wai.Handler.Millrace.setMaximumBodySize' says. The connection ends, if nobody catches the exception.
--
-- > comments request respond = do
-- >   body <- limitBody 10000 request >>= strictRequestBody
-- >   ...
limitBody :: Word64 -> Request -> IO Request
limitBody most request = case requestBodyLength request of
  KnownLength size
    | size > most -> throwIO PayloadTooLarge
    | otherwise -> return request
  ChunkedBody -> do
    count <- newIORef (0 :: Word64)
    return
      request
        { Wai.requestBody = do
            piece <- getRequestBodyChunk request
            total <-
              atomicModifyIORef'
                count
                (\before -> let now = before + fromIntegral (B.length piece) in (now, now))
            when (total > most) (throwIO PayloadTooLarge)
            return piece
        }
