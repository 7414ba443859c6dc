{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: protocols, servers.

-- |
-- Answers with a representation that has validators: bytes in memory, or a file. The answers are ordinary WAI
-- responses, so
-- this works with any server.
module Millrace.Http.Representation
  ( Representation,
    bytesRepresentation,
    fileRepresentation,
    respondWith,
  )
where

import Control.Exception (throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import Millrace.File (Mode (ForReading), readAt, withFile)
import Millrace.Http.Answer.Choice
import Millrace.Http.ByteRange (ByteRange (..), rangeLength)
import Millrace.Http.Date (formatHttpDate)
import Millrace.Http.EntityTag (renderTag)
import Millrace.Http.Exception (InvalidResponse (FileTruncated))
import Millrace.Http.Multipart (multipartBody)
import Millrace.Http.Precondition (Validators (..))
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hETag)
import Network.Wai

-- | The answer to a GET request for a resource: fields, bytes, and the validators that tell one state of it
-- from another. Make it once and use it for many requests: what the answers have in common is computed once.
data Representation = Representation
  { representationValidators :: !Validators,
    -- Of a 200, but for Content-Length.
    representationFields :: ResponseHeaders,
    representationSize :: !Integer,
    representationSource :: !RepresentationSource,
    -- The answer to most requests.
    representationWhole :: Response
  }

data RepresentationSource
  = InMemory !ByteString
  | InFile !FilePath

-- | A representation whose bytes are in memory. The fields are those of a 200 response, such as Content-Type,
-- Content-Encoding, Vary and Cache-Control. ETag, Last-Modified, Accept-Ranges and all that concerns lengths and ranges
-- are added.
--
-- A time in the future must not be announced as Last-Modified (RFC 9110, section 8.8.2.1): take the present instead.
bytesRepresentation :: Validators -> ResponseHeaders -> ByteString -> Representation
bytesRepresentation validators fields bytes =
  represent validators fields (toInteger (B.length bytes)) (InMemory bytes)

-- | A representation whose bytes are a regular file of this size in bytes. Make it anew when the file has changed.
fileRepresentation :: Validators -> ResponseHeaders -> FilePath -> Integer -> Representation
fileRepresentation validators fields path size = represent validators fields size (InFile path)

represent :: Validators -> ResponseHeaders -> Integer -> RepresentationSource -> Representation
represent validators given size source = Representation validators fields size source whole
  where
    fields =
      given
        ++ [(hAcceptRanges, "bytes")]
        ++ foldMap tagged (validatorTag validators)
        ++ foldMap dated (validatorModified validators)
    tagged tag = [(hETag, renderTag tag)]
    dated time = [(hLastModified, formatHttpDate time)]
    whole = rangeResponse status200 fields size source (ByteRange 0 (size - 1))

-- | Answers a GET or HEAD request: with a 200, or with what the request's conditions and ranges make of it (RFC 9110,
-- sections 13 and 14), which is a 206, 304, 412 or 416. Other methods get the 200.
--
-- > {-# LANGUAGE OverloadedStrings #-}
-- >
-- > page :: Representation
-- > page = bytesRepresentation validators [("Content-Type", "text/plain")] "Hello!"
-- >   where
-- >     validators = Validators (Just (EntityTag Strong "v1")) Nothing False
-- >
-- > application :: Application
-- > application = respondWith page
respondWith :: Representation -> Application
respondWith representation request respond =
  case chooseAnswer
    (representationValidators representation)
    fields
    size
    (requestMethod request)
    (requestHeaders request) of
    Choice _ _ AllBytes -> respond (representationWhole representation)
    Choice status chosen NoBytes -> respond (responseBuilder status chosen mempty)
    Choice status chosen (OneRange range) -> respond (rangeResponse status chosen size source range)
    Choice status chosen (SeveralRanges ranges) -> do
      (framed, parts) <- partsOf chosen size ranges
      respond . responseStream status framed $ \send flush ->
        withReader source (\reader -> multipartBody parts reader send flush)
  where
    fields = representationFields representation
    size = representationSize representation
    source = representationSource representation

rangeResponse :: Status -> ResponseHeaders -> Integer -> RepresentationSource -> ByteRange -> Response
rangeResponse status fields size source range = case source of
  InFile path -> responseFile status fields path (Just (FilePart (firstByte range) (rangeLength range) size))
  InMemory bytes ->
    responseBuilder status ((hContentLength, C8.pack (show (rangeLength range))) : fields) . byteString $
      slice bytes (firstByte range) (fromInteger (rangeLength range))

-- Hands over a function that reads up to this many bytes from an offset on.
withReader :: RepresentationSource -> ((Integer -> Int -> IO ByteString) -> IO a) -> IO a
withReader source use = case source of
  InMemory bytes -> use (\offset count -> return (slice bytes offset count))
  InFile path -> withFile path ForReading $ \opened -> use $ \offset count -> do
    bytes <- readAt opened (fromInteger offset) count
    -- The length of the body was announced, so nothing else can take the place of the missing bytes.
    if B.null bytes then throwIO (FileTruncated path) else return bytes

slice :: ByteString -> Integer -> Int -> ByteString
slice bytes offset count = B.take count (B.drop (fromInteger offset) bytes)
