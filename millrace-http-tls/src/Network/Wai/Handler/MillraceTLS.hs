-- | HTTP over TLS for "Network.Wai.Handler.Millrace". Names, types and defaults are those of
-- @Network.Wai.Handler.WarpTLS@, as far as they do not belong to the @tls@ package: here OpenSSL does the cryptography
-- ("Millrace.Tls").
--
-- > main = runTLS (tlsSettings "fullchain.pem" "privkey.pem") (setPort 443 defaultSettings) application
--
-- Differences from WarpTLS:
--
-- * TLS 1.2 and 1.3, nothing older. Ciphers have forward secrecy and authenticated encryption.
-- * Certificate files are checked every few seconds. The next handshake uses new ones. Broken ones are reported, and
--   the old ones stay.
-- * A handshake may take ten seconds, and a thousand may be under way. Those that fail are reported as
--   'Network.Wai.Handler.Millrace.HandshakeFailed', which 'Network.Wai.Handler.Millrace.defaultOnException' does not
--   print: most are of scanners.
-- * A client certificate is verified against 'tlsClientCertificates', and the application gets it by
--   'clientCertificate'.
-- * 'tlsCiphers' are OpenSSL's names, 'Version' and 'Credentials' are ours, and 'tlsSettingsRef' is read at each
--   'reloadTLS'.
-- * Of the names of WarpTLS 3.4.14 these are not here, because their types are those of the @tls@ package or of Warp's
--   insides:
--
-- [@tlsServerHooks@] 'tlsSettingsSni' chooses certificates, 'tlsClientCertificates' decides which clients are accepted,
-- and 'tlsProtocols' which protocols are offered. [@tlsLogging@] 'tlsOnHandshake' reports handshakes, and 'tlsKeyLog'
-- writes the secrets for a tool like Wireshark. [@tlsServerDHEParams@] Keys are exchanged on elliptic curves only:
-- 'tlsKeyGroups'. [@tlsSessionManager@, @tlsSessionManagerConfig@] Sessions are kept by clients, in tickets:
-- 'tlsTickets'. [@attachConn@] There is none. 'withTLS' and 'protectedBy' are for other ways to run a server.
module Network.Wai.Handler.MillraceTLS
  ( -- * Running a server
    runTLS,
    runTLSSocket,

    -- ** Step by step
    TLS,
    withTLS,
    offering,
    protectedBy,
    reloadTLS,
    replaceTLS,

    -- * Settings
    TLSSettings,
    defaultTlsSettings,

    -- ** From files
    tlsSettings,
    tlsSettingsChain,
    tlsSettingsMany,

    -- ** From memory
    tlsSettingsMemory,
    tlsSettingsChainMemory,

    -- ** From references
    tlsSettingsRef,
    tlsSettingsChainRef,
    getCertSettings,
    CertSettings (..),

    -- ** Looked up by name
    tlsSettingsSni,
    Credentials (..),

    -- ** Which clients
    onInsecure,
    OnInsecure (..),
    tlsWantClientCert,
    tlsClientCertificates,
    ClientCertificates (..),
    tlsUnknownNames,
    UnknownNames (..),

    -- ** Certificates and algorithms
    tlsCredentials,
    tlsCredentialsFor,
    tlsAllowedVersions,
    Version (..),
    tlsCiphers,
    tlsKeyGroups,
    tlsProtocols,
    tlsTickets,
    tlsTicketKeyFiles,
    Tickets (..),
    tlsEarlyData,
    EarlyData (..),
    tlsKeyLog,

    -- ** Reloading
    tlsWatchInterval,
    tlsOnReload,
    Reload (..),

    -- ** Handshakes
    tlsHandshakeLimit,
    tlsMaximumHandshakes,
    tlsOnHandshake,
    Handshake (..),
    HandshakeOutcome (..),

    -- * In an application
    clientCertificate,
    getNegotiated,
    Negotiated (..),

    -- * Exceptions
    WarpTLSException (..),
    TlsException,
    SettingsError,
  )
where

import Millrace.Http.Context (requestNegotiated)
import Millrace.Http.Tls.Protection
import Millrace.Http.Tls.TlsSettings
import Millrace.Http.Transport (Negotiated (..))
import Millrace.Tls
  ( Certificate,
    ClientCertificates (..),
    SettingsError,
    Tickets (..),
    TlsException,
    UnknownNames (..),
    Version (..),
    certificateFromDer,
  )
import qualified Network.Socket as Network
import Network.Wai (Application, Request)
import Network.Wai.Handler.Millrace (Settings, runSettings, runSettingsSocket)

-- | Serves an application over TLS, as 'Network.Wai.Handler.Millrace.runSettings' does without. Throws a
-- 'SettingsError' if the certificates cannot be used, or the @IOError@ of reading them.
runTLS :: TLSSettings -> Settings -> Application -> IO ()
runTLS tls settings application =
  withTLS (offering settings tls) $ \protection -> runSettings (protectedBy protection settings) application

-- | Serves an application over TLS on a socket that listens already: see
-- 'Network.Wai.Handler.Millrace.runSettingsSocket'.
runTLSSocket :: TLSSettings -> Settings -> Network.Socket -> Application -> IO ()
runTLSSocket tls settings listener application =
  withTLS (offering settings tls) $ \protection ->
    runSettingsSocket (protectedBy protection settings) listener application

-- | The certificate that the client has shown, if it was asked for one ('tlsWantClientCert', 'tlsClientCertificates').
clientCertificate :: Request -> Maybe Certificate
clientCertificate request = getNegotiated request >>= negotiatedPeerCertificate >>= certificateFromDer

-- | The parameters that client and server have negotiated for the connection of a request. Nothing if it is not
-- protected.
getNegotiated :: Request -> Maybe Negotiated
getNegotiated = requestNegotiated
