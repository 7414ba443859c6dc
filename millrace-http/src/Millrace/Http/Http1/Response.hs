-- Must not know: requests, listeners.

-- |
-- Sends a planned response over HTTP\/1: composes head and body in the connection's output.
--
-- A body that fits is written behind the head, at a distance that leaves space for the framing, which is written last
-- because only then is the length known; the body is then moved up to it. Nothing is sent here unless the output is
-- full: the session sends when no further request waits.
module Millrace.Http.Http1.Response (composeAnswer, restartResponse) where

import Control.Applicative ((<|>))
import Control.Concurrent.MVar (putMVar, takeMVar)
import Control.Exception (finally, mask_, throwIO, uninterruptibleMask_)
import Control.Monad (unless, when)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import qualified Data.ByteString.Internal as BI
import qualified Data.ByteString.Unsafe as BU
import Data.CaseInsensitive (original)
import Data.IORef
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Millrace.Deadline (noDeadline)
import Millrace.Http.Answer.Body (Sink (..), readSlice, runStreamingBody, sendingFile)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Exchange
  ( AnnouncedLength (..),
    Answerer (..),
    Body (..),
    Detached (..),
    FileSlice (..),
    Plan (..),
    RawBody,
    Retraction (..),
  )
import Millrace.Http.Http1.Body (sendContinue)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Head
import Millrace.Http.Http1.State
import Millrace.Http.Http1.Stream
import Millrace.Http.Http1.Wire
import Millrace.Http.Server.Context (Phase (..), ServerContext (..))
import Millrace.Http.Transport (receiveBytes)
import Network.HTTP.Types (Header, ResponseHeaders, Status (..))
import Network.Wai (StreamingBody)

-- | Composes a response, and sends the part that does not fit into the output. Sets 'keepsOpen' to whether the
-- connection can be kept. May be called again for the same request after 'restartResponse'. If another thread than the
-- connection's own answers, its hold is empty before and, unless an exception comes too early, afterwards.
composeAnswer :: Connection -> Answerer -> Plan -> IO ()
composeAnswer connection answerer plan = case plan of
  Plan status fields (BuilderBody builder) -> answerBuilder connection status fields builder
  Plan status fields (NoBody size) -> composeHead connection status fields >>= answerHead connection size
  Plan status fields (FileBody slice) -> answerFile connection status fields slice
  Plan status fields (StreamBody body) -> answerStream connection answerer status fields body
  Plan status fields NoTunnel -> composeHead connection status fields >>= answerNoTunnel connection
  TakeOver body -> answerRaw connection answerer body

-- | Takes back what was composed of the current response.
restartResponse :: Connection -> IO Retraction
restartResponse connection = do
  sends <- countSends connection
  before <- readRequest connection responseSends
  if sends /= before
    then return AlreadySent
    else TakenBack <$ (readRequest connection responseStart >>= setOutputEnd connection)

------------------------------------------------------------------------------------------------------------------------
-- Heads

-- The head without its framing, as it was composed at the end of the output.
data Composed = Composed
  { -- Where to write the framing.
    composedAt :: !(Ptr Word8),
    -- Content-Length as the application gave it.
    composedLength :: !(Maybe Int),
    -- Whether both the request and the application allow to keep the connection.
    composedMayKeep :: !Bool,
    composedVersion11 :: !Bool
  }

composeHead :: Connection -> Status -> ResponseHeaders -> IO Composed
composeHead connection status@(Status code reason) fields = do
  writeRequest connection responseBytes Nothing
  capacity <- outputCapacity connection
  waiting <- outputEnd connection
  when (capacity - waiting < capacity `div` 4) (sendEarlier connection)
  start <- outputEnd connection
  buffer <- outputBuffer connection
  writer <- headWriter connection
  let limit = buffer `plusPtr` (capacity - framingMax - streamMargin)
      text = HeadText code reason (serverNameLine (connectionServer connection))
  result <- composeHeadAt writer (buffer `plusPtr` start) limit text fields
  case result of
    Complete -> composed writer
    NoRoom -> makeHeadRoom connection >> composeHead connection status fields
    BadStatus -> throwIO (InvalidStatusCode code)
    BadField problem index -> throwIO (refusal problem (fields !! index))
  where
    composed writer = do
      at <- headAt writer
      saysClose <- headSaysClose writer
      given <- headGivenLength writer
      flags <- parser connection >>= headFlags
      return
        Composed
          { composedAt = at,
            composedLength = given,
            composedMayKeep = flags .&. flagKeepAlive /= 0 && not saysClose,
            composedVersion11 = flags .&. flagVersion11 /= 0
          }

refusal :: FieldProblem -> Header -> InvalidResponse
refusal problem (name, value) = case problem of
  BadName -> InvalidFieldName (original name)
  BadCoding -> InvalidTransferEncoding value
  BadLength -> InvalidContentLength value

-- Sends the responses to earlier requests, so that they need not wait and this response has the whole output. Masked:
-- an exception leaves the output as it was, or the connection broken. It can come while this waits for the client.
sendEarlier :: Connection -> IO ()
sendEarlier connection = mask_ $ do
  _ <- acquireOutput connection
  writeRequest connection responseStart 0
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

-- Writes the framing, and says in 'keepsOpen' whether the connection is kept, also if this response is taken back and
-- another one is sent. Returns where the body begins. A body that fits is made before this, perhaps of the request's:
-- until here the client may be told to go on. From here on 100 (Continue) would be too late.
finishHead :: Connection -> Composed -> Framing -> IO (Ptr Word8)
finishHead connection composed framing = do
  clear <- settleExpectation connection
  skippable <- isRestSkippable connection
  finishHeadAs connection composed {composedMayKeep = composedMayKeep composed && clear && skippable} framing

-- The same when the request's body has been looked at.
finishHeadAs :: Connection -> Composed -> Framing -> IO (Ptr Word8)
finishHeadAs connection composed framing = do
  phase <- readIORef (serverPhase (connectionServer connection))
  allowed <- readRequest connection keepsOpen
  let keep = composedMayKeep composed && allowed && phase == Serving
  writeRequest connection keepsOpen keep
  count <- putFraming (composedAt composed) (option keep) framing
  return (composedAt composed `plusPtr` count)
  where
    option keep
      | not keep = SayClose
      | composedVersion11 composed = SayNothing
      | otherwise = SayKeepAlive

setOutputEndAt :: Connection -> Ptr Word8 -> IO ()
setOutputEndAt connection end = do
  buffer <- outputBuffer connection
  setOutputEnd connection (end `minusPtr` buffer)

-- A head without a body.
answerHead :: Connection -> AnnouncedLength -> Composed -> IO ()
answerHead connection size composed = finish >>= setOutputEndAt connection
  where
    finish = case size of
      Announced count -> announce count
      AsGiven -> maybe unframed announce (composedLength composed)
      NotAnnounced -> unframed
    announce = finishHead connection composed . Counted
    unframed = finishHead connection composed Unframed

-- RFC 9110, section 9.3.6: after a 2xx to CONNECT there is a tunnel, and only a raw response can be one.
answerNoTunnel :: Connection -> Composed -> IO ()
answerNoTunnel connection composed =
  finishHead connection composed {composedMayKeep = False} Unframed >>= setOutputEndAt connection

------------------------------------------------------------------------------------------------------------------------
-- Builders

answerBuilder :: Connection -> Status -> ResponseHeaders -> Builder -> IO ()
answerBuilder connection status fields builder = do
  composed <- composeHead connection status fields
  limit <- outputLimit connection
  let body = composedAt composed `plusPtr` framingMax
  runBody connection composed body body limit (runBuilder builder)

outputLimit :: Connection -> IO (Ptr Word8)
outputLimit connection = do
  capacity <- outputCapacity connection
  buffer <- outputBuffer connection
  return (buffer `plusPtr` (capacity - streamMargin))

-- Runs the body's builder until it ends or the output is full.
runBody :: Connection -> Composed -> Ptr Word8 -> Ptr Word8 -> Ptr Word8 -> BufferWriter -> IO ()
runBody connection composed body at limit writer = do
  (count, next) <- writer at (limit `minusPtr` at)
  let end = at `plusPtr` count
  case next of
    Done -> finishBody connection composed body (end `minusPtr` body)
    Chunk bytes rest
      | B.length bytes <= limit `minusPtr` end -> do
        BU.unsafeUseAsCStringLen bytes $ \(at', size) -> copyBytes end (castPtr at') size
        runBody connection composed body (end `plusPtr` B.length bytes) limit rest
      | otherwise -> do
        -- A last piece that is too large to copy. The body's length is known nevertheless.
        (more, afterwards) <- rest end 0
        let size = case afterwards of
              Done | more == 0 -> Just (end `minusPtr` body + B.length bytes)
              _ -> Nothing
        continueBody connection composed body (end `minusPtr` body) size (resume bytes afterwards)
    More wanted rest ->
      continueBody connection composed body (end `minusPtr` body) Nothing (\_ _ -> return (0, More wanted rest))

-- A writer whose first result is these bytes.
resume :: ByteString -> Next -> BufferWriter
resume bytes next _ _ = return (0, Chunk bytes (\_ _ -> return (0, next)))

finishBody :: Connection -> Composed -> Ptr Word8 -> Int -> IO ()
finishBody connection composed body size = do
  checkLength composed size
  writeRequest connection responseBytes (Just size)
  start <- finishHead connection composed (Counted size)
  moveBytes start body size
  setOutputEndAt connection (start `plusPtr` size)

checkLength :: Composed -> Int -> IO ()
checkLength composed size = case composedLength composed of
  Just declared | declared /= size -> throwIO (ContentLengthMismatch declared size)
  _ -> return ()

-- The body is larger than the output. Its part in the output becomes the beginning of a stream.
continueBody :: Connection -> Composed -> Ptr Word8 -> Int -> Maybe Int -> BufferWriter -> IO ()
continueBody connection composed body count size writer = do
  mapM_ (checkLength composed) size
  startStream connection composed ByServer (composedLength composed <|> size) (Begun body count)
  streamWriter connection writer
  endStream connection

-- The action that makes the body of a stream. The application's code may still read the rest of the request's body.
data Producer = ByApplication | ByServer

-- The present part of a body: its address and its size.
data Begun = Begun !(Ptr Word8) !Int

-- Writes the head's framing and moves what there is of the body behind it. The rest may be made of the request's, of
-- whatever length if it is the application's code that makes it: the client may be told to go on, and the connection is
-- to be kept, until something of the stream is sent. (HTTP/1.0 is told that it is kept, and cannot be told otherwise
-- then.)
startStream :: Connection -> Composed -> Producer -> Maybe Int -> Begun -> IO ()
startStream connection composed producer size (Begun body count) = do
  skippable <- case producer of
    ByApplication -> return True
    ByServer -> isRestSkippable connection
  -- Without framing the body ends with the connection.
  start <-
    finishHeadAs
      connection
      composed
        { composedMayKeep =
            composedMayKeep composed && skippable && framing /= Unframed
        }
      framing
  keep <- readRequest connection keepsOpen
  buffer <- outputBuffer connection
  writeRequest
    connection
    closeOption
    (if composedVersion11 composed && keep then Just (composedAt composed `minusPtr` buffer) else Nothing)
  -- The first bytes are counted and framed like all others. They need a copy, because the output is overwritten.
  saved <- BI.create count (\target -> copyBytes target body count)
  setOutputEndAt connection start
  beginStream connection framing
  unless (B.null saved) (streamWriter connection (resume saved Done))
  where
    framing = case size of
      Just total -> Counted total
      Nothing | composedVersion11 composed -> Chunked
      Nothing -> Unframed

------------------------------------------------------------------------------------------------------------------------
-- Streams

answerStream :: Connection -> Answerer -> Status -> ResponseHeaders -> StreamingBody -> IO ()
answerStream connection answerer status fields body = do
  -- They would wait until the application flushes.
  sendEarlier connection
  composed <- composeHead connection status fields
  startStream connection composed ByApplication (composedLength composed) (Begun (composedAt composed) 0)
  case answerer of
    OwnThread -> (writeRequest connection isStreaming True >> run) `finally` writeRequest connection isStreaming False
    OtherThread _ -> run
  endStream connection
  where
    run =
      runStreamingBody
        answerer
        (Sink (streamBuilder connection) (flushStream connection) (breakConnection connection))
        body

------------------------------------------------------------------------------------------------------------------------
-- Files

answerFile :: Connection -> Status -> ResponseHeaders -> FileSlice -> IO ()
answerFile connection status fields slice = do
  composed <- composeHead connection status fields
  start <- finishHead connection composed (Counted (fromIntegral count))
  limit <- outputLimit connection
  if count <= fromIntegral (limit `minusPtr` start)
    then do
      -- A small file goes out together with the head, and with the responses before and after it.
      readSlice slice start
      writeRequest connection responseBytes (Just (fromIntegral count))
      setOutputEndAt connection (start `plusPtr` fromIntegral count)
    else do
      setOutputEndAt connection start
      writeRequest connection responseBytes (Just 0)
      flushAhead connection
      sent <-
        sendingFile
          slice
          ( sendFilePart
              connection
              (writeRequest connection responseBytes . Just)
              (sliceDescriptor slice)
              (sliceOffset slice)
              count
          )
      when
        (sent < count)
        -- The length was announced, so only closing the connection tells the client the truth.
        (throwIO (FileTruncated (slicePath slice)))
  where
    count = sliceLength slice

------------------------------------------------------------------------------------------------------------------------
-- Raw

-- The application has taken over the connection, which is closed afterwards. Reading has no time limit: the
-- application's protocol must decide what silence means.
answerRaw :: Connection -> Answerer -> RawBody -> IO ()
answerRaw connection answerer body = do
  writeRequest connection keepsOpen False
  flushOutput connection
  clearTotalDeadline connection
  sendContinue connection -- RFC 9110, section 7.8: before a 101 (Switching Protocols)
  noteSend connection
  count <- inputCount connection
  input <- inputBytes connection
  leftover <- BI.create count (\target -> copyBytes target input count) >>= newIORef
  dropInput connection count
  let receive = do
        bytes <- atomicModifyIORef' leftover takeAll
        if B.null bytes then receiveBytes transport noDeadline rawReceiveSize else return bytes
  -- From here on only the transport may be used.
  case answerer of
    OwnThread -> use receive
    OtherThread (Detached hold _) -> putMVar hold () >> use receive `finally` uninterruptibleMask_ (takeMVar hold)
  where
    use receive = body receive (sendDetached connection)
    transport = connectionTransport connection
    takeAll held = (B.empty, held)

rawReceiveSize :: Int
rawReceiveSize = 16384
