{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sockets, servers.

-- | The settings of a server with TLS.
--
-- "Network.Wai.Handler.MillraceTLS" exports those that are public. Not covered by the version policy.
module Millrace.Http.Tls.TlsSettings
  ( TLSSettings (..),
    CertSettings (..),
    OnInsecure (..),
    EarlyData (..),
    Reload (..),
    Handshake (..),
    HandshakeOutcome (..),
    WarpTLSException (..),
    defaultTlsSettings,
    tlsSettings,
    tlsSettingsChain,
    tlsSettingsMany,
    tlsSettingsMemory,
    tlsSettingsChainMemory,
    tlsSettingsRef,
    tlsSettingsChainRef,
    tlsSettingsSni,
    Credentials (..),
    getCertSettings,
    serverSettingsOf,
    watchedFiles,
  )
where

import Control.Exception (Exception (..), SomeException, throwIO, tryJust)
import Control.Monad (guard, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.IORef (IORef, readIORef)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word64)
import Millrace.Duration (Duration, seconds)
import Millrace.Http.Transport (Negotiated)
import Millrace.Tls hiding (Negotiated (..))
import System.IO.Error (isDoesNotExistError)

-- | The source of a certificate, of the rest of its chain, and of its key.
data CertSettings
  = CertFromFile !FilePath ![FilePath] !FilePath
  | CertFromMemory !ByteString ![ByteString] !ByteString
  | CertFromRef !(IORef ByteString) ![IORef ByteString] !(IORef ByteString)

-- | Certificates with their keys, as 'Millrace.Tls.loadIdentity' reads them. One of each kind of key is used for a
-- client.
newtype Credentials = Credentials [Identity]
  deriving (Show, Semigroup, Monoid)

-- | The treatment of clients that speak plain HTTP.
data OnInsecure
  = -- | It gets this text with the status 426 (Upgrade Required).
    DenyInsecure L.ByteString
  | -- | It is served. 'Network.Wai.isSecure' is false.
    AllowInsecure
  deriving (Show)

-- | The result of reading the certificates again.
data Reload
  = -- | Handshakes to come use the new ones.
    Reloaded
  | -- | The old ones stay.
    NotReloaded SomeException

-- | A handshake that has ended.
data Handshake = Handshake
  { handshakeOutcome :: !HandshakeOutcome,
    -- | Its duration since the client's first byte.
    handshakeNanoseconds :: !Word64
  }

-- | How a handshake ended.
data HandshakeOutcome
  = HandshakeDone !Negotiated
  | -- | TLS failed: because of the client's certificate, without a common version, or because the bytes are not TLS.
    HandshakeRefused !TlsException
  | -- | It was not done within 'tlsHandshakeLimit'.
    HandshakeTimedOut
  | -- | It was slow, and others waited for their turn ('tlsMaximumHandshakes').
    HandshakeAborted
  | -- | The connection failed.
    HandshakeLost !SomeException

-- | Exceptions that are reported besides those of "Millrace.Tls", within
-- 'Network.Wai.Handler.Millrace.HandshakeFailed'.
data WarpTLSException
  = -- | A client that does not speak TLS was refused.
    InsecureConnectionDenied
  | -- | Not reported by this version, but 'Network.Wai.Handler.Millrace.ConnectionClosedByPeer'.
    ClientClosedConnectionPrematurely
  deriving (Eq, Show)

instance Exception WarpTLSException where
  displayException InsecureConnectionDenied = "a client that does not speak TLS was refused"
  displayException ClientClosedConnectionPrematurely = "a client has closed the connection before the handshake"

-- | The settings of TLS. Begin with 'tlsSettings' or 'defaultTlsSettings', and change fields.
data TLSSettings = TLSSettings
  { -- | Certificates with their keys. Each is for the names in it; the first one is for clients that ask for no name,
    -- too.
    certSettings :: ![CertSettings],
    -- | Default: 'DenyInsecure' with a short text.
    onInsecure :: !OnInsecure,
    -- | Default: 'Tls12' and 'Tls13'.
    tlsAllowedVersions :: ![Version],
    -- | Ciphers by OpenSSL's names, those of TLS 1.3 beginning with @TLS_@. A version for which none is named keeps its
    -- defaults. Default: none.
    tlsCiphers :: ![String],
    -- | Groups for the key exchange by OpenSSL's names, the preferred one first. Default: none, which means
    -- X25519MLKEM768 (if OpenSSL knows it), X25519, P-256, P-384.
    tlsKeyGroups :: ![String],
    -- | Application protocols (ALPN), the preferred one first. 'Nothing' stands for @h2@, @http\/1.1@ and @http\/1.0@,
    -- of which 'Network.Wai.Handler.MillraceTLS.runTLS' leaves out what the server's settings disable
    -- ('Network.Wai.Handler.MillraceTLS.offering'). Default: 'Nothing'.
    tlsProtocols :: !(Maybe [ByteString]),
    -- | Whether clients must have certificates. These are verified against the system's authorities;
    -- 'tlsClientCertificates' can name others. Default: 'False'.
    tlsWantClientCert :: !Bool,
    -- | Whether clients have certificates, and whose. Default: 'NotAsked'.
    tlsClientCertificates :: !ClientCertificates,
    -- | Default: 'UseFirstIdentity'.
    tlsUnknownNames :: !UnknownNames,
    -- | How clients resume sessions. Default: 'OwnTicketKeys'.
    tlsTickets :: !Tickets,
    -- | Files with keys for session tickets. If other processes and later runs have the same keys, a client can resume
    -- its session with each of them. A key has 80 bytes (@openssl rand 80@); a file holds one or more of them, one
    -- behind another. The first key protects new tickets, and all of them open tickets. The files are read again as
    -- those of certificates are. If there are any, 'tlsTickets' is ignored. Default: none.
    tlsTicketKeyFiles :: ![FilePath],
    -- | For HTTP\/3: whether a client that comes back may send requests with the first bytes of its handshake (0-RTT).
    -- Somebody who has copied these bytes could send them again, so that is safe only for requests that change nothing.
    -- It saves a round trip. Over TCP there is no early data. Default: 'NoEarlyData'.
    tlsEarlyData :: !EarlyData,
    -- | A file for the secrets of all connections, for debugging. Default: none.
    tlsKeyLog :: !(Maybe FilePath),
    -- | Certificates that are loaded already, say with an encrypted key. They are used instead of 'certSettings', and
    -- are never read again. Default: none.
    tlsCredentials :: !(Maybe Credentials),
    -- | Runs in each handshake: see 'tlsSettingsSni'. Default: none.
    tlsCredentialsFor :: !(Maybe (Maybe String -> IO Credentials)),
    -- | How often the files of certificates are checked; 'Millrace.Duration.unlimited' means never. Default: @seconds
    -- 5@.
    tlsWatchInterval :: !Duration,
    -- | Runs after certificates were read again because their files have changed. Default: nothing.
    tlsOnReload :: !(Reload -> IO ()),
    -- | How long a handshake may take. Default: @seconds 10@.
    tlsHandshakeLimit :: !Duration,
    -- | How many handshakes may be under way. Default: 1000.
    tlsMaximumHandshakes :: !Int,
    -- | Runs after every handshake, in the thread of the handshake. Default: nothing.
    tlsOnHandshake :: !(Maybe (Handshake -> IO ()))
  }

-- | The requests that may come before a handshake is complete.
data EarlyData
  = -- | None.
    NoEarlyData
  | -- | GET and HEAD. They have the field @Early-Data: 1@ (RFC 8470): an application for which one of them is not safe
    -- answers it with 425 (Too Early), and the client repeats it after the handshake. Others wait for the end of the
    -- handshake. A server accepts the early bytes of a handshake once, from a client that has proved before that it has
    -- its address.
    SafeEarlyData
  deriving (Eq, Show)

-- | The certificate in @certificate.pem@ and its key in @key.pem@.
defaultTlsSettings :: TLSSettings
defaultTlsSettings =
  TLSSettings
    { certSettings = [CertFromFile "certificate.pem" [] "key.pem"],
      onInsecure = DenyInsecure "This server only accepts secure HTTPS connections.",
      tlsAllowedVersions = [Tls12, Tls13],
      tlsCiphers = [],
      tlsKeyGroups = [],
      tlsProtocols = Nothing,
      tlsWantClientCert = False,
      tlsClientCertificates = NotAsked,
      tlsUnknownNames = UseFirstIdentity,
      tlsTickets = OwnTicketKeys,
      tlsTicketKeyFiles = [],
      tlsEarlyData = NoEarlyData,
      tlsKeyLog = Nothing,
      tlsCredentials = Nothing,
      tlsCredentialsFor = Nothing,
      tlsWatchInterval = seconds 5,
      tlsOnReload = const (return ()),
      tlsHandshakeLimit = seconds 10,
      tlsMaximumHandshakes = 1000,
      tlsOnHandshake = Nothing
    }

-- | A certificate and its key in files. The certificate's file may hold its chain. If there is a file of the same name
-- with @.ocsp@ behind it, it is the authority's answer to show with it (OCSP, in DER).
tlsSettings :: FilePath -> FilePath -> TLSSettings
tlsSettings certificate = tlsSettingsChain certificate []

-- | A certificate, the rest of its chain, and its key in files.
tlsSettingsChain :: FilePath -> [FilePath] -> FilePath -> TLSSettings
tlsSettingsChain certificate chain key = defaultTlsSettings {certSettings = [CertFromFile certificate chain key]}

-- | Several certificates with their keys in files. The name that a client asks for (SNI) decides which one it sees.
tlsSettingsMany :: [(FilePath, FilePath)] -> TLSSettings
tlsSettingsMany pairs =
  defaultTlsSettings {certSettings = [CertFromFile certificate [] key | (certificate, key) <- pairs]}

-- | A certificate and its key in memory.
tlsSettingsMemory :: ByteString -> ByteString -> TLSSettings
tlsSettingsMemory certificate = tlsSettingsChainMemory certificate []

-- | A certificate, the rest of its chain, and its key in memory.
tlsSettingsChainMemory :: ByteString -> [ByteString] -> ByteString -> TLSSettings
tlsSettingsChainMemory certificate chain key =
  defaultTlsSettings {certSettings = [CertFromMemory certificate chain key]}

-- | A certificate and its key in variables, which are read when the server starts and when
-- 'Network.Wai.Handler.MillraceTLS.reloadTLS' is called.
tlsSettingsRef :: IORef ByteString -> IORef ByteString -> TLSSettings
tlsSettingsRef certificate = tlsSettingsChainRef certificate []

-- | A certificate, the rest of its chain, and its key in variables, which are read as those of 'tlsSettingsRef'.
tlsSettingsChainRef :: IORef ByteString -> [IORef ByteString] -> IORef ByteString -> TLSSettings
tlsSettingsChainRef certificate chain key = defaultTlsSettings {certSettings = [CertFromRef certificate chain key]}

-- | Certificates that are looked up during the handshake, by the name that the client asks for (SNI). The server
-- continues with other clients meanwhile, but 'tlsHandshakeLimit' does not count. The client is refused if the action
-- returns 'mempty' or throws.
--
-- > table <- newIORef (Map.fromList [("example.org", Credentials [identity])])
-- > let settings = tlsSettingsSni (\name -> fromMaybe mempty . (>>=) name . flip Map.lookup <$> readIORef table)
tlsSettingsSni :: (Maybe String -> IO Credentials) -> TLSSettings
tlsSettingsSni choose = defaultTlsSettings {certSettings = [], tlsCredentialsFor = Just choose}

-- | The source of the first certificate.
getCertSettings :: TLSSettings -> CertSettings
getCertSettings settings = case certSettings settings of
  first : _ -> first
  [] -> CertFromFile "certificate.pem" [] "key.pem"

-- | The files that certificates and keys for tickets are read from.
watchedFiles :: TLSSettings -> [FilePath]
watchedFiles settings = ofCertificates ++ tlsTicketKeyFiles settings
  where
    ofCertificates
      | isJust (tlsCredentials settings) = []
      | otherwise =
        concat
          [ certificate : (certificate ++ ".ocsp") : key : chain
            | CertFromFile certificate chain key <-
                certSettings settings
          ]

-- | Reads the certificates and keys that the settings name. Throws a 'SettingsError', or the @IOError@ of reading a
-- file.
serverSettingsOf :: TLSSettings -> IO ServerSettings
serverSettingsOf settings = do
  identities <- maybe (mapM load (certSettings settings)) (return . identitiesOf) (tlsCredentials settings)
  keys <- concat <$> mapM loadTicketKeys (tlsTicketKeyFiles settings)
  return
    ServerSettings
      { serverIdentities = identities,
        serverIdentitiesFor = fmap (fmap identitiesOf .) (tlsCredentialsFor settings),
        serverUnknownNames = tlsUnknownNames settings,
        serverProtocols = fromMaybe ["h2", "http/1.1", "http/1.0"] (tlsProtocols settings),
        serverAlgorithms = algorithmsOf settings,
        serverClientCertificates = clients,
        serverTickets = if null keys then tlsTickets settings else SharedTicketKeys keys,
        serverKeyLog = tlsKeyLog settings
      }
  where
    identitiesOf (Credentials identities) = identities
    clients = case tlsClientCertificates settings of
      NotAsked | tlsWantClientCert settings -> Required systemTrust
      others -> others

-- At least one key.
loadTicketKeys :: FilePath -> IO [ByteString]
loadTicketKeys file = do
  bytes <- B.readFile file
  when (B.null bytes || B.length bytes `rem` size /= 0) $ throwIO (SettingsError file BadTicketKeys "")
  return (cut bytes)
  where
    size = 80
    cut bytes = if B.null bytes then [] else B.take size bytes : cut (B.drop size bytes)

load :: CertSettings -> IO Identity
load source = case source of
  CertFromFile certificate [] key -> loadIdentity (PemFile certificate) (PemFile key) >>= withStaple certificate
  CertFromFile certificate chain key -> do
    parts <- mapM B.readFile (certificate : chain)
    loadIdentity (PemBytes (joined parts)) (PemFile key) >>= withStaple certificate
  CertFromMemory certificate chain key -> loadIdentity (PemBytes (joined (certificate : chain))) (PemBytes key)
  CertFromRef certificate chain key -> do
    parts <- mapM readIORef (certificate : chain)
    keyBytes <- readIORef key
    loadIdentity (PemBytes (joined parts)) (PemBytes keyBytes)
  where
    -- A file may end without a line end.
    joined = B.intercalate "\n"
    withStaple certificate identity = do
      answer <- tryJust (guard . isDoesNotExistError) (B.readFile (certificate ++ ".ocsp"))
      return (either (const identity) (`stapling` identity) answer)

algorithmsOf :: TLSSettings -> Algorithms
algorithmsOf settings =
  Algorithms
    { lowestVersion = if null versions then minBound else minimum versions,
      highestVersion = if null versions then maxBound else maximum versions,
      ciphersFor13 = given (filter is13 (tlsCiphers settings)),
      ciphersFor12 = given (filter (not . is13) (tlsCiphers settings)),
      keyGroups = given (tlsKeyGroups settings)
    }
  where
    versions = tlsAllowedVersions settings
    is13 name = take 4 name == "TLS_"
    given names = if null names then Nothing else Just names
