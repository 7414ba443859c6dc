-- Must not know: requests, responses.

-- |
-- A response body that is sent while it is produced: builders are run into the output, framed as chunks or counted,
-- and sent when it is full.
module Millrace.Http.Http1.Stream
  ( streamMargin,
    beginStream,
    streamWriter,
    streamBuilder,
    flushStream,
    endStream,
    settleExpectation,
    isRestSkippable,
  )
where

import Control.Exception (throwIO)
import Control.Monad (forM_, unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Unsafe as BU
import Data.Maybe (fromMaybe, isNothing)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (poke)
import Millrace.Http.Exception (InvalidResponse (..))
import Millrace.Http.Expectation (dismiss)
import Millrace.Http.Http1.Connection
import Millrace.Http.Http1.Head (Framing (..), chunkHeadLength, putChunkHead, putChunkSize)
import Millrace.Http.Http1.State
import Millrace.Http.Server.Limits (Limits (..))

-- | The number of bytes at the end of the output that stay free for the end of a chunk and of the body, and for a close
-- option.
streamMargin :: Int
streamMargin = 64

-- | Starts a body behind the head in the output.
beginStream :: Connection -> Framing -> IO ()
beginStream connection framing = do
  writeRequest connection chunkStart Nothing
  writeRequest connection responseBytes (Just 0)
  writeRequest connection streamFraming framing

-- | Appends to the body. Parks when the output is full until the client has taken it.
streamBuilder :: Connection -> Builder -> IO ()
streamBuilder connection builder = streamWriter connection (runBuilder builder)

-- | Appends the rest of a running builder's output.
streamWriter :: Connection -> BufferWriter -> IO ()
streamWriter connection writer = do
  openChunk connection
  end <- outputEnd connection
  limit <- subtract streamMargin <$> outputCapacity connection
  buffer <- outputBuffer connection
  (count, next) <- writer (buffer `plusPtr` end) (limit - end)
  account connection count
  setOutputEnd connection (end + count)
  case next of
    Done -> return ()
    More wanted rest -> do
      flushStream connection
      fits <- growOutput connection (wanted + chunkHeadLength + streamMargin)
      unless fits (throwIO (userError ("A builder asks for " ++ show wanted ++ " bytes at once")))
      streamWriter connection rest
    Chunk bytes rest -> streamBytes connection bytes >> streamWriter connection rest

streamBytes :: Connection -> ByteString -> IO ()
streamBytes connection bytes = do
  openChunk connection
  end <- outputEnd connection
  limit <- subtract streamMargin <$> outputCapacity connection
  if B.length bytes <= limit - end
    then do
      account connection (B.length bytes)
      buffer <- outputBuffer connection
      BU.unsafeUseAsCStringLen bytes $ \(source, count) -> copyBytes (buffer `plusPtr` end) (castPtr source) count
      setOutputEnd connection (end + B.length bytes)
    else sendLarge connection bytes

-- Sends large pieces without copying, as a separate chunk, together with the output. The client may leave in the
-- middle.
sendLarge :: Connection -> ByteString -> IO ()
sendLarge connection bytes = do
  noteBegun connection Skippable
  reserve connection (B.length bytes)
  before' <- fromMaybe 0 <$> readRequest connection responseBytes
  closeChunk connection
  chunked <- isChunked connection
  when chunked $ append connection (\at -> putChunkSize at (B.length bytes))
  sendPieces connection (writeRequest connection responseBytes . Just . (before' +)) bytes
  when chunked $ append connection putLineEnd

-- Counts bytes that are in the output.
account :: Connection -> Int -> IO ()
account connection count = do
  reserve connection count
  modifyRequest connection responseBytes (Just . (+ count) . fromMaybe 0)

-- A counted body must not exceed its length: the client would read the rest as the next response.
reserve :: Connection -> Int -> IO ()
reserve connection count = do
  framing <- readRequest connection streamFraming
  case framing of
    Counted left
      | count > left -> throwIO (ContentLengthMismatch left count)
      | otherwise -> writeRequest connection streamFraming (Counted (left - count))
    _ -> return ()

isChunked :: Connection -> IO Bool
isChunked connection = (== Chunked) <$> readRequest connection streamFraming

-- Makes space if hardly any is left, and reserves the size line of a chunk.
openChunk :: Connection -> IO ()
openChunk connection = do
  start <- readRequest connection chunkStart
  when (isNothing start) $ do
    end <- outputEnd connection
    capacity <- outputCapacity connection
    when (capacity - end < 4 * streamMargin) (flushStream connection)
    chunked <- isChunked connection
    when chunked $ do
      position <- outputEnd connection
      writeRequest connection chunkStart (Just position)
      setOutputEnd connection (position + chunkHeadLength)

-- An empty chunk would end the body (RFC 9112, section 7.1), so it is taken back.
closeChunk :: Connection -> IO ()
closeChunk connection = do
  open <- readRequest connection chunkStart
  forM_ open $ \start -> do
    end <- outputEnd connection
    let size = end - start - chunkHeadLength
    writeRequest connection chunkStart Nothing
    if size == 0
      then setOutputEnd connection start
      else do
        buffer <- outputBuffer connection
        putChunkHead (buffer `plusPtr` start) size
        append connection putLineEnd

append :: Connection -> (Ptr Word8 -> IO Int) -> IO ()
append connection put = do
  buffer <- outputBuffer connection
  end <- outputEnd connection
  count <- put (buffer `plusPtr` end)
  setOutputEnd connection (end + count)

putLineEnd :: Ptr Word8 -> IO Int
putLineEnd at = poke at 13 >> poke (at `plusPtr` 1) (10 :: Word8) >> return 2

-- | Sends all that was written so far. Parks until the kernel has taken it.
flushStream :: Connection -> IO ()
flushStream connection = noteBegun connection Skippable >> closeChunk connection >> flushOutput connection

-- Decides about the unread part of the request's body. If it is too long to be skipped, the connection ends.
data Remainder = Skippable | TooLong
  deriving (Eq)

-- From here on 100 (Continue) would be too late, and the head cannot change. Since the head was composed, something may
-- have decided to close the connection.
noteBegun :: Connection -> Remainder -> IO ()
noteBegun connection remainder = do
  clear <- settleExpectation connection
  option <- readRequest connection closeOption
  forM_ option $ \at -> do
    writeRequest connection closeOption Nothing
    keep <- readRequest connection keepsOpen
    unless (clear && remainder == Skippable && keep) (sayClose connection at)

-- | Whether the unread part of the request's body is small enough to be skipped after the response.
isRestSkippable :: Connection -> IO Bool
isRestSkippable connection = isLittle <$> readRequest connection bodyUnread
  where
    isLittle (UnreadBytes count) = count <= skippedBytesMax (connectionLimits connection)
    isLittle UnreadChunks = True -- The size is known only when it is skipped.

-- | From here on the client is not told to go on any more. Is it clear where the next request begins? RFC 9110, section
-- 10.1.1: a client that still waits may or may not send the body now; one that has begun to send it does not wait.
settleExpectation :: Connection -> IO Bool
settleExpectation connection = do
  waits <- dismiss (connectionExpectation connection)
  if waits
    then do
      allRead <- isAllRead <$> readRequest connection bodyUnread
      received <- readRequest connection bodyReceived
      arrived <- inputCount connection
      return (allRead || received > 0 || arrived > 0)
    else return True
{-# INLINE settleExpectation #-}

-- Inserts the option into the head, which is still in the output.
sayClose :: Connection -> Int -> IO ()
sayClose connection place = do
  writeRequest connection keepsOpen False
  buffer <- outputBuffer connection
  end <- outputEnd connection
  let at = buffer `plusPtr` place
  moveBytes (at `plusPtr` B.length option) at (end - place)
  BU.unsafeUseAsCStringLen option $ \(source, count) -> copyBytes at (castPtr source) count
  setOutputEnd connection (end + B.length option)
  modifyRequest connection chunkStart (fmap (+ B.length option))
  where
    option = C8.pack "Connection: close\r\n"

-- | Ends the body. The end stays in the output, to go out together with what follows. Throws 'ContentLengthMismatch'
-- if a counted body is incomplete.
endStream :: Connection -> IO ()
endStream connection = do
  -- Up to here the application could have read it.
  skippable <- isRestSkippable connection
  noteBegun connection (if skippable then Skippable else TooLong)
  closeChunk connection
  framing <- readRequest connection streamFraming
  case framing of
    Counted left | left > 0 -> throwIO (ContentLengthMismatch left 0)
    Chunked -> append connection $ \at -> do
      size <- putChunkSize at 0
      lineEnd <- putLineEnd (at `plusPtr` size)
      return (size + lineEnd)
    _ -> return ()
