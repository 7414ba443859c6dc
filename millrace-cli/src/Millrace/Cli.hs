-- | The @millrace@ command.
module Millrace.Cli
  ( main,
  )
where

import Control.Exception (handle, throwIO)
import Control.Monad (unless)
import qualified Data.ByteString.Char8 as Char8
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Command
import Millrace.Cli.Doctor
import Millrace.Cli.Failure
import Millrace.Cli.Pong
import Millrace.Cli.Server
import Millrace.Cli.StaticFiles
import qualified Options.Applicative as Options
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (ExitSuccess), exitFailure, exitSuccess, exitWith)

-- | Reads the command line and does what it says. Ends with exit status 0 when done or stopped, 1 when it could not be
-- done, 2 when the command line was wrong.
--
-- @since 0.1.0
main :: IO ()
main = reportFailures $ getArgs >>= understood . Options.execParserPure parserPreferences commandLine >>= perform

-- Ends the program if nothing is to be done. Not by the parser's own means: they do not notice that nobody takes the help
-- that was asked for, and end with another status if nobody takes what is said of wrong usage.
understood :: Options.ParserResult Command -> IO Command
understood result = case result of
  Options.Success command -> pure command
  Options.Failure failure -> do
    (text, code) <- Options.renderFailure failure <$> getProgName
    if code == ExitSuccess then say (text <> "\n") else tell text
    exitWith code
  Options.CompletionInvoked completion -> getProgName >>= Options.execCompletion completion >>= say >> exitSuccess

perform :: Command -> IO ()
perform command = case command of
  Serve files options -> site files >>= serve options . staticFiles
  Pong options -> serve options pong
  Doctor options -> do
    examination <- examine (doctorBackend options)
    say ((if doctorJson options then renderAsJson else renderText) examination)
    unless (isHealthy examination) exitFailure

site :: FilesOptions -> IO Site
site options = do
  root <- directory options
  cache <- traverse newFileCache (if filesCacheSeconds options > 0 then Just (1000000 * filesCacheSeconds options) else Nothing)
  Site root cache (filesListing options) . told <$> newSeldomTeller
  where
    told telling path reason = telling ("millrace: " <> Char8.unpack path <> ": " <> reason)

directory :: FilesOptions -> IO Root
directory options = handle (throwIO . failure) (openRoot policy path)
  where
    path = filesDirectory options
    policy = if filesFollowLinks options then FollowLinks else StayInside
    failure exception =
      Failure
        { failureAttempt = "serve " <> path,
          failureReason = ioe_description (exception :: IOException),
          failureRemedy =
            if ioe_filename exception == Just "/proc"
              then "Mount it: mount -t proc proc /proc."
              else "Give the directory whose files are to be served: millrace serve DIR."
        }
