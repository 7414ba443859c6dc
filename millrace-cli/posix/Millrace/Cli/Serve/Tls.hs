-- Must not know: files.

-- | The TLS of a server: certificates, their renewal, and the certificates of clients.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Serve.Tls
  ( Tls (..),
    CertificateUser (..),
    withTls,
    checkTls,
    tlsSettingsOf,
  )
where

import Control.Exception (SomeException, catch, fromException, throwIO, try)
import Control.Monad (void)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.Maybe (fromMaybe)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure (Failure (..), FileFailure (..), fileReason, reasonOf, tell)
import Millrace.Cli.Config.Options (TlsOptions (..))
import Millrace.Cli.Observe.Metrics (HandshakeResult (..))
import Millrace.Duration (seconds, unlimited)
import Millrace.Tls (Pem (..), SettingsError (..), SettingsProblem (..), trustIn)
import Network.Wai.Handler.Millrace (Settings)
import Network.Wai.Handler.MillraceTLS
import System.Posix.Signals (Handler (Catch), installHandler, sigUSR2)

-- | TLS for a server's connections.
data Tls = Tls
  { -- | Makes a server's connections use TLS.
    protecting :: Settings -> Settings,
    -- | Makes new connections use these certificates. Throws 'Failure', and then nothing has changed.
    replacing :: TlsOptions -> IO (),
    -- | Adds another user of the certificates. Later changes are made for it, too.
    alsoFor :: CertificateUser -> IO ()
  }

-- | Another library that uses the same certificates.
data CertificateUser = CertificateUser
  { -- | Reads the files again. If it throws, the old certificates stay.
    readsAgain :: IO (),
    -- | Reads the certificates of other options. The action that it returns makes connections use them, and never
    -- throws.
    readsOthers :: TlsOptions -> IO (IO ())
  }

-- | Reads the certificates, and runs an action. During the action they are read again whenever their files change, and
-- at SIGUSR2. The function gets the outcome of each handshake. Throws 'Failure'.
withTls :: TlsOptions -> Maybe (HandshakeResult -> IO ()) -> (Tls -> IO a) -> IO a
withTls options observer use = do
  checkTls options -- Convert only exceptions of reading the certificates.
  users <- newIORef []
  let observed chosen =
        (tlsSettingsOf chosen)
          { tlsOnHandshake = (. (resultOf . handshakeOutcome)) <$> observer,
            tlsOnReload = sayReload users
          }
  withTLS (observed options) $ \tls -> do
    void
      ( installHandler
          sigUSR2
          (Catch (try (reloadTLS tls) >>= sayReload users . either NotReloaded (const Reloaded)))
          Nothing
      )
    use
      Tls
        { protecting = protectedBy tls,
          replacing = \chosen -> do
            -- All have read them before one uses them. OpenSSL says best what is wrong.
            checkTls chosen
            commits <- (readIORef users >>= mapM (`readsOthers` chosen)) `catch` refuse
            replaceTLS tls (observed chosen) `catch` refuse
            sequence_ commits,
          alsoFor = \user -> atomicModifyIORef' users (\others -> (user : others, ()))
        }

-- | Reads certificates, keys and authorities to check them, and does not use them. Throws 'FileFailure' as 'withTls'
-- does.
checkTls :: TlsOptions -> IO ()
checkTls options = void (withTLS (tlsSettingsOf options) {tlsWatchInterval = unlimited} return) `catch` refuse

-- | The library's settings for these options.
tlsSettingsOf :: TlsOptions -> TLSSettings
tlsSettingsOf options =
  (tlsSettingsMany (tlsPairs options))
    { tlsClientCertificates = maybe NotAsked (Required . trustIn . PemFile) (tlsClientAuthorities options),
      tlsTicketKeyFiles = tlsTicketKeys options,
      tlsWatchInterval = seconds 2
    }

resultOf :: HandshakeOutcome -> HandshakeResult
resultOf outcome = case outcome of
  HandshakeDone found -> if negotiatedIsResumed found then Resumption else FullHandshake
  HandshakeRefused _ -> RefusedHandshake
  HandshakeTimedOut -> SlowHandshake
  HandshakeAborted -> SlowHandshake
  HandshakeLost _ -> LostHandshake

-- OpenSSL has read the certificates again, and if it takes them, the others do so now.
sayReload :: IORef [CertificateUser] -> Reload -> IO ()
sayReload _ (NotReloaded reason) = tell ("millrace: the certificates stay as they were: " <> described reason)
sayReload users Reloaded = do
  outcome <- try (readIORef users >>= mapM_ readsAgain)
  tell $ case outcome of
    Right () -> "millrace: the certificates were read again; new connections use them"
    Left reason -> "millrace: the certificates were read again, but HTTP/3 keeps the old ones: " <> described reason

-- With the name of the file, if there is one.
described :: SomeException -> String
described reason = maybe (reasonOf reason) fileReason (fromException reason)

refuse :: SomeException -> IO a
refuse reason = case (fromException reason :: Maybe SettingsError, fromException reason :: Maybe IOException) of
  (Just problem, _) ->
    throwIO . FileFailure keys (settingsSource problem) $
      Failure
        { failureAttempt = "use " <> settingsSource problem,
          failureReason = reasonOf reason,
          failureRemedy = if settingsProblem problem == BadTicketKeys then ofTicketKeys else ofCertificates
        }
  (_, Just failure) ->
    throwIO . FileFailure keys (fromMaybe "" (ioe_filename failure)) $
      Failure
        { failureAttempt = "read the certificates",
          failureReason = fileReason failure,
          failureRemedy =
            "This user must be able to read the files of 'certificate', 'key', 'client-authorities' and 'ticket-keys'."
        }
  _ -> throwIO reason
  where
    keys = ["certificate", "key", "client-authorities", "ticket-keys"]
    ofCertificates =
      "'certificate' takes a certificate with its chain, and 'key' its private key without a password, both in PEM."
    ofTicketKeys =
      "'ticket-keys' takes keys of 80 bytes, one behind another. 'openssl rand 80 >FILE' makes one."
