-- | Errors for people: what was attempted, why it failed, and what can be done.
module Millrace.Cli.Failure
  ( Failure (..)
  , reportFailures
  , tell
  ) where

import Control.Exception (Exception (..), IOException, catch, handle, throwIO)
import System.Exit (ExitCode (ExitFailure))
import System.IO (hPutStr, hPutStrLn, stderr)

-- | A failure that the user can understand and perhaps mend.
--
-- @since 0.1.0
data Failure = Failure
  { failureAttempt :: String
  -- ^ continues "cannot": @listen on 127.0.0.1:8080@
  , failureReason :: String
  -- ^ continues with a colon: @another program is listening there@
  , failureRemedy :: String
  -- ^ a sentence
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
  hPutStr stderr ("millrace: " <> displayException (failure :: Failure) <> "\n")
  throwIO (ExitFailure 1)

-- | Says something on standard error. That nobody reads it, as when it is a pipe whose other end is gone, is no failure.
--
-- @since 0.1.0
tell :: String -> IO ()
tell text = hPutStrLn stderr text `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = pure ()
