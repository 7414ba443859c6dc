{-# LANGUAGE LambdaCase #-}

-- | Serves what a configuration file says, and takes another one while it runs. Must not know: sockets.
module Millrace.Cli.Serve.Run
  ( run,
    check,
    reload,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (modifyMVar_, newEmptyMVar, newMVar, takeMVar, tryPutMVar)
import Control.Exception (IOException, SomeException, catch, throwIO, toException, try)
import Control.Monad (forever, unless, void, when)
import Data.ByteString (ByteString)
import Data.Foldable (traverse_)
import Data.List (intercalate, isPrefixOf)
import Data.Maybe (maybeToList)
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.NameBytes (nameBytes, readTextFile)
import Millrace.Cli.Base.System (Hangup (..), onHangup)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Document (renderMistake)
import Millrace.Cli.Config.Limit (noLimitOptions)
import Millrace.Cli.Config.Options (ServerOptions (..))
import Millrace.Cli.Serve.Control
import Millrace.Cli.Serve.PidFile
import Millrace.Cli.Serve.Replaceable
import Millrace.Cli.Serve.Server
import Millrace.Cli.Serve.Sites
import Millrace.Cli.Serve.Tls (checkTls)
import Millrace.Deadline (deadlineAfter, isDeadlineError)
import System.Directory (canonicalizePath, doesDirectoryExist)
import System.Exit (ExitCode (ExitFailure))
import System.FilePath (takeDirectory)

-- | Serves what a file says until a signal stops it, as 'serve' does. At SIGHUP it reads the file again: new requests
-- are answered as the file says now, and open ones end as they began. If the file cannot be used, or says something
-- that needs a restart, that is told and nothing changes. 'reload' asks for the same.
--
-- Blocks. Throws 'Failure'. Must be called once, as 'serve'.
run :: Makers -> FilePath -> IO ()
run makers file = do
  -- SIGHUP may come at any moment, and without a handler it ends the program. One that comes before the server runs is
  -- remembered.
  asked <- newEmptyMVar
  onHangup (void (tryPutMVar asked ()))
  first <- load file
  serveWith (configurationServer first) HangupIsNoEnd (madeUpstreams makers) $ \running use ->
    withReplaceable (withSites makers (configurationSites first)) $ \application replace -> do
      -- Only one thread at a time reads the file and replaces what is used.
      current <- newMVar first
      let readAgain = modifyMVar_ current $ \before -> do
            next <- load file
            unless (null (fixed before next)) (throwIO (needsRestart (fixed before next)))
            replace (withSites makers (configurationSites next))
            when (serverTls (configurationServer before) /= serverTls (configurationServer next)) $
              traverse_ (useCertificates running) (serverTls (configurationServer next))
                `catch` \failure ->
                  replace (withSites makers (configurationSites before)) >> throwIO (failure :: SomeException)
            pure next
          reloading = try readAgain >>= told
      void . forkIO . forever $ takeMVar asked >> reloading
      withPidFile (configurationPidFile first) (onlyFor reloading) (use application)
  where
    onlyFor reloading asked = do
      own <- canonical file
      if asked == own then reloading else pure (Refused ("it runs with " <> file <> ", which is another file"))
    told = \case
      Right () -> Taken <$ tell ("millrace: " <> takenText file)
      Left failure -> Refused (reasonOf failure) <$ tell ("millrace: everything stays as it was: " <> reasonOf failure)
    needsRestart parts =
      Failure
        { failureAttempt = "use the changed " <> file,
          failureReason = intercalate " and " parts <> (if length parts == 1 then " has changed" else " have changed"),
          failureRemedy =
            "This needs a restart. With 'reuse-port' the next server can be started before this one is stopped."
        }

-- A file is asked for from another folder than that in which the server was started.
canonical :: FilePath -> IO ByteString
canonical file = nameBytes <$> canonicalizePath file

takenText :: FilePath -> String
takenText file = file <> " was read again; new requests are answered as it says"

-- The parts of a configuration that have changed and cannot while the server runs. There is https before and afterwards
-- or never, as long as 'listen' is the same.
fixed :: Configuration -> Configuration -> [String]
fixed before next =
  ["'listen'" | serverListens old /= serverListens new]
    <> ["'process'" | without old /= without new || configurationPidFile before /= configurationPidFile next]
    <> ["'limits'" | serverLimits old /= serverLimits new]
  where
    old = configurationServer before
    new = configurationServer next
    without server = server {serverListens = serverListens old, serverTls = Nothing, serverLimits = noLimitOptions}

-- | Reads a file, and does what a server would do before it listens: opens directories, makes proxies, and reads
-- certificates and keys. The access log and the pid file are not written, but the folders for them must be there.
-- Throws 'Failure' if the server would.
check :: Makers -> FilePath -> IO ()
check makers file = do
  found <- loadUsable makers file
  mapM_ (needsFolder "access-log") (filter (/= "-") (maybeToList (serverAccessLog (configurationServer found))))
  mapM_ (needsFolder "pid-file") (configurationPidFile found)
  say
    ( file
        <> ": OK, "
        <> counted (length (configurationSites found)) "site"
        <> ", "
        <> counted (length (serverListens (configurationServer found))) "address"
        <> "\n"
    )
  where
    counted 1 thing = "1 " <> thing
    counted count thing = show count <> " " <> thing <> (if last thing == 's' then "es" else "s")

-- The folder of a file that the server will write. Service managers make some folders only when they start the server
-- (systemd's RuntimeDirectory= and LogsDirectory=), and only the server's user may see those. So a folder in such a
-- place may be missing here.
needsFolder :: String -> FilePath -> IO ()
needsFolder key path = do
  isThere <- doesDirectoryExist folder
  unless isThere $
    if any (`isPrefixOf` folder) ["/run/", "/var/run/", "/var/log/", "/var/lib/", "/var/cache/"]
      then
        tell
          ( "millrace: there is no "
              <> folder
              <> " now, the folder of '"
              <> key
              <> "'; this is right if the service manager makes it at the start"
          )
      else
        throwIO
          ( Failure
              ("write " <> path)
              ("there is no folder " <> folder)
              ("Make it, or give '" <> key <> "' in 'process' another path.")
          )
  where
    folder = takeDirectory path

-- | Has the server that runs with a file read it again, and waits for this many seconds at most until the server says
-- whether it takes it. Throws 'Failure', and 'ExitCode' when it has told the server's reasons for refusing it.
reload :: Int -> FilePath -> IO ()
reload seconds file = do
  found <- load file
  path <- controlPath <$> maybe (throwIO unnamed) pure (configurationPidFile found)
  deadline <- deadlineAfter (1000000 * seconds)
  outcome <- (canonical file >>= askToReload deadline path) `catch` (throwIO . notAsked path)
  case outcome of
    Just Taken -> say (takenText file <> "\n")
    Just (Refused reason) ->
      tell ("millrace: the server refuses " <> file <> ", and everything stays as it was: " <> reason)
        >> throwIO (ExitFailure 1)
    Nothing ->
      throwIO (Failure attempt "the server ended before it said whether it takes the file" "Its messages say why.")
  where
    attempt = "have the server read " <> file
    unnamed =
      Failure
        attempt
        "the file has no 'pid-file' in 'process'"
        "Name one and restart the server, or send SIGHUP to it: its messages say whether it takes the file."
    notAsked path failure
      | isDeadlineError failure =
        Failure
          attempt
          ("it has not answered within " <> show seconds <> (if seconds == 1 then " second" else " seconds"))
          "It may still take the file; its messages say so. --timeout waits longer."
      | otherwise =
        Failure attempt (path <> ": " <> reasonOfIO failure) "Is the server running, and is this its user, or root?"

reasonOfIO :: IOException -> String
reasonOfIO = reasonOf . toException

-- Also makes the sites once, because that may fail: directories are opened, and users are read. The same for the
-- certificates.
loadUsable :: Makers -> FilePath -> IO Configuration
loadUsable makers file = do
  found <- load file
  mapM_ checkTls (serverTls (configurationServer found))
  found <$ withSites makers (configurationSites found) (const (pure ()))

load :: FilePath -> IO Configuration
load file = do
  text <- readTextFile file `catch` (throwIO . unreadable)
  either (throwIO . mistaken) pure (readConfiguration text)
  where
    unreadable failure =
      Failure ("read " <> file) (reasonOfIO failure) "Give the path of a configuration file: millrace run FILE."
    mistaken mistakes =
      Failure
        { failureAttempt = "use " <> file,
          failureReason =
            intercalate
              "\n  "
              ( counted mistakes :
                map (renderMistake file) (take mostShown mistakes)
                  <> ["and " <> show more <> " more" | more > 0]
              ),
          failureRemedy = "The guide's page \"Configuring\" has every key, with an example."
        }
      where
        more = length mistakes - mostShown
    counted [_] = "one mistake"
    counted mistakes = show (length mistakes) <> " mistakes"
    -- A generated file can have the same mistake a thousand times, and the first ones must stay in sight.
    mostShown = 20
