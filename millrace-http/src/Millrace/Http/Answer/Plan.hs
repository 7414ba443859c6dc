{-# LANGUAGE BangPatterns #-}

-- |
-- What becomes of a WAI response: which status, fields and bytes answer this request. Conditional requests, ranges, HEAD
-- and statuses without a body are decided here, for all protocols. Must not know: protocols.
module Millrace.Http.Answer.Plan (withPlan) where

import Control.Exception (throwIO, toException)
import Control.Monad (unless, when)
import Data.ByteString.Builder (byteString)
import qualified Data.ByteString.Char8 as C8
import qualified Data.CaseInsensitive as CI
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Millrace.Http.Answer.FileBody (readPiece, requireAll)
import Millrace.Http.ByteRange
import Millrace.Http.Date (Seconds, formatHttpDate)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange
import Millrace.Http.FieldValue (harmless)
import Millrace.Http.File
import Millrace.Http.FileCache (OpenFile (..), withOpenFile)
import Millrace.Http.Foreign (currentSeconds)
import Millrace.Http.Multipart
import Millrace.Http.Precondition (modificationTime)
import Millrace.Http.Server.Context (ServerContext (..), reportTo)
import Millrace.Http.Server.Settings (Settings (..))
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hContentRange, hETag, hExpires, hRetryAfter)
import Network.Wai (Request, requestHeaders, requestMethod)
import Network.Wai.Internal (FilePart (..), Response (..))
import System.IO.Error (isFullError)

-- | Hands over what is to be sent for a response. The file that it comes from stays open meanwhile.
withPlan :: ServerContext -> Request -> Response -> (Plan -> IO ()) -> IO ()
withPlan server request response use = case response of
  ResponseBuilder status fields builder -> use $! built status fields (BuilderBody builder)
  ResponseStream status fields body -> use $! built status fields (StreamBody body)
  ResponseFile status fields path part -> withFilePlan server request (FileResponse status fields path part) use
  ResponseRaw body _ -> use (TakeOver body)
  where
    built = makePlan server (requestMethod request)
{-# INLINE withPlan #-}

-- A body that is not to be sent, with the length that the application gave.
makePlan :: ServerContext -> Method -> Status -> ResponseHeaders -> Body -> Plan
makePlan server method status@(Status code _) fields body
  | code == 200 && C8.length method < 4 = Plan status advertised body -- GET and PUT: as almost always
  | method == methodConnect && code >= 200 && code < 300 = Plan status advertised NoTunnel -- RFC 9110, section 9.3.6
  | code == 205 = Plan status advertised (NoBody (Announced 0)) -- section 15.3.6
  | code == 204 = Plan status advertised (NoBody NotAnnounced) -- section 8.6
  | code == 304 || method == methodHead = Plan status advertised (NoBody (lengthOf body)) -- section 6.4.1
  | otherwise = Plan status advertised body
  where
    !advertised = maybe fields (\value -> (hAltSvc, value) : fields) (settingsAltSvc (serverSettings server))
    lengthOf (FileBody slice) = Announced (fromIntegral (sliceLength slice))
    lengthOf _ = AsGiven

hAltSvc :: HeaderName
hAltSvc = CI.mk (C8.pack "Alt-Svc")
{-# NOINLINE hAltSvc #-}

------------------------------------------------------------------------------------------------------------------------
-- Files

-- What the application responded with.
data FileResponse = FileResponse !Status ResponseHeaders !FilePath !(Maybe FilePart)

withFilePlan :: ServerContext -> Request -> FileResponse -> (Plan -> IO ()) -> IO ()
withFilePlan server request (FileResponse status fields path part) use =
  withOpenFile (serverFiles server) path (either refused ((currentSeconds >>=) . found))
  where
    text code extra = plan code (extra ++ textPlain fields) . BuilderBody . byteString . C8.pack
    plan = makePlan server (requestMethod request)
    -- A client that is told that the file is missing forgets it. A lack of descriptors is over soon.
    refused failure
      | isFullError failure = do
        reportTo server (Just request) (toException failure)
        use (text status503 [(hRetryAfter, C8.pack "1")] "Service Unavailable")
      | otherwise = use (text status404 [] "File not found")
    found (OpenFile descriptor facts@(FileFacts size modified)) now = case part of
      Just chosen -> do
        unless (isPart chosen) (throwIO (InvalidFilePart path (filePartOffset chosen) (filePartByteCount chosen)))
        -- HEAD must not promise what GET does not have.
        when (filePartOffset chosen + filePartByteCount chosen > size) (requireAll (slice (filePartOffset chosen) (filePartByteCount chosen)))
        send status (partFields chosen) (filePartOffset chosen) (filePartByteCount chosen)
      -- Preconditions and ranges concern what would be a 200 (RFC 9110, sections 13.2.1 and 14.2); an error page from
      -- a file is sent as it is.
      Nothing | status /= status200 -> send status [] 0 size
      Nothing -> case chooseAnswer now (requestMethod request) (requestHeaders request) fields facts of
        Send Whole -> send status [] 0 size
        Send (Part range) -> send status206 [(hContentRange, contentRange size range)] (firstByte range) (rangeLength range)
        Send (Parts ranges) -> sendParts ranges
        Send Unsatisfiable -> use (plan status416 ((hContentRange, unsatisfiedRange size) : refusing dated) (BuilderBody mempty))
        Refuse code -> use (plan code (if code == status304 then unchanged dated else refusing dated) (BuilderBody mempty))
      where
        -- RFC 9110, section 8.8.2.1: a time in the future becomes that of the response.
        dated = maybe fields (\time -> addUnless (hLastModified, formatHttpDate (min (now :: Seconds) time)) fields) (modificationTime modified)
        send code extra offset count =
          use (plan code (withoutLength (foldr addUnless ranged extra)) (FileBody (slice offset count)))
        slice offset count = FileSlice path descriptor (fromInteger offset) (fromInteger count)
        ranged = addUnless (hAcceptRanges, C8.pack "bytes") dated
        -- It is rare, and parts are small: they are read and streamed.
        sendParts ranges = do
          boundary <- newBoundary
          let parts = multipart boundary (harmless (fromMaybe octets (lookup hContentType ranged))) size ranges
              framed = [(hContentType, multipartType parts), (hContentLength, C8.pack (show (multipartLength parts)))]
          use (plan status206 (framed ++ without (map fst framed) ranged) (StreamBody (multipartBody parts (readPiece (slice 0 size)))))
    octets = C8.pack "application/octet-stream"

-- Can there be a file of which it is a part?
isPart :: FilePart -> Bool
isPart (FilePart offset count _) = offset >= 0 && count >= 0 && offset + count <= toInteger (maxBound :: Int64)

partFields :: FilePart -> ResponseHeaders
partFields (FilePart offset count size)
  | count == size = []
  | count == 0 = [(hContentRange, unsatisfiedRange size)] -- There is no way to write an empty range.
  | otherwise = [(hContentRange, contentRange size (ByteRange offset (offset + count - 1)))]

addUnless :: Header -> ResponseHeaders -> ResponseHeaders
addUnless field@(name, _) fields
  | any ((== name) . fst) fields = fields
  | otherwise = field : fields

without :: [HeaderName] -> ResponseHeaders -> ResponseHeaders
without names = filter ((`notElem` names) . fst)

-- The length that the application gave is that of the whole file.
withoutLength :: ResponseHeaders -> ResponseHeaders
withoutLength = without [hContentLength]

-- RFC 9110, section 15.4.5: of the file, what a cache needs to update its own.
unchanged :: ResponseHeaders -> ResponseHeaders
unchanged = without [hContentType, hContentLength, hContentEncoding]

-- What is left of the application's fields when its file is not sent: nothing of the body, and not for how long that may be
-- kept. A cache would give the refusal to others, who have asked for something else of the same file (RFC 9111, section 3).
refusing :: ResponseHeaders -> ResponseHeaders
refusing = without [hContentRange, hCacheControl, hExpires] . unchanged

textPlain :: ResponseHeaders -> ResponseHeaders
textPlain fields = (hContentType, C8.pack "text/plain; charset=utf-8") : without [hLastModified, hAcceptRanges, hETag] (refusing fields)
