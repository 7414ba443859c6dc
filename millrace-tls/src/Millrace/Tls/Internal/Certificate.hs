-- Must not know: sockets.

-- | Certificates as bytes, and the fields that OpenSSL reads in them.
module Millrace.Tls.Internal.Certificate
  ( Certificate,
    certificateFromDer,
    certificateDer,
    certificateSubject,
    certificateIssuer,
    certificateSerial,
    certificateNames,
    certificateAddresses,
    certificateValidFrom,
    certificateValidUntil,
    takeCertificate,
    copyCertificate,
  )
where

import Control.Exception (bracket)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Internal (createAndTrim)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Time.Clock (UTCTime)
import Data.Time.Clock.POSIX (posixSecondsToUTCTime)
import Foreign.C.Types (CBool, CInt)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peek)
import GHC.Foreign (peekCStringLen)
import Millrace.Tls.Internal.TlsCalls
import System.IO (utf8)
import System.IO.Unsafe (unsafePerformIO)

-- | A certificate (X.509).
newtype Certificate = Certificate ByteString
  deriving (Eq, Ord)

-- | Its subject and its names.
instance Show Certificate where
  showsPrec _ certificate =
    showString "<certificate: "
      . showString (certificateSubject certificate)
      . names (certificateNames certificate)
      . showChar '>'
    where
      names [] = id
      names ones = showString " for " . showString (unwords ones)

-- | Makes a certificate from its encoding; nothing if the bytes are not a certificate.
certificateFromDer :: ByteString -> Maybe Certificate
certificateFromDer der = unsafePerformIO $
  withParsed der $ \parsed -> return (if parsed == nullPtr then Nothing else Just (Certificate der))

-- | The encoding of a certificate.
certificateDer :: Certificate -> ByteString
certificateDer (Certificate der) = der

-- | The subject: the owner, in the form of RFC 2253: @CN=example.org,O=Example@.
certificateSubject :: Certificate -> String
certificateSubject = textOf fieldSubject

-- | The issuer.
certificateIssuer :: Certificate -> String
certificateIssuer = textOf fieldIssuer

-- | The serial number, in hexadecimal digits.
certificateSerial :: Certificate -> String
certificateSerial = textOf fieldSerial

-- | The names of hosts that it is for. They may begin with @*.@
certificateNames :: Certificate -> [String]
certificateNames = listOf fieldDnsNames

-- | The IP addresses that it is for.
certificateAddresses :: Certificate -> [String]
certificateAddresses = listOf fieldAddresses

-- | The beginning of the validity. Nothing if the time is not valid.
certificateValidFrom :: Certificate -> Maybe UTCTime
certificateValidFrom = timeOf c_certificateBegins

-- | The end of the validity. Nothing if the time is not valid.
certificateValidUntil :: Certificate -> Maybe UTCTime
certificateValidUntil = timeOf c_certificateEnds

textOf :: CInt -> Certificate -> String
textOf field (Certificate der) = unsafePerformIO $ withParsed der (`readField` field) >>= decoded

listOf :: CInt -> Certificate -> [String]
listOf field (Certificate der) = unsafePerformIO $ withParsed der (`readField` field) >>= mapM decoded . entries
  where
    -- Each entry ends with a NUL.
    entries bytes = if ByteString.null bytes then [] else Char8.split '\NUL' (ByteString.init bytes)

timeOf :: (Ptr X509 -> Ptr Int64 -> IO CBool) -> Certificate -> Maybe UTCTime
timeOf call (Certificate der) = unsafePerformIO $
  withParsed der $ \parsed -> alloca $ \memory ->
    if parsed == nullPtr
      then return Nothing
      else do
        isKnown <- call parsed memory
        if isKnown == 0 then return Nothing else Just . posixSecondsToUTCTime . fromIntegral <$> peek memory

decoded :: ByteString -> IO String
decoded bytes = unsafeUseAsCStringLen bytes (peekCStringLen utf8)

-- The pointer is null if these bytes are not a certificate.
withParsed :: ByteString -> (Ptr X509 -> IO a) -> IO a
withParsed der = bracket parse c_certificateFree
  where
    parse = unsafeUseAsCStringLen der $ \(bytes, size) -> c_certificateParse (castPtr bytes) (fromIntegral size)

readField :: Ptr X509 -> CInt -> IO ByteString
readField parsed field
  | parsed == nullPtr = return ByteString.empty
  | otherwise = do
    size <- c_certificateRead parsed field nullPtr 0
    createAndTrim (fromIntegral size) $ \memory ->
      fromIntegral . min size <$> c_certificateRead parsed field memory size

-- | Converts a certificate of OpenSSL that the caller owns, and frees it. Nothing for a null pointer.
takeCertificate :: Ptr X509 -> IO (Maybe Certificate)
takeCertificate parsed = copyCertificate parsed <* c_certificateFree parsed

-- | Converts a certificate of OpenSSL without freeing it. Nothing for a null pointer.
copyCertificate :: Ptr X509 -> IO (Maybe Certificate)
copyCertificate parsed
  | parsed == nullPtr = return Nothing
  | otherwise = Just . Certificate <$> readField parsed fieldDer
