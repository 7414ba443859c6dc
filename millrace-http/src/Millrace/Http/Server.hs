-- |
-- A server: accepts connections on a listening socket, runs a session in a thread for each, and shuts down. Knows
-- nothing of HTTP.
module Millrace.Http.Server (runListeners) where

import Control.Concurrent (forkOn, getNumCapabilities)
import Control.Concurrent.MVar
import Control.Concurrent.STM (atomically, check, readTVar)
import Control.Exception
import Control.Monad (filterM, forM, forM_, replicateM, unless, void, when)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eBADF, eINVAL, eNOTSOCK)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Connection
import Millrace.Http.EarlyFlush (retireFlush)
import Millrace.Http.Endpoint
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.ServerState
import Millrace.Http.Session (runSession)
import Millrace.Http.Settings (Settings (..))
import Millrace.Socket
import Millrace.Timer (registerDelay, threadDelay)
import qualified Network.Socket as Network
import Network.Wai (Application)
import System.Posix.IO (dup)
import System.Posix.Types (Fd (..))

-- The open connections that one accepting thread has taken.
type Registry = IORef (IntMap Connection)

-- | Serves connections until the listening sockets are closed, by the action that 'settingsInstallShutdownHandler' gets
-- or by anybody else; then waits for the connections to end, 'settingsGracefulShutdownSeconds' at most, and cuts off
-- those that are left. One accepting thread per capability, or per socket if there are more.
--
-- An exception thrown to the calling thread closes the listening sockets and the idle connections, and does not wait
-- for the others.
runListeners :: Settings -> [Socket] -> Application -> IO ()
runListeners settings listeners application = do
  endpoint <- newEndpoint settings
  sources <- mapM (newSource settings) listeners
  let stop = do
        atomicWriteIORef (endpointClosing endpoint) True
        announceShutdown (endpointState endpoint)
        mapM_ endSource sources
  -- Accepted sockets inherit it: one system call for all. A Unix socket has none.
  forM_ listeners $ \listener -> setSocketOption listener NoDelay 1 `catch` ignore
  settingsInstallShutdownHandler settings stop
  settingsBeforeMainLoop settings
  capabilities <- getNumCapabilities
  let count = max capabilities (length listeners)
  registries <- replicateM count (newIORef IntMap.empty)
  flip finally (closeFileCache (endpointFiles endpoint)) . flip onException (stop >> endIdle registries) $ do
    ends <- forM (zip3 [0 ..] registries (cycle sources)) $ \(number, registry, source) -> do
      end <- newEmptyMVar
      forkOnMasked number (acceptLoop endpoint source registries registry application `finally` putMVar end ())
      return end
    mapM_ takeMVar ends
    stop
    drain (settingsGracefulShutdownSeconds settings) registries

forkOnMasked :: Int -> IO () -> IO ()
forkOnMasked capability action = mask_ (void (forkOn capability action))

------------------------------------------------------------------------------------------------------------------------
-- Accepting

-- Where connections come from, and how it ends.
data Source = Source
  { nextConnection :: !(IO (Socket, SockAddr)),
    endSource :: !(IO ())
  }

-- A function of the user's works on sockets of the network package, and so on a duplicate.
newSource :: Settings -> Socket -> IO Source
newSource settings listener = case settingsAccept settings of
  Nothing -> return (Source (accept listener) (close listener))
  Just acceptTheirs -> do
    Fd number <- withFdSocket listener (dup . Fd)
    theirs <- Network.mkSocket number
    return
      Source
        { nextConnection = do
            (accepted, peer) <- acceptTheirs theirs
            ours <- fromNetworkSocket accepted
            return (ours, peer),
          endSource = Network.close theirs >> close listener
        }

-- Runs masked, so that no exception can come between taking a connection and forking the thread that closes it.
-- Accepting itself can be interrupted.
acceptLoop :: Endpoint -> Source -> [Registry] -> Registry -> Application -> IO ()
acceptLoop endpoint source registries registry application = go 0
  where
    settings = endpointSettings endpoint
    go :: Int -> IO ()
    go number = do
      outcome <- try (nextConnection source)
      case outcome of
        Right (peerSocket, peer) -> do
          mapM_ (awaitRoom endpoint registries) (settingsMaximumConnections settings) `onException` close peerSocket
          startConnection endpoint registry application number peerSocket peer
          go (number + 1)
        Left failure -> do
          closing <- readIORef (endpointClosing endpoint)
          unless (closing || isClosed failure) $ do
            settingsOnException settings Nothing (toException failure) `catch` ignore
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

-- Holds back a connection that was accepted until there is room for it. Connections that are idle make room, the oldest
-- first.
awaitRoom :: Endpoint -> [Registry] -> Int -> IO ()
awaitRoom endpoint registries limit = do
  count <- currentOpenConnections state
  closing <- readIORef (endpointClosing endpoint)
  when (count >= limit && not closing) $ do
    evictOldest registries
    patience <- registerDelay retryMicros
    atomically $ do
      now <- currentOpenConnectionsSTM state
      ended <- currentShuttingDownStateSTM state
      late <- readTVar patience
      check (now < limit || ended || late)
    awaitRoom endpoint registries limit
  where
    state = endpointState endpoint

evictOldest :: [Registry] -> IO ()
evictOldest registries = do
  open <- concat <$> mapM (fmap IntMap.toAscList . readIORef) registries
  idle <- filterM (isKept . snd) (sortOn fst open)
  mapM_ (cut . connectionSocket . snd) (take 1 idle)
  where
    -- A new connection may have a request on its way; closing a kept one is what clients have to expect.
    isKept connection = (\waits requests -> waits && requests > 0) <$> isIdle connection <*> requestCount connection

startConnection :: Endpoint -> Registry -> Application -> Int -> Socket -> SockAddr -> IO ()
startConnection endpoint registry application number peerSocket peer = do
  connection <- newConnection endpoint peerSocket peer
  countConnection state
  atomicModifyIORef' registry (\open -> (IntMap.insert number connection open, ()))
  settingsFork (endpointSettings endpoint) (\_ -> mask_ (runConnection connection application `finally` release))
    `catch` noThread
  where
    state = endpointState endpoint
    noThread :: SomeException -> IO ()
    noThread _ = release
    release = do
      atomicModifyIORef' registry (\open -> (IntMap.delete number open, ()))
      close peerSocket `catch` ignore
      discountConnection state

-- Starts masked, in a thread of its own.
runConnection :: Connection -> Application -> IO ()
runConnection connection application =
  handle (\failure -> unless (isKilled failure) (settingsOnException settings Nothing failure)) $
    (do
        wanted <- interruptible (settingsOnOpen settings peer)
        when wanted (interruptible (runSession connection application) `finally` (retireFlush (connectionFlush connection) >> endWork connection)))
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
  start <- monotonicNanoseconds
  go start firstPauseMicros
  where
    go :: Word64 -> Int -> IO ()
    go start pause = do
      open <- openConnections registries
      unless (null open) $ do
        now <- monotonicNanoseconds
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
