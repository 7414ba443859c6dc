{-# LANGUAGE OverloadedStrings #-}

-- | Servers of others: OpenSSL, GnuTLS, Python, Go and nginx. Tests of those that are not installed are
-- pending.
module PeerServerSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import Data.List (stripPrefix)
import Data.Maybe (mapMaybe)
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    SocketType (..),
    connect,
    defaultProtocol,
    socket,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import Millrace.Tls
import PeerSupport
import Support
import System.Directory (createDirectory)
import System.IO
import System.IO.Error (tryIOError)
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Folder (freePort, missing)
import Text.Read (readMaybe)

spec :: SpecWith Credentials
spec = do
  describe "that is a server" $ do
    forM_ ["-tls1_2", "-tls1_3"] $ \version ->
      it ("openssl s_server " ++ version) $ \credentials ->
        asking
          credentials
          "openssl"
          [ "s_server",
            "-accept",
            "127.0.0.1:0",
            "-cert",
            certificateFile credentials "server",
            "-key",
            keyFile credentials "server",
            "-rev",
            "-naccept",
            "1",
            version
          ]
    it "gnutls-serv" $ \credentials -> do
      port <- freePort
      askingOn
        port
        credentials
        "gnutls-serv"
        [ "--echo",
          "--port",
          show port,
          "--x509certfile",
          certificateFile credentials "server",
          "--x509keyfile",
          keyFile
            credentials
            "server"
        ]
        "question\n"
    it "Python" $ \credentials ->
      asking
        credentials
        "python3"
        ["test/peers/peer.py", "server", certificateFile credentials "server", keyFile credentials "server"]
    it "Go" $ \credentials -> withGo credentials $ \program ->
      asking credentials program ["server", certificateFile credentials "server", keyFile credentials "server"]

  describe "that is a server to refuse" $
    forM_ refusals $ \(name, problem) -> do
      it ("openssl s_server, " ++ name) $ \credentials ->
        refusing
          credentials
          name
          problem
          "openssl"
          [ "s_server",
            "-accept",
            "127.0.0.1:0",
            "-cert",
            fileOf
              credentials
              (name ++ ".pem"),
            "-key",
            keyFile credentials name
          ]
      it ("Go, " ++ name) $ \credentials -> withGo credentials $ \program ->
        refusing
          credentials
          name
          problem
          program
          ["server", certificateFile credentials name, keyFile credentials name]
      it ("nginx, " ++ name) $ \credentials -> do
        missing "nginx" >>= mapM_ pendingWith
        port <- freePort
        let folder = fileOf credentials ("nginx-" ++ name)
        createDirectory folder
        writeFile
          (folder ++ "/nginx.conf")
          (nginxConfiguration folder port (certificateFile credentials name) (keyFile credentials name))
        withCreateProcess
          (proc "nginx" ["-p", folder, "-e", "stderr", "-c", folder ++ "/nginx.conf"]) {std_err = CreatePipe}
          $ \_ _ _ process ->
            do
              outcome <- within 20 "the refusal" (whenItListens (handshakeWith credentials name port))
              refusalOf outcome `shouldBe` Just problem
              terminateProcess process
              void (waitForProcess process)

-- Certificates that a client must refuse, with the reason.
refusals :: [(String, CertificateProblem)]
refusals =
  [ ("other", WrongName),
    ("expired", Expired),
    ("future", NotYetValid),
    ("alone", SelfSigned),
    ("client", WrongPurpose),
    ("revoked", Revoked)
  ]

-- A server that prints its port has this certificate. The client must refuse it for this reason.
refusing :: Credentials -> String -> CertificateProblem -> String -> [String] -> IO ()
refusing credentials name problem program arguments = do
  missing program >>= mapM_ pendingWith
  withCreateProcess (proc program arguments) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe} $
    \_ output _ process ->
      do
        port <- maybe (ioError (userError "no output")) (within 20 "the port" . findPort) output
        outcome <- handshakeWith credentials name port
        refusalOf outcome `shouldBe` Just problem
        terminateProcess process

-- The client trusts the root. It uses the revocation list only in the test of revocation.
handshakeWith :: Credentials -> String -> Int -> IO (Either TlsException ())
handshakeWith credentials name port = do
  let trust =
        (rootTrust credentials) {trustRevocationLists = [PemFile (fileOf credentials "root.crl") | name == "revoked"]}
  context <- newClientContext (trusting trust)
  bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \raw -> do
    connect raw (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
    try (within 10 "the handshake" (bracket (clientHandshake context "localhost" raw) close (const (return ()))))

refusalOf :: Either TlsException a -> Maybe CertificateProblem
refusalOf (Left TlsException {tlsProblem = CertificateRefused problem _}) = Just problem
refusalOf _ = Nothing

whenItListens :: IO a -> IO a
whenItListens action = tryIOError action >>= either (const (threadDelay 50000 >> whenItListens action)) return

nginxConfiguration :: FilePath -> Int -> FilePath -> FilePath -> String
nginxConfiguration folder port certificate key =
  unlines
    [ "daemon off; error_log stderr; pid nginx.pid; worker_processes 1; events { }",
      "http { access_log off; "
        ++ concat
          [kind ++ "_temp_path " ++ folder ++ "; " | kind <- ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]],
      "server { listen 127.0.0.1:"
        ++ show port
        ++ " ssl; ssl_certificate "
        ++ certificate
        ++ "; ssl_certificate_key "
        ++ key
        ++ "; } }"
    ]

-- A server that prints its port, and reverses lines.
asking :: Credentials -> String -> [String] -> IO ()
asking credentials program arguments = do
  missing program >>= mapM_ pendingWith
  withCreateProcess (proc program arguments) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe} $
    \_ output _ process ->
      do
        port <- maybe (ioError (userError "no output")) (within 20 "the port" . findPort) output
        ask credentials port `shouldReturn` "noitseuq\n"
        terminateProcess process

-- Asks a server that gets the port as an argument, and repeats lines.
askingOn :: Int -> Credentials -> String -> [String] -> ByteString -> IO ()
askingOn port credentials program arguments expected = do
  missing program >>= mapM_ pendingWith
  withCreateProcess (proc program arguments) {std_out = CreatePipe, std_err = CreatePipe} $ \_ _ _ process -> do
    answer <- within 20 "the answer" attempt
    answer `shouldBe` expected
    terminateProcess process
  where
    attempt = try (ask credentials port) >>= either again return
    again :: IOException -> IO ByteString
    again _ = threadDelay 50000 >> attempt

ask :: Credentials -> Int -> IO ByteString
ask credentials port = do
  context <- clientWith credentials id
  bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \raw -> do
    connect raw (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
    bracket (clientHandshake context "localhost" raw) close $ \connection -> do
      sendAll connection "question\n"
      within 10 "the answer" (receiveLine connection)

-- The first line that is a number, or that s_server has printed.
findPort :: Handle -> IO Int
findPort from = do
  line <- hGetLine from
  case mapMaybe readMaybe [line] ++ mapMaybe (stripPrefix "ACCEPT 127.0.0.1:" >=> readMaybe) [line] of
    port : _ -> return port
    [] -> findPort from
