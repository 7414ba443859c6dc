-- Must not know: files.

-- | HTTP\/3 for a program that is built without it.
--
-- @http3\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Serve.Http3
  ( http3Libraries,
    withHttp3,
  )
where

import Millrace.Cli.Base.Failure (Failure (..))
import Millrace.Cli.Config.Options (TlsOptions)
import Millrace.Cli.Serve.Http3.Server (Http3Server)
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Listener, Settings)

-- | The libraries that speak HTTP\/3, or that this program is built without.
http3Libraries :: Either Failure (IO String)
http3Libraries = Left missing

missing :: Failure
missing =
  Failure
    { failureAttempt = "speak HTTP/3",
      failureReason = "this program was built without ngtcp2 1.11",
      failureRemedy =
        "Debian has it from release 13 on. Without '--http3 on' ('http3: on' in a configuration) the server speaks \
        \HTTP/1.1 and HTTP/2."
    }

-- | Always a 'Failure' here.
withHttp3 :: TlsOptions -> Settings -> [Listener] -> Application -> (Either Failure Http3Server -> IO a) -> IO a
withHttp3 _ _ _ _ use = use (Left missing)
