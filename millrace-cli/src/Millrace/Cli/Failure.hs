-- | Errors for people: what was attempted, why it failed, and what can be done.
module Millrace.Cli.Failure
  ( Failure (..)
  , reportFailures
  , tell
  ) where

import Control.Exception (Exception (..), IOException, catch, handle, throwIO)
import Control.Monad (void)
import qualified Data.ByteString as ByteString
import GHC.Foreign (withCStringLen)
import GHC.IO.Encoding (getFileSystemEncoding)
import Millrace.Cli.StandardStream (writeToErrors)
import System.Exit (ExitCode (ExitFailure))
import System.Timeout (timeout)

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
  tell ("millrace: " <> displayException (failure :: Failure))
  throwIO (ExitFailure 1)

-- | Says something on standard error, in one piece. That nobody reads it, as when it is a pipe whose other end is gone, is
-- no failure; somebody who does not go on reading is waited for a second.
--
-- @since 0.1.0
tell :: String -> IO ()
tell text = void (timeout patienceMicros (encoded >>= writeToErrors)) `catch` ignore
  where
    -- A file name in the text may have bytes that the locale has no characters for: this encoding gives them back.
    encoded = getFileSystemEncoding >>= \encoding -> withCStringLen encoding (text <> "\n") ByteString.packCStringLen
    patienceMicros = 1000000
    ignore :: IOException -> IO ()
    ignore _ = pure ()
