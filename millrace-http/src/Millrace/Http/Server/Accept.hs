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

-- | Serves connections until the listening sockets are closed, by the action that 'settingsInstallShutdownHandler' gets
-- or by anybody else; then waits for the connections to end, 'settingsGracefulShutdownSeconds' at most, and cuts off
-- those that are left, and reports how many. One accepting thread per capability, or per socket if there are more. If an
-- exception has ended them all, throws it in the end: nobody has asked for that end.
--
-- An exception thrown to the calling thread closes the listening sockets and cuts off all connections.
--
-- The threads of connections that are cut off get 'ThreadKilled': nobody is left who could want what they do. They are
-- waited for, but not for long.
runListeners :: Settings -> [Listener] -> Application -> IO ()
runListeners settings listeners application = do
  server <- newServerContext settings
  tellWaiting <- newWaitingTeller settings
  sources <- mapM (newSource settings tellWaiting) listeners
  asked <- newTVarIO False
  let drainAll = beginDraining server sources >> atomically (writeTVar asked True)
      endNow = enterPhase server Over >> announceShutdown (serverState server) >> mapM_ endSource sources
  -- Accepted sockets inherit it: one system call for all. A Unix socket has none.
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

-- Numbers connections in the order in which all accepting threads take them.
nextNumber :: IORef Int -> IO Int
nextNumber accepted = atomicModifyIORef' accepted (\number -> (number + 1, number))

forkOnMasked :: Int -> IO () -> IO ()
forkOnMasked capability action = mask_ (void (forkOn capability action))

-- Says that the server is about to end, and lets go of the listening sockets in threads of their own. May be called by
-- any thread, and again.
beginDraining :: ServerContext -> [Source] -> IO ()
beginDraining server sources = do
  entered <- enterPhase server Draining
  when entered $ do
    announceShutdown (serverState server)
    forM_ sources (forkIO . retireSource)

------------------------------------------------------------------------------------------------------------------------
-- Accepting

-- Where connections come from, and how it ends: in an orderly way, or at once.
data Source = Source
  { nextConnection :: !(IO (Socket, SockAddr)),
    -- One that has come already.
    waitingConnection :: !(IO (Maybe (Socket, SockAddr))),
    retireSource :: !(IO ()),
    endSource :: !(IO ())
  }

-- A function of the user's works on sockets of the network package, and so on a duplicate.
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

-- Accepting merely waits when no descriptor is left.
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
    -- Nobody who has nothing to do is woken often.
    patienceMicros = 5000000

isDescriptorLeft :: IO Bool
isDescriptorLeft =
  (True <$ bracket (socket AF_INET Stream defaultProtocol) close return) `catch` \failure ->
    return (ioe_errno failure `notElem` [Just number | Errno number <- [eMFILE, eNFILE]])

-- Tells that connections wait for descriptors, once in a second at most.
newWaitingTeller :: Settings -> IO (IO ())
newWaitingTeller settings = tell <$> newIORef 0
  where
    tell notBefore = do
      now <- monotonicNanoseconds
      due <- atomicModifyIORef' notBefore (\moment -> if now < moment then (moment, False) else (now + 1000000000, True))
      when due (settingsOnException settings Nothing (toException (errnoToIOError acceptingConnection eMFILE Nothing Nothing)) `catch` ignore)

-- What a thread that accepts connections works with.
data Acceptor = Acceptor
  { acceptorServer :: !ServerContext,
    acceptorSource :: !Source,
    -- How many connections it takes besides the one that it has waited for, when so many are open.
    acceptorBatch :: !(Int -> Int),
    acceptorEviction :: !(Eviction Candidate),
    -- Its own connections.
    acceptorRegistry :: !Registry,
    acceptorNumbers :: !(IO Int),
    acceptorRoom :: !(Maybe Room),
    acceptorApplication :: !Application
  }

-- Runs masked, so that no exception can come between taking a connection and forking the thread that closes it.
-- Accepting itself can be interrupted.
--
-- All that have come are taken before a thread is forked: after a few forks GHC's scheduler puts this thread behind all
-- others, so that a busy server would take a few connections in each of its rounds, and the queue of the socket would
-- run over.
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

-- @batchSize threads listeners limit open@: how many a thread takes besides the one that it has waited for. It leaves their
-- share of the room to the others; and if they take connections from the same socket, it must not get many more than they.
batchSize :: Int -> Int -> Maybe Int -> Int -> Int
batchSize threads listeners limit open = minimum [batchMax, fair, maybe batchMax room limit]
  where
    fair = if threads > listeners then open `quot` 8 else batchMax
    room most = (most - open - threads) `quot` threads

batchMax :: Int
batchMax = 256

-- At most so many of the connections that have come.
takeWaiting :: Source -> Int -> IO [(Socket, SockAddr)]
takeWaiting source most
  | most <= 0 = return []
  | otherwise = (waitingConnection source `catch` none) >>= maybe (return []) (\one -> (one :) <$> takeWaiting source (most - 1))
  where
    -- Accepting will fail in the same way.
    none :: IOException -> IO (Maybe a)
    none _ = return Nothing

-- Only a closed listening socket ends the accepting, and what is no 'IOException'.
isClosed :: IOException -> Bool
isClosed failure =
  ioe_type failure == InvalidArgument || ioe_errno failure `elem` [Just number | Errno number <- [eBADF, eINVAL, eNOTSOCK]]

retryMicros :: Int
retryMicros = 100000

ignore :: SomeException -> IO ()
ignore _ = return ()

-- How many connections there are descriptors for, beside some files and what the run-time system and the managers have
-- for each capability. Without this limit idle connections would keep new ones out: accepting merely waits for a
-- descriptor.
descriptorRoom :: Int -> IO (Maybe Int)
descriptorRoom capabilities = fmap (\most -> max 1 (most - 16 - 8 * capabilities)) <$> descriptorLimit

-- For how many connections, and what tells that there is none.
data Room = Room
  { roomFor :: !Int,
    _tellNone :: !(IO ())
  }

-- Holds back a connection that was accepted until there is room for it. Connections that are idle make room, the oldest
-- first: those that are kept, and where there is none, one that has been silent since it was opened.
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

-- A connection that was idle, by the registry that it is in and its number: it may be long over when it is asked.
data Candidate = Candidate !Registry !Int

-- Those that are idle now, the oldest first: those that are kept, which is what their clients have to expect, and the others.
findIdle :: [Registry] -> IO (Candidates Candidate)
findIdle registries = do
  open <- concat <$> mapM (\registry -> map (entry registry) . IntMap.toAscList <$> readIORef registry) registries
  idle <- filterM (isIdle . snd) (map snd (sortOn fst open))
  kept <- filterM (fmap (> 0) . requestCount . snd) idle
  new <- filterM (fmap (== 0) . requestCount . snd) idle
  Candidates <$> mapM (evaluate . fst) kept <*> mapM (evaluate . fst) new
  where
    entry registry (number, connection) = (number, (Candidate registry number, connection))

-- Ends it if it is still idle, and no request can be on its way.
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
    -- A new one may have a request on its way.
    isSilent connection = maybe False (>= silentMillis) <$> quietMillis (servedTransport connection)

-- Longer than a request takes whose first segments were lost.
silentMillis :: Int
silentMillis = 5000

-- Returns what starts its thread.
admitConnection :: ServerContext -> Registry -> Application -> Int -> Socket -> SockAddr -> IO (IO ())
admitConnection server registry application number peerSocket peer = do
  connection <- newServed server (plainTransport peerSocket peer)
  countConnection state
  atomicModifyIORef' registry (\open -> (IntMap.insert number connection open, ()))
  let -- In this order: who ends a server waits until nothing is registered, and then nothing may be open or counted.
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

-- Waits until nothing accepts any more and no connection is open; not longer than so many seconds, and then says False.
-- Idle connections are ended at once, again and again because a connection may become idle at any moment; busy ones say
-- "Connection: close" in their next response. Those of HTTP/2 announce their end. A connection on which something has moved just now is not idle: the next
-- request may be on its way, and would be lost.
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

-- Is it idle, and has it been for long enough? If the kernel does not say, all the time since the drain began counts.
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

-- Ends whatever there is, and does not wait for it longer than 'lastMillis'; a connection that is just being accepted ends by
-- itself, for the server is over. A handler that sends would fail if its connection were cut before 'ThreadKilled' is there,
-- and report a client that has gone. So only what no exception has ended soon is cut.
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

-- For handlers that were killed: most need no time, some put things in order, and some are where no exception reaches
-- them.
lastMillis :: Int
lastMillis = 250

-- What is left of it for those whose connections are cut.
cutMillis :: Int
cutMillis = 50
