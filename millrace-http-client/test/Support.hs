{-# LANGUAGE OverloadedStrings #-}

-- | What the tests share: credentials, servers that answer as a test wants, and what went wrong.
module Support
  ( -- * Credentials
    Credentials,
    withCredentials,
    fileOf,
    identity,
    trusting,

    -- * Servers
    withServer,
    withTlsServer,
    Wire (..),
    plainWire,
    tlsWire,
    receiveHead,
    answerWith,
    serveRequests,

    -- * Clients
    managerWith,
    get,
    tlsProblemOf,
    networkProblemOf,
    contentOf,
    within,
    needing,
  )
where

import Control.Concurrent (forkFinally, forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as Lazy
import Data.IORef
import Data.Maybe (isNothing)
import Millrace.Socket
import qualified Millrace.Socket.ByteString as Plain
import qualified Millrace.Timer as Timer
import Millrace.Tls
  ( ClientSettings (..),
    Identity,
    Pem (..),
    ServerContext,
    TlsException (..),
    TlsProblem,
    Verification (..),
    clientSettings,
    loadIdentity,
    serverHandshake,
    trustIn,
  )
import qualified Millrace.Tls as Tls
import Network.HTTP.Client hiding (port)
import Network.HTTP.Client.Millrace
import System.Directory (createDirectoryIfMissing, findExecutable, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.Process (callProcess, getCurrentPid)
import Test.Hspec (pendingWith)

-- | The folder that the script @credentials@ fills.
newtype Credentials = Credentials FilePath

withCredentials :: (Credentials -> IO a) -> IO a
withCredentials use = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-http-client-" ++ show process)
  bracket_ (createDirectoryIfMissing True folder) (removeDirectoryRecursive folder) $ do
    callProcess "test/credentials" [folder]
    use (Credentials folder)

fileOf :: Credentials -> String -> FilePath
fileOf (Credentials folder) name = folder </> name

identity :: Credentials -> String -> IO Identity
identity credentials name =
  loadIdentity (PemFile (fileOf credentials (name ++ ".pem"))) (PemFile (fileOf credentials (name ++ ".key")))

-- | Settings that trust this authority alone.
trusting :: Credentials -> String -> Settings
trusting credentials authority =
  defaultSettings
    { tlsSettings =
        clientSettings {clientVerification = Verify (trustIn (PemFile (fileOf credentials (authority ++ ".pem"))))}
    }

------------------------------------------------------------------------------------------------------------------------
-- Servers

-- | Runs a handler for each connection, with the number of the connection, counted from 1.
withServer :: (Int -> Socket -> IO ()) -> (Int -> IO a) -> IO a
withServer handler use = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 64
  port <- socketPort listener
  open <- newIORef []
  let accepting number = do
        (peer, _) <- accept listener
        done <- newEmptyMVar
        runner <- forkFinally (handler number peer `finally` close peer) (const (putMVar done ()))
        modifyIORef' open ((runner, done) :)
        accepting (number + 1)
  bracket (forkIO (accepting 1 `catch` ignore)) killThread (\_ -> use (fromIntegral port))
    `finally` (readIORef open >>= mapM_ (\(runner, done) -> killThread runner >> readMVar done))
  where
    ignore :: IOException -> IO ()
    ignore _ = return ()

withTlsServer :: ServerContext -> (Int -> Tls.Connection -> IO ()) -> (Int -> IO a) -> IO a
withTlsServer context handler = withServer $ \number peer ->
  bracket (serverHandshake context peer) Tls.close (handler number)

-- | Receiving and sending, by either.
data Wire = Wire {wireReceive :: IO ByteString, wireSend :: ByteString -> IO ()}

plainWire :: Socket -> Wire
plainWire peer = Wire (Plain.recv peer 16384) (Plain.sendAll peer)

tlsWire :: Tls.Connection -> Wire
tlsWire connection = Wire (Tls.recv connection 16384) (Tls.sendAll connection)

-- | The head of a request, or nothing at the end. The requests of the tests come without a body.
receiveHead :: Wire -> IO (Maybe ByteString)
receiveHead wire = go ""
  where
    go earlier
      | "\r\n\r\n" `ByteString.isSuffixOf` earlier = return (Just earlier)
      | otherwise = do
        bytes <- wireReceive wire
        if ByteString.null bytes then return Nothing else go (earlier <> bytes)

answerWith :: Wire -> ByteString -> IO ()
answerWith wire body =
  wireSend
    wire
    ("HTTP/1.1 200 OK\r\nContent-Length: " <> Char8.pack (show (ByteString.length body)) <> "\r\n\r\n" <> body)

-- | Answers each request until the end.
serveRequests :: Wire -> (ByteString -> IO ByteString) -> IO ()
serveRequests wire answer =
  receiveHead wire >>= mapM_ (\request -> answer request >>= answerWith wire >> serveRequests wire answer)

------------------------------------------------------------------------------------------------------------------------
-- Clients

managerWith :: Settings -> IO Manager
managerWith settings = newMillraceManagerSettings settings >>= newManager . managerSetProxy noProxy

get :: Manager -> String -> IO ByteString
get manager url = do
  request <- parseRequest url
  within 20 url (Lazy.toStrict . responseBody <$> httpLbs request manager)

-- | The problem of TLS in http-client's exception.
tlsProblemOf :: Either HttpException a -> Maybe TlsProblem
tlsProblemOf outcome = case contentOf outcome of
  Just (InternalException problem) -> tlsProblem <$> fromException problem
  _ -> Nothing

networkProblemOf :: Either HttpException a -> Maybe IOException
networkProblemOf outcome = case contentOf outcome of
  Just (InternalException problem) -> fromException problem
  Just (ConnectionFailure problem) -> fromException problem
  _ -> Nothing

contentOf :: Either HttpException a -> Maybe HttpExceptionContent
contentOf (Left (HttpExceptionRequest _ content)) = Just content
contentOf _ = Nothing

-- | Fails when it takes longer than this many seconds.
within :: Int -> String -> IO a -> IO a
within seconds what action =
  Timer.timeout (seconds * 1000000) action
    >>= maybe (ioError (userError (what ++ ": not done after " ++ show seconds ++ " s"))) return

needing :: String -> IO ()
needing program = do
  found <- findExecutable program
  when (isNothing found) $ pendingWith (program ++ " is not installed")
