{-# LANGUAGE OverloadedStrings #-}

-- Must not know: HTTP, files.

-- | Content codings by the C libraries zlib, brotli and zstd.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Files.Compression
  ( CompressionFailure (..)
  , compressionCodings
  , compressed
  ) where

import Control.Exception (Exception (..), bracket, throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Internal (createUptoN')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Maybe (isJust)
import Data.Word (Word64)
import Foreign.C (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Millrace.Cli.Files.ContentCoding (Coding (..), codings)

#include "compression.h"

-- | The reason why content was not compressed. It can be sent as it is.
data CompressionFailure
  = -- | There is no memory for an encoder, or no encoder for this coding.
    NoEncoder Coding
  | -- | The library refused to go on.
    EncoderFailed Coding
  deriving (Eq, Show)

instance Exception CompressionFailure where
  displayException failure = case failure of
    NoEncoder coding -> "cannot compress with " <> named coding <> ": out of memory; sent as it is"
    EncoderFailed coding -> "cannot compress with " <> named coding <> ": the library failed; sent as it is"
    where
      named = Char8.unpack . codingName

-- | The codings that 'compressed' knows on this system. The one that usually gives the smallest results comes first.
compressionCodings :: [Coding]
compressionCodings = filter (isJust . encoderFor) codings

encoderFor :: Coding -> Maybe (Word64 -> IO (Ptr Encoder))
encoderFor coding = case codingName coding of
  "br" -> Just c_new_brotli
  "zstd" -> Just c_new_zstd
  "gzip" -> Just c_new_gzip
  _ -> Nothing

-- | @compressed coding size most next@ compresses content of @size@ bytes in this coding. 'Nothing': the result has
-- more than @most@ bytes. @next@ returns the next piece of the content, and an empty one at the end. The work is done
-- in safe foreign calls, so that other threads of the capability run meanwhile. An asynchronous exception interrupts it
-- between two pieces. Throws 'CompressionFailure', and what @next@ throws.
--
-- > pieces <- newIORef ["Hello ", "Hello ", "Hello\n", ""]
-- > compressed coding 18 18 (atomicModifyIORef pieces (\(piece : rest) -> (rest, piece)))
compressed :: Coding -> Word64 -> Int -> IO ByteString -> IO (Maybe ByteString)
compressed coding size most next = bracket (newEncoder coding size) c_free $ \encoder ->
  let takeNext made = do
        piece <- next
        encode (if ByteString.null piece then Last else Middle) piece made
      encode kind piece made
        | outputSize made > most = pure Nothing
        | otherwise = do
          done <- step encoder kind piece
          let rest = ByteString.drop (stepTaken done) piece
              made' = add (stepOutput done) made
          case stepResult done of
            Failed -> throwIO (EncoderFailed coding)
            Ended -> pure (if outputSize made' > most then Nothing else Just (allOutput made'))
            WantsMore
              | kind == Last || not (ByteString.null rest) || isFull done -> encode kind rest made'
              | otherwise -> takeNext made'
      isFull done = ByteString.length (stepOutput done) == outputBytes
   in takeNext (Output 0 [])

-- Its size, and its chunks from the last to the first.
data Output = Output Int [ByteString]

outputSize :: Output -> Int
outputSize (Output size _) = size

-- The chunk is copied, because its memory is much larger than its content.
add :: ByteString -> Output -> Output
add chunk made@(Output size chunks)
  | ByteString.null chunk = made
  | otherwise = Output (size + ByteString.length chunk) (ByteString.copy chunk : chunks)

allOutput :: Output -> ByteString
allOutput (Output _ chunks) = ByteString.concat (reverse chunks)

-- The size of the buffer for the output of a step.
outputBytes :: Int
outputBytes = 65536

data Encoder

-- A @struct compression_step@.
data Step

newEncoder :: Coding -> Word64 -> IO (Ptr Encoder)
newEncoder coding size = do
  encoder <- maybe (pure nullPtr) ($ size) (encoderFor coding)
  if encoder == nullPtr then throwIO (NoEncoder coding) else pure encoder

-- Whether more pieces follow.
data PieceKind
  = Middle
  | Last
  deriving (Eq)

data CompressionStep = CompressionStep
  { stepOutput :: ByteString
  , -- How many bytes of the input were taken.
    stepTaken :: Int
  , stepResult :: StepResult
  }

data StepResult
  = WantsMore
  | Ended
  | Failed

step :: Ptr Encoder -> PieceKind -> ByteString -> IO CompressionStep
step encoder kind input = unsafeUseAsCStringLen input $ \(bytes, count) ->
  allocaBytes #{size struct compression_step} $ \memory -> do
    #{poke struct compression_step, input} memory bytes
    #{poke struct compression_step, length} memory (fromIntegral count :: CSize)
    #{poke struct compression_step, capacity} memory (fromIntegral outputBytes :: CSize)
    (output, result) <- createUptoN' outputBytes $ \output -> do
      #{poke struct compression_step, output} memory output
      result <- c_compress encoder (number kind) memory
      given <- #{peek struct compression_step, given} memory :: IO CSize
      pure (fromIntegral given, result)
    taken <- #{peek struct compression_step, taken} memory :: IO CSize
    pure (CompressionStep output (fromIntegral taken) (resultOf result))
  where
    number Middle = #{const COMPRESSION_MIDDLE}
    number Last = #{const COMPRESSION_LAST}
    resultOf result
      | result == #{const COMPRESSION_WANTS_MORE} = WantsMore
      | result == #{const COMPRESSION_ENDED} = Ended
      | otherwise = Failed

foreign import ccall unsafe "compression_new_gzip"
  c_new_gzip :: Word64 -> IO (Ptr Encoder)

foreign import ccall unsafe "compression_new_brotli"
  c_new_brotli :: Word64 -> IO (Ptr Encoder)

foreign import ccall unsafe "compression_new_zstd"
  c_new_zstd :: Word64 -> IO (Ptr Encoder)

foreign import ccall unsafe "compression_free"
  c_free :: Ptr Encoder -> IO ()

-- safe: a step takes a millisecond, and some of brotli's take tens of them.
foreign import ccall safe "compression_compress"
  c_compress :: Ptr Encoder -> CInt -> Ptr Step -> IO CInt
