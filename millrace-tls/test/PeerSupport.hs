{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of other clients and servers share: how they are started, and what they say.
module PeerSupport
  ( withGo,
    receiveLine,
    receiveLineBy,
  )
where

import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Millrace.Tls
import Support
import System.Directory (doesFileExist)
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Folder (missing)

-- Go's peer is compiled once.
withGo :: Credentials -> (FilePath -> IO ()) -> IO ()
withGo credentials use = do
  missing "go" >>= mapM_ pendingWith
  let program = fileOf credentials "peer-go"
  exists <- doesFileExist program
  unless exists $ callProcess "go" ["build", "-o", program, "test/peers/peer.go"]
  use program

receiveLine :: Connection -> IO ByteString
receiveLine connection = receiveLineBy (recv connection 1000)

-- The action receives a part of the line; nothing at the end of the stream.
receiveLineBy :: IO ByteString -> IO ByteString
receiveLineBy receive = do
  bytes <- receive
  if Char8.null bytes || Char8.last bytes == '\n' then return bytes else (bytes <>) <$> receiveLineBy receive
