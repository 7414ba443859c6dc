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
import Network.Socket.ByteString (recv, recvMsg, sendAll, sendMsg)
import qualified Network.Socket.ByteString.Lazy as Lazy
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd (..))
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
  it "passes descriptors, and receives what the system says about a message" $ do
    name <- (\process -> SockAddrUnix ("\0millrace-names-" ++ show process)) <$> getProcessID
    bracket (socket AF_UNIX Datagram defaultProtocol) close $ \receiver ->
      bracket (socketPair AF_UNIX Stream defaultProtocol) (both close) $ \(passed, peer) -> do
        bind receiver name
        bracket (socket AF_UNIX Datagram defaultProtocol) close $ \sender ->
          void . withFdSocket passed $ \fd -> sendMsg sender name ["with ", "it"] [encodeCmsg (Fd fd)] mempty
        (_, text, messages, flags) <- recvMsg receiver 100 100 mempty
        (text, flags == mempty) `shouldBe` ("with it", True)
        Just (Fd fd) <- return (lookupCmsg CmsgIdFd messages >>= decodeCmsg)
        bracket (mkSocket fd) close $ \copy -> do
          sendAll copy "through it"
          recv peer 100 `shouldReturn` "through it"
    bracket (socket AF_INET Datagram defaultProtocol) close $ \server ->
      bracket (socket AF_INET Datagram defaultProtocol) close $ \client -> do
        bind server (SockAddrInet 0 loopback)
        setSocketOption server RecvIPv4TTL 1
        address <- getSocketName server
        received <- newEmptyMVar
        -- It waits before there is a message.
        void (forkIO (recvMsg server 3 100 mempty >>= putMVar received))
        _ <- sendMsg client address ["a message"] [] mempty
        Just (sender, text, messages, flags) <- within (takeMVar received)
        (sender `shouldBe`) =<< SockAddrInet <$> socketPort client <*> pure loopback
        (text, flags == MSG_TRUNC) `shouldBe` ("a m", True)
        (lookupCmsg CmsgIdIPv4TTL messages >>= decodeCmsg) `shouldBe` Just (IPv4TTL 64)
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
    within :: IO a -> IO (Maybe a)
    within = timeout 30000000

loopback :: HostAddress
loopback = tupleToHostAddress (127, 0, 0, 1)

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
    echo connection = do
      bytes <- recv connection 4096
      unless (B.null bytes) (sendAll connection bytes >> echo connection)

both :: (a -> IO ()) -> (a, a) -> IO ()
both action (one, other) = action one >> action other
