-- Must not know: sockets.

-- | Settings that servers and clients share.
module Millrace.Tls.Settings
  ( -- * Algorithms
    Version (..),
    Algorithms (..),
    defaultAlgorithms,

    -- * Trust
    Trust (..),
    Anchors (..),
    systemTrust,
    trustIn,
  )
where

import Millrace.Tls.Certificate (Pem)

-- | A version of the protocol. Older ones are broken.
data Version = Tls12 | Tls13
  deriving (Eq, Ord, Show, Read, Enum, Bounded)

-- | Versions, ciphers and groups. An empty list means the default, which has only forward secrecy and authenticated
-- encryption.
data Algorithms = Algorithms
  { lowestVersion :: !Version,
    highestVersion :: !Version,
    -- | Ciphers for TLS 1.3 by OpenSSL's names, the preferred one first: @TLS_AES_128_GCM_SHA256@.
    ciphersFor13 :: !(Maybe [String]),
    -- | Ciphers for TLS 1.2: @ECDHE-ECDSA-AES128-GCM-SHA256@.
    ciphersFor12 :: !(Maybe [String]),
    -- | Groups for the exchange of keys: @X25519MLKEM768@, @X25519@, @P-256@.
    keyGroups :: !(Maybe [String])
  }
  deriving (Eq, Show)

-- | TLS 1.2 and 1.3. AES-128 and X25519 are preferred, because they are cheap and strong. Before X25519 comes
-- X25519MLKEM768 where OpenSSL knows it (from 3.5 on): it is X25519 together with an exchange that a quantum computer
-- cannot break.
defaultAlgorithms :: Algorithms
defaultAlgorithms = Algorithms minBound maxBound Nothing Nothing Nothing

-- | Which certificates are accepted.
data Trust = Trust
  { trustAnchors :: ![Anchors],
    -- | Revocation lists in PEM. If there is one, every issuer in a chain must have one.
    trustRevocationLists :: ![Pem]
  }
  deriving (Show)

-- | The trusted authorities.
data Anchors
  = -- | Those of the system. OpenSSL's variables @SSL_CERT_FILE@ and @SSL_CERT_DIR@ change them.
    SystemAnchors
  | -- | The certificates in PEM.
    Anchors Pem
  deriving (Show)

-- | Trusts the system's authorities.
systemTrust :: Trust
systemTrust = Trust [SystemAnchors] []

-- | Trusts only these authorities.
trustIn :: Pem -> Trust
trustIn pem = Trust [Anchors pem] []
