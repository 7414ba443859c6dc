{-# LANGUAGE OverloadedStrings #-}

-- | A notice board. The line "read" gets the latest notices, "bye" ends, and any other line becomes a notice.
-- Usage: notice-board PORT CLIENTS SECONDS, with the most clients at a time, and the time to send or take a line.
module Main (main) where

import Control.Concurrent.Async (race_, withAsync)
import Control.Concurrent.STM
import Control.Exception
import Control.Monad (void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Time (getCurrentTime)
import Millrace
import Millrace.Signal
import Millrace.Stream
import System.Environment (getArgs)
import System.IO

data Board = Board
  { notices :: TVar [ByteString], -- the latest one first
    freeSeats :: TVar Int,
    isEnding :: TVar Bool,
    lineTime :: Duration
  }

main :: IO ()
main = do
  mapM_ (`hSetBuffering` LineBuffering) [stdout, stderr]
  [port, clients, lineSeconds] <- getArgs
  board <- Board <$> newTVarIO [] <*> newTVarIO (read clients) <*> newTVarIO False <*> pure (seconds (read lineSeconds))
  let server =
        defaultServer
          { serverConnectionsMax = read clients + 100, -- a hundred more can be told that the board is full
            serverGrace = seconds 30,
            serverSharesPort = True, -- so that the next version can start beside this one
            serverReady = \_ -> putStrLn "ready",
            serverProblem = logProblem
          }
      listenOn = (passive port) {queryHost = Just "127.0.0.1"}
  withSignals [Terminate, Interrupt] $ \signals ->
    withRunningServer server listenOn (serve board) (untilEnding board) `race_` do
      _ <- nextSignal signals
      atomically (writeTVar (isEnding board) True)
      void (nextSignal signals)
  putStrLn "ended"

untilEnding :: Board -> IO ()
untilEnding board = atomically (readTVar (isEnding board) >>= check)

logProblem :: SockAddr -> SomeException -> IO ()
logProblem peer problem = do
  now <- getCurrentTime
  hPutStrLn stderr (show now ++ " " ++ show peer ++ ": " ++ displayException problem)

serve :: Board -> Socket -> IO ()
serve board client = bracket takeSeat leaveSeat greet `finally` gracefulCloseWithin (seconds 1) client
  where
    takeSeat = atomically $ do
      free <- readTVar (freeSeats board)
      when (free > 0) (writeTVar (freeSeats board) (free - 1))
      return (free > 0)
    leaveSeat hasSeat = when hasSeat (atomically (modifyTVar' (freeSeats board) (+ 1)))
    greet hasSeat = if hasSeat then talk board client else say board client "full: try again later"

-- When the server ends, this shuts the reading side down: the client's last line is answered, and then the lines end.
talk :: Board -> Socket -> IO ()
talk board client = withAsync (untilEnding board >> shutdown client ShutdownReceive) $ \_ -> do
  next <- linesOf 200 (fromSocket client)
  say board client "welcome"
  answerAll (inTime next)
  where
    inTime next = do
      deadlineAfter (lineTime board) >>= setReadDeadline client
      next `catch` \problem -> mapM_ (say board client) (complaint problem) >> throwIO problem
    answerAll next = do
      found <- next
      case found of
        Nothing -> do
          ending <- readTVarIO (isEnding board)
          when ending (say board client "the board closes: good-bye")
        Just "bye" -> say board client "good-bye"
        Just "read" -> readTVarIO (notices board) >>= say board client . ByteString.intercalate "; " >> answerAll next
        Just text -> post board text >> say board client "posted" >> answerAll next

-- What a client that misbehaves is told before its connection ends.
complaint :: SomeException -> Maybe ByteString
complaint problem
  | Just (TooLong _ _) <- fromException problem = Just "a notice has at most 200 bytes"
  | Just late <- fromException problem, isDeadlineError late = Just "too slow"
  | otherwise = Nothing

say :: Board -> Socket -> ByteString -> IO ()
say board client text = do
  deadlineAfter (lineTime board) >>= setWriteDeadline client
  sendAll client (text <> "\n")

-- The copy keeps a notice, and not all that was received together with it.
post :: Board -> ByteString -> IO ()
post board text = atomically $ do
  before <- readTVar (notices board)
  let latest = take 20 (ByteString.copy text : before)
  length latest `seq` writeTVar (notices board) latest
