-- Must not know: loops, operations.

-- | Cgroups of Linux, version 2, to ask and to end everything that a process has started. They limit nothing.
module Millrace.Internal.Cgroup
  ( Cgroup,
    makeCgroup,
    cgroupMembers,
    isPopulated,
    askMembers,
    endCgroup,
    cannotContain,
  )
where

import Control.Exception (IOException, bracket, catch, throwIO, try)
import Control.Monad (filterM, forM_, unless, void, when)
import qualified Data.ByteString.Char8 as Char8
import Data.Char (chr, isOctDigit)
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.List (isPrefixOf)
import Data.Maybe (listToMaybe, mapMaybe)
import Foreign.C.Error (Errno, eOPNOTSUPP)
import Foreign.C.Types (CInt (..))
import GHC.IO.Exception (IOException (ioe_description))
import Millrace.Internal.Constants.Signals (Signal (..), signalNumber)
import Millrace.Internal.CoreCalls (c_close)
import Millrace.Internal.Errors (failure)
import Millrace.Internal.Units (saturated)
import Millrace.Timer (threadDelay)
import Numeric (readOct)
import System.Directory (createDirectory, doesDirectoryExist, listDirectory, removeDirectory)
import System.IO.Error (ioeSetErrorString, ioeSetLocation)
import System.IO.Unsafe (unsafePerformIO)

foreign import ccall unsafe "getpid" c_getpid :: IO CInt

foreign import ccall unsafe "mrh_open_process" c_open_process :: CInt -> IO CInt

foreign import ccall unsafe "mrh_signal_process" c_signal_process :: CInt -> CInt -> IO CInt

-- | A cgroup of this program, by its path.
newtype Cgroup = Cgroup FilePath

-- | Makes a cgroup below that of this program. Throws an 'IOError' of this function if that is not possible.
makeCgroup :: String -> IO Cgroup
makeCgroup function = do
  parent <- ownCgroup
  case parent of
    Nothing -> throwIO (cannotContain function "/sys/fs/cgroup" eOPNOTSUPP)
    Just path -> do
      process <- c_getpid
      number <- atomicModifyIORef' counter (\before -> (before + 1, before))
      let made = path ++ "/millrace-" ++ show process ++ "-" ++ show (number :: Int)
      createDirectory made `catch` \problem -> throwIO (explained problem `ioeSetLocation` function)
      return (Cgroup made)

counter :: IORef Int
counter = unsafePerformIO (newIORef 0)
{-# NOINLINE counter #-}

-- | The error of this function about this thing, when no cgroup can be used.
cannotContain :: String -> String -> Errno -> IOError
cannotContain function name code = explained (failure function name code)

explained :: IOException -> IOError
explained problem =
  problem
    `ioeSetErrorString` ( ioe_description problem
                            ++ "; ByCgroup needs cgroup v2, and a part of its tree that belongs to this user \
                               \(Delegate=yes)"
                        )

-- | The path of the file to which a process writes to join.
cgroupMembers :: Cgroup -> FilePath
cgroupMembers (Cgroup path) = path ++ "/cgroup.procs"

-- | Whether a process runs in it, or below it. If the system does not tell, one does.
isPopulated :: Cgroup -> IO Bool
isPopulated (Cgroup path) =
  (notElem (Char8.pack "populated 0") . Char8.lines <$> Char8.readFile (path ++ "/cgroup.events")) `catch` unknown
  where
    unknown :: IOException -> IO Bool
    unknown _ = return True

-- | Sends each process in it, or below it, this signal once, but not the process with this number. Processes that it
-- may not signal, and those that begin meanwhile, get none.
askMembers :: Signal -> CInt -> Cgroup -> IO ()
askMembers signal leftOut (Cgroup path) = signalMembers signal (/= leftOut) path

signalMembers :: Signal -> (CInt -> Bool) -> FilePath -> IO ()
signalMembers signal isMeant path = do
  found <- filter isMeant <$> membersBelow path
  bracket (mapM (\member -> (,) member <$> c_open_process member) found) (mapM_ closeOpened) $ \opened -> do
    -- A number may have come to mean a process elsewhere before it was opened. It is not in the cgroup then.
    still <- membersBelow path
    forM_ opened $ \(member, handle) ->
      when (handle >= 0 && member `elem` still) (void (c_signal_process handle (saturated (signalNumber signal))))
  where
    closeOpened (_, handle) = when (handle >= 0) (void (c_close handle))

membersBelow :: FilePath -> IO [CInt]
membersBelow path = (++) <$> orNone (membersOf path) <*> (orNone (below path) >>= fmap concat . mapM membersBelow)
  where
    -- Cgroups that the processes have made may vanish meanwhile.
    orNone action = action `catch` \problem -> let _ = problem :: IOException in return []

membersOf :: FilePath -> IO [CInt]
membersOf path =
  map fromIntegral . mapMaybe (fmap fst . Char8.readInt) . Char8.lines <$> Char8.readFile (path ++ "/cgroup.procs")

-- | Kills everything in it, and removes it: when nothing runs in it any more. Does nothing if it is removed already.
endCgroup :: Cgroup -> IO ()
endCgroup cgroup@(Cgroup path) = go 1000
  where
    go pauseMicros = do
      killAll path
      populated <- isPopulated cgroup
      unless populated (quietly (remove path))
      exists <- doesDirectoryExist path
      -- One that cannot be removed, because another program uses it, is left.
      unless (not exists || (not populated && pauseMicros >= lastPauseMicros)) $ do
        threadDelay pauseMicros
        go (min lastPauseMicros (2 * pauseMicros))
    lastPauseMicros = 50000

-- Before Linux 5.14 there is no cgroup.kill.
killAll :: FilePath -> IO ()
killAll path = do
  killed <- try (Char8.writeFile (path ++ "/cgroup.kill") (Char8.pack "1"))
  either (\problem -> let _ = problem :: IOException in quietly (signalMembers Kill (const True) path)) return killed

-- The process may have made cgroups in its own one.
remove :: FilePath -> IO ()
remove path = below path >>= mapM_ remove >> removeDirectory path

below :: FilePath -> IO [FilePath]
below path = listDirectory path >>= filterM doesDirectoryExist . map ((path ++ "/") ++)

quietly :: IO () -> IO ()
quietly action = action `catch` \problem -> let _ = problem :: IOException in return ()

-- The path of this program's cgroup, where a tree of version 2 is mounted.
ownCgroup :: IO (Maybe FilePath)
ownCgroup = do
  mounts <- mapMaybe mountOf . lines . Char8.unpack <$> readOrNothing "/proc/self/mountinfo"
  own <- mapMaybe ownOf . lines . Char8.unpack <$> readOrNothing "/proc/self/cgroup"
  return (located <$> listToMaybe mounts <*> listToMaybe own)
  where
    readOrNothing path = Char8.readFile path `catch` \problem -> let _ = problem :: IOException in return Char8.empty
    ownOf line = if "0::" `isPrefixOf` line then Just (drop 3 line) else Nothing
    -- number, parent, device, root, mount point, ... - type ... (proc_pid_mountinfo(5))
    mountOf line = case (drop 3 (words line), drop 1 (dropWhile (/= "-") (words line))) of
      (root : point : _, "cgroup2" : _) -> Just (unescaped root, unescaped point)
      _ -> Nothing
    located (root, point) own = point ++ plain (below' root own)
    below' root own = if root /= "/" && root `isPrefixOf` own then drop (length root) own else own
    plain path = if path == "/" then "" else path
    unescaped ('\\' : digits)
      | (octal, rest) <- splitAt 3 digits, [(code, "")] <- readOct (filter isOctDigit octal) = chr code : unescaped rest
    unescaped (character : rest) = character : unescaped rest
    unescaped [] = []
