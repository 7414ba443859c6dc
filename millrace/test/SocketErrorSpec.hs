-- | The errors of functions on sockets.
module SocketErrorSpec (spec) where

import Control.Exception (bracket)
import Control.Monad (void)
import Foreign.C.Error (eADDRINUSE, eBADF, eNAMETOOLONG, eNOENT)
import GHC.IO.Exception (IOException (ioe_filename))
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Millrace.Socket.Datagram as Datagram
import Millrace.Socket.File
import SocketSupport
import Support
import System.Posix.IO (closeFd)
import Test.Hspec

spec :: Spec
spec = do
  describe "errors say what was attempted on what" $ do
    it "connect" $ do
      address <- withListener (\_ address -> return address)
      problem <- failsWith (void (connectTo address)) :: IO IOError
      show problem `shouldContain` "Millrace.Socket.connect"
      show problem `shouldContain` show address
    it "connect to a Unix socket that is not there" $
      bracket (socket AF_UNIX Stream defaultProtocol) close $ \s -> do
        problem <- failsWith (connect s (SockAddrUnix "/nonexistent/socket"))
        problem `shouldSatisfy` hasCode eNOENT
        show problem `shouldContain` "/nonexistent/socket"
    it "bind, connect and sendTo with a name of a Unix socket that is too long" $
      bracket (socket AF_UNIX Datagram defaultProtocol) close $ \s -> do
        let tooLong = SockAddrUnix (replicate 109 'x')
            fails function action = do
              problem <- failsWith (void action)
              problem `shouldSatisfy` hasCode eNAMETOOLONG
              show problem `shouldContain` ("Millrace.Socket." ++ function ++ ":")
              show problem `shouldContain` show s
        fails "bind" (bind s tooLong)
        fails "bind" (bind s (SockAddrUnix ('\0' : replicate 108 'x')))
        fails "connect" (connect s tooLong)
        fails "Datagram.sendTo" (Datagram.sendTo s (bytesAt 0 1) tooLong)
    it "bind" $
      withListener $ \_ address -> bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
        problem <- failsWith (bind s address)
        problem `shouldSatisfy` hasCode eADDRINUSE
        show problem `shouldContain` show address
    it "recv and send of a closed socket" $
      withTcpPair $ \one _ -> do
        close one
        received <- failsWith (void (recv one 1)) :: IO IOError
        show received `shouldContain` ("Millrace.Socket.ByteString.recv: " ++ "invalid argument")
        show received `shouldContain` show one
        sent <- failsWith (sendAll one (bytesAt 0 1)) :: IO IOError
        show sent `shouldContain` "Millrace.Socket.ByteString.sendAll"
    it "sendFile of what is not open" $
      withUnixPair $ \one _ -> do
        problem <- failsWith (void (sendFile one 9999 0 1))
        problem `shouldSatisfy` hasCode eBADF
        ioe_filename problem `shouldBe` Just "file descriptor 9999"
    it "sendFile of what cannot be sent names the file, and else the socket" $
      withUnixPair $ \one other -> do
        folder <- openToRead "/"
        withFile' 1000 $ \file -> do
          let blamed of' = ioe_filename <$> failsWith (void (sendFile one of' 0 1))
          blamed folder `shouldReturn` Just ("file descriptor " ++ show folder)
          closeFd folder
          close other
          blamed file `shouldReturn` Just (show one)
          close one
          blamed file `shouldReturn` Just (show one)
    it "socketPort of a Unix socket" $
      withUnixPair $ \one _ -> do
        problem <- failsWith (void (socketPort one)) :: IO IOError
        show problem `shouldContain` "socketPort"
    it "name the function when the socket is closed" $ do
      s <- socket AF_INET Datagram defaultProtocol
      close s
      let fails name action = do
            problem <- failsWith (void action) :: IO IOError
            show problem `shouldContain` ("Millrace.Socket." ++ name ++ ":")
      fails "bind" (bind s (SockAddrInet 0 0))
      fails "listen" (listen s 1)
      fails "getSocketName" (getSocketName s)
      fails "getPeerName" (getPeerName s)
      fails "getSocketOption" (getSocketOption s ReuseAddr)
      fails "setSocketOption" (setSocketOption s Linger 1)
      fails "hasEnded" (hasEnded s)
      fails "socketToFd" (socketToFd s)
      fails "Datagram.recvFrom" (Datagram.recvFrom s 10)
      fails "Datagram.sendTo" (Datagram.sendTo s (bytesAt 0 1) (SockAddrInet 1 0))
      fails "ByteString.send" (send s (bytesAt 0 1))
      fails "ByteString.sendAll" (sendAll s (bytesAt 0 1))
