{-# OPTIONS_HADDOCK hide #-}

-- Must not know: connections.

-- |
-- The public state of a running server: how many connections are open, and whether it is shutting down.
module Millrace.Http.Server.State
  ( ServerState,
    Counter,
    ConnectionStates (..),
    newServerState,
    openConnectionCounter,
    getCount,
    currentOpenConnections,
    currentOpenConnectionsSTM,
    currentShuttingDownState,
    currentShuttingDownStateSTM,
    countConnection,
    discountConnection,
    announceShutdown,
    claimLimitReport,
  )
where

import Control.Concurrent.STM
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import Data.Word (Word64)

-- | The state of a server. See 'Network.Wai.Handler.Millrace.makeServerState'.
data ServerState
  = ServerState
      !Counter
      !(TVar Bool)
      -- When a connection that a limit has ended was reported last, in nanoseconds.
      !(IORef (Maybe Word64))
  deriving (Eq)

-- | A number that others may watch.
newtype Counter = Counter (TVar Int)
  deriving (Eq)

-- | How many open connections are in which state. Each is in one.
data ConnectionStates = ConnectionStates
  { -- | No request of theirs has begun. Over TLS, the handshake may not have ended.
    connectionsNew :: !Int,
    -- | They have served requests, and wait for the next one.
    connectionsIdle :: !Int,
    -- | A request is being received or answered; over HTTP\/2 perhaps many.
    connectionsActive :: !Int
  }
  deriving (Eq, Show)

-- | Makes the state of a server that has not started.
newServerState :: IO ServerState
newServerState = ServerState <$> (Counter <$> newTVarIO 0) <*> newTVarIO False <*> newIORef Nothing

-- | The counter of open connections.
openConnectionCounter :: ServerState -> Counter
openConnectionCounter (ServerState counter _ _) = counter

-- | The current value. Does not block.
getCount :: Counter -> IO Int
getCount (Counter count) = readTVarIO count

-- | How many connections are open now. Does not block.
currentOpenConnections :: ServerState -> IO Int
currentOpenConnections = getCount . openConnectionCounter

-- | 'currentOpenConnections' in a transaction, for waiting.
currentOpenConnectionsSTM :: ServerState -> STM Int
currentOpenConnectionsSTM (ServerState (Counter count) _ _) = readTVar count

-- | Is the server shutting down, or has it ended? Does not block.
currentShuttingDownState :: ServerState -> IO Bool
currentShuttingDownState (ServerState _ closing _) = readTVarIO closing

-- | 'currentShuttingDownState' in a transaction, for waiting.
currentShuttingDownStateSTM :: ServerState -> STM Bool
currentShuttingDownStateSTM (ServerState _ closing _) = readTVar closing

-- | One more connection.
countConnection :: ServerState -> IO ()
countConnection = change (+ 1)

-- | One less.
discountConnection :: ServerState -> IO ()
discountConnection = change (subtract 1)

change :: (Int -> Int) -> ServerState -> IO ()
change by (ServerState (Counter count) _ _) = atomically (modifyTVar' count by)

-- | Marks the server as shutting down.
announceShutdown :: ServerState -> IO ()
announceShutdown (ServerState _ closing _) = atomically (writeTVar closing True)

-- | Whether a connection that a limit ends now, in nanoseconds, is to be reported: at most one a second is.
claimLimitReport :: ServerState -> Word64 -> IO Bool
claimLimitReport (ServerState _ _ lastReport) now = atomicModifyIORef' lastReport $ \reported ->
  if maybe True (\earlier -> now - earlier >= 1000000000) reported then (Just now, True) else (reported, False)
