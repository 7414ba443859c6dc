-- |
-- Functions of the operating system that a server needs besides sockets, on POSIX. Must not know: sessions.
--
-- The folder @windows\/@ has the same names for Windows; the package description chooses.
module Millrace.Http.System (inheritedDescriptors, descriptorLimit, isSocketFile, removeSocketFile, rebindingOptions) where

import Control.Exception (IOException, catch)
import Foreign.C.Types (CInt)
import Millrace.Socket (SocketOption (..))
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.Files (getSymbolicLinkStatus, isSocket, removeLink)
import System.Posix.Process (getProcessID)
import System.Posix.Resource (Resource (..), ResourceLimit (..), ResourceLimits (..), getResourceLimit)
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

-- | Whether a path has a Unix socket, and not another file or none.
isSocketFile :: FilePath -> IO Bool
isSocketFile path = (isSocket <$> getSymbolicLinkStatus path) `catch` missing
  where
    missing :: IOException -> IO Bool
    missing _ = return False

-- | Removes the file of a Unix socket. Throws an @IOError@.
removeSocketFile :: FilePath -> IO ()
removeSocketFile = removeLink

-- | The socket option with which a server can bind its port while connections of an earlier one linger (TIME_WAIT).
rebindingOptions :: [(SocketOption, Int)]
rebindingOptions = [(ReuseAddr, 1)]
