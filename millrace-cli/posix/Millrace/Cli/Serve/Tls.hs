-- | A server's TLS: certificates, their renewal, and what clients must show. Must not know: files.
--
-- The same names in @windows\/@ are for Windows; the package description chooses.
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
import Millrace.Tls (Pem (..), SettingsError (..), SettingsProblem (..), trustIn)
import Network.Wai.Handler.Millrace (Settings)
import Network.Wai.Handler.MillraceTLS
import System.Posix.Signals (Handler (Catch), installHandler, sigUSR2)

-- | What protects a server's connections.
data Tls = Tls
  { -- | The same server, with protected connections.
    protecting :: Settings -> Settings,
    -- | Has new connections use these certificates. Throws 'Failure', and then nothing has changed.
    replacing :: TlsOptions -> IO (),
    -- | From now on, what changes the certificates changes them for this one, too.
    alsoFor :: CertificateUser -> IO ()
  }

-- | Another library that uses the same certificates.
data CertificateUser = CertificateUser
  { -- | Reads them again. If it throws, the old ones stay.
    readsAgain :: IO (),
    -- | Reads those of other options. The action that it returns has them used, and never throws.
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

-- | Reads certificates, keys and authorities as 'withTls' does, and does nothing with them. Throws 'Failure' if it
-- would.
checkTls :: TlsOptions -> IO ()
checkTls options = void (withTLS (tlsSettingsOf options) {tlsWatchSeconds = 0} return) `catch` refuse

-- | What these options mean to the library.
tlsSettingsOf :: TlsOptions -> TLSSettings
tlsSettingsOf options =
  (tlsSettingsMany (tlsPairs options))
    { tlsClientCertificates = maybe NotAsked (Required . trustIn . PemFile) (tlsClientAuthorities options),
      tlsTicketKeyFiles = tlsTicketKeys options,
      tlsWatchSeconds = 2
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
    throwIO . FileFailure (settingsSource problem) $
      Failure
        { failureAttempt = "use " <> settingsSource problem,
          failureReason = reasonOf reason,
          failureRemedy = if settingsProblem problem == BadTicketKeys then ofTicketKeys else ofCertificates
        }
  (_, Just failure) ->
    throwIO . FileFailure (fromMaybe "" (ioe_filename failure)) $
      Failure
        { failureAttempt = "read the certificates",
          failureReason = fileReason failure,
          failureRemedy =
            "This user must be able to read the files of 'certificate', 'key', 'client-authorities' and 'ticket-keys'."
        }
  _ -> throwIO reason
  where
    ofCertificates =
      "'certificate' takes a certificate with its chain, and 'key' its private key without a password, both in PEM."
    ofTicketKeys =
      "'ticket-keys' takes keys of 80 bytes, one behind another. 'openssl rand 80 >FILE' makes one."
