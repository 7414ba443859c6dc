-- | Functions on files that "Millrace.File" leaves out: all ways of opening, appending, vectors of buffers, the
-- caller's memory, sizes and holes, locks and copies.
--
-- > main = do
-- >   file <- openFileWith "log" WriteOnly [CreateWith (Permissions 0o644), Append]
-- >   append file "a line\n" `finally` closeFile file
--
-- As there, only the calling thread waits for the disk. All functions are interruptible, and throw an 'IOError' that
-- names the function and the file. Helper threads make the calls, at most 64 at a time; a call that has begun continues
-- after its caller is interrupted, unless it uses the caller's memory. Waiting for a lock, which others may hold for as
-- long as they like, can have a deadline. All other functions wait only for the disk: 'Millrace.Timer.finishBefore'
-- gives any of them a deadline. In "Millrace.Simulation" they work on the simulated machine, but for locks and holes,
-- which are refused.
--
-- >>> import Millrace.File
-- >>> file <- openFileWith "example" ReadWrite [CreateWith (Permissions 0o600), Exclusive]
-- >>> writeVectorAt file 0 ["one, ", "two, ", "three"]
-- >>> readVectorAt file 5 [3, 100]
-- ["two",", three"]
-- >>> setFileSize file 3
-- >>> readAt file 0 100
-- "one"
-- >>> closeFile file
-- >>> copyFile "example" "copy" >> (withFile "copy" ForReading (\copy -> readAt copy 0 100))
-- "one"
-- >>> mapM_ removeFile ["example", "copy"]
module Millrace.File.Access
  ( -- * Opening
    Access (..),
    Option (..),
    Permissions (..),
    openFileWith,
    withFileWith,

    -- * Reading and writing
    append,
    readVectorAt,
    writeVectorAt,
    readIntoMemory,
    writeFromMemory,
    directMemory,
    syncData,

    -- * Sizes and holes
    setFileSize,
    allocate,
    punchHole,

    -- * Locks
    Sharing (..),
    lockFile,
    lockFileBefore,
    tryLockFile,
    unlockFile,
    withLockedFile,
    withLockedFileBefore,

    -- * Copies
    copyFile,
    copyFileReporting,
    cloneFile,
    copyRange,
  )
where

import Control.Exception
  ( MaskingState (Unmasked),
    bracket_,
    catch,
    finally,
    getMaskingState,
    interruptible,
    mask,
    mask_,
    onException,
    throwIO,
    uninterruptibleMask_,
  )
import Control.Monad (unless, void, when, zipWithM_)
import Data.Bits (shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (fromForeignPtr, mallocByteString, toForeignPtr)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Error (Errno (..), eAGAIN, eBADF, eEXIST, eINVAL, eNOTTY, eOPNOTSUPP, ePERM, eXDEV)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (ForeignPtr, mallocForeignPtrBytes, plusForeignPtr, touchForeignPtr, withForeignPtr)
import Foreign.ForeignPtr.Unsafe (unsafeForeignPtrToPtr)
import Foreign.Ptr (FunPtr, minusPtr, nullPtr)
import Foreign.Storable (pokeByteOff)
import GHC.IO.Exception (IOException (ioe_errno))
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Directory (Permissions (..))
import Millrace.File (closeFile, removeFile)
import Millrace.Internal.Constants (vectorElementBase, vectorElementLength, vectorElementSize)
import Millrace.Internal.Constants.Files
import Millrace.Internal.Errors (failure)
import Millrace.Internal.File
import Millrace.Internal.FileJob
import Millrace.Internal.FileTransfer (readIntoCallers, writeFromCallers)
import Millrace.Internal.HelperJob (meaning)
import Millrace.Operation (adopt, whileOpen)

foreign import ccall "&mrh_do_open" c_open :: FunPtr Work

foreign import ccall "&mrh_do_append" c_append :: FunPtr Work

foreign import ccall "&mrh_do_read_vector" c_read_vector :: FunPtr Work

foreign import ccall "&mrh_do_write_vector" c_write_vector :: FunPtr Work

foreign import ccall "&mrh_do_sync_data" c_sync_data :: FunPtr Work

foreign import ccall "&mrh_do_resize" c_resize :: FunPtr Work

foreign import ccall "&mrh_do_allocate" c_allocate :: FunPtr Work

foreign import ccall "&mrh_do_clone" c_clone :: FunPtr Work

foreign import ccall "&mrh_do_copy_range" c_copy_range :: FunPtr Work

foreign import ccall "&mrh_do_copy_file" c_copy_file :: FunPtr Work

foreign import ccall "&mrh_do_chmod_of" c_chmod_of :: FunPtr Work

foreign import ccall unsafe "mrh_try_lock" c_try_lock :: CInt -> CInt -> Int64 -> Int64 -> IO CInt

foreign import ccall unsafe "mrh_unlock" c_unlock :: CInt -> Int64 -> Int64 -> IO CInt

-- | The operations that an open file allows.
data Access = ReadOnly | WriteOnly | ReadWrite
  deriving (Eq, Show, Read, Enum, Bounded)

-- | How a file is opened.
data Option
  = -- | Creates the file unless it exists. The program's @umask@ removes permissions.
    CreateWith !Permissions
  | -- | With 'CreateWith': the file must not exist.
    Exclusive
  | -- | Empties the file.
    Truncate
  | -- | Everything is written at the end of the file, whatever the offset. Several programs can append to one file.
    Append
  | -- | Reads and writes past the system's memory. Memory, offset and number of bytes must be multiples of a disk
    -- block: use 'directMemory' with 'readIntoMemory' and 'writeFromMemory'.
    Direct
  | -- | A write returns when the disk has the bytes.
    Synced
  | -- | Throws if the path is a symbolic link.
    NoFollow
  deriving (Eq, Show)

-- | Opens a regular file, a block device or a directory. Programs that are started do not inherit it. Files without
-- offsets, such as FIFOs, are refused (@ESPIPE@).
openFileWith :: FilePath -> Access -> [Option] -> IO File
openFileWith path access options = handOver closeAtLast $ do
  name <- pathBytes function path
  openFor
    function
    path
    memory
    (closing (job c_open [foldr ((.|.) . flagsOf) (accessFlags access) options, permissionsIn options] [name]))
  where
    function = "Millrace.File.Access.openFileWith"
    memory = if Direct `elem` options then PastMemory else ThroughMemory

closeAtLast :: File -> IO ()
closeAtLast file = uninterruptibleMask_ (closeFile file `catch` ignore)
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()

accessFlags :: Access -> Int64
accessFlags access = case access of
  ReadOnly -> openReadOnly
  WriteOnly -> openWriteOnly
  ReadWrite -> openReadWrite

flagsOf :: Option -> Int64
flagsOf option = case option of
  CreateWith _ -> openCreate
  Exclusive -> openExclusive
  Truncate -> openTruncate
  Append -> openAppend
  Direct -> openDirect
  Synced -> openSynced
  NoFollow -> openNoFollow

permissionsIn :: [Option] -> Int64
permissionsIn options = case [bits | CreateWith (Permissions bits) <- options] of
  bits : _ -> fromIntegral bits
  [] -> 0

-- | Opens a file, and closes it when the action has ended. An error of closing does not replace the action's own
-- exception.
withFileWith :: FilePath -> Access -> [Option] -> (File -> IO a) -> IO a
withFileWith path access options action = mask $ \restore -> do
  file <- openFileWith path access options
  result <- restore (action file) `onException` closeAtLast file
  result <$ closeFile file

-- | Writes all bytes where the file was opened to be written: at its end, with 'Append'. Threads that append to one
-- 'File' at the same time write whole pieces, one after the other; so do programs that append to the same local file.
append :: File -> ByteString -> IO ()
append file bytes =
  unless (ByteString.null bytes) . void $
    onFile "Millrace.File.Access.append" file c_append [fromIntegral size] (Just pointer) firstResult
  where
    (whole, start, size) = toForeignPtr bytes
    pointer = whole `plusForeignPtr` start

firstResult :: Int64 -> b -> IO Int64
firstResult result _ = return result

-- | Reads pieces of the given sizes that follow each other from an offset, in one call. If the file ends before, the
-- last pieces are shorter.
readVectorAt :: File -> Int64 -> [Int] -> IO [ByteString]
readVectorAt file offset sizes = do
  unless (offset >= 0 && all (> 0) sizes && length sizes <= vectorMax) $
    refuse function file ("the sizes must be positive, and at most " ++ show vectorMax)
  pointers <- mapM mallocByteString sizes
  count <- onVector function file c_read_vector offset (zip pointers sizes)
  return (cut (fromIntegral count) (zip pointers sizes))
  where
    function = "Millrace.File.Access.readVectorAt"
    cut _ [] = []
    cut left ((pointer, size) : others) =
      let here = min left size in fromForeignPtr pointer 0 here : cut (left - here) others

-- | Writes all pieces one behind the other from an offset, with as few calls as possible.
writeVectorAt :: File -> Int64 -> [ByteString] -> IO ()
writeVectorAt file offset pieces = case splitAt vectorMax (filter (not . ByteString.null) pieces) of
  ([], _) -> return ()
  (now, later) -> do
    unless (offset >= 0) $ refuse function file "the offset must not be negative"
    count <-
      onVector
        function
        file
        c_write_vector
        offset
        [(whole `plusForeignPtr` start, size) | (whole, start, size) <- map toForeignPtr now]
    writeVectorAt file (offset + count) later
  where
    function = "Millrace.File.Access.writeVectorAt"

-- Like the core's operations on sockets.
vectorMax :: Int
vectorMax = 1024

-- The pieces stay alive until the job has ended.
onVector :: String -> File -> FunPtr Work -> Int64 -> [(ForeignPtr Word8, Int)] -> IO Int64
onVector function file work offset pieces = do
  array <- mallocForeignPtrBytes (max 1 (length pieces * vectorElementSize))
  withForeignPtr array $ \pointer -> zipWithM_ (element pointer) [0 ..] pieces
  onFileKeeping
    (mapM_ (touchForeignPtr . fst) pieces)
    function
    file
    work
    [offset, fromIntegral (length pieces)]
    (Just array)
    firstResult
  where
    element pointer i (piece, size) = do
      pokeByteOff pointer (i * vectorElementSize + vectorElementBase) (unsafeForeignPtrToPtr piece)
      pokeByteOff pointer (i * vectorElementSize + vectorElementLength) size

-- | @readIntoMemory file offset memory size@ reads at most @size@ bytes at an offset into memory, and returns how many
-- they are: 0 at the end of the file, and never more than a mebibyte. When it returns or throws, nothing writes into
-- the memory any more: if it is interrupted, it waits for the end of a call that has begun. Within
-- 'Millrace.Timer.finishBefore' it continues after the deadline; do not use the memory then.
readIntoMemory :: File -> Int64 -> ForeignPtr Word8 -> Int -> IO Int
readIntoMemory file offset pointer size = do
  unless (size > 0 && offset >= 0) $ refuse function file "the size must be positive, and the offset not negative"
  readIntoCallers function file offset pointer (min mebibyte size)
  where
    function = "Millrace.File.Access.readIntoMemory"

-- | @writeFromMemory file offset memory size@ writes @size@ bytes, which must not change meanwhile. When it returns or
-- throws, they may change, as for 'readIntoMemory'.
writeFromMemory :: File -> Int64 -> ForeignPtr Word8 -> Int -> IO ()
writeFromMemory file offset pointer size = do
  unless (size >= 0 && offset >= 0) $ refuse function file "neither the size nor the offset may be negative"
  when (size > 0) $ do
    writeFromCallers function file offset (fromForeignPtr pointer 0 part)
    writeFromMemory file (offset + fromIntegral part) (pointer `plusForeignPtr` part) (size - part)
  where
    function = "Millrace.File.Access.writeFromMemory"
    part = min mebibyte size

mebibyte :: Int
mebibyte = 1048576

-- | Memory of the given size that begins at a multiple of 4096, as files opened with 'Direct' require.
directMemory :: Int -> IO (ForeignPtr Word8)
directMemory size = do
  whole <- mallocForeignPtrBytes (size + page)
  let begin = unsafeForeignPtrToPtr whole `minusPtr` nullPtr
  return (whole `plusForeignPtr` ((page - begin .&. (page - 1)) .&. (page - 1)))
  where
    page = 4096

-- | Like 'Millrace.File.sync', but without metadata that is not needed to read the bytes again, such as times.
syncData :: File -> IO ()
syncData file = void $ onFile "Millrace.File.Access.syncData" file c_sync_data [] Nothing firstResult

-- | Truncates a file, or extends it with zeros, which take no space on the disk.
setFileSize :: File -> Int64 -> IO ()
setFileSize file size = void $ onFile "Millrace.File.Access.setFileSize" file c_resize [size] Nothing firstResult

-- | @allocate file offset count@ reserves space on the disk, so that writing there cannot find it full. The file grows
-- if it ends before.
allocate :: File -> Int64 -> Int64 -> IO ()
allocate file offset count =
  void $ onFile "Millrace.File.Access.allocate" file c_allocate [0, offset, count] Nothing firstResult

-- | @punchHole file offset count@ frees the disk space of @count@ bytes. They read as zeros from then on. The file's
-- size stays.
punchHole :: File -> Int64 -> Int64 -> IO ()
punchHole file offset count =
  void $
    onFile
      "Millrace.File.Access.punchHole"
      file
      c_allocate
      [allocatePunchHole .|. allocateKeepSize, offset, count]
      Nothing
      firstResult

-- | Whether several may hold a lock at the same time.
data Sharing
  = -- | others that share it; the file must be open for reading
    Shared
  | -- | no other one may; the file must be open for writing
    Sole
  deriving (Eq, Show, Read, Enum, Bounded)

-- | Locks a file against other programs, and other 'File's of this one, that lock it too. While another has the lock,
-- it tries again after 1 to 50 milliseconds, because only a blocked operating system thread could wait for it in the
-- system. Closing the file ends the lock.
lockFile :: File -> Sharing -> IO ()
lockFile = lockFileBefore noDeadline

-- | 'lockFile' with a deadline ('Millrace.Deadline.isDeadlineError').
--
-- >>> import Millrace.Deadline
-- >>> import System.IO.Error (tryIOError)
-- >>> let open = openFileWith "lock" ReadWrite [CreateWith (Permissions 0o600)]
-- >>> (here, there) <- (,) <$> open <*> open
-- >>> lockFile here Sole
-- >>> soon <- deadlineAfter (milliseconds 10)
-- >>> either isDeadlineError (const False) <$> tryIOError (lockFileBefore soon there Sole)
-- True
-- >>> mapM_ closeFile [here, there] >> removeFile "lock"
lockFileBefore :: Deadline -> File -> Sharing -> IO ()
lockFileBefore deadline file sharing =
  askUntil deadline "Millrace.File.Access.lockFile" (show file) $ do
    hasIt <- tryLockFile file sharing
    return (if hasIt then Just () else Nothing)

-- | Locks a file if the lock is free. Does not wait.
tryLockFile :: File -> Sharing -> IO Bool
tryLockFile file sharing = do
  outcome <- callLock function file (\descriptor -> c_try_lock descriptor (if sharing == Sole then 1 else 0) 0 0)
  case outcome of
    Right () -> return True
    Left code | code == eAGAIN -> return False
    Left code -> throwIO (failure function (show file) code)
  where
    function = "Millrace.File.Access.lockFile"

-- | Ends the lock of this 'File'.
unlockFile :: File -> IO ()
unlockFile file = callLock function file (\descriptor -> c_unlock descriptor 0 0) >>= checked function file
  where
    function = "Millrace.File.Access.unlockFile"

callLock :: String -> File -> (CInt -> IO CInt) -> IO (Either Errno ())
callLock function file@(File handle _ _) call = do
  refuseSimulation
  result <- whileOpen handle call >>= maybe (throwIO (failure function (show file) eBADF)) return
  return (if result < 0 then Left (Errno (negate result)) else Right ())

-- | Holds the lock during an action.
withLockedFile :: File -> Sharing -> IO a -> IO a
withLockedFile = withLockedFileBefore noDeadline

-- | Holds the lock during an action. The deadline is for getting the lock, and not for the action.
withLockedFileBefore :: Deadline -> File -> Sharing -> IO a -> IO a
withLockedFileBefore deadline file sharing = bracket_ (lockFileBefore deadline file sharing) (unlockFile file)

-- | Copies a file, with its permissions, whatever the program's @umask@ is. The bits for set-user-ID, set-group-ID and
-- sticky files are left out, and until the copy is complete only its owner may open it. Where the file system has no
-- permissions, they are not set. Blocks are shared with the original where the file system can (reflink), else the
-- system copies without the program's memory where it can. The copy must not exist. If the copying fails or is
-- interrupted, the copy is removed.
copyFile :: FilePath -> FilePath -> IO ()
copyFile from to = copyFileReporting from to (\_ _ -> return ())

-- | Copies a file as 'copyFile' does. From time to time an action gets the number of bytes that were copied, and the
-- size of the file.
copyFileReporting :: FilePath -> FilePath -> (Int64 -> Int64 -> IO ()) -> IO ()
copyFileReporting from to report = do
  masking <- getMaskingState
  let restore = if masking == Unmasked then interruptible else id
  names <- mapM (pathBytes function) [from, to]
  handOver (\() -> removeQuietly) $ do
    begun <-
      runJob (failingAt function (job c_copy_file [bytesPerJob] names `meaning` copyFrom) {jobDispose = dispose})
        >>= named function to
    case begun of
      (size, Nothing) -> restore (report size size) `onException` removeQuietly
      (size, Just (source, target, done, permissions)) ->
        (restore (copyAll source target size done) >> setPermissionsOf target permissions >> closeFile target)
          `onException` (closeAtLast target >> removeQuietly)
          `finally` closeAtLast source
  where
    function = "Millrace.File.Access.copyFile"
    bytesPerJob = 16 * fromIntegral mebibyte
    copyAll source target size done = do
      report done size
      count <- copyRange source done target done bytesPerJob
      when (count > 0) (copyAll source target size (done + count))
    copyFrom descriptors output = do
      numbers <- outputNumbers output
      case numbers of
        [size, done, permissions]
          | descriptors == 0 -> return (size, Nothing)
          | otherwise -> do
            (source, target) <- adoptBoth (both descriptors)
            return (size, Just (source, target, done, permissions))
        _ -> error "Millrace.File.Access.copyFile: an mrh_copy has three numbers"
    adoptBoth (source, target) = do
      here <- adopted from source `onException` (closeNumber target >> removeQuietly)
      there <- adopted to target `onException` (closeAtLast here >> removeQuietly)
      return (here, there)
    adopted path number =
      (\handle -> File handle path ThroughMemory) <$> adopt number `onException` closeNumber number
    both descriptors = (fromIntegral (descriptors `shiftR` 32), fromIntegral (descriptors .&. 0xffffffff))
    -- A helper that is late removes what it has copied.
    dispose descriptors = do
      unless (descriptors == 0) (let (source, target) = both descriptors in mapM_ closeNumber [source, target])
      removeQuietly
    setPermissionsOf target bits =
      void (onFile function target c_chmod_of [bits .&. 0o777] Nothing firstResult) `catch` hasNone
    hasNone problem = unless (maybe False ((`elem` [ePERM, eOPNOTSUPP]) . Errno) (ioe_errno problem)) (throwIO problem)
    removeQuietly = uninterruptibleMask_ (removeFile to `catch` ignore)
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- | Makes the second file share all blocks of the first, so that nothing is copied until one of them is changed.
-- 'False', and nothing has changed, where the file system cannot.
cloneFile :: File -> File -> IO Bool
cloneFile source target = (True <$ onBoth function source target c_clone (: [])) `catch` refused
  where
    function = "Millrace.File.Access.cloneFile"
    refused problem
      | maybe False ((`elem` [eOPNOTSUPP, eXDEV, eINVAL, eNOTTY, eEXIST]) . Errno) (ioe_errno problem) = return False
      | otherwise = throwIO problem

-- | @copyRange from offset to offset count@ copies at most @count@ bytes, and returns how many: 0 at the end of the
-- file, and never more than 16 mebibytes.
copyRange :: File -> Int64 -> File -> Int64 -> Int64 -> IO Int64
copyRange source from target to count = do
  unless (from >= 0 && to >= 0 && count >= 0) $ refuse function source "neither offsets nor the count may be negative"
  onBoth function source target c_copy_range (\other -> [from, other, to, count])
  where
    function = "Millrace.File.Access.copyRange"

-- A job with two descriptors, which both stay open.
onBoth :: String -> File -> File -> FunPtr Work -> (Int64 -> [Int64]) -> IO Int64
onBoth function source target work numbers = mask_ $
  useFile function target $ \other release ->
    onFileKeeping release function source work (numbers (fromIntegral other)) Nothing firstResult
