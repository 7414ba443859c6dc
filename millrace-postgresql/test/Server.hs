{-# LANGUAGE OverloadedStrings #-}

-- | A PostgreSQL server for the tests: on a free port of 127.0.0.1 with passwords, and on a Unix socket without.
module Server
  ( Server (..),
    withServer,
    withConnectionTo,
    restart,
  )
where

import Control.Exception
import Control.Monad (unless, void, when, (>=>))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Postgresql
import System.Directory
import System.FilePath ((</>))
import System.IO
import System.Posix.Files (setOwnerAndGroup)
import System.Posix.Signals (sigINT, signalProcess)
import System.Posix.User (getEffectiveUserID, getUserEntryForName, userGroupID, userID)
import System.Process
import TestSupport.Folder (freePort)
import TestSupport.Time (becomesTrue)

data Server = Server
  { -- | By TCP, with a password.
    serverAddress :: ByteString,
    -- | By the Unix socket.
    serverLocal :: ByteString,
    serverFolder :: FilePath,
    serverPrograms :: FilePath,
    serverPort :: Int,
    serverProcess :: IORef ProcessHandle
  }

-- | Initialises a database and starts a server for the time of an action.
withServer :: (Server -> IO a) -> IO a
withServer action = bracket newFolder removePathForcibly $ \folder -> do
  programs <- newest
  makeOwned folder
  writeFile (folder </> "password") "secret\n"
  makeOwned (folder </> "password")
  run
    folder
    (programs </> "initdb")
    [ "-D",
      folder </> "data",
      "-U",
      "millrace",
      "--auth-host=scram-sha-256",
      "--auth-local=trust",
      "--pwfile="
        ++ folder </> "password",
      "-E",
      "UTF8",
      "--no-sync"
    ]
  port <- freePort
  bracket (launch folder programs port >>= newIORef) (readIORef >=> end) $ \process -> do
    let address = Char8.pack ("postgres://millrace:secret@localhost:" ++ show port ++ "/postgres")
        local = Char8.pack ("host=" ++ folder ++ " user=millrace dbname=postgres port=" ++ show port)
        server = Server address local folder programs port process
    awaitReady server
    action server

newFolder :: IO FilePath
newFolder = do
  folder <- readProcess "mktemp" ["-d", "/tmp/millrace-postgresql-XXXXXX"] ""
  return (takeWhile (/= '\n') folder)

newest :: IO FilePath
newest = do
  versions <- listDirectory "/usr/lib/postgresql"
  return ("/usr/lib/postgresql" </> maximum versions </> "bin")

-- PostgreSQL refuses to run as root.
makeOwned :: FilePath -> IO ()
makeOwned path = do
  user <- getEffectiveUserID
  when (user == 0) $
    getUserEntryForName "postgres" >>= \entry -> setOwnerAndGroup path (userID entry) (userGroupID entry)

asPostgres :: FilePath -> [String] -> IO CreateProcess
asPostgres program arguments = do
  user <- getEffectiveUserID
  return $
    if user == 0
      then proc "setpriv" (["--reuid=postgres", "--regid=postgres", "--clear-groups", program] ++ arguments)
      else proc program arguments

run :: FilePath -> FilePath -> [String] -> IO ()
run folder program arguments = do
  process <- asPostgres program arguments
  withFile (folder </> "log") AppendMode $ \output -> do
    (_, _, _, handle') <- createProcess process {std_out = UseHandle output, std_err = UseHandle output, cwd = Just "/"}
    void (waitForProcess handle')

launch :: FilePath -> FilePath -> Int -> IO ProcessHandle
launch folder programs port = do
  process <-
    asPostgres
      (programs </> "postgres")
      [ "-D",
        folder </> "data",
        "-k",
        folder,
        "-p",
        show port,
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "fsync=off",
        "-c",
        "max_connections=60"
      ]
  withFile (folder </> "log") AppendMode $ \output -> do
    (_, _, _, handle') <- createProcess process {std_out = UseHandle output, std_err = UseHandle output, cwd = Just "/"}
    return handle'

-- A fast shutdown.
end :: ProcessHandle -> IO ()
end process = do
  number <- getPid process
  mapM_ (signalProcess sigINT) number
  void (waitForProcess process)

awaitReady :: Server -> IO ()
awaitReady server = do
  let noConnection _ = False
  ready <- becomesTrue 30000 $ do
    outcome <- try (connect (serverLocal server) >>= close)
    return (either (noConnection :: SomeException -> Bool) (const True) outcome)
  unless ready $ do
    text <- readFile (serverFolder server </> "log")
    ioError (userError ("the server does not start:\n" ++ text))

-- | Stops the server, which ends all connections, and starts it again.
restart :: Server -> IO ()
restart server = do
  readIORef (serverProcess server) >>= end
  launch (serverFolder server) (serverPrograms server) (serverPort server) >>= writeIORef (serverProcess server)
  awaitReady server

withConnectionTo :: Server -> (Connection -> IO a) -> IO a
withConnectionTo server = bracket (connect (serverAddress server)) close
