-- Must not know: HTTP.

-- | The file with the number of the server's process, and the socket beside it by which the server is asked to read its
-- configuration again.
module Millrace.Cli.Serve.PidFile
  ( withPidFile,
    pidFileFailure,
  )
where

import Control.Exception (bracketOnError, toException)
import Data.ByteString (ByteString)
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.System (processNumber)
import Millrace.Cli.Serve.OwnFile
import Millrace.Cli.Serve.ReloadSocket
import System.IO (Handle, IOMode (WriteMode), hClose, hFlush, hPrint, openBinaryFile)

-- | Makes the file and the socket, if there is a path. The action gets a function that moves them to their paths while
-- it runs another action: from then on this process answers there, and until then another one may. Throws 'FileFailure'
-- if they cannot be made.
withPidFile :: Maybe FilePath -> (ByteString -> IO ReloadOutcome) -> ((IO () -> IO ()) -> IO a) -> IO a
withPidFile Nothing _ use = use id
withPidFile (Just path) reload use =
  withReloadSocket (reloadSocketPath path) reload $ \whileAsked ->
    withOwnFile failed path written hClose (\_ whileThere -> use (whileAsked . whileThere))
  where
    written beside =
      bracketOnError (openBinaryFile beside WriteMode) hClose $ \file -> file <$ (number file >> hFlush file)
    number :: Handle -> IO ()
    number file = processNumber >>= hPrint file
    failed = pidFileFailure path . reasonOf . toException

-- | The file cannot be made, for a reason.
pidFileFailure :: FilePath -> String -> FileFailure
pidFileFailure path reason =
  FileFailure
    ["pid-file"]
    path
    Failure
      { failureAttempt = "write the pid file " <> path,
        failureReason = reason,
        failureRemedy = "'pid-file' names a file in a folder that the server's user may write to."
      }
