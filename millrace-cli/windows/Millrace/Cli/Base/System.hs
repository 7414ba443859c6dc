-- Must not know: servers.

-- | The functions of the operating system that the program needs, on Windows.
--
-- The folder @posix\/@ has the same names for all other systems; the package description chooses.
module Millrace.Cli.Base.System
  ( systemName,
    descriptorLimits,
    raiseDescriptorLimit,
    onTermination,
    Hangup (..),
    onHangup,
    processNumber,
    reserveForOwner,
    FileIdentity,
    identityOf,
    ignoreRotation,
    ignoreFileSizeLimit,
    residentBytes,
  )
where

import Control.Monad (void)
import GHC.ConsoleHandler (Handler (Catch, Default), installHandler)
import System.Info (arch)

-- | The system and the machine's architecture.
systemName :: IO String
systemName = pure ("Windows " <> arch)

-- | How many descriptors this process may open, and how many after 'raiseDescriptorLimit'; 'Nothing' is unlimited:
-- memory ends before the sixteen million handles that there can be.
descriptorLimits :: IO (Maybe Integer, Maybe Integer)
descriptorLimits = pure (Nothing, Nothing)

-- | There is nothing to raise.
raiseDescriptorLimit :: IO ()
raiseDescriptorLimit = pure ()

-- | What SIGHUP is for, on systems that have it.
data Hangup
  = HangupEnds
  | HangupIsNoEnd
  deriving (Eq, Show)

-- | Runs the first action when the console asks the program to end: Ctrl+C, Ctrl+Break, or its window is closed. The
-- second time the program ends at once, and the second action is not run.
onTermination :: Hangup -> IO () -> IO () -> IO ()
onTermination _ first _ = void (installHandler (Catch (const (installHandler Default >> first))))

-- | There is no such signal.
ignoreRotation :: IO ()
ignoreRotation = pure ()

-- | There is no such limit.
ignoreFileSizeLimit :: IO ()
ignoreFileSizeLimit = pure ()

-- | There is no such signal.
onHangup :: IO () -> IO ()
onHangup _ = pure ()

-- | There is no file for it, and so nobody asks.
processNumber :: IO Int
processNumber = pure 0

-- | A file has the rights of its folder.
reserveForOwner :: FilePath -> IO ()
reserveForOwner _ = pure ()

-- | The identity of a file.
data FileIdentity = FileIdentity
  deriving (Eq)

-- | Not known yet: files that a server would remove stay.
identityOf :: FilePath -> IO (Maybe FileIdentity)
identityOf _ = pure Nothing

-- | Not known yet.
residentBytes :: IO (Maybe Int)
residentBytes = pure Nothing
