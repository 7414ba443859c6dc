-- | Standard output and error, past their Handles. A Handle is locked while somebody writes to it: with a pipe that nobody
-- reads, everybody else would wait for that, and the program's end, too.
module Millrace.Cli.StandardStream
  ( writeToOutput
  , writeToErrors
  ) where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Unsafe as ByteString
import Foreign.Ptr (castPtr)
import GHC.IO.Device (RawIO (write))
import GHC.IO.FD (FD, stderr, stdout)

-- | Writes to standard output. Blocks while nobody takes it, and can be interrupted then. Throws 'IOException'.
--
-- @since 0.1.0
writeToOutput :: ByteString -> IO ()
writeToOutput = writeTo stdout

-- | Writes to standard error. Up to 4096 bytes stay together, whoever writes there, too. Blocks while nobody takes it, and
-- can be interrupted then. Throws 'IOException'.
--
-- @since 0.1.0
writeToErrors :: ByteString -> IO ()
writeToErrors = writeTo stderr

writeTo :: FD -> ByteString -> IO ()
writeTo descriptor bytes = unless (ByteString.null bytes) $ do
  let (piece, rest) = ByteString.splitAt pieceMax bytes
  ByteString.unsafeUseAsCStringLen piece $ \(at, count) -> write descriptor (castPtr at) 0 count
  writeTo descriptor rest

-- A pipe that has room takes as much at once (PIPE_BUF). More might wait where no exception reaches.
pieceMax :: Int
pieceMax = 4096
