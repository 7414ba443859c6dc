-- | Sockets: connecting, accepting, options, names and ends.
module SocketSpec (spec) where

import Control.Exception (bracket, finally)
import Control.Monad (forM_, forever, replicateM, replicateM_, void)
import Data.List (sort)
import Data.Word (Word64)
import Foreign.C.Error (eBADF, eNAMETOOLONG)
import Foreign.C.Types (CInt (..))
import GHC.IO.Encoding (getFileSystemEncoding, mkTextEncoding, setFileSystemEncoding)
import Millrace.Deadline
import Millrace.Socket
import Millrace.Socket.ByteString
import qualified Network.Socket as Network
import SocketSupport
import Support
import System.Directory (doesPathExist, removeFile)
import Test.Hspec

spec :: Spec
spec = do
  describe "Millrace.Socket" $ do
    it "talks over IPv4" $ conversation (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) AF_INET
    it "talks over IPv6" $ conversation (SockAddrInet6 0 0 (0, 0, 0, 1) 0) AF_INET6
    it "talks over Unix sockets" $ withPath "socket" $ \path -> conversation (SockAddrUnix path) AF_UNIX
    it "names Unix sockets as other files are named, byte for byte" $
      bracket getFileSystemEncoding setFileSystemEncoding $ \_ -> do
        mkTextEncoding "UTF-8//ROUNDTRIP" >>= setFileSystemEncoding
        -- The last one is a byte that is not UTF-8.
        forM_ ["s\246ck", "\8364", "\xDCFF"] $ \name ->
          withPath name $ \path -> bracket (socket AF_UNIX Datagram defaultProtocol) close $ \there -> do
            bind there (SockAddrUnix path)
            doesPathExist path `shouldReturn` True
            getSocketName there `shouldReturn` SockAddrUnix path
            conversation (SockAddrUnix (path ++ "2")) AF_UNIX `finally` removeFile (path ++ "2")
        let tooLong = SockAddrUnix (replicate 60 '\246')
        bracket (socket AF_UNIX Stream defaultProtocol) close (\s -> failsWith (bind s tooLong))
          >>= (`shouldSatisfy` hasCode eNAMETOOLONG)
    it "takes IPv4 connections on an IPv6 socket" $
      bracket (socket AF_INET6 Stream defaultProtocol) close $ \listener -> do
        bind listener (SockAddrInet6 0 0 (0, 0, 0, 0) 0)
        listen listener 10
        port <- socketPort listener
        bracket (connectTo (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))) close $ \_ ->
          bracket (accept listener) (close . fst) $ \(_, peer) -> case peer of
            SockAddrInet6 _ _ host _ -> hostAddress6ToTuple host `shouldBe` (0, 0, 0, 0, 0, 0xffff, 0x7f00, 1)
            other -> expectationFailure (show other)
    it "openSocket creates what getAddrInfo found" $ do
      let hints = defaultHints {addrFlags = [AI_PASSIVE, AI_NUMERICHOST], addrSocketType = Stream}
      infos <- getAddrInfo (Just hints) (Just "127.0.0.1") (Just "0") :: IO [AddrInfo]
      forM_ infos $ \info -> bracket (openSocket info) close $ \s -> do
        bind s (addrAddress info)
        socketPort s >>= (`shouldSatisfy` (/= 0))
    it "names both ends" $
      withListener $ \listener address -> bracket (connectTo address) close $ \client ->
        bracket (accept listener) (close . fst) $ \(server, peer) -> do
          getSocketName client `shouldReturn` peer
          getPeerName client `shouldReturn` address
          getSocketName server `shouldReturn` address
          getPeerName server `shouldReturn` peer
    it "acceptNow takes what has come, and does not wait" $
      withListener $ \listener address -> do
        fmap snd <$> acceptNow listener `shouldReturn` Nothing
        bracket (replicateM 3 (connectTo address)) (mapM_ close) $ \clients -> do
          names <- mapM getSocketName clients
          let takeOne = bracket (acceptNow listener) (mapM_ (close . fst)) (return . fmap snd)
          (taken, behind) <- splitAt 3 <$> replicateM 4 takeOne
          -- On two processors the kernel may finish the handshakes in another order.
          (sort taken, behind) `shouldBe` (sort (map Just names), [Nothing])
        waiting <- start (accept listener)
        pause 20000
        fmap snd <$> acceptNow listener `shouldReturn` Nothing
        bracket (connectTo address) close $ \client -> do
          name <- getSocketName client
          bracket (within 5 "the accept" (finish waiting)) (close . fst) ((`shouldBe` name) . snd)
        close listener
        failsWith (acceptNow listener) >>= (`shouldSatisfy` hasCode eBADF)
    it "names both ends of Unix sockets that are in no file system" $
      withAbstractSockets Stream $ \listener address client from -> do
        listen listener 1
        connect client address
        bracket (accept listener) (close . fst) $ \(server, peer) -> do
          peer `shouldBe` from
          getSocketName client `shouldReturn` from
          getPeerName client `shouldReturn` address
          getSocketName server `shouldReturn` address
          getPeerName server `shouldReturn` from
    it "sets and reads options" $
      withTcpPair $ \one _ -> do
        forM_ [NoDelay, KeepAlive, ReuseAddr, ReusePort] $ \option -> do
          setSocketOption one option 1
          getSocketOption one option >>= (`shouldSatisfy` (/= 0))
          setSocketOption one option 0
          getSocketOption one option `shouldReturn` 0
        setSocketOption one SendBuffer 50000
        getSocketOption one SendBuffer >>= (`shouldSatisfy` (>= 50000))
    it "is quiet until its peer sends something, or ends" $ do
      withTcpPair $ \one other -> do
        isQuiet one `shouldReturn` True
        sendAll other (bytesAt 0 1)
        becomesTrue 5000 (not <$> isQuiet one) `shouldReturn` True
      withTcpPair $ \one other -> do
        shutdown other ShutdownSend
        becomesTrue 5000 (not <$> isQuiet one) `shouldReturn` True
    it "takes numbers that are larger than the system's for large ones" $
      withTcpPair $ \one _ -> do
        setSocketOption one SendBuffer 100000
        usual <- getSocketOption one SendBuffer
        setSocketOption one SendBuffer (2 ^ (32 :: Int) + 1)
        getSocketOption one SendBuffer >>= (`shouldSatisfy` (>= usual))
        setSocketOption one Linger (2 ^ (32 :: Int) + 1)
        getSocketOption one Linger >>= (`shouldSatisfy` (> 1))
    it "knows of the peer's end and of a reset, and takes nothing in the queue of errors for one" $ do
      withTcpPair $ \one other -> do
        setSockOpt one timestamping ofSending
        sendAll one (bytesAt 0 1)
        pause 20000
        hasEnded one `shouldReturn` False
        shutdown other ShutdownSend
        becomesTrue 5000 (hasEnded one) `shouldReturn` True
      withTcpPair $ \one other -> do
        setSockOpt other Linger (Network.StructLinger 1 0)
        close other
        becomesTrue 5000 (hasEnded one) `shouldReturn` True
    it "lingers for the time of the option" $
      withTcpPair $ \one _ -> forM_ [0, 7, 0] $ \time -> do
        setSocketOption one Linger time
        getSocketOption one Linger `shouldReturn` time
    it "reads and sets options of any type" $
      withTcpPair $ \one _ -> do
        setSockOpt one NoDelay (1 :: CInt)
        getSockOpt one NoDelay `shouldReturn` (1 :: CInt)
        getSocketOption one NoDelay `shouldReturn` 1
        -- struct linger
        setSockOpt one Linger (7 * 0x100000000 + 1 :: Word64)
        getSocketOption one Linger `shouldReturn` 7
    it "is closed by exec, and does not block" $
      withTcpPair $ \one _ -> withFdSocket one $ \number -> do
        Network.getNonBlock number `shouldReturn` True
        Network.getCloseOnExec number `shouldReturn` True
    it "knows its type, and whether it has a port" $
      withTcpPair $ \one _ -> withUnixPair $ \this _ -> do
        mapM getSocketType [one, this] `shouldReturn` [Stream, Stream]
        port <- socketPort one
        mapM socketPortSafe [one, this] `shouldReturn` [Just port, Nothing]
    it "gracefulClose ends in time also if the peer never stops talking" $
      withUnixPair $ \one other -> do
        talker <- start (forever (sendAll other (bytesAt 0 1000)))
        within 10 "the close" (gracefulClose one 200)
        void (failsWith (finish talker) :: IO IOError)
    it "gracefulClose delivers everything and waits for the peer" $
      withTcpPair $ \one other -> do
        reader <- start (pause 30000 >> receiveStream other 5000 0 >>= \n -> close other >> return n)
        void (sendStream one 0 50000)
        within 5 "the close" (gracefulClose one 3000)
        finish reader `shouldReturn` 50000
        problem <- failsWith (void (recv one 10))
        problem `shouldSatisfy` hasCode eBADF
    it "gracefulClose waits for the peer although a deadline of the socket has passed" $
      withTcpPair $ \one other -> do
        deadlineAfter (seconds 0) >>= setReadDeadline one
        timesOut (recv one 10)
        closer <- start (gracefulClose one 5000)
        pause 50000
        isOver closer `shouldReturn` False
        close other
        within 3 "the close" (finish closer)
    it "gracefulClose does not wait longer than it may" $
      withTcpPair $ \one _ ->
        within 3 "the close" (gracefulClose one 50)
    it "connectBefore gives up at its deadline" $
      withPath "full" $ \path ->
        -- A Unix listener that accepts no connection: its queue is soon full, and a connect then waits.
        bracket (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
          bind listener (SockAddrUnix path)
          listen listener 0
          problem <- failsWith $
            replicateM_ 5 $ do
              s <- socket AF_UNIX Stream defaultProtocol
              deadline <- deadlineAfter (milliseconds 50)
              connectBefore deadline s (SockAddrUnix path)
          problem `shouldSatisfy` isDeadlineError
          show problem `shouldContain` "Millrace.Socket.connect"
    it "shows and compares sockets" $
      withTcpPair $ \one other -> do
        one `shouldBe` one
        one `shouldNotBe` other
        show one `shouldContain` "<socket: "

conversation :: SockAddr -> Family -> IO ()
conversation address family = withoutLeaks $
  bracket (socket family Stream defaultProtocol) close $ \listener -> do
    bind listener address
    listen listener 10
    name <- getSocketName listener
    server <- start $ bracket (fst <$> accept listener) close $ \s -> receiveExactly s 0 100000 >> sendStream s 0 50000
    bracket (socket family Stream defaultProtocol) close $ \client -> do
      connect client name
      void (sendStream client 0 100000)
      receiveStream client 3000 0 `shouldReturn` 50000
    void (finish server)

-- SO_TIMESTAMPING. The queue then has an entry for what was sent.
timestamping :: SocketOption
timestamping = SockOpt 1 37

-- SOF_TIMESTAMPING_TX_SOFTWARE, ..._SOFTWARE, ..._OPT_ID and ..._OPT_TSONLY.
ofSending :: CInt
ofSending = 0x2 + 0x10 + 0x80 + 0x800
