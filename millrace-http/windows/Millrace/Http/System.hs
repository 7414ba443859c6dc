-- Must not know: sessions.

-- |
-- Functions of the operating system that a server needs besides sockets, on Windows.
--
-- The folder @posix\/@ has the same names for all other systems; the package description chooses.
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

import Foreign.C.Types (CInt)
import Millrace.Socket (SocketOption)
import System.Directory (removeFile)

-- | Always empty: listening sockets cannot be inherited here.
inheritedDescriptors :: IO [CInt]
inheritedDescriptors = return []

-- | No limit: sockets are not counted per process.
descriptorLimit :: IO (Maybe Int)
descriptorLimit = return Nothing

-- | Which file a Unix socket is.
data SocketFile = SocketFile
  deriving (Eq)

-- | The file of a socket that this process has just bound to a path.
ownSocketFile :: FilePath -> IO (Maybe SocketFile)
ownSocketFile _ = return (Just SocketFile)

-- | Removes the file of a Unix socket. Throws an @IOError@.
removeSocketFile :: SocketFile -> FilePath -> IO ()
removeSocketFile _ = removeFile

-- | Runs an action. Nothing is replaced here, and so nothing must be locked.
whileFolderIsLocked :: FilePath -> IO a -> IO a
whileFolderIsLocked _ action = action

-- | None. Lingering connections do not keep a port from its next server, and SO_REUSEADDR would let any other program
-- listen on it at the same time.
rebindingOptions :: [(SocketOption, Int)]
rebindingOptions = []
