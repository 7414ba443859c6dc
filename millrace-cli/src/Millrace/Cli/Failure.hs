-- | Errors for people: what was attempted, why it failed, and what can be done.
module Millrace.Cli.Failure
  ( Failure (..)
  , reportFailures
  ) where

import Control.Exception (Exception (..), handle, throwIO)
import System.Exit (ExitCode (ExitFailure))
import System.IO (hPutStr, stderr)

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
