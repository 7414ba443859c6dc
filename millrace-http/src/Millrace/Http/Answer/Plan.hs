{-# LANGUAGE BangPatterns #-}

-- Must not know: protocols.

-- |
-- Turns a WAI response into a plan: the status, fields and bytes that answer this request. HEAD, statuses without a
-- body, and
-- files are decided here for all protocols; "Millrace.Http.Answer.Choice" decides about conditional requests and
-- ranges.
module Millrace.Http.Answer.Plan (withPlan) where

import Control.Applicative ((<|>))
import Control.Exception (throw, throwIO, toException)
import Control.Monad (unless, when)
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Int (Int64)
import Millrace.Http.Answer.Body (readPiece, requireAll)
import Millrace.Http.Answer.Choice
import Millrace.Http.ByteRange
import Millrace.Http.Date (Seconds, formatHttpDate, parseHttpDate)
import Millrace.Http.EntityTag (parseTag)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange
import Millrace.Http.FileCache (FileFacts (..), OpenFile (..), withOpenFile)
import Millrace.Http.Multipart (multipartBody)
import Millrace.Http.Precondition (Validators (..), modificationTime)
import Millrace.Http.Server.Context (ServerContext (..), reportTo)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.SystemCalls (currentSeconds)
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hContentRange, hETag, hRetryAfter)
import Network.Wai (Request, requestHeaders, requestMethod)
import Network.Wai.Internal (FilePart (..), Response (..))
import System.IO.Error (isFullError)

-- | Hands over the plan of a response. A file that the plan sends stays open until the action ends.
withPlan :: ServerContext -> Request -> Response -> (Plan -> IO ()) -> IO ()
withPlan server request response use = case response of
  ResponseBuilder status fields builder -> use $! built status fields (BuilderBody builder)
  ResponseStream status fields body -> use $! built status fields (StreamBody body)
  ResponseFile status fields path part -> withFilePlan server request (FileResponse status fields path part) use
  ResponseRaw body _ -> use (TakeOver body)
  where
    built = makePlan server (requestMethod request)
{-# INLINE withPlan #-}

-- Replaces a body that must not be sent. Evaluating the plan throws 'InvalidStatusCode' for a status that is not final.
makePlan :: ServerContext -> Method -> Status -> ResponseHeaders -> Body -> Plan
makePlan server method status@(Status code _) fields body
  | code == 200 && C8.length method < 4 = Plan status advertised body -- GET and PUT: as almost always
  | otherwise = makeUnusualPlan method status advertised body
  where
    !advertised = advertise server fields
{-# INLINE makePlan #-}

makeUnusualPlan :: Method -> Status -> ResponseHeaders -> Body -> Plan
makeUnusualPlan method status@(Status code _) advertised body
  | code < 200 || code > 999 = throw (InvalidStatusCode code) -- RFC 9110, section 15: a status below 200 is not final
  | method == methodConnect && code >= 200 && code < 300 = Plan status advertised NoTunnel -- RFC 9110, section 9.3.6
  | code == 205 = Plan status advertised (NoBody (Announced 0)) -- section 15.3.6
  | code == 204 = Plan status advertised (NoBody NotAnnounced) -- section 8.6
  | code == 304 || method == methodHead = Plan status advertised (NoBody (lengthOf body)) -- section 6.4.1
  | otherwise = Plan status advertised body
  where
    lengthOf (FileBody slice) = Announced (fromIntegral (sliceLength slice))
    lengthOf _ = AsGiven

-- With the field Alt-Svc, if the settings have one.
advertise :: ServerContext -> ResponseHeaders -> ResponseHeaders
advertise server fields = case settingsAltSvc (serverSettings server) of
  Nothing -> fields
  Just value -> (hAltSvc, value) : fields
{-# INLINE advertise #-}

hAltSvc :: HeaderName
hAltSvc = CI.mk (C8.pack "Alt-Svc")
{-# NOINLINE hAltSvc #-}

------------------------------------------------------------------------------------------------------------------------
-- Files

-- A file as the application responded with it.
data FileResponse = FileResponse !Status ResponseHeaders !FilePath !(Maybe FilePart)

withFilePlan :: ServerContext -> Request -> FileResponse -> (Plan -> IO ()) -> IO ()
withFilePlan server request (FileResponse status fields path part) use =
  withOpenFile (serverFiles server) path (either unopened ((currentSeconds >>=) . found))
  where
    plan = makePlan server (requestMethod request)
    text code extra = plan code (extra ++ textPlain fields) . BuilderBody . byteString . C8.pack
    -- After a 404 a client forgets the file. A lack of descriptors must not look like that: it is over soon.
    unopened failure
      | isFullError failure = do
        reportTo server (Just request) (toException failure)
        use (text status503 [(hRetryAfter, C8.pack "1")] "Service Unavailable")
      | otherwise = use (text status404 [] "File not found")
    found (OpenFile descriptor (FileFacts size modified)) now = case part of
      Just chosen -> do
        unless (isPart chosen) (throwIO (InvalidFilePart path (filePartOffset chosen) (filePartByteCount chosen)))
        -- HEAD must not promise bytes that GET cannot send.
        when
          (filePartOffset chosen + filePartByteCount chosen > size)
          (requireAll (slice (filePartOffset chosen) (filePartByteCount chosen)))
        sendSlice
          status
          (foldr addUnless described (partFields chosen))
          (filePartOffset chosen)
          (filePartByteCount chosen)
      -- Preconditions and ranges concern an answer that would be a 200 (RFC 9110, sections 13.2.1 and 14.2). A file
      -- with another status, such as an error page, is sent as it is.
      Nothing | status /= status200 -> sendSlice status described 0 size
      Nothing ->
        case chooseAnswer
          (fileValidators now fields modified)
          described
          size
          (requestMethod request)
          (requestHeaders request) of
          Choice _ _ AllBytes -> sendSlice status described 0 size
          Choice code chosen NoBytes -> use (plan code chosen (BuilderBody mempty))
          Choice code chosen (OneRange range) -> sendSlice code chosen (firstByte range) (rangeLength range)
          -- Several ranges are rare, and their parts are small: they are read and streamed.
          Choice code chosen (SeveralRanges ranges) -> do
            (framed, parts) <- partsOf chosen size ranges
            use (plan code framed (StreamBody (multipartBody parts (readPiece (slice 0 size)))))
      where
        described = addUnless (hAcceptRanges, C8.pack "bytes") (maybe fields dated (modificationTime modified))
        -- RFC 9110, section 8.8.2.1: a time in the future becomes that of the response.
        dated time = addUnless (hLastModified, formatHttpDate (min now time)) fields
        -- The length that the application gave is that of the whole file.
        sendSlice code described' offset count =
          use (plan code (withoutFields [hContentLength] described') (FileBody (slice offset count)))
        slice offset count = FileSlice path descriptor (fromInteger offset) (fromInteger count)

-- | The validators of a file that was modified at this time, now. The application's ETag and Last-Modified come first.
fileValidators :: Seconds -> ResponseHeaders -> Seconds -> Validators
fileValidators now fields modified =
  Validators
    { validatorTag = lookup hETag fields >>= parseTag,
      validatorModified = declared <|> modificationTime modified,
      -- A file may change twice within a second, and the kernel's clock for it is coarse. About a time that is not the
      -- file's nothing is known.
      validatorDateIsStrong = all (== modified) declared && modified + 2 <= now
    }
  where
    declared = lookup hLastModified fields >>= parseHttpDate

-- Could a file have this part?
isPart :: FilePart -> Bool
isPart (FilePart offset count _) = offset >= 0 && count >= 0 && offset + count <= toInteger (maxBound :: Int64)

partFields :: FilePart -> ResponseHeaders
partFields (FilePart offset count size)
  | count == size = []
  | count == 0 = [(hContentRange, unsatisfiedRange size)] -- There is no way to write an empty range.
  | otherwise = [(hContentRange, contentRange size (ByteRange offset (offset + count - 1)))]

-- The fields of a short text in place of the file.
textPlain :: ResponseHeaders -> ResponseHeaders
textPlain fields =
  (hContentType, C8.pack "text/plain; charset=utf-8") : withoutFields [hLastModified, hETag] (withoutContent fields)
