-- Must not know: connections.

-- | The command's access log: where it is written to, and how its problems are told.
module Millrace.Cli.Observe.AccessLog
  ( withAccessLogAt,
    accessLogFailure,
  )
where

import Control.Exception (handle, throwIO)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure
import Millrace.Internal.StandardStream (writeToOutput)
import Millrace.Log (LogSettings (..), LogTarget (..), checkLog, describeLogProblem, endLog, logTo)
import Network.Wai.Handler.Millrace (Answer)
import Network.Wai.Millrace.AccessLog (LogFormat, withAccessLog)

-- | The access log at a path (@-@ is standard output) while the action runs; it gets what ends the log, and what logs
-- an answer. Throws 'FileFailure' if the log cannot be written to at the beginning. Lines that cannot be written later
-- are lost, and a message on standard error says so.
withAccessLogAt :: LogFormat -> FilePath -> (IO () -> (Answer -> IO ()) -> IO a) -> IO a
withAccessLogAt format path use = do
  handle (throwIO . failure) (checkLog settings)
  withAccessLog format settings (use . endLog)
  where
    settings = (logTo path) {logTarget = target, logProblem = tell . ("millrace: " <>) . describeLogProblem name}
    (target, name)
      | path == "-" = (LogAction writeToOutput, "the access log")
      | otherwise = (LogFile path, "the access log " <> path)
    failure problem = accessLogFailure path (ioe_description (problem :: IOException))

-- | The access log cannot be written, for a reason.
accessLogFailure :: FilePath -> String -> FileFailure
accessLogFailure path reason =
  FileFailure
    ["access-log"]
    path
    Failure
      { failureAttempt = "write the access log " <> path,
        failureReason = reason,
        failureRemedy = "'access-log' names a file that the server's user may write to, or is - for standard output."
      }
