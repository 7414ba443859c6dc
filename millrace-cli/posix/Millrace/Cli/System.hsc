-- | What a program asks of the operating system it runs on, on POSIX. Knows nothing of servers.
--
-- The same names in @windows\/@ are for Windows; the package description chooses.
module Millrace.Cli.System
  ( systemName
  , descriptorLimits
  , raiseDescriptorLimit
  , onTermination
  ) where

import Control.Exception (IOException, try)
import Control.Monad (void)
import System.Posix.Resource
import System.Posix.Signals (Handler (CatchOnce, Default), installHandler, sigINT, sigTERM)
import qualified System.Posix.Unistd as Posix

-- | The system, its release and the machine's architecture.
--
-- @since 0.1.0
systemName :: IO String
systemName = do
  system <- Posix.getSystemID
  pure (unwords [Posix.systemName system, Posix.release system, Posix.machine system])

-- | How many descriptors this process may open, and how many after 'raiseDescriptorLimit'; 'Nothing' is unlimited.
--
-- @since 0.1.0
descriptorLimits :: IO (Maybe Integer, Maybe Integer)
descriptorLimits = do
  limits <- getResourceLimit ResourceOpenFiles
  pure (limitNumber (softLimit limits), limitNumber (hardLimit limits))

-- 'Nothing': unlimited.
limitNumber :: ResourceLimit -> Maybe Integer
limitNumber limit = case limit of
  ResourceLimit number -> Just number
  ResourceLimitInfinity -> Nothing
  ResourceLimitUnknown -> Nothing

-- | Allows this process all the descriptors that it may have, if the system lets it.
--
-- Every connection is a descriptor. The soft limit is often 1024, for the sake of programs that use select().
--
-- @since 0.1.0
raiseDescriptorLimit :: IO ()
raiseDescriptorLimit = do
  limits <- getResourceLimit ResourceOpenFiles
  void (attempt (setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}))
  where
    attempt :: IO a -> IO (Either IOException a)
    attempt = try -- a server with fewer descriptors is still a server

-- | Runs an action when SIGINT or SIGTERM asks the program to end. The second signal, whichever it is, finds the system's
-- own handling.
--
-- @since 0.1.0
onTermination :: IO () -> IO ()
onTermination action = handleWith (CatchOnce (handleWith Default >> action))
  where
    handleWith handler = mapM_ (\signal -> installHandler signal handler Nothing) [sigINT, sigTERM]
