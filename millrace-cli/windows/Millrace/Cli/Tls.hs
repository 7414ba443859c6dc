-- | TLS does not work on Windows yet: OpenSSL is not among the libraries that are cross-compiled. Must not know: files.
--
-- The folder @posix\/@ has the same names for all other systems; the package description chooses.
module Millrace.Cli.Tls
  ( Tls (..),
    withTls,
  )
where

import Control.Exception (throwIO)
import Millrace.Cli.Command (TlsOptions)
import Millrace.Cli.Failure (Failure (..))
import Millrace.Cli.Metrics (HandshakeResult)
import Network.Wai.Handler.Millrace (Settings)

-- | What protects a server's connections.
--
-- @since 0.1.0
newtype Tls = Tls
  { -- | The same server, with protected connections.
    protecting :: Settings -> Settings
  }

-- | Throws 'Failure'.
--
-- @since 0.1.0
withTls :: TlsOptions -> Maybe (HandshakeResult -> IO ()) -> (Tls -> IO a) -> IO a
withTls _ _ _ =
  throwIO
    Failure
      { failureAttempt = "serve https",
        failureReason = "millrace has no TLS on Windows yet",
        failureRemedy = "Leave out --tls-cert, and put a proxy that speaks TLS in front of it."
      }
