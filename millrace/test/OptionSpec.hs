{-# LANGUAGE OverloadedStrings #-}

-- | "Millrace.Socket.Option": options can be set, read again, and have their effects.
module OptionSpec (spec) where

import Control.Exception (bracket, try)
import Control.Monad (forM_)
import Data.Maybe (isJust)
import Foreign.C.Error (eBADF, eCONNREFUSED, eCONNRESET)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Socket.Option
import Scenario (scenarioPassesIn)
import Support
import System.Directory (findExecutable)
import Test.Hspec hiding (after, before)

spec :: Spec
spec = describe "Millrace.Socket.Option" $ do
  it "reads what it has set" $
    withTcpPair $ \s _ -> do
      forM_ [True, False] $ \isOn -> do
        (setNoDelay s isOn >> getNoDelay s) `shouldReturn` isOn
        (setAddressReuse s isOn >> getAddressReuse s) `shouldReturn` isOn
        (setPortSharing s isOn >> getPortSharing s) `shouldReturn` isOn
      getKeepAlive s `shouldReturn` Nothing
      let times = defaultKeepAlive {keepAliveIdle = seconds 7, keepAliveProbes = 3}
      (setKeepAlive s (Just times) >> getKeepAlive s) `shouldReturn` Just times
      (setKeepAlive s Nothing >> getKeepAlive s) `shouldReturn` Nothing
      (setUnacknowledgedLimit s (milliseconds 1500) >> getUnacknowledgedLimit s) `shouldReturn` milliseconds 1500
      (setUnacknowledgedLimit s unlimited >> getUnacknowledgedLimit s) `shouldReturn` unlimited
      forM_ [DeliverFirst (seconds 3), ResetConnection, DeliverLater] $ \atClose ->
        (setAtClose s atClose >> getAtClose s) `shouldReturn` atClose
      (setSendBuffer s 20000 >> getSendBuffer s) `shouldReturn` 40000
      (setReceiveBuffer s 20000 >> getReceiveBuffer s) `shouldReturn` 40000
  it "names the function and the socket in errors" $
    withTcpPair $ \s _ -> do
      problem <- failsWith (setKeepAlive s (Just defaultKeepAlive {keepAliveIdle = seconds 0})) :: IO IOError
      show problem `shouldContain` "Millrace.Socket.Option.setKeepAlive"
      close s
      failsWith (setNoDelay s True) >>= (`shouldSatisfy` hasCode eBADF)
  it "shares a port among sockets" $ do
    let listening address = do
          s <- socket AF_INET Stream defaultProtocol
          setPortSharing s True
          bind s address
          s <$ listen s 10
    bracket (listening (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))) close $ \one ->
      bracket (getSocketName one >>= listening) close $ \other ->
        (==) <$> socketPort one <*> socketPort other `shouldReturn` True
  it "keeps IPv4 out of a socket for IPv6" $
    bracket (socket AF_INET6 Stream defaultProtocol) close $ \s -> do
      getOnlyIPv6 s `shouldReturn` False
      setOnlyIPv6 s True
      getOnlyIPv6 s `shouldReturn` True
  it "resets a connection and wakes who waits on it" $
    withTcpPair $ \here there -> do
      waiter <- start (recv here 10)
      pause 10000
      closeWithReset here
      within 5 "the waiter" (outcomeOf waiter) >>= (`shouldSatisfy` isErrno eBADF)
      failsWith (recv there 10) >>= (`shouldSatisfy` hasCode eCONNRESET)
      closeWithReset here
  describe "connectSending" $ do
    it "sends however much there is, and the connection goes on" $
      withListener $ \listener address -> forM_ [0, 1, 3000, 1000000] $ \size ->
        bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
          sender <- start (connectSending client address (bytesAt 0 size) >> shutdown client ShutdownSend)
          bracket (fst <$> accept listener) close $ \server -> do
            within 10 "receiving" (receiveStream server 65536 0) `shouldReturn` size
            sendAll server "answer"
          finish sender
          recv client 100 `shouldReturn` "answer"
    it "says that the peer refuses" $
      withListener $ \listener address -> do
        close listener
        bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
          outcome <- try (connectSending client address "x" >> recv client 1)
          outcome `shouldSatisfy` isErrno eCONNREFUSED
    it "has a deadline" $
      bracket (socket AF_INET Stream defaultProtocol) close $ \client -> withListener $ \listener address -> do
        soon <- deadlineAfter (milliseconds 50)
        failsWith (connectSendingBefore soon client address (bytesAt 0 30000000)) >>= (`shouldSatisfy` isDeadlineError)
        close listener
    it "puts bytes into the first packet, where both systems allow it" $ do
      unshare <- findExecutable "unshare"
      if isJust unshare then scenarioPassesIn networkOfItsOwn "fast-open" else pendingWith "unshare is not installed"
  where
    -- Without a user namespace where the kernel allows none: in a chroot, root needs none.
    networkOfItsOwn =
      [ "sh",
        "-c",
        "for way in -Urn -n; do unshare $way true 2>/dev/null && exec unshare $way sh -c '"
          ++ fastOpen
          ++ "' sh \"$@\"; done; exit 77",
        "sh"
      ]
    fastOpen = "ip link set lo up && echo 3 >/proc/sys/net/ipv4/tcp_fastopen || exit 77; exec \"$@\""
