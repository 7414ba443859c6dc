-- |
-- A server: accepts connections on a listening socket, runs a session in a thread for each, and shuts down.
-- Must not know: requests, responses.
module Millrace.Http.Server.Accept (runListeners) where

import Control.Concurrent (forkIO, forkOn, getNumCapabilities)
import Control.Concurrent.STM (atomically, check, modifyTVar', newTVarIO, readTVar, readTVarIO, writeTVar)
import Control.Exception
import Control.Monad (filterM, forM_, guard, replicateM, unless, void, when)
import Data.IORef
import Data.IntMap.Strict (IntMap)
import qualified Data.IntMap.Strict as IntMap
import Data.List (sortOn)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eBADF, eINVAL, eMFILE, eNFILE, eNOTSOCK, errnoToIOError)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds)
import Millrace.Http.Exception (ConnectionsCutOff (..), acceptingConnection, isTimeExpired)
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.Server.Context
import Millrace.Http.Server.Eviction
import Millrace.Http.Server.Lifetime (runConnection)
import Millrace.Http.Server.Listener (Listener (..), closeListener, inFlightMicros, retire)
import Millrace.Http.Server.NetworkSocket (closeTheirs, duplicate)
import Millrace.Http.Server.Served
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Http.Server.State
import Millrace.Http.Server.Worker
import Millrace.Http.System (descriptorLimit)
import Millrace.Http.Transport (abort, closeTransport, plainTransport, quietMillis)
import Millrace.Socket
import Millrace.Timer (registerDelay, threadDelay)
import qualified Network.Socket as Network
import Network.Wai (Application)

-- The open connections that one accepting thread has taken.
type Registry = IORef (IntMap Served)

-- | Serves connections until the listening sockets are closed: by the action that 'settingsInstallShutdownHandler'
-- gets, or by any other thread. Then waits for the connections to end, at most 'settingsGracefulShutdownSeconds',
-- aborts the rest and reports their number. There is one accepting thread per capability, or per socket if there are
-- more sockets. If exceptions have ended all accepting threads without a request to shut down, throws the last of them
-- at the end.
--
-- An exception thrown to the calling thread closes the listening sockets and aborts all connections.
--
-- The threads of aborted connections get 'ThreadKilled', because nobody can receive their responses. They are waited
-- for, but only briefly.
runListeners :: Settings -> [Listener] -> Application -> IO ()
runListeners settings listeners application = do
  server <- newServerContext settings
  tellWaiting <- newWaitingTeller settings
  sources <- mapM (newSource settings tellWaiting) listeners
  asked <- newTVarIO False
  let drainAll = beginDraining server sources >> atomically (writeTVar asked True)
      endNow = enterPhase server Over >> announceShutdown (serverState server) >> mapM_ endSource sources
  -- Accepted sockets inherit NoDelay from the listening socket, which saves a system call each. Unix sockets do not have
  -- this option.
  forM_ listeners $ \listener -> setSocketOption (listenerSocket listener) NoDelay 1 `catch` ignore
  settingsInstallShutdownHandler settings drainAll
  settingsBeforeMainLoop settings
  capabilities <- getNumCapabilities
  limit <- maybe (fmap (`Room` tellWaiting) <$> descriptorRoom capabilities) (return . Just . (`Room` return ())) (settingsMaximumConnections settings)
  let count = max capabilities (length listeners)
  registries <- replicateM count (newIORef IntMap.empty)
  eviction <- newEviction (findIdle registries) askToEnd
  accepted <- newIORef 0
  accepting <- newTVarIO count
  broken <- newIORef Nothing
  let noteBroken failure = do
        settingsOnException settings Nothing failure `catch` ignore
        writeIORef broken (Just (failure :: SomeException))
  let isAccepting = (> 0) <$> readTVarIO accepting
  flip finally (closeFileCache (serverFiles server)) . flip onException (endNow >> cutAll registries isAccepting) $ do
    forM_ (zip3 [0 ..] registries (cycle sources)) $ \(number, registry, source) ->
      forkOnMasked number $
        ( acceptLoop
            Acceptor
              { acceptorServer = server,
                acceptorSource = source,
                acceptorBatch = batchSize count (length listeners) (roomFor <$> limit),
                acceptorEviction = eviction,
                acceptorRegistry = registry,
                acceptorNumbers = nextNumber accepted,
                acceptorRoom = limit,
                acceptorApplication = application
              }
            `catch` noteBroken
        )
          `finally` atomically (modifyTVar' accepting (subtract 1))
    atomically ((||) <$> readTVar asked <*> ((== 0) <$> readTVar accepting) >>= check)
    wanted <- readTVarIO asked
    drainAll
    inTime <- drain (settingsGracefulShutdownSeconds settings) registries isAccepting
    unless inTime (endNow >> reportLeft settings registries >> cutAll registries isAccepting)
    unless wanted (readIORef broken >>= mapM_ throwIO)

-- Numbers connections in the order of acceptance, across all accepting threads.
nextNumber :: IORef Int -> IO Int
nextNumber accepted = atomicModifyIORef' accepted (\number -> (number + 1, number))

forkOnMasked :: Int -> IO () -> IO ()
forkOnMasked capability action = mask_ (void (forkOn capability action))

-- Announces the shutdown, and closes the listening sockets in threads of their own. Any thread may call this, and more
-- than once.
beginDraining :: ServerContext -> [Source] -> IO ()
beginDraining server sources = do
  entered <- enterPhase server Draining
  when entered $ do
    announceShutdown (serverState server)
    forM_ sources (forkIO . retireSource)

------------------------------------------------------------------------------------------------------------------------
-- Accepting

-- A source of connections, and the two ways to end it: 'retireSource' first accepts what is queued, 'endSource' closes
-- at once.
data Source = Source
  { nextConnection :: !(IO (Socket, SockAddr)),
    -- A connection that is already queued, if there is one.
    waitingConnection :: !(IO (Maybe (Socket, SockAddr))),
    retireSource :: !(IO ()),
    endSource :: !(IO ())
  }

-- The 'setAccept' function of a user works on sockets of the network package, so it gets a duplicate of the listening
-- socket.
newSource :: Settings -> IO () -> Listener -> IO Source
newSource settings tellWaiting listener = case settingsAccept settings of
  Nothing ->
    return (sourceOf (acceptTelling tellWaiting (listenerSocket listener)) (acceptNow (listenerSocket listener)) (closeListener listener))
  Just acceptTheirs -> do
    theirs <- withFdSocket (listenerSocket listener) (duplicate "setAccept") >>= Network.mkSocket
    let next = do
          (accepted, peer) <- acceptTheirs theirs
          ours <- fromNetworkSocket accepted
          return (ours, peer)
    return (sourceOf next (return Nothing) (closeTheirs theirs >> closeListener listener))
  where
    sourceOf next waiting end =
      Source {nextConnection = next, waitingConnection = waiting, retireSource = retire listener end, endSource = end}

-- Accepts a connection. 'accept' waits, and does not fail, when descriptors run out. So this checks every few seconds whether
-- a descriptor is free, and reports if there is none.
acceptTelling :: IO () -> Socket -> IO (Socket, SockAddr)
acceptTelling tellWaiting listener = do
  deadline <- deadlineAfter patienceMicros
  outcome <- tryJust (guard . isTimeExpired) (acceptBefore deadline listener)
  case outcome of
    Right accepted -> return accepted
    Left () -> do
      left <- isDescriptorLeft
      unless left tellWaiting
      acceptTelling tellWaiting listener
  where
    -- Five seconds: an idle server should seldom wake.
    patienceMicros = 5000000

isDescriptorLeft :: IO Bool
isDescriptorLeft =
  (True <$ bracket (socket AF_INET Stream defaultProtocol) close return) `catch` \failure ->
    return (ioe_errno failure `notElem` [Just number | Errno number <- [eMFILE, eNFILE]])

-- Reports that connections wait for descriptors, at most once a second.
newWaitingTeller :: Settings -> IO (IO ())
newWaitingTeller settings = tell <$> newIORef 0
  where
    tell notBefore = do
      now <- monotonicNanoseconds
      due <- atomicModifyIORef' notBefore (\moment -> if now < moment then (moment, False) else (now + 1000000000, True))
      when due (settingsOnException settings Nothing (toException (errnoToIOError acceptingConnection eMFILE Nothing Nothing)) `catch` ignore)

-- The state of a thread that accepts connections.
data Acceptor = Acceptor
  { acceptorServer :: !ServerContext,
    acceptorSource :: !Source,
    -- The number of additional connections to accept at once, by the number of open connections.
    acceptorBatch :: !(Int -> Int),
    acceptorEviction :: !(Eviction Candidate),
    -- The open connections that this thread has accepted.
    acceptorRegistry :: !Registry,
    acceptorNumbers :: !(IO Int),
    acceptorRoom :: !(Maybe Room),
    acceptorApplication :: !Application
  }

-- Runs masked, so that no exception can come between accepting a connection and forking the thread that closes it.
-- Accepting itself can be interrupted.
--
-- Accepts all queued connections before it forks a thread. After a few forks GHC's scheduler puts this thread behind
-- all others. A busy server would then accept only a few connections each time, and the socket's queue would overflow.
acceptLoop :: Acceptor -> IO ()
acceptLoop acceptor = go
  where
    server = acceptorServer acceptor
    source = acceptorSource acceptor
    settings = serverSettings server
    admit (peerSocket, peer) = do
      number <- acceptorNumbers acceptor
      admitConnection server (acceptorRegistry acceptor) (acceptorApplication acceptor) number peerSocket peer
    go = do
      outcome <- try (nextConnection source)
      case outcome of
        Right first -> do
          mapM_ (awaitRoom server (acceptorEviction acceptor)) (acceptorRoom acceptor) `onException` close (fst first)
          others <- currentOpenConnections (serverState server) >>= takeWaiting source . acceptorBatch acceptor
          mapM admit (first : others) >>= sequence_
          go
        Left failure -> do
          phase <- readIORef (serverPhase server)
          unless (phase == Over || isClosed failure) $ do
            settingsOnException settings Nothing (toException failure) `catch` ignore
            threadDelay retryMicros
            go

-- @batchSize threads listeners limit open@: the number of additional connections that an accepting thread takes at
-- once. It leaves the other threads their share of the room. Threads that accept from the same socket must also get
-- about equally many connections.
batchSize :: Int -> Int -> Maybe Int -> Int -> Int
batchSize threads listeners limit open = minimum [batchMax, fair, maybe batchMax room limit]
  where
    fair = if threads > listeners then open `quot` 8 else batchMax
    room most = (most - open - threads) `quot` threads

batchMax :: Int
batchMax = 256

-- Accepts queued connections, at most the given number.
takeWaiting :: Source -> Int -> IO [(Socket, SockAddr)]
takeWaiting source most
  | most <= 0 = return []
  | otherwise = (waitingConnection source `catch` none) >>= maybe (return []) (\one -> (one :) <$> takeWaiting source (most - 1))
  where
    -- If this fails, so will the next call of accept, which handles the failure.
    none :: IOException -> IO (Maybe a)
    none _ = return Nothing

-- Only a closed listening socket ends the accepting thread. (So does any exception that is not an 'IOException'.)
isClosed :: IOException -> Bool
isClosed failure =
  ioe_type failure == InvalidArgument || ioe_errno failure `elem` [Just number | Errno number <- [eBADF, eINVAL, eNOTSOCK]]

retryMicros :: Int
retryMicros = 100000

ignore :: SomeException -> IO ()
ignore _ = return ()

-- The number of connections for which there are descriptors. It leaves 16 for files, and 8 per capability for the run-time
-- system and the managers. Without this limit 'accept' would wait for a free descriptor, and idle connections would not be
-- closed to make room.
descriptorRoom :: Int -> IO (Maybe Int)
descriptorRoom capabilities = fmap (\most -> max 1 (most - 16 - 8 * capabilities)) <$> descriptorLimit

-- The largest number of open connections, and an action that reports that new ones wait because the limit is reached.
data Room = Room
  { roomFor :: !Int,
    _tellNone :: !(IO ())
  }

-- Delays an accepted connection until there is room for it. To make room, closes the oldest idle connection that has
-- served a request; if there is none, the oldest that has been silent since it was opened.
awaitRoom :: ServerContext -> Eviction Candidate -> Room -> IO ()
awaitRoom server eviction (Room limit tellWaiting) = go (0 :: Int)
  where
    state = serverState server
    go waits = do
      count <- currentOpenConnections state
      phase <- readIORef (serverPhase server)
      when (count >= limit && phase == Serving) $ do
        evicted <- evict eviction
        unless (evicted == OneGivesWay || waits == 0) tellWaiting
        patience <- registerDelay (pauseAfter evicted)
        atomically $ do
          now <- currentOpenConnectionsSTM state
          late <- readTVar patience
          check (now < limit || late)
        go (waits + 1)
    pauseAfter (AskLater micros) = micros
    pauseAfter _ = retryMicros

-- A connection that was idle when it was listed: its registry and its number there. It may have ended since.
data Candidate = Candidate !Registry !Int

-- The connections that are idle now, oldest first: those that have served a request, whose clients must expect a close,
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

-- Closes the connection if it is still idle and no request can be on its way.
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

-- Registers a connection. Returns the action that starts its thread.
admitConnection :: ServerContext -> Registry -> Application -> Int -> Socket -> SockAddr -> IO (IO ())
admitConnection server registry application number peerSocket peer = do
  connection <- newServed server (plainTransport peerSocket peer)
  countConnection state
  atomicModifyIORef' registry (\open -> (IntMap.insert number connection open, ()))
  let -- The registry comes last: a shutdown waits until it is empty, and then nothing may be open or counted.
      release = do
        closeTransport (servedTransport connection) `catch` ignore
        discountConnection state
        atomicModifyIORef' registry (\open -> (IntMap.delete number open, ()))
      noThread :: SomeException -> IO ()
      noThread failure = release >> settingsOnException settings Nothing failure `catch` ignore
  return $ settingsFork settings (\_ -> mask_ (runConnection connection application release)) `catch` noThread
  where
    settings = serverSettings server
    state = serverState server

------------------------------------------------------------------------------------------------------------------------
-- Shutting down

-- Waits until the accepting threads have ended and no connection is open. Returns False if that takes longer than the
-- given number of seconds. Closes idle connections at once, and repeatedly, because a connection may become idle at any
-- moment. Busy ones send "Connection: close" with their next response, or GOAWAY with HTTP/2. A connection with very
-- recent traffic does not count as idle: its next request may be on its way, and would be lost.
drain :: Maybe Int -> [Registry] -> IO Bool -> IO Bool
drain seconds registries isAccepting = do
  start <- monotonicNanoseconds
  go start firstPauseMicros
  where
    go :: Word64 -> Int -> IO Bool
    go start pause = do
      accepting <- isAccepting
      open <- openOnes registries
      now <- monotonicNanoseconds
      let elapsedMillis = fromIntegral ((now - start) `quot` 1000000)
          isLate = maybe False (elapsedMillis `quot` 1000 >=) seconds
      if not accepting && null open
        then return True
        else if isLate then return False else endQuiet elapsedMillis open >> threadDelay pause >> go start (min lastPauseMicros (2 * pause))
    endQuiet elapsedMillis open = filterM (fmap not . finishSoon) open >>= filterM (isQuiet elapsedMillis) >>= mapM_ giveWay

-- Whether a connection has been idle for so long that no request can be on its way. If the kernel does not know when there
-- was last traffic, the time counts from the beginning of the shutdown.
isQuiet :: Int -> Served -> IO Bool
isQuiet elapsedMillis connection = do
  waits <- isIdle connection
  if not waits
    then return False
    else do
      millis <- quietMillis (servedTransport connection)
      return (fromMaybe elapsedMillis millis >= inFlightMicros `quot` 1000)

openOnes :: [Registry] -> IO [Served]
openOnes registries = concat <$> mapM (fmap IntMap.elems . readIORef) registries

-- Ends all connections, and waits at most 'lastMillis'. A connection that is just being accepted ends by itself,
-- because it sees that the server is over. First sends 'ThreadKilled' and only later aborts the connections that are
-- left: if a connection were aborted first, its handler could fail while it sends, and report that the client has gone.
cutAll :: [Registry] -> IO Bool -> IO ()
cutAll registries isAccepting = do
  start <- monotonicNanoseconds
  openOnes registries >>= mapM_ (killWorker . servedWorker)
  awaitNone (start + 1000000 * fromIntegral (lastMillis - cutMillis)) firstPauseMicros
  openOnes registries >>= mapM_ cut
  awaitNone (start + 1000000 * fromIntegral lastMillis) firstPauseMicros
  where
    awaitNone :: Word64 -> Int -> IO ()
    awaitNone limit pause = do
      more <- isAccepting
      open <- openOnes registries
      now <- monotonicNanoseconds
      unless ((not more && null open) || now >= limit) (threadDelay pause >> awaitNone limit (min lastPauseMicros (2 * pause)))

reportLeft :: Settings -> [Registry] -> IO ()
reportLeft settings registries = do
  left <- length <$> (openOnes registries >>= filterM (fmap not . isLeaving))
  when (left > 0) (settingsOnException settings Nothing (toException (ConnectionsCutOff left)) `catch` ignore)

cut :: Served -> IO ()
cut = abort . servedTransport

firstPauseMicros, lastPauseMicros :: Int
firstPauseMicros = 1000
lastPauseMicros = 50000

-- How long 'cutAll' waits for handlers that were killed. Most end at once, some clean up, and some block where no exception
-- reaches them.
lastMillis :: Int
lastMillis = 250

-- The part of 'lastMillis' that remains after connections are aborted.
cutMillis :: Int
cutMillis = 50
