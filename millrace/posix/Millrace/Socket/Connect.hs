-- | Connecting to a name, and serving connections.
--
-- > main = withServer defaultServer (passive "7000") $ \connection -> do
-- >   bytes <- recv connection 4096
-- >   sendAll connection bytes
--
-- All functions are interruptible, and leave no socket open when they are interrupted.
--
-- >>> import Millrace
-- >>> import Control.Concurrent.MVar
-- >>> addresses <- newEmptyMVar :: IO (MVar [SockAddr])
-- >>> let listenOn = defaultServer {serverReady = putMVar addresses}
-- >>> let local = (passive "0") {queryHost = Just "127.0.0.1"}
-- >>> :{
-- withRunningServer listenOn local (\connection -> recv connection 100 >>= sendAll connection) $ do
--   [SockAddrInet number _] <- takeMVar addresses
--   client <- connectTo (host "127.0.0.1" (show number))
--   sendAll client "echo"
--   recv client 100 <* close client
-- :}
-- "echo"
module Millrace.Socket.Connect
  ( -- * Connecting
    connectTo,
    connectToBefore,

    -- * Serving
    Server (..),
    defaultServer,
    withServer,
    withRunningServer,

    -- * Exceptions of a connection's action
    printing,
    ignoring,
  )
where

import Control.Concurrent (ThreadId, forkIO, forkIOWithUnmask, killThread, myThreadId, throwTo)
import Control.Concurrent.MVar
import Control.Concurrent.STM
import Control.Exception
  ( Exception (..),
    SomeAsyncException,
    SomeException,
    bracket,
    bracketOnError,
    catch,
    finally,
    mask,
    mask_,
    onException,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forM, forM_, unless, when)
import Data.IORef
import Data.List (intercalate, nub, partition)
import qualified Data.Map.Strict as Map
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word64)
import Foreign.C.Error
  ( Errno (..),
    eAFNOSUPPORT,
    eCONNABORTED,
    eCONNRESET,
    eHOSTUNREACH,
    eNETUNREACH,
    eNOTCONN,
    ePIPE,
  )
import GHC.IO.Exception (IOException (ioe_description, ioe_errno))
import Millrace.Deadline
  ( Deadline,
    Duration,
    durationMicroseconds,
    isDeadlineError,
    monotonicNanoseconds,
    noDeadline,
    seconds,
  )
import Millrace.Internal.CoreCalls (isSimulatedHere)
import Millrace.Internal.DescriptorShare (leftToOthers)
import Millrace.Internal.Park (handOver)
import Millrace.Internal.StandardStream (oneLine, printSeldom)
import Millrace.Internal.Timer (withTimer)
import Millrace.Internal.TimerTable (Action (..))
import Millrace.Name
import Millrace.Socket
import Millrace.Stream (EndsWithin, TooLong)
import qualified Millrace.Timer as Timer
import System.Environment (getProgName)
import System.IO.Error
  ( doesNotExistErrorType,
    ioeSetErrorString,
    ioeSetFileName,
    ioeSetLocation,
    isFullError,
    mkIOError,
  )
import System.Posix.Resource (Resource (ResourceOpenFiles), ResourceLimit (..), getResourceLimit, softLimit)

-- | Looks up a name and connects to the first of its addresses that answers (RFC 8305, happy eyeballs): addresses of
-- both families alternate, and when one has not answered after a quarter of a second, the next one is tried at the same
-- time. The other attempts are ended, and their sockets closed.
--
-- Throws an 'IOError', as network's @connect@ does, also when the look-up fails ('nameProblem'). If no address answers,
-- it has the type and the code of the first attempt (or of one for which descriptors or memory had run out), and says
-- for each address why.
--
-- >>> import System.IO.Error (isDoesNotExistError, tryIOError)
-- >>> either isDoesNotExistError (const False) <$> tryIOError (connectTo (host "name.invalid" "80"))
-- True
connectTo :: Query -> IO Socket
connectTo = connectToBefore noDeadline

-- | 'connectTo' with a deadline for all of it ('isDeadlineError').
connectToBefore :: Deadline -> Query -> IO Socket
connectToBefore deadline query = do
  found <- lookUpBefore deadline query
  firstToAnswer deadline (describeQuery query) (alternating found)

describeQuery :: Query -> String
describeQuery query = fromMaybe "this machine" (queryHost query) ++ maybe "" (':' :) (queryService query)

-- The family of the first address begins.
alternating :: [AddrInfo] -> [AddrInfo]
alternating [] = []
alternating found@(first : _) = weave same other
  where
    (same, other) = partition ((== addrFamily first) . addrFamily) found
    weave (a : as) bs = a : weave bs as
    weave [] bs = bs

attemptDelayMicros :: Int
attemptDelayMicros = 250000

-- Each attempt has a thread. The first connection wins; all others are closed.
firstToAnswer :: Deadline -> String -> [AddrInfo] -> IO Socket
firstToAnswer deadline name addresses = handOver close $ do
  outcomes <- newTQueueIO
  threads <- newMVar []
  let end = do
        modifyMVar_ threads (\all' -> [] <$ mapM_ killThread all')
        left <- atomically (flushTQueue outcomes)
        forM_ left (either (const (return ())) close . snd)
      begin info = do
        thread <-
          forkIOWithUnmask
            (\unmask -> try (connected unmask info) >>= atomically . writeTQueue outcomes . (,) (addrAddress info))
        modifyMVar_ threads (return . (thread :))
  winner <- race outcomes begin `onException` uninterruptibleMask_ end
  uninterruptibleMask_ end
  either (throwIO . noConnection name) return winner
  where
    connected unmask info =
      bracketOnError (openSocket info) close $ \s -> s <$ unmask (connectBefore deadline s (addrAddress info))
    race outcomes begin = go addresses (0 :: Int) []
      where
        go [] 0 failures = passedOr (Left (reverse failures)) failures
        go waiting running failures = do
          rest <- case waiting of
            one : others -> others <$ begin one
            [] -> return []
          let runningNow = if null waiting then running else running + 1
          outcome <- next outcomes (not (null rest))
          case outcome of
            Nothing -> go rest runningNow failures
            Just (_, Right s) -> return (Right s)
            Just (address, Left problem) -> go rest (runningNow - 1) ((address, problem) : failures)
        passedOr result failures = case [problem | (_, problem) <- failures, isDeadlineError problem] of
          problem : _ -> throwIO problem
          [] -> return result
    -- An outcome, or nothing when it is time to try another address. Masked, so that a taken outcome cannot be lost.
    next outcomes mayGiveUp
      | not mayGiveUp = atomically (Just <$> readTQueue outcomes)
      | otherwise = do
        late <- Timer.registerDelay attemptDelayMicros
        atomically ((Just <$> readTQueue outcomes) `orElse` (readTVar late >>= check >> return Nothing))

-- The addresses of a name, and why there is no connection to them.
noConnection :: String -> [(SockAddr, IOError)] -> IOError
noConnection name attempts =
  foldr const nothing (filter isFullError problems ++ problems)
    `ioeSetLocation` "Millrace.Socket.Connect.connectTo"
    `ioeSetFileName` name
    `ioeSetErrorString` text
  where
    problems = map snd attempts
    nothing = mkIOError doesNotExistErrorType "" Nothing Nothing
    text = case nub (map ioe_description problems) of
      [] -> "the name has no address"
      [reason] -> reason
      _ -> intercalate "; " [show address ++ ": " ++ ioe_description problem | (address, problem) <- attempts]

-- | How connections are served. 'defaultServer' has the defaults.
data Server = Server
  { -- | The most connections that are served at the same time; further ones wait in the system's queue. Of the
    -- process's limit of open files (@ulimit -n@), when the server starts, they leave an eighth to what their actions
    -- open, at least 16 and at most 1024: with a limit of 1024 no more than 896 are served, whatever is said here.
    serverConnectionsMax :: !Int,
    -- | the length of the system's queue
    serverBacklog :: !Int,
    -- | how long connections may continue when the server ends; then their threads are interrupted
    serverGrace :: !Duration,
    -- | how long interrupted threads may clean up; then their connections are closed, and the server ends without
    -- waiting for them
    serverCleanUp :: !Duration,
    -- | several servers may listen on the same port (@SO_REUSEPORT@)
    serverSharesPort :: !Bool,
    -- | runs when the server listens, with its addresses
    serverReady :: [SockAddr] -> IO (),
    -- | runs when as many connections are open as 'serverConnectionsMax' or the limit of open files allows, at most
    -- once in ten seconds: further clients wait now
    serverFull :: IO (),
    -- | gets the exceptions of a connection's action, with the address of the peer, but not those that the server
    -- itself interrupts it with when it ends: 'printing', 'ignoring', or an action of the program
    serverProblem :: SockAddr -> SomeException -> IO ()
  }

-- | 10,000 connections, a queue of 4096, five seconds of grace and five to clean up; exceptions are
-- printed ('printing'), and a line when the server is full.
defaultServer :: Server
defaultServer =
  Server
    { serverConnectionsMax = 10000,
      serverBacklog = 4096,
      serverGrace = seconds 5,
      serverCleanUp = seconds 5,
      serverSharesPort = False,
      serverReady = \_ -> return (),
      serverFull = do
        name <- getProgName
        printSeldom (name ++ ": clients wait: there are as many as serverConnectionsMax or ulimit -n allows"),
      serverProblem = printing
    }

-- | Prints an exception of a connection's action on standard error, in a line with the program's name and the peer's
-- address. Prints nothing for what a peer causes: it has closed or reset the connection, or does not answer any more; a
-- deadline has passed; or what it has sent is too long or incomplete ('TooLong', 'EndsWithin': an action that reads
-- other streams with a limit catches that there). At most ten lines in a second are printed, and then how many were
-- left out.
--
-- > chat: connection from 127.0.0.1:39212: Prelude.head: empty list
printing :: SockAddr -> SomeException -> IO ()
printing peer problem = unless (isUsualEnd problem) $ do
  name <- getProgName
  printSeldom (name ++ ": connection from " ++ show peer ++ ": " ++ oneLine (displayException problem))

-- | Ignores an exception.
ignoring :: SockAddr -> SomeException -> IO ()
ignoring _ _ = return ()

isUsualEnd :: SomeException -> Bool
isUsualEnd problem
  | Just ended <- fromException problem = isDeadlineError ended || fmap Errno (ioe_errno ended) `elem` map Just ends
  | otherwise = isJust (fromException problem :: Maybe TooLong) || isJust (fromException problem :: Maybe EndsWithin)
  where
    ends = [ePIPE, eCONNRESET, eCONNABORTED, eNOTCONN, eHOSTUNREACH, eNETUNREACH]

-- | Listens on all addresses that the query finds ('passive'), and runs an action for each connection, in a new
-- thread. The connection is closed when its action has ended. It serves until it is interrupted or cannot accept any
-- more. Then it takes those that are in the system's queue, while it has capacity for them, stops listening, and waits
-- for the connections for the time of grace, or until it is interrupted again. Those that remain are interrupted, and
-- it waits for their end, also if it is interrupted once more, but no longer than they may clean up. So it never
-- returns, and ends by an exception.
--
-- A family that the system does not have, such as IPv6 where that is switched off, is left out if there are addresses
-- of another one.
withServer :: Server -> Query -> (Socket -> IO ()) -> IO a
withServer server query serve = newTVarIO False >>= \isHurried -> servingUntil isHurried server query serve

-- Another thread may end the time of grace by the variable.
servingUntil :: TVar Bool -> Server -> Query -> (Socket -> IO ()) -> IO a
servingUntil isHurried chosen query serve = bracket (listenOn chosen query) (mapM_ close) $ \listeners -> do
  server <- withinDescriptors chosen
  mapM getSocketName listeners >>= serverReady server
  serving <- ServedConnections isHurried <$> newTVarIO Map.empty <*> newIORef False
  let begin = beginServing server serving serve
      stopListening = mapM_ (acceptQueued server serving begin) listeners >> mapM_ close listeners
  acceptAll server listeners serving begin `finally` (stopListening >> endGracefully server serving)

-- Without descriptors, 'accept' waits and says nothing, and what a connection's action opens fails.
withinDescriptors :: Server -> IO Server
withinDescriptors server = do
  isSimulated <- isSimulatedHere
  limit <- softLimit <$> getResourceLimit ResourceOpenFiles
  return $ case limit of
    ResourceLimit most
      | not isSimulated -> server {serverConnectionsMax = min (serverConnectionsMax server) (shareOf most)}
    _ -> server
  where
    shareOf most = fromInteger (max 1 (min (toInteger (maxBound :: Int)) (most - leftToOthers most)))

-- Whether the time of grace is over; the connections of a server; and whether their threads have been interrupted.
data ServedConnections = ServedConnections !(TVar Bool) !(TVar (Map.Map ThreadId Socket)) !(IORef Bool)

-- | Runs a server in another thread during an action, and then ends the server, as 'withServer' says. An exception that
-- comes meanwhile ends its time of grace.
withRunningServer :: Server -> Query -> (Socket -> IO ()) -> IO a -> IO a
withRunningServer server query serve action = mask $ \restore -> do
  caller <- myThreadId
  listens <- newEmptyMVar
  ended <- newEmptyMVar
  stopping <- newIORef False
  isHurried <- newTVarIO False
  let ready addresses = serverReady server addresses >> putMVar listens ()
      serveUntilKilled = servingUntil isHurried server {serverReady = ready} query serve
  thread <- forkIOWithUnmask $ \unmask ->
    (unmask serveUntilKilled `catch` tell caller stopping) `finally` putMVar ended ()
  let stop = do
        writeIORef stopping True
        (killThread thread >> readMVar ended) `onException` uninterruptibleMask_ hurry
      -- The exception may have come before the server's thread was interrupted.
      hurry = atomically (writeTVar isHurried True) >> killThread thread >> readMVar ended
  result <- restore (takeMVar listens >> action) `onException` stop
  result <$ stop
  where
    -- Tells the caller that the server could not listen, or cannot accept.
    tell caller stopping problem = do
      isStopping <- readIORef stopping
      unless isStopping (throwTo caller (problem :: SomeException))

listenOn :: Server -> Query -> IO [Socket]
listenOn server query = do
  addresses <- lookUp query
  mask_ $ go [] [] addresses
  where
    go [] (problem : _) [] = throwIO problem
    go made _ [] = return (reverse made)
    go made missing (info : others) = do
      outcome <- try (one info) `onException` mapM_ close made
      case outcome of
        Right s -> go (s : made) missing others
        Left problem
          | (Errno <$> ioe_errno problem) == Just eAFNOSUPPORT -> go made (problem : missing) others
          | otherwise -> mapM_ close made >> throwIO problem
    one info = bracketOnError (openSocket info) close $ \s -> do
      setSocketOption s ReuseAddr 1
      when (serverSharesPort server) (setSocketOption s ReusePort 1)
      when (addrFamily info == AF_INET6) (setSocketOption s IPv6Only 1)
      bind s (addrAddress info)
      listen s (serverBacklog server)
      return s

-- Accepts on all listeners, each in its own thread, until one of them fails.
acceptAll :: Server -> [Socket] -> ServedConnections -> ((Socket, SockAddr) -> IO ()) -> IO a
acceptAll server listeners (ServedConnections _ connections _) begin = mask $ \restore -> do
  failed <- newEmptyMVar
  told <- newIORef Nothing
  threads <- forM listeners $ \listener ->
    forkIOWithUnmask (\unmask -> try (unmask (acceptOn told listener)) >>= putMVar failed)
  outcome <- restore (takeMVar failed) `onException` uninterruptibleMask_ (mapM_ killThread threads)
  uninterruptibleMask_ (mapM_ killThread threads)
  either (throwIO :: SomeException -> IO a) return outcome
  where
    acceptOn told listener = do
      canServe <- hasCapacity server <$> readTVarIO connections
      unless canServe (tellFull server told)
      atomically (readTVar connections >>= check . hasCapacity server)
      mask_ (accept listener >>= begin)
      acceptOn told listener

-- The reference has when it was told last, in nanoseconds.
tellFull :: Server -> IORef (Maybe Word64) -> IO ()
tellFull server told = do
  now <- monotonicNanoseconds
  isDue <- atomicModifyIORef' told $ \latest ->
    if maybe False (\before -> now - before < 10000000000) latest then (latest, False) else (Just now, True)
  when isDue $
    serverFull server `catch` \problem ->
      when (isJust (fromException problem :: Maybe SomeAsyncException)) (throwIO problem)

hasCapacity :: Server -> Map.Map ThreadId Socket -> Bool
hasCapacity server connections = Map.size connections < serverConnectionsMax server

-- Closing a listening socket resets what is in its queue, although these clients are connected.
acceptQueued :: Server -> ServedConnections -> ((Socket, SockAddr) -> IO ()) -> Socket -> IO ()
acceptQueued server (ServedConnections _ connections _) begin listener = go
  where
    go = do
      canServe <- hasCapacity server <$> readTVarIO connections
      found <- if canServe then try (acceptNow listener) else return (Right Nothing)
      either ignore (mapM_ (\connection -> begin connection >> go)) found
    ignore :: IOError -> IO ()
    ignore _ = return ()

-- Call it masked: the thread that it starts closes the connection.
beginServing :: Server -> ServedConnections -> (Socket -> IO ()) -> (Socket, SockAddr) -> IO ()
beginServing server (ServedConnections _ connections interrupted) serve (connection, peer) = do
  begun <- newEmptyMVar
  thread <-
    forkIOWithUnmask (\unmask -> (takeMVar begun >> handle unmask) `finally` leave)
      `onException` uninterruptibleMask_ (close connection)
  atomically (modifyTVar' connections (Map.insert thread connection))
  putMVar begun ()
  where
    -- The type of an exception does not say who has thrown it: that of a linked thread is asynchronous, too.
    handle unmask =
      unmask (serve connection) `catch` \problem -> do
        wasInterrupted <- readIORef interrupted
        unless wasInterrupted (serverProblem server peer problem)
    leave = uninterruptibleMask_ $ do
      close connection
      thread <- myThreadId
      atomically (modifyTVar' connections (Map.delete thread))

-- Call it when no thread accepts any more.
endGracefully :: Server -> ServedConnections -> IO ()
endGracefully server (ServedConnections isHurried connections interrupted) =
  wait `finally` uninterruptibleMask_ interruptAll
  where
    wait = unless (serverGrace server == mempty) $ endedWithin (serverGrace server) isHurried
    -- 'Timer.timeout' would not end a wait that is uninterruptible.
    endedWithin limit late =
      mask_ $
        withTimer (durationMicroseconds limit) (Perform (atomically (writeTVar late True))) . atomically $
          (readTVar connections >>= check . Map.null) `orElse` (readTVar late >>= check)
    -- Interrupts each from a separate thread, because a thread that cannot be interrupted holds up the one that
    -- interrupts it.
    interruptAll = do
      writeIORef interrupted True
      left <- readTVarIO connections
      forM_ (Map.keys left) (forkIO . killThread)
      newTVarIO False >>= endedWithin (serverCleanUp server)
      readTVarIO connections >>= mapM_ close
