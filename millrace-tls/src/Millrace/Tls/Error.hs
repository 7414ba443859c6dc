-- Must not know: sockets.

-- | The failures of TLS, and advice about them.
--
-- A TLS connection fails with a 'TlsException' if TLS is the reason, and with the 'IOError' of the socket if the
-- network is: a deadline, a reset, a closed socket. Contexts and certificates that cannot be used are a
-- 'SettingsError'.
module Millrace.Tls.Error
  ( -- * Connections
    TlsException (..),
    Role (..),
    TlsProblem (..),
    CertificateProblem (..),
    Alert (..),
    AlertDescription (..),
    Alien (..),
    advice,

    -- * Settings
    SettingsError (..),
    SettingsProblem (..),
  )
where

import Control.Exception (Exception (..))
import Data.Word (Word8)
import Millrace.Tls.Internal.Certificate

-- | Which side of a connection this program is.
data Role = Client | Server
  deriving (Eq, Ord, Show)

-- | Why a TLS connection has failed, or could not be made.
data TlsException = TlsException
  { -- | The side of this program.
    tlsRole :: !Role,
    -- | The socket, and the name of the server if this is a client.
    tlsConnection :: !String,
    tlsProblem :: !TlsProblem,
    -- | The alert that was sent or received about it.
    tlsAlert :: !(Maybe Alert),
    -- | OpenSSL's text about it; may be empty.
    tlsDetail :: !String
  }
  deriving (Eq)

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show TlsException where
  showsPrec _ = showString . displayException

instance Exception TlsException where
  displayException problem =
    concat [tlsConnection problem, ": ", describeProblem problem, alertText, detailText, ". ", advice problem]
    where
      alertText = case tlsAlert problem of
        Nothing -> ""
        Just (AlertSent alert) -> "; we sent the alert " ++ show alert
        Just (AlertReceived alert) -> "; the peer sent the alert " ++ show alert
      detailText = if null (tlsDetail problem) then "" else " (" ++ tlsDetail problem ++ ")"

-- | An alert, and the side that sent it.
data Alert = AlertSent !AlertDescription | AlertReceived !AlertDescription
  deriving (Eq, Show)

-- | The problem of a connection.
data TlsProblem
  = -- | The peer has ended the connection with an alert.
    RefusedByPeer
  | -- | This program refuses the peer's certificate. The second field is the refused certificate of the peer's chain,
    -- if it is known.
    CertificateRefused !CertificateProblem !(Maybe Certificate)
  | -- | The client has no certificate, and needs one.
    CertificateMissing
  | -- | The peer does not speak TLS.
    NotTls !Alien
  | -- | The two sides have no protocol version in common.
    NoCommonVersion
  | -- | The two sides have no cipher, group or signature algorithm in common.
    NoCommonCipher
  | -- | The two sides have no application protocol in common.
    NoCommonProtocol
  | -- | The client asks for a server name that is not served here.
    UnknownServerName
  | -- | The connection ended without the end that TLS requires. Somebody may have cut off the stream: do not take it
    -- for complete.
    Truncated
  | -- | The peer sent something that the protocol forbids, or that was changed on the way.
    ProtocolViolated
  | -- | The peer asks for more than it reads.
    PeerDoesNotRead
  | -- | There is no memory, or OpenSSL failed in a way that is not the peer's fault.
    InternalProblem
  deriving (Eq, Show)

-- | Why a certificate is refused.
data CertificateProblem
  = Expired
  | NotYetValid
  | -- | No authority that is trusted has issued it, or the chain is not complete.
    UnknownAuthority
  | -- | It has issued itself, and is not trusted.
    SelfSigned
  | Revoked
  | -- | There is no revocation list of its issuer, or that is too old.
    RevocationUnknown
  | -- | It is for other names.
    WrongName
  | -- | It is for another purpose.
    WrongPurpose
  | -- | Its key or signature is too weak.
    TooWeak
  | BadSignature
  | -- | Another reason, by OpenSSL's number.
    OtherCertificateProblem !Int
  deriving (Eq, Show)

-- | Reasons that an alert can give (RFC 8446, section 6).
data AlertDescription
  = CloseNotify
  | UnexpectedMessage
  | BadRecordMac
  | RecordOverflow
  | HandshakeFailure
  | BadCertificate
  | UnsupportedCertificate
  | CertificateRevoked
  | CertificateExpired
  | CertificateUnknown
  | IllegalParameter
  | UnknownCa
  | AccessDenied
  | DecodeError
  | DecryptError
  | ProtocolVersion
  | InsufficientSecurity
  | InternalError
  | InappropriateFallback
  | UserCanceled
  | NoRenegotiation
  | MissingExtension
  | UnsupportedExtension
  | UnrecognizedName
  | BadCertificateStatusResponse
  | UnknownPskIdentity
  | CertificateRequired
  | NoApplicationProtocol
  | OtherAlert !Word8
  deriving (Eq, Show)

-- | The bytes that came instead of TLS.
data Alien = PlainHttp | SomethingElse
  deriving (Eq, Show)

describeProblem :: TlsException -> String
describeProblem problem = case tlsProblem problem of
  RefusedByPeer -> "the peer has refused the connection"
  CertificateRefused reason certificate ->
    "the peer's certificate is refused: "
      ++ describeCertificateProblem reason
      ++ maybe "" describeCertificate certificate
  CertificateMissing -> "the client has sent no certificate"
  NotTls PlainHttp -> "what came is plain HTTP"
  NotTls SomethingElse -> "what came is not TLS"
  NoCommonVersion -> "the two sides have no protocol version in common"
  NoCommonCipher -> "the two sides have no cipher, group or signature algorithm in common"
  NoCommonProtocol -> "the two sides have no application protocol in common"
  UnknownServerName -> "the client asks for a name that is not served here"
  Truncated -> "the connection ended without TLS saying so"
  ProtocolViolated -> "the peer broke a rule of the protocol, or somebody changed what it sent"
  PeerDoesNotRead -> "the peer asks for more than it reads"
  InternalProblem -> "OpenSSL failed"

describeCertificate :: Certificate -> String
describeCertificate certificate =
  concat
    [ " (subject ",
      certificateSubject certificate,
      ", issued by ",
      certificateIssuer certificate,
      ", for ",
      show (certificateNames certificate ++ certificateAddresses certificate),
      maybe "" (\begin -> ", valid from " ++ show begin) (certificateValidFrom certificate),
      maybe "" (\end -> " until " ++ show end) (certificateValidUntil certificate),
      ")"
    ]

describeCertificateProblem :: CertificateProblem -> String
describeCertificateProblem problem = case problem of
  Expired -> "it has expired"
  NotYetValid -> "it is not valid yet"
  UnknownAuthority -> "no authority that is trusted has issued it"
  SelfSigned -> "it has issued itself"
  Revoked -> "it was revoked"
  RevocationUnknown -> "there is no current revocation list of its issuer"
  WrongName -> "it is for other names"
  WrongPurpose -> "it is for another purpose"
  TooWeak -> "its key or signature is too weak"
  BadSignature -> "its signature is wrong"
  OtherCertificateProblem number -> "OpenSSL's verification error " ++ show number

-- | Advice about an exception, for its message.
advice :: TlsException -> String
advice problem = case (tlsProblem problem, tlsRole problem) of
  (RefusedByPeer, _) -> adviceOnAlert (tlsAlert problem)
  (CertificateRefused reason _, _) -> adviceOnCertificate reason
  (CertificateMissing, _) -> "Give the client a certificate, or do not require one."
  (NotTls PlainHttp, _) -> "Use https in the client's URL."
  (NotTls SomethingElse, Server) -> "The client must speak TLS on this port."
  (NotTls SomethingElse, Client) -> "Check the port: the server does not speak TLS there."
  (NoCommonVersion, _) -> "TLS 1.2 or 1.3 is needed: update the other side, or compare the settings of versions."
  (NoCommonCipher, _) -> "Compare the ciphers and groups of both sides, and the kind of the server's key."
  (NoCommonProtocol, _) -> "Compare the application protocols (ALPN) of both sides."
  (UnknownServerName, _) -> "Add an identity for that name, or do not refuse unknown names."
  (Truncated, _) -> "Treat the received bytes as incomplete, unless the protocol above TLS has announced their length."
  (ProtocolViolated, _) -> "If it happens again, something between the two sides changes their bytes."
  (PeerDoesNotRead, _) -> "The peer misbehaves."
  (InternalProblem, _) -> "Look at the memory that is left; otherwise report this."

adviceOnAlert :: Maybe Alert -> String
adviceOnAlert alert = case alert of
  Just (AlertReceived reason)
    | reason
        `elem` [ UnknownCa,
                 BadCertificate,
                 CertificateExpired,
                 CertificateRevoked,
                 CertificateUnknown,
                 UnsupportedCertificate
               ] ->
      "The peer does not accept our certificate: look at its chain, its names and its time."
    | reason == CertificateRequired -> "The peer wants a certificate: set one."
    | reason `elem` [ProtocolVersion, InsufficientSecurity, HandshakeFailure] ->
      "Compare the versions, ciphers and groups of both sides."
    | reason == UnrecognizedName -> "The server does not serve the name that was asked for."
    | reason == NoApplicationProtocol -> "Compare the application protocols (ALPN) of both sides."
  _ -> "The peer's log may tell more."

adviceOnCertificate :: CertificateProblem -> String
adviceOnCertificate problem = case problem of
  Expired -> "The peer must renew it; if it has, check this machine's clock."
  NotYetValid -> "Check the clocks of both machines."
  UnknownAuthority ->
    "The peer must send all intermediate certificates, or its authority must be added to those that are trusted."
  SelfSigned -> "Add it to those that are trusted, if you know that it is the right one."
  Revoked -> "Do not talk to this peer: its key may be known to others."
  RevocationUnknown -> "Give current revocation lists of all issuers in the chain."
  WrongName -> "Connect by a name that the certificate has, or have the certificate issued for this name."
  WrongPurpose -> "The peer needs a certificate for its role (extended key usage)."
  TooWeak -> "The peer needs a stronger key."
  BadSignature -> "The peer's chain is broken: it must be replaced."
  OtherCertificateProblem _ -> "The detail is in OpenSSL's words."

-- | A certificate, a key or a setting that cannot be used.
data SettingsError = SettingsError
  { -- | The source of the setting: a file, or the purpose of the bytes.
    settingsSource :: !String,
    settingsProblem :: !SettingsProblem,
    -- | OpenSSL's text about it; may be empty.
    settingsDetail :: !String
  }
  deriving (Eq)

-- Older versions of GHC print @show@ of an uncaught exception, so it is the readable text.
instance Show SettingsError where
  showsPrec _ = showString . displayException

instance Exception SettingsError where
  displayException problem =
    settingsSource problem ++ ": " ++ describeSettingsProblem (settingsProblem problem)
      ++ (if null (settingsDetail problem) then "" else " (" ++ settingsDetail problem ++ ")")

-- | The problem of a setting.
data SettingsProblem
  = NoCertificate
  | BrokenCertificate
  | NoPrivateKey
  | -- | The key is encrypted, and there is no password.
    PasswordNeeded
  | -- | The key is broken, or the password is wrong.
    BrokenPrivateKey
  | -- | The key is not that of the certificate.
    KeyOfAnotherCertificate
  | NoIdentity
  | UnusableIdentity
  | BrokenRevocationList
  | UnknownAlgorithms
  | BadVersions
  | BadProtocols
  | BadServerName
  | BadTicketKeys
  | BrokenStaple
  | OutOfMemory
  deriving (Eq, Show)

describeSettingsProblem :: SettingsProblem -> String
describeSettingsProblem problem = case problem of
  NoCertificate -> "there is no certificate in PEM"
  BrokenCertificate -> "a certificate is broken"
  NoPrivateKey -> "there is no private key in PEM"
  PasswordNeeded -> "the private key is encrypted: give its password"
  BrokenPrivateKey -> "the private key is broken, or its password is wrong"
  KeyOfAnotherCertificate -> "the private key belongs to another certificate"
  NoIdentity -> "a server needs at least one identity"
  UnusableIdentity -> "OpenSSL does not take this identity"
  BrokenRevocationList -> "there is no revocation list in PEM, or it is broken"
  UnknownAlgorithms -> "OpenSSL knows none of these algorithms"
  BadVersions -> "the lowest version is above the highest one"
  BadProtocols -> "the name of an application protocol has 1 to 255 bytes"
  BadServerName -> "this is not a name or an address of a server"
  BadTicketKeys -> "a key for session tickets has 80 bytes, and there may be 1 to 16"
  BrokenStaple -> "this is not a valid answer of an authority (OCSP, in DER)"
  OutOfMemory -> "there is no memory"
