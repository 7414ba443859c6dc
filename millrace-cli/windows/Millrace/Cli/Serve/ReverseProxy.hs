-- Must not know: files.

-- | There is no reverse proxy on Windows yet: it needs TLS for its targets, and no OpenSSL is among what is
-- cross-compiled there.
--
-- For other systems @posix\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Serve.ReverseProxy
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

-- | The answer to a request that an exception has ended.
failureResponse :: SomeException -> Response
failureResponse = asRefusal . defaultOnExceptionResponse

-- | Whether the client itself has ended the request that an exception has ended. Only a proxy finds that out.
isOfLeavingClient :: SomeException -> Bool
isOfLeavingClient _ = False
