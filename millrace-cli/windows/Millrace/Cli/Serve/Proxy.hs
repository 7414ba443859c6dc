-- | There is no reverse proxy on Windows yet: it needs TLS for its targets, and no OpenSSL is among what is
-- cross-compiled there. Must not know: files.
--
-- The same names in @posix\/@ are for all other systems; the package description chooses.
module Millrace.Cli.Serve.Proxy
  ( withReverseProxy,
    failureResponse,
    isOfLeavingClient,
  )
where

import Control.Exception (SomeException, throwIO)
import Millrace.Cli.Base.Failure (Failure (..))
import Millrace.Cli.Base.Refusal (asRefusal)
import Millrace.Cli.Config.Options (ProxyOptions)
import Millrace.Cli.Observe.Upstream (Upstreams)
import Network.Wai (Application, Response)
import Network.Wai.Handler.Millrace (defaultOnExceptionResponse)

-- | Throws 'Failure'.
withReverseProxy :: Upstreams -> (Response -> IO Response) -> ProxyOptions -> (Application -> IO a) -> IO a
withReverseProxy _ _ _ _ =
  throwIO
    Failure
      { failureAttempt = "pass requests on",
        failureReason = "millrace has no proxy on Windows yet",
        failureRemedy = "Run it on Linux."
      }

-- | What a client gets when an exception ends its request.
failureResponse :: SomeException -> Response
failureResponse = asRefusal . defaultOnExceptionResponse

-- | Did the client end the request that an exception has ended? Only a proxy finds that out.
isOfLeavingClient :: SomeException -> Bool
isOfLeavingClient _ = False
