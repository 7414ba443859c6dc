-- |
-- The end of a connection whose client may still be sending. Must not know: HTTP.
module Millrace.Http.Farewell (linger, lingerMicros) where

import Control.Concurrent (yield)
import Control.Exception (SomeException, try)
import Control.Monad (unless, void, when)
import qualified Data.ByteString as B
import Millrace.Deadline (Deadline, deadlineAfter, earlier)
import Millrace.Http.Transport (Transport, endSending, receiveBytes)

-- | Closing a socket that has unread input resets the connection, and the reset may overtake the response. So this ends
-- the sending side, and gives the client a little time to stop sending (RFC 9112, section 9.6).
linger :: Transport -> Int -> IO ()
linger transport micros = void . (try :: IO () -> IO (Either SomeException ())) $ do
  endSending transport
  limit <- deadlineAfter micros
  drain limit lingerBytes
  where
    drain :: Deadline -> Int -> IO ()
    drain limit left = when (left > 0) $ do
      pause <- deadlineAfter lingerPauseMicros
      bytes <- receiveBytes transport (earlier limit pause) lingerPiece
      -- A client that never stops sending would keep this thread running until it is preempted, and again after that.
      unless (B.null bytes) (yield >> drain limit (left - B.length bytes))

-- | The longest time in microseconds for which the sessions let 'linger' wait.
lingerMicros :: Int
lingerMicros = 5000000

-- 'linger' stops when the client has sent no byte for 'lingerPauseMicros', or 'lingerBytes' bytes in total. It receives
-- at most 'lingerPiece' bytes at a time. The limit in bytes is large, because some clients send a complete body before
-- they read the response.
lingerPauseMicros, lingerBytes, lingerPiece :: Int
lingerPauseMicros = 1000000
lingerBytes = 1073741824
lingerPiece = 65536
