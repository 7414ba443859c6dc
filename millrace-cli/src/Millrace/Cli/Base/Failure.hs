-- Must not know: servers.

-- | Messages for the user: results, and errors that say what was attempted, why it failed, and what can be done.
module Millrace.Cli.Base.Failure
  ( Failure (..),
    FileFailure (..),
    reportFailures,
    say,
    sayIfTaken,
    tell,
    newSeldomTeller,
    reasonOf,
    fileReason,
    encodedWith,
    moreDescriptors,
  )
where

import Control.Exception
  ( Exception (..),
    Handler (..),
    SomeAsyncException (..),
    SomeException (..),
    catch,
    catches,
    throwIO,
    tryJust,
  )
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (atomicModifyIORef', newIORef)
import Data.List (isInfixOf)
import Data.Word (Word64)
import Foreign.C (eMFILE, eNFILE, errnoToIOError)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Foreign (withCStringLen)
import GHC.IO.Encoding (getFileSystemEncoding)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.StandardStream (writeToErrors, writeToOutput)
import System.Exit (ExitCode (ExitFailure))
import System.IO (TextEncoding)
import System.Timeout (timeout)

-- | A failure that the user can understand, and perhaps correct.
data Failure = Failure
  { -- | Follows "cannot": @listen on 127.0.0.1:8080@.
    failureAttempt :: String,
    -- | Follows a colon: @another program is listening there@.
    failureReason :: String,
    -- | A sentence.
    failureRemedy :: String
  }
  deriving (Eq, Show)

instance Exception Failure where
  displayException failure =
    "cannot " <> failureAttempt failure <> ": " <> failureReason failure <> "\n" <> failureRemedy failure

-- | A failure to use a file that the user has named: the keys under which a configuration names such files, and the
-- name as the user wrote it.
data FileFailure = FileFailure [String] FilePath Failure
  deriving (Eq, Show)

instance Exception FileFailure where
  displayException (FileFailure _ _ failure) = displayException failure

-- | Runs an action. A 'Failure' or 'FileFailure' that it throws is printed on standard error and becomes the exit
-- status 1.
reportFailures :: IO a -> IO a
reportFailures action = action `catches` [Handler report, Handler (\(FileFailure _ _ failure) -> report failure)]
  where
    report failure = tell ("millrace: " <> displayException (advised failure)) >> throwIO (ExitFailure 1)

-- When descriptors have run out, only one remedy helps, whatever was attempted.
advised :: Failure -> Failure
advised failure
  | any
      (`isInfixOf` failureReason failure)
      [ioe_description (errnoToIOError "" code Nothing Nothing) | code <- [eMFILE, eNFILE]] =
    failure {failureRemedy = moreDescriptors}
  | otherwise = failure

-- | The remedy when descriptors have run out: a sentence.
moreDescriptors :: String
moreDescriptors = "Raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit."

-- | Writes a text to standard output. Throws 'Failure' if not all of it could be written, for example because the disk
-- is full or the other end of the pipe is gone.
say :: String -> IO ()
say text = (encoded text >>= writeToOutput) `catch` (throwIO . failure)
  where
    failure exception =
      Failure
        { failureAttempt = "write to standard output",
          failureReason = ioe_description (exception :: IOException),
          failureRemedy = "Redirect it to a file, or to /dev/null."
        }

-- | Writes a text to standard output, for a caller that continues in any case. A failure is reported on standard error.
-- If the reader of a pipe has stopped reading, this waits a second.
sayIfTaken :: String -> IO ()
sayIfTaken text = patiently (say text) `catch` \failure -> tell ("millrace: " <> displayException (failure :: Failure))

-- | Writes a text and a line end to standard error, in one piece. It is not a failure when nobody reads it, for example
-- because the other end of the pipe is gone. If the reader of a pipe has stopped reading, this waits a second.
tell :: String -> IO ()
tell text = patiently (encoded (text <> "\n") >>= writeToErrors) `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = pure ()

-- | Like 'tell', but at most one message in a second: for problems that may come with every request. The next message
-- says how many were left out.
newSeldomTeller :: IO (String -> IO ())
newSeldomTeller = telling <$> newIORef (0, 0)
  where
    telling state text = do
      now <- getMonotonicTimeNSec
      leftOut <- atomicModifyIORef' state (next now)
      mapM_ (\count -> tell (text <> others count)) leftOut
    next :: Word64 -> (Word64, Int) -> ((Word64, Int), Maybe Int)
    next now (notBefore, count)
      | now < notBefore = ((notBefore, count + 1), Nothing)
      | otherwise = ((now + 1000000000, 0), Just count)
    others count = if count == 0 then "" else " (and " <> show count <> " more such messages)"

-- Gives an action a second. If the run-time system finds no descriptors for its timers, the action gets as long as it
-- takes: its message says why.
patiently :: IO () -> IO ()
patiently action = do
  finished <- tryJust synchronous (timeout patienceMicros (tryJust synchronous action))
  either (const action) (mapM_ (either throwIO pure)) finished
  where
    patienceMicros = 1000000
    synchronous :: SomeException -> Maybe SomeException
    synchronous exception = maybe (Just exception) asynchronous (fromException exception)
    asynchronous (SomeAsyncException _) = Nothing

-- | The message of an exception, without a backtrace. 'displayException' of a 'SomeException' adds a backtrace since
-- base 4.20.
reasonOf :: SomeException -> String
reasonOf failure@(SomeException exception) = maybe (displayException exception) ioe_description (fromException failure)

-- | The message of an exception about a file, with the file's name: @cert.pem: No such file or directory@.
fileReason :: IOException -> String
fileReason failure = maybe id (\name -> ((name <> ": ") <>)) (ioe_filename failure) (ioe_description failure)

-- A file name in a text may have bytes for which the locale has no characters. The encoding of file names gives these
-- bytes back.
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
    unencodable _ = pure ()
