-- |
-- A server: accepts connections on a listening socket, runs a session in a thread for each, and shuts down. Knows
-- nothing of HTTP.
module Millrace.Http.Server (runListener) where

import Control.Concurrent (forkIO, forkOn, getNumCapabilities)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (forM, forM_, replicateM, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eBADF, eINVAL, eNOTSOCK)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Http.Connection
import Millrace.Http.Session (runSession)
import Millrace.Http.Settings (Settings (..))
import Millrace.Socket
import Millrace.Timer (threadDelay)
import Network.Wai (Application)

-- The open connections that one accepting thread has taken.
type Registry = IORef (IntMap Connection)

-- | Serves connections until the listening socket is closed, by the action that 'settingsInstallShutdownHandler' gets
-- or by anybody else; then waits for the connections to end, 'settingsGracefulShutdownSeconds' at most, and cuts off
-- those that are left. One accepting thread per capability.
--
-- An exception thrown to the calling thread closes the listening socket and the idle connections, and does not wait
-- for the others.
runListener :: Settings -> Socket -> Application -> IO ()
runListener settings listener application = do
  closing <- newIORef False
  let endpoint = Endpoint settings (serverLine (settingsServerName settings)) closing
      stop = atomicWriteIORef closing True >> close listener
  -- Accepted sockets inherit it: one system call for all. A Unix socket has none.
  setSocketOption listener NoDelay 1 `catch` ignore
  settingsInstallShutdownHandler settings stop
  settingsBeforeMainLoop settings
  capabilities <- getNumCapabilities
  registries <- replicateM capabilities (newIORef IntMap.empty)
  flip onException (stop >> endIdle registries) $ do
    ends <- forM (zip [0 ..] registries) $ \(capability, registry) -> do
      end <- newEmptyMVar
      forkOnMasked capability (acceptLoop endpoint listener registry application `finally` putMVar end ())
      return end
    mapM_ takeMVar ends
    atomicWriteIORef closing True
    drain (settingsGracefulShutdownSeconds settings) registries

serverLine :: ByteString -> ByteString
serverLine name
  | C8.null name = C8.empty
  | otherwise = C8.concat [C8.pack "Server: ", C8.map harmless name, C8.pack "\r\n"]
  where
    harmless character = if character < ' ' then ' ' else character

forkOnMasked :: Int -> IO () -> IO ()
forkOnMasked capability action = mask_ (void (forkOn capability action))

------------------------------------------------------------------------------------------------------------------------
-- Accepting

-- Runs masked, so that no exception can come between taking a connection and forking the thread that closes it.
-- 'accept' itself can be interrupted.
acceptLoop :: Endpoint -> Socket -> Registry -> Application -> IO ()
acceptLoop endpoint listener registry application = go 0
  where
    go number = do
      outcome <- try (accept listener)
      case outcome of
        Right (socket', peer) -> do
          startConnection endpoint registry application number socket' peer
          go (number + 1)
        Left failure -> do
          closing <- readIORef (endpointClosing endpoint)
          unless (closing || isClosed failure) $ do
            settingsOnException (endpointSettings endpoint) Nothing (toException failure) `catch` ignore
            threadDelay retryMicros
            go number

-- Only a closed listening socket ends the server.
isClosed :: IOException -> Bool
isClosed failure =
  ioe_type failure == InvalidArgument || ioe_errno failure `elem` [Just number | Errno number <- [eBADF, eINVAL, eNOTSOCK]]

retryMicros :: Int
retryMicros = 100000

ignore :: SomeException -> IO ()
ignore _ = return ()

startConnection :: Endpoint -> Registry -> Application -> Int -> Socket -> SockAddr -> IO ()
startConnection endpoint registry application number peerSocket peer = do
  connection <- newConnection endpoint peerSocket peer
  atomicModifyIORef' registry (\open -> (IntMap.insert number connection open, ()))
  void (forkIO (runConnection connection application `finally` release)) `catch` noThread
  where
    noThread :: SomeException -> IO ()
    noThread _ = release
    release = do
      atomicModifyIORef' registry (\open -> (IntMap.delete number open, ()))
      close peerSocket `catch` ignore

-- Starts masked, in a thread of its own.
runConnection :: Connection -> Application -> IO ()
runConnection connection application =
  handle (\failure -> unless (isKilled failure) (settingsOnException settings Nothing failure)) $
    (do
        wanted <- interruptible (settingsOnOpen settings peer)
        when wanted (interruptible (runSession connection application) `finally` endWork connection))
      `finally` settingsOnClose settings peer
  where
    settings = endpointSettings (connectionEndpoint connection)
    peer = connectionPeer connection
    isKilled failure = fromException failure == Just ThreadKilled

------------------------------------------------------------------------------------------------------------------------
-- Shutting down

-- Idle connections are ended at once, again and again because a connection may become idle at any moment; busy ones
-- say "Connection: close" in their next response.
drain :: Maybe Int -> [Registry] -> IO ()
drain seconds registries = do
  start <- getMonotonicTimeNSec
  go start firstPauseMicros
  where
    go :: Word64 -> Int -> IO ()
    go start pause = do
      open <- openConnections registries
      unless (null open) $ do
        now <- getMonotonicTimeNSec
        if maybe False (\limit -> now - start >= fromIntegral limit * 1000000000) seconds
          then forM_ open (cut . connectionSocket)
          else do
            endIdle registries
            threadDelay pause
            go start (min lastPauseMicros (2 * pause))

openConnections :: [Registry] -> IO [Connection]
openConnections registries = concat <$> mapM (fmap IntMap.elems . readIORef) registries

endIdle :: [Registry] -> IO ()
endIdle registries = do
  open <- openConnections registries
  forM_ open $ \connection -> isIdle connection >>= \waits -> when waits (cut (connectionSocket connection))

cut :: Socket -> IO ()
cut peerSocket = shutdown peerSocket ShutdownBoth `catch` ignore

firstPauseMicros, lastPauseMicros :: Int
firstPauseMicros = 1000
lastPauseMicros = 50000
