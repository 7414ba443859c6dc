-- Must not know: sockets.

-- | The texts of failures and of settings that are refused.
module ErrorSpec (spec) where

import Control.Exception (displayException)
import Control.Monad (forM_)
import Data.List (isInfixOf, isPrefixOf, isSuffixOf, nub, (\\))
import Millrace.Tls.Error
import Test.Hspec

spec :: SpecWith a
spec = do
  it "says what happened, to which connection, in OpenSSL's words, and what to do" $ \_ ->
    forM_ [Client, Server] $ \role ->
      distinct [displayException (failure role problem Nothing) | problem <- problems] $ \text ->
        "127.0.0.1:443: " `isPrefixOf` text && " (the detail). " `isInfixOf` text && "." `isSuffixOf` text
  it "has other advice for each side where that helps" $ \_ -> do
    advice (failure Client (NotTls SomethingElse) Nothing) `shouldContain` "Check the port"
    advice (failure Server (NotTls SomethingElse) Nothing) `shouldContain` "The client must"
  it "names the alert and who sent it" $ \_ -> do
    distinct [displayException (failure Client RefusedByPeer (Just (AlertReceived alert))) | alert <- alerts] $ \text ->
      any (\alert -> ("; the peer sent the alert " ++ show alert ++ " (") `isInfixOf` text) alerts
    displayException (failure Server ProtocolViolated (Just (AlertSent DecodeError)))
      `shouldContain` "; we sent the alert DecodeError"
  it "has advice for the alerts that a setting can prevent" $ \_ -> do
    map (adviceOn . AlertReceived) [UnknownCa, CertificateUnknown] `shouldSatisfy` all ("our certificate" `isInfixOf`)
    adviceOn (AlertReceived CertificateRequired) `shouldContain` "wants a certificate"
    adviceOn (AlertReceived HandshakeFailure) `shouldContain` "versions, ciphers"
    adviceOn (AlertReceived UnrecognizedName) `shouldContain` "name"
    adviceOn (AlertReceived NoApplicationProtocol) `shouldContain` "ALPN"
    nub (map adviceOn [AlertReceived DecodeError, AlertSent UnknownCa]) `shouldBe` ["The peer's log may tell more."]
  it "leaves out a detail that there is not" $ \_ -> do
    displayException (failure Client Truncated Nothing) {tlsDetail = ""} `shouldNotContain` "("
    displayException (SettingsError "a.pem" NoCertificate "") `shouldBe` "a.pem: there is no certificate in PEM"
  it "says which setting is refused" $ \_ ->
    distinct [displayException (SettingsError "a.pem" problem "the detail") | problem <- settings] $ \text ->
      "a.pem: " `isPrefixOf` text && " (the detail)" `isSuffixOf` text
  where
    adviceOn alert = advice (failure Client RefusedByPeer (Just alert))

failure :: Role -> TlsProblem -> Maybe Alert -> TlsException
failure role problem alert = TlsException role "127.0.0.1:443" problem alert "the detail"

-- | Each text is like this, and no two problems have the same one.
distinct :: [String] -> (String -> Bool) -> Expectation
distinct texts isLikeThis = do
  filter (not . isLikeThis) texts `shouldBe` []
  texts \\ nub texts `shouldBe` []

problems :: [TlsProblem]
problems =
  [ RefusedByPeer,
    CertificateMissing,
    NotTls PlainHttp,
    NotTls SomethingElse,
    NoCommonVersion,
    NoCommonCipher,
    NoCommonProtocol,
    UnknownServerName,
    Truncated,
    ProtocolViolated,
    PeerDoesNotRead,
    InternalProblem
  ]
    ++ [ CertificateRefused reason Nothing
         | reason <-
             [ Expired,
               NotYetValid,
               UnknownAuthority,
               SelfSigned,
               Revoked,
               RevocationUnknown,
               WrongName,
               WrongPurpose,
               TooWeak,
               BadSignature,
               OtherCertificateProblem 79
             ]
       ]

alerts :: [AlertDescription]
alerts =
  [ CloseNotify,
    HandshakeFailure,
    BadCertificate,
    CertificateRequired,
    UnrecognizedName,
    NoApplicationProtocol,
    OtherAlert 255
  ]

settings :: [SettingsProblem]
settings =
  [ NoCertificate,
    BrokenCertificate,
    NoPrivateKey,
    PasswordNeeded,
    BrokenPrivateKey,
    KeyOfAnotherCertificate,
    NoIdentity,
    UnusableIdentity,
    BrokenRevocationList,
    UnknownAlgorithms,
    BadVersions,
    BadProtocols,
    BadServerName,
    BadTicketKeys,
    BrokenStaple,
    OutOfMemory
  ]
