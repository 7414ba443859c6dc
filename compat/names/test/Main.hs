{-# LANGUAGE OverloadedStrings #-}

-- | A program that knows only the names of base, stm and network, and waits by Millrace.
module Main (main) where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Exception (bracket)
import Control.Monad (forever, unless, void)
import qualified Data.ByteString as B
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import GHC.Event (getSystemTimerManager, registerTimeout)
import qualified Millrace.Socket as Millrace
import qualified Millrace.Timer as Millrace (Timeout)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import qualified Network.Socket.ByteString.Lazy as Lazy
import System.Timeout
import Test.Hspec

main :: IO ()
main = hspec $ do
  it "has Millrace's types" $ do
    let same :: Socket -> Millrace.Socket
        same = id
        sameTimeout :: Timeout -> Millrace.Timeout
        sameTimeout = id
    bracket (socket AF_INET Stream defaultProtocol) close (void . return . same)
    seq sameTimeout (return ()) :: IO ()
  it "serves and connects" $
    echoing $ \client -> do
      sendAll client "question"
      recv client 100 `shouldReturn` "question"
      Lazy.sendAll client "lazy"
      shutdown client ShutdownSend
      Lazy.getContents client `shouldReturn` "lazy"
  it "sends and receives messages in memory" $
    bracket (socketPair AF_UNIX Datagram defaultProtocol) (both close) $ \(one, other) -> do
      sendAll one "message"
      allocaBytes 100 $ \memory -> do
        (count, _) <- recvBufFrom other memory 100
        allocaBytes count $ \copy -> do
          copyBytes copy memory count
          B.packCStringLen (castPtr copy, count) `shouldReturn` "message"
  it "waits by a transaction" $
    echoing $ \client -> do
      readable <- waitReadSocketSTM client
      sendAll client "x"
      within (atomically readable) `shouldReturn` Just ()
  it "waits for time" $ do
    timeout 1000 (forever (threadDelay 1000000)) `shouldReturn` (Nothing :: Maybe ())
    late <- registerDelay 1000
    within (atomically (readTVar late >>= check)) `shouldReturn` Just ()
    fired <- newEmptyMVar
    manager <- getSystemTimerManager
    void (registerTimeout manager 1000 (putMVar fired ()))
    within (takeMVar fired) `shouldReturn` Just ()
  where
    within = timeout 30000000

-- A client of a server that sends back what it gets.
echoing :: (Socket -> IO a) -> IO a
echoing use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 loopback)
  listen listener 10
  void (forkIO (accept listener >>= \(connection, _) -> echo connection >> close connection))
  port <- socketPort listener
  bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
    connect client (SockAddrInet port loopback)
    use client
  where
    loopback = tupleToHostAddress (127, 0, 0, 1)
    echo connection = do
      bytes <- recv connection 4096
      unless (B.null bytes) (sendAll connection bytes >> echo connection)

both :: (a -> IO ()) -> (a, a) -> IO ()
both action (one, other) = action one >> action other
