-- Must not know: sockets.

-- | WarpTLS's settings as Millrace's: versions, ciphers, certificates, hooks. What OpenSSL cannot do ends the start
-- with a message.
module Millrace.Compat.TlsConversion
  ( millraceSettings,
  )
where

import Control.Exception (throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.List (isPrefixOf, nub)
import Data.Maybe (isJust, mapMaybe)
import Data.X509 (CertificateChain (..), SignedCertificate, decodeSignedCertificate)
import Millrace.Compat.TlsIdentity
import Millrace.Compat.TlsRecord
import Millrace.Http.Tls.TlsSettings (Handshake (..), HandshakeOutcome (..))
import qualified Millrace.Http.Tls.TlsSettings as Millrace
import Millrace.Http.Transport (negotiatedPeerCertificate)
import Millrace.Tls (ClientCertificates (..), Version (..))
import qualified Network.TLS as TLS

-- | Millrace's settings for these. Throws an @IOError@ for what OpenSSL cannot do, and a 'Millrace.Tls.SettingsError'
-- for certificates that it cannot use.
millraceSettings :: TLSSettings -> IO Millrace.TLSSettings
millraceSettings given = do
  refuseHooks (tlsServerHooks given)
  when (tlsSupportedHashSignatures given /= tlsSupportedHashSignatures defaultTlsSettings) $
    refused "tlsSupportedHashSignatures" "OpenSSL chooses the signature; leave out the field"
  (versions, ciphers) <- algorithmsOf given
  credentials <- mapM identitiesOf (tlsCredentials given)
  known <- newKnown
  return . tlsSettingsOfMillrace given $
    Millrace.defaultTlsSettings
      { Millrace.certSettings = [certSettings given],
        Millrace.onInsecure = onInsecure given,
        Millrace.tlsAllowedVersions = versions,
        Millrace.tlsCiphers = ciphers,
        Millrace.tlsClientCertificates = if tlsWantClientCert given then AskedUnverified else NotAsked,
        Millrace.tlsCredentials = credentials,
        Millrace.tlsCredentialsFor = Just (credentialsFor known),
        Millrace.tlsOnHandshake = Just (checkHandshake given)
      }
  where
    credentialsFor known name = TLS.onServerNameIndication (tlsServerHooks given) name >>= knownIdentitiesOf known

refused :: String -> String -> IO a
refused what why = throwIO (userError ("Network.Wai.Handler.WarpTLS: " ++ what ++ " is not supported: " ++ why))

-- Functions cannot be compared, so these are called, with little.
refuseHooks :: TLS.ServerHooks -> IO ()
refuseHooks hooks = do
  when (isJust (TLS.onALPNClientSuggest hooks)) $
    refused "onALPNClientSuggest of tlsServerHooks" "use tlsProtocols of Millrace's settings (tlsSettingsOfMillrace)"
  added <- TLS.onEncryptedExtensionsCreating hooks []
  unless (null added) $ refused "onEncryptedExtensionsCreating of tlsServerHooks" "OpenSSL writes the extensions"
  unless (all isFirst [(TLS.TLS12, strong), (TLS.TLS12, reverse strong)]) $
    refused "onCipherChoosing of tlsServerHooks" "give tlsCiphers in the order of preference"
  where
    strong = tlsCiphers defaultTlsSettings
    isFirst (version, ciphers) = take 1 ciphers == [TLS.onCipherChoosing hooks version ciphers]

-- The versions that the server has, and the names of its ciphers, of which there are none if they are the usual ones.
algorithmsOf :: TLSSettings -> IO ([Version], [String])
algorithmsOf given = do
  when (null allowed) $ refused "tlsAllowedVersions without TLS12 and TLS13" "older versions are broken"
  if tlsCiphers given == tlsCiphers defaultTlsSettings
    then return (allowed, [])
    else do
      -- A version without a cipher is not there: Millrace would have its usual ones.
      let possible = filter (\version -> any ((== version) . versionOf) names) allowed
      when (null possible) $ refused "tlsCiphers without a cipher of an allowed version" "OpenSSL has none of them"
      return (possible, filter ((`elem` possible) . versionOf) names)
  where
    allowed = nub (mapMaybe known (tlsAllowedVersions given))
    known version
      | version == TLS.TLS12 = Just Tls12
      | version == TLS.TLS13 = Just Tls13
      | otherwise = Nothing
    names = mapMaybe (\cipher -> lookup (fromIntegral (TLS.cipherID cipher)) cipherNames) (tlsCiphers given)
    versionOf name = if "TLS_" `isPrefixOf` name then Tls13 else Tls12

-- OpenSSL's names of ciphers, by their numbers in the protocol.
cipherNames :: [(Int, String)]
cipherNames =
  [ (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA")
  ]

-- Calls the hooks about a handshake that has succeeded. What they throw ends the connection.
checkHandshake :: TLSSettings -> Handshake -> IO ()
checkHandshake given handshake = case handshakeOutcome handshake of
  HandshakeDone agreed -> do
    isWelcome <- TLS.onNewHandshake hooks (TLS.Measurement 1 0 0)
    unless isWelcome $ throwIO (userError "onNewHandshake has refused a client")
    when (tlsWantClientCert given) $
      TLS.onClientCertificate hooks (CertificateChain (certificatesOf agreed)) >>= judged
  _ -> return ()
  where
    hooks = tlsServerHooks given
    judged TLS.CertificateUsageAccept = return ()
    judged (TLS.CertificateUsageReject reason) =
      throwIO (userError ("onClientCertificate has refused a client: " ++ show reason))
    certificatesOf agreed = maybe [] decoded (negotiatedPeerCertificate agreed)

decoded :: ByteString -> [SignedCertificate]
decoded = either (const []) pure . decodeSignedCertificate
