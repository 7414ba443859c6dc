{-# LANGUAGE OverloadedStrings #-}

-- | Each reason to refuse a connection, and the reports of both sides.
module RefusalSpec (spec) where

import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isAlphaNum)
import Data.List (isInfixOf)
import Data.Word (Word8)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls
import Support
import System.Environment (lookupEnv, setEnv, unsetEnv)
import Test.Hspec

spec :: SpecWith Credentials
spec = do
  describe "a client refuses a server" $ do
    refusesServer "that has another name" "other" id WrongName BadCertificate
    refusesServer "whose certificate has expired" "expired" id Expired CertificateExpired
    refusesServer "whose certificate is not valid yet" "future" id NotYetValid BadCertificate
    refusesServer "that has issued its own certificate" "alone" id SelfSigned UnknownCa
    refusesServer "whose certificate is a client's" "client" id WrongPurpose UnsupportedCertificate
    refusesServer
      "whose certificate has an unknown critical part"
      "strange"
      id
      (OtherCertificateProblem 34)
      CertificateUnknown
    it "whose certificate has a wrong signature, or a weak authority" $ \credentials -> do
      forged <- forge <$> ByteString.readFile (certificateFile credentials "server")
      mine <- loadIdentity (PemBytes forged) (PemFile (keyFile credentials "server"))
      asksForged <- newServerContext (serverSettings mine)
      client <- clientWith credentials id
      (outcome, _) <- meet (clientHandshake client "localhost") (serverHandshake asksForged)
      refusal outcome `shouldBe` Just BadSignature
      trusting' <- newClientContext (trusting (trustIn (PemFile (certificateFile credentials "weakroot"))))
      server <- contextOf credentials ["weak"] id
      (weak, _) <- meet (clientHandshake trusting' "localhost") (serverHandshake server)
      refusal weak `shouldBe` Just TooWeak
    it "at another address" $ \credentials -> do
      server <- contextOf credentials ["server"] id
      client <- clientWith credentials id
      (mine, _) <- meet (clientHandshake client "127.0.0.2") (serverHandshake server)
      refusal mine `shouldBe` Just WrongName
      (good, _) <- meet (clientHandshake client "127.0.0.1") (serverHandshake server)
      either throwIO (return . const ()) good
    it "whose certificate was revoked" $ \credentials -> do
      let trust = (rootTrust credentials) {trustRevocationLists = [PemFile (fileOf credentials "root.crl")]}
      client <- newClientContext (trusting trust)
      revoked <- contextOf credentials ["revoked"] id
      (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake revoked)
      refusal mine `shouldBe` Just Revoked
      alertOf theirs `shouldBe` Just (AlertReceived CertificateRevoked)
      server <- contextOf credentials ["server"] id
      (good, _) <- meet (clientHandshake client "localhost") (serverHandshake server)
      either throwIO (return . const ()) good
      chained <- contextOf credentials ["chained"] id
      (unknown, _) <- meet (clientHandshake client "localhost") (serverHandshake chained)
      refusal unknown `shouldBe` Just RevocationUnknown
    it "whose authority is unknown" $ \credentials -> do
      client <- newClientContext (trusting (trustIn (PemFile (certificateFile credentials "alone"))))
      server <- contextOf credentials ["server"] id
      (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake server)
      refusal mine `shouldBe` Just UnknownAuthority
      alertOf theirs `shouldBe` Just (AlertReceived UnknownCa)
    it "that is unknown to the system" $ \credentials -> do
      client <- newClientContext clientSettings
      server <- contextOf credentials ["server"] id
      (mine, _) <- meet (clientHandshake client "localhost") (serverHandshake server)
      refusal mine `shouldBe` Just UnknownAuthority
    it "whose authority is not in the system's file, which is read again when it has changed" $ \credentials -> do
      let file = certificateFile credentials "system"
          asked = do
            client <- newClientContext clientSettings
            server <- contextOf credentials ["server"] id
            refusal . fst <$> meet (clientHandshake client "localhost") (serverHandshake server)
          holding name = ByteString.readFile (fileOf credentials name) >>= ByteString.writeFile file
      named <- lookupEnv "SSL_CERT_FILE"
      bracket_ (setEnv "SSL_CERT_FILE" file) (maybe (unsetEnv "SSL_CERT_FILE") (setEnv "SSL_CERT_FILE") named) $ do
        holding "root.pem"
        replicateM 2 asked `shouldReturn` [Nothing, Nothing]
        holding "alone.pem"
        asked `shouldReturn` Just UnknownAuthority
    it "and names its certificate and what to do" $ \credentials -> do
      client <- clientWith credentials id
      server <- contextOf credentials ["expired"] id
      (mine, _) <- meet (clientHandshake client "localhost") (serverHandshake server)
      case mine of
        Left problem -> do
          let text = displayException problem
          forM_ ["CN=expired", "CN=root", "2020-02-01", "localhost", "must renew it", "CertificateExpired"] $ \word ->
            (word, word `isInfixOf` text) `shouldBe` (word, True)
        Right _ -> expectationFailure "it was not refused"
  describe "a server refuses a client" $ do
    it "without a certificate" $ \credentials -> do
      (mine, theirs) <- meetWithCertificate credentials Nothing
      problemOf theirs `shouldBe` Just CertificateMissing
      alertOf mine `shouldBe` Just (AlertReceived CertificateRequired)
    it "with a certificate of somebody who is not trusted" $ \credentials -> do
      (mine, theirs) <- meetWithCertificate credentials (Just "stranger")
      refusal theirs `shouldBe` Just SelfSigned
      alertOf mine `shouldBe` Just (AlertReceived UnknownCa)
    it "with a certificate of a server" $ \credentials -> do
      (mine, theirs) <- meetWithCertificate credentials (Just "server")
      refusal theirs `shouldBe` Just WrongPurpose
      alertOf mine `shouldBe` Just (AlertReceived UnsupportedCertificate)
    it "that asks for a name that it does not serve" $ \credentials -> do
      server <- contextOf credentials ["server"] (\settings -> settings {serverUnknownNames = RefuseUnknownNames})
      client <- clientWith credentials id
      (mine, theirs) <- meet (clientHandshake client "nobody.test") (serverHandshake server)
      problemOf theirs `shouldBe` Just UnknownServerName
      alertOf mine `shouldBe` Just (AlertReceived UnrecognizedName)
      (good, _) <- meet (clientHandshake client "localhost") (serverHandshake server)
      either throwIO (return . const ()) good
    it "that has no version in common" $ \credentials -> do
      server <-
        contextOf
          credentials
          ["server"]
          (\settings -> settings {serverAlgorithms = defaultAlgorithms {lowestVersion = Tls13}})
      client <-
        clientWith credentials (\settings -> settings {clientAlgorithms = defaultAlgorithms {highestVersion = Tls12}})
      (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake server)
      problemOf theirs `shouldBe` Just NoCommonVersion
      alertOf mine `shouldBe` Just (AlertReceived ProtocolVersion)
    it "that has no cipher in common" $ \credentials -> do
      server <-
        contextOf
          credentials
          ["server"]
          ( \settings ->
              settings {serverAlgorithms = defaultAlgorithms {ciphersFor13 = Just ["TLS_AES_256_GCM_SHA384"]}}
          )
      client <-
        clientWith
          credentials
          ( \settings ->
              settings
                { clientAlgorithms =
                    defaultAlgorithms {lowestVersion = Tls13, ciphersFor13 = Just ["TLS_AES_128_GCM_SHA256"]}
                }
          )
      (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake server)
      problemOf theirs `shouldBe` Just NoCommonCipher
      alertOf mine `shouldBe` Just (AlertReceived HandshakeFailure)
    it "that has no application protocol in common" $ \credentials -> do
      server <- contextOf credentials ["server"] (\settings -> settings {serverProtocols = ["h2"]})
      client <- clientWith credentials (\settings -> settings {clientProtocols = ["http/1.1"]})
      (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake server)
      problemOf theirs `shouldBe` Just NoCommonProtocol
      alertOf mine `shouldBe` Just (AlertReceived NoApplicationProtocol)
    it "that speaks plain HTTP, or something else" $ \credentials -> do
      server <- contextOf credentials ["server"] id
      forM_
        [("GET / HTTP/1.1\r\nHost: here\r\n\r\n", NotTls PlainHttp), ("SSH-2.0-OpenSSH_9.2\r\n", NotTls SomethingElse)]
        $ \(bytes, problem) ->
          do
            (_, theirs) <-
              meet (\socket -> Plain.sendAll socket bytes >> Plain.recv socket 100) (serverHandshake server)
            problemOf theirs `shouldBe` Just problem
    it "that leaves during the handshake" $ \credentials -> do
      server <- contextOf credentials ["server"] id
      (_, theirs) <-
        meet
          (\socket -> Plain.sendAll socket "\x16\x03\x01" >> Socket.shutdown socket Socket.ShutdownSend)
          (serverHandshake server)
      problemOf theirs `shouldBe` Just Truncated
  describe "a client finds" $ do
    it "a server that does not speak TLS" $ \credentials -> do
      client <- clientWith credentials id
      (mine, _) <-
        meet
          (clientHandshake client "localhost")
          (\socket -> Plain.recv socket 1000 >> Plain.sendAll socket "HTTP/1.1 400 Bad Request\r\n\r\n")
      problemOf mine `shouldBe` Just (NotTls SomethingElse)
    it "the reason that an alert gives" $ \credentials -> do
      client <- clientWith credentials id
      forM_ alerts $ \(number, alert) -> do
        (mine, _) <-
          meet
            (clientHandshake client "localhost")
            (\socket -> Plain.recv socket 1000 >> Plain.sendAll socket (ByteString.pack [21, 3, 3, 0, 2, 2, number]))
        (number, problemOf mine, alertOf mine) `shouldBe` (number, Just RefusedByPeer, Just (AlertReceived alert))
    it "no meaning in an empty name" $ \credentials -> do
      client <- clientWith credentials id
      (mine, _) <- meet (clientHandshake client "") (`Plain.recv` 1000)
      either (fmap settingsProblem . fromException) (const Nothing) mine `shouldBe` Just BadServerName
  describe "settings that are refused" $ do
    it "are reported with the reason" $ \credentials -> do
      let pem name = PemFile (fileOf credentials name)
          broken = PemBytes "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
      forM_
        [ (pem "server.key", pem "server.key", NoCertificate),
          (broken, pem "server.key", BrokenCertificate),
          (pem "server.pem", pem "server.pem", NoPrivateKey),
          (pem "server.pem", pem "rsa.key", KeyOfAnotherCertificate),
          (pem "server.pem", pem "other.key", KeyOfAnotherCertificate),
          (pem "server.pem", pem "locked.key", PasswordNeeded)
        ]
        $ \(chain, key, problem) -> loadIdentity chain key `shouldThrow` ((== problem) . settingsProblem)
      loadIdentity (pem "server.pem") (PemBytes "") `shouldThrow` (== SettingsError "the private key" NoPrivateKey "")
      loadIdentityWith (return (Just "wrong")) (pem "server.pem") (pem "locked.key")
        `shouldThrow` ((== BrokenPrivateKey) . settingsProblem)
      unlocked <- loadIdentityWith (return (Just "secret")) (pem "server.pem") (pem "locked.key")
      certificateNames (identityCertificate unlocked) `shouldBe` ["localhost", "*.wild.test"]
      certificateAddresses (identityCertificate unlocked) `shouldBe` ["127.0.0.1"]
      both <- mconcat <$> mapM (ByteString.readFile . fileOf credentials) ["server.key", "server.pem"]
      void (loadIdentity (PemBytes both) (PemBytes both))
      mine <- identity credentials "server"
      forM_
        [ ((serverSettings mine) {serverIdentities = []}, NoIdentity),
          ((serverSettings mine) {serverProtocols = [ByteString.replicate 256 0]}, BadProtocols),
          ( (serverSettings mine)
              { serverAlgorithms =
                  defaultAlgorithms {ciphersFor12 = Just ["nonsense"]}
              },
            UnknownAlgorithms
          ),
          ( (serverSettings mine)
              { serverAlgorithms =
                  defaultAlgorithms {keyGroups = Just ["nonsense"]}
              },
            UnknownAlgorithms
          ),
          ( (serverSettings mine)
              { serverAlgorithms =
                  defaultAlgorithms {lowestVersion = Tls13, highestVersion = Tls12}
              },
            BadVersions
          ),
          ((serverSettings mine) {serverClientCertificates = Asked (trustIn (PemBytes ""))}, NoCertificate),
          ((serverSettings mine) {serverClientCertificates = Asked (trustIn broken)}, BrokenCertificate)
        ]
        $ \(settings, problem) -> newServerContext settings `shouldThrow` ((== problem) . settingsProblem)

-- The client throws an exception, and the server receives the alert.
refusesServer ::
  String ->
  String ->
  (ClientSettings -> ClientSettings) ->
  CertificateProblem ->
  AlertDescription ->
  SpecWith Credentials
refusesServer what name change problem alert = it what $ \credentials -> do
  server <- contextOf credentials [name] id
  client <- clientWith credentials change
  (mine, theirs) <- meet (clientHandshake client "localhost") (serverHandshake server)
  refusal mine `shouldBe` Just problem
  alertOf mine `shouldBe` Just (AlertSent alert)
  problemOf theirs `shouldBe` Just RefusedByPeer
  alertOf theirs `shouldBe` Just (AlertReceived alert)

meet :: (Socket.Socket -> IO a) -> (Socket.Socket -> IO b) -> IO (Either SomeException a, Either SomeException b)
meet one other = withTcpPair $ \client server ->
  bothSides (one client `onException` Socket.close client) (other server `onException` Socket.close server)

-- With TLS 1.3 a client learns at its first receive whether the server accepts its certificate.
meetWithCertificate :: Credentials -> Maybe String -> IO (Either SomeException (), Either SomeException Connection)
meetWithCertificate credentials name = do
  server <-
    contextOf
      credentials
      ["server"]
      (\settings -> settings {serverClientCertificates = Required (rootTrust credentials)})
  mine <- mapM (identity credentials) name
  client <- clientWith credentials (\settings -> settings {clientIdentity = mine})
  withTcpPair $ \one other ->
    bothSides
      (clientHandshake client "localhost" one >>= \connection -> void (recv connection 100))
      (serverHandshake server other)

-- Changes a byte near the end of a certificate in PEM, where the signature is.
forge :: ByteString -> ByteString
forge certificate = Char8.concat [Char8.take at body, other (Char8.index body at), Char8.drop (at + 1) body, end]
  where
    (body, end) = Char8.breakSubstring "-----END" certificate
    at = [i | i <- [Char8.length body - 1, Char8.length body - 2 ..], isAlphaNum (Char8.index body i)] !! 8
    other digit = if digit == 'A' then "B" else "A"

-- The numbers and names of alerts (RFC 8446, appendix B.2, and RFC 5246).
alerts :: [(Word8, AlertDescription)]
alerts =
  [ (10, UnexpectedMessage),
    (20, BadRecordMac),
    (22, RecordOverflow),
    (40, HandshakeFailure),
    (42, BadCertificate),
    (43, UnsupportedCertificate),
    (44, CertificateRevoked),
    (45, CertificateExpired),
    (46, CertificateUnknown),
    (47, IllegalParameter),
    (48, UnknownCa),
    (49, AccessDenied),
    (50, DecodeError),
    (51, DecryptError),
    (70, ProtocolVersion),
    (71, InsufficientSecurity),
    (80, InternalError),
    (86, InappropriateFallback),
    (90, UserCanceled),
    (100, NoRenegotiation),
    (109, MissingExtension),
    (110, UnsupportedExtension),
    (112, UnrecognizedName),
    (113, BadCertificateStatusResponse),
    (115, UnknownPskIdentity),
    (116, CertificateRequired),
    (120, NoApplicationProtocol),
    (200, OtherAlert 200)
  ]

refusal :: Either SomeException a -> Maybe CertificateProblem
refusal outcome = case problemOf outcome of
  Just (CertificateRefused problem _) -> Just problem
  _ -> Nothing

alertOf :: Either SomeException a -> Maybe Alert
alertOf = either (tlsAlert <=< fromException) (const Nothing)
