-- | Temporary folders, free ports, programs that may be missing, and what is printed.
module TestSupport.Folder
  ( withTemporaryFolder,
    freePort,
    missing,
    standardErrorOf,
  )
where

import Control.Exception (bracket)
import GHC.IO.Handle (hDuplicate, hDuplicateTo)
import Network.Socket
import System.Directory (findExecutable, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.IO (IOMode (WriteMode), hClose, hFlush, stderr, withFile)
import System.Posix.Temp (mkdtemp)

-- | Makes an empty folder, whose name begins with this word, for the time of an action. Several tests may run at the
-- same time, so each gets another one.
withTemporaryFolder :: String -> (FilePath -> IO a) -> IO a
withTemporaryFolder word = bracket create removeDirectoryRecursive
  where
    create = getTemporaryDirectory >>= mkdtemp . (</> (word ++ "-"))

-- | A port of the loopback interface on which nothing listens.
freePort :: Num port => IO port
freePort = bracket (socket AF_INET Stream defaultProtocol) close $ \probe -> do
  bind probe (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  fromIntegral <$> socketPort probe

-- | A message if this program is not installed. A test then is pending: @missing "curl" >>= mapM_ pendingWith@.
missing :: String -> IO (Maybe String)
missing program = maybe (Just (program ++ " is not installed")) (const Nothing) <$> findExecutable program

-- | What this program prints on standard error during an action.
standardErrorOf :: IO () -> IO String
standardErrorOf action = withTemporaryFolder "standard-error" $ \folder -> do
  let path = folder </> "printed"
  bracket (hDuplicate stderr) (\saved -> hDuplicateTo saved stderr >> hClose saved) $ \_ ->
    withFile path WriteMode (\file -> hDuplicateTo file stderr >> action >> hFlush stderr)
  text <- readFile path
  length text `seq` return text
