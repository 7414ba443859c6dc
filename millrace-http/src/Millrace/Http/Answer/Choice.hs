-- Must not know: files, protocols.

-- |
-- Which status, fields and bytes of a representation answer a request: conditional requests and ranges (RFC 9110,
-- sections 13
-- and 14). All answers that have validators are decided here, those from files and those from memory.
module Millrace.Http.Answer.Choice
  ( Choice (..),
    Portion (..),
    chooseAnswer,
    partsOf,
    addUnless,
    withoutFields,
    withoutContent,
  )
where

import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.CaseInsensitive (foldedCase)
import Data.Maybe (fromMaybe)
import Millrace.Http.ByteRange
import Millrace.Http.FieldSyntax (harmless)
import Millrace.Http.Multipart
import Millrace.Http.Precondition
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hContentRange, hExpires, hIfMatch, hIfNoneMatch, hIfUnmodifiedSince)

-- | The answer to one request for a representation. The fields have no Content-Length, except those of the whole.
data Choice = Choice !Status ResponseHeaders !Portion

-- | The bytes of a representation that are sent.
data Portion
  = NoBytes
  | AllBytes
  | OneRange !ByteRange
  | -- | As one body in parts, see 'partsOf'.
    SeveralRanges [ByteRange]

-- | @chooseAnswer validators fields size method requestFields@: the answer to a request that would get a 200 with these
-- fields and this many bytes if it had no conditions and asked for no range. Methods other than GET and HEAD get just
-- that.
chooseAnswer :: Validators -> ResponseHeaders -> Integer -> Method -> RequestHeaders -> Choice
chooseAnswer validators fields size method wanted
  | not (any (isDecisive . fst) wanted) || (method /= methodGet && method /= methodHead) = whole
  | otherwise = case precondition validators wanted of
    PreconditionFailed -> Choice status412 (withoutContent fields) NoBytes
    NotModified -> Choice status304 (unchanged fields) NoBytes
    Proceed -> case selectRepresentation validators size method wanted of
      Whole -> whole
      Part range ->
        Choice status206 (ranged (contentRange size range) (withoutFields [hContentLength] fields)) (OneRange range)
      Parts ranges -> Choice status206 (withoutFields [hContentLength] fields) (SeveralRanges ranges)
      Unsatisfiable -> Choice status416 (ranged (unsatisfiedRange size) (withoutContent fields)) NoBytes
  where
    whole = Choice status200 fields AllBytes
    ranged value others = (hContentRange, value) : withoutFields [hContentRange] others

-- Most requests have none of these fields, and few have other fields with names of such lengths.
isDecisive :: HeaderName -> Bool
isDecisive name = case B.length (foldedCase name) of
  5 -> name == hRange
  8 -> name == hIfMatch
  13 -> name == hIfNoneMatch
  17 -> name == hIfModifiedSince
  19 -> name == hIfUnmodifiedSince
  _ -> False

-- | The fields and the body of an answer with several ranges, given the fields of the whole and its size.
partsOf :: ResponseHeaders -> Integer -> [ByteRange] -> IO (ResponseHeaders, Multipart)
partsOf fields size ranges = do
  boundary <- newBoundary
  let parts = multipart boundary (harmless (fromMaybe octets (lookup hContentType fields))) size ranges
      framing = [(hContentType, multipartType parts), (hContentLength, C8.pack (show (multipartLength parts)))]
  return (framing ++ withoutFields (map fst framing) fields, parts)
  where
    octets = C8.pack "application/octet-stream"

------------------------------------------------------------------------------------------------------------------------
-- Fields

-- | Adds a field unless there is one of its name.
addUnless :: Header -> ResponseHeaders -> ResponseHeaders
addUnless field@(name, _) fields
  | any ((== name) . fst) fields = fields
  | otherwise = field : fields

-- | The fields with other names than these.
withoutFields :: [HeaderName] -> ResponseHeaders -> ResponseHeaders
withoutFields names = filter ((`notElem` names) . fst)

-- | The fields of an answer that does not send the representation: nothing that describes its bytes, and not for how
-- long they may be kept. A cache would give this answer to other clients, whose requests for the same resource ask for
-- something else (RFC 9111, section 3).
withoutContent :: ResponseHeaders -> ResponseHeaders
withoutContent = withoutFields [hContentRange, hCacheControl, hExpires] . unchanged

-- RFC 9110, section 15.4.5: a 304 has the fields that a cache needs to update its copy.
unchanged :: ResponseHeaders -> ResponseHeaders
unchanged = withoutFields [hContentType, hContentLength, hContentEncoding, hAcceptRanges]
