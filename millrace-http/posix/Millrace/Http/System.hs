-- Must not know: sessions.

-- |
-- Functions of the operating system that a server needs besides sockets, on POSIX.
--
-- The folder @windows\/@ has the same names for Windows; the package description chooses.
module Millrace.Http.System
  ( inheritedDescriptors,
    descriptorLimit,
    SocketFile,
    ownSocketFile,
    removeSocketFile,
    whileFolderIsLocked,
    rebindingOptions,
  )
where

import Control.Exception (IOException, bracket, catch)
import Control.Monad (when)
import Foreign.C (CInt (..), CString, Errno (..), eAGAIN)
import Millrace.Socket (SocketOption (..))
import Millrace.Timer (threadDelay)
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.Files (deviceID, fileID, getSymbolicLinkStatus, isSocket, removeLink)
import System.Posix.Internals (withFilePath)
import System.Posix.Process (getProcessID)
import System.Posix.Resource (Resource (..), ResourceLimit (..), ResourceLimits (..), getResourceLimit)
import System.Posix.Types (DeviceID, FileID)
import Text.Read (readMaybe)

-- | The listening descriptors that the process has inherited, as systemd passes them (sd_listen_fds(3)). A second call
-- returns none.
inheritedDescriptors :: IO [CInt]
inheritedDescriptors = do
  process <- getProcessID
  addressee <- number "LISTEN_PID"
  count <- number "LISTEN_FDS"
  mapM_ unsetEnv ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]
  return $ case (addressee, count) of
    (Just named, Just many) | named == fromIntegral process -> [3 .. 2 + fromIntegral (many :: Int)]
    _ -> []
  where
    number name = (>>= readMaybe) <$> lookupEnv name :: IO (Maybe Int)

-- | The number of descriptors that the process may have open, if it is limited.
descriptorLimit :: IO (Maybe Int)
descriptorLimit = limitOf . softLimit <$> getResourceLimit ResourceOpenFiles
  where
    limitOf (ResourceLimit most) = Just (fromIntegral most)
    limitOf _ = Nothing

-- | Which file a Unix socket is. It may be said of another file when nothing uses this one any more: the server must
-- not have closed it.
data SocketFile = SocketFile DeviceID FileID
  deriving (Eq)

-- | The Unix socket at a path. 'Nothing' if there is another file, or none.
socketFileAt :: FilePath -> IO (Maybe SocketFile)
socketFileAt path = (identified <$> getSymbolicLinkStatus path) `catch` missing
  where
    identified status = if isSocket status then Just (SocketFile (deviceID status) (fileID status)) else Nothing
    missing :: IOException -> IO (Maybe SocketFile)
    missing _ = return Nothing

-- | The file of a socket that this process has just bound to a path.
ownSocketFile :: FilePath -> IO (Maybe SocketFile)
ownSocketFile = socketFileAt

-- | Removes the file of a Unix socket, if it is still that one. Throws an @IOError@.
removeSocketFile :: SocketFile -> FilePath -> IO ()
removeSocketFile file path = socketFileAt path >>= \found -> when (found == Just file) (removeLink path)

-- | Runs an action while no other server does so with a path in the same folder. Where the folder cannot be locked, and
-- where another program keeps the lock for two seconds, the action runs anyway.
whileFolderIsLocked :: FilePath -> IO a -> IO a
whileFolderIsLocked path = bracket (await attempts) (\lock -> when (lock >= 0) (c_close lock)) . const
  where
    attempts = 200 :: Int
    await left = do
      lock <- withFilePath folder c_lockFolder
      if Errno (negate lock) == eAGAIN && left > 0 then threadDelay 10000 >> await (left - 1) else return lock
    folder = case dropWhile (/= '/') (reverse path) of
      "" -> "."
      "/" -> "/"
      _ : before -> reverse before

foreign import ccall safe "http_file_lock_folder"
  c_lockFolder :: CString -> IO CInt

foreign import ccall unsafe "http_file_close"
  c_close :: CInt -> IO ()

-- | The socket option with which a server can bind its port while connections of an earlier one linger (TIME_WAIT).
rebindingOptions :: [(SocketOption, Int)]
rebindingOptions = [(ReuseAddr, 1)]
