{-# LANGUAGE OverloadedStrings #-}

-- | Proxies, by the manager's settings and by the environment: one of ours, which can be wrong, and tinyproxy.
module ProxySpec (spec) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls (newServerContext, serverSettings)
import Network.HTTP.Client hiding (port)
import Network.HTTP.Client.Millrace
import Support
import System.Environment (setEnv, unsetEnv)
import System.IO.Error (ioeGetErrorString)
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Credentials (Credentials, fileOf)
import TestSupport.Folder (missing)
import TestSupport.Time (within)

spec :: SpecWith Credentials
spec = do
  it "gets http through a proxy" $ \credentials -> do
    seen <- newIORef []
    withServer (const (proxying seen)) $ \proxyAt -> do
      manager <- through credentials proxyAt
      get manager "http://nobody.test/path" `shouldReturn` "from the proxy"
      readIORef seen `shouldReturn` ["GET http://nobody.test/path HTTP/1.1"]
  it "gets https through a proxy's tunnel, and verifies the server behind it" $ \credentials -> do
    seen <- newIORef []
    withSecured credentials "server" $ \port -> withServer (const (proxying seen)) $ \proxyAt -> do
      manager <- through credentials proxyAt
      get manager ("https://localhost:" ++ show port ++ "/") `shouldReturn` "secured"
      get manager ("https://localhost:" ++ show port ++ "/") `shouldReturn` "secured"
      readIORef seen `shouldReturn` [Char8.pack ("CONNECT localhost:" ++ show port ++ " HTTP/1.1")]
    withSecured credentials "other" $ \port -> withServer (const (proxying seen)) $ \proxyAt -> do
      manager <- through credentials proxyAt
      outcome <- try (get manager ("https://localhost:" ++ show port ++ "/"))
      tlsProblemOf outcome `shouldSatisfy` (/= Nothing)
  it "is told when the proxy refuses, and closes the connection" $ \credentials -> do
    ended <- newEmptyMVar
    withServer
      ( \_ peer ->
          receiveHead (plainWire peer)
            >> Plain.sendAll peer "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
            >> Plain.recv peer 100
            >>= putMVar ended
      )
      $ \proxyAt ->
        do
          manager <- through credentials proxyAt
          outcome <- try (get manager "https://localhost:1/")
          case contentOf outcome of
            Just ProxyConnectException {} -> return ()
            _ -> expectationFailure (show outcome)
          within 10 "the proxy's end" (takeMVar ended) `shouldReturn` ""
  it "takes nothing from a proxy that says more than an answer" $ \credentials ->
    withServer
      ( \_ peer ->
          receiveHead (plainWire peer)
            >> Plain.sendAll peer "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
            >> void (Plain.recv peer 100)
      )
      $ \proxyAt ->
        do
          manager <- through credentials proxyAt
          outcome <- try (get manager "https://localhost:1/")
          fmap ioeGetErrorString (networkProblemOf outcome)
            `shouldBe` Just "the proxy has sent more than an answer to CONNECT"
  it "finds the proxy in the environment" $ \credentials -> do
    seen <- newIORef []
    withServer (\_ peer -> serveRequests (plainWire peer) (const (return "direct"))) $ \port ->
      withSecured credentials "server" $ \secured -> withServer (const (proxying seen)) $ \proxyAt -> do
        let address = "http://127.0.0.1:" ++ show proxyAt
        settings <- newMillraceManagerSettings (trusting credentials "root")
        manager <-
          withVariables
            [("http_proxy", address), ("https_proxy", address), ("no_proxy", "127.0.0.1")]
            (newManager settings)
        get manager "http://nobody.test/" `shouldReturn` "from the proxy"
        get manager ("https://localhost:" ++ show secured ++ "/") `shouldReturn` "secured"
        get manager ("http://127.0.0.1:" ++ show port ++ "/") `shouldReturn` "direct"
  it "gets http and https through tinyproxy" $ \credentials -> do
    missing "tinyproxy" >>= mapM_ pendingWith
    withServer (\_ peer -> serveRequests (plainWire peer) (const (return "plain"))) $ \port ->
      withSecured credentials "server" $ \secured -> withTinyproxy credentials $ \proxyAt -> do
        manager <- through credentials proxyAt
        get manager ("http://127.0.0.1:" ++ show port ++ "/") `shouldReturn` "plain"
        get manager ("https://localhost:" ++ show secured ++ "/") `shouldReturn` "secured"
        get manager ("https://localhost:" ++ show secured ++ "/") `shouldReturn` "secured"

through :: Credentials -> Int -> IO Manager
through credentials port = do
  settings <- newMillraceManagerSettings (trusting credentials "root")
  newManager (managerSetProxy (useProxy (Proxy "127.0.0.1" port)) settings)

withSecured :: Credentials -> String -> (Int -> IO a) -> IO a
withSecured credentials name use = do
  context <- identity credentials name >>= newServerContext . serverSettings
  withTlsServer context (\_ connection -> serveRequests (tlsWire connection) (const (return "secured"))) use

-- Answers requests itself, and makes tunnels to this machine.
proxying :: IORef [ByteString] -> Socket -> IO ()
proxying seen peer = receiveHead wire >>= mapM_ answer
  where
    wire = plainWire peer
    answer request = do
      let line = Char8.takeWhile (/= '\r') request
      atomicModifyIORef' seen (\earlier -> (earlier ++ [line], ()))
      case Char8.words line of
        ["CONNECT", target, _] ->
          tunnel (read (Char8.unpack (ByteString.drop 1 (Char8.dropWhile (/= ':') target))) :: Int)
        _ -> answerWith wire "from the proxy" >> proxying seen peer
    tunnel port = bracket (socket AF_INET Stream defaultProtocol) close $ \other -> do
      connect other (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
      Plain.sendAll peer "HTTP/1.1 200 Connection established\r\n\r\n"
      done <- newEmptyMVar
      _ <- forkIO (copy other peer `finally` putMVar done ())
      copy peer other
      takeMVar done
    copy from to = do
      bytes <- Plain.recv from 16384 `catch` ended
      if ByteString.null bytes then shutdown to ShutdownSend `catch` ignore else Plain.sendAll to bytes >> copy from to
    ended :: IOException -> IO ByteString
    ended _ = return ""
    ignore :: IOException -> IO ()
    ignore _ = return ()

withVariables :: [(String, String)] -> IO a -> IO a
withVariables variables = bracket_ (mapM_ (uncurry setEnv) variables) (mapM_ (unsetEnv . fst) variables)

withTinyproxy :: Credentials -> (Int -> IO a) -> IO a
withTinyproxy credentials use = do
  port <- withServer (\_ _ -> return ()) return
  let file = fileOf credentials "tinyproxy.conf"
  writeFile
    file
    ( unlines
        [ "Port "
            ++ show port,
          "Listen 127.0.0.1",
          "Timeout 60",
          "MaxClients 10",
          "LogFile \""
            ++ fileOf credentials "tinyproxy.log"
            ++ "\""
        ]
    )
  withCreateProcess (proc "tinyproxy" ["-d", "-c", file]) {std_out = CreatePipe, std_err = CreatePipe} $
    \_ _ _ process ->
      (threadDelay 100000 >> waitFor port (200 :: Int) >> use port)
        `finally` (terminateProcess process >> waitForProcess process)
  where
    waitFor port left = do
      outcome <-
        try
          ( bracket
              (socket AF_INET Stream defaultProtocol)
              close
              (`connect` SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
          )
      case outcome of
        Right () -> return ()
        Left problem
          | left == 0 -> throwIO (problem :: IOException)
          | otherwise -> threadDelay 50000 >> waitFor port (left - 1)
