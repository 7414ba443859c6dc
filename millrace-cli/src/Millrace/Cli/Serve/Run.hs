{-# LANGUAGE LambdaCase #-}
{-# LANGUAGE TupleSections #-}

-- Must not know: sockets.

-- | Serves the sites of a configuration file, and uses the changed file while it runs.
module Millrace.Cli.Serve.Run
  ( run,
    check,
    reload,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (modifyMVar_, newEmptyMVar, newMVar, putMVar, takeMVar, tryPutMVar)
import Control.Exception (IOException, SomeException, bracket, catch, finally, mask, throwIO, toException, try)
import Control.Monad (forever, unless, void, when, (>=>))
import Data.ByteString (ByteString)
import Data.Foldable (toList, traverse_)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Data.List (intercalate, isPrefixOf, nub, (\\))
import Data.Maybe (maybeToList)
import Millrace.Cli.Base.Address (authority)
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.NameBytes (nameBytes, readTextFile)
import Millrace.Cli.Base.System (Hangup (..), onHangup)
import Millrace.Cli.Config.Configuration
import Millrace.Cli.Config.Document (Mistake, mistakeAt, positionsOfText, renderMistake)
import Millrace.Cli.Config.Options (ListenOptions (..), ServerOptions (..))
import Millrace.Cli.Config.ServerSettings (limitSettings, pidFileSetting, processSettings)
import Millrace.Cli.Config.Setting (Settings (written))
import Millrace.Cli.Observe.AccessLog (accessLogFailure)
import Millrace.Cli.Serve.PidFile
import Millrace.Cli.Serve.Server
import Millrace.Cli.Serve.Sites
import Millrace.Cli.Serve.Tls (checkTls)
import Millrace.Deadline (deadlineAfter, isDeadlineError, seconds)
import Millrace.Http.Expiring
import Network.Wai (Application)
import System.Directory (canonicalizePath, doesDirectoryExist)
import System.Exit (ExitCode (ExitFailure))
import System.FilePath (isRelative, takeDirectory)

-- | Serves the sites of a file until a signal stops it, as 'serve' does. At SIGHUP, and when 'reload' asks, it reads
-- the file again: new requests are answered by the changed file, and open ones end as they began. If the file cannot be
-- used, or changes a setting that needs a restart, a message says so and nothing changes.
--
-- Blocks. Throws 'Failure'. Must be called once, as 'serve'.
run :: Makers -> FilePath -> IO ()
run makers file = do
  -- SIGHUP may come at any moment, and without a handler it ends the program. One that comes before the server runs is
  -- remembered.
  asked <- newEmptyMVar
  onHangup (void (tryPutMVar asked ()))
  loaded <- load file
  let first = loadedConfiguration loaded
  locating loaded . serveWith (configurationServer first) HangupIsNoEnd (madeUpstreams makers) $ \running use ->
    withReplaceable (withSites makers (configurationSites first)) $ \application replace -> do
      -- Only one thread at a time reads the file and replaces what is used.
      current <- newMVar first
      let readAgain = modifyMVar_ current $ \before -> do
            again <- load file
            let next = loadedConfiguration again
            unless (null (fixed before next)) (throwIO (needsRestart (fixed before next)))
            locating again $ do
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
          failureReason = enumerated parts <> (if length parts == 1 then " has changed" else " have changed"),
          failureRemedy =
            "This needs a restart. With 'reuse-port' the next server can be started before this one is stopped."
        }

    enumerated parts = case splitAt (length parts - 1) parts of
      ([], lastOnes) -> concat lastOnes
      (others, lastOnes) -> intercalate ", " others <> " and " <> concat lastOnes

-- 'reload' may run in another folder than the server.
canonical :: FilePath -> IO ByteString
canonical file = nameBytes <$> canonicalizePath file

takenText :: FilePath -> String
takenText file = file <> " was read again; new requests are answered as it says"

-- The changed settings that need a restart. Certificates need none: as long as 'listen' stays, there is https before
-- and afterwards or not at all.
fixed :: Configuration -> Configuration -> [String]
fixed before next =
  ["'listen'" <> addresses | listens before /= listens next]
    <> changed "process" process
    <> changed "limits" (written limitSettings . serverLimits . configurationServer)
  where
    listens = toList . serverListens . configurationServer
    process found =
      written processSettings (configurationServer found) <> written pidFileSetting (configurationPidFile found)
    -- The addresses that are new or have another protocol, or else those that are gone.
    addresses = case (listens next \\ listens before, listens before \\ listens next) of
      ([], []) -> ""
      ([], gone) -> inBrackets gone
      (new, _) -> inBrackets new
    inBrackets found = " (" <> intercalate ", " [authority (listenHost one) (listenPort one) | one <- found] <> ")"
    changed section keysOf =
      [ "'" <> key <> "' in '" <> section <> "'"
        | key <- nub (map fst (keysOf before <> keysOf next)),
          lookup key (keysOf before) /= lookup key (keysOf next)
      ]

-- | Checks a file. It reads it, and does what a server does before it listens: opens directories, makes proxies, and
-- reads certificates and keys. The access log and the pid file are not written, but it must be possible to write them.
-- Throws 'Failure' if the server could not start.
check :: Makers -> FilePath -> IO ()
check makers file = do
  loaded <- load file
  let found = loadedConfiguration loaded
  locating loaded $ do
    mapM_ checkTls (serverTls (configurationServer found))
    withSites makers (configurationSites found) (const (pure ()))
    mapM_
      (\path -> needsWritable "access-log" (accessLogFailure path) path)
      (filter (/= "-") (maybeToList (serverAccessLog (configurationServer found))))
    mapM_ (\path -> needsWritable "pid-file" (pidFileFailure path) path) (configurationPidFile found)
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

-- Checks a file that the server will write: it is no directory, and its folder is there. Service managers make some
-- folders only when they start the server (systemd's RuntimeDirectory= and LogsDirectory=), and only the server's user
-- may see those. So a folder in such a location may be missing here.
needsWritable :: String -> (String -> FileFailure) -> FilePath -> IO ()
needsWritable key failure path = do
  isDirectory <- doesDirectoryExist path
  when isDirectory (throwIO (failure "it is a directory"))
  isThere <- doesDirectoryExist folder
  unless (isThere || isMadeAtStart) (throwIO (failure ("there is no folder " <> folder)))
  unless isThere (tell ("millrace: there is no " <> folder <> " now, the folder of '" <> key <> mayBeMade))
  where
    folder = takeDirectory path
    mayBeMade = "'; this is right if the service manager makes it at the start"
    isMadeAtStart = any (`isPrefixOf` folder) ["/run/", "/var/run/", "/var/log/", "/var/lib/", "/var/cache/"]

-- | Asks the server that runs with a file to read it again, and waits for the outcome, for this many seconds at most.
-- Throws 'Failure', or 'ExitCode' after it has printed the server's reasons for refusing the file.
reload :: Int -> FilePath -> IO ()
reload limit file = do
  found <- loadedConfiguration <$> load file
  path <- reloadSocketPath <$> maybe (throwIO unnamed) pure (configurationPidFile found)
  deadline <- deadlineAfter (seconds limit)
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
          ("it has not answered within " <> show limit <> (if limit == 1 then " second" else " seconds"))
          "It may still take the file; its messages say so. --timeout waits longer."
      | otherwise = Failure attempt (path <> ": " <> reasonOfIO failure) (folderRemedy path <> userRemedy)
    userRemedy = "The server must be running, and this must be its user, or root."
    folderRemedy path
      | isRelative path =
        "'pid-file' is relative to the folder in which the server was started: run this command there, or give \
        \'pid-file' an absolute path. "
      | otherwise = ""

reasonOfIO :: IOException -> String
reasonOfIO = reasonOf . toException

-- A configuration, and the file that it is from.
data Loaded = Loaded
  { loadedConfiguration :: Configuration,
    loadedFile :: FilePath,
    loadedText :: ByteString
  }

load :: FilePath -> IO Loaded
load file = do
  text <- readTextFile file `catch` (throwIO . unreadable)
  either
    (throwIO . mistaken file "The guide's page \"Configuring\" has every key, with an example.")
    (\found -> pure (Loaded found file text))
    (readConfiguration text)
  where
    unreadable failure =
      Failure ("read " <> file) (reasonOfIO failure) "Give the path of a configuration file: millrace run FILE."

-- Runs an action. If it cannot use a file that the configuration names, the failure says where that is.
locating :: Loaded -> IO a -> IO a
locating loaded action =
  action `catch` \(FileFailure keys path failure) ->
    throwIO $ case positionsOfText keys path (loadedText loaded) of
      [] -> failure
      positions ->
        mistaken (loadedFile loaded) (failureRemedy failure) (map (`mistakeAt` described failure) positions)
  where
    described failure = "cannot " <> failureAttempt failure <> ": " <> failureReason failure

-- A file has mistakes.
mistaken :: FilePath -> String -> [Mistake] -> Failure
mistaken file remedy mistakes =
  Failure
    { failureAttempt = "use " <> file,
      failureReason =
        intercalate
          "\n  "
          ( counted mistakes :
            map (renderMistake file) (take mostShown mistakes)
              <> ["and " <> show more <> " more" | more > 0]
          ),
      failureRemedy = remedy
    }
  where
    more = length mistakes - mostShown
    counted [_] = "one mistake"
    counted several = show (length several) <> " mistakes"
    -- A generated file can have the same mistake a thousand times, and the first ones must stay in sight.
    mostShown = 20

------------------------------------------------------------------------------------------------------------------------
-- An application that can be replaced while requests run

-- Runs an action with an application that is there until the action ends.
type Maker = (Application -> IO ()) -> IO ()

-- Runs an action with an application, and a function that replaces it: new requests then go to the new application.
-- The earlier one stays until its last request has ended. If the new one cannot be made, replacing throws what its
-- maker throws, and the earlier one stays. A request costs two atomic operations more.
withReplaceable :: Maker -> (Application -> (Maker -> IO ()) -> IO a) -> IO a
withReplaceable first use = bracket (begin first >>= newIORef) (readIORef >=> release) $ \current -> do
  let replace make = mask $ \_ -> begin make >>= \next -> atomicModifyIORef' current (next,) >>= release
  use (serving current) replace
  where
    serving current request respond = do
      found <- readIORef current
      mask $ \restore -> do
        isThere <- retain found
        if isThere
          then restore (sharedValue found request respond) `finally` release found
          else restore (serving current request respond)

-- The application ends when its last user has released it.
begin :: Maker -> IO (Shared Application)
begin make = do
  made <- newEmptyMVar
  over <- newEmptyMVar
  void . forkIO $ do
    outcome <- try (make (\application -> putMVar made (Right application) >> takeMVar over))
    either (\failure -> void (tryPutMVar made (Left (failure :: SomeException)))) pure outcome
  takeMVar made >>= either throwIO (share (void (tryPutMVar over ())))
