-- | A function from within Warp that one spec calls beside its questions to a server.
module Network.Wai.Handler.Warp.Response (sanitizeHeaderValue) where

import Data.ByteString (ByteString)

-- | Throws: Millrace has nothing like it.
sanitizeHeaderValue :: ByteString -> ByteString
sanitizeHeaderValue = error "Millrace does not mend the values of fields"
