{-# LANGUAGE OverloadedStrings #-}

-- | The @millrace@ command: reads the command line and runs what it asks for.
module Millrace.Cli
  ( main,
  )
where

import Control.Exception (SomeAsyncException, SomeException, catch, fromException, handle, throwIO)
import Control.Monad (unless)
import Data.Maybe (fromMaybe, isJust)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.NameBytes (useNamesAsBytes)
import Millrace.Cli.Base.System (Hangup (..))
import Millrace.Cli.Config.Command
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.ConfigurationText
import Millrace.Cli.Config.Options
import Millrace.Cli.Config.Reference
import Millrace.Cli.Files.Compression (compressionCodings)
import Millrace.Cli.Files.ErrorPage (withErrorPage)
import Millrace.Cli.Files.Policy (Compression (..), OnError (..))
import Millrace.Cli.Files.StaticFiles
import Millrace.Cli.Middleware.SitePolicy (OwnAnswers (..), plainPolicy)
import Millrace.Cli.Observe.Upstream (Upstreams, newUpstreams, readUpstreams)
import Millrace.Cli.Serve.Doctor
import Millrace.Cli.Serve.ReverseProxy (failureResponse, withReverseProxy)
import Millrace.Cli.Serve.Run
import Millrace.Cli.Serve.Server
import Millrace.Cli.Serve.Sites (Makers (..))
import Network.HTTP.Types (hContentType, status200)
import Network.Wai (Application, Middleware, responseLBS)
import Network.Wai.Handler.Millrace (FailedWithAnswer (..))
import qualified Options.Applicative as Options
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (ExitSuccess), exitFailure, exitSuccess, exitWith)

-- | Reads the command line and does what it says. Names of files are bytes from then on, whatever the locale. The exit
-- status is 0 when the work is done or was stopped, 1 when it could not be done, 2 when the command line was wrong.
main :: IO ()
main = useNamesAsBytes >> reportFailures (getArgs >>= commandOf >>= perform)

-- The command of these arguments. Ends the program after help and after wrong usage. The parser library has a function
-- for this, but it does not notice when the help cannot be written, and its exit status is another one when the message
-- about wrong usage cannot be.
commandOf :: [String] -> IO Command
commandOf arguments = case readCommand arguments of
  Options.Success command -> pure command
  Options.Failure failure -> do
    (text, code) <- explained arguments failure <$> getProgName
    if code == ExitSuccess then say (text <> "\n") else tell text
    exitWith code
  Options.CompletionInvoked completion -> getProgName >>= Options.execCompletion completion >>= say >> exitSuccess

-- The text for these arguments, and the exit status. An argument may have bytes for which the locale has no characters.
-- The run-time system represents such a byte by a surrogate, and new versions of the parser's library replace
-- surrogates in their texts. So this parses the arguments with private characters in place of surrogates.
explained :: [String] -> Options.ParserFailure Options.ParserHelp -> String -> (String, ExitCode)
explained arguments failure program = case readCommand (map (map (shifted surrogates privates)) arguments) of
  Options.Failure other -> (map (shifted privates surrogates) (fst (Options.renderFailure other program)), code)
  _ -> (text, code)
  where
    (text, code) = Options.renderFailure failure program
    surrogates = ['\xDC80' .. '\xDCFF']
    privates = ['\xF0080' .. '\xF00FF']
    shifted from to character = fromMaybe character (lookup character (zip from to))

perform :: Command -> IO ()
perform command = case command of
  Serve files options ->
    newCompressor compressedBytesMax >>= \compressor -> site compressor files >>= serve options . staticFiles
  Proxy targets options ->
    newUpstreams >>= \upstreams ->
      serveWith
        options
        HangupEnds
        (readUpstreams upstreams)
        (\_ use -> withProxy upstreams targets (\_ application -> use application id))
  Pong options -> serve options pong
  Print (Serve files options) -> printFor (ServeFiles files) options
  Print (Proxy targets options) -> printFor (PassOn targets) options
  Print other -> perform other
  Run file -> newMakers >>= (`run` file)
  Check file -> newMakers >>= (`check` file)
  Reload seconds file -> reload seconds file
  ShowSettings SettingsAsText -> say (referenceText reference)
  ShowSettings SettingsAsJson -> say (referenceJson reference <> "\n")
  Doctor options -> do
    examination <- examine (doctorBackend options)
    say ((if doctorJson options then renderAsJson else renderText) examination)
    unless (isHealthy examination) exitFailure

printFor :: Action -> ServerOptions -> IO ()
printFor action options =
  either
    (throwIO . unwritable)
    say
    ( renderConfiguration
        (Configuration options Nothing [SiteOptions [AnyHost] plainPolicy [RouteOptions [] plainPolicy action]])
    )
  where
    unwritable name =
      Failure
        "print a configuration"
        ("the name " <> name <> " is not UTF-8, and such a file is")
        "Rename it, or go on with options."

-- All sites share the memory for what was compressed.
newMakers :: IO Makers
newMakers = do
  compressor <- newCompressor compressedBytesMax
  upstreams <- newUpstreams
  pure
    Makers
      { makeFiles = \options use -> site compressor options >>= use . staticFiles,
        makeProxy = withProxy upstreams,
        madeUpstreams = readUpstreams upstreams
      }

-- A proxy's pages for errors are used for what the proxy itself answers, and for what the server answers on the proxy's
-- routes.
withProxy :: Upstreams -> ProxyOptions -> (OwnAnswers -> Application -> IO ()) -> IO ()
withProxy upstreams options use = case proxyErrorPages options of
  Nothing -> withReverseProxy upstreams pure options (use AsTheyAre)
  Just path -> do
    pages <- (`newErrorPages` pageMicros) =<< handle (throwIO . failure path) (openRoot StayInside path)
    withReverseProxy
      upstreams
      (withErrorPage pages)
      options
      (use (Adapted (withErrorPage pages)) . answeringFailures pages)
  where
    pageMicros = 1000000
    failure path exception =
      FileFailure
        ["error-pages"]
        path
        Failure
          { failureAttempt = "use the pages for errors in " <> path,
            failureReason = ioe_description (exception :: IOException),
            failureRemedy =
              "'error-pages' of a proxy is a directory with files 502.html, 503.html, 504.html and the like."
          }

-- An exception ends a request whose body is too large or too slow, and one whose target fails before the first bytes of
-- its response are sent on.
answeringFailures :: ErrorPages -> Middleware
answeringFailures pages application request respond = application request respond `catch` answered
  where
    answered failure
      | isJust (fromException failure :: Maybe SomeAsyncException) = throwIO (failure :: SomeException)
      | otherwise =
        withErrorPage pages (failureResponse failure) >>= \response -> throwIO (FailedWithAnswer response failure)

site :: Compressor -> FilesOptions -> IO Site
site compressor options = do
  root <- directory options
  cache <- if lifeMicros > 0 then Just <$> newFileCache lifeMicros else pure Nothing
  pages <- case filesOnError options of
    LineOfText -> pure Nothing
    PageOfSite -> Just <$> newErrorPages root lifeMicros
  compressing <- case filesCompression options of
    NoCompression -> pure Nothing
    CompressOnTheWay
      | null compressionCodings -> throwIO noCompression
      | otherwise -> pure (Just compressor)
  telling <- newSeldomTeller
  pure
    (plainSite root)
      { siteCache = cache,
        siteListing = filesListing options,
        siteFallback = filesFallback options,
        siteErrorPages = pages,
        siteCompressor = compressing,
        siteCacheRules = filesCacheRules options,
        siteOnFault = told telling
      }
  where
    lifeMicros = 1000000 * filesCacheSeconds options
    told telling request reason = telling ("millrace: " <> request <> ": " <> reason)

-- The memory for compressed files, at most.
compressedBytesMax :: Int
compressedBytesMax = 67108864

noCompression :: Failure
noCompression =
  Failure
    { failureAttempt = "compress files",
      failureReason = "millrace has no compression on this system yet",
      failureRemedy = "Leave compression out, and compress the files before (NAME.gz, NAME.br, NAME.zst)."
    }

directory :: FilesOptions -> IO Root
directory options = handle (throwIO . failure) (openRoot policy path)
  where
    path = filesDirectory options
    policy = if filesFollowLinks options then FollowLinks else StayInside
    failure exception =
      FileFailure
        ["files", "directory"]
        path
        Failure
          { failureAttempt = "serve " <> path,
            failureReason = ioe_description (exception :: IOException),
            failureRemedy =
              if ioe_filename exception == Just "/proc"
                then "Mount it: mount -t proc proc /proc."
                else "It must be a directory that this user may read."
          }

-- Answers every request with 200 and the text "Pong!": a very small answer, for measuring what a server costs.
pong :: Application
pong _request respond = respond (responseLBS status200 [(hContentType, "text/plain")] "Pong!")
