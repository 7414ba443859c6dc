{-# LANGUAGE OverloadedStrings #-}

-- | Other clients and servers: OpenSSL, curl, GnuTLS, Python, Go, Node, Java and nginx. Tests of those that are not
-- installed are pending.
module PeerSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.List (isInfixOf, stripPrefix)
import Data.Maybe (mapMaybe)
import Millrace.Deadline (deadlineAfter)
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    SocketType (..),
    accept,
    connect,
    defaultProtocol,
    socket,
    socketPort,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import Millrace.Tls
import Support
import System.Directory (createDirectory, doesFileExist)
import System.Exit (ExitCode (..))
import System.IO
import System.IO.Error (tryIOError)
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Folder (freePort, missing)
import Text.Read (readMaybe)

spec :: SpecWith Credentials
spec = do
  describe "that is a client" $ do
    forM_ ["-tls1_2", "-tls1_3"] $ \version ->
      it ("openssl s_client " ++ version) $ \credentials ->
        answering credentials "openssl" (\port -> clientOfOpenssl credentials port ++ ["-quiet", version])
    forM_ ["1.2", "1.3"] $ \version ->
      it ("curl, TLS " ++ version) $ \credentials ->
        withHttp credentials $ \port -> do
          (code, output, problems) <-
            readProcessWithExitCode
              "curl"
              [ "--silent",
                "--show-error",
                "--ipv4",
                "--cacert",
                certificateFile credentials "root",
                "--tls-max",
                version,
                "https://localhost:"
                  ++ show port
                  ++ "/"
              ]
              ""
          (code, output, problems) `shouldBe` (ExitSuccess, "hello", "")
    it "curl, which refuses another name" $ \credentials -> do
      missing "curl" >>= mapM_ pendingWith
      refused credentials "other" $ \port -> do
        (code, _, _) <-
          readProcessWithExitCode
            "curl"
            [ "--silent",
              "--ipv4",
              "--cacert",
              certificateFile credentials "root",
              "https://localhost:" ++ show port ++ "/"
            ]
            ""
        code `shouldBe` ExitFailure 60
    forM_ ["NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"] $ \priority ->
      it ("gnutls-cli " ++ priority) $ \credentials ->
        answering
          credentials
          "gnutls-cli"
          ( \port ->
              ["--x509cafile", certificateFile credentials "root", "--priority", priority, "-p", show port, "localhost"]
          )
    it "Python" $ \credentials ->
      answering
        credentials
        "python3"
        (\port -> ["test/peers/peer.py", "client", show port, certificateFile credentials "root"])
    it "Go" $ \credentials -> withGo credentials $ \program ->
      answering credentials program (\port -> ["client", show port, certificateFile credentials "root"])
    it "Node" $ \credentials ->
      answering credentials "node" (\port -> ["test/peers/peer.js", show port, certificateFile credentials "root"])
    it "Java" $ \credentials ->
      answering credentials "java" (\port -> ["test/peers/Peer.java", show port, certificateFile credentials "root"])
    it "openssl s_client, which changes its keys and wants us to" $ \credentials ->
      commanding credentials "-tls1_3" ["K\n", "question\n"] $ \outcome ->
        outcome `shouldSatisfy` either (const False) (== "question\n")
    it "openssl s_client, which may not renegotiate" $ \credentials ->
      commanding credentials "-tls1_2" ["R\n", "question\n"] $ \outcome ->
        outcome `shouldSatisfy` either (const True) (const False)
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

-- Go's peer is compiled once.
withGo :: Credentials -> (FilePath -> IO ()) -> IO ()
withGo credentials use = do
  missing "go" >>= mapM_ pendingWith
  let program = fileOf credentials "peer-go"
  exists <- doesFileExist program
  unless exists $ callProcess "go" ["build", "-o", program, "test/peers/peer.go"]
  use program

clientOfOpenssl :: Credentials -> Int -> [String]
clientOfOpenssl credentials port =
  [ "s_client",
    "-connect",
    "127.0.0.1:"
      ++ show port,
    "-servername",
    "localhost",
    "-CAfile",
    certificateFile credentials "root"
  ]
    ++ ["-verify_return_error", "-verify_hostname", "localhost"]

-- A server for one client.
serving :: Credentials -> String -> (Connection -> IO ()) -> (Int -> IO a) -> IO (Either SomeException (), a)
serving credentials name serve use = do
  context <- contextOf credentials [name] id
  withListener $ \listener _ -> do
    port <- socketPort listener
    job <- start . bracket (fst <$> accept listener) Socket.close $ \peer -> do
      deadline <- deadlineAfter 10000000
      bracket (serverHandshakeBefore deadline context peer) (`gracefulClose` 1000) serve
    result <- within 20 "the client" (use (fromIntegral port))
    outcome <- try (within 20 "the server" (finish job))
    return (outcome, result)

-- A client that sends a question, and prints the answer.
answering :: Credentials -> String -> (Int -> [String]) -> IO ()
answering credentials program arguments = do
  missing program >>= mapM_ pendingWith
  (outcome, (_, output, problems)) <-
    serving credentials "server" serve (\port -> readProcessWithExitCode program (arguments port) "question\n")
  either throwIO return outcome
  (output ++ problems) `shouldSatisfy` isInfixOf "answer to question"
  where
    serve connection = do
      question <- receiveLine connection
      sendAll connection ("answer to " <> question)

receiveLine :: Connection -> IO ByteString
receiveLine connection = do
  bytes <- recv connection 1000
  if Char8.null bytes || Char8.last bytes == '\n' then return bytes else (bytes <>) <$> receiveLine connection

withHttp :: Credentials -> (Int -> IO ()) -> IO ()
withHttp credentials use = do
  missing "curl" >>= mapM_ pendingWith
  (outcome, ()) <- serving credentials "server" serve use
  either throwIO return outcome
  where
    serve connection = do
      _ <- receiveHead connection ""
      sendAll connection "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    receiveHead connection earlier
      | "\r\n\r\n" `Char8.isSuffixOf` earlier = return earlier
      | otherwise = recv connection 1000 >>= receiveHead connection . (earlier <>)

-- The client refuses the server's certificate, and sends no question.
refused :: Credentials -> String -> (Int -> IO ()) -> IO ()
refused credentials name use = do
  (outcome, ()) <- serving credentials name (\connection -> receiveLine connection `shouldReturn` "") use
  -- The client may check the name after the handshake.
  problemOf outcome `shouldSatisfy` (`elem` [Nothing, Just RefusedByPeer, Just Truncated])

-- Types lines into s_client, which takes some letters for commands. The last argument checks the bytes that the server
-- received.
commanding :: Credentials -> String -> [String] -> (Either SomeException ByteString -> IO ()) -> IO ()
commanding credentials version typed check = do
  missing "openssl" >>= mapM_ pendingWith
  context <- contextOf credentials ["server"] id
  withListener $ \listener _ -> do
    port <- socketPort listener
    let command =
          (proc "openssl" (clientOfOpenssl credentials (fromIntegral port) ++ [version]))
            { std_in =
                CreatePipe,
              std_out = CreatePipe,
              std_err = CreatePipe
            }
    withCreateProcess command $ \input output problems process -> do
      job <- start . bracket (fst <$> accept listener) Socket.close $ \peer ->
        bracket (serverHandshake context peer) close $ \connection -> do
          sendAll connection "ready\n"
          received <- receiveLine connection
          sendAll connection "answer\n"
          return received
      forM_ output $ \from -> start (hGetContents from >>= evaluate . length)
      forM_ problems $ \from -> start (hGetContents from >>= evaluate . length)
      threadDelay 200000
      forM_ input $ \to -> forM_ typed $ \line -> (hPutStr to line >> hFlush to >> threadDelay 200000) `catch` ignore
      outcome <- try (within 10 "the server" (finish job))
      forM_ input $ \to -> hClose to `catch` ignore
      terminateProcess process
      check outcome
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()

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
