-- | The interface of WarpTLS 3.4.14, with Millrace's server and OpenSSL behind it.
--
-- > main = runTLS (tlsSettings "certificate.pem" "key.pem") (setPort 443 defaultSettings) application
--
-- Where OpenSSL differs from the package @tls@:
--
-- * TLS 1.2 and 1.3, nothing older. OpenSSL's security level is 2, so an RSA key has at least 2048 bits.
-- * Certificate files are checked every few seconds. The next handshake uses new ones.
-- * Sessions are resumed by tickets, without a session manager.
-- * @onClientCertificate@ gets the client's certificate without those between it and the authority. It is called after
--   the handshake: a client that it refuses sees its connection end.
-- * A client that leaves before its first byte is reported as 'Network.Wai.Handler.Warp.ConnectionClosedByPeer', and
--   not as 'ClientClosedConnectionPrematurely'. A handshake that fails is reported as Millrace's @HandshakeFailed@,
--   which 'Network.Wai.Handler.Warp.defaultOnException' does not print.
-- * The fields of 'TLSSettings' that have no effect say so ("Network.Wai.Handler.WarpTLS.Internal").
module Network.Wai.Handler.WarpTLS
  ( -- * Running a server
    runTLS,
    runTLSSocket,

    -- * Settings
    TLSSettings,
    defaultTlsSettings,
    tlsSettings,
    tlsSettingsChain,
    tlsSettingsMemory,
    tlsSettingsChainMemory,
    tlsSettingsRef,
    tlsSettingsChainRef,
    tlsSettingsSni,
    getCertSettings,
    CertSettings (..),

    -- ** Fields
    tlsCredentials,
    tlsLogging,
    tlsAllowedVersions,
    tlsCiphers,
    tlsWantClientCert,
    tlsServerHooks,
    tlsServerDHEParams,
    tlsSessionManagerConfig,
    tlsSessionManager,
    tlsSupportedHashSignatures,
    tlsSettingsOfMillrace,
    onInsecure,
    OnInsecure (..),

    -- * Exceptions
    WarpTLSException (..),

    -- * Handshakes of a program's own
    attachConn,
  )
where

import Control.Exception (SomeException, fromException, toException)
import Data.ByteString (ByteString)
import Data.IORef (IORef)
import Millrace.Compat.TlsAttach (attachConn)
import Millrace.Compat.TlsConversion (millraceSettings)
import Network.Socket (Socket)
import qualified Network.TLS as TLS
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (HandshakeFailed (..), Settings, getOnException, setOnException)
import Network.Wai.Handler.MillraceTLS (WarpTLSException (..))
import qualified Network.Wai.Handler.MillraceTLS as Millrace
import Network.Wai.Handler.WarpTLS.Internal

-- | Serves an application over TLS. Throws an @IOError@ for settings that OpenSSL cannot have, and Millrace's
-- @SettingsError@ for certificates that cannot be used.
runTLS :: TLSSettings -> Settings -> Application -> IO ()
runTLS tls settings application = do
  choices <- millraceSettings tls
  Millrace.runTLS choices (reporting settings) application

-- | Serves an application over TLS on a socket that listens already.
runTLSSocket :: TLSSettings -> Settings -> Socket -> Application -> IO ()
runTLSSocket tls settings listener application = do
  choices <- millraceSettings tls
  Millrace.runTLSSocket choices (reporting settings) listener application

-- Reports what programs for WarpTLS look for as they know it.
reporting :: Settings -> Settings
reporting settings = setOnException (\request -> getOnException settings request . bare) settings

bare :: SomeException -> SomeException
bare failure = case fromException failure of
  Just (HandshakeFailed reason) | Just known <- fromException reason -> toException (known :: WarpTLSException)
  _ -> failure

-- | A certificate and its key in files.
tlsSettings :: FilePath -> FilePath -> TLSSettings
tlsSettings certificate = tlsSettingsChain certificate []

-- | A certificate, the rest of its chain, and its key in files.
tlsSettingsChain :: FilePath -> [FilePath] -> FilePath -> TLSSettings
tlsSettingsChain certificate chain key = defaultTlsSettings {certSettings = CertFromFile certificate chain key}

-- | A certificate and its key in memory.
tlsSettingsMemory :: ByteString -> ByteString -> TLSSettings
tlsSettingsMemory certificate = tlsSettingsChainMemory certificate []

-- | A certificate, the rest of its chain, and its key in memory.
tlsSettingsChainMemory :: ByteString -> [ByteString] -> ByteString -> TLSSettings
tlsSettingsChainMemory certificate chain key = defaultTlsSettings {certSettings = CertFromMemory certificate chain key}

-- | A certificate and its key in variables, which are read when the server starts.
tlsSettingsRef :: IORef ByteString -> IORef ByteString -> TLSSettings
tlsSettingsRef certificate = tlsSettingsChainRef certificate []

-- | A certificate, the rest of its chain, and its key in variables, which are read when the server starts.
tlsSettingsChainRef :: IORef ByteString -> [IORef ByteString] -> IORef ByteString -> TLSSettings
tlsSettingsChainRef certificate chain key = defaultTlsSettings {certSettings = CertFromRef certificate chain key}

-- | Certificates that are looked up in each handshake, by the name that the client asks for.
tlsSettingsSni :: (Maybe TLS.HostName -> IO TLS.Credentials) -> TLSSettings
tlsSettingsSni choose =
  defaultTlsSettings
    { tlsCredentials = Just (TLS.Credentials []),
      tlsServerHooks = (tlsServerHooks defaultTlsSettings) {TLS.onServerNameIndication = choose}
    }
