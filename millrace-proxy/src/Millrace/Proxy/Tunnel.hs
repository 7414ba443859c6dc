{-# LANGUAGE OverloadedStrings #-}

-- Must not know: health.

-- | A connection that has changed its protocol, such as a WebSocket: bytes are passed both ways until one side ends.
module Millrace.Proxy.Tunnel
  ( switchingHead,
    passBothWays,
  )
where

import Control.Concurrent.Async (withAsyncWithUnmask)
import Control.Exception
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Word (Word64)
import Millrace.Deadline
import Millrace.Proxy.Exchange (causeOf, synchronously)
import Millrace.Proxy.Link
import Millrace.Proxy.Problem
import Millrace.Proxy.ResponseHead (ResponseHead (..))
import Millrace.Proxy.Target (Target)

-- | The head of 101 (Switching Protocols) for the client.
switchingHead :: ByteString -> ResponseHead -> ByteString
switchingHead protocol found =
  ByteString.concat $
    "HTTP/1.1 101 Switching Protocols\r\n" :
    concat
      [ [CI.original name, ": ", value, "\r\n"]
        | (name, value) <-
            headFields found,
          CI.foldedCase name /= "content-length",
          not (ByteString.null value)
      ]
      ++ ["Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n\r\n"]

-- | @passBothWays limit target link first receive send@ passes on what both sides send, beginning with the bytes
-- @first@ of the target. Ends when the target has ended; when the client ends first, the end is passed to the target,
-- which has the time of the limit, or 30 seconds, for each further part. A tunnel that is silent in both directions for
-- the limit ends. The caller must close the link. Throws a 'Problem' if the target breaks the connection, so that
-- the client does not take that for an end.
passBothWays :: Duration -> Target -> Link -> ByteString -> IO ByteString -> (ByteString -> IO ()) -> IO ()
passBothWays limit target link first receive send = do
  unless (ByteString.null first) (send first)
  tunnel <- Tunnel link <$> (monotonicNanoseconds >>= newIORef) <*> newIORef Speaking
  withAsyncWithUnmask
    (\unmask -> unmask (fromClient tunnel receive) `catch` broken `finally` modifyIORef' (tunnelClient tunnel) ended)
    (const (fromTarget limit target tunnel send))
  where
    broken :: SomeException -> IO ()
    broken _ = linkInterrupt link
    ended client = if client == Speaking then HasEnded else client

-- The state that both directions share.
data Tunnel = Tunnel
  { tunnelLink :: !Link,
    -- | The moment at which bytes were passed on last, in nanoseconds of the monotonic clock.
    tunnelLastMoved :: !(IORef Word64),
    tunnelClient :: !(IORef ClientSide)
  }

data ClientSide = Speaking | HasEnded | HasBroken
  deriving (Eq)

touch :: Tunnel -> IO ()
touch tunnel = monotonicNanoseconds >>= writeIORef (tunnelLastMoved tunnel)

fromClient :: Tunnel -> IO ByteString -> IO ()
fromClient tunnel receive = do
  bytes <- receive `onException` writeIORef (tunnelClient tunnel) HasBroken
  if ByteString.null bytes
    then do
      -- First: a target may reset the connection as soon as it sees the end.
      writeIORef (tunnelClient tunnel) HasEnded
      linkEndSending link
    else touch tunnel >> linkSend link noDeadline [bytes] >> fromClient tunnel receive
  where
    link = tunnelLink tunnel

fromTarget :: Duration -> Target -> Tunnel -> (ByteString -> IO ()) -> IO ()
fromTarget limit target tunnel send = do
  client <- readIORef (tunnelClient tunnel)
  moved <- readIORef (tunnelLastMoved tunnel)
  now <- monotonicNanoseconds
  let silence
        | limit /= unlimited = durationNanoseconds limit
        | client /= Speaking = 30000000000
        | otherwise = maxBound
      -- Looks now and then whether the client has ended.
      pause = min silence 1000000000
  unless (now - moved > silence) $ do
    outcome <- synchronously (linkReceive (tunnelLink tunnel) (deadlineFromNanoseconds (now + pause)) 16384)
    case outcome of
      Right bytes
        | ByteString.null bytes -> return ()
        | otherwise -> send bytes >> touch tunnel >> fromTarget limit target tunnel send
      Left failure
        | maybe False isDeadlineError (fromException failure) -> fromTarget limit target tunnel send
        | otherwise -> do
          now' <- readIORef (tunnelClient tunnel)
          case (now', causeOf failure) of
            -- This side has ended the connection.
            (HasBroken, _) -> return ()
            (_, ResetByTarget 0) -> return () -- NO_ERROR is an end.
            -- Many programs close a connection in this way. It is not reported, but the client must not take it for an
            -- end.
            (HasEnded, _) -> throwIO (Problem (Just target) ClientLeft)
            (Speaking, cause) -> throwIO (Problem (Just target) cause)
