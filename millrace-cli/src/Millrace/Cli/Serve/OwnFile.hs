-- Must not know: servers.

-- | A file that each of several processes may put at one path: the latest one has it, and only the one whose file is
-- there removes it.
--
-- A process that cannot start must leave the file of a running one alone. So the file is made beside its path, and
-- moved there when nothing can fail any more. In the end the file at the path is removed only if it is still the same
-- one, by the numbers of its device and its inode: its name and its content, such as the number of a process, may be
-- those of the next process.
module Millrace.Cli.Serve.OwnFile (withOwnFile) where

import Control.Exception (Exception, IOException, bracket, bracket_, catch, throwIO)
import Control.Monad (when)
import Data.Maybe (isJust)
import Millrace.Cli.Base.System (FileIdentity, identityOf, processNumber)
import System.Directory (removeFile, renameFile)

-- | @withOwnFile failure path make release use@: makes a file beside @path@, in the same folder, and runs an action.
-- The action gets the result of @make@, and a function that moves the file to @path@ while it runs another action. The
-- result of @make@ must keep the file in use, for example open: otherwise another file could get the number of its
-- inode. If making or moving throws an 'IOException', this throws @failure@ of that exception.
--
-- > withOwnFile id "/run/me.pid" (`openFile` WriteMode) hClose $ \file whileThere ->
-- >   hPutStrLn file "1" >> whileThere serve
withOwnFile ::
  Exception e =>
  (IOException -> e) ->
  FilePath ->
  (FilePath -> IO a) ->
  (a -> IO ()) ->
  (a -> (IO () -> IO ()) -> IO b) ->
  IO b
withOwnFile failure path make release use = do
  beside <- (\number -> path <> "." <> show number) <$> processNumber
  -- It may be left from a process that had the same number and was killed.
  removeQuietly beside
  bracket
    (explained (make beside) >>= \made -> (,) made <$> identityOf beside)
    (\(made, identity) -> removeOwn identity beside >> release made)
    $ \(made, identity) ->
      use made (bracket_ (explained (renameFile beside path)) (removeOwn identity path))
  where
    explained action = action `catch` (throwIO . failure)

removeOwn :: Maybe FileIdentity -> FilePath -> IO ()
removeOwn identity path = do
  found <- identityOf path
  when (isJust found && found == identity) (removeQuietly path)

-- It may not be there.
removeQuietly :: FilePath -> IO ()
removeQuietly path = removeFile path `catch` ignore
  where
    ignore :: IOException -> IO ()
    ignore _ = pure ()
