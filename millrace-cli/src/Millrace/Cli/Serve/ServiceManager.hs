{-# LANGUAGE OverloadedStrings #-}

-- Must not know: servers, HTTP, files.

-- | Tells the program that started this one, for example systemd, when the server is ready, when it stops, and that it
-- is still alive: the protocol of sd_notify(3).
module Millrace.Cli.Serve.ServiceManager
  ( ServiceManager,
    findServiceManager,
    notifyReady,
    notifyStopping,
    withWatchdog,
    watchdogInterval,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (IOException, bracket, displayException, try)
import Control.Monad (forever)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.Char (isDigit, isPrint)
import Millrace.Cli.Base.Failure (newSeldomTeller)
import Millrace.Cli.Base.NameBytes (nameBytes)
import Millrace.Deadline (deadlineAfter, seconds)
import Millrace.Socket
import Millrace.Socket.Datagram (sendAllToBefore)
import Millrace.Timer (threadDelay)
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

-- | A program that wants to know how this one is doing.
data ServiceManager = ServiceManager
  { managerAddress :: SockAddr,
    -- | The time between two signs of life, in microseconds.
    managerWatchdog :: Maybe Int,
    managerTelling :: String -> IO ()
  }

-- | The service manager that the environment names (@NOTIFY_SOCKET@, @WATCHDOG_USEC@), if there is one. A sign of life
-- that is meant for another process (@WATCHDOG_PID@) does no harm: systemd ignores it.
findServiceManager :: IO (Maybe ServiceManager)
findServiceManager = do
  found <- lookupEnv "NOTIFY_SOCKET"
  interval <- (>>= watchdogInterval) <$> lookupEnv "WATCHDOG_USEC"
  telling <- newSeldomTeller
  pure ((\address -> ServiceManager address interval telling) <$> (found >>= socketAddress))

-- A path, or an abstract name after "@". systemd has other kinds for virtual machines, which are not for services.
socketAddress :: String -> Maybe SockAddr
socketAddress name = case name of
  '/' : _ -> Just (SockAddrUnix name)
  '@' : rest -> Just (SockAddrUnix ('\0' : Char8.unpack (nameBytes rest)))
  _ -> Nothing

-- | The microseconds from one sign of life to the next: half of what the environment says, as systemd recommends.
-- 'Nothing' if it says nothing that is a positive number.
--
-- >>> watchdogInterval "30000000"
-- Just 15000000
-- >>> watchdogInterval "0"
-- Nothing
watchdogInterval :: String -> Maybe Int
watchdogInterval text = case readMaybe text of
  Just limit
    | all isDigit text && limit >= 2 && limit <= toInteger (maxBound :: Int) ->
      Just (fromInteger (limit `div` 2))
  _ -> Nothing

-- | Says that the server accepts connections, and where.
notifyReady :: Maybe ServiceManager -> [String] -> IO ()
notifyReady manager addresses =
  notify manager ["READY=1", "STATUS=listening on " <> nameBytes (map plain (unwords addresses))]
  where
    -- The path of a Unix socket may have any bytes; a line end would begin another message, and systemd takes only
    -- UTF-8.
    plain character = if isPrint character then character else '?'

-- | Says that the server finishes the open requests and then ends.
notifyStopping :: Maybe ServiceManager -> IO ()
notifyStopping manager = notify manager ["STOPPING=1", "STATUS=finishing the open requests"]

-- | Gives signs of life while the action runs, if the service manager wants any. A thread of the I\/O manager gives
-- them, so they stop when that manager does.
withWatchdog :: Maybe ServiceManager -> IO a -> IO a
withWatchdog manager action = case manager >>= managerWatchdog of
  Nothing -> action
  Just interval ->
    bracket (forkIO (forever (threadDelay interval >> notify manager ["WATCHDOG=1"]))) killThread (const action)

-- A server that cannot reach its service manager runs nevertheless. It waits at most a second for one that does not
-- receive.
notify :: Maybe ServiceManager -> [ByteString] -> IO ()
notify Nothing _ = pure ()
notify (Just manager) lines' = do
  sent <- try (bracket (socket AF_UNIX Datagram defaultProtocol) close send)
  either report pure sent
  where
    send channel = do
      deadline <- deadlineAfter (seconds 1)
      sendAllToBefore deadline channel (ByteString.intercalate "\n" lines') (managerAddress manager)
    report failure =
      managerTelling manager $
        "millrace: cannot tell the service manager "
          <> Char8.unpack (ByteString.concat (take 1 lines'))
          <> ": "
          <> displayException (failure :: IOException)
