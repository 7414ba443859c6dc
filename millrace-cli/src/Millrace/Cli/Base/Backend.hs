-- Must not know: servers.

-- | Chooses the I\/O backend and starts the I\/O manager on it, with errors that a user can understand.
module Millrace.Cli.Base.Backend
  ( backendChoices,
    environmentVariable,
    environmentBackend,
    startManager,
    tooManyLoops,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (Handler (..), catches, displayException, throwIO)
import Control.Monad ((>=>))
import Data.List (intercalate)
import Data.Maybe (fromMaybe)
import GHC.IO.Exception (IOException (ioe_description))
import Millrace.Cli.Base.Failure
import Millrace.Manager
import System.Environment (lookupEnv)

-- | The backends that can be chosen, by name. 'Nothing' is the automatic choice.
backendChoices :: [(String, Maybe Backend)]
backendChoices = ("auto", Nothing) : [(backendName backend, Just backend) | backend <- [minBound ..]]

-- | The environment variable that the I/O manager reads when no backend is chosen otherwise.
environmentVariable :: String
environmentVariable = "MILLRACE_BACKEND"

-- | The choice in the environment. 'Left' is a name that no backend has.
environmentBackend :: IO (Either String (Maybe Backend))
environmentBackend = do
  name <- fromMaybe "" <$> lookupEnv environmentVariable
  pure (if null name then Right Nothing else maybe (Left name) Right (lookup name backendChoices))

-- | Starts the I/O manager on a backend, or on one that it chooses itself, and returns which. Throws 'Failure'.
startManager :: Maybe Backend -> IO Backend
startManager requested =
  (selectBackend requested >> loopCount >> chosenBackend)
    `catches` [Handler (explain requested >=> throwIO), Handler (throwIO . withoutDescriptors)]
  where
    withoutDescriptors problem =
      Failure
        { failureAttempt = "start the I/O manager",
          failureReason = ioe_description problem,
          failureRemedy = moreDescriptors
        }

explain :: Maybe Backend -> MillraceException -> IO Failure
explain requested exception = do
  environment <- environmentBackend
  case (exception, requested, environment) of
    (BackendUnavailable _ why, Just backend, _) ->
      failure (" with " <> backendName backend) <$> reasonAgainst backend why
    (BackendUnavailable _ why, Nothing, Right (Just backend)) ->
      failure (asInEnvironment (backendName backend)) <$> reasonAgainst backend why
    (BackendUnavailable _ _, Nothing, Left name) -> pure (failure (asInEnvironment name) unknown)
    (BackendUnavailable _ why, Nothing, Right Nothing) -> pure (failure "" why)
    _ -> pure (failure "" (displayException exception))
  where
    asInEnvironment name = " with " <> environmentVariable <> "=" <> name
    unknown = "there is no such backend; choose one of: " <> intercalate ", " (map fst backendChoices)
    failure with reason =
      Failure
        { failureAttempt = "start the I/O manager" <> with,
          failureReason = reason,
          failureRemedy = "'millrace doctor' shows which backends work here; --backend auto takes the first of them."
        }

-- The probe knows more than an error number. Probing is safe here: the manager has already tried this backend.
reasonAgainst :: Backend -> String -> IO String
reasonAgainst backend why = do
  refused <- probeBackend backend
  loops <- getNumCapabilities
  pure (fromMaybe (why <> "; it " <> tooManyLoops backend loops) refused)

-- | The message about a backend that can start one loop, but not this many.
tooManyLoops :: Backend -> Int -> String
tooManyLoops backend loops = "cannot start " <> (if loops == 1 then "a loop" else show loops <> " loops") <> hint
  where
    hint =
      if backend `elem` [Hybrid, IoUring]
        then ": what their rings take is counted, and ulimit -l (RLIMIT_MEMLOCK) is too low"
        else ""
