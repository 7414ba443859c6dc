-- | HTTP\/3 for "Network.Wai.Handler.Millrace": the same application over HTTP\/1.1, HTTP\/2 and HTTP\/3, on one port
-- number.
--
-- > main = runHTTP3 (tlsSettings "fullchain.pem" "privkey.pem") (setPort 443 defaultSettings) application
--
-- A client begins with TCP, and reads in the field Alt-Svc that it may use HTTP\/3. The application sees the difference
-- only in 'Network.Wai.httpVersion'.
--
-- * The certificates are those of 'TLSSettings', from files, bytes or references, each for the names in it. Files are
--   watched.
--   'Network.Wai.Handler.MillraceTLS.tlsCredentials', 'Network.Wai.Handler.MillraceTLS.tlsCredentialsFor', certificates
--   of clients and other settings that say who is served do not work with HTTP\/3, and are refused
--   ('UnsupportedSetting'). What they say of versions, ciphers and tickets counts for TCP.
-- * The limits of the settings for HTTP\/2 count for HTTP\/3, too, and so do all time limits.
-- * Each listening address has a UDP socket for each capability. With 'Network.Wai.Handler.MillraceTLS.tlsEarlyData' it
--   has one.
--
-- docs\/guide\/http3.md says what works and what does not yet.
--
-- >>> import Network.Wai.Handler.Millrace (defaultSettings, setPort)
-- >>> import Network.Wai.Handler.MillraceTLS (tlsSettings)
-- >>> runHTTP3 (tlsSettings "missing.pem" "missing.key") (setPort 0 defaultSettings) undefined
-- *** Exception: ...missing.pem...
module Network.Wai.Handler.MillraceHTTP3
  ( -- * Running a server
    runHTTP3,

    -- ** Step by step
    HTTP3,
    UnsupportedSetting (..),
    withHTTP3,
    besideHTTP3,
    announcingHTTP3,
    reloadHTTP3,
    replaceHTTP3,

    -- * About the package
    librariesOfHTTP3,
  )
where

import Control.Exception (bracket)
import Millrace.Http.Http3.Server
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Settings, closeListener, openListeners, runSettingsListeners)
import Network.Wai.Handler.MillraceTLS (TLSSettings, offering, protectedBy, withTLS)

-- | Serves an application over HTTP\/1.1, HTTP\/2 and HTTP\/3, otherwise as 'Network.Wai.Handler.MillraceTLS.runTLS'
-- does. Throws what that throws, and what 'withHTTP3' throws.
runHTTP3 :: TLSSettings -> Settings -> Application -> IO ()
runHTTP3 tls settings application =
  bracket (openListeners settings) (mapM_ closeListener) $ \listeners ->
    withTLS (offering settings tls) $ \protection -> withHTTP3 tls settings listeners application $ \http3 ->
      runSettingsListeners
        (besideHTTP3 http3 (protectedBy protection settings))
        listeners
        (announcingHTTP3 http3 application)
