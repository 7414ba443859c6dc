-- |
-- Values of header fields. Must not know: requests, responses.
module Millrace.Http.FieldValue (harmless) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8

-- | The value with a space in place of everything that it may not hold (RFC 9110, section 5.5): it cannot end its line. What
-- @http_head.c@ does with the fields of a response.
harmless :: ByteString -> ByteString
harmless = C8.map (\character -> if isAllowed character then character else ' ')
  where
    isAllowed character = character == '\t' || (character >= ' ' && character /= '\DEL')
