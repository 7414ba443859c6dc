-- Must not know: files.

-- | Counts what a server does.
module Millrace.Cli.Observe.Metrics
  ( Metrics,
    newMetrics,
    countOpened,
    countClosed,
    addServer,
    countAnswer,
    countActive,
    HandshakeResult (..),
    countHandshake,
    countLimit,
    Figures (..),
    readFigures,
    openNow,
    requestsDone,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Exception (finally)
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats, getRTSStatsEnabled)
import Millrace.Cli.Base.System (residentBytes)
import Millrace.Cli.Observe.Histogram
import Millrace.Cli.Observe.PerCpuCounter
import Millrace.Manager
import Network.HTTP.Types (statusCode)
import Network.Wai (Middleware)
import Network.Wai.Handler.Millrace
  ( Answer (..),
    ConnectionLimit (..),
    ConnectionStates (..),
    RefusalReason (..),
    ServerState,
    currentConnectionStates,
    durationNanoseconds,
  )

-- | Counters of one server. Adding to them takes no lock.
data Metrics = Metrics
  { metricsStart :: !Word64,
    metricsCounter :: !PerCpuCounter,
    -- The servers whose connections are counted by state.
    metricsServers :: !(IORef [ServerState])
  }

-- The indices of the numbers. The five classes of status begin at 'firstClass', the results of handshakes at
-- 'firstHandshake', the buckets of the histogram at 'firstBucket'.
opened,
  closed,
  active,
  refused,
  cutOff,
  bodyBytes,
  nanoseconds,
  firstClass,
  firstHandshake,
  firstLimit,
  firstBucket ::
    Int
opened = 0
closed = 1
active = 2
refused = 3
cutOff = 4
bodyBytes = 5
nanoseconds = 6
firstClass = 7
firstHandshake = 12
firstLimit = firstHandshake + length handshakeResults
firstBucket = firstLimit + length limitNames

-- | The counters of a server that has done nothing yet.
newMetrics :: IO Metrics
newMetrics = Metrics <$> getMonotonicTimeNSec <*> newPerCpuCounter (firstBucket + bucketCount) <*> newIORef []

-- | Adds a server. The figures then count its connections by state.
addServer :: Metrics -> ServerState -> IO ()
addServer metrics state = atomicModifyIORef' (metricsServers metrics) (\others -> (state : others, ()))

-- | Counts a connection that was accepted.
countOpened :: Metrics -> IO ()
countOpened metrics = add (metricsCounter metrics) opened 1

-- | Counts a connection that has ended.
countClosed :: Metrics -> IO ()
countClosed metrics = add (metricsCounter metrics) closed 1

-- | Counts an answer. A request that was refused before the application saw it counts only as refused. An answer that
-- was cut off counts as that and not in the class of its status: the client has not got what the status says.
countAnswer :: Metrics -> Answer -> IO ()
countAnswer metrics answer
  | Just (RefusedAtOnce _) <- answerRefusal answer = add (metricsCounter metrics) refused 1
  | otherwise = do
    row <- ownRow (metricsCounter metrics)
    addTo row bodyBytes (fromMaybe 0 (answerBytes answer))
    addTo row nanoseconds (fromIntegral answerTime)
    addTo
      row
      ( if answerIsCutOff answer
          then cutOff
          else firstClass + min 4 (max 0 (statusCode (answerStatus answer) `quot` 100 - 1))
      )
      1
    addTo row (firstBucket + bucketOf answerTime) 1
  where
    answerTime = durationNanoseconds (answerDuration answer)

-- | The result of a TLS handshake.
data HandshakeResult
  = FullHandshake
  | -- | An earlier session was resumed.
    Resumption
  | RefusedHandshake
  | -- | It was not done in time.
    SlowHandshake
  | -- | The connection failed.
    LostHandshake
  deriving (Eq, Show, Enum, Bounded)

handshakeResults :: [(HandshakeResult, String)]
handshakeResults = zip [minBound ..] ["full", "resumed", "refused", "slow", "lost"]

-- | Counts a handshake that has ended.
countHandshake :: Metrics -> HandshakeResult -> IO ()
countHandshake metrics result = add (metricsCounter metrics) (firstHandshake + fromEnum result) 1

limitNames :: [(ConnectionLimit, String)]
limitNames = [(limit, named limit) | limit <- [minBound ..]]
  where
    named limit = case limit of
      FramesWithoutUse -> "useless-frames"
      CancelledRequests -> "resets"
      LargeHeads -> "heads"
      ConnectionMemory -> "memory"

-- | Counts a connection that ends because its client has gone beyond a limit.
countLimit :: Metrics -> ConnectionLimit -> IO ()
countLimit metrics limit = add (metricsCounter metrics) (firstLimit + fromEnum limit) 1

-- | Counts the requests in progress: those on which the application is working. A connection of HTTP\/2 may have many,
-- so they say nothing about connections.
countActive :: Metrics -> Middleware
countActive metrics application request respond = do
  row <- ownRow (metricsCounter metrics)
  addTo row active 1
  application request respond `finally` addTo row active (-1)

-- | The numbers at one moment.
data Figures = Figures
  { figureUptime :: Word64, -- in nanoseconds
    figureOpened :: Int,
    figureClosed :: Int,
    figureStates :: ConnectionStates,
    -- | The requests in progress.
    figureActive :: Int,
    figureRefused :: Int,
    figureCutOff :: Int,
    figureBodyBytes :: Int,
    -- | The sum of the durations of all requests.
    figureNanoseconds :: Int,
    -- | The whole answers, by class of status.
    figureClasses :: [(String, Int)],
    -- | By how they ended.
    figureHandshakes :: [(String, Int)],
    -- | The connections that a limit has ended, by limit.
    figureLimits :: [(String, Int)],
    -- | The durations of answers, counted by bucket ("Millrace.Cli.Observe.Histogram").
    figureBuckets :: [Int],
    figureCapabilities :: Int,
    figureLoops :: Int,
    figureBackend :: String,
    figureLoopCounters :: Counters,
    -- | On systems that tell it.
    figureResidentBytes :: Maybe Int,
    -- | If the run-time system counts (@+RTS -T@).
    figureHeapBytes :: Maybe Int
  }

-- | Reads all numbers. May take some tens of microseconds.
readFigures :: Metrics -> IO Figures
readFigures metrics = do
  now <- getMonotonicTimeNSec
  numbers <- amounts (metricsCounter metrics)
  states <- readIORef (metricsServers metrics) >>= mapM currentConnectionStates
  capabilities <- getNumCapabilities
  loops <- loopCount
  backend <- chosenBackend
  loopCounters <- counters
  resident <- residentBytes
  heap <- heapBytes
  let number index = sum (take 1 (drop index numbers))
  pure
    Figures
      { figureUptime = now - metricsStart metrics,
        figureOpened = number opened,
        figureClosed = number closed,
        figureStates = sumOf states,
        figureActive = number active,
        figureRefused = number refused,
        figureCutOff = number cutOff,
        figureBodyBytes = number bodyBytes,
        figureNanoseconds = number nanoseconds,
        figureClasses = zip ["1xx", "2xx", "3xx", "4xx", "5xx"] (drop firstClass numbers),
        figureHandshakes = zip (map snd handshakeResults) (drop firstHandshake numbers),
        figureLimits = zip (map snd limitNames) (drop firstLimit numbers),
        figureBuckets = drop firstBucket numbers,
        figureCapabilities = capabilities,
        figureLoops = loops,
        figureBackend = backendName backend,
        figureLoopCounters = loopCounters,
        figureResidentBytes = resident,
        figureHeapBytes = heap
      }

sumOf :: [ConnectionStates] -> ConnectionStates
sumOf states = ConnectionStates (total connectionsNew) (total connectionsIdle) (total connectionsActive)
  where
    total of' = sum (map of' states)

heapBytes :: IO (Maybe Int)
heapBytes = do
  isKnown <- getRTSStatsEnabled
  if isKnown then Just . fromIntegral . gcdetails_mem_in_use_bytes . gc <$> getRTSStats else pure Nothing

-- | The number of open connections.
openNow :: Figures -> Int
openNow figures = max 0 (figureOpened figures - figureClosed figures)

-- | The number of requests that the application has answered, in whole or in part.
requestsDone :: Figures -> Int
requestsDone figures = figureCutOff figures + sum (map snd (figureClasses figures))
