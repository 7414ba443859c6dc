-- Must not know: sockets, servers.

-- |
-- The settings of a server in the form that the engine of HTTP\/3 takes.
module Millrace.Http.Http3.Settings
  ( UnsupportedSetting (..),
    refuseUnsupported,
    portLimits,
    credentialsOf,
  )
where

import Control.Exception (Exception (..), throwIO)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef (readIORef)
import Data.Maybe (isJust, listToMaybe)
import Data.Word (Word16)
import Millrace.Http.Http3.Engine (Credentials, Early (..), Pem (..), PortLimits (..), newCredentials)
import Millrace.Http.Multiplexed.EngineLimits (engineLimits)
import Millrace.Http.Server.Limits
import Millrace.Http.Server.Settings (ProxyProtocol (..), Settings (..))
import Millrace.Http.Tls.TlsSettings (CertSettings (..), EarlyData (..), TLSSettings (..))
import Millrace.Tls (ClientCertificates (..), UnknownNames (..))

-- | A demand of the settings that HTTP\/3 cannot meet. A server that ignored it would serve clients that the settings
-- refuse.
data UnsupportedSetting
  = -- | 'Network.Wai.Handler.MillraceTLS.tlsClientCertificates' or
    -- 'Network.Wai.Handler.MillraceTLS.tlsWantClientCert': HTTP\/3 asks clients for no certificate.
    ClientCertificatesUnsupported
  | -- | 'Network.Wai.Handler.MillraceTLS.tlsCredentials' or 'Network.Wai.Handler.MillraceTLS.tlsCredentialsFor':
    -- another library than OpenSSL uses the certificates.
    CredentialsUnsupported
  | -- | 'Network.Wai.Handler.MillraceTLS.tlsUnknownNames': HTTP\/3 shows the first certificate to clients that ask for
    -- another name.
    UnknownNamesUnsupported
  | -- | 'Network.Wai.Handler.Millrace.setProxyProtocolRequired': the header of a proxy is for connections of TCP.
    ProxyHeaderUnsupported
  deriving (Eq, Show)

instance Exception UnsupportedSetting where
  displayException setting = "HTTP/3: " ++ reason
    where
      reason = case setting of
        ClientCertificatesUnsupported ->
          "it asks clients for no certificate, but tlsClientCertificates or tlsWantClientCert does"
        CredentialsUnsupported ->
          "certificates must be given as files or bytes, not as tlsCredentials or tlsCredentialsFor"
        UnknownNamesUnsupported -> "it cannot refuse clients by the name that they ask for, but tlsUnknownNames does"
        ProxyHeaderUnsupported -> "no header of a proxy comes by UDP, but setProxyProtocolRequired demands it"

-- | Throws an 'UnsupportedSetting' if there is one.
refuseUnsupported :: TLSSettings -> Settings -> IO ()
refuseUnsupported tls settings =
  mapM_ throwIO (listToMaybe (unsupported tls ++ [ProxyHeaderUnsupported | needsHeader]))
  where
    needsHeader = settingsProxyProtocol settings == ProxyProtocolRequired

unsupported :: TLSSettings -> [UnsupportedSetting]
unsupported tls =
  [ClientCertificatesUnsupported | asksClients]
    ++ [CredentialsUnsupported | isJust (tlsCredentials tls) || isJust (tlsCredentialsFor tls)]
    ++ [UnknownNamesUnsupported | tlsUnknownNames tls == RefuseUnknownNames]
  where
    asksClients = case tlsClientCertificates tls of
      NotAsked -> tlsWantClientCert tls
      _ -> True

-- | The limits of a port. The numbers are the beginning of connection IDs, and the bytes of the largest datagram.
portLimits :: Word16 -> Int -> TLSSettings -> Settings -> PortLimits
portLimits endpointId datagram tls settings =
  PortLimits
    { -- In HTTP/3 the bytes of heads count for the connection's window, too: uploads that are not read yet must leave
      -- enough of it to further requests.
      limitsInCommon = engineLimits 1048576 settings limits,
      limitRequests = settingsMaximumRequests settings,
      limitConnections = settingsMaximumConnections settings,
      limitIdle = if freshMicros limits == 0 then 0 else max 1 (freshMicros limits `quot` 1000),
      limitHandshake = boundedMicros (tlsHandshakeLimit tls) `quot` 1000,
      limitDatagram = datagram,
      limitEarly = case tlsEarlyData tls of
        NoEarlyData -> ServesNothingEarly
        SafeEarlyData -> ServesEarly,
      limitEndpointId = endpointId
    }
  where
    limits = limitsOf settings

-- | Reads the certificates. Throws an 'UnsupportedSetting', or an @IOError@ if they cannot be read or used.
credentialsOf :: TLSSettings -> IO Credentials
credentialsOf settings
  | refused : _ <- unsupported settings = throwIO refused
  | null (certSettings settings) = throwIO (userError "HTTP/3: there is no certificate")
  | otherwise = mapM load (certSettings settings) >>= newCredentials
  where
    load source = case source of
      CertFromFile certificate chain key ->
        Pem <$> (joined <$> mapM B.readFile (certificate : chain)) <*> B.readFile key
      CertFromMemory certificate chain key -> return (Pem (joined (certificate : chain)) key)
      CertFromRef certificate chain key -> Pem <$> (joined <$> mapM readIORef (certificate : chain)) <*> readIORef key
    -- A file may end without a line end.
    joined = B.intercalate (C8.pack "\n")
