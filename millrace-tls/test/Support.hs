-- | What the tests share: credentials, pairs of connections, jobs, and streams of bytes in which every mistake shows.
module Support
  ( -- * Credentials
    Credentials,
    withCredentials,
    fileOf,
    keyOf,
    identity,
    rootTrust,
    contextOf,
    clientWith,
    trusting,

    -- * Connections
    tcpPair,
    withSockets,
    withPair,
    withPairOf,
    bothSides,
    withListener,

    -- * Jobs
    within,
    inBackground,
    finish,
    Job (..),

    -- * Streams
    bytesAt,
    receiveExactly,
    receiveAll,

    -- * Errors
    problemOf,
    ioErrorOf,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (unless)
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Word (Word64)
import Millrace.Socket
  ( Family (..),
    SockAddr (..),
    SocketOption (..),
    SocketType (..),
    accept,
    bind,
    connect,
    defaultProtocol,
    getSocketName,
    listen,
    setSocketOption,
    socket,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import Millrace.Tls
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.Process (callProcess, getCurrentPid)
import qualified System.Timeout as Base

-- | The folder that the script @credentials@ fills.
newtype Credentials = Credentials FilePath

withCredentials :: (Credentials -> IO a) -> IO a
withCredentials use = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-tls-" ++ show process)
  bracket_ (createDirectoryIfMissing True folder) (removeDirectoryRecursive folder) $ do
    callProcess "test/credentials" [folder]
    use (Credentials folder)

fileOf :: Credentials -> String -> FilePath
fileOf (Credentials folder) name = folder </> name

keyOf :: Credentials -> String -> FilePath
keyOf credentials name = fileOf credentials (name ++ ".key")

identity :: Credentials -> String -> IO Identity
identity credentials name =
  loadIdentity (PemFile (fileOf credentials (name ++ ".pem"))) (PemFile (keyOf credentials name))

-- | Trusts only the root of the tests.
rootTrust :: Credentials -> Trust
rootTrust credentials = trustIn (PemFile (fileOf credentials "root.pem"))

-- | A server with the identities of these names.
contextOf :: Credentials -> [String] -> (ServerSettings -> ServerSettings) -> IO ServerContext
contextOf credentials names change = do
  identities <- mapM (identity credentials) names
  case identities of
    first : _ -> newServerContext (change (serverSettings first) {serverIdentities = identities})
    [] -> ioError (userError "a server needs an identity")

trusting :: Trust -> ClientSettings
trusting trust = clientSettings {clientVerification = Verify trust}

-- | A client that trusts the root of the tests.
clientWith :: Credentials -> (ClientSettings -> ClientSettings) -> IO ClientContext
clientWith credentials change = newClientContext (change (trusting (rootTrust credentials)))

withListener :: (Socket.Socket -> SockAddr -> IO a) -> IO a
withListener use = bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \listener -> do
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 64
  getSocketName listener >>= use listener

-- | Two ends of a TCP connection: the one that connected, and the one that was accepted.
tcpPair :: IO (Socket.Socket, Socket.Socket)
tcpPair = withListener $ \listener address -> do
  one <- socket AF_INET Stream defaultProtocol
  connect one address `onException` Socket.close one
  (other, _) <- accept listener `onException` Socket.close one
  return (one, other)

withSockets :: (Socket.Socket -> Socket.Socket -> IO a) -> IO a
withSockets use = bracket tcpPair (\(one, other) -> Socket.close one >> Socket.close other) (uncurry use)

-- | A client and a server after their handshakes.
withPair :: Credentials -> (Connection -> Connection -> IO a) -> IO a
withPair credentials use = do
  server <- contextOf credentials ["server"] id
  client <- clientWith credentials id
  withPairOf client server use

withPairOf :: ClientContext -> ServerContext -> (Connection -> Connection -> IO a) -> IO a
withPairOf client server use = withSockets $ \one other -> do
  (mine, theirs) <- bothSides (clientHandshake client "localhost" one) (serverHandshake server other)
  case (mine, theirs) of
    (Right ours, Right peers) -> use ours peers `finally` (close ours >> close peers)
    (Left problem, _) -> throwIO problem
    (_, Left problem) -> throwIO problem

-- | Runs both at the same time, and returns how they ended.
bothSides :: IO a -> IO b -> IO (Either SomeException a, Either SomeException b)
bothSides one other = do
  job <- inBackground other
  first <- try (within 20 "one side" one)
  second <- try (within 20 "the other side" (finish job))
  return (first, second)

-- | A thread and its outcome.
data Job a = Job ThreadId (MVar (Either SomeException a))

inBackground :: IO a -> IO (Job a)
inBackground action = do
  outcome <- newEmptyMVar
  thread <- mask $ \restore -> forkIO (try (restore action) >>= putMVar outcome)
  return (Job thread outcome)

finish :: Job a -> IO a
finish (Job _ outcome) = readMVar outcome >>= either throwIO return

-- | Fails if the action takes longer than this many seconds.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  Base.timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

period :: Int
period = 65521

twoPeriods :: ByteString
twoPeriods = once <> once
  where
    once =
      fst (ByteString.unfoldrN period (\x -> Just (fromIntegral (x `shiftR` 33), x * 6364136223846793005 + 1)) seed)
    seed = 42 :: Word64
{-# NOINLINE twoPeriods #-}

-- | The bytes of the stream that begin at a position: bytes that are lost, repeated or exchanged show.
bytesAt :: Int -> Int -> ByteString
bytesAt position count
  | count <= period = ByteString.take count (ByteString.drop (position `mod` period) twoPeriods)
  | otherwise = ByteString.concat (go position count)
  where
    go from left
      | left <= 0 = []
      | otherwise = bytesAt from (min left period) : go (from + period) (left - period)

-- | Receives and checks this many bytes from a position.
receiveExactly :: Connection -> Int -> Int -> IO ()
receiveExactly connection position count = unless (count == 0) $ do
  bytes <- recv connection (min count 65536)
  unless (not (ByteString.null bytes) && bytes == bytesAt position (ByteString.length bytes)) $
    ioError
      (userError ("the stream is wrong within " ++ show (ByteString.length bytes) ++ " bytes from " ++ show position))
  receiveExactly connection (position + ByteString.length bytes) (count - ByteString.length bytes)

-- | Receives everything until the end of the stream.
receiveAll :: Connection -> IO ByteString
receiveAll connection = ByteString.concat <$> go
  where
    go = do
      bytes <- recv connection 16384
      if ByteString.null bytes then return [] else (bytes :) <$> go

-- | The problem of a side that has failed because of TLS.
problemOf :: Either SomeException a -> Maybe TlsProblem
problemOf = either (fmap tlsProblem . fromException) (const Nothing)

ioErrorOf :: Either SomeException a -> Maybe IOException
ioErrorOf = either fromException (const Nothing)
