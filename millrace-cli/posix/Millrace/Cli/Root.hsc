{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE OverloadedStrings #-}

-- | A directory whose files are opened so that nothing outside it can be reached; on Linux. Knows nothing of HTTP.
--
-- The same names in @windows\/@ are for Windows; the package description chooses.
--
-- Looking a path up twice, once to check it and once to open it, lets whoever can write below the root put a symbolic
-- link there in between. So the path is looked up once, and what was found is checked:
--
-- 1. @open@ with @O_PATH@ finds the file without opening it: a device is not started, a pipe does not wait.
-- 2. @readlink@ of @\/proc\/self\/fd\/N@ tells where the file really is, all symbolic links resolved.
-- 3. Readers open @\/proc\/self\/fd\/N@, which is that same file whatever its old path has come to mean.
--
-- What remains possible is what no check of paths can see: a hard link or a mount below the root.
module Millrace.Cli.Root
  ( Root
  , openRoot
  , withEntry
  , directoryNames
  , fileState
  ) where

import Control.Exception (bracket, try)
import Control.Monad (unless)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Int (Int64)
import Data.Time.Clock.POSIX (POSIXTime)
import Foreign.C
  ( CInt (..)
  , CString
  , Errno (..)
  , eACCES
  , eINTR
  , eLOOP
  , eMFILE
  , eNAMETOOLONG
  , eNFILE
  , eNOENT
  , eNOTDIR
  , ePERM
  , errnoToIOError
  , getErrno
  )
import GHC.Foreign (withCString)
import GHC.IO.Encoding (getFileSystemEncoding)
import GHC.IO.Exception (IOException (..), IOErrorType (InappropriateType))
import Millrace.Cli.Entry
import System.Posix.ByteString
  ( DirStream
  , Fd (..)
  , FileStatus
  , RawFilePath
  , closeDirStream
  , closeFd
  , fileAccess
  , fileID
  , fileSize
  , getFdStatus
  , getFileStatus
  , isDirectory
  , isRegularFile
  , modificationTimeHiRes
  , openDirStream
  , readDirStream
  , readSymbolicLink
  )

#define _GNU_SOURCE
#include <fcntl.h>

-- | A directory to look below.
--
-- @since 0.1.0
data Root = Root RawFilePath LinkPolicy
  deriving (Eq, Show)

-- | A root at this path. Symbolic links in the path itself are resolved once, here; afterwards it is a path again, so
-- that a directory which is removed and made anew goes on being served. Throws 'IOException' if there is no directory
-- there.
--
-- @since 0.1.0
openRoot :: LinkPolicy -> FilePath -> IO Root
openRoot policy path = do
  encoding <- getFileSystemEncoding
  name <- withCString encoding path ByteString.packCString
  bracket (findFile name >>= either (ioError . failed) pure) closeFd $ \descriptor -> do
    status <- getFdStatus descriptor
    unless (isDirectory status) $
      ioError (IOError Nothing InappropriateType "open" "is not a directory" Nothing (Just path))
    real <- readSymbolicLink (descriptorPath descriptor)
    pure (Root real policy)
  where
    failed errno = errnoToIOError "open" errno Nothing (Just path)

-- | Looks up names below a root and hands over what is there. The file stays open until the action ends, normally or
-- not. Names must be plain (see "Millrace.Cli.RequestPath"); an empty list is the root itself.
--
-- The look-up may wait for a disk. A download holds two descriptors: this one and its reader's.
--
-- @since 0.1.0
withEntry :: Root -> [ByteString] -> (Either Problem Entry -> IO a) -> IO a
withEntry root@(Root path _) names use =
  bracket (findFile (ByteString.intercalate "/" (path : names))) (either (const (pure ())) closeFd) $ \found ->
    case found of
      Left errno -> use (Left (problem (errnoToIOError "open" errno Nothing Nothing) errno))
      Right descriptor -> try (examine root descriptor) >>= use . either (Left . fromIOException) id

fromIOException :: IOException -> Problem
fromIOException exception = maybe (Faulty exception) (problem exception . Errno) (ioe_errno exception)

problem :: IOException -> Errno -> Problem
problem exception errno
  | errno `elem` [eNOENT, eNOTDIR, eLOOP, eNAMETOOLONG] = Missing
  | errno `elem` [eACCES, ePERM] = Unreadable
  | errno `elem` [eMFILE, eNFILE] = OutOfDescriptors
  | otherwise = Faulty exception

examine :: Root -> Fd -> IO (Either Problem Entry)
examine root descriptor = do
  inside <- isInside root descriptor
  if inside then classify descriptor =<< getFdStatus descriptor else pure (Left Missing)

-- A file that was deleted meanwhile has " (deleted)" behind its path, one that cannot be reached from here has
-- "(unreachable)" before it: the first is still where it was, the second is refused.
isInside :: Root -> Fd -> IO Bool
isInside (Root _ FollowLinks) _ = pure True
isInside (Root root StayInside) descriptor = isBelow <$> readSymbolicLink (descriptorPath descriptor)
  where
    isBelow real = root == "/" || real == root || (root <> "/") `ByteString.isPrefixOf` real

classify :: Fd -> FileStatus -> IO (Either Problem Entry)
classify descriptor status
  | isDirectory status = pure (Right (Directory (Char8.unpack (descriptorPath descriptor))))
  | isRegularFile status = do
      readable <- fileAccess (descriptorPath descriptor) True False False
      pure (if readable then Right (File (openFile descriptor status)) else Left Unreadable)
  | otherwise = pure (Left Missing)

openFile :: Fd -> FileStatus -> OpenFile
openFile descriptor status =
  OpenFile
    { openFilePath = Char8.unpack (descriptorPath descriptor)
    , openFileSize = fromIntegral (fileSize status)
    , openFileModified = modificationTimeHiRes status
    , openFileNumber = fromIntegral (fileID status)
    }

-- | The first names in a directory, at most so many, in no order; those of @.@ and @..@ are among them. The path is that
-- of a 'Directory'.
--
-- @since 0.1.0
directoryNames :: Int -> FilePath -> IO [ByteString]
directoryNames count directory = bracket (openDirStream (Char8.pack directory)) closeDirStream (readNames count)

readNames :: Int -> DirStream -> IO [ByteString]
readNames 0 _ = pure []
readNames left stream = do
  name <- readDirStream stream
  if ByteString.null name then pure [] else (name :) <$> readNames (left - 1) stream

-- | The size of a file in bytes and the time of its last change, as they are now. The path is that of an 'OpenFile'.
--
-- @since 0.1.0
fileState :: FilePath -> IO (Int64, POSIXTime)
fileState path = (\status -> (fromIntegral (fileSize status), modificationTimeHiRes status)) <$> getFileStatus (Char8.pack path)

descriptorPath :: Fd -> RawFilePath
descriptorPath (Fd number) = "/proc/self/fd/" <> Char8.pack (show number)

-- | O_PATH (Linux 2.6.39) is unknown to the unix package.
findFile :: RawFilePath -> IO (Either Errno Fd)
findFile path = do
  descriptor <- ByteString.useAsCString path (\name -> c_open name (#{const O_PATH} .|. #{const O_CLOEXEC}))
  if descriptor >= 0 then pure (Right (Fd descriptor)) else retry =<< getErrno
  where
    retry errno
      | errno == eINTR = findFile path
      | otherwise = pure (Left errno)

-- safe: a network file system may take its time, and nothing else would run on this capability meanwhile.
foreign import capi safe "fcntl.h open"
  c_open :: CString -> CInt -> IO CInt
