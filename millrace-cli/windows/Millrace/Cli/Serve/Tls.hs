-- Must not know: files.

-- | TLS does not work on Windows yet: OpenSSL is not among the libraries that are cross-compiled.
--
-- For other systems @posix\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Serve.Tls
  ( Tls (..),
    CertificateUser (..),
    withTls,
    checkTls,
  )
where

import Control.Exception (throwIO)
import Millrace.Cli.Base.Failure (Failure (..))
import Millrace.Cli.Config.Options (TlsOptions)
import Millrace.Cli.Observe.Metrics (HandshakeResult)
import Network.Wai.Handler.Millrace (Settings)

-- | TLS for a server. On Windows no value of this type is ever made.
data Tls = Tls
  { -- | Changes a server's settings so that its connections use TLS.
    protecting :: Settings -> Settings,
    -- | Never used.
    replacing :: TlsOptions -> IO (),
    -- | Never used.
    alsoFor :: CertificateUser -> IO ()
  }

-- | Another library that uses the same certificates. Never made on Windows.
data CertificateUser = CertificateUser
  { readsAgain :: IO (),
    readsOthers :: TlsOptions -> IO (IO ())
  }

-- | Always throws 'Failure' here: there is no TLS.
withTls :: TlsOptions -> Maybe (HandshakeResult -> IO ()) -> (Tls -> IO a) -> IO a
withTls _ _ _ = noTls

-- | Always throws 'Failure' here: there is no TLS.
checkTls :: TlsOptions -> IO ()
checkTls _ = noTls

noTls :: IO a
noTls =
  throwIO
    Failure
      { failureAttempt = "serve https",
        failureReason = "millrace has no TLS on Windows yet",
        failureRemedy = "Leave out --certificate, and put a proxy that speaks TLS in front of it."
      }
