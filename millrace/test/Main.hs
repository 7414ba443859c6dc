-- | Runs every test on every backend: once per backend, this program runs itself with @MILLRACE_BACKEND@ set, because a
-- process uses one backend for life. A backend that the system refuses is reported as skipped, with the reason.
module Main (main) where

import qualified All
import Control.Exception (catch)
import Control.Monad (forM, unless)
import Millrace.Manager (Backend, backendName, probeBackend)
import Scenario (runScenario)
import Support (firstSeed, within)
import System.Directory (getTemporaryDirectory, removeFile)
import System.Environment (getArgs, getEnvironment, getExecutablePath, lookupEnv)
import System.Exit (exitFailure)
import System.IO (BufferMode (..), hClose, hPrint, hSetBuffering, openTempFile, stderr, stdout)
import System.Process (CreateProcess (..), createProcess, proc, terminateProcess, waitForProcess)
import qualified System.Timeout as Base
import Test.Hspec (around_)
import Test.Hspec.Runner (Summary (..), defaultConfig, hspecWithResult)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  arguments <- getArgs
  summaryFile <- lookupEnv summaryVariable
  case (arguments, summaryFile) of
    (["--scenario", name], _) -> runScenario name
    (_, Just file) -> runSpecs file
    (_, Nothing) -> runOnEachBackend arguments

-- | The file into which the child writes how many examples it ran and how many of them failed.
summaryVariable :: String
summaryVariable = "MILLRACE_TEST_SUMMARY"

runSpecs :: FilePath -> IO ()
runSpecs file = do
  seed <- firstSeed
  putStrLn ("simulated machines: seeds from " ++ show seed ++ " on (another first one: MILLRACE_FIRST_SEED)")
  summary <- hspecWithResult defaultConfig (around_ (within 180 "the test") All.spec)
  writeFile file (show (summaryExamples summary, summaryFailures summary))
  unless (summaryFailures summary == 0) exitFailure

data Outcome = Skipped String | Ran Int Int | Broken String

runOnEachBackend :: [String] -> IO ()
runOnEachBackend arguments = do
  outcomes <- forM [minBound .. maxBound] $ \backend -> do
    refusal <- probeBackend backend
    outcome <- maybe (runOn backend arguments) (return . Skipped) refusal
    return (backend, outcome)
  putStrLn ""
  mapM_ (putStrLn . describeOutcome) outcomes
  let failed = sum [count | (_, Ran _ count) <- outcomes] + length [() | (_, Broken _) <- outcomes]
      passed = sum [examples - count | (_, Ran examples count) <- outcomes]
  putStrLn (show passed ++ " passed, " ++ show failed ++ " failed")
  unless (failed == 0 && passed > 0) exitFailure

describeOutcome :: (Backend, Outcome) -> String
describeOutcome (backend, outcome) =
  backendName backend ++ ": " ++ case outcome of
    Skipped reason -> "skipped, because it does not work here: " ++ reason
    Ran examples failures -> show (examples - failures) ++ " passed, " ++ show failures ++ " failed"
    Broken how -> how

runOn :: Backend -> [String] -> IO Outcome
runOn backend arguments = do
  putStrLn ("\n=== " ++ backendName backend)
  program <- getExecutablePath
  environment <- getEnvironment
  directory <- getTemporaryDirectory
  (file, handle) <- openTempFile directory "millrace-test-summary"
  hClose handle
  let settings = [("MILLRACE_BACKEND", backendName backend), (summaryVariable, file)]
      inherited = filter ((`notElem` map fst settings) . fst) environment
  (_, _, _, child) <- createProcess (proc program arguments) {env = Just (settings ++ inherited)}
  code <- Base.timeout (limitSeconds * 1000000) (waitForProcess child)
  written <- readFile file
  outcome <- case (code, reads written) of
    (Nothing, _) -> Broken ("not done after " ++ show limitSeconds ++ " s") <$ terminateProcess child
    (Just _, [((examples, failures), "")]) -> return (Ran examples failures)
    (Just how, _) -> return (Broken ("ended without a result: " ++ show how))
  removeFile file `catch` \problem -> hPrint stderr (problem :: IOError)
  return outcome
  where
    limitSeconds = 600
