{-# LANGUAGE CApiFFI #-}

-- Must not know: servers.

-- | What the program needs from its operating system, on POSIX.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
module Millrace.Cli.Base.System
  ( systemName
  , descriptorLimits
  , raiseDescriptorLimit
  , onTermination
  , Hangup (..)
  , onHangup
  , processNumber
  , reserveForOwner
  , FileIdentity
  , identityOf
  , ignoreRotation
  , ignoreFileSizeLimit
  , residentBytes
  ) where

import Control.Concurrent (forkIO, threadDelay)
import Control.Exception (IOException, finally, try)
import Control.Monad (void)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef (atomicModifyIORef', newIORef)
import Data.Maybe (listToMaybe)
import Data.Word (Word64)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, WordPtr, nullPtr, ptrToWordPtr)
import Foreign.Storable (peekByteOff)
import GHC.Clock (getMonotonicTimeNSec)
import System.Exit (ExitCode (ExitFailure))
import System.Posix.Files (deviceID, fileID, getSymbolicLinkStatus, setFileMode)
import System.Posix.Process (exitImmediately, getProcessID)
import System.Posix.Resource
import System.Posix.Signals
  ( Handler (Catch, Default, Ignore)
  , Signal
  , installHandler
  , raiseSignal
  , sigHUP
  , sigINT
  , sigQUIT
  , sigTERM
  , sigUSR1
  , sigXFSZ
  )
import System.Posix.Types (DeviceID, FileID)
import qualified System.Posix.Unistd as Posix

#define _GNU_SOURCE
#include <signal.h>

-- | The name of the system, its release, and the machine's architecture.
systemName :: IO String
systemName = do
  system <- Posix.getSystemID
  pure (unwords [Posix.systemName system, Posix.release system, Posix.machine system])

-- | The number of descriptors that this process may open, and the number after 'raiseDescriptorLimit'. 'Nothing' means
-- no limit.
descriptorLimits :: IO (Maybe Integer, Maybe Integer)
descriptorLimits = do
  limits <- getResourceLimit ResourceOpenFiles
  pure (limitNumber (softLimit limits), limitNumber (hardLimit limits))

-- 'Nothing' means no limit.
limitNumber :: ResourceLimit -> Maybe Integer
limitNumber limit = case limit of
  ResourceLimit number -> Just number
  ResourceLimitInfinity -> Nothing
  ResourceLimitUnknown -> Nothing

-- | Raises the limit of descriptors as far as the system allows.
--
-- Every connection needs a descriptor. The soft limit is often 1024, because of programs that use select().
raiseDescriptorLimit :: IO ()
raiseDescriptorLimit = do
  limits <- getResourceLimit ResourceOpenFiles
  void (attempt (setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}))
  where
    attempt :: IO a -> IO (Either IOException a)
    attempt = try -- a server with fewer descriptors is still a server

-- | The meaning of SIGHUP.
data Hangup
  = -- | The terminal is gone, and the program ends.
    HangupEnds
  | -- | 'onHangup' decides what it does.
    HangupIsNoEnd
  deriving (Eq, Show)

-- | @onTermination hangup first second@ runs the first action when SIGINT, SIGQUIT, SIGTERM or, with 'HangupEnds',
-- SIGHUP asks the program to end. At the next of these signals it runs the second action, and then the signal ends the
-- program. A third signal gets the system's own handling. An ignored SIGHUP stays ignored: nohup ignores it so that the
-- program outlives its terminal. Without a handler the run-time system would only print a message at SIGQUIT.
--
-- Signals within a tenth of a second count as one. timeout(1) sends SIGTERM to its child and to the child's group, and
-- programs that pass on a terminal's signal do the same.
onTermination :: Hangup -> IO () -> IO () -> IO ()
onTermination hangup first second = do
  outlives <- if hangup == HangupIsNoEnd then pure True else isIgnored sigHUP
  counted <- newIORef (0 :: Int, 0)
  let signals = [sigINT, sigQUIT, sigTERM] ++ [sigHUP | not outlives]
      handleWith handler = mapM_ (\signal -> installHandler signal (handler signal) Nothing) signals
      leaveToSystem = handleWith (const Default)
      count now (before, since)
        | before > 0 && now < since + togetherMicros * 1000 = ((before, since), before + 1)
        | otherwise = ((before + 1, now), before)
      asked signal = do
        now <- getMonotonicTimeNSec
        before <- atomicModifyIORef' counted (count now)
        case before of
          0 -> first
          1 -> do
            void (forkIO (threadDelay (fromIntegral togetherMicros) >> leaveToSystem))
            second `finally` (leaveToSystem >> endBy signal)
          _ -> pure ()
  handleWith (Catch . asked)
  where
    togetherMicros = 100000 :: Word64

-- | Runs an action at each SIGHUP. 'onTermination' then needs 'HangupIsNoEnd'.
onHangup :: IO () -> IO ()
onHangup action = void (installHandler sigHUP (Catch action) Nothing)

-- | The number of this process.
processNumber :: IO Int
processNumber = fromIntegral <$> getProcessID

-- | Restricts the use of a file to its owner and root. Throws 'IOException'.
reserveForOwner :: FilePath -> IO ()
reserveForOwner path = setFileMode path 0o600

-- | The identity of a file, whatever its names. Another file may get the same identity when nothing uses this one any
-- more.
data FileIdentity = FileIdentity DeviceID FileID
  deriving (Eq)

-- | The identity of the file at a path. A symbolic link has its own. 'Nothing' if there is none, or if the system
-- does not tell.
identityOf :: FilePath -> IO (Maybe FileIdentity)
identityOf path = either unknown found <$> try (getSymbolicLinkStatus path)
  where
    found status = Just (FileIdentity (deviceID status) (fileID status))
    unknown :: IOException -> Maybe FileIdentity
    unknown _ = Nothing

-- | Ignores SIGUSR1, by which nginx, lighttpd and Apache learn that their log was rotated. It would end the program.
ignoreRotation :: IO ()
ignoreRotation = void (installHandler sigUSR1 Ignore Nothing)

-- | Ignores the signal at a write that would make a file longer than this process may make one (@ulimit -f@, systemd's
-- @LimitFSIZE=@). The write fails; the signal would end the program.
ignoreFileSizeLimit :: IO ()
ignoreFileSizeLimit = void (installHandler sigXFSZ Ignore Nothing)

-- A signal without a handler does not end the first process of a container (pid_namespaces(7)). Then the program exits
-- with the status that shells report for a program that the signal has ended.
endBy :: Signal -> IO ()
endBy signal = raiseSignal signal >> exitImmediately (ExitFailure (128 + fromIntegral signal))

-- The run-time system does not record which signals were ignored when the program started.
isIgnored :: Signal -> IO Bool
isIgnored signal = allocaBytes #{size struct sigaction} $ \current -> do
  result <- c_sigaction signal nullPtr current
  handler <- #{peek struct sigaction, sa_handler} current :: IO (Ptr ())
  pure (result == 0 && ptrToWordPtr handler == ignored)
  where
    ignored = #{const (long)SIG_IGN} :: WordPtr

-- struct sigaction
data {-# CTYPE "struct sigaction" #-} Action

foreign import capi unsafe "signal.h sigaction"
  c_sigaction :: CInt -> Ptr Action -> Ptr Action -> IO CInt

-- | The memory that this process uses, in bytes. 'Nothing' if @\/proc@ does not tell.
residentBytes :: IO (Maybe Int)
residentBytes = either unknown found <$> try (ByteString.readFile "/proc/self/status")
  where
    found text =
      listToMaybe
        [ 1024 * count
        | line <- Char8.lines text
        , [name, digits, _] <- [Char8.words line]
        , name == Char8.pack "VmRSS:"
        , Just (count, _) <- [Char8.readInt digits]
        ]
    unknown :: IOException -> Maybe Int
    unknown _ = Nothing
