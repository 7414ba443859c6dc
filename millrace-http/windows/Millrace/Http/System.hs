-- |
-- Functions of the operating system that a server needs besides sockets, on Windows. Must not know: sessions.
--
-- The folder @posix\/@ has the same names for all other systems; the package description chooses.
module Millrace.Http.System (inheritedDescriptors, descriptorLimit, isSocketFile, removeSocketFile, rebindingOptions) where

import Foreign.C.Types (CInt)
import Millrace.Socket (SocketOption)
import System.Directory (removeFile)

-- | Always empty: listening sockets cannot be inherited here.
inheritedDescriptors :: IO [CInt]
inheritedDescriptors = return []

-- | No limit: sockets are not counted per process.
descriptorLimit :: IO (Maybe Int)
descriptorLimit = return Nothing

-- | Always False, because there is no way to find out. A server that does not start is better than a deleted file of
-- somebody else.
isSocketFile :: FilePath -> IO Bool
isSocketFile _ = return False

-- | Removes the file of a Unix socket. Throws an @IOError@.
removeSocketFile :: FilePath -> IO ()
removeSocketFile = removeFile

-- | None. Lingering connections do not keep a port from its next server, and SO_REUSEADDR would let any other program
-- listen on it at the same time.
rebindingOptions :: [(SocketOption, Int)]
rebindingOptions = []
