-- Must not know: servers.

-- | Standard output and standard error, without their Handles. A Handle is locked while a thread writes to it. With a
-- pipe that nobody reads, all other threads would wait for that lock, and so would the end of the program.
module Millrace.Cli.Base.StandardStream
  ( writeToOutput,
    writeToErrors,
    pieces,
  )
where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as ByteString
import Foreign.Ptr (castPtr)
import GHC.IO.Device (RawIO (write))
import GHC.IO.FD (FD, stderr, stdout)

-- | Writes to standard output. Lines of up to 4096 bytes stay whole even if others write to the same pipe, which is
-- often that of standard error. Blocks while the pipe is full, and can be interrupted then. Throws 'IOException'.
writeToOutput :: ByteString -> IO ()
writeToOutput = writeTo stdout

-- | Writes to standard error. Up to 4096 bytes stay together; longer texts are divided between lines. Blocks while the
-- pipe is full, and can be interrupted then. Throws 'IOException'.
writeToErrors :: ByteString -> IO ()
writeToErrors = writeTo stderr

writeTo :: FD -> ByteString -> IO ()
writeTo descriptor = mapM_ writePiece . pieces
  where
    writePiece piece = ByteString.unsafeUseAsCStringLen piece $ \(at, count) -> write descriptor (castPtr at) 0 count

-- | Divides a text into the pieces in which it is written. They are not empty, have up to 4096 bytes, and consist of
-- whole lines, except that a longer line is divided. O(length).
pieces :: ByteString -> [ByteString]
pieces bytes
  | ByteString.null bytes = []
  | ByteString.length bytes <= pieceMax = [bytes]
  | otherwise = piece : pieces rest
  where
    (piece, rest) =
      ByteString.splitAt (maybe pieceMax (+ 1) (Char8.elemIndexEnd '\n' (ByteString.take pieceMax bytes))) bytes

-- A pipe that poll calls writable takes this many bytes at once (PIPE_BUF). A longer write might block where no
-- exception can interrupt it.
pieceMax :: Int
pieceMax = 4096
