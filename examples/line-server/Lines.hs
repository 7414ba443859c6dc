{-# LANGUAGE OverloadedStrings #-}

-- | A protocol of lines: the server answers each line with the same line in capitals, until the line is "bye".
module Lines (serve, talk) where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (toUpper)
import Millrace.Deadline (deadlineAfter, seconds)
import Millrace.Socket (Socket, setReadDeadline)
import Millrace.Socket.ByteString (recv, sendAll)

-- | Serves one client until it says bye, leaves, or takes more than ten seconds for a line.
serve :: Socket -> IO ()
serve client = go ""
  where
    go rest = do
      deadlineAfter (seconds 10) >>= setReadDeadline client
      found <- receiveLine client rest
      case found of
        Nothing -> pure ()
        Just (line, later) -> do
          sendAll client (Char8.map toUpper line <> "\n")
          unless (line == "bye") (go later)

-- | Sends one line and waits for the answer.
talk :: Socket -> ByteString -> IO (Maybe ByteString)
talk server line = do
  sendAll server (line <> "\n")
  fmap fst <$> receiveLine server ""

-- | A line, and the bytes that came after it; nothing at the end of the stream. Lines have at most 1000 bytes.
receiveLine :: Socket -> ByteString -> IO (Maybe (ByteString, ByteString))
receiveLine socket received = case Char8.break (== '\n') received of
  (line, rest)
    | not (Char8.null rest) -> pure (Just (line, Char8.drop 1 rest))
    | Char8.length line > 1000 -> ioError (userError "the line is too long")
    | otherwise -> do
      bytes <- recv socket 4096
      if Char8.null bytes then pure Nothing else receiveLine socket (line <> bytes)
