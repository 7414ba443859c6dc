-- | Standard output and error, past their Handles. A Handle is locked while somebody writes to it: with a pipe that nobody
-- reads, everybody else would wait for that, and the program's end, too.
module Millrace.Cli.StandardStream
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

-- | Writes to standard output. Lines up to 4096 bytes stay whole, whoever writes there, too: as often as not that is the same
-- pipe as standard error's. Blocks while nobody takes it, and can be interrupted then. Throws 'IOException'.
--
-- @since 0.1.0
writeToOutput :: ByteString -> IO ()
writeToOutput = writeTo stdout

-- | Writes to standard error. Up to 4096 bytes stay together, and lines of more than one. Blocks while nobody takes it, and
-- can be interrupted then. Throws 'IOException'.
--
-- @since 0.1.0
writeToErrors :: ByteString -> IO ()
writeToErrors = writeTo stderr

writeTo :: FD -> ByteString -> IO ()
writeTo descriptor = mapM_ writePiece . pieces
  where
    writePiece piece = ByteString.unsafeUseAsCStringLen piece $ \(at, count) -> write descriptor (castPtr at) 0 count

-- | What is written at a time: not empty, up to 4096 bytes, and whole lines, unless one is longer than that. O(length).
--
-- @since 0.1.0
pieces :: ByteString -> [ByteString]
pieces bytes
  | ByteString.null bytes = []
  | ByteString.length bytes <= pieceMax = [bytes]
  | otherwise = piece : pieces rest
  where
    (piece, rest) = ByteString.splitAt (maybe pieceMax (+ 1) (Char8.elemIndexEnd '\n' (ByteString.take pieceMax bytes))) bytes

-- A pipe that has room takes as much at once (PIPE_BUF). More might wait where no exception reaches.
pieceMax :: Int
pieceMax = 4096
