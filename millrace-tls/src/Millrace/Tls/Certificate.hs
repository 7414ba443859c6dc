-- Must not know: sockets.

-- | Certificates, and identities: certificates with their private keys.
--
-- > identity <- loadIdentity (PemFile "fullchain.pem") (PemFile "privkey.pem")
-- > print (certificateNames (identityCertificate identity))
module Millrace.Tls.Certificate
  ( -- * Certificates
    Certificate,
    certificateFromDer,
    certificateDer,
    certificateSubject,
    certificateIssuer,
    certificateSerial,
    certificateNames,
    certificateAddresses,
    certificateValidFrom,
    certificateValidUntil,

    -- * Identities
    Pem (..),
    Identity,
    loadIdentity,
    loadIdentityWith,
    stapling,
    identityCertificate,
  )
where

import Millrace.Tls.Internal.Certificate
import Millrace.Tls.Internal.Identity
