-- |
-- Listening sockets: for a port and a host preference, for a path, and those that were inherited. Knows nothing of
-- serving.
module Millrace.Http.Listener (openListeners, openUnixListener, inheritedListeners) where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (IOException, bracket, bracketOnError, catch, onException, throwIO, try)
import Control.Monad (when)
import Data.List (sortOn)
import Data.Streaming.Network.Internal (HostPreference (..))
import Foreign.C.Error (Errno (..), eADDRINUSE, eCONNREFUSED)
import GHC.IO.Exception (IOException (..))
import Millrace.Http.Settings (Settings (..))
import Millrace.Socket
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.Files (removeLink)
import System.Posix.Process (getProcessID)
import Text.Read (readMaybe)

-- | Binds and listens on the first address of the host preference that can be bound: one socket, or one per
-- capability if the settings say so. Throws the @IOError@ of the last address that could not.
openListeners :: Settings -> IO [Socket]
openListeners settings = do
  addresses <- getAddrInfo (Just hints) host (Just (show (settingsPort settings)))
  tryAll (ordered addresses)
  where
    preference = settingsHost settings
    hints = defaultHints {addrFlags = [AI_PASSIVE], addrSocketType = Stream}
    host = case preference of
      Host name -> Just name
      _ -> Nothing
    isIPv4 = (== AF_INET) . addrFamily
    isIPv6 = (== AF_INET6) . addrFamily
    ordered = case preference of
      HostIPv4 -> sortOn (not . isIPv4)
      HostIPv4Only -> filter isIPv4
      HostIPv6 -> sortOn (not . isIPv6)
      HostIPv6Only -> filter isIPv6
      _ -> id
    tryAll [] = ioError (userError ("No address to listen on for " ++ show preference ++ " port " ++ show (settingsPort settings)))
    tryAll [address] = listenOn settings address
    tryAll (address : rest) = listenOn settings address `catch` orElse (tryAll rest)
    orElse :: IO [Socket] -> IOException -> IO [Socket]
    orElse next _ = next

listenOn :: Settings -> AddrInfo -> IO [Socket]
listenOn settings address
  | settingsReusePort settings = do
    first <- listenAt settings address (addrAddress address)
    -- Port 0 has become a real one.
    flip onException (close first) $ do
      name <- getSocketName first
      capabilities <- getNumCapabilities
      (first :) <$> allOrNone (replicate (capabilities - 1) (listenAt settings address name))
  | otherwise = (: []) <$> listenAt settings address (addrAddress address)

allOrNone :: [IO Socket] -> IO [Socket]
allOrNone [] = return []
allOrNone (open : rest) = bracketOnError open close (\listener -> (listener :) <$> allOrNone rest)

listenAt :: Settings -> AddrInfo -> SockAddr -> IO Socket
listenAt settings address name =
  bracketOnError (openSocket address) close $ \listener -> do
    setSocketOption listener ReuseAddr 1
    when (settingsReusePort settings) (setSocketOption listener ReusePort 1)
    -- "Any" on IPv6 takes IPv4 as well, whatever the system's default.
    whenIPv6 (setSocketOption listener IPv6Only (if settingsHost settings == HostIPv6Only then 1 else 0))
    bind listener name
    listen listener (settingsBacklog settings)
    return listener
  where
    whenIPv6 action = when (addrFamily address == AF_INET6) (action `catch` ignore)

ignore :: IOException -> IO ()
ignore _ = return ()

-- | Binds and listens on a path. A socket that a server left there when it died is replaced; one that somebody listens
-- on is not. Throws an @IOError@.
openUnixListener :: Settings -> FilePath -> IO Socket
openUnixListener settings path =
  bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
    outcome <- try (bind listener name)
    case outcome of
      Left failure | hasErrno eADDRINUSE failure -> do
        abandoned <- isAbandoned name
        when abandoned (removeLink path)
        bind listener name
      Left failure -> throwIO failure
      Right () -> return ()
    listen listener (settingsBacklog settings) `onException` removeLink path
    return listener
  where
    name = SockAddrUnix path

isAbandoned :: SockAddr -> IO Bool
isAbandoned name = bracket (socket AF_UNIX Stream defaultProtocol) close $ \probe ->
  either (hasErrno eCONNREFUSED) (const False) <$> try (connect probe name)

hasErrno :: Errno -> IOException -> Bool
hasErrno (Errno number) failure = ioe_errno failure == Just number

-- | The listening sockets that the process was started with, as systemd passes them (sd_listen_fds(3)): none unless
-- LISTEN_PID names this process. They are taken over; a second call finds none.
inheritedListeners :: IO [Socket]
inheritedListeners = do
  process <- getProcessID
  addressee <- number "LISTEN_PID"
  count <- number "LISTEN_FDS"
  mapM_ unsetEnv ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]
  case (addressee, count) of
    (Just named, Just many) | named == fromIntegral process -> mapM fromDescriptor [3 .. 2 + fromIntegral (many :: Int)]
    _ -> return []
  where
    number name = (>>= readMaybe) <$> lookupEnv name :: IO (Maybe Int)
