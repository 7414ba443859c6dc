{-# LANGUAGE OverloadedStrings #-}

-- | Requests over TLS, and each reason to refuse a server.
module TlsSpec (spec) where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import qualified Data.ByteString.Char8 as Char8
import qualified Millrace.Socket as Socket
import Millrace.Tls hiding (close)
import qualified Millrace.Tls as Tls
import Network.HTTP.Client (Manager, newManager)
import Network.HTTP.Client.Millrace
import Support
import System.Directory (createDirectory)
import System.Process
import Test.Hspec hiding (context)
import TestSupport.Credentials (Credentials, certificateFile, fileOf, keyFile)
import TestSupport.Folder (missing)
import TestSupport.Time (within)

spec :: SpecWith Credentials
spec = do
  forM_ ["localhost", "127.0.0.1"] $ \host ->
    it ("asks " ++ host ++ ", tells the name and the protocol, and keeps the connection") $ \credentials -> do
      told <- newEmptyMVar
      context <- contextOf credentials "server" (\settings -> settings {serverProtocols = ["h2", "http/1.1"]})
      withTlsServer context (\number connection -> putMVar told (negotiated connection) >> serving number connection) $
        \port ->
          do
            manager <- managerWith (trusting credentials "root")
            let url = "https://" ++ host ++ ":" ++ show port
            get manager url `shouldReturn` "connection 1"
            found <- takeMVar told
            negotiatedProtocol found `shouldBe` Just "http/1.1"
            negotiatedServerName found `shouldBe` (if host == "localhost" then Just "localhost" else Nothing)
            get manager url `shouldReturn` "connection 1"
  describe "refuses" $ do
    it "a server with another name" $ \credentials ->
      refuses credentials "other" (trusting credentials "root") (`shouldSatisfy` isRefusal WrongName)
    it "a server of an unknown authority" $ \credentials ->
      refuses credentials "server" (trusting credentials "stranger") (`shouldSatisfy` isRefusal UnknownAuthority)
    it "a server that the system does not know" $ \credentials ->
      refuses credentials "server" defaultSettings (`shouldSatisfy` isRefusal UnknownAuthority)
    it "a server that speaks plain HTTP" $ \credentials ->
      withServer
        (\_ peer -> wireReceive (plainWire peer) >> wireSend (plainWire peer) "HTTP/1.1 400 Bad Request\r\n\r\n")
        $ \port ->
          do
            manager <- managerWith (trusting credentials "root")
            outcome <- try (within 20 "the refusal" (getQuickly manager port))
            tlsProblemOf outcome `shouldBe` Just (NotTls SomethingElse)
    it "settings that cannot be used, before the first request" $ \_ ->
      newMillraceManagerSettings
        defaultSettings
          { tlsSettings =
              clientSettings {clientVerification = Verify (trustIn (PemBytes "nothing"))}
          }
        `shouldThrow` ((== NoCertificate) . settingsProblem)
  it "uses the settings without a parameter" $ \credentials -> do
    context <- contextOf credentials "server" id
    withTlsServer context serving $ \port -> do
      manager <- newManager millraceManagerSettings
      outcome <- try (get manager ("https://localhost:" ++ show port))
      tlsProblemOf outcome `shouldSatisfy` isRefusal UnknownAuthority
  it "does not verify if it must not" $ \credentials -> do
    context <- contextOf credentials "other" id
    withTlsServer context serving $ \port -> do
      manager <- managerWith defaultSettings {tlsSettings = clientSettings {clientVerification = DoNotVerify}}
      get manager ("https://localhost:" ++ show port) `shouldReturn` "connection 1"
  it "shows its certificate" $ \credentials -> do
    told <- newEmptyMVar
    context <-
      contextOf
        credentials
        "server"
        ( \settings ->
            settings {serverClientCertificates = Required (trustIn (PemFile (certificateFile credentials "root")))}
        )
    withTlsServer context (\number connection -> putMVar told (negotiated connection) >> serving number connection) $
      \port ->
        do
          mine <- identity credentials "client"
          let settings = trusting credentials "root"
          manager <- managerWith settings {tlsSettings = (tlsSettings settings) {clientIdentity = Just mine}}
          get manager ("https://localhost:" ++ show port) `shouldReturn` "connection 1"
          found <- takeMVar told
          fmap certificateSubject (negotiatedPeerCertificate found) `shouldBe` Just "CN=client"
          without <- managerWith settings
          outcome <- try (get without ("https://localhost:" ++ show port))
          tlsProblemOf outcome `shouldBe` Just RefusedByPeer
  it "sends a request again if a kept connection was cut off" $ \credentials -> do
    context <- contextOf credentials "server" id
    withTlsServer context cutting $ \port -> do
      manager <- managerWith (trusting credentials "root")
      let url = "https://localhost:" ++ show port
      get manager url `shouldReturn` "connection 1"
      get manager url `shouldReturn` "connection 2"
  it "resumes a session when it connects again, if the settings say so" $ \credentials ->
    forM_ [(ResumeSessions, [False, True, True]), (FullHandshakes, [False, False, False])] $
      \(resumption, expected) -> do
        told <- newEmptyMVar
        context <- contextOf credentials "server" id
        withTlsServer
          context
          ( \number connection -> do
              putMVar told (negotiatedIsResumed (negotiated connection))
              onlyOnce number connection
          )
          $ \port ->
            do
              let settings = trusting credentials "root"
              manager <- managerWith settings {tlsSettings = (tlsSettings settings) {clientResumption = resumption}}
              forM_ (zip [1 :: Int ..] expected) $ \(number, isResumed) -> do
                get manager ("https://localhost:" ++ show port)
                  `shouldReturn` ("connection " <> Char8.pack (show number))
                takeMVar told `shouldReturn` isResumed
  it "does not take a response that was cut off for complete" $ \credentials -> do
    context <- contextOf credentials "server" id
    withTlsServer context unfinished $ \port -> do
      manager <- managerWith (trusting credentials "root")
      outcome <- try (get manager ("https://localhost:" ++ show port))
      tlsProblemOf outcome `shouldBe` Just Truncated
  it "asks nginx" $ \credentials -> do
    missing "nginx" >>= mapM_ pendingWith
    withNginx credentials $ \port -> do
      manager <- managerWith (trusting credentials "root")
      forM_ [1 .. 10 :: Int] $ \_ -> get manager ("https://localhost:" ++ show port ++ "/") `shouldReturn` "nginx"
      other <- managerWith (trusting credentials "stranger")
      outcome <- try (get other ("https://localhost:" ++ show port ++ "/"))
      tlsProblemOf outcome `shouldSatisfy` isRefusal UnknownAuthority

contextOf :: Credentials -> String -> (ServerSettings -> ServerSettings) -> IO ServerContext
contextOf credentials name change = identity credentials name >>= newServerContext . change . serverSettings

serving :: Int -> Tls.Connection -> IO ()
serving number connection =
  serveRequests (tlsWire connection) (const (return ("connection " <> Char8.pack (show number))))

-- Ends without telling when the second request has come.
cutting :: Int -> Tls.Connection -> IO ()
cutting number connection = do
  _ <- receiveHead wire
  answerWith wire ("connection " <> Char8.pack (show number))
  _ <- receiveHead wire
  Socket.close (connectionSocket connection)
  where
    wire = tlsWire connection

-- Closes the connection after the first response, and says so.
onlyOnce :: Int -> Tls.Connection -> IO ()
onlyOnce number connection = do
  _ <- receiveHead wire
  let body = "connection " <> Char8.pack (show number)
  wireSend
    wire
    ( "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
        <> Char8.pack (show (Char8.length body))
        <> "\r\n\r\n"
        <> body
    )
  Tls.endSending connection
  where
    wire = tlsWire connection

-- A response that ends with the connection, but it does not end.
unfinished :: Int -> Tls.Connection -> IO ()
unfinished _ connection = do
  _ <- receiveHead wire
  wireSend wire "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of"
  Socket.close (connectionSocket connection)
  where
    wire = tlsWire connection

refuses :: Credentials -> String -> Settings -> (Maybe TlsProblem -> IO ()) -> IO ()
refuses credentials name settings check = do
  context <- contextOf credentials name id
  withTlsServer context serving $ \port -> do
    manager <- managerWith settings
    outcome <- try (getQuickly manager port)
    check (tlsProblemOf outcome)

getQuickly :: Manager -> Int -> IO ()
getQuickly manager port = void (get manager ("https://localhost:" ++ show port))

isRefusal :: CertificateProblem -> Maybe TlsProblem -> Bool
isRefusal problem found = case found of
  Just (CertificateRefused reason _) -> reason == problem
  _ -> False

withNginx :: Credentials -> (Int -> IO a) -> IO a
withNginx credentials use = do
  port <- withServer (\_ _ -> return ()) return
  let folder = fileOf credentials "nginx"
  createDirectory folder
  writeFile (folder ++ "/nginx.conf") (configuration folder port)
  withCreateProcess
    (proc "nginx" ["-p", folder, "-e", "stderr", "-c", folder ++ "/nginx.conf"]) {std_err = CreatePipe}
    $ \_ _ _ process ->
      (waitFor port (200 :: Int) >> use port) `finally` (terminateProcess process >> waitForProcess process)
  where
    configuration folder port =
      unlines
        [ "daemon off; error_log stderr; pid nginx.pid; worker_processes 1; events { }",
          "http { access_log off; client_body_temp_path "
            ++ folder
            ++ "; proxy_temp_path "
            ++ folder
            ++ "; fastcgi_temp_path "
            ++ folder
            ++ "; uwsgi_temp_path "
            ++ folder
            ++ "; scgi_temp_path "
            ++ folder
            ++ ";",
          "server { listen 127.0.0.1:"
            ++ show port
            ++ " ssl; ssl_certificate "
            ++ certificateFile credentials "server"
            ++ "; ssl_certificate_key "
            ++ keyFile credentials "server"
            ++ ";",
          "location / { return 200 nginx; } } }"
        ]
    waitFor port left = do
      outcome <- try (connects port)
      case outcome of
        Right () -> return ()
        Left problem
          | left == 0 -> throwIO (problem :: IOException)
          | otherwise -> threadDelay 50000 >> waitFor port (left - 1)
    connects port = bracket (Socket.socket Socket.AF_INET Socket.Stream Socket.defaultProtocol) Socket.close $ \one ->
      Socket.connect one (Socket.SockAddrInet (fromIntegral port) (Socket.tupleToHostAddress (127, 0, 0, 1)))
