-- |
-- Which part of a file answers a request: conditional requests and ranges (RFC 9110, sections 13 and 14). Pure.
-- Must not know: connections, sockets.
module Millrace.Http.File (FileFacts (..), Answer (..), chooseAnswer) where

import Control.Applicative ((<|>))
import Millrace.Http.ByteRange (Selection (..))
import Millrace.Http.Date (Seconds, parseHttpDate)
import Millrace.Http.EntityTag (parseTag)
import Millrace.Http.Precondition
import Network.HTTP.Types
import Network.HTTP.Types.Header (hETag)

-- | What is known of a file.
data FileFacts = FileFacts
  { -- | Bytes.
    factsSize :: !Integer,
    -- | The time of the last modification.
    factsModified :: !Seconds
  }

-- | What to answer.
data Answer
  = Send !Selection
  | Refuse !Status

-- | What a request gets of a file that the application wants to send, now, with these header fields. The entity tag is
-- the one among them, if there is one; so is the time of the last modification, which is otherwise the file's.
chooseAnswer :: Seconds -> Method -> RequestHeaders -> ResponseHeaders -> FileFacts -> Answer
chooseAnswer now method wanted given facts
  | method /= methodGet && method /= methodHead = Send Whole
  | otherwise = case precondition validators wanted of
    PreconditionFailed -> Refuse status412
    NotModified -> Refuse status304
    Proceed -> Send (selectRepresentation validators (factsSize facts) method wanted)
  where
    validators =
      Validators
        { validatorTag = lookup hETag given >>= parseTag,
          validatorModified = declared <|> modificationTime (factsModified facts),
          -- A file may change twice within a second, and the kernel's clock for it is coarse. Of another time than the
          -- file's nothing is known.
          validatorDateIsStrong = all (== factsModified facts) declared && factsModified facts + 2 <= now
        }
    declared = lookup hLastModified given >>= parseHttpDate
