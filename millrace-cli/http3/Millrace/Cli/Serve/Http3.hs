-- Must not know: files.

-- | HTTP\/3 beside a server of https.
--
-- @no-http3\/@ has a module of this name with the same exports, for programs that are built without the libraries. The
-- .cabal file chooses the folder.
module Millrace.Cli.Serve.Http3
  ( http3Libraries,
    withHttp3,
  )
where

import Control.Exception (IOException, throwIO, try)
import Control.Monad (when)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.Maybe (isJust)
import Foreign.C (Errno (..), eACCES, eADDRINUSE)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure (Failure (..))
import Millrace.Cli.Config.Options (TlsOptions (..))
import Millrace.Cli.Serve.Http3.Server (Http3Server (..))
import Millrace.Cli.Serve.Tls (CertificateUser (..), tlsSettingsOf)
import Millrace.Duration (unlimited)
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Listener, Settings)
import Network.Wai.Handler.MillraceHTTP3
import Network.Wai.Handler.MillraceTLS (TLSSettings (..))

-- | The libraries that speak HTTP\/3, or that this program is built without.
http3Libraries :: Either Failure (IO String)
http3Libraries = Right librariesOfHTTP3

-- | Serves an application over HTTP\/3 during an action, on the ports of these listeners, over UDP. A 'Failure' if that
-- is not possible.
withHttp3 :: TlsOptions -> Settings -> [Listener] -> Application -> (Either Failure Http3Server -> IO a) -> IO a
withHttp3 options settings listeners application use = do
  hasBegun <- newIORef False
  outcome <- try . withHTTP3 (certificatesOf options) settings listeners application $ \http3 -> do
    writeIORef hasBegun True
    use
      ( Right
          ( Http3Server
              (besideHTTP3 http3)
              (announcingHTTP3 http3)
              (CertificateUser (reloadHTTP3 http3) (replace http3))
          )
      )
  case outcome of
    Right result -> pure result
    Left problem -> do
      isOfAction <- readIORef hasBegun
      if isOfAction then throwIO problem else use (Left (cannotSpeak problem))

-- The server of https watches the files, and calls this when they must be read again.
certificatesOf :: TlsOptions -> TLSSettings
certificatesOf options = (tlsSettingsOf options) {tlsWatchInterval = unlimited}

replace :: HTTP3 -> TlsOptions -> IO (IO ())
replace http3 options = do
  when (isJust (tlsClientAuthorities options)) . throwIO $
    Failure
      { failureAttempt = "demand certificates of clients",
        failureReason = "the server speaks HTTP/3, which it does without certificates of clients only",
        failureRemedy = "This needs a restart."
      }
  replaceHTTP3 http3 (certificatesOf options)

cannotSpeak :: IOException -> Failure
cannotSpeak problem = Failure "speak HTTP/3" reason remedy
  where
    (reason, remedy)
      | isErrno eADDRINUSE =
        ( "the port is in use for UDP",
          "Stop the program that has it, or speak no HTTP/3: '--http3 off', or 'http3: off' in a configuration."
        )
      | isErrno eACCES =
        ( "permission denied",
          "Ports below 1024 need root or CAP_NET_BIND_SERVICE for UDP, too, also if the sockets of TCP were inherited."
        )
      | otherwise = (ioe_description problem, "'--http3 off' ('http3: off' in a configuration) is a server without.")
    isErrno number = fmap Errno (ioe_errno problem) == Just number
