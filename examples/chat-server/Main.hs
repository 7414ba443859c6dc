{-# LANGUAGE OverloadedStrings #-}

-- | A chat: every line that a client sends goes to all others. A client that does not read misses lines, and delays
-- nobody.
module Main (main) where

import Control.Concurrent.Async (race_)
import Control.Concurrent.STM
import Control.Exception (bracket_)
import Control.Monad (forever, unless)
import Data.ByteString (ByteString)
import qualified Data.Map.Strict as Map
import Millrace
import Millrace.Stream
import System.Environment (getArgs)

type Room = TVar (Map.Map Int (TBQueue ByteString))

main :: IO ()
main = do
  [port] <- getArgs
  room <- newTVarIO Map.empty
  next <- newTVarIO 0
  withServer defaultServer (passive port) {queryHost = Just "127.0.0.1"} $ \client -> do
    number <- atomically (stateTVar next (\n -> (n, n + 1)))
    queue <- newTBQueueIO 1000
    bracket_
      (atomically (modifyTVar' room (Map.insert number queue)))
      (atomically (modifyTVar' room (Map.delete number)))
      $ race_ (forever (atomically (readTBQueue queue) >>= sendAll client)) $ do
        line <- linesOf 1000 (fromSocket client)
        hear room number line

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
