-- Must not know: files.

-- | A server of HTTP\/3 beside a server of https.
module Millrace.Cli.Serve.Http3.Server (Http3Server (..)) where

import Millrace.Cli.Serve.Tls (CertificateUser)
import Network.Wai (Middleware)
import Network.Wai.Handler.Millrace (Settings)

-- | A server of HTTP\/3, as the command knows it. A program that is built without HTTP\/3 never has one.
data Http3Server = Http3Server
  { -- | The settings of the server of https beside it.
    besideHttp3 :: Settings -> Settings,
    -- | Announces HTTP\/3 to clients of that server (Alt-Svc).
    announcingHttp3 :: Middleware,
    http3Certificates :: CertificateUser
  }
