-- Must not know: requests, responses.

-- |
-- A server: accepts connections on a listening socket, runs a session in a thread for each, and shuts down.
module Millrace.Http.Server.Accept (runListeners) where

import Control.Concurrent (forkIO, forkOn, getNumCapabilities)
import Control.Concurrent.STM (atomically, check, modifyTVar', newTVarIO, readTVar, readTVarIO, writeTVar)
import Control.Exception
import Control.Monad (filterM, forM_, guard, replicateM, unless, void, when)
import Data.IORef
import qualified Data.IntMap.Strict as IntMap
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Foreign.C.Error (Errno (..), eBADF, eINVAL, eNOTSOCK)
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Deadline (deadlineAfter, microseconds, monotonicNanoseconds)
import Millrace.Http.Exception (ConnectionsCutOff (..), isTimeExpired)
import Millrace.Http.FileCache (closeFileCache)
import Millrace.Http.Server.Admission
import Millrace.Http.Server.Connection
import Millrace.Http.Server.Context
import Millrace.Http.Server.Listener
  ( Listener (..),
    closeListener,
    closeTheirs,
    duplicate,
    inFlightMicros,
    retire,
    welcome,
  )
import Millrace.Http.Server.Settings (Bound (..), Settings (..))
import Millrace.Http.Server.State
import Millrace.Http.Threads
import Millrace.Http.Transport (abort, closeTransport, plainTransport, quietMillis)
import Millrace.Socket
import Millrace.Timer (threadDelay)
import qualified Network.Socket as Network
import Network.Wai (Application)

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
  descriptors <- newCrowd settings OpenDescriptors
  connections <- mapM (newCrowd settings . MaximumConnections) (settingsMaximumConnections settings)
  sources <- mapM (newSource settings (noteWaiting descriptors)) listeners
  asked <- newTVarIO False
  let drainAll = beginDraining server sources >> atomically (writeTVar asked True)
      endNow = enterPhase server Over >> announceShutdown (serverState server) >> mapM_ endSource sources
  -- Accepted sockets inherit NoDelay from the listening socket, which saves a system call each. Unix sockets do not
  -- have this option.
  forM_ listeners $ \listener -> setSocketOption (listenerSocket listener) NoDelay 1 `catch` ignore
  settingsInstallShutdownHandler settings drainAll
  settingsBeforeMainLoop settings
  capabilities <- getNumCapabilities
  share <- connectionShare (settingsReservedDescriptors settings)
  let count = max capabilities (length listeners)
  registries <- replicateM count (newIORef IntMap.empty)
  eviction <- newEviction (findIdle registries) askToEnd
  let capacity =
        ConnectionCapacity
          ((,) <$> settingsMaximumConnections settings <*> fmap noteWaiting connections)
          share
          (noteWaiting descriptors)
  accepted <- newIORef 0
  accepting <- newTVarIO count
  broken <- newIORef Nothing
  let noteBroken failure = do
        settingsOnException settings Nothing failure `catch` ignore
        writeIORef broken (Just (failure :: SomeException))
  let isAccepting = (> 0) <$> readTVarIO accepting
  asRunning registries (serverState server)
    . flip finally (closeFileCache (serverFiles server))
    . flip finally (mapM_ endCrowd (descriptors : maybe [] pure connections))
    . flip onException (endNow >> cutAll registries isAccepting)
    $ do
      forM_ (zip3 [0 ..] registries (cycle sources)) $ \(number, registry, source) ->
        forkOnMasked number $
          ( acceptLoop
              Acceptor
                { acceptorServer = server,
                  acceptorSource = source,
                  acceptorBatch = batchSize count (length listeners) (fst <$> capacityConnections capacity),
                  acceptorEviction = eviction,
                  acceptorRegistry = registry,
                  acceptorNumbers = nextNumber accepted,
                  acceptorCapacity = capacity,
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

-- Announces the shutdown, and closes the listening sockets in other threads. Any thread may call this, and more
-- than once.
beginDraining :: ServerContext -> [ConnectionSource] -> IO ()
beginDraining server sources = do
  entered <- enterPhase server Draining
  when entered $ do
    announceShutdown (serverState server)
    forM_ sources (forkIO . retireSource)

------------------------------------------------------------------------------------------------------------------------
-- Accepting

-- A source of connections, and the two ways to end it: 'retireSource' first accepts what is queued, 'endSource' closes
-- at once.
data ConnectionSource = ConnectionSource
  { nextConnection :: !(IO (Socket, SockAddr)),
    -- A connection that is already queued, if there is one.
    waitingConnection :: !(IO (Maybe (Socket, SockAddr))),
    retireSource :: !(IO ()),
    endSource :: !(IO ())
  }

-- The 'setAccept' function of a user works on sockets of the network package, so it gets a duplicate of the listening
-- socket.
newSource :: Settings -> IO () -> Listener -> IO ConnectionSource
newSource settings tellWaiting listener = case settingsAccept settings of
  Nothing ->
    return
      ( sourceOf
          (acceptTelling tellWaiting (listenerSocket listener))
          (acceptNow (listenerSocket listener))
          (closeListener listener)
      )
  Just acceptTheirs -> do
    theirs <- withFdSocket (listenerSocket listener) (duplicate "setAccept") >>= Network.mkSocket
    let next = do
          (accepted, peer) <- acceptTheirs theirs
          ours <- fromNetworkSocket accepted
          return (ours, peer)
    return (sourceOf next (return Nothing) (closeTheirs theirs >> closeListener listener))
  where
    sourceOf next waiting end =
      ConnectionSource
        { nextConnection =
            next >>= welcomed,
          waitingConnection = waiting >>= mapM welcomed,
          retireSource = retire listener end,
          endSource = end
        }
    welcomed found@(accepted, _) = found <$ welcome listener accepted

-- Accepts a connection. 'accept' waits, and does not fail, when descriptors run out. So this looks every second whether
-- that is the reason: then it reports it, and the oldest idle connection gives way to the one that waits. This happens
-- only if other parts of the program have taken also what was left to them ('connectionShare').
acceptTelling :: IO () -> Socket -> IO (Socket, SockAddr)
acceptTelling tellWaiting listener = go idleMicros
  where
    go patience = do
      deadline <- deadlineAfter (microseconds patience)
      outcome <- tryJust (guard . isTimeExpired) (acceptBefore deadline listener)
      case outcome of
        Right accepted -> return accepted
        Left () -> do
          starving <- isStarving listener
          when starving (tellWaiting >> void (evict overallEviction))
          go (if starving then retryMicros else idleMicros)
    idleMicros = 1000000

-- The state of a thread that accepts connections.
data Acceptor = Acceptor
  { acceptorServer :: !ServerContext,
    acceptorSource :: !ConnectionSource,
    -- The number of additional connections to accept at once, by the number of open connections.
    acceptorBatch :: !(Int -> Int),
    acceptorEviction :: !(Eviction Candidate),
    -- The open connections that this thread has accepted.
    acceptorRegistry :: !Registry,
    acceptorNumbers :: !(IO Int),
    acceptorCapacity :: !ConnectionCapacity,
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
        Right found -> admitAll found >> go
        Left failure -> do
          phase <- readIORef (serverPhase server)
          unless (phase == Over || isClosed failure) $ do
            settingsOnException settings Nothing (toException failure) `catch` ignore
            threadDelay retryMicros
            go
    admitAll (firstSocket, firstPeer) = do
      roomy <- awaitCapacity server (acceptorEviction acceptor) (acceptorCapacity acceptor) firstSocket
      let first = (roomy, firstPeer)
      most <- acceptorBatch acceptor <$> currentOpenConnections (serverState server)
      (others, beyond) <-
        takeWaiting
          source
          (maybe (const (return False)) isBeyond (capacityShare (acceptorCapacity acceptor)) . fst)
          most
      mapM admit (first : others) >>= sequence_
      mapM_ admitAll beyond
-- GHC would repeat its code, and that of drain and reportLeft, for each way in which 'runListeners' may end.
{-# NOINLINE acceptLoop #-}

-- @batchSize threads listeners limit open@: the number of additional connections that an accepting thread takes at
-- once. It leaves the other threads their share of the capacity. Threads that accept from the same socket must also get
-- about equally many connections.
batchSize :: Int -> Int -> Maybe Int -> Int -> Int
batchSize threads listeners limit open = minimum [batchMax, fair, maybe batchMax left limit]
  where
    fair = if threads > listeners then open `quot` 8 else batchMax
    left most = (most - open - threads) `quot` threads

batchMax :: Int
batchMax = 256

-- Accepts queued connections, at most the given number, and none behind the first one for which the condition holds.
-- Returns that one apart.
takeWaiting ::
  ConnectionSource -> ((Socket, SockAddr) -> IO Bool) -> Int -> IO ([(Socket, SockAddr)], Maybe (Socket, SockAddr))
takeWaiting source isOneTooMany = go []
  where
    go taken most
      | most <= 0 = return (reverse taken, Nothing)
      | otherwise =
        (waitingConnection source `catch` none) >>= maybe (return (reverse taken, Nothing)) (sort taken most)
    sort taken most one = do
      tooMany <- isOneTooMany one
      if tooMany then return (reverse taken, Just one) else go (one : taken) (most - 1)
    -- If this fails, so will the next call of accept, which handles the failure.
    none :: IOException -> IO (Maybe a)
    none _ = return Nothing

-- Only a closed listening socket ends the accepting thread. (So does any exception that is not an 'IOException'.)
isClosed :: IOException -> Bool
isClosed failure =
  ioe_type failure == InvalidArgument
    || ioe_errno failure `elem` [Just number | Errno number <- [eBADF, eINVAL, eNOTSOCK]]

retryMicros :: Int
retryMicros = 100000

ignore :: SomeException -> IO ()
ignore _ = return ()

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
-- recent traffic does not count as idle: its next request may be on its way, and would be lost. A new one has longer
-- for its first request ('firstRequestMillis'). Incomplete heads and handshakes are not waited for, if no more of them
-- comes.
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
        else
          if isLate
            then return False
            else endQuiet elapsedMillis open >> threadDelay pause >> go start (min lastPauseMicros (2 * pause))
    endQuiet elapsedMillis open = forM_ open $ \connection -> do
      announced <- finishSoon connection
      requests <- requestCount connection
      waits <- if announced then return False else isIdle connection
      halfway <- if waits then return False else isInHead connection
      silent <- if waits || halfway then silence elapsedMillis connection else return 0
      when
        ( (waits && silent >= (if requests == 0 then firstRequestMillis else nextRequestMillis))
            || (halfway && (silent >= headSilenceMillis || elapsedMillis >= headMillis))
        )
        (giveWay connection)
    nextRequestMillis = inFlightMicros `quot` 1000
{-# NOINLINE drain #-}

-- For how many milliseconds there has been no traffic. If the kernel does not know, the time counts from the beginning
-- of the shutdown.
silence :: Int -> Served -> IO Int
silence elapsedMillis connection = fromMaybe elapsedMillis <$> quietMillis (servedTransport connection)

-- At a shutdown a head or a handshake that is incomplete ends when none of its bytes has come for the first time, which
-- is long enough for a segment that was lost and is sent again; or after the second one, however many come.
headSilenceMillis, headMillis :: Int
headSilenceMillis = 1000
headMillis = 5000

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
      unless
        ((not more && null open) || now >= limit)
        (threadDelay pause >> awaitNone limit (min lastPauseMicros (2 * pause)))

reportLeft :: Settings -> [Registry] -> IO ()
reportLeft settings registries = do
  left <- length <$> (openOnes registries >>= filterM (fmap not . isLeaving) >>= filterM (fmap not . isIdle))
  when (left > 0) (settingsOnException settings Nothing (toException (ConnectionsCutOff left)) `catch` ignore)
{-# NOINLINE reportLeft #-}

cut :: Served -> IO ()
cut = abort . servedTransport

firstPauseMicros, lastPauseMicros :: Int
firstPauseMicros = 1000
lastPauseMicros = 50000

-- How long 'cutAll' waits for handlers that were killed. Most end at once, some clean up, and some block where no
-- exception reaches them.
lastMillis :: Int
lastMillis = 250

-- The part of 'lastMillis' that remains after connections are aborted.
cutMillis :: Int
cutMillis = 50
