{-# LANGUAGE LambdaCase #-}

-- Must not know: paths, servers.

-- | Files that are compressed on the way to clients, and kept compressed in memory.
--
-- A result is kept for a file in one state: its identity, size, time of modification and time of change. Programs can
-- set the first of these times back, but not the second. A file that has just changed is not compressed, because it
-- could change again without a new time (see 'Millrace.Cli.Files.Representation.fromFile'). So a
-- result that is kept is never the content of an earlier state.
module Millrace.Cli.Files.Compressor
  ( Compressor,
    newCompressor,
    compressedVariant,
    isWorthCompressing,
  )
where

import Control.Exception (handle)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (atomicModifyIORef', newIORef)
import Data.Maybe (isJust)
import Millrace.Cli.Files.Compression
import Millrace.Cli.Files.Content (withPieces)
import Millrace.Cli.Files.ContentCoding (Coding (..))
import Millrace.Cli.Files.Entry
import Millrace.Cli.Files.Representation
import Millrace.Cli.Files.SingleFlight
import Millrace.Http.Date (Seconds, currentSeconds)
import Millrace.Http.Precondition (modificationTime)

-- | The files that were compressed, and those that are being compressed.
newtype Compressor = Compressor (SingleFlight VariantKey Variant)

-- | Makes a compressor that keeps this many bytes at most. A result that no client asked for in ten minutes is dropped
-- within another ten. Two files are compressed at a time. When 16 MiB of files wait for that, further ones are sent as
-- they are.
--
-- > compressor <- newCompressor 67108864
newCompressor :: Int -> IO Compressor
newCompressor most = Compressor <$> newSingleFlight (Bounds most 2 16777216 600) (maybe 0 inBlocks . heldBytes)
  where
    -- GHC frees the memory of small strings in blocks of 4 KiB only, and so each may hold one by itself.
    inBlocks bytes = (bytes + 4095) `quot` 4096 * 4096

-- | Whether a file of this size is worth compressing. A smaller one fits into a packet or two anyway, and for a larger
-- one clients would wait too long: it should be compressed in advance.
isWorthCompressing :: FileState -> Bool
isWorthCompressing state = stateSize state >= 1024 && stateSize state <= 8388608

-- | @compressedVariant compressor onFailure coding plain@: the variant in this coding, made of the one without a
-- coding. 'Nothing' if that one should be sent: the file has just changed, does not become smaller, cannot be read or
-- compressed, or too much else is being compressed. A failure to compress is reported. Blocks while it compresses or
-- another thread does.
compressedVariant :: Compressor -> (CompressionFailure -> IO ()) -> Coding -> Variant -> IO (Maybe Variant)
compressedVariant (Compressor made) onFailure coding plain =
  recall made key >>= \case
    Just known -> pure known
    Nothing -> do
      now <- currentSeconds
      if isSettled now (variantState plain) then obtain made key effort compress else pure Nothing
  where
    key = variantKey coding plain
    size = stateSize (variantState plain)
    -- An encoder needs time and memory of its own, too.
    effort = max 65536 (fromIntegral size)
    compress = handle failed $ do
      -- A result that saves less than an eighth is not worth the client's work.
      outcome <- readPieces plain (compressed coding (fromIntegral size) (fromIntegral (size - size `quot` 8)))
      pure $ case outcome of
        Nothing -> NotMadeNow
        Just Nothing -> NeverMade
        Just (Just bytes) -> Made (inCoding coding bytes plain)
    failed failure = NotMadeNow <$ onFailure failure

-- The clock has whole seconds, and so it is up to one late, on the safe side.
isSettled :: Seconds -> FileState -> Bool
isSettled now (FileState _ modified changed) =
  isJust (modificationTime (changed `div` nanoseconds)) && max modified changed < (now - 2) * nanoseconds
  where
    nanoseconds = 1000000000

readPieces :: Variant -> (IO ByteString -> IO a) -> IO (Maybe a)
readPieces plain use = case variantSource plain of
  FromFile file -> withPieces pieceBytes file use
  FromMemory bytes -> do
    left <- newIORef bytes
    Just <$> use (atomicModifyIORef' left (\rest -> (ByteString.drop pieceBytes rest, ByteString.take pieceBytes rest)))

pieceBytes :: Int
pieceBytes = 65536
