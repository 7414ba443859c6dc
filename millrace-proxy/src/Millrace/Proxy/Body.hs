{-# LANGUAGE OverloadedStrings #-}

-- Must not know: sockets.

-- | Reads the body of a response piece by piece, and keeps the bytes of the connection that were received and not used
-- yet.
module Millrace.Proxy.Body
  ( Source (..),
    newSource,
    takeSome,
    isUsedUp,
    passBody,
    Broken (..),
  )
where

import Control.Exception (Exception, throwIO)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Unsafe as Unsafe
import Data.IORef
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Millrace.Http.Http1.Wire
  ( TrailerSection (..),
    chunksConsumed,
    chunksEnd,
    chunksRemaining,
    chunksSize,
    errorText,
    initChunks,
    nextChunk,
  )
import Millrace.Proxy.ResponseHead (Framing (..), parseFieldLine)
import Network.HTTP.Types (ResponseHeaders)

-- | The bytes that a connection receives.
data Source = Source
  { -- | Waits for bytes, at most the given number. Empty at the end.
    sourceMore :: !(Int -> IO ByteString),
    sourceRest :: !(IORef ByteString)
  }

-- | The body breaks its framing. The text says how.
newtype Broken = Broken String
  deriving (Show)

instance Exception Broken

newSource :: (Int -> IO ByteString) -> IO Source
newSource more = Source more <$> newIORef ByteString.empty

-- | Returns the bytes that are there already, or else waits for the next ones. Empty at the end.
takeSome :: Source -> Int -> IO ByteString
takeSome source size = do
  rest <- readIORef (sourceRest source)
  if ByteString.null rest then sourceMore source size else rest <$ writeIORef (sourceRest source) ByteString.empty

-- | Whether everything that was received has been used.
isUsedUp :: Source -> IO Bool
isUsedUp source = ByteString.null <$> readIORef (sourceRest source)

-- Returns the next bytes. Throws 'Broken' at the end, which comes too early here.
takeNext :: Source -> Int -> IO ByteString
takeNext source size = do
  bytes <- takeSome source size
  when (ByteString.null bytes) (throwIO (Broken "it ended in the middle of the body"))
  return bytes

-- | Passes a body to an action, and returns the trailers. Throws 'Broken', and what the source and the action throw.
passBody :: Framing -> Source -> (ByteString -> IO ()) -> IO ResponseHeaders
passBody framing source write = case framing of
  Counted count -> [] <$ counted count
  UntilEnd -> [] <$ untilEnd
  Chunked -> chunked
  where
    counted 0 = return ()
    counted left = do
      bytes <- takeNext source (if left > smallSize then largeSize else smallSize)
      let (ours, rest) = ByteString.splitAt left bytes
      unless (ByteString.null rest) (writeIORef (sourceRest source) rest)
      write ours
      counted (left - ByteString.length ours)
    untilEnd = do
      bytes <- takeSome source largeSize
      unless (ByteString.null bytes) (write bytes >> untilEnd)
    chunked = allocaBytes chunksSize $ \chunks -> do
      initChunks chunks TrailersLeft
      takeChunks chunks
      takeTrailers source trailerMax
    takeChunks chunks = do
      isLarge <- (> smallSize) <$> chunksRemaining chunks
      takeNext source (if isLarge then largeSize else smallSize) >>= decode chunks
    decode chunks bytes = do
      result <- Unsafe.unsafeUseAsCStringLen bytes (\(start, size) -> nextChunk chunks (castPtr start) size)
      rest <- (`ByteString.drop` bytes) <$> chunksConsumed chunks
      case compare result 0 of
        GT -> write (ByteString.take result rest) >> decode chunks (ByteString.drop result rest)
        EQ -> takeChunks chunks
        LT
          | result == chunksEnd -> writeIORef (sourceRest source) rest
          | otherwise -> throwIO (Broken (errorText result))

smallSize, largeSize, trailerMax :: Int
smallSize = 16384
largeSize = 65536
trailerMax = 8192

-- A line without its end. The number of its bytes is limited.
takeLine :: Source -> Int -> IO ByteString
takeLine source limit = go ByteString.empty
  where
    go earlier = do
      bytes <- (earlier <>) <$> takeNext source smallSize
      case ByteString.elemIndex 10 bytes of
        Just index
          | index == 0 || ByteString.index bytes (index - 1) /= 13 ->
            throwIO (Broken "a line of the trailers ends with LF alone")
          | index - 1 > limit -> tooLong
          | otherwise ->
            ByteString.take (index - 1) bytes <$ writeIORef (sourceRest source) (ByteString.drop (index + 1) bytes)
        Nothing
          | ByteString.length bytes > limit + 1 -> tooLong
          | otherwise -> go bytes
    tooLong = throwIO (Broken "the trailers are too long")

takeTrailers :: Source -> Int -> IO ResponseHeaders
takeTrailers source = go []
  where
    go found limit = do
      line <- takeLine source limit
      if ByteString.null line
        then return (reverse found)
        else do
          field <- either (throwIO . Broken) return (parseFieldLine line)
          go (field : found) (max 1 (limit - ByteString.length line))
