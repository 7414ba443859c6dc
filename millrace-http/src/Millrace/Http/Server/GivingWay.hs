-- |
-- Which connections give way to new ones: the oldest that are idle. Must not know: listeners.
--
-- A server's own limit is made room for among its own connections. Descriptors are made room for among those of all servers of the
-- process, because they share them.
module Millrace.Http.Server.GivingWay
  ( Registry,
    Candidate,
    findIdle,
    askToEnd,
    asRunning,
    runningStates,
    currentConnectionStates,
    overallEviction,
  )
where

import Control.Exception (bracket_, evaluate)
import Control.Monad (filterM, foldM)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import Data.Unique (Unique, newUnique)
import Millrace.Http.Server.Eviction
import Millrace.Http.Server.Served
import Millrace.Http.Server.State (ConnectionStates (..), ServerState)
import Millrace.Http.Transport (quietMillis)
import System.IO.Unsafe (unsafePerformIO)

-- | The open connections that one accepting thread has taken, by number.
type Registry = IORef (IntMap Served)

-- | A connection that was idle when it was listed: its registry and its number there. It may have ended since.
data Candidate = Candidate !Registry !Int

-- | The connections that are idle now, oldest first: those that have served a request, whose clients must expect a close,
-- and new ones.
findIdle :: [Registry] -> IO (Candidates Candidate)
findIdle registries = do
  open <- concat <$> mapM (\registry -> map (entry registry) . IntMap.toAscList <$> readIORef registry) registries
  idle <- filterM (isIdle . snd) (map snd (sortOn fst open))
  kept <- filterM (fmap (> 0) . requestCount . snd) idle
  new <- filterM (fmap (== 0) . requestCount . snd) idle
  Candidates <$> mapM (evaluate . fst) kept <*> mapM (evaluate . fst) new
  where
    entry registry (number, connection) = (number, (Candidate registry number, connection))

-- | Closes the connection if it is still idle and no request can be on its way.
askToEnd :: Candidate -> IO Outcome
askToEnd (Candidate registry number) = readIORef registry >>= maybe (return Stays) ask . IntMap.lookup number
  where
    ask connection = do
      waits <- isIdle connection
      requests <- requestCount connection
      silent <- if waits && requests == 0 then isSilent connection else return True
      outcome connection waits silent
    outcome connection waits silent
      | not waits = return Stays
      | not silent = return NotYet
      | otherwise = GivesWay <$ giveWay connection
    -- The first request of a new connection may be on its way.
    isSilent connection = maybe False (>= silentMillis) <$> quietMillis (servedTransport connection)

-- Longer than a request takes if its first segments were lost.
silentMillis :: Int
silentMillis = 5000

-- The servers of this process.
running :: IORef [(Unique, ([Registry], ServerState))]
running = unsafePerformIO (newIORef [])
{-# NOINLINE running #-}

-- | Counts a server among those of the process while an action runs.
asRunning :: [Registry] -> ServerState -> IO a -> IO a
asRunning registries state action = do
  name <- newUnique
  bracket_
    (atomicModifyIORef' running (\others -> ((name, (registries, state)) : others, ())))
    (atomicModifyIORef' running (\all' -> (filter ((/= name) . fst) all', ())))
    action

-- | The states of the servers of this process.
runningStates :: IO [ServerState]
runningStates = map (snd . snd) <$> readIORef running

-- | The states of the connections of servers that use this state. Looks at each connection, so it takes about a millisecond for ten
-- thousand. Does not block.
--
-- > (state, settings) <- makeServerState defaultSettings
-- > _ <- forkIO (runSettings settings application)
-- > currentConnectionStates state >>= print
--
-- @since 0.1.0
currentConnectionStates :: ServerState -> IO ConnectionStates
currentConnectionStates state = do
  registries <- concatMap fst . filter ((== state) . snd) . map snd <$> readIORef running
  open <- concatMap IntMap.elems <$> mapM readIORef registries
  foldM count (ConnectionStates 0 0 0) open
  where
    count before connection = do
      requests <- requestCount connection
      waits <- isIdle connection
      return $! counted before requests waits
    counted before requests waits
      | requests == 0 = before {connectionsNew = connectionsNew before + 1}
      | waits = before {connectionsIdle = connectionsIdle before + 1}
      | otherwise = before {connectionsActive = connectionsActive before + 1}

-- | Evicts from the servers of this process.
overallEviction :: Eviction Candidate
overallEviction = unsafePerformIO (newEviction (readIORef running >>= findIdle . concatMap (fst . snd)) askToEnd)
{-# NOINLINE overallEviction #-}
