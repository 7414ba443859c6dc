-- Must not know: sockets.

-- | Converts OpenSSL's numbers to the types of "Millrace.Tls.Error".
module Millrace.Tls.Internal.OpenSslProblem
  ( alertDescription,
    certificateProblem,
    exceptionFrom,
    internalProblem,
  )
where

import Control.Applicative ((<|>))
import qualified Data.ByteString.Char8 as Char8
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Millrace.Tls.Error
import Millrace.Tls.Internal.Certificate
import Millrace.Tls.Internal.TlsCalls

-- | The alert with this number.
alertDescription :: Word8 -> AlertDescription
alertDescription number = fromMaybe (OtherAlert number) (lookup number known)
  where
    known =
      [ (0, CloseNotify),
        (10, UnexpectedMessage),
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
        (120, NoApplicationProtocol)
      ]

-- | The reason for a number of @openssl\/x509_vfy.h@.
certificateProblem :: CInt -> CertificateProblem
certificateProblem number
  | number == 10 = Expired
  | number == 9 = NotYetValid
  | number `elem` [2, 20, 21] = UnknownAuthority
  | number `elem` [18, 19] = SelfSigned
  | number == 23 = Revoked
  | number `elem` [3, 11, 12, 33, 44] = RevocationUnknown
  | number `elem` [62, 64] = WrongName
  | number `elem` [24, 26, 79] = WrongPurpose
  | number `elem` [66, 67, 68] = TooWeak
  | number == 7 = BadSignature
  | otherwise = OtherCertificateProblem (fromIntegral number)

-- | Describes the failure of a connection, given its side and a description of the connection.
exceptionFrom :: Role -> String -> Failure -> IO TlsException
exceptionFrom role connection failure = do
  certificate <- copyCertificate (failureCertificate failure)
  words' <-
    if isCertificate
      then c_verifyWords (failureVerifyResult failure) >>= peekCString
      else return (Char8.unpack (failureDetail failure))
  return
    TlsException
      { tlsRole = role,
        tlsConnection = connection,
        tlsProblem = problemFrom certificate,
        tlsAlert =
          (AlertReceived . alertDescription <$> failureAlertReceived failure)
            <|> (AlertSent . alertDescription <$> failureAlertSent failure),
        tlsDetail = words'
      }
  where
    isCertificate = failureProblem failure == ProblemCertificate
    problemFrom certificate = case failureProblem failure of
      ProblemAlert -> RefusedByPeer
      ProblemCertificate -> CertificateRefused (certificateProblem (failureVerifyResult failure)) certificate
      ProblemNoCertificate -> CertificateMissing
      ProblemNotTls -> NotTls SomethingElse
      ProblemPlainHttp -> NotTls PlainHttp
      ProblemNoVersion -> NoCommonVersion
      ProblemNoCipher -> NoCommonCipher
      ProblemNoProtocol -> NoCommonProtocol
      ProblemUnknownName -> UnknownServerName
      ProblemViolation -> ProtocolViolated
      ProblemFlood -> PeerDoesNotRead
      ProblemNone -> InternalProblem
      ProblemNoMemory -> InternalProblem
      ProblemInternal -> InternalProblem

-- | The failure when there was no memory to store the reason.
internalProblem :: Role -> String -> TlsException
internalProblem role connection = TlsException role connection InternalProblem Nothing "no memory"
