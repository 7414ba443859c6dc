-- | Temporary directories with files in them.
module Site
  ( withDirectory,
    write,
    writeOld,
    age,
    withLease,
  )
where

import Control.Exception (bracket)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import System.Directory (createDirectoryIfMissing, removePathForcibly)
import System.FilePath (takeDirectory, (</>))
import System.IO (hGetLine)
import System.Posix.Files (setFileMode, setFileTimes)
import System.Posix.Temp (mkdtemp)
import System.Process (CreateProcess (..), StdStream (..), cleanupProcess, createProcess, proc)

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

-- | Writes a file as 'write' does, and sets its time of change to 784111777, Sun, 06 Nov 1994 08:49:37 GMT.
writeOld :: FilePath -> FilePath -> ByteString -> IO ()
writeOld directory name content = write directory name content >> age (directory </> name)

age :: FilePath -> IO ()
age path = setFileTimes path 784111777 784111777

-- | Runs an action while another process has a lease on a file (fcntl(2)) and lets go of it when the kernel asks for
-- that, as file servers do. 'Nothing', and it does not run, where there are no leases.
withLease :: FilePath -> IO a -> IO (Maybe a)
withLease path action = bracket (createProcess holder) cleanupProcess $ \(_, output, _, _) -> do
  said <- traverse hGetLine output
  if said == Just "held" then Just <$> action else pure Nothing
  where
    holder = (proc "python3" ["-c", unlines program, path]) {std_in = NoStream, std_out = CreatePipe}
    program =
      [ "import fcntl, os, signal, sys",
        "file = os.open(sys.argv[1], os.O_RDWR)",
        "signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))",
        "try:",
        "    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)",
        "    print('held', flush=True)",
        "except OSError as error:",
        "    print(error, flush=True)",
        "while True:",
        "    signal.pause()"
      ]
