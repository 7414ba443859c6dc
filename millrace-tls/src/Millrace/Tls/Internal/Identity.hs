-- Must not know: sockets.

-- | Private keys with their certificates.
module Millrace.Tls.Internal.Identity
  ( Pem (..),
    readPem,
    describePem,
    Identity (..),
    identityNames,
    identityKind,
    loadIdentity,
    loadIdentityWith,
    stapling,
    withIdentity,
  )
where

import Control.Exception (mask_, throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.C.Types (CInt, CSize)
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peek)
import Millrace.Tls.Error
import Millrace.Tls.Internal.Certificate
import Millrace.Tls.Internal.TlsCalls

-- | A source of PEM: text with lines like @-----BEGIN CERTIFICATE-----@.
data Pem
  = -- | A file, which is read anew whenever it is used.
    PemFile FilePath
  | PemBytes ByteString

-- | Does not show the bytes: they may be a private key.
instance Show Pem where
  showsPrec d (PemFile path) = showParen (d > 10) (showString "PemFile " . showsPrec 11 path)
  showsPrec d (PemBytes bytes) = showParen (d > 10) (showString "PemBytes of length " . shows (ByteString.length bytes))

readPem :: Pem -> IO ByteString
readPem (PemFile path) = withoutMarks <$> ByteString.readFile path
readPem (PemBytes bytes) = return (withoutMarks bytes)

-- Editors of Windows begin a text with a byte order mark, and OpenSSL would not see the line behind it. A chain may be
-- several such texts.
withoutMarks :: ByteString -> ByteString
withoutMarks bytes = case ByteString.breakSubstring mark bytes of
  (before, rest)
    | ByteString.null rest -> before
    | otherwise -> before <> withoutMarks (ByteString.drop (ByteString.length mark) rest)
  where
    mark = ByteString.pack [0xef, 0xbb, 0xbf]

-- | The description of a source in messages.
describePem :: String -> Pem -> String
describePem _ (PemFile path) = path
describePem what (PemBytes _) = what

-- | A private key with its certificate and the certificates of its issuers.
data Identity = Identity
  { identityState :: !(ForeignPtr IdentityState),
    -- | The first certificate of its chain.
    identityCertificate :: !Certificate,
    -- | An OCSP answer of its authority, in DER.
    identityStaple :: !(Maybe ByteString)
  }

-- | Shows its certificate, but not the key.
instance Show Identity where
  showsPrec d identity = showParen (d > 10) (showString "Identity " . shows (identityCertificate identity))

-- | The names and addresses for which it can be chosen.
identityNames :: Identity -> [String]
identityNames = certificateNames . identityCertificate

-- | The kind of its key.
identityKind :: Identity -> IO CInt
identityKind identity = withIdentity identity c_identityKind

withIdentity :: Identity -> (Ptr IdentityState -> IO a) -> IO a
withIdentity = withForeignPtr . identityState

-- | Reads a chain of certificates, one's own first, and the private key. Both may be in the same file. Throws a
-- 'SettingsError', or the 'IOError' of reading a file.
loadIdentity :: Pem -> Pem -> IO Identity
loadIdentity = loadIdentityWith (return Nothing)

-- | Reads a chain of certificates and the private key, which may be encrypted. The action runs only if it is, and
-- returns the password.
--
-- > loadIdentityWith (Just <$> readFile "password") (PemFile "fullchain.pem") (PemFile "privkey.pem")
loadIdentityWith :: IO (Maybe ByteString) -> Pem -> Pem -> IO Identity
loadIdentityWith askPassword chain key = do
  chainBytes <- readPem chain
  keyBytes <- readPem key
  withoutPassword <- newIdentity chainBytes keyBytes Nothing
  outcome <- case withoutPassword of
    Left IdentityNeedsPassword ->
      askPassword >>= maybe (return withoutPassword) (newIdentity chainBytes keyBytes . Just)
    _ -> return withoutPassword
  either refuse return outcome
  where
    refuse result = case result of
      IdentityNoCertificate -> throwAbout chainText NoCertificate
      IdentityBadCertificate -> throwAbout chainText BrokenCertificate
      IdentityNoKey -> throwAbout keyText NoPrivateKey
      IdentityNeedsPassword -> throwAbout keyText PasswordNeeded
      IdentityBadKey -> throwAbout keyText BrokenPrivateKey
      IdentityMismatch -> throwAbout keyText KeyOfAnotherCertificate
      _ -> throwAbout keyText OutOfMemory
    chainText = describePem "the certificate" chain
    keyText = describePem "the private key" key
    throwAbout source problem = throwIO (SettingsError source problem "")

-- | Adds an answer of its authority to an identity, which is shown with it (OCSP stapling): the content of a file in
-- DER, as @openssl ocsp -respout@ writes it. When the answer is too old, or about another certificate, the identity is
-- shown without.
--
-- > identity <- stapling <$> ByteString.readFile "fullchain.pem.ocsp" <*> loadIdentity chain key
stapling :: ByteString -> Identity -> Identity
stapling answer identity = identity {identityStaple = Just answer}

newIdentity :: ByteString -> ByteString -> Maybe ByteString -> IO (Either IdentityResult Identity)
newIdentity chain key password = mask_ . alloca $ \memory -> do
  code <- withBytes chain $ \chainAt chainSize -> withBytes key $ \keyAt keySize ->
    withPassword $ c_identityNew memory chainAt chainSize keyAt keySize
  if toEnum (fromIntegral code) == IdentityOk
    then Right <$> (peek memory >>= wrap)
    else return (Left (toEnum (fromIntegral code)))
  where
    withPassword use = maybe (use nullPtr 0) (`withBytes` use) password
    wrap state = do
      owned <- newForeignPtr c_identityFree state
      certificate <- withForeignPtr owned c_identityCertificate >>= takeCertificate
      maybe
        (throwIO (SettingsError "the certificate" OutOfMemory ""))
        (\found -> return (Identity owned found Nothing))
        certificate

withBytes :: ByteString -> (Ptr Word8 -> CSize -> IO a) -> IO a
withBytes bytes use = unsafeUseAsCStringLen bytes $ \(memory, size) -> use (castPtr memory) (fromIntegral size)
