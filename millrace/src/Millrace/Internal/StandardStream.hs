{-# OPTIONS_HADDOCK hide #-}

-- Must not know: servers, loops, operations.

-- | Standard output and standard error, without their Handles. A Handle is locked while a thread writes to it. With a
-- pipe that nobody reads, all other threads would wait for that lock, and so would the end of the program.
--
-- For the packages of Millrace: each line that they write to standard error goes through here.
module Millrace.Internal.StandardStream
  ( -- * Lines on standard error
    printLine,
    printSeldom,
    oneLine,

    -- * Rare lines
    Limiter,
    newLimiter,
    limited,

    -- * Bytes
    writeToOutput,
    writeToErrors,
    patiently,
    encoded,
    encodedWith,
    pieces,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Exception
import Control.Monad (void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Unsafe as ByteString
import Data.Char (isPrint, ord)
import Data.IORef
import Data.Word (Word64)
import Foreign.Ptr (castPtr)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Foreign (withCStringLen)
import GHC.IO.Device (RawIO (write))
import GHC.IO.Encoding (getFileSystemEncoding)
import GHC.IO.FD (FD, stderr, stdout)
import Numeric (showHex)
import System.Environment (getProgName)
import System.IO (TextEncoding)
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)

------------------------------------------------------------------------------------------------------------------------
-- Lines on standard error

-- | Writes a text and a line end to standard error, in one piece. Never fails: standard error may be closed, or the
-- other end of its pipe gone. If the reader of a pipe has stopped reading, this waits a second, and then gives up.
printLine :: String -> IO ()
printLine text = patiently (encoded (text ++ "\n") >>= writeToErrors) `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()

-- | 'printLine' for lines that others can cause, such as clients: of all that a program prints in this way within a
-- second, the first ten lines. Behind them a line says how many were left out.
printSeldom :: String -> IO ()
printSeldom = limited seldom printLine

seldom :: Limiter
seldom = unsafePerformIO (newLimiter 10)
{-# NOINLINE seldom #-}

-- | A text of several lines in one: lines become words, and what could move the cursor of a terminal is escaped.
--
-- >>> oneLine "a\nb\ESC[2J"
-- "a b\\x1b[2J"
oneLine :: String -> String
oneLine = concatMap visible . unwords . concatMap words . lines
  where
    visible character
      | isPrint character || isRawByte character = [character]
      | otherwise = "\\x" ++ showHex (ord character) ""
    -- A byte of a name that the encoding does not have: see 'encoded'.
    isRawByte character = character >= '\xdc80' && character <= '\xdcff'

------------------------------------------------------------------------------------------------------------------------
-- Rare lines

-- | Limits the number of lines in a second.
data Limiter = Limiter !Int !(IORef Window)

-- When the second began, in nanoseconds; the lines in it; and those that were left out and not told yet.
data Window = Window !Word64 !Int !Int

-- | A limiter with this many lines in a second.
newLimiter :: Int -> IO Limiter
newLimiter most = Limiter most <$> newIORef (Window 0 most 0)

data Claim = Printed | LeftOut | FirstLeftOut

-- | @limited limiter printing text@ prints a text if the limit permits it. A second after the first text that was left
-- out, prints how many were.
limited :: Limiter -> (String -> IO ()) -> String -> IO ()
limited (Limiter most window) printing text = do
  now <- getMonotonicTimeNSec
  claim <- atomicModifyIORef' window (next now)
  case claim of
    Printed -> printing text
    LeftOut -> return ()
    FirstLeftOut -> void . forkIO $ do
      threadDelay 1000000
      count <- atomicModifyIORef' window (\(Window start lines' left) -> (Window start lines' 0, left))
      name <- getProgName
      when (count > 0) (printing (name ++ ": " ++ summary count))
  where
    next now (Window start lines' left)
      | now - start >= 1000000000 = (Window now 1 left, Printed)
      | lines' < most = (Window start (lines' + 1) left, Printed)
      | otherwise = (Window start lines' (left + 1), if left == 0 then FirstLeftOut else LeftOut)
    summary :: Int -> String
    summary count = show count ++ (if count == 1 then " more line was left out" else " more lines were left out")

------------------------------------------------------------------------------------------------------------------------
-- Bytes

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

-- | Gives an action a second. If the run-time system finds no descriptors for its timers, the action gets as long as it
-- takes: its message says why.
patiently :: IO () -> IO ()
patiently action = do
  finished <- tryJust synchronous (timeout patienceMicros (tryJust synchronous action))
  either (const action) (mapM_ (either throwIO return)) finished
  where
    patienceMicros = 1000000
    synchronous :: SomeException -> Maybe SomeException
    synchronous exception = maybe (Just exception) asynchronous (fromException exception)
    asynchronous (SomeAsyncException _) = Nothing

-- | The text in the encoding of file names, which is the locale's unless the program has chosen another. Bytes of file
-- names that are no characters become these bytes again.
encoded :: String -> IO ByteString
encoded text = getFileSystemEncoding >>= (`encodedWith` text)

-- | The text in an encoding. A character that the encoding does not have becomes a question mark: a message with a mark
-- in it is better than no message.
encodedWith :: TextEncoding -> String -> IO ByteString
encodedWith encoding text = whole text `catch` \failure -> ByteString.concat <$> mapM single text <* unencodable failure
  where
    whole characters = withCStringLen encoding characters ByteString.packCStringLen
    single character = whole [character] `catch` \failure -> Char8.pack "?" <$ unencodable failure
    unencodable :: IOException -> IO ()
    unencodable _ = return ()

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
