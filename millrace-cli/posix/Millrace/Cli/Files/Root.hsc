{-# LANGUAGE CApiFFI #-}
{-# LANGUAGE OverloadedStrings #-}

-- Must not know: HTTP.

-- | Opens the files of a directory so that nothing outside it can be reached, on Linux.
--
-- For Windows @windows\/@ has a module of this name with the same exports. The .cabal file chooses the folder.
--
-- If a path were looked up twice, once to check it and once to open it, a program that can write below the root could
-- put a symbolic link there in between. So the path is looked up once, and the object that was found is checked:
--
-- 1. @openat2@ with @O_PATH@ finds the file without opening it, so that no device starts and no pipe blocks. With
--    @RESOLVE_BENEATH@ it fails where a link leads out of the root.
-- 2. It also fails where a link leads out and in again, or is absolute, and where the kernel does not have it (before
--    Linux
--    5.6) or a container forbids it. Then the path is looked up below the real path of the root, and @readlink@ of
--    @\/proc\/self\/fd\/N@ gives
--    the real path of what was found, with all links resolved.
-- 3. A regular file is opened by the path @\/proc\/self\/fd\/N@, also by those who read it. That path is the same file
--    whatever
--    its old path means by now.
--
-- Hard links and mounts below the root remain possible: no check of paths can see them.
module Millrace.Cli.Files.Root
  ( Root
  , openRoot
  , lookedUpOnce
  , withEntry
  , openEntry
  , mayStayOpen
  , directoryNames
  , glimpse
  ) where

import Control.Exception (bracket, catch, onException, try)
import Control.Monad (unless, (<=<))
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Int (Int64)
import Data.Word (Word64)
import Foreign.C
  ( CInt (..)
  , CLong (..)
  , CSize (..)
  , CString
  , Errno (..)
  , eACCES
  , eAGAIN
  , eINTR
  , eINVAL
  , eLOOP
  , eMFILE
  , eNAMETOOLONG
  , eNFILE
  , eNOENT
  , eNOSYS
  , eNOTDIR
  , ePERM
  , eXDEV
  , errnoToIOError
  , getErrno
  , throwErrnoIfMinus1_
  )
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.Foreign (withCString)
import GHC.IO.Encoding (getFileSystemEncoding)
import GHC.IO.Exception (IOException (..), IOErrorType (InappropriateType, NoSuchThing))
import Millrace.Cli.Files.Entry
import System.Posix.Types (CMode)
import System.Posix.ByteString
  ( DirStream
  , Fd (..)
  , RawFilePath
  , closeDirStream
  , closeFd
  , fileAccess
  , getFdStatus
  , getWorkingDirectory
  , isDirectory
  , openDirStream
  , readDirStream
  , readSymbolicLink
  )

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

-- | A directory below which files are looked up.
data Root = Root
  { rootPath :: RawFilePath -- absolute
  , rootLinks :: LinkPolicy
  , rootHeld :: Maybe Fd
  }
  deriving (Eq, Show)

-- | A root at this path. Every look-up begins with the path: a directory that is removed and created again is still
-- served, and changing a symbolic link in the path changes the directory. Throws 'IOException' if there is no directory
-- at the path.
openRoot :: LinkPolicy -> FilePath -> IO Root
openRoot policy path = do
  encoding <- getFileSystemEncoding
  name <- withCString encoding path ByteString.packCString
  bracket (open name) closeFd $ \descriptor -> do
    status <- getFdStatus descriptor
    unless (isDirectory status) $
      ioError (IOError Nothing InappropriateType "open" "is not a directory" Nothing (Just path))
    -- Without this right every request would be answered with 403 or 404, and nobody would say why.
    mayEnter <- fileAccess name False False True
    unless mayEnter (ioError (failed eACCES))
    _ <- readSymbolicLink (descriptorPath descriptor) `catch` withoutProc
    absolute <- if "/" `ByteString.isPrefixOf` name then pure name else (<> ("/" <> name)) <$> getWorkingDirectory
    -- The look-ups will begin at the top, and this process may have no access to a directory on the way.
    bracket (open absolute) closeFd (const (pure (Root absolute policy Nothing)))
  where
    open = either (ioError . failed) pure <=< findFile
    -- The directory is open here, so the missing file is the one in /proc that gives its path.
    withoutProc exception
      | fmap Errno (ioe_errno exception) `elem` [Just eNOENT, Just eNOTDIR, Just eACCES] =
        ioError (IOError Nothing NoSuchThing "open" missing (ioe_errno exception) (Just "/proc"))
      | otherwise = ioError exception
    missing = "/proc is not mounted, or not readable, and files are found through it"
    failed errno = errnoToIOError "open" errno Nothing (Just path)

-- | Looks up a root's path once for all look-ups of an action. The root that the action gets is valid until it ends.
lookedUpOnce :: Root -> (Root -> IO a) -> IO a
lookedUpOnce root use = withDirectory root (either missing held)
  where
    -- Each look-up will say what is wrong.
    missing _ = use root
    held directory = use root {rootHeld = Just directory}

-- | Looks up names below a root and hands over the entry. The file stays open until the action ends, normally or not.
-- Names must be plain (see "Millrace.Cli.Base.RequestPath"). An empty list is the root itself.
--
-- The look-up may wait for a disk. A download holds two descriptors: this one, which may come from a cache, and that of
-- its reader. The request that fills the cache also holds those of all codings.
withEntry :: Root -> [ByteString] -> (Either Problem Entry -> IO a) -> IO a
withEntry root names use = bracket (openEntry root names) snd (use . fst)

-- | Looks up names below a root, and returns the entry and the action that closes its file. Must be called with
-- asynchronous exceptions masked.
openEntry :: Root -> [ByteString] -> IO (Either Problem Entry, IO ())
openEntry root names = case rootHeld root of
  Just directory -> openBelow (rootLinks root) directory names
  Nothing -> withDirectory root (either absent (\directory -> openBelow (rootLinks root) directory names))
  where
    absent errno = pure (Left (problemOf errno), pure ())

-- Looks up the root's own path.
withDirectory :: Root -> (Either Errno Fd -> IO a) -> IO a
withDirectory root = bracket (findFile (rootPath root)) (mapM_ closeQuietly)

openBelow :: LinkPolicy -> Fd -> [ByteString] -> IO (Either Problem Entry, IO ())
openBelow policy directory names = do
  outcome <- findBelow policy directory (if null names then "." else ByteString.intercalate "/" names)
  case outcome of
    Left errno
      | policy == StayInside && isUndecided errno -> byRealPath directory names >>= either absent examined
      | otherwise -> absent (problemOf errno)
    Right found -> examined found
  where
    absent reason = pure (Left reason, pure ())
    examined found = do
      entry <- either (Left . fromIOException) id <$> try (classify found)
      let kept = either (const found) snd entry
      unless (kept == found) (closeFd found)
      pure (fst <$> entry, closeQuietly kept)

-- Whether such an error of openat2 leaves open if the file may be served: a link leads out of the root, at first;
-- another process renames directories all the time; the call is not there, or forbidden.
isUndecided :: Errno -> Bool
isUndecided errno = errno `elem` [eXDEV, eAGAIN, eNOSYS, ePERM, eINVAL]

-- Finds a file below the directory, and refuses one that is elsewhere. If the directory has moved meanwhile, the file
-- is missing.
byRealPath :: Fd -> [ByteString] -> IO (Either Problem Fd)
byRealPath directory names =
  either (Left . fromIOException) id <$> try (readSymbolicLink (descriptorPath directory) >>= below)
  where
    below real =
      findFile (ByteString.intercalate "/" (real : names)) >>= either (pure . Left . problemOf) (checked real)
    checked real found = do
      inside <- isBelow real <$> readSymbolicLink (descriptorPath found) `onException` closeQuietly found
      if inside then pure (Right found) else Left Missing <$ closeQuietly found

-- The kernel adds " (deleted)" to the path of a file that was deleted meanwhile, and puts "(unreachable)" before the
-- path of a file that cannot be reached from here. The first kind counts as being where it was. The second is refused.
isBelow :: RawFilePath -> RawFilePath -> Bool
isBelow directory real = directory == "/" || real == directory || (directory <> "/") `ByteString.isPrefixOf` real

-- Closing may fail, even for a file that was only read: file systems in other programs (FUSE) can report errors.
closeQuietly :: Fd -> IO ()
closeQuietly descriptor = closeFd descriptor `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = pure ()

-- | Whether a file may stay open when it is not being sent. Yes: an open file can be renamed, replaced and removed.
mayStayOpen :: Bool
mayStayOpen = True

problemOf :: Errno -> Problem
problemOf errno = problem (errnoToIOError "open" errno Nothing Nothing) errno

fromIOException :: IOException -> Problem
fromIOException exception = maybe (Faulty exception) (problem exception . Errno) (ioe_errno exception)

problem :: IOException -> Errno -> Problem
problem exception errno
  | errno `elem` [eNOENT, eNOTDIR, eLOOP, eNAMETOOLONG] = Missing
  | errno `elem` [eACCES, ePERM] = Unreadable
  | errno `elem` [eMFILE, eNFILE] = OutOfDescriptors
  | otherwise = Faulty exception

-- The entry, and the descriptor that keeps it open.
classify :: Fd -> IO (Either Problem (Entry, Fd))
classify found@(Fd number) = allocaBytes #{size struct stat} $ \status -> do
  throwErrnoIfMinus1_ "fstat" (c_fstat number status)
  mode <- #{peek struct stat, st_mode} status
  case mode .&. #{const S_IFMT} :: CMode of
    #{const S_IFDIR} -> pure (Right (Directory (Char8.unpack (descriptorPath found)), found))
    #{const S_IFREG} -> do
      opened <- openToRead (descriptorPath found)
      either
        (pure . Left . problemOf)
        (\descriptor -> asFile descriptor <$> identity status <*> statusState status)
        opened
    _ -> pure (Left Missing)
  where
    identity status = FileIdentity <$> #{peek struct stat, st_dev} status <*> #{peek struct stat, st_ino} status
    asFile descriptor same state =
      Right (File (OpenFile (Char8.unpack (descriptorPath descriptor)) same state (stateOf descriptor)), descriptor)

-- | The first names in a directory, at most this many, in no particular order. @.@ and @..@ are among them. The path is
-- that of a 'Directory'.
directoryNames :: Int -> FilePath -> IO [ByteString]
directoryNames count directory = bracket (openDirStream (Char8.pack directory)) closeDirStream (readNames count)

readNames :: Int -> DirStream -> IO [ByteString]
readNames 0 _ = pure []
readNames left stream = do
  name <- readDirStream stream
  if ByteString.null name then pure [] else (name :) <$> readNames (left - 1) stream

-- | The object of a name in a directory, whose path is that of a 'Directory'. May wait for a disk.
glimpse :: FilePath -> ByteString -> IO Glimpse
glimpse directory name = ByteString.useAsCString (Char8.pack directory <> "/" <> name) $ \path ->
  allocaBytes #{size struct stat} $ \status -> do
    result <- c_lstat path status
    if result < 0 then pure MustBeLookedUp else #{peek struct stat, st_mode} status >>= seen path status
  where
    seen path status mode = case mode .&. #{const S_IFMT} :: CMode of
      #{const S_IFDIR} -> DirectorySeen . stateModified <$> statusState status
      #{const S_IFLNK} -> pure MustBeLookedUp
      #{const S_IFREG} -> do
        -- A file that everybody may read needs no further check.
        readable <- if mode .&. 0o444 == 0o444 then pure True else isReadable path
        if readable
          then (\state -> FileSeen (stateSize state) (stateModified state)) <$> statusState status
          else pure NothingSeen
      _ -> pure NothingSeen
    isReadable path = (== 0) <$> c_faccessat (#{const AT_FDCWD}) path #{const R_OK} #{const AT_EACCESS}

stateOf :: Fd -> IO FileState
stateOf (Fd number) = allocaBytes #{size struct stat} $ \status -> do
  throwErrnoIfMinus1_ "fstat" (c_fstat number status)
  statusState status

-- The unix package represents times as fractions.
statusState :: Ptr Status -> IO FileState
statusState status =
  FileState
    <$> #{peek struct stat, st_size} status
    <*> (nanoseconds <$> #{peek struct stat, st_mtim.tv_sec} status <*> #{peek struct stat, st_mtim.tv_nsec} status)
    <*> (nanoseconds <$> #{peek struct stat, st_ctim.tv_sec} status <*> #{peek struct stat, st_ctim.tv_nsec} status)
  where
    nanoseconds :: Int64 -> Int64 -> Nanoseconds
    nanoseconds seconds rest = saturated (1000000000 * toInteger seconds + toInteger rest)

-- struct stat
data {-# CTYPE "sys/stat.h" "struct stat" #-} Status

descriptorPath :: Fd -> RawFilePath
descriptorPath (Fd number) = "/proc/self/fd/" <> Char8.pack (show number)

-- The unix package does not have O_PATH (Linux 2.6.39).
findFile :: RawFilePath -> IO (Either Errno Fd)
findFile = openWith #{const O_PATH}

-- Finds a file from a directory on, without leaving the directory if the policy is so.
findBelow :: LinkPolicy -> Fd -> RawFilePath -> IO (Either Errno Fd)
findBelow policy (Fd directory) path =
  ByteString.useAsCString path $ \name ->
    allocaBytes #{size struct open_how} $ \how -> do
      #{poke struct open_how, flags} how (#{const O_PATH | O_CLOEXEC} :: Word64)
      #{poke struct open_how, mode} how (0 :: Word64)
      #{poke struct open_how, resolve} how (#{const RESOLVE_BENEATH} :: Word64)
      descriptorOr (findBelow policy (Fd directory) path) $ case policy of
        StayInside -> fromIntegral <$> c_openat2 #{const SYS_openat2} directory name how #{size struct open_how}
        FollowLinks -> c_openat directory name #{const O_PATH | O_CLOEXEC}

-- The file is known to be regular, so opening it can wait only for a program that holds a lease (fcntl(2)), such as
-- another file server, until that program gives the lease up. With O_NONBLOCK it would fail instead.
openToRead :: RawFilePath -> IO (Either Errno Fd)
openToRead = openWith #{const O_RDONLY}

openWith :: CInt -> RawFilePath -> IO (Either Errno Fd)
openWith flags path =
  descriptorOr
    (openWith flags path)
    (ByteString.useAsCString path (\name -> c_open name (flags .|. #{const O_CLOEXEC})))

-- What a call has opened. After an interrupt, the first action.
descriptorOr :: IO (Either Errno Fd) -> IO CInt -> IO (Either Errno Fd)
descriptorOr again open = do
  descriptor <- open
  if descriptor >= 0 then pure (Right (Fd descriptor)) else failed =<< getErrno
  where
    failed errno
      | errno == eINTR = again
      | otherwise = pure (Left errno)

-- unsafe: the next call on this file is unsafe as well.
foreign import capi unsafe "sys/stat.h fstat"
  c_fstat :: CInt -> Ptr Status -> IO CInt

-- safe: see the next call.
foreign import capi safe "sys/stat.h lstat"
  c_lstat :: CString -> Ptr Status -> IO CInt

foreign import capi safe "unistd.h faccessat"
  c_faccessat :: CInt -> CString -> CInt -> CInt -> IO CInt

-- safe: a network file system may take long, and during an unsafe call nothing else would run on this capability.
foreign import capi safe "fcntl.h open"
  c_open :: CString -> CInt -> IO CInt

foreign import capi safe "fcntl.h openat"
  c_openat :: CInt -> CString -> CInt -> IO CInt

-- Without a function in the C library of Debian 12.
foreign import capi safe "unistd.h syscall"
  c_openat2 :: CLong -> CInt -> CString -> Ptr () -> CSize -> IO CLong
