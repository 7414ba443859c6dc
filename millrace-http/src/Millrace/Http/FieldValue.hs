-- |
-- Values of header fields. Must not know: requests, responses.
module Millrace.Http.FieldValue (harmless) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8

-- | Replaces every character that a field value may not contain by a space (RFC 9110, section 5.5), so that the value
-- cannot end its line. @http_head.c@ does the same for the fields of responses.
harmless :: ByteString -> ByteString
harmless = C8.map (\character -> if isAllowed character then character else ' ')
  where
    isAllowed character = character == '\t' || (character >= ' ' && character /= '\DEL')
