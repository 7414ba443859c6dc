{-# OPTIONS_HADDOCK hide #-}

-- Must not know: sessions.

-- |
-- Listening sockets: for a port and a host preference, for a path, those that were inherited, and how each of them
-- takes its leave.
--
-- A client is connected as soon as the kernel has queued its connection; closing the last descriptor of a listening
-- socket resets all that is queued. Nothing of it must get lost when one server takes over from another.
--
-- Exposed for tests. Not covered by the version policy.
module Millrace.Http.Server.Listener
  ( Listener (..),
    Parting (..),
    givenListener,
    isPort,
    openListeners,
    openUnixListener,
    whileFolderIsLocked,
    inheritedListeners,
    closeListener,
    retire,
    welcome,
    inFlightMicros,

    -- * Sockets of the network package
    duplicate,
    ours,
    closeTheirs,
    awaitClose,
  )
where

#include "http_socket.h"

import Control.Concurrent (getNumCapabilities)
import Control.Exception
  ( IOException,
    bracketOnError,
    catch,
    mask_,
    onException,
    throwIO,
    uninterruptibleMask_,
  )
import Control.Monad (join, unless, void, when)
import Data.IORef
import Data.List (sortOn)
import Data.Maybe (fromMaybe)
import Data.Streaming.Network.Internal (HostPreference (..))
import Data.Word (Word64)
import Foreign.C.Error (throwErrnoIfMinus1)
import Foreign.C.Types (CInt (..))
import GHC.IO.Exception (IOErrorType (InvalidArgument), IOException (..))
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Transport.Plain (hasArrived)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.System
import Millrace.Operation (whileOpen)
import Millrace.Socket
import Millrace.Timer (threadDelay)
import qualified Network.Socket as Network

-- | A socket that listens.
data Listener = Listener
  { -- | The socket itself, for its name and its options.
    listenerSocket :: !Socket,
    listenerParting :: !Parting
  }

-- | What becomes of the connections in the kernel's queue when the server ends.
data Parting
  = -- | They are served.
    ServeQueue
  | -- | They are served, and the kernel begins no handshake here any more: another socket may listen on the port.
    -- Whether that has begun.
    GivePortAway !(IORef Bool)
  | -- | Others hold the socket too, and take them.
    LeaveQueue
  | -- | They are served, and nobody else comes: this removes the path, at the first time. The next server may have
    -- another socket there from then on.
    RemovePath !(IO ())

-- | A socket that the function of this name is to take over. Others may hold it too. Throws an @IOError@ if it does not
-- listen, as far as the system says: accepting on it would fail as on one that was shut down to end the server.
givenListener :: String -> Socket -> IO Listener
givenListener name given = do
  kind <- fromMaybe #{const HTTP_SOCKET_CLOSED} <$> whileOpen (socketHandle given) c_kind
  unless (kind `elem` [#{const HTTP_SOCKET_LISTENS}, #{const HTTP_SOCKET_CLOSED}]) $
    refuse ("Network.Wai.Handler.Millrace." ++ name) "the socket" kind
  return (Listener given ServeQueue)

-- | Opens sockets for 'Network.Wai.Handler.Millrace.runSettingsListeners': binds and listens on the first address of
-- 'Network.Wai.Handler.Millrace.setHost' that can be bound. One socket, or one per capability with
-- 'Network.Wai.Handler.Millrace.setReusePort'. May block while a name is looked up. Throws the @IOError@ of the first
-- address if none can be bound, and one for a port that is not between 0 and 65535.
openListeners :: Settings -> IO [Listener]
openListeners settings = do
  unless (isPort (settingsPort settings)) . ioError . userError $
    "There is no port " ++ show (settingsPort settings) ++ ": ports are between 0 and 65535"
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
    tryAll [] =
      ioError . userError $
        "No address to listen on for " ++ show preference ++ " port " ++ show (settingsPort settings)
    tryAll [address] = listenOn settings address
    tryAll (address : rest) = listenOn settings address `catch` orElse (tryAll rest)
    orElse :: IO [Listener] -> IOException -> IO [Listener]
    orElse next preferred = next `catch` instead preferred
    -- The others were not asked for, and mostly fail for the same reason.
    instead :: IOException -> IOException -> IO a
    instead preferred _ = throwIO preferred

-- | Can a port have this number? The system looks at its last 16 bits only.
isPort :: Integral n => n -> Bool
isPort number = toInteger number >= 0 && toInteger number <= 65535

listenOn :: Settings -> AddrInfo -> IO [Listener]
listenOn settings address
  | settingsReusePort settings =
    oneForEachCapability >>= mapM (\opened -> Listener opened . GivePortAway <$> newIORef False)
  | otherwise = (\opened -> [Listener opened ServeQueue]) <$> listenAt settings address (addrAddress address)
  where
    oneForEachCapability = do
      first <- listenAt settings address (addrAddress address)
      -- Port 0 has become a real one.
      flip onException (close first) $ do
        name <- getSocketName first
        capabilities <- getNumCapabilities
        (first :) <$> allOrNone (replicate (capabilities - 1) (listenAt settings address name))

allOrNone :: [IO Socket] -> IO [Socket]
allOrNone [] = return []
allOrNone (open : rest) = bracketOnError open close (\listener -> (listener :) <$> allOrNone rest)

listenAt :: Settings -> AddrInfo -> SockAddr -> IO Socket
listenAt settings address name =
  bracketOnError (openSocket address) close $ \listener -> do
    mapM_ (uncurry (setSocketOption listener)) rebindingOptions
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

-- | Binds and listens on a path. On Linux, a socket that a server left there when it died is replaced ('bind'); one that
-- somebody listens on is not, nor is any other file. Throws an @IOError@.
openUnixListener :: Settings -> FilePath -> IO Listener
openUnixListener settings path =
  bracketOnError (socket AF_UNIX Stream defaultProtocol) close $ \listener -> do
    -- A socket that does not listen yet looks like one of a dead server, and of two servers that find one only one may
    -- replace it.
    own <- whileFolderIsLocked path $ do
      bind listener (SockAddrUnix path)
      bound <- ownSocketFile path
      listen listener (settingsBacklog settings) `onException` mapM_ (`removeSocketFile` path) bound
      return bound
    Listener listener . RemovePath <$> once (mapM_ (`removeSocketFile` path) own `catch` ignore)

-- An action that only does something the first time.
once :: IO () -> IO (IO ())
once action = do
  todo <- newIORef action
  return (join (atomicModifyIORef' todo (\next -> (return (), next))))

-- | The listening sockets that the process was started with, as systemd passes them (sd_listen_fds(3)), for
-- 'Network.Wai.Handler.Millrace.runSettingsListeners': none unless LISTEN_PID names this process, and none on Windows.
-- They are taken over; a second call finds none. Throws an @IOError@, and takes none, if one of the descriptors is not
-- a stream socket that listens. Does not block.
inheritedListeners :: IO [Listener]
inheritedListeners = do
  descriptors <- inheritedDescriptors
  mapM_ checkListens descriptors
  mapM inherit descriptors
  where
    inherit descriptor = (`Listener` LeaveQueue) <$> fromDescriptor descriptor

-- What is at the number may be anything, also something of this process's own.
checkListens :: CInt -> IO ()
checkListens descriptor = do
  kind <- c_kind descriptor
  unless (kind == #{const HTTP_SOCKET_LISTENS}) (refuse "inheritedListeners" ("descriptor " ++ show descriptor) kind)

refuse :: String -> String -> CInt -> IO ()
refuse location what kind =
  ioError (IOError Nothing InvalidArgument location (what ++ " " ++ described) Nothing Nothing)
  where
    described
      | kind == #{const HTTP_SOCKET_CLOSED} = "is not open"
      | kind == #{const HTTP_SOCKET_NONE} = "is no socket"
      | kind == #{const HTTP_SOCKET_NO_STREAM} = "is no stream socket"
      | otherwise = "does not listen"

-- | Closes the socket, whatever its queue holds. Closing it again does nothing.
closeListener :: Listener -> IO ()
closeListener (Listener closed parting) = case parting of
  RemovePath remove -> remove >> close closed
  _ -> close closed

-- | @retire listener closing@ closes a listener, by that action, when its queue can be done without. Meanwhile its
-- connections are to be accepted as ever. Takes a quarter of a second for 'GivePortAway', else hardly any time, unless
-- the queue does not empty. Never throws.
retire :: Listener -> IO () -> IO ()
retire (Listener retired parting) closing = (letGo `catch` ignore) >> closing
  where
    letGo = case parting of
      LeaveQueue -> return ()
      ServeQueue -> emptyQueue
      RemovePath remove -> remove >> emptyQueue
      GivePortAway begun -> do
        writeIORef begun True
        turnedAway <- whileOpen (socketHandle retired) c_turnAway
        when (turnedAway == Just 0) (threadDelay inFlightMicros)
        emptyQueue
    emptyQueue = do
      start <- monotonicNanoseconds
      awaitEmpty (start + 1000 * fromIntegral emptyingMicros)
    awaitEmpty :: Word64 -> IO ()
    awaitEmpty limit = do
      pending <- hasArrived retired
      now <- monotonicNanoseconds
      when (pending && now < limit) (threadDelay 1000 >> awaitEmpty limit)

-- | Makes the kernel take what comes on a connection, which a listener that turns others away has accepted. To be
-- called for each that was accepted. Never throws.
welcome :: Listener -> Socket -> IO ()
welcome (Listener _ parting) accepted = case parting of
  GivePortAway begun ->
    readIORef begun >>= \turnsAway -> when turnsAway (void (whileOpen (socketHandle accepted) c_welcome))
  _ -> return ()

-- | How long a segment may be on its way from a client.
inFlightMicros :: Int
inFlightMicros = 250000

-- | How long to wait for a queue to empty: new connections may keep it from being empty for ever.
emptyingMicros :: Int
emptyingMicros = 3000000

foreign import ccall unsafe "http_socket_kind"
  c_kind :: CInt -> IO CInt

foreign import ccall unsafe "http_socket_turn_away"
  c_turnAway :: CInt -> IO CInt

foreign import ccall unsafe "http_socket_welcome"
  c_welcome :: CInt -> IO ()

------------------------------------------------------------------------------------------------------------------------
-- Sockets of the network package

foreign import ccall unsafe "http_socket_duplicate"
  c_duplicate :: CInt -> IO CInt

-- | Duplicates a descriptor of a socket. The name is that of the function, for the exception. Throws an @IOError@.
duplicate :: String -> CInt -> IO CInt
duplicate name = throwErrnoIfMinus1 ("Network.Wai.Handler.Millrace." ++ name) . c_duplicate

-- | Makes a "Millrace.Socket" from a duplicate of the socket. Throws an @IOError@.
ours :: String -> Network.Socket -> IO Socket
ours name theirs = mask_ $ do
  descriptor <- Network.withFdSocket theirs (duplicate name)
  fromDescriptor descriptor `onException` (Network.mkSocket descriptor >>= closeTheirs)

-- | Closes it. Masked, because GHC's I\/O manager (before base 4.16) takes a lock per capability to close a descriptor.
-- An exception while it waits for the second lock leaves the first one locked, and threads that wait for certain
-- descriptors then wait for ever.
closeTheirs :: Network.Socket -> IO ()
closeTheirs = uninterruptibleMask_ . Network.close

-- | Waits until the socket is closed. There is no notification, so this polls, and may return up to a tenth of a second
-- late.
--
-- Do not wait for the descriptor in GHC's I\/O manager instead, although the network package ends such waits when it
-- closes the socket. The number may belong to another file when the wait begins. The manager then keeps an entry that
-- the kernel has dropped, and closing the number again throws (seen with base 4.15) and leaves locks of the manager
-- locked for good.
awaitClose :: Network.Socket -> IO ()
awaitClose theirs = do
  open <- (>= 0) <$> Network.unsafeFdSocket theirs
  when open (threadDelay 100000 >> awaitClose theirs)
