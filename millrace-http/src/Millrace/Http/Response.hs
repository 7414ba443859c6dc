{-# LANGUAGE BangPatterns #-}

-- |
-- Sends a WAI response: composes head and body in the connection's output. Knows nothing of applications and of
-- receiving.
--
-- A body that fits is written behind the head, at a distance that leaves room for the framing, which is written last
-- because only then is the length known; the body is then moved up to it. Nothing is sent here unless the output is
-- full: the session sends when no further request waits.
module Millrace.Http.Response (Hold, answer, restartResponse) where

import Control.Applicative ((<|>))
import Control.Concurrent.MVar (MVar, newMVar, putMVar, takeMVar, withMVar)
import Control.Exception (SomeException, catch, finally, mask_, throwIO, toException, uninterruptibleMask_)
import Control.Monad (unless, when)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder, byteString)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.CaseInsensitive (original)
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Int (Int32, Int64)
import Data.Maybe (fromMaybe, isNothing)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..))
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Millrace.Http.Body (sendContinue)
import Millrace.Http.ByteRange
import Millrace.Http.Connection
import Millrace.Http.Date (formatHttpDate)
import Millrace.Http.Endpoint (Endpoint (..), Phase (..))
import Millrace.Http.Exception (InvalidResponse (..), isAsynchronous)
import Millrace.Http.FieldValue (harmless)
import Millrace.Http.File
import Millrace.Http.FileCache (OpenFile (..), fileError, sendingFile, withOpenFile)
import Millrace.Http.Multipart
import Millrace.Http.Precondition (modificationTime)
import Millrace.Http.Settings (Settings (..))
import Millrace.Http.Stream
import Millrace.Http.Wire
import Millrace.Socket.ByteString (recv)
import Network.HTTP.Types hiding (ByteRange)
import Network.HTTP.Types.Header (hAcceptRanges, hContentRange, hETag, hExpires, hRetryAfter)
import Network.Wai (Request, requestHeaders, requestMethod)
import Network.Wai.Internal (FilePart (..), Response (..))
import System.IO.Error (isFullError)

-- | Empty while a thread of the application's own works on the connection, full while it does not: when it runs code of the
-- application's, and in the end.
type Hold = MVar ()

-- | @answer connection request isPast hold response@ composes the response to a request and sends what does not fit into the
-- output. Leaves in 'keepRegister' whether the connection can be kept. May be called again for the same request after
-- 'restartResponse'. @isPast@ tells whether the application has given up the request. @hold@, for a thread that is not the
-- connection's own, is empty before and, unless an exception comes too early, afterwards.
answer :: Connection -> Request -> IO Bool -> Maybe Hold -> Response -> IO ()
answer connection request isPast hold response = case response of
  ResponseBuilder status fields builder -> answerBuilder connection status fields builder
  ResponseStream status fields body -> answerStream connection isPast hold status fields body
  ResponseFile status fields path part -> answerFile connection request status fields path part
  ResponseRaw body _ -> answerRaw connection hold body

-- | Takes back what was composed of the current response; False if some of it was sent already.
restartResponse :: Connection -> IO Bool
restartResponse connection = do
  sends <- readRegister connection sendsRegister
  before <- readRegister connection responseSendsRegister
  when (sends == before) (readRegister connection responseStartRegister >>= setOutputEnd connection)
  return (sends == before)

------------------------------------------------------------------------------------------------------------------------
-- Heads

-- Everything of the head but its framing, as composed at the end of the output.
data Composed = Composed
  { -- Where the framing goes.
    composedAt :: !(Ptr Word8),
    -- Content-Length as the application gave it.
    composedLength :: !(Maybe Int),
    -- The request allows to keep the connection, and so does the application.
    composedMayKeep :: !Bool,
    composedVersion11 :: !Bool,
    composedMethod :: !Word8
  }

composeHead :: Connection -> Status -> ResponseHeaders -> IO Composed
composeHead connection status@(Status !_ _) appFields = do
  let !fields = maybe appFields (\value -> (hAltSvc, value) : appFields) (settingsAltSvc (endpointSettings endpoint))
  noteStatus connection (Just status)
  writeRegister connection responseBytesRegister (-1)
  capacity <- outputCapacity connection
  waiting <- outputEnd connection
  when (capacity - waiting < capacity `div` 4) (sendEarlier connection)
  start <- outputEnd connection
  buffer <- outputBuffer connection
  let limit = buffer `plusPtr` (capacity - framingMax - streamMargin)
  result <- putHead connection (buffer `plusPtr` start) limit status fields
  if result /= headOk
    then makeHeadRoom connection >> composeHead connection status appFields
    else do
      writer <- headWriter connection
      at <- headAt writer
      given <- headGiven writer
      declared <- headGivenLength writer
      requestHead <- parser connection
      flags <- headFlags requestHead
      method <- headMethod requestHead
      return
        Composed
          { composedAt = at,
            composedLength = if declared < 0 then Nothing else Just (fromIntegral declared),
            composedMayKeep = flags .&. flagKeepAlive /= 0 && given .&. givenClose == 0,
            composedVersion11 = flags .&. flagVersion11 /= 0,
            composedMethod = method
          }
  where
    endpoint = connectionEndpoint connection

hAltSvc :: HeaderName
hAltSvc = CI.mk (C8.pack "Alt-Svc")
{-# NOINLINE hAltSvc #-}

-- Sends the responses to earlier requests: this one has the whole output, and they do not wait for it. Masked, so that an
-- exception finds the output as it was, or a connection that is broken; it can come while the client is waited for.
sendEarlier :: Connection -> IO ()
sendEarlier connection = mask_ $ do
  settleEarlyFlush connection
  writeRegister connection responseStartRegister 0
  flushEarlier connection

makeHeadRoom :: Connection -> IO ()
makeHeadRoom connection = do
  waiting <- outputEnd connection
  if waiting > 0
    then sendEarlier connection
    else do
      capacity <- outputCapacity connection
      grown <- if 2 * capacity <= responseHeadMax then growOutput connection (2 * capacity) else return False
      unless grown (throwIO (ResponseHeadTooLarge capacity))

responseHeadMax :: Int
responseHeadMax = 1048576

putHead :: Connection -> Ptr Word8 -> Ptr Word8 -> Status -> ResponseHeaders -> IO CInt
putHead connection at limit (Status code reason) fields = do
  when (code < 200) (throwIO (InvalidStatusCode code)) -- RFC 9110, section 15.2: 1xx is no final response.
  writer <- headWriter connection
  begun <- withBytes reason (beginHead writer at limit dropServer code)
  if begun == headOk
    then putFields writer fields
    else if begun == headNoRoom then return begun else throwIO (InvalidStatusCode code)
  where
    endpoint = connectionEndpoint connection
    dropServer = B.null (endpointServerLine endpoint)
    putFields writer [] = withBytes (endpointServerLine endpoint) (endHead writer)
    putFields writer ((name, value) : rest) = do
      result <- withBytes (original name) $ \nameAt nameLength -> withBytes value (putField writer nameAt nameLength)
      if result == headOk
        then putFields writer rest
        else if result == headNoRoom then return result else throwIO (refusal result (original name) value)

refusal :: CInt -> ByteString -> ByteString -> InvalidResponse
refusal result name value
  | result == headBadName = InvalidFieldName name
  | result == headBadCoding = InvalidTransferEncoding value
  | otherwise = InvalidContentLength value

withBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
withBytes bytes action = BU.unsafeUseAsCStringLen bytes $ \(at, size) -> action (castPtr at) size
{-# INLINE withBytes #-}

-- Writes the framing, and says in 'keepRegister' whether the connection is kept, also if this response is taken back and
-- another one is sent. Returns where the body begins. A body that fits is made before this, perhaps of the request's: until
-- here the client may be told to go on. From here on 100 (Continue) would be too late.
finishHead :: Connection -> Composed -> Bool -> CInt -> Int -> IO (Ptr Word8)
finishHead connection composed mayKeep framing size = do
  clear <- settleExpectation connection
  skippable <- isRestSkippable connection
  finishHeadAs connection composed (mayKeep && clear && skippable) framing size

-- The same when the request's body has been looked at.
finishHeadAs :: Connection -> Composed -> Bool -> CInt -> Int -> IO (Ptr Word8)
finishHeadAs connection composed mayKeep framing size = do
  phase <- readIORef (endpointPhase (connectionEndpoint connection))
  allowed <- readRegister connection keepRegister
  let keep = mayKeep && allowed /= 0 && phase == Serving
  writeRegister connection keepRegister (if keep then 1 else 0)
  count <- putFraming (composedAt composed) (option keep) framing size
  return (composedAt composed `plusPtr` count)
  where
    option keep
      | not keep = connectionClose
      | composedVersion11 composed = connectionUnsaid
      | otherwise = connectionKeepAlive

setOutputEndAt :: Connection -> Ptr Word8 -> IO ()
setOutputEndAt connection end = do
  buffer <- outputBuffer connection
  setOutputEnd connection (end `minusPtr` buffer)

-- RFC 9110, section 6.4.1 and RFC 9112, section 6.3: responses that have no body.
hasNoBody :: Word8 -> Status -> Bool
hasNoBody method (Status code _) = method == methodCodeHead || code == 204 || code == 304
{-# INLINE hasNoBody #-}

-- A head that is not followed by a body.
answerHead :: Connection -> Status -> Composed -> Maybe Int -> IO ()
answerHead connection (Status code _) composed size = finish >>= setOutputEndAt connection
  where
    finish = case size of
      Just count | code /= 204 -> finishHead connection composed mayKeep framingLength count -- RFC 9110, section 8.6
      _ -> finishHead connection composed mayKeep framingNone 0
    mayKeep = composedMayKeep composed

-- RFC 9110, section 9.3.6: after a 2xx to CONNECT there is a tunnel, and only a raw response can be one.
isTunnel :: Word8 -> Status -> Bool
isTunnel method (Status code _) = method == methodCodeConnect && code >= 200 && code < 300
{-# INLINE isTunnel #-}

-- Status and head of a response whose body nobody will look at.
answeredWithoutBody :: Connection -> Status -> Composed -> Maybe Int -> IO Bool
answeredWithoutBody connection status composed size
  | isTunnel (composedMethod composed) status =
    finishHead connection composed False framingNone 0 >>= setOutputEndAt connection >> return True
  | statusCode status == 205 = answerHead connection status composed (Just 0) >> return True -- section 15.3.6
  | hasNoBody (composedMethod composed) status = answerHead connection status composed size >> return True
  | otherwise = return False

------------------------------------------------------------------------------------------------------------------------
-- Builders

answerBuilder :: Connection -> Status -> ResponseHeaders -> Builder -> IO ()
answerBuilder connection status fields builder = do
  composed <- composeHead connection status fields
  done <- answeredWithoutBody connection status composed (composedLength composed)
  unless done $ do
    limit <- outputLimit connection
    let body = composedAt composed `plusPtr` framingMax
    runBody connection composed body body limit (runBuilder builder)

outputLimit :: Connection -> IO (Ptr Word8)
outputLimit connection = do
  capacity <- outputCapacity connection
  buffer <- outputBuffer connection
  return (buffer `plusPtr` (capacity - streamMargin))

-- Runs the body's builder until it is done or the output is full.
runBody :: Connection -> Composed -> Ptr Word8 -> Ptr Word8 -> Ptr Word8 -> BufferWriter -> IO ()
runBody connection composed body at limit writer = do
  (count, next) <- writer at (limit `minusPtr` at)
  let end = at `plusPtr` count
  case next of
    Done -> finishBody connection composed body (end `minusPtr` body)
    Chunk bytes rest
      | B.length bytes <= limit `minusPtr` end -> do
        withBytes bytes (copyBytes end)
        runBody connection composed body (end `plusPtr` B.length bytes) limit rest
      | otherwise -> do
        -- A last piece that is too large to copy: its length is known all the same.
        (more, afterwards) <- rest end 0
        let size = case afterwards of
              Done | more == 0 -> Just (end `minusPtr` body + B.length bytes)
              _ -> Nothing
        continueBody connection composed body (end `minusPtr` body) size (resume bytes afterwards)
    More wanted rest -> continueBody connection composed body (end `minusPtr` body) Nothing (\_ _ -> return (0, More wanted rest))

-- A writer that first hands over these bytes.
resume :: ByteString -> Next -> BufferWriter
resume bytes next _ _ = return (0, Chunk bytes (\_ _ -> return (0, next)))

finishBody :: Connection -> Composed -> Ptr Word8 -> Int -> IO ()
finishBody connection composed body size = do
  checkLength composed size
  writeRegister connection responseBytesRegister size
  start <- finishHead connection composed (composedMayKeep composed) framingLength size
  moveBytes start body size
  setOutputEndAt connection (start `plusPtr` size)

checkLength :: Composed -> Int -> IO ()
checkLength composed size = case composedLength composed of
  Just declared | declared /= size -> throwIO (ContentLengthMismatch declared size)
  _ -> return ()

-- The body is larger than the output: what there is of it becomes the beginning of a stream.
continueBody :: Connection -> Composed -> Ptr Word8 -> Int -> Maybe Int -> BufferWriter -> IO ()
continueBody connection composed body count size writer = do
  mapM_ (checkLength composed) size
  startStream connection composed False (composedLength composed <|> size) body count
  streamWriter connection writer
  endStream connection

-- Writes the head's framing and moves what there is of the body behind it. The rest may be made of the request's, of
-- whatever length if it is the application's code that makes it: the client may be told to go on, and the connection is
-- to be kept, until something of the stream is sent. (HTTP/1.0 is told that it is kept, and cannot be told otherwise then.)
startStream :: Connection -> Composed -> Bool -> Maybe Int -> Ptr Word8 -> Int -> IO ()
startStream connection composed mayReadAll size body count = do
  skippable <- if mayReadAll then return True else isRestSkippable connection
  let mayKeep = composedMayKeep composed && skippable
  start <- case framing of
    Counted total -> finishHeadAs connection composed mayKeep framingLength total
    Chunks -> finishHeadAs connection composed mayKeep framingChunked 0
    UntilClose -> finishHeadAs connection composed False framingNone 0
  keep <- readRegister connection keepRegister
  buffer <- outputBuffer connection
  writeRegister connection closeOptionRegister (if composedVersion11 composed && keep /= 0 then composedAt composed `minusPtr` buffer else -1)
  -- The first bytes are counted and framed like all others, from a copy that is theirs alone.
  saved <- BI.create count (\target -> copyBytes target body count)
  setOutputEndAt connection start
  beginStream connection framing
  unless (B.null saved) (streamWriter connection (resume saved Done))
  where
    framing = case size of
      Just total -> Counted total
      Nothing | composedVersion11 composed -> Chunks
      Nothing -> UntilClose

------------------------------------------------------------------------------------------------------------------------
-- Streams

answerStream :: Connection -> IO Bool -> Maybe Hold -> Status -> ResponseHeaders -> ((Builder -> IO ()) -> IO () -> IO ()) -> IO ()
answerStream connection isPast hold status fields body = do
  -- They would wait until the application flushes.
  sendEarlier connection
  composed <- composeHead connection status fields
  done <- answeredWithoutBody connection status composed (composedLength composed)
  unless done $ do
    startStream connection composed True (composedLength composed) (composedAt composed) 0
    -- The application may hand these actions to other threads and keep them: the lock makes their writes whole, and
    -- after the end they must not touch the connection; nor when it throws while a thread of its still streams.
    over <- newIORef False
    lock <- maybe (newMVar ()) (\held -> held <$ putMVar held ()) hold
    let guarded action = withMVar lock $ \_ -> do
          late <- (||) <$> readIORef over <*> isPast
          -- Interrupted between counting and sending, it may have left out a part of the body.
          if late
            then throwIO UsedTooLate
            else
              action `catch` \failure -> do
                when (isAsynchronous failure) (breakConnection connection)
                throwIO (failure :: SomeException)
        write builder = guarded (streamBuilder connection builder)
        flush = guarded (flushStream connection)
        -- Whoever came with a hold has it again.
        close = uninterruptibleMask_ $ do
          takeMVar lock
          writeIORef over True
          when (isNothing hold) (putMVar lock () >> writeRegister connection streamingRegister 0)
    when (isNothing hold) (writeRegister connection streamingRegister 1)
    body write flush `finally` close
    past <- isPast
    when past (throwIO UsedTooLate)
    endStream connection

------------------------------------------------------------------------------------------------------------------------
-- Files

answerFile :: Connection -> Request -> Status -> ResponseHeaders -> FilePath -> Maybe FilePart -> IO ()
answerFile connection request status fields path part =
  withOpenFile (endpointFiles (connectionEndpoint connection)) path (either refused ((currentSeconds >>=) . found))
  where
    -- Who is told that it is not there forgets it; that all descriptors are in use is over soon.
    refused failure = if isFullError failure then full failure >> busy else missing
    full = report connection (Just request) . toException
    busy = answerBuilder connection status503 ((hRetryAfter, C8.pack "1") : textPlain fields) (byteString (C8.pack "Service Unavailable"))
    missing = answerBuilder connection status404 (textPlain fields) (byteString (C8.pack "File not found"))
    found (OpenFile descriptor facts@(FileFacts size modified)) now = case part of
      Just chosen -> do
        unless (isPart chosen) (throwIO (InvalidFilePart path (filePartOffset chosen) (filePartByteCount chosen)))
        checkPart path descriptor size chosen
        send status (partFields chosen) (filePartOffset chosen) (filePartByteCount chosen)
      -- Preconditions and ranges concern what would be a 200 (RFC 9110, sections 13.2.1 and 14.2); an error page from
      -- a file is sent as it is.
      Nothing | status /= status200 -> send status [] 0 size
      Nothing -> case chooseAnswer now (requestMethod request) (requestHeaders request) fields facts of
        Send Whole -> send status [] 0 size
        Send (Part range) -> send status206 [(hContentRange, contentRange size range)] (firstByte range) (rangeLength range)
        Send (Parts ranges) -> answerParts connection ranged path descriptor size ranges
        Send Unsatisfiable -> answerBuilder connection status416 ((hContentRange, unsatisfiedRange size) : refusing dated) mempty
        Refuse code -> answerBuilder connection code (if code == status304 then unchanged dated else refusing dated) mempty
      where
        -- RFC 9110, section 8.8.2.1: a time in the future becomes that of the response.
        dated = maybe fields (\time -> addUnless (hLastModified, formatHttpDate (min now time)) fields) (modificationTime modified)
        send code extra offset count =
          answerOpenFile connection code (foldr addUnless ranged extra) path descriptor (fromInteger offset) (fromInteger count)
        ranged = addUnless (hAcceptRanges, C8.pack "bytes") dated

-- Can there be a file of which it is a part?
isPart :: FilePart -> Bool
isPart (FilePart offset count _) = offset >= 0 && count >= 0 && offset + count <= toInteger (maxBound :: Int64)

-- Throws if it does not end within the file: HEAD must not promise what GET does not have. Some files do not tell their
-- size, as those in /proc.
checkPart :: FilePath -> Int32 -> Integer -> FilePart -> IO ()
checkPart path descriptor size (FilePart offset count _) = when (count > 0 && offset + count > size) $ do
  result <- allocaBytes 1 (\target -> readFileAt descriptor target 1 (fromInteger (offset + count - 1)))
  when (result /= 1) (throwIO (unread path result))

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

answerOpenFile :: Connection -> Status -> ResponseHeaders -> FilePath -> Int32 -> Int64 -> Int64 -> IO ()
answerOpenFile connection status fields path descriptor offset count = do
  composed <- composeHead connection status (withoutLength fields)
  done <- answeredWithoutBody connection status composed (Just (fromIntegral count))
  unless done $ do
    start <- finishHead connection composed (composedMayKeep composed) framingLength (fromIntegral count)
    limit <- outputLimit connection
    if count <= fromIntegral (limit `minusPtr` start)
      then do
        -- A small file goes out together with the head, and with the responses before and after it.
        size <- readFileAt descriptor start (fromIntegral count) offset
        when (size /= fromIntegral count) (throwIO (unread path size))
        writeRegister connection responseBytesRegister size
        setOutputEndAt connection (start `plusPtr` size)
      else do
        setOutputEndAt connection start
        writeRegister connection responseBytesRegister 0
        flushAhead connection
        sent <- sendingFile path (sendFilePart connection (writeRegister connection responseBytesRegister) descriptor offset count)
        when (sent < count) (throwIO (FileTruncated path)) -- The length was promised: only closing tells the truth.

-- Several ranges as one body. It is rare, and parts are small: they are read and streamed.
answerParts :: Connection -> ResponseHeaders -> FilePath -> Int32 -> Integer -> [ByteRange] -> IO ()
answerParts connection fields path descriptor size ranges = do
  boundary <- newBoundary
  let parts = multipart boundary (harmless (fromMaybe octets (lookup hContentType fields))) size ranges
      framed = [(hContentType, multipartType parts), (hContentLength, C8.pack (show (multipartLength parts)))]
  answerStream connection (return False) Nothing status206 (framed ++ without (map fst framed) fields) (multipartBody parts readAt)
  where
    octets = C8.pack "application/octet-stream"
    readAt offset count = BI.createUptoN count $ \target -> do
      read' <- readFileAt descriptor target count (fromInteger offset)
      if read' <= 0 then throwIO (unread path read') else return read'

-- Why there are fewer bytes than there were to be: a number of bytes, or a negative errno.
unread :: FilePath -> Int -> SomeException
unread path result
  | result < 0 = toException (fileError path (Errno (fromIntegral (negate result))))
  | otherwise = toException (FileTruncated path)

------------------------------------------------------------------------------------------------------------------------
-- Raw

-- The application has the connection to itself, and it is closed afterwards. Reading has no time limit: what silence
-- means is for the protocol spoken there to say.
answerRaw :: Connection -> Maybe Hold -> (IO ByteString -> (ByteString -> IO ()) -> IO ()) -> IO ()
answerRaw connection hold body = do
  writeRegister connection keepRegister 0
  flushOutput connection
  clearTotalDeadline connection
  noteStatus connection Nothing
  sendContinue connection -- RFC 9110, section 7.8: before a 101 (Switching Protocols)
  sends <- readRegister connection sendsRegister
  writeRegister connection sendsRegister (sends + 1) -- Nothing can be taken back any more.
  count <- inputCount connection
  input <- inputBytes connection
  leftover <- BI.create count (\target -> copyBytes target input count) >>= newIORef
  dropInput connection count
  let receive = do
        bytes <- atomicModifyIORef' leftover takeAll
        if B.null bytes then recv socket rawReceiveSize else return bytes
  -- From here on only the socket is used.
  mapM_ (`putMVar` ()) hold
  body receive (sendDetached connection) `finally` uninterruptibleMask_ (mapM_ takeMVar hold)
  where
    socket = connectionSocket connection
    takeAll held = (B.empty, held)

rawReceiveSize :: Int
rawReceiveSize = 16384
