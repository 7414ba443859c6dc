{-# LANGUAGE OverloadedStrings #-}

-- | A connection that has changed its protocol, such as a WebSocket: bytes are passed both ways until one side ends. Must not
-- know: health.
module Millrace.Proxy.Tunnel
  ( switchingHead,
    passBothWays,
  )
where

import Control.Exception
import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Millrace.Deadline
import Millrace.Proxy.Exchange (causeOf, synchronously)
import Millrace.Proxy.Link
import Millrace.Proxy.Meanwhile
import Millrace.Proxy.Problem
import Millrace.Proxy.ResponseHead (ResponseHead (..))
import Millrace.Proxy.Target (Target)

-- | The head of 101 (Switching Protocols) for the client.
switchingHead :: ByteString -> ResponseHead -> ByteString
switchingHead protocol found =
  ByteString.concat $
    "HTTP/1.1 101 Switching Protocols\r\n" :
    concat [[CI.original name, ": ", value, "\r\n"] | (name, value) <- headFields found, CI.foldedCase name /= "content-length"]
      ++ ["Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n\r\n"]

-- | @passBothWays limit target link first receive send@ passes on what both sides send, beginning with the bytes @first@ of the target.
-- Ends when the target has ended; when the client ends first, the end is passed to the target, which has the time of the limit, or 30 seconds,
-- for each further part. A tunnel that is silent in both directions for the limit ends. The link is the caller's to close. Throws a 'Problem' if the
-- target breaks the connection, so that the client does not take that for an end.
passBothWays :: TimeLimit -> Target -> Link -> ByteString -> IO ByteString -> (ByteString -> IO ()) -> IO ()
passBothWays limit target link first receive send = do
  unless (ByteString.null first) (send first)
  lastMoved <- monotonicNanoseconds >>= newIORef
  clientEnded <- newIORef False
  clientBroke <- newIORef False
  meanwhile
    (\unmask -> (unmask (fromClient lastMoved clientBroke) `catch` broken) `finally` writeIORef clientEnded True)
    (fromTarget lastMoved clientEnded clientBroke)
  where
    touch lastMoved = monotonicNanoseconds >>= writeIORef lastMoved
    fromClient lastMoved clientBroke = do
      bytes <- receive `onException` writeIORef clientBroke True
      if ByteString.null bytes
        then linkEndSending link
        else touch lastMoved >> linkSend link noDeadline [bytes] >> fromClient lastMoved clientBroke
    broken :: SomeException -> IO ()
    broken _ = linkInterrupt link
    fromTarget lastMoved clientEnded clientBroke = do
      ended <- readIORef clientEnded
      moved <- readIORef lastMoved
      now <- monotonicNanoseconds
      let span'
            | limit /= noTimeLimit = timeLimitNanoseconds limit
            | ended = 30000000000
            | otherwise = maxBound
          isOver = now - moved > span'
          -- The client's end is looked for now and then.
          pause = min span' 1000000000
      unless isOver $ do
        outcome <- synchronously (linkReceive link (deadlineFromNanoseconds (now + pause)) 16384)
        case outcome of
          Right bytes
            | ByteString.null bytes -> return ()
            | otherwise -> send bytes >> touch lastMoved >> fromTarget lastMoved clientEnded clientBroke
          Left failure
            | isTooLate failure -> fromTarget lastMoved clientEnded clientBroke
            | otherwise -> do
              -- After that, this side has ended the connection.
              isClients <- readIORef clientBroke
              unless isClients (throwIO (Problem (Just target) (causeOf failure)))
    isTooLate = maybe False isDeadlineError . fromException
