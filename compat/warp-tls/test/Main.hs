{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Programs that were written for WarpTLS run on this package.
module Main (main) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM_, void, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
#if !MIN_VERSION_tls(2,1,3)
import Data.Default.Class (def)
#endif
import Data.List (isInfixOf)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls
import Network.HTTP.Types (status200)
import qualified Network.Socket as Network
import qualified Network.TLS as TLS
import qualified Network.TLS.Extra as Extra
import Network.Wai (Application, responseLBS)
import Network.Wai.Handler.Millrace (Settings, defaultSettings, setBeforeMainLoop, setHTTP2Disabled, setOnException)
import Network.Wai.Handler.Warp.Internal (runSettingsConnectionMakerSecure)
import Network.Wai.Handler.WarpTLS
import System.Process (callProcess, readProcess)
import Test.Hspec
import TestSupport.ByteStream (receiveAllBy)
import TestSupport.Folder (withTemporaryFolder)
import TestSupport.Message (bodyOf, statusOf)
import TestSupport.Time (within)

main :: IO ()
main = withTemporaryFolder "compat-warp-tls" $ \folder -> do
  callProcess "../../millrace-http-tls/test/credentials" [folder]
  let file name = folder ++ "/" ++ name
      usual = tlsSettings (file "server.pem") (file "server.key")
  _ <- readProcess "openssl" (rsaArguments (file "rsa.pem") (file "rsa.key")) ""
  hspec $ do
    describe "a server" (serverSpec file usual)
    describe "certificates of the package tls" (credentialSpec file)
    describe "algorithms" (algorithmSpec usual)
    describe "hooks" (hookSpec file usual)
    describe "handshakes of a program's own" (attachSpec file)

rsaArguments :: FilePath -> FilePath -> [String]
rsaArguments certificate key =
  ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=rsa", "-keyout", key, "-out", certificate]

serverSpec :: (FilePath -> FilePath) -> TLSSettings -> Spec
serverSpec file usual = do
  it "answers over TLS" $
    served usual id (\port -> ask port id >>= (`shouldBe` "there") . bodyOf)
  it "offers HTTP/2 unless the settings disable it" $
    forM_ [(id, "h2"), (setHTTP2Disabled, "http/1.1")] $ \(change, protocol) ->
      served usual change $ \port -> do
        found <- meet port (\settings -> settings {clientProtocols = ["h2", "http/1.1"]})
        negotiatedProtocol found `shouldBe` Just protocol
  it "has certificates from memory" $ do
    [certificate, key] <- mapM (B.readFile . file) ["server.pem", "server.key"]
    served (tlsSettingsMemory certificate key) id (\port -> ask port id >>= (`shouldBe` "there") . bodyOf)
  it "refuses clients without TLS, and reports them as programs expect it" $ do
    reported <- newEmptyMVar
    let noting _ failure = maybe (return ()) (void . tryPutMVar reported) (fromException failure)
    served usual (setOnException noting) $ \port -> do
      answer <- plainly port
      statusOf answer `shouldBe` "426"
      within 30 "the report" (takeMVar reported) `shouldReturn` InsecureConnectionDenied
  it "serves them if it should" $
    served usual {onInsecure = AllowInsecure} id (plainly >=> (`shouldBe` "there") . bodyOf)

credentialSpec :: (FilePath -> FilePath) -> Spec
credentialSpec file = do
  forM_ ["server", "rsa"] $ \name ->
    it ("are used: " ++ name) $ do
      own <- credential name
      served defaultTlsSettings {tlsCredentials = Just (TLS.Credentials [own])} id $ \port ->
        shownBy <$> meet port id `shouldReturn` Just ("CN=" ++ name)
  it "are looked up by name" $ do
    [server, other] <- mapM credential ["server", "other"]
    let choose name = return (TLS.Credentials [if name == Just "other.test" then other else server])
    served (tlsSettingsSni choose) id $ \port ->
      forM_ [("other.test", "CN=other"), ("localhost", "CN=server"), ("other.test", "CN=other")] $ \(name, subject) ->
        shownBy <$> meetAs name port id `shouldReturn` Just subject
  where
    credential name =
      TLS.credentialLoadX509 (file (name ++ ".pem")) (file (name ++ ".key")) >>= either fail return
    shownBy = fmap certificateSubject . negotiatedPeerCertificate

algorithmSpec :: TLSSettings -> Spec
algorithmSpec usual = do
  it "have the versions that are allowed" $
    served usual {tlsAllowedVersions = [TLS.TLS12]} id $ \port ->
      negotiatedVersion <$> meet port id `shouldReturn` Tls12
  it "have the ciphers that are given, and no version without one" $
    served usual {tlsCiphers = [Extra.cipher_ECDHE_ECDSA_AES256GCM_SHA384]} id $ \port -> do
      found <- meet port id
      (negotiatedVersion found, negotiatedCipher found) `shouldBe` (Tls12, "ECDHE-ECDSA-AES256-GCM-SHA384")
  it "end the start if OpenSSL has none of them" $ do
    usual {tlsAllowedVersions = [TLS.TLS11]} `refusedWith` "tlsAllowedVersions"
    usual {tlsCiphers = []} `refusedWith` "tlsCiphers"
    usual {tlsSupportedHashSignatures = []} `refusedWith` "tlsSupportedHashSignatures"

hookSpec :: (FilePath -> FilePath) -> TLSSettings -> Spec
hookSpec file usual = do
  it "end the start if OpenSSL has nothing like them" $ do
    changed (\hooks -> hooks {TLS.onALPNClientSuggest = Just (return . head)}) `refusedWith` "onALPNClientSuggest"
    changed (\hooks -> hooks {TLS.onCipherChoosing = const last}) `refusedWith` "onCipherChoosing"
  it "decide about new handshakes" $
    served (changed (\hooks -> hooks {TLS.onNewHandshake = const (return False)})) id $ \port ->
      ask port id `shouldThrow` anyException
  it "decide about clients' certificates, also of authorities that nobody knows" $ do
    identity <- loadIdentity (PemFile (file "client.pem")) (PemFile (file "client.key"))
    seen <- newEmptyMVar
    let accepting chain = TLS.CertificateUsageAccept <$ putMVar seen (length (show chain) > 100)
        withIdentity settings = settings {clientIdentity = Just identity}
        asking hook = (changed (\hooks -> hooks {TLS.onClientCertificate = hook})) {tlsWantClientCert = True}
    served (asking accepting) id $ \port -> do
      ask port withIdentity >>= (`shouldBe` "there") . bodyOf
      takeMVar seen `shouldReturn` True
      ask port id >>= (`shouldBe` "there") . bodyOf
      takeMVar seen `shouldReturn` False
  it "refuse clients if a certificate is wanted and nothing else is said" $
    served usual {tlsWantClientCert = True} id $ \port -> ask port id `shouldThrow` anyException
  where
    changed change = usual {tlsServerHooks = change (tlsServerHooks usual)}

attachSpec :: (FilePath -> FilePath) -> Spec
attachSpec file =
  it "give connections that are served" $ do
    own <- TLS.credentialLoadX509 (file "server.pem") (file "server.key") >>= either fail return
    listening $ \listener port -> do
      let accepted = do
            (s, peer) <- Network.accept listener
            name <- Network.getSocketName s
            return (attached own s name, peer)
          serve = runSettingsConnectionMakerSecure (setOnException (\_ _ -> return ()) defaultSettings) accepted there
      bracket (forkIO serve) killThread $ \_ -> do
        ask port id >>= (`shouldBe` "there") . bodyOf
        negotiatedVersion <$> meet port id `shouldReturn` Tls13
  where
    attached own s name = do
      session <- TLS.contextNew s (serverWith own)
      TLS.handshake session
      attachConn name session

serverWith :: TLS.Credential -> TLS.ServerParams
serverWith own =
  usual
    { TLS.serverShared = (TLS.serverShared usual) {TLS.sharedCredentials = TLS.Credentials [own]},
      TLS.serverSupported = (TLS.serverSupported usual) {TLS.supportedCiphers = Extra.ciphersuite_default}
    }
  where
    usual = usualServer

#if MIN_VERSION_tls(2,1,3)
usualServer :: TLS.ServerParams
usualServer = TLS.defaultParamsServer
#else
usualServer :: TLS.ServerParams
usualServer = def
#endif

-- | That a server does not start, and that the message names the reason.
refusedWith :: TLSSettings -> String -> Expectation
refusedWith tls word = within 30 "the start" (runTLS tls defaultSettings there) `shouldThrow` (isInfixOf word . shown)
  where
    shown = show :: IOException -> String

there :: Application
there _ respond = respond (responseLBS status200 [("Content-Length", "5")] "there")

-- | Serves while an action runs, which gets the port.
served :: TLSSettings -> (Settings -> Settings) -> (Socket.PortNumber -> IO a) -> IO a
served tls change use =
  listening $ \listener port -> do
    started <- newEmptyMVar
    ended <- newEmptyMVar
    let settings = change (setOnException (\_ _ -> return ()) defaultSettings)
        serve = runTLSSocket tls (setBeforeMainLoop (putMVar started (Right ())) settings) listener there
        note = either (\failure -> void (tryPutMVar started (Left (failure :: SomeException)))) return
    bracket
      (forkIO ((try serve >>= note) `finally` putMVar ended ()))
      (\server -> killThread server >> within 30 "the end" (takeMVar ended))
      (\_ -> within 30 "the start" (takeMVar started) >>= either throwIO (const (use port)))

listening :: (Network.Socket -> Socket.PortNumber -> IO a) -> IO a
listening use =
  bracket (Network.socket Network.AF_INET Network.Stream Network.defaultProtocol) Network.close $ \listener -> do
    Network.bind listener (Network.SockAddrInet 0 loopback)
    Network.listen listener 100
    Network.socketPort listener >>= use listener

loopback :: Network.HostAddress
loopback = Network.tupleToHostAddress (127, 0, 0, 1)

-- | What a client that trusts everybody has agreed with the server.
meet :: Socket.PortNumber -> (ClientSettings -> ClientSettings) -> IO Negotiated
meet = meetAs "localhost"

meetAs :: String -> Socket.PortNumber -> (ClientSettings -> ClientSettings) -> IO Negotiated
meetAs name port change = withClient name port change (return . negotiated)

ask :: Socket.PortNumber -> (ClientSettings -> ClientSettings) -> IO ByteString
ask port change = withClient "localhost" port change $ \client ->
  sendAll client question >> within 30 "an answer" (receiveAllBy (recv client 65536))

withClient :: String -> Socket.PortNumber -> (ClientSettings -> ClientSettings) -> (Connection -> IO a) -> IO a
withClient name port change use = do
  client <- newClientContext (change clientSettings {clientVerification = DoNotVerify})
  connected port $ \raw -> bracket (within 30 "a handshake" (clientHandshake client name raw)) close use

plainly :: Socket.PortNumber -> IO ByteString
plainly port = connected port $ \raw ->
  Plain.sendAll raw question >> within 30 "an answer" (receiveAllBy (Plain.recv raw 65536))

connected :: Socket.PortNumber -> (Socket.Socket -> IO a) -> IO a
connected port = bracket open Socket.close
  where
    open = do
      raw <- Socket.socket Socket.AF_INET Socket.Stream Socket.defaultProtocol
      Socket.connect raw (Socket.SockAddrInet port loopback)
      return raw

question :: ByteString
question = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
