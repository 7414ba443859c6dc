-- | A server's TLS: certificates, their renewal, and what clients must show. Must not know: files.
--
-- The same names in @windows\/@ are for Windows; the package description chooses.
module Millrace.Cli.Tls
  ( Tls (..),
    withTls,
    checkTls,
  )
where

import Control.Exception (IOException, SomeException, catch, fromException, throwIO, try)
import Control.Monad (void)
import Millrace.Cli.Command (TlsOptions (..))
import Millrace.Cli.Failure (Failure (..), reasonOf, tell)
import Millrace.Cli.Metrics (HandshakeResult (..))
import Millrace.Tls (Pem (..), SettingsError (..), SettingsProblem (..), trustIn)
import Network.Wai.Handler.Millrace (Settings)
import Network.Wai.Handler.MillraceTLS
import System.Posix.Signals (Handler (Catch), installHandler, sigUSR2)

-- | What protects a server's connections.
--
-- @since 0.1.0
data Tls = Tls
  { -- | The same server, with protected connections.
    protecting :: Settings -> Settings,
    -- | Has new connections use these certificates. Throws 'Failure', and then nothing has changed.
    replacing :: TlsOptions -> IO ()
  }

-- | Reads the certificates, and runs an action. During the action they are read again whenever their files change, and
-- at SIGUSR2. The function gets the outcome of each handshake. Throws 'Failure'.
--
-- @since 0.1.0
withTls :: TlsOptions -> Maybe (HandshakeResult -> IO ()) -> (Tls -> IO a) -> IO a
withTls options observer use = do
  checkTls options -- Convert only exceptions of reading the certificates.
  withTLS settings $ \tls -> do
    void (installHandler sigUSR2 (Catch (try (reloadTLS tls) >>= sayReload . either NotReloaded (const Reloaded))) Nothing)
    use (Tls (protectedBy tls) (\chosen -> replaceTLS tls (observed chosen) `catch` refuse))
  where
    settings = observed options
    observed chosen = (settingsOf chosen) {tlsOnHandshake = (. (resultOf . handshakeOutcome)) <$> observer}

-- | Reads certificates, keys and authorities as 'withTls' does, and does nothing with them. Throws 'Failure' if it would.
--
-- @since 0.1.0
checkTls :: TlsOptions -> IO ()
checkTls options = void (withTLS (settingsOf options) {tlsWatchSeconds = 0} return) `catch` refuse

settingsOf :: TlsOptions -> TLSSettings
settingsOf options =
  (tlsSettingsMany (tlsPairs options))
    { tlsClientCertificates = maybe NotAsked (Required . trustIn . PemFile) (tlsClientAuthorities options),
      tlsTicketKeyFiles = tlsTicketKeys options,
      tlsWatchSeconds = 2,
      tlsOnReload = sayReload
    }

resultOf :: HandshakeOutcome -> HandshakeResult
resultOf outcome = case outcome of
  HandshakeDone found -> if negotiatedIsResumed found then Resumption else FullHandshake
  HandshakeRefused _ -> RefusedHandshake
  HandshakeTimedOut -> SlowHandshake
  HandshakeMadeRoom -> SlowHandshake
  HandshakeLost _ -> LostHandshake

sayReload :: Reload -> IO ()
sayReload Reloaded = tell "millrace: the certificates were read again; new connections use them"
sayReload (NotReloaded reason) = tell ("millrace: the certificates stay as they were: " <> described reason)

-- With the name of the file, if there is one.
described :: SomeException -> String
described reason = maybe (reasonOf reason) (\failure -> show (failure :: IOException)) (fromException reason)

refuse :: SomeException -> IO a
refuse reason = case (fromException reason :: Maybe SettingsError, fromException reason :: Maybe IOException) of
  (Just problem, _) ->
    throwIO
      Failure
        { failureAttempt = "use " <> settingsSource problem,
          failureReason = reasonOf reason,
          failureRemedy = if settingsProblem problem == BadTicketKeys then ofTicketKeys else ofCertificates
        }
  (_, Just failure) ->
    throwIO
      Failure
        { failureAttempt = "read the certificates",
          failureReason = show failure,
          failureRemedy =
            "Check the files of --tls-cert, --tls-key, --tls-client-ca and --tls-ticket-keys (in a configuration: 'certificates' and 'tls'), and that \
            \this user may read them."
        }
  _ -> throwIO reason
  where
    ofCertificates = "--tls-cert ('chain' in a configuration) takes a certificate with its chain, and --tls-key ('key') its private key without a password, both in PEM."
    ofTicketKeys = "--tls-ticket-keys ('ticket-keys' in a configuration) takes keys of 80 bytes, one behind another. 'openssl rand 80 >FILE' makes one."
