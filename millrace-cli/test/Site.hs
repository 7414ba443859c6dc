-- | Temporary directories with files in them.
module Site
  ( withDirectory
  , write
  , writeOld
  , age
  ) where

import Control.Exception (bracket)
import System.Directory (createDirectoryIfMissing, removePathForcibly)
import System.FilePath (takeDirectory, (</>))
import System.Posix.Files (setFileMode, setFileTimes)
import System.Posix.Temp (mkdtemp)
import qualified Data.ByteString as ByteString
import Data.ByteString (ByteString)

-- | An empty directory that other users may enter, removed afterwards.
withDirectory :: (FilePath -> IO a) -> IO a
withDirectory = bracket create removePathForcibly
  where
    create = do
      path <- mkdtemp "/tmp/millrace-cli-test-"
      setFileMode path 0o755
      pure path

-- | Writes a file below a directory, and the directories on the way.
write :: FilePath -> FilePath -> ByteString -> IO ()
write directory name content = do
  createDirectoryIfMissing True (takeDirectory (directory </> name))
  ByteString.writeFile (directory </> name) content

-- | The same, for a file that was last changed at 784111777, Sun, 06 Nov 1994 08:49:37 GMT.
writeOld :: FilePath -> FilePath -> ByteString -> IO ()
writeOld directory name content = write directory name content >> age (directory </> name)

age :: FilePath -> IO ()
age path = setFileTimes path 784111777 784111777
