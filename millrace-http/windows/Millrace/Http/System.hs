-- |
-- What a server asks of the operating system beyond sockets, on Windows. Must not know: sessions.
--
-- The same names in @posix\/@ are for all other systems; the package description chooses.
module Millrace.Http.System (inheritedDescriptors, descriptorLimit, isSocketFile, removeSocketFile, rebindingOptions) where

import Foreign.C.Types (CInt)
import Millrace.Socket (SocketOption)
import System.Directory (removeFile)

-- | None: nobody starts a process with listening sockets.
inheritedDescriptors :: IO [CInt]
inheritedDescriptors = return []

-- | Sockets are not counted per process.
descriptorLimit :: IO (Maybe Int)
descriptorLimit = return Nothing

-- | Is there the file of a Unix socket at a path, and not something else or nothing? Nobody tells here: better that a server
-- does not start than that somebody's file is gone.
isSocketFile :: FilePath -> IO Bool
isSocketFile _ = return False

-- | Removes the file of a Unix socket. Throws an @IOError@.
removeSocketFile :: FilePath -> IO ()
removeSocketFile = removeFile

-- | None: lingering connections do not keep a port from its next server, and SO_REUSEADDR would let any other program
-- listen on it at the same time.
rebindingOptions :: [(SocketOption, Int)]
rebindingOptions = []
