{-# LANGUAGE TupleSections #-}
{-# OPTIONS_HADDOCK hide #-}

-- Must not know: listeners.

-- |
-- How many connections a server has, and which ones give way to new ones: the oldest that are idle.
--
-- For a server's own limit ('settingsMaximumConnections'), connections of that server give way. For descriptors,
-- connections of any server of the process do, because they share them.
--
-- Exposed for the package's own tests. Not covered by the version policy.
module Millrace.Http.Server.Admission
  ( -- * Room for connections
    ConnectionCapacity (..),
    awaitCapacity,
    Crowd (..),
    newCrowd,

    -- * Idle connections
    Registry,
    Candidate,
    findIdle,
    askToEnd,
    firstRequestMillis,
    asRunning,
    currentConnectionStates,
    overallEviction,

    -- * Eviction
    Eviction,
    Candidates (..),
    EvictionOutcome (..),
    Evicted (..),
    newEviction,
    evict,

    -- * Descriptors
    Share,
    connectionShare,
    shareOf,
    isBeyond,
    isBeyondNumber,
    isStarving,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Concurrent.MVar (MVar, modifyMVar, newMVar)
import Control.Concurrent.STM (atomically, check, readTVar)
import Control.Exception
import Control.Monad (filterM, foldM, forM_, unless, when)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import Data.Maybe (isJust, isNothing)
import Data.Unique (Unique, newUnique)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eMFILE, eNFILE, errnoToIOError)
import Foreign.C.Types (CInt)
import GHC.IO.Exception (IOException (..))
import Millrace.Deadline (monotonicNanoseconds)
import Millrace.Http.Delivery (lingerPauseMicros)
import Millrace.Http.Exception (acceptingConnection)
import Millrace.Http.Server.Connection
import Millrace.Http.Server.Context
import Millrace.Http.Server.Settings
import Millrace.Http.Server.State
import Millrace.Http.System (descriptorLimit)
import Millrace.Http.Transport (quietMillis)
import Millrace.Internal.DescriptorShare (leftToOthers)
import Millrace.Socket
import Millrace.Timer (registerDelay, threadDelay, timeout)
import Millrace.Wait (threadWaitRead)
import System.IO.Unsafe (unsafePerformIO)

------------------------------------------------------------------------------------------------------------------------
-- The capacity for connections

-- | What bounds the number of connections.
data ConnectionCapacity = ConnectionCapacity
  { -- | 'settingsMaximumConnections', and what reports that new connections wait for that.
    capacityConnections :: !(Maybe (Int, IO ())),
    -- | 'Nothing': descriptors are not limited.
    capacityShare :: !(Maybe Share),
    -- | Reports that new connections wait for descriptors.
    capacityTellWaiting :: !(IO ())
  }

-- | Delays an accepted connection until there is capacity for it, and makes room: idle ones give way. Returns the
-- socket of the connection, and closes it if it throws.
awaitCapacity :: ServerContext -> Eviction Candidate -> ConnectionCapacity -> Socket -> IO Socket
awaitCapacity server own capacity newcomer = flip onException (close newcomer) $ do
  forM_ (capacityConnections capacity) $ \(most, tellWaiting) ->
    awaiting lingering own tellWaiting [state] ((< most) <$> currentOpenConnections state)
  maybe (return newcomer) within (capacityShare capacity)
  where
    state = serverState server
    within share = do
      beyond <- isBeyond share newcomer
      if not beyond
        then return newcomer
        else do
          states <- runningStates
          awaiting 0 overallEviction (capacityTellWaiting capacity) states (hasCapacity share)
          renumbered newcomer
    -- @slowEnd@: for how many nanoseconds no other one is asked while the one that gives way has not ended.
    awaiting slowEnd eviction tellWaiting states hasRoomNow = go (0 :: Int) 0
      where
        go waits patientUntil = do
          free <- hasRoomNow
          phase <- readIORef (serverPhase server)
          unless (free || phase /= Serving) $ do
            before <- sum <$> mapM currentOpenConnections states
            now <- monotonicNanoseconds
            evicted <- if now < patientUntil then return OneGivesWay else evict eviction
            unless (evicted == OneGivesWay || waits == 0) tellWaiting
            patience <- registerDelay (pauseAfter evicted)
            oneEnded <- atomically $ do
              open <- sum <$> mapM currentOpenConnectionsSTM states
              late <- readTVar patience
              check (open < before || late)
              return (open < before)
            go (waits + 1) (nextAsk oneEnded evicted now patientUntil)
        -- If one has ended and there is no room, another newcomer was faster.
        nextAsk oneEnded evicted now patientUntil
          | oneEnded || evicted /= OneGivesWay = 0
          | now < patientUntil = patientUntil
          | otherwise = now + slowEnd
    pauseAfter (AskLater micros) = micros
    pauseAfter _ = 100000
    -- What gives way needs time to end: it may linger, and more on a busy machine. Another one would lose its
    -- connection for nothing.
    lingering = 1000 * (fromIntegral lingerPauseMicros + 1000000)

-- | Reports that connections wait because of a bound, and that none waits any more.
data Crowd = Crowd
  { -- | Called again and again while a connection waits.
    noteWaiting :: !(IO ()),
    endCrowd :: !(IO ())
  }

-- | A crowd is over when nobody has waited for ten seconds. So a server that stays at its bound does not report it
-- again and again.
newCrowd :: Settings -> Bound -> IO Crowd
newCrowd settings bound = do
  -- When somebody waited last, and who watches for the end of it.
  lately <- newIORef Nothing
  watching <- newIORef Nothing
  let note = mask_ $ do
        now <- monotonicNanoseconds
        before <- atomicModifyIORef' lately (Just now,)
        when (isNothing before) $ do
          report (ClientsWait bound)
          forkIOWithUnmask (\unmask -> unmask watch) >>= writeIORef watching . Just
      watch = do
        now <- monotonicNanoseconds
        left <- atomicModifyIORef' lately (remaining now)
        case left of
          Just micros -> threadDelay micros >> watch
          Nothing -> report (ClientsWaitNoMore bound)
  return (Crowd note (readIORef watching >>= mapM_ killThread))
  where
    remaining now moment = case moment of
      Just last'
        | now < last' + graceNanoseconds ->
          (moment, Just (1 + fromIntegral ((last' + graceNanoseconds - now) `quot` 1000)))
      _ -> (Nothing, Nothing)
    graceNanoseconds = 10000000000
    report news = told news `catch` ignore
    ignore :: SomeException -> IO ()
    ignore _ = return ()
    told news = case (settingsOnCrowding settings, news) of
      (Just observer, _) -> observer news
      (Nothing, ClientsWait OpenDescriptors) ->
        settingsOnException settings Nothing (toException (errnoToIOError acceptingConnection eMFILE Nothing Nothing))
      _ -> return ()

------------------------------------------------------------------------------------------------------------------------
-- Idle connections

-- | The open connections that one accepting thread has taken, by number.
type Registry = IORef (IntMap Served)

-- | A connection that was idle when it was listed: its registry and its number there. It may have ended since.
data Candidate = Candidate !Registry !Int

-- | The connections that are idle now, oldest first: those that have served a request, whose clients must expect a
-- close, and new ones.
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
askToEnd :: Candidate -> IO EvictionOutcome
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
    isSilent connection = maybe False (>= firstRequestMillis) <$> quietMillis (servedTransport connection)

-- | How long the first request of a new connection may be on its way. A client that has just connected counts on an
-- answer: unlike one whose connection was kept, it need not repeat its request. The time is longer than a request takes
-- if its first segments were lost, or if the client's machine is busy.
firstRequestMillis :: Int
firstRequestMillis = 5000

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

-- | The states of the connections of servers that use this state. Looks at each connection, so it takes about a
-- millisecond for ten thousand. Does not block.
--
-- > (state, settings) <- makeServerState defaultSettings
-- > _ <- forkIO (runSettings settings application)
-- > currentConnectionStates state >>= print
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

------------------------------------------------------------------------------------------------------------------------
-- Eviction

-- Chooses which of many elements to evict for a new one, without scanning all of them each time: a scan finds all
-- candidates in order. They are kept and tried one by one, and only when they are used up is there another scan. That
-- is cheap if a scan finds many. If it finds few, scanning for each new element would take time proportional to the
-- number of elements. So there is a pause between two scans, long enough that at most a tenth of the time goes into
-- scanning.

-- | The candidates, each list in the order in which to try them.
data Candidates a = Candidates
  { -- | Tried first.
    candidatesPreferred :: [a],
    -- | Tried if a scan has found none of the former.
    candidatesOthers :: [a]
  }

-- | The result of trying one candidate.
data EvictionOutcome
  = -- | It gives way.
    GivesWay
  | -- | It is in use again.
    Stays
  | -- | It cannot be evicted yet, and neither can those behind it in its list.
    NotYet
  deriving (Eq, Show)

-- | The state of eviction. Several threads may use it.
data Eviction a = Eviction !(IO (Candidates a)) !(a -> IO EvictionOutcome) !(MVar (Memory a))

-- The remaining candidates, and the time of the next scan in monotonic nanoseconds.
data Memory a = Memory !(Candidates a) !Word64

-- | @newEviction scan try@: an action that finds all candidates, and one that tries to evict a candidate. They never
-- run at the same time.
newEviction :: IO (Candidates a) -> (a -> IO EvictionOutcome) -> IO (Eviction a)
newEviction look ask = Eviction look ask <$> newMVar (Memory (Candidates [] []) 0)

-- | The result of 'evict'.
data Evicted
  = -- | One gives way.
    OneGivesWay
  | -- | There is none to evict. A scan has just shown it.
    NoneGivesWay
  | -- | There is none to evict. Try again after this many microseconds.
    AskLater !Int
  deriving (Eq, Show)

-- | Makes one give way.
evict :: Eviction a -> IO Evicted
evict (Eviction look ask memory) = modifyMVar memory $ \(Memory known next) -> do
  (gone, preferred) <- askEach (candidatesPreferred known)
  start <- monotonicNanoseconds
  let remembered = known {candidatesPreferred = preferred}
  if gone
    then return (Memory remembered next, OneGivesWay)
    else if start < next then askRemembered remembered start next else lookAgain start
  where
    askRemembered known start next = do
      (gone, others) <- askEach (candidatesOthers known)
      return
        (Memory known {candidatesOthers = others} next, if gone then OneGivesWay else AskLater (microsUntil start next))
    lookAgain start = do
      found <- look
      end <- monotonicNanoseconds
      (gone, left) <- askFound found
      return (Memory left (end + min longestPause (9 * (end - start))), if gone then OneGivesWay else NoneGivesWay)
    askFound found = do
      (gone, preferred) <- askEach (candidatesPreferred found)
      (goneNow, others) <- if gone then return (True, candidatesOthers found) else askEach (candidatesOthers found)
      return (goneNow, Candidates preferred others)
    askEach [] = return (False, [])
    askEach (first : others) = do
      outcome <- ask first
      case outcome of
        GivesWay -> return (True, others)
        Stays -> askEach others
        NotYet -> return (False, first : others)
    microsUntil now later = fromIntegral ((later - now) `div` 1000) + 1

-- In nanoseconds. Without this limit a scan that was preempted would count as a slow one, and cause a long pause.
longestPause :: Word64
longestPause = 100000000

------------------------------------------------------------------------------------------------------------------------
-- Descriptors

-- The system gives a new descriptor the lowest number that is free. So the number of an accepted socket shows how many
-- descriptors the whole process has open, whoever opened them, and no counting is needed: if the number is beyond the
-- share of connections, all lower ones are in use.

-- | The descriptors that connections may have: those with numbers below the first one here. The second one is the
-- process's limit.
data Share = Share !Int !Int
  deriving (Eq, Show)

-- | The share of this process, as its soft limit is now, with this many descriptors reserved for other purposes.
-- 'Nothing': there is no limit.
connectionShare :: Maybe Int -> IO (Maybe Share)
connectionShare reserved = fmap (shareOf reserved) <$> descriptorLimit

-- | The share of a process with this limit. Without a number of the settings, as many are reserved as other servers
-- leave, too.
shareOf :: Maybe Int -> Int -> Share
shareOf reserved limit =
  Share (max smallest (limit - maybe (leftToOthers limit) (max 0) reserved)) limit
  where
    -- With less hardly any client would be served: the lowest numbers are those of standard streams, listeners and
    -- managers.
    smallest = min limit 24

-- | Whether a socket has a descriptor beyond the share.
isBeyond :: Share -> Socket -> IO Bool
isBeyond share s = isBeyondNumber share <$> unsafeFdSocket s

-- | Whether a descriptor is beyond the share. The numbers of simulated machines are beyond the limit, and do not count.
isBeyondNumber :: Share -> CInt -> Bool
isBeyondNumber (Share end limit) number = fromIntegral number >= end && fromIntegral number < limit

-- | Whether a descriptor within the share is free.
hasCapacity :: Share -> IO Bool
hasCapacity share = either (const False) not <$> numbered
  where
    numbered :: IO (Either IOException Bool)
    numbered = try (bracket (socket AF_INET Stream defaultProtocol) close (isBeyond share))

-- | Moves a connection to the lowest descriptor that is free, so that it does not occupy one that is reserved for
-- others.
renumbered :: Socket -> IO Socket
renumbered s = (socketToFd s >>= mkSocket) `catch` kept
  where
    -- No number was free any more. The socket is still there.
    kept :: IOException -> IO Socket
    kept _ = return s

-- | Whether a connection waits at a listening socket, and no descriptor is free for it.
isStarving :: Socket -> IO Bool
isStarving listener = do
  left <- isDescriptorLeft
  if left
    then return False
    else (isJust <$> timeout 1000 (withFdSocket listener (threadWaitRead . fromIntegral))) `catch` gone
  where
    gone :: IOException -> IO Bool
    gone _ = return False

isDescriptorLeft :: IO Bool
isDescriptorLeft =
  (True <$ bracket (socket AF_INET Stream defaultProtocol) close return) `catch` \failure ->
    return (ioe_errno failure `notElem` [Just number | Errno number <- [eMFILE, eNFILE]])
