-- | The record of WarpTLS's settings with all its fields.
module Network.Wai.Handler.WarpTLS.Internal
  ( CertSettings (..),
    TLSSettings (..),
    defaultTlsSettings,
    OnInsecure (..),
    getCertSettings,
  )
where

import Millrace.Compat.TlsRecord
import Millrace.Http.Tls.TlsSettings (CertSettings (..), OnInsecure (..))

-- | The source of the certificate.
getCertSettings :: TLSSettings -> CertSettings
getCertSettings = certSettings
