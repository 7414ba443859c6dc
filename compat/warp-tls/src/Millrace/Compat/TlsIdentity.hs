-- Must not know: sockets, servers.

-- | Certificates and keys of the package @tls@, as OpenSSL reads them.
module Millrace.Compat.TlsIdentity
  ( identitiesOf,
    Known,
    newKnown,
    knownIdentitiesOf,
  )
where

import Data.ASN1.BinaryEncoding (DER (..))
import Data.ASN1.Encoding (encodeASN1')
import Data.ASN1.Types (ASN1 (..), ASN1ConstructionType (..), ASN1Object (..))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import qualified Data.Map.Strict as Map
import Data.PEM (PEM (..), pemWriteBS)
import Data.X509 (CertificateChain (..), PrivKey, encodeSignedObject)
import Millrace.Http.Tls.TlsSettings (Credentials (..))
import Millrace.Tls (Identity, Pem (..), loadIdentity)
import qualified Network.TLS as TLS

-- | Gives certificates with their keys to OpenSSL. Throws a 'Millrace.Tls.SettingsError' if it cannot use them.
identitiesOf :: TLS.Credentials -> IO Credentials
identitiesOf (TLS.Credentials pairs) = Credentials <$> mapM identityOf pairs

identityOf :: (CertificateChain, PrivKey) -> IO Identity
identityOf (chain, key) = loadIdentity (PemBytes (B.concat (map certificatePem (chainDer chain)))) (PemBytes keyPem)
  where
    certificatePem = pemWriteBS . PEM "CERTIFICATE" []
    keyPem = pemWriteBS (PEM (keyForm parts) [] (encodeASN1' DER parts))
    parts = toASN1 key []

chainDer :: CertificateChain -> [ByteString]
chainDer (CertificateChain certificates) = map encodeSignedObject certificates

-- The name of the form in which a key is written: PKCS #1 for RSA, SEC 1 for elliptic curves, or PKCS #8.
keyForm :: [ASN1] -> String
keyForm parts = case parts of
  Start Sequence : IntVal 0 : IntVal _ : _ -> "RSA PRIVATE KEY"
  Start Sequence : IntVal 1 : OctetString _ : _ -> "EC PRIVATE KEY"
  _ -> "PRIVATE KEY"

-- | Identities that OpenSSL has already, by their chains.
newtype Known = Known (IORef (Map.Map [ByteString] Identity))

-- | None.
newKnown :: IO Known
newKnown = Known <$> newIORef Map.empty

-- | 'identitiesOf', which reads each certificate and key once. A certificate determines its key.
knownIdentitiesOf :: Known -> TLS.Credentials -> IO Credentials
knownIdentitiesOf (Known table) (TLS.Credentials pairs) = Credentials <$> mapM known pairs
  where
    known pair@(chain, _) = do
      found <- Map.lookup (chainDer chain) <$> readIORef table
      maybe (identityOf pair >>= remember (chainDer chain)) return found
    remember name identity = atomicModifyIORef' table (\old -> (Map.insert name identity (bounded old), identity))
    -- Certificates are renewed: the old ones go.
    bounded old = if Map.size old < mostKnown then old else Map.empty
    mostKnown = 10000
