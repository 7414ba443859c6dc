-- Must not know: HTTP, files.

-- | There is no compression on Windows yet: zlib, brotli and zstd are not among what is cross-compiled.
--
-- For other systems @posix\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Files.Compression
  ( CompressionFailure (..),
    compressionCodings,
    compressed,
  )
where

import Control.Exception (Exception (..), throwIO)
import Data.ByteString (ByteString)
import Data.Word (Word64)
import Millrace.Cli.Files.ContentCoding (Coding)

-- | The reason why content was not compressed. It can be sent as it is.
newtype CompressionFailure
  = -- | There is no encoder for this coding.
    NoEncoder Coding
  deriving (Eq, Show)

instance Exception CompressionFailure where
  displayException _ = "cannot compress: millrace has no compression on Windows yet"

-- | None.
compressionCodings :: [Coding]
compressionCodings = []

-- | Always throws 'CompressionFailure' here.
compressed :: Coding -> Word64 -> Int -> IO ByteString -> IO (Maybe ByteString)
compressed coding _ _ _ = throwIO (NoEncoder coding)
