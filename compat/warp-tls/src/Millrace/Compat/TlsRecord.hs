{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets, servers.

-- | The record of WarpTLS's settings, with the types of the package @tls@.
module Millrace.Compat.TlsRecord
  ( TLSSettings (..),
    defaultTlsSettings,
    defaultVersions,
    defaultHooks,
  )
where

#if !MIN_VERSION_tls(2,1,3)
import Data.Default.Class (def)
#endif
import Millrace.Http.Tls.TlsSettings (CertSettings (..), OnInsecure (..))
import qualified Millrace.Http.Tls.TlsSettings as Millrace
import qualified Network.TLS as TLS
import qualified Network.TLS.Extra as Extra
import qualified Network.TLS.SessionManager as SessionManager

-- | The settings of a server with TLS. Begin with 'Network.Wai.Handler.WarpTLS.tlsSettings' or 'defaultTlsSettings',
-- and change fields.
data TLSSettings = TLSSettings
  { -- | The sources of the certificate, of the rest of its chain, and of its key.
    certSettings :: CertSettings,
    -- | The treatment of clients that speak plain HTTP. Default: 'DenyInsecure' with a short text.
    onInsecure :: OnInsecure,
    -- | Never called: OpenSSL has other steps than the package @tls@.
    tlsLogging :: TLS.Logging,
    -- | Of these the server has TLS 1.2 and 1.3. It does not start if neither is there.
    tlsAllowedVersions :: [TLS.Version],
    -- | Unless they are the default, the server has those of them that OpenSSL has, in this order. It does not start if
    -- there are none.
    tlsCiphers :: [TLS.Cipher],
    -- | Clients are asked for a certificate. @onClientCertificate@ of 'tlsServerHooks' then decides by it.
    tlsWantClientCert :: Bool,
    -- | @onClientCertificate@, @onServerNameIndication@ and @onNewHandshake@ are called. The server does not start with
    -- other values of @onALPNClientSuggest@, @onCipherChoosing@ or @onEncryptedExtensionsCreating@ than the default's,
    -- as far as it can see that. @onUnverifiedClientCert@ is never called: a client that does not have its
    -- certificate's key is refused.
    tlsServerHooks :: TLS.ServerHooks,
    -- | Not used: keys are exchanged on elliptic curves.
    tlsServerDHEParams :: Maybe TLS.DHParams,
    -- | Not used: clients keep sessions, in tickets.
    tlsSessionManagerConfig :: Maybe SessionManager.Config,
    -- | Certificates that are loaded already, instead of 'certSettings'.
    tlsCredentials :: Maybe TLS.Credentials,
    -- | Not used: clients keep sessions, in tickets.
    tlsSessionManager :: Maybe TLS.SessionManager,
    -- | The server does not start with other values than the default.
    tlsSupportedHashSignatures :: [TLS.HashAndSignatureAlgorithm],
    -- | Changes what Millrace's settings have beyond these, last. Default: 'id'.
    tlsSettingsOfMillrace :: Millrace.TLSSettings -> Millrace.TLSSettings
  }

-- | The certificate in @certificate.pem@ and its key in @key.pem@.
defaultTlsSettings :: TLSSettings
defaultTlsSettings =
  TLSSettings
    { certSettings = CertFromFile "certificate.pem" [] "key.pem",
      onInsecure = DenyInsecure "This server only accepts secure HTTPS connections.",
      tlsLogging = defaultLogging,
      tlsAllowedVersions = defaultVersions,
      tlsCiphers = Extra.ciphersuite_strong,
      tlsWantClientCert = False,
      tlsServerHooks = defaultHooks,
      tlsServerDHEParams = Nothing,
      tlsSessionManagerConfig = Nothing,
      tlsCredentials = Nothing,
      tlsSessionManager = Nothing,
      tlsSupportedHashSignatures = TLS.supportedHashSignatures defaultSupported,
      tlsSettingsOfMillrace = id
    }

-- | The versions that the package @tls@ has by default.
defaultVersions :: [TLS.Version]
defaultVersions = TLS.supportedVersions defaultSupported

-- | The hooks of a server that needs none.
defaultHooks :: TLS.ServerHooks
defaultLogging :: TLS.Logging
defaultSupported :: TLS.Supported
#if MIN_VERSION_tls(2,1,3)
defaultHooks = TLS.defaultServerHooks

defaultLogging = TLS.defaultLogging

defaultSupported = TLS.defaultSupported
#else
defaultHooks = def

defaultLogging = def

defaultSupported = def
#endif
