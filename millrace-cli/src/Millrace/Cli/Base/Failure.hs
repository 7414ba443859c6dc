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
    SomeException (..),
    catch,
    catches,
    throwIO,
  )
import Data.List (isInfixOf)
import Foreign.C (eMFILE, eNFILE, errnoToIOError)
import GHC.IO.Exception (IOException (..))
import Millrace.Internal.StandardStream (encoded, encodedWith, limited, newLimiter, patiently, printLine, writeToOutput)
import System.Exit (ExitCode (ExitFailure))

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

-- | Writes a text and a line end to standard error, in one piece: see 'printLine'.
tell :: String -> IO ()
tell = printLine

-- | A 'tell' for problems that may come with every request: one message in a second. A second after the first one that
-- was left out, a message says how many were.
newSeldomTeller :: IO (String -> IO ())
newSeldomTeller = (`limited` tell) <$> newLimiter 1

-- | The message of an exception, without a backtrace. 'displayException' of a 'SomeException' adds a backtrace since
-- base 4.20.
reasonOf :: SomeException -> String
reasonOf failure@(SomeException exception) = maybe (displayException exception) ioe_description (fromException failure)

-- | The message of an exception about a file, with the file's name: @cert.pem: No such file or directory@.
fileReason :: IOException -> String
fileReason failure = maybe id (\name -> ((name <> ": ") <>)) (ioe_filename failure) (ioe_description failure)
