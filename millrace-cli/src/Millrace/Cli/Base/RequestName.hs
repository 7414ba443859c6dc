-- Must not know: servers, files.

-- | Names a request in messages.
module Millrace.Cli.Base.RequestName (requestName) where

import qualified Data.ByteString.Char8 as Char8
import Millrace.Cli.Base.RequestPath (encodeBeyondAscii)
import Network.Wai (Request, rawPathInfo, requestMethod)

-- | The method and the path of a request: the beginning of each message about it. It leaves out the query, which may
-- have secrets.
--
-- >>> requestName defaultRequest {rawPathInfo = "/a"}
-- "GET /a"
requestName :: Request -> String
requestName request =
  Char8.unpack (requestMethod request <> Char8.singleton ' ' <> encodeBeyondAscii (rawPathInfo request))
