{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A directory as a WAI application. Runs on any server; knows none.
module Millrace.Cli.StaticFiles
  ( staticFiles
  , Root
  , openRoot
  , LinkPolicy (..)
  ) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Builder (char7, toLazyByteString, word64Hex)
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.Time.Clock.POSIX (POSIXTime, getPOSIXTime)
import Millrace.Cli.Entry
import Millrace.Cli.MediaType (mediaType)
import Millrace.Cli.RequestPath
import Millrace.Http.ByteRange
import Millrace.Http.Date (formatHttpDate)
import Millrace.Http.EntityTag
import Millrace.Http.Multipart
import Millrace.Http.Precondition
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hAllow, hContentRange, hETag, hRetryAfter)
import Network.Wai
import System.IO (IOMode (ReadMode), SeekMode (AbsoluteSeek), hSeek, withBinaryFile)

-- | Serves the files below a root.
--
-- * GET and HEAD only. Paths are decoded once and checked afterwards ("Millrace.Cli.RequestPath"); files are found
--   and checked in a single look-up, so that symbolic links lead nowhere they may not ("Millrace.Cli.Entry").
-- * A directory answers with its @index.html@ or @index.htm@; without the slash at the end, with a redirect.
-- * Last-Modified and ETag, conditional requests, one or several ranges (RFC 9110 sections 13 and 14).
-- * Only regular files that this process may read.
--
-- The body is a 'responseFile', whose path is valid until the server has sent it and must not be a key of a cache (see
-- 'openFilePath'). The file of each answer stays the one that was checked, even if it is replaced meanwhile.
--
-- > root <- openRoot StayInside "public"
-- > run 8080 (staticFiles root)
--
-- @since 0.1.0
staticFiles :: Root -> Application
staticFiles root request respond
  | requestMethod request `notElem` [methodGet, methodHead] =
      respond (refusal methodNotAllowed405 [(hAllow, "GET, HEAD")])
  | otherwise = case parseRequestPath (rawPathInfo request) of
      Left Malformed -> respond (refusal badRequest400 [])
      Left Unservable -> respond (refusal notFound404 [])
      Right path -> servePath root path request respond

servePath :: Root -> RequestPath -> Application
servePath root (RequestPath names endsInSlash) request respond =
  withEntry root names $ \case
    Left problem -> respond (problemResponse problem)
    Right Directory
      | endsInSlash || null names -> serveIndex root names indexNames request respond
      | otherwise -> respond (redirectToDirectory (last names) (rawQueryString request))
    Right (File file)
      | endsInSlash -> respond (refusal notFound404 [])
      | otherwise -> serveFile (last names) file request respond

indexNames :: [ByteString]
indexNames = ["index.html", "index.htm"]

serveIndex :: Root -> [ByteString] -> [ByteString] -> Application
serveIndex _ _ [] _ respond = respond (refusal notFound404 [])
serveIndex root directory (name : others) request respond =
  withEntry root (directory ++ [name]) $ \case
    Right (File file) -> serveFile name file request respond
    Right Directory -> serveIndex root directory others request respond
    Left Missing -> serveIndex root directory others request respond
    Left problem -> respond (problemResponse problem)

-- The location is relative and begins with "./": it can neither be taken for another host ("//evil.example/") nor for
-- another scheme ("a:b/"), and stays right behind a proxy that serves us under another path.
redirectToDirectory :: ByteString -> ByteString -> Response
redirectToDirectory name query = refusal movedPermanently301 [(hLocation, "./" <> encodeSegment name <> "/" <> safeQuery)]
  where
    safeQuery = if Char8.all (\c -> c > ' ' && c < '\DEL') query then query else ""

problemResponse :: Problem -> Response
problemResponse problem = case problem of
  Missing -> refusal notFound404 []
  Unreadable -> refusal forbidden403 []
  OutOfDescriptors -> refusal serviceUnavailable503 [(hRetryAfter, "1")]
  Faulty _ -> refusal internalServerError500 []

refusal :: Status -> ResponseHeaders -> Response
refusal status headers = responseLBS status ((hContentType, "text/plain; charset=utf-8") : noSniffing : headers) body
  where
    body = Lazy.fromStrict (Char8.pack (show (statusCode status)) <> " " <> statusMessage status <> "\n")

-- Browsers shall not guess that an upload named .txt is a page with scripts.
noSniffing :: Header
noSniffing = ("X-Content-Type-Options", "nosniff")

serveFile :: ByteString -> OpenFile -> Application
serveFile name file request respond = do
  validators <- validatorsOf file <$> getPOSIXTime
  case precondition validators (requestHeaders request) of
    PreconditionFailed -> respond (refusal preconditionFailed412 [])
    NotModified -> respond (responseLBS notModified304 (noSniffing : validatorHeaders validators) "")
    Proceed -> fileResponse file (mediaType name) validators (selection validators) >>= respond
  where
    selection validators =
      selectRepresentation validators (toInteger (openFileSize file)) (requestMethod request) (requestHeaders request)

fileResponse :: OpenFile -> ByteString -> Validators -> Selection -> IO Response
fileResponse file contentType validators selection = case selection of
  Whole -> pure (part ok200 [] (ByteRange 0 (size - 1)))
  Part range -> pure (part partialContent206 [(hContentRange, contentRange size range)] range)
  Parts ranges -> severalParts . (\boundary -> multipart boundary contentType size ranges) <$> newBoundary
  Unsatisfiable -> pure (refusal requestedRangeNotSatisfiable416 [(hContentRange, unsatisfiedRange size)])
  where
    part status headers range =
      responseFile status ((hContentType, contentType) : headers ++ common) path . Just $
        FilePart (firstByte range) (rangeLength range) size
    severalParts parts =
      responseStream
        partialContent206
        ([(hContentType, multipartType parts), (hContentLength, Char8.pack (show (multipartLength parts)))] ++ common)
        (\send flush -> withBinaryFile path ReadMode (\opened -> multipartBody parts (readAt opened) send flush))
    common = (hAcceptRanges, "bytes") : noSniffing : validatorHeaders validators
    readAt opened offset count = hSeek opened AbsoluteSeek offset >> ByteString.hGetSome opened count
    path = openFilePath file
    size = toInteger (openFileSize file)

-- A file that was changed less than two seconds ago may be changed again without its time of change showing it (some
-- file systems keep whole seconds, and the kernel's clock for this is coarse): until then its tag is weak. A time in
-- the future is not announced as Last-Modified (RFC 9110 section 8.8.2.1).
validatorsOf :: OpenFile -> POSIXTime -> Validators
validatorsOf file now =
  Validators
    { validatorTag = Just (EntityTag (if isSettled then Strong else Weak) tagText)
    , validatorModified = floor (min modified now)
    , validatorDateIsStrong = isSettled
    }
  where
    isSettled = modified + 2 < now
    modified = openFileModified file
    tagText =
      Lazy.toStrict . toLazyByteString $
        word64Hex (fromIntegral (openFileInode file))
          <> char7 '-'
          <> word64Hex (fromIntegral (openFileSize file))
          <> char7 '-'
          <> word64Hex (fromInteger (floor (modified * 1000000000)))

validatorHeaders :: Validators -> ResponseHeaders
validatorHeaders validators =
  [(hETag, renderTag tag) | Just tag <- [validatorTag validators]]
    ++ [(hLastModified, formatHttpDate (validatorModified validators))]
