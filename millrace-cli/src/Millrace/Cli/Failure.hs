-- | What people are told: results, and errors: what was attempted, why it failed, and what can be done.
module Millrace.Cli.Failure
  ( Failure (..),
    reportFailures,
    say,
    sayIfTaken,
    tell,
    newSeldomTeller,
    moreDescriptors,
  )
where

import Control.Exception (Exception (..), SomeAsyncException (..), SomeException, catch, handle, throwIO, tryJust)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (atomicModifyIORef', newIORef)
import Data.List (isInfixOf)
import Data.Word (Word64)
import Foreign.C (eMFILE, eNFILE, errnoToIOError)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Foreign (withCStringLen)
import GHC.IO.Encoding (getFileSystemEncoding)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.StandardStream (writeToErrors, writeToOutput)
import System.Exit (ExitCode (ExitFailure))
import System.Timeout (timeout)

-- | A failure that the user can understand and perhaps mend.
--
-- @since 0.1.0
data Failure = Failure
  { -- | continues "cannot": @listen on 127.0.0.1:8080@
    failureAttempt :: String,
    -- | continues with a colon: @another program is listening there@
    failureReason :: String,
    -- | a sentence
    failureRemedy :: String
  }
  deriving (Eq, Show)

instance Exception Failure where
  displayException failure =
    "cannot " <> failureAttempt failure <> ": " <> failureReason failure <> "\n" <> failureRemedy failure

-- | Runs an action; a 'Failure' that it throws goes to standard error and becomes the exit status 1.
--
-- @since 0.1.0
reportFailures :: IO a -> IO a
reportFailures = handle $ \failure -> do
  tell ("millrace: " <> displayException (advised failure))
  throwIO (ExitFailure 1)

-- Where descriptors have run out one thing helps, whatever was attempted.
advised :: Failure -> Failure
advised failure
  | any (`isInfixOf` failureReason failure) [ioe_description (errnoToIOError "" code Nothing Nothing) | code <- [eMFILE, eNFILE]] =
    failure {failureRemedy = moreDescriptors}
  | otherwise = failure

-- | What helps when descriptors have run out: a sentence.
--
-- @since 0.1.0
moreDescriptors :: String
moreDescriptors = "Raise the limit of open files: ulimit -n, or LimitNOFILE= of a systemd unit."

-- | Says something on standard output. Throws 'Failure' if that takes not all of it: a full disk, a pipe whose other end is
-- gone.
--
-- @since 0.1.0
say :: String -> IO ()
say text = (encoded text >>= writeToOutput) `catch` (throwIO . failure)
  where
    failure exception =
      Failure
        { failureAttempt = "write to standard output",
          failureReason = ioe_description (exception :: IOException),
          failureRemedy = "Send it where it is taken, to /dev/null at least."
        }

-- | The same for somebody who goes on anyway: standard error is told of a failure, and who does not go on reading is waited
-- for a second.
--
-- @since 0.1.0
sayIfTaken :: String -> IO ()
sayIfTaken text = patiently (say text) `catch` \failure -> tell ("millrace: " <> displayException (failure :: Failure))

-- | Says something on standard error, in one piece. That nobody reads it, as when it is a pipe whose other end is gone, is
-- no failure; somebody who does not go on reading is waited for a second.
--
-- @since 0.1.0
tell :: String -> IO ()
tell text = patiently (encoded (text <> "\n") >>= writeToErrors) `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = pure ()

-- | Says things as 'tell' does, but at most one in a second, for what may go wrong with every request. The next one says how
-- many were left out.
--
-- @since 0.1.0
newSeldomTeller :: IO (String -> IO ())
newSeldomTeller = telling <$> newIORef (0, 0)
  where
    telling state text = do
      now <- getMonotonicTimeNSec
      leftOut <- atomicModifyIORef' state (turn now)
      mapM_ (\count -> tell (text <> others count)) leftOut
    turn :: Word64 -> (Word64, Int) -> ((Word64, Int), Maybe Int)
    turn now (notBefore, count)
      | now < notBefore = ((notBefore, count + 1), Nothing)
      | otherwise = ((now + 1000000000, 0), Just count)
    others count = if count == 0 then "" else " (and " <> show count <> " more such messages)"

-- The run-time system may have found no descriptors for its timers: what is to be said then is why, however long it takes.
patiently :: IO () -> IO ()
patiently action = do
  finished <- tryJust synchronous (timeout patienceMicros (tryJust synchronous action))
  either (const action) (mapM_ (either throwIO pure)) finished
  where
    patienceMicros = 1000000
    synchronous :: SomeException -> Maybe SomeException
    synchronous exception = maybe (Just exception) asynchronous (fromException exception)
    asynchronous (SomeAsyncException _) = Nothing

-- A file name in a text may have bytes that the locale has no characters for: this encoding gives them back.
encoded :: String -> IO ByteString
encoded text = getFileSystemEncoding >>= \encoding -> withCStringLen encoding text ByteString.packCStringLen
