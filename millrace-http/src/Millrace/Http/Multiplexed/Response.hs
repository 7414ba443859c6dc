-- Must not know: requests, listeners.

-- |
-- Sends a planned response over a stream of HTTP\/2 or HTTP\/3.
--
-- A body of at most a few hundred bytes goes to the engine together with its head, in one call. Larger bodies go piece
-- by piece, and their writer waits while the client is slower than the writer.
module Millrace.Http.Multiplexed.Response (answerOnStream) where

import Control.Exception (bracket, finally, mask, onException, throwIO)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import qualified Data.ByteString.Unsafe as BU
import qualified Data.CaseInsensitive as CI
import Data.IORef
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust, isNothing)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eCONNRESET, eTIMEDOUT)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import GHC.ForeignPtr (mallocPlainForeignPtrBytes, touchForeignPtr)
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Answer.Body (Sink (..), descriptorOf, readSlice, runRawBody, runStreamingBody, sendingFile)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange (AnnouncedLength (..), Answerer (..), Body (..), FileSlice (..), Plan (..), RawBody)
import Millrace.Http.Expectation (dismiss)
import Millrace.Http.Field (modifyField, readField, writeField)
import Millrace.Http.FieldSyntax (isToken)
import Millrace.Http.FileCache (fileError)
import Millrace.Http.Http1.Head (headBadCoding, headBadLength, headBadName, headNoRoom)
import Millrace.Http.Multiplexed.Body (BodyReader, liftLimits, readBody)
import qualified Millrace.Http.Multiplexed.Engine as Engine
import Millrace.Http.Multiplexed.Rows (WriteOutcome (BadFields, Full, Gone))
import Millrace.Http.Multiplexed.Rows hiding (WriteOutcome (..))
import qualified Millrace.Http.Multiplexed.Rows as Engine
import Millrace.Http.Multiplexed.Stream
import Millrace.Http.Multiplexed.TakeOver
import Millrace.Http.Server.Context (ServerContext (..))
import Millrace.Http.Server.Limits (Limits (..), Rate (..))
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Threads (Waited (..))
import Millrace.Http.Trailers
import Millrace.Http.Transport (borrow, borrowedBytes, borrowedSize, giveBack, readFileAt)
import Network.HTTP.Types (ResponseHeaders, Status (..), hContentLength)
import Network.HTTP.Types.Header (hTransferEncoding)
import Network.Wai (StreamingBody)

-- | Sends a response. The body of the request is for an application that takes the stream over.
answerOnStream :: Stream -> Maybe BodyReader -> Answerer -> Plan -> IO ()
answerOnStream stream body answerer plan = case plan of
  Plan status fields (BuilderBody builder) -> answerBuilder stream status fields builder
  Plan status fields (NoBody size) -> answerHead stream status fields (announced size)
  Plan status fields NoTunnel -> answerHead stream status fields NoLength
  Plan status fields (FileBody slice) -> answerFile stream status fields slice
  Plan status fields (StreamBody streaming) -> answerStreaming stream answerer status fields streaming
  TakeOver raw -> answerRaw stream body answerer raw
  where
    announced size = case size of
      Announced count -> Exactly count
      AsGiven -> LengthAsGiven
      NotAnnounced -> NoLength

------------------------------------------------------------------------------------------------------------------------
-- Heads

-- Passes the head and the first bytes to the engine. Returns the content-length that the fields give.
begin :: Stream -> Status -> ResponseHeaders -> Rows -> ContentLength -> FirstBytes -> IO (Maybe Int)
begin stream (Status code _) fields rows size firstBytes = do
  -- From here on 100 (Continue) would be too late.
  void (dismiss (expectationOf stream))
  (outcome, given) <- Engine.answerStream (streamEngine stream) code rows size firstBytes
  case outcome of
    BadFields number -> throwIO (refusal number code fields)
    Gone -> throwLost stream eCONNRESET
    _ -> return ()
  return given

refusal :: CInt -> Int -> ResponseHeaders -> InvalidResponse
refusal number code fields
  | number == headBadName = InvalidFieldName (firstOf (not . isToken))
  | number == headBadCoding = InvalidTransferEncoding (valueOf hTransferEncoding)
  | number == headBadLength = InvalidContentLength (valueOf hContentLength)
  | number == headNoRoom = ResponseHeadTooLarge 0
  | otherwise = InvalidStatusCode code
  where
    firstOf wanted = fromMaybe B.empty (lookup True [(wanted name, name) | name <- map (CI.original . fst) fields])
    valueOf name = fromMaybe B.empty (lookup name fields)

answerHead :: Stream -> Status -> ResponseHeaders -> ContentLength -> IO ()
answerHead stream status fields size = withRowsOf 0 kept $ \_ rows -> do
  void (begin stream status kept rows size (FirstBytes nullPtr 0 Whole))
  setBytes stream Nothing
  where
    -- The announced length: a 205 has none, whatever the application says.
    kept = case size of
      Exactly _ -> filter ((/= hContentLength) . fst) fields
      _ -> fields

------------------------------------------------------------------------------------------------------------------------
-- Builders

-- The largest body that is sent with one call.
smallBody :: Int
smallBody = 512

answerBuilder :: Stream -> Status -> ResponseHeaders -> Builder -> IO ()
answerBuilder stream status fields builder = withRowsOf smallBody fields $ \memory rows -> do
  said <- readIORef (dataOf stream)
  (count, next) <- runBuilder builder memory smallBody
  case next of
    Done | isNothing said -> do
      given <- begin stream status fields rows (Exactly count) (FirstBytes memory count Whole)
      checkLength given count
      setBytes stream (Just count)
    Chunk bytes rest | isNothing said -> do
      -- Nearly always the last piece.
      (more, afterwards) <- rest memory 0
      case afterwards of
        Done | more == 0 -> do
          let size = count + B.length bytes
          given <- begin stream status fields rows (Exactly size) (FirstBytes memory count Beginning)
          checkLength given size
          setBytes stream (Just count)
          -- Large bytes wait where they are: in the application's memory.
          when (B.length bytes > fromIntegral tinyFile) (void (awaitWindow stream))
          writeBytes stream bytes
          finish stream
        _ -> continue rows memory count (Chunk bytes (\_ _ -> return (0, afterwards)))
    _ -> continue rows memory count next
  where
    continue rows memory count next = do
      given <- begin stream status fields rows LengthAsGiven (FirstBytes memory count Beginning)
      setBytes stream (Just count)
      setDeclared stream given
      checkRoom stream 0
      unless (count == 0) (tellMaker stream (B.packCStringLen (castPtr memory, count)))
      case next of
        Done -> return ()
        _ -> writeAll stream (\_ _ -> return (0, next))
      finish stream

checkLength :: Maybe Int -> Int -> IO ()
checkLength given size = case given of
  Just declared | declared /= size -> throwIO (ContentLengthMismatch declared size)
  _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- Counting

setBytes :: Stream -> Maybe Int -> IO ()
setBytes stream = writeField (stateOf stream) responseBytes

countBytes :: Stream -> Int -> IO ()
countBytes stream count = do
  checkRoom stream count
  modifyField (stateOf stream) responseBytes (fmap (+ count))

setDeclared :: Stream -> Maybe Int -> IO ()
setDeclared stream = writeField (stateOf stream) declaredLength

-- The declared length of the body, and the number of its bytes so far.
declaredAndWritten :: Stream -> IO (Maybe Int, Int)
declaredAndWritten stream = do
  declared <- readField (stateOf stream) declaredLength
  written <- readField (stateOf stream) responseBytes
  return (declared, fromMaybe 0 written)

-- A body must not exceed its length: the client would reset the stream.
checkRoom :: Stream -> Int -> IO ()
checkRoom stream count = do
  (declared, written) <- declaredAndWritten stream
  forM_ declared $ \size -> when (written + count > size) (throwIO (ContentLengthMismatch size (written + count)))

------------------------------------------------------------------------------------------------------------------------
-- Writing

-- Runs a builder in a borrowed buffer, or in more memory if the builder asks for that. Before each piece but the first
-- it waits for space, and once more at the end: the write is whole then, also if an exception interrupts that wait.
writeAll :: Stream -> BufferWriter -> IO ()
writeAll stream writer = bracket borrow giveBack $ \buffer -> go (borrowedBytes buffer) borrowedSize AcceptsMore writer
  where
    go at size capacity current = do
      (count, next) <- current at size
      capacity' <- putPieces stream capacity at count
      case next of
        Done -> endWrite stream capacity'
        Chunk bytes rest -> do
          capacity'' <- putBytes stream capacity' bytes
          go at size capacity'' rest
        More wanted rest
          | wanted <= size -> go at size capacity' rest
          | wanted > wantedMax -> throwIO (userError ("A builder asks for " ++ show wanted ++ " bytes at once"))
          | otherwise -> do
            memory <- mallocPlainForeignPtrBytes wanted
            go (unsafeForeignPtrToPtr memory) wanted capacity' rest
            touchForeignPtr memory
    wantedMax = settingsMaxBuilderResponseBufferSize (serverSettings (serverOf stream))

writeBytes :: Stream -> ByteString -> IO ()
writeBytes stream bytes = putBytes stream AcceptsMore bytes >>= endWrite stream

-- | Whether the engine takes more at once, or the writer has to wait before.
data EngineCapacity = AcceptsMore | IsFull

putBytes :: Stream -> EngineCapacity -> ByteString -> IO EngineCapacity
putBytes stream capacity bytes =
  BU.unsafeUseAsCStringLen bytes (\(at, size) -> putPieces stream capacity (castPtr at) size)

putPieces :: Stream -> EngineCapacity -> Ptr Word8 -> Int -> IO EngineCapacity
putPieces _ capacity _ 0 = return capacity
putPieces stream capacity at left = do
  let count = min pieceMax left
  capacity' <- put stream capacity at count
  putPieces stream capacity' (at `plusPtr` count) (left - count)

-- Limits the duration of a call that copies, and how far a body may go beyond its limits at once.
pieceMax :: Int
pieceMax = 16384

-- Passes bytes to the engine, as part of a write.
put :: Stream -> EngineCapacity -> Ptr Word8 -> Int -> IO EngineCapacity
put stream capacity at count = do
  awaitCapacity stream capacity
  writeField (stateOf stream) writeIsPartial True
  countBytes stream count
  tellMaker stream (B.packCStringLen (castPtr at, count))
  Engine.writeStream (streamEngine stream) at count >>= capacityAfter stream

-- All bytes of a write were passed on.
endWrite :: Stream -> EngineCapacity -> IO ()
endWrite stream capacity = do
  writeField (stateOf stream) writeIsPartial False
  awaitCapacity stream capacity

capacityAfter :: Stream -> WriteOutcome -> IO EngineCapacity
capacityAfter stream outcome = case outcome of
  Engine.Done -> return AcceptsMore
  Full -> return IsFull
  _ -> throwLost stream eCONNRESET

-- Parks if too many bytes wait to be sent.
awaitCapacity :: Stream -> EngineCapacity -> IO ()
awaitCapacity _ AcceptsMore = return ()
awaitCapacity stream IsFull = awaitOutputBelow stream Engine.outputLow

-- The maker of trailers gets the body's bytes.
tellMaker :: Stream -> IO ByteString -> IO ()
tellMaker stream copy = readIORef (dataOf stream) >>= mapM_ tell
  where
    tell said = do
      bytes <- copy
      next <- http2dataTrailers said (Just bytes)
      writeIORef (dataOf stream) . Just $! case next of
        NextTrailersMaker maker -> said {http2dataTrailers = maker}
        Trailers fields -> said {http2dataTrailers = \_ -> return (Trailers fields)}

makeTrailers :: Stream -> IO ResponseHeaders
makeTrailers stream = readIORef (dataOf stream) >>= maybe (return []) ask
  where
    ask said = fieldsOf <$> http2dataTrailers said Nothing
    fieldsOf (Trailers fields) = filter (mayBeTrailer . fst) fields
    fieldsOf (NextTrailersMaker _) = []

-- Waits until the client has taken all but this many bytes. Gives the client up if it takes nothing for too long, takes
-- less than the least rate, or if the deadline passes. What it takes of other streams counts while this one has to wait
-- behind them ('streamProgress').
awaitOutputBelow :: Stream -> Int -> IO ()
awaitOutputBelow stream most = awaitClient stream $ do
  result <- Engine.awaitOutput (streamEngine stream) most
  return $ case result of
    Full -> Nothing
    Gone -> Just Nothing
    _ -> Just (Just ())

-- Waits until the client's windows take bytes, and returns how many. Until then the bytes of a body stay where they
-- are, in a file or in the application's memory. The head does not wait for them.
awaitWindow :: Stream -> IO Int
awaitWindow stream =
  look >>= maybe (flushStream stream >> awaitClient stream look) (maybe (throwLost stream eCONNRESET) return)
  where
    look = asked <$> Engine.awaitWindow (streamEngine stream)
    asked result = case result of
      Bytes count -> Just (Just count)
      MustWait -> Nothing
      Broken -> Just Nothing

-- Repeats an attempt until it has a result. 'Nothing' within that: the stream is closed.
awaitClient :: Stream -> IO (Maybe (Maybe a)) -> IO a
awaitClient stream attempt = do
  start <- monotonicNanoseconds
  Engine.streamProgress (streamEngine stream) >>= await start
  where
    limits = limitsFor stream
    -- The moment since which there was no progress, and the progress until then.
    await since before' = do
      total <- remainingMicros (stateOf stream)
      start <- monotonicNanoseconds
      outcome <- awaitEvent stream Writable (patience limits total (microsBetween since start)) attempt
      end <- monotonicNanoseconds
      after' <- Engine.streamProgress (streamEngine stream)
      isSlow <- isTooSlow limits (stateOf stream) (fromIntegral (end - start)) after'
      over <- isOverdue (stateOf stream)
      case outcome of
        Came Nothing -> throwLost stream eCONNRESET
        _ | isSlow || over -> giveUp
        Came (Just result) -> return result
        TookTooLong
          | after' > before' -> await end after'
          | sendMicros limits > 0 && microsBetween since end >= sendMicros limits -> giveUp
          | otherwise -> await since before'
    giveUp = cancelOf stream >> throwLost stream eTIMEDOUT
    microsBetween one other = fromIntegral (other - one) `quot` 1000

-- How long a writer waits at once that has seen no progress for this many microseconds. Not inlined: the wait's code
-- would be repeated for each of the cases.
patience :: Limits -> Maybe Int -> Int -> Maybe Int
patience limits total quiet =
  shorter total (shorter (max 1 (sendMicros limits - quiet) <$ limitOf (sendMicros limits)) window)
  where
    window = sendRate limits >>= \(Rate _ micros) -> limitOf micros
{-# NOINLINE patience #-}

-- A writer has waited for the client for this many nanoseconds more, and the progress is this many bytes in all. After
-- a wait as long as the rate's window, the client must have taken as much as the rate demands.
isTooSlow :: Limits -> StreamState -> Int -> Int -> IO Bool
isTooSlow limits state nanoseconds sent = case sendRate limits of
  Nothing -> return False
  Just (Rate bytes micros) -> do
    waited <- (+ nanoseconds) <$> readField state writerWaited
    earlier <- readField state sentBefore
    if waited < 1000 * micros
      then False <$ writeField state writerWaited waited
      else do
        writeField state writerWaited 0
        writeField state sentBefore sent
        return (sent - earlier < bytes)
{-# NOINLINE isTooSlow #-}

-- Ends the body.
finish :: Stream -> IO ()
finish stream = makeTrailers stream >>= finishWith stream

finishWith :: Stream -> ResponseHeaders -> IO ()
finishWith stream trailers = do
  (declared, written) <- declaredAndWritten stream
  forM_ declared $ \size -> when (written < size) (throwIO (ContentLengthMismatch (size - written) 0))
  outcome <- withRowsOf 0 trailers (\_ rows -> Engine.finishStream (streamEngine stream) rows)
  case outcome of
    Gone -> throwLost stream eCONNRESET
    BadFields number -> throwIO (refusal number 200 trailers)
    _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- Streams

answerStreaming :: Stream -> Answerer -> Status -> ResponseHeaders -> StreamingBody -> IO ()
answerStreaming stream answerer status fields body = do
  -- Until the application writes or flushes, 100 (Continue) may still be sent, and another answer may take the place of
  -- this one. A body without a byte or trailers is no more than its head.
  begun <- newIORef False
  let open = do
        already <- readIORef begun
        unless already (openStreaming stream status fields >> writeIORef begun True)
      run =
        runStreamingBody
          answerer
          (Sink (\builder -> open >> writeAll stream (runBuilder builder)) (open >> flushStream stream) interrupted)
          body
      interrupted = readField (stateOf stream) writeIsPartial >>= \isPartial -> when isPartial (abortStream stream)
  case answerer of
    OwnThread -> (setStreaming stream True >> run) `finally` setStreaming stream False
    OtherThread _ -> run
  already <- readIORef begun
  trailers <- makeTrailers stream
  if already || not (null trailers) || any ((== hContentLength) . fst) fields
    then open >> finishWith stream trailers
    else answerHead stream status fields LengthAsGiven -- The end of the stream is in the frame of the head.

openStreaming :: Stream -> Status -> ResponseHeaders -> IO ()
openStreaming stream status fields = do
  given <- withRowsOf 0 fields $ \_ rows ->
    begin stream status fields rows LengthAsGiven (FirstBytes nullPtr 0 Beginning)
  setBytes stream (Just 0)
  setDeclared stream given

setStreaming :: Stream -> Bool -> IO ()
setStreaming stream = writeField (stateOf stream) isStreaming

------------------------------------------------------------------------------------------------------------------------
-- Files

answerFile :: Stream -> Status -> ResponseHeaders -> FileSlice -> IO ()
answerFile stream status fields slice
  | count <= fromIntegral smallFile = do
    -- With trailers it is a stream like a larger one. So it is if its bytes had to wait.
    said <- readIORef (dataOf stream)
    waits <- if count > tinyFile then mustWait <$> Engine.awaitWindow (streamEngine stream) else return False
    if isJust said || waits then pieces else whole
  | otherwise = pieces
  where
    whole = withRowsOf (fromIntegral count) fields $ \memory rows -> do
      readSlice slice memory
      void
        (begin stream status fields rows (Exactly (fromIntegral count)) (FirstBytes memory (fromIntegral count) Whole))
      setBytes stream (Just (fromIntegral count))
    pieces = do
      withRowsOf 0 fields $ \_ rows ->
        void (begin stream status fields rows (Exactly (fromIntegral count)) (FirstBytes nullPtr 0 Beginning))
      setBytes stream (Just 0)
      sendingFile slice (copyFile (sliceOffset slice) count)
      finish stream
    count = sliceLength slice
    mustWait result = case result of
      Bytes window -> fromIntegral window < count
      _ -> True
    copyFile :: Int64 -> Int64 -> IO ()
    copyFile offset left = unless (left == 0) $ do
      size <- writeFromFile stream slice offset (fromIntegral (min left (fromIntegral filePiece)))
      copyFile (offset + fromIntegral size) (left - fromIntegral size)

-- Reads a piece of a file and passes it to the engine. Returns its size. Parks while too much waits there.
writeFromFile :: Stream -> FileSlice -> Int64 -> Int -> IO Int
writeFromFile stream slice offset most = do
  window <- awaitWindow stream
  let wanted = min most (max (fromIntegral tinyFile) window)
  (size, outcome) <- mask $ \restore -> do
    piece <- newPiece wanted
    when (piece == nullPtr) (throwIO (userError "HTTP: no memory for a piece of a file"))
    (`onException` freePiece piece) $ do
      bytes <- pieceBytes piece
      size <- readFileAt (descriptorOf slice) bytes wanted offset
      when (size < 0) (throwIO (fileError (slicePath slice) (Errno (fromIntegral (negate size)))))
      when (size == 0) (throwIO (FileTruncated (slicePath slice)))
      countBytes stream size
      restore (tellMaker stream (B.packCStringLen (castPtr bytes, size)))
      (,) size <$> Engine.writePiece (streamEngine stream) piece size
  size <$ (capacityAfter stream outcome >>= awaitCapacity stream)

-- The largest file that is read at once.
smallFile :: Int
smallFile = 16384

-- The largest file that may wait in memory for its client's windows.
tinyFile :: Int64
tinyFile = 1024

------------------------------------------------------------------------------------------------------------------------
-- Raw

-- The application has taken over the stream, and begins with the head of an HTTP/1 response. Reading has no time limit.
answerRaw :: Stream -> Maybe BodyReader -> Answerer -> RawBody -> IO ()
answerRaw stream body answerer raw = do
  liftLimits (stateOf stream)
  opening <- newIORef (Just B.empty)
  setBytes stream Nothing
  runRawBody
    answerer
    (maybe (return B.empty) readBody body)
    (\bytes -> (sendRaw stream opening bytes >> flushStream stream) `onException` abortStream stream)
    raw
  readIORef opening >>= maybe (finish stream) (const headless)

-- The part of the head that has been written, if it is incomplete.
sendRaw :: Stream -> IORef (Maybe ByteString) -> ByteString -> IO ()
sendRaw stream opening bytes = readIORef opening >>= maybe (writeBytes stream bytes) open
  where
    open earlier = case readOpening (B.append earlier bytes) of
      Incomplete -> writeIORef opening (Just (B.append earlier bytes))
      Malformed -> headless
      Opening code fields rest -> do
        writeIORef opening Nothing
        withRowsOf 0 fields $ \_ rows ->
          void (begin stream (Status code B.empty) fields rows NoLength (FirstBytes nullPtr 0 Beginning))
        setBytes stream (Just 0)
        writeBytes stream rest

headless :: IO a
headless = throwIO (userError "A raw response over HTTP/2 or HTTP/3 must begin with the head of an HTTP/1.1 response")
