{-# LANGUAGE OverloadedStrings #-}

-- | A chat: every line that a client sends goes to all others. A client that does not read misses lines, delays nobody,
-- and is given up at last. Usage: chat-server PORT SECONDS, with the time in which a client must take a line.
module Main (main) where

import Control.Concurrent.Async (wait, withAsync)
import Control.Concurrent.STM
import Control.Exception (bracket_, finally)
import Control.Monad (mfilter, unless)
import Data.ByteString (ByteString)
import qualified Data.Map.Strict as Map
import Millrace
import Millrace.Socket.Option (setSendBuffer)
import Millrace.Stream
import System.Environment (getArgs)

-- The queues of the clients, by number.
type Room = TVar (Map.Map Int (TBQueue ByteString))

main :: IO ()
main = do
  [port, time] <- getArgs
  room <- newTVarIO Map.empty
  next <- newTVarIO 0
  withServer defaultServer (passive port) {queryHost = Just "127.0.0.1"} $ \client -> do
    -- What a client does not take waits in its queue, and not in the system's buffer, which would grow to megabytes.
    setSendBuffer client 65536
    number <- atomically (stateTVar next (\n -> (n, n + 1)))
    queue <- newTBQueueIO 1000
    let enter = atomically (modifyTVar' room (Map.insert number queue))
        leave = atomically (modifyTVar' room (Map.delete number))
    bracket_ enter leave (talk room number (deliver (seconds (read time)) queue client) client)

-- Two threads: one sends what the others say, and one receives. What the client has sent before it left goes to the
-- others, even if nothing can be sent to it any more. What they have said before goes to the client, which may have
-- ended its sending side only.
talk :: Room -> Int -> (TVar Bool -> IO ()) -> Socket -> IO ()
talk room number sendUntil client = do
  ended <- newTVarIO False
  withAsync (sendUntil ended `finally` shutdown client ShutdownReceive) $ \sending -> do
    linesOf 1000 (fromSocket client) >>= hear room number
    atomically (modifyTVar' room (Map.delete number) >> writeTVar ended True)
    wait sending

-- Until the queue is empty and nobody fills it any more. All lines that wait are sent with one deadline. If each had
-- its own, a client that takes nothing would seldom miss one: when a deadline passes, the send is tried a last time,
-- and the system's buffer often has room for one more line.
deliver :: Duration -> TBQueue ByteString -> Socket -> TVar Bool -> IO ()
deliver time queue client ended = do
  waiting <- atomically (someOf queue `orElse` ([] <$ (readTVar ended >>= check)))
  unless (null waiting) $ do
    deadline <- deadlineAfter time
    sendManyBefore deadline client waiting
    deliver time queue client ended
  where
    someOf = mfilter (not . null) . flushTBQueue

hear :: Room -> Int -> IO (Maybe ByteString) -> IO ()
hear room number line =
  line
    >>= mapM_
      ( \text ->
          readTVarIO room >>= mapM_ (atomically . offer (text <> "\n")) . Map.elems . Map.delete number
            >> hear room number line
      )
  where
    offer text queue = isFullTBQueue queue >>= \isFull -> unless isFull (writeTBQueue queue text)
