{-# LANGUAGE LambdaCase #-}

-- | Serves what a configuration file says, and takes another one while it runs. Must not know: sockets.
module Millrace.Cli.Run
  ( run,
    check,
    reload,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, takeMVar, tryPutMVar)
import Control.Exception (IOException, SomeException, bracket_, catch, handle, throwIO, toException, try)
import Control.Monad (forever, unless, void, when)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isDigit, isSpace)
import Data.Foldable (traverse_)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.List (intercalate, isPrefixOf)
import Data.Maybe (maybeToList)
import Millrace.Cli.Command (ServerOptions (..), noLimitOptions)
import Millrace.Cli.Configuration
import Millrace.Cli.Document (renderMistake)
import Millrace.Cli.Failure
import Millrace.Cli.Replaceable
import Millrace.Cli.Server
import Millrace.Cli.Sites
import Millrace.Cli.System (Hangup (..), onHangup, processNumber, tellHangup)
import Millrace.Cli.Tls (checkTls)
import System.Directory (doesDirectoryExist, removeFile)
import System.FilePath (takeDirectory)

-- | Serves what a file says until a signal stops it, as 'serve' does. At SIGHUP it reads the file again: new requests are answered as the
-- file says now, and open ones end as they began. If the file cannot be used, or says something that needs a restart, that is told
-- and nothing changes.
--
-- Blocks. Throws 'Failure'. Must be called once, as 'serve'.
--
-- @since 0.1.0
run :: Makers -> FilePath -> IO ()
run makers file = do
  -- SIGHUP may come at any moment, and without a handler it ends the program. One that comes before the server runs is remembered.
  asked <- newEmptyMVar
  onHangup (void (tryPutMVar asked ()))
  first <- load file
  serveWith (configurationServer first) HangupIsNoEnd (madeUpstreams makers) $ \running use ->
    withReplaceable (withSites makers (configurationSites first)) $ \application replace ->
      withPidFile (configurationPidFile first) $ do
        current <- newIORef first
        void . forkIO . forever . (takeMVar asked >>) . sayOutcome $ do
          next <- load file
          before <- readIORef current
          unless (null (fixed before next)) (throwIO (needsRestart (fixed before next)))
          replace (withSites makers (configurationSites next))
          when (serverTls (configurationServer before) /= serverTls (configurationServer next)) $
            traverse_ (useCertificates running) (serverTls (configurationServer next))
              `catch` \failure -> replace (withSites makers (configurationSites before)) >> throwIO (failure :: SomeException)
          writeIORef current next
        use application
  where
    sayOutcome action =
      try action >>= \case
        Right () -> tell ("millrace: " <> file <> " was read again; new requests are answered as it says")
        Left failure -> tell ("millrace: everything stays as it was: " <> reasonOf failure)
    needsRestart parts =
      Failure
        { failureAttempt = "use the changed " <> file,
          failureReason = intercalate " and " parts <> (if length parts == 1 then " has changed" else " have changed"),
          failureRemedy = "This needs a restart. With 'reuse-port' the next server can be started before this one is stopped."
        }

-- The parts of a configuration that have changed and cannot while the server runs. There is https before and afterwards or never, as long
-- as 'listen' is the same.
fixed :: Configuration -> Configuration -> [String]
fixed before next =
  ["'listen'" | serverListens old /= serverListens new]
    <> ["'process'" | without old /= without new || configurationPidFile before /= configurationPidFile next]
    <> ["'limits'" | serverLimits old /= serverLimits new]
  where
    old = configurationServer before
    new = configurationServer next
    without server = server {serverListens = [], serverTls = Nothing, serverLimits = noLimitOptions}

-- | Reads a file, and does what a server would do before it listens: opens directories, makes proxies, and reads certificates and keys.
-- The access log and the pid file are not written, but the folders for them must be there. Throws 'Failure' if the server would.
--
-- @since 0.1.0
check :: Makers -> FilePath -> IO ()
check makers file = do
  found <- loadUsable makers file
  mapM_ (needsFolder "access-log") (filter (/= "-") (maybeToList (serverAccessLog (configurationServer found))))
  mapM_ (needsFolder "pid-file") (configurationPidFile found)
  say (file <> ": OK, " <> counted (length (configurationSites found)) "site" <> ", " <> counted (length (serverListens (configurationServer found))) "address" <> "\n")
  where
    counted 1 thing = "1 " <> thing
    counted count thing = show count <> " " <> thing <> (if last thing == 's' then "es" else "s")

-- The folder of a file that the server will write. Service managers make some folders only when they start the server (systemd's
-- RuntimeDirectory= and LogsDirectory=), and only the server's user may see those. So a folder in such a place may be missing here.
needsFolder :: String -> FilePath -> IO ()
needsFolder key path = do
  isThere <- doesDirectoryExist folder
  unless isThere $
    if any (`isPrefixOf` folder) ["/run/", "/var/run/", "/var/log/", "/var/lib/", "/var/cache/"]
      then tell ("millrace: there is no " <> folder <> " now, the folder of '" <> key <> "'; this is right if the service manager makes it at the start")
      else throwIO (Failure ("write " <> path) ("there is no folder " <> folder) ("Make it, or give '" <> key <> "' in 'process' another path."))
  where
    folder = takeDirectory path

-- | Checks a file, and tells the server that runs with it to read it again. Throws 'Failure'.
--
-- @since 0.1.0
reload :: Makers -> FilePath -> IO ()
reload makers file = do
  found <- loadUsable makers file
  pidFile <- maybe (throwIO unnamed) pure (configurationPidFile found)
  content <- (filter (not . isSpace) <$> readFile pidFile) `catch` (throwIO . unreadable pidFile)
  number <- if not (null content) && all isDigit content && length content < 10 && read content > (1 :: Int) then pure (read content) else throwIO (notNumber pidFile)
  tellHangup number `catch` (throwIO . untold number)
  say ("process " <> show number <> " was told to read " <> file <> "; its messages say whether it does\n")
  where
    attempt = "tell the server to read " <> file
    unnamed = Failure attempt "the file has no 'pid-file' in 'process'" "Name one and restart the server, or send SIGHUP to it: systemctl reload millrace."
    unreadable pidFile failure = Failure attempt (pidFile <> ": " <> reasonOfIO failure) "Is the server running?"
    notNumber pidFile = Failure attempt (pidFile <> " has no number of a process") "Remove it, and restart the server."
    untold number failure = Failure attempt ("process " <> show (number :: Int) <> ": " <> reasonOfIO failure) "Is the server running, and is this its user, or root?"

reasonOfIO :: IOException -> String
reasonOfIO = reasonOf . toException

-- Also makes the sites once, because that may fail: directories are opened, and users are read. The same for the certificates.
loadUsable :: Makers -> FilePath -> IO Configuration
loadUsable makers file = do
  found <- load file
  mapM_ checkTls (serverTls (configurationServer found))
  found <$ withSites makers (configurationSites found) (const (pure ()))

load :: FilePath -> IO Configuration
load file = do
  text <- ByteString.readFile file `catch` (throwIO . unreadable)
  either (throwIO . mistaken) pure (readConfiguration text)
  where
    unreadable failure = Failure ("read " <> file) (reasonOfIO failure) "Give the path of a configuration file: millrace run FILE."
    mistaken mistakes =
      Failure
        { failureAttempt = "use " <> file,
          failureReason = intercalate "\n  " ((if length mistakes == 1 then "one mistake" else show (length mistakes) <> " mistakes") : map (renderMistake file) mistakes),
          failureRemedy = "The guide's page \"Configuring\" has every key, with an example."
        }

-- The file has the number of this process while an action runs.
withPidFile :: Maybe FilePath -> IO a -> IO a
withPidFile Nothing action = action
withPidFile (Just path) action = bracket_ write remove action
  where
    write = (processNumber >>= writeFile path . (<> "\n") . show) `catch` (throwIO . failed)
    -- The next server may have written its own number: with 'reuse-port' it begins before this one ends.
    remove = handle ignoring $ do
      number <- processNumber
      content <- ByteString.readFile path
      when (Char8.words content == [Char8.pack (show number)]) (removeFile path)
    ignoring :: IOException -> IO ()
    ignoring _ = pure () -- Somebody has removed it already.
    failed failure = Failure ("write " <> path) (reasonOfIO failure) "'pid-file' is a path that the server's user may write to."
