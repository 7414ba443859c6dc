-- | The descriptors of sockets: taken over, shared, passed, and made handles.
module SocketDescriptorSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (replicateM_, void)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Builder.Extra (int32Host)
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Lazy (toStrict)
import Foreign.C.Error (eBADF, eNOMSG)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network
import Scenario (scenarioPasses)
import SocketSupport
import Support
import System.IO (BufferMode (NoBuffering), IOMode (ReadWriteMode), hClose, hGetLine, hPutStr, hSetBuffering)
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import Test.Hspec

spec :: Spec
spec = do
  describe "Millrace.Socket" $ do
    it "takes over a socket of the network package, connected or listening" takesOver
    it "shares a socket with the network package" shares
    it "takes over a descriptor" $ do
      number <- Network.socket AF_UNIX Stream defaultProtocol >>= Network.socketToFd
      bracket (fromDescriptor number) close $ \s -> withFdSocket s (`shouldBe` number)
    it "takes over descriptors of any number" $ scenarioPasses "high-descriptors"
    it "becomes a handle" $
      withUnixPair $ \one other -> do
        handle <- socketToHandle one ReadWriteMode
        hSetBuffering handle NoBuffering
        hPutStr handle "there\n"
        recv other 100 `shouldReturn` Char8.pack "there\n"
        sendAll other (Char8.pack "back\n")
        hGetLine handle `shouldReturn` "back"
        hClose handle
        recv other 100 `shouldReturn` ByteString.empty
        problem <- failsWith (void (recv one 10))
        problem `shouldSatisfy` hasCode eBADF
    it "knows who the peer is, and passes descriptors" $
      withUnixPair $ \one other -> do
        (process, _, _) <- getPeerCredential one
        self <- getProcessID
        process `shouldBe` Just (fromIntegral self)
        withUnixPair $ \this that -> do
          withFdSocket this (sendFd one)
          bracket (recvFd other >>= mkSocket) close $ \copy -> do
            sendAll copy (Char8.pack "passed on")
            recv that 100 `shouldReturn` Char8.pack "passed on"
    it "passes descriptors to the network package, and takes its own" $
      withUnixPair $ \one other -> withUnixPair $ \this _ -> do
        theirs <- socketToFd other >>= Network.mkSocket
        withFdSocket this $ \passed ->
          replicateM_ 2 (sendFd one passed >> Network.recvFd theirs >>= closeFd . fromIntegral)
        withFdSocket this $ \passed -> replicateM_ 2 (Network.sendFd theirs passed)
        replicateM_ 2 (recvFd one >>= closeFd . fromIntegral)
        Network.close theirs
    it "finds the descriptor behind what the system tells of the sender" $
      withUnixPair $ \one other -> do
        setSocketOption other (SockOpt 1 16) 1 -- SOL_SOCKET, SO_PASSCRED of Linux
        withFdSocket one (sendFd one)
        recvFd other >>= closeFd . fromIntegral
    it "keeps one descriptor of a message with several" $
      withPath "several" $ \path ->
        bracket (socket AF_UNIX Datagram defaultProtocol) close $ \here -> do
          bind here (SockAddrUnix path)
          bracket (Network.socket AF_UNIX Datagram defaultProtocol) Network.close $ \there -> do
            usual <- descriptorCount
            passed <- Network.withFdSocket there (pure . fromIntegral)
            -- SCM_RIGHTS. network's own function for it has another type since 3.2.
            let numbers = toStrict (toLazyByteString (foldMap int32Host [passed, passed, passed]))
                three = Network.Cmsg (Network.CmsgId 1 1) numbers
            void (Network.sendMsg there (SockAddrUnix path) [Char8.pack "x"] [three] mempty)
            recvFd here >>= closeFd . fromIntegral
            descriptorCount `shouldReturn` usual
    it "stops waiting for a descriptor at a deadline, and when the socket is closed" $
      withUnixPair $ \one other -> do
        late <- start (failsWith (recvFd one))
        pause 20000
        deadlineAfter (seconds 0) >>= setReadDeadline one
        within 5 "the deadline" (finish late) >>= (`shouldSatisfy` isDeadlineError)
        setReadDeadline one noDeadline
        waiting <- start (failsWith (recvFd one))
        pause 20000
        close one
        within 5 "the close" (finish waiting) >>= (`shouldSatisfy` hasCode eBADF)
        recv other 1 `shouldReturn` ByteString.empty
    it "says so when no descriptor comes" $
      withUnixPair $ \one other -> do
        sendAll other (Char8.pack "bytes")
        failsWith (recvFd one) >>= (`shouldSatisfy` hasCode eNOMSG)
        close other
        failsWith (recvFd one) >>= (`shouldSatisfy` hasCode eNOMSG)

shares :: IO ()
shares = withoutLeaks $ do
  theirs <- Network.socket AF_INET Stream defaultProtocol
  Network.bind theirs (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  Network.listen theirs 10
  bracket (duplicateNetworkSocket theirs) close $ \ours -> do
    address <- Network.getSocketName theirs
    getSocketName ours `shouldReturn` address
    bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
      connect client address
      bracket (fst <$> accept ours) close $ \server -> do
        void (sendStream client 0 1000)
        receiveExactly server 0 1000 `shouldReturn` 1000
  -- Closing ours has not closed theirs.
  void (Network.getSocketName theirs)
  Network.close theirs
  duplicateNetworkSocket theirs `shouldThrow` anyIOException

takesOver :: IO ()
takesOver = withoutLeaks $ do
  old <- Network.socket AF_INET Stream defaultProtocol
  Network.bind old (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  Network.listen old 10
  bracket (fromNetworkSocket old) close $ \listener -> do
    address <- getSocketName listener
    peer <- Network.socket AF_INET Stream defaultProtocol
    Network.connect peer address
    bracket (fst <$> accept listener) close $ \server -> bracket (fromNetworkSocket peer) close $ \client -> do
      void (sendStream client 0 1000)
      receiveExactly server 0 1000 `shouldReturn` 1000
    Network.sendAll peer (bytesAt 0 1) `shouldThrow` anyIOException
