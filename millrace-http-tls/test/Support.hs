{-# LANGUAGE OverloadedStrings #-}

-- | A server with TLS on a free port, and clients that speak in bytes.
module Support
  ( Credentials,
    withCredentials,
    fileOf,
    pairOf,
    makeAnswer,
    answerShown,
    tlsWith,
    withServer,
    withTlsServer,
    quiet,
    Client,
    withClient,
    withClientTo,
    withPlain,
    exchangeWith,
    plainExchange,
    requestFor,
    receiveAll,
    receiveUntil,
    bodyOf,
    statusOf,
    within,
    eventually,
    localhost,
  )
where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.List (find, isInfixOf)
import Millrace.Socket
  ( Family (..),
    PortNumber,
    SockAddr (..),
    SocketType (..),
    connect,
    defaultProtocol,
    socket,
    tupleToHostAddress,
  )
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls hiding (Negotiated (..))
import qualified Network.Socket as Network
import Network.Wai (Application)
import Network.Wai.Handler.Millrace hiding (Listener)
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removeDirectoryRecursive)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Process (callProcess, getCurrentPid, readProcessWithExitCode)
import System.Timeout (timeout)

-- | The folder that the script @credentials@ fills.
newtype Credentials = Credentials FilePath

withCredentials :: (Credentials -> IO a) -> IO a
withCredentials use = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-http-tls-" ++ show process)
  bracket_ (createDirectoryIfMissing True folder) (removeDirectoryRecursive folder) $ do
    callProcess "test/credentials" [folder]
    use (Credentials folder)

fileOf :: Credentials -> FilePath -> FilePath
fileOf (Credentials folder) name = folder </> name

-- | The certificate and the key of this name.
pairOf :: Credentials -> String -> (FilePath, FilePath)
pairOf credentials name = (fileOf credentials (name ++ ".pem"), fileOf credentials (name ++ ".key"))

-- | The authority's answer about the certificate with this name, valid for this many days.
makeAnswer :: Credentials -> String -> Int -> FilePath -> IO ()
makeAnswer credentials name days file = do
  writeFile (fileOf credentials "index") ""
  openssl
    ( ["ocsp", "-index", fileOf credentials "index", "-ndays", show days, "-respout", file]
        ++ authority
        ++ ["-cert", fst (pairOf credentials name)]
    )
    >>= maybe (fail "openssl ocsp has failed") (const (return ()))
  where
    authority = ["-CA", root, "-rsigner", root, "-issuer", root, "-rkey", fileOf credentials "root.key"]
    root = fileOf credentials "root.pem"

-- | The end of the validity of the OCSP answer that a server shows.
answerShown :: PortNumber -> IO (Maybe String)
answerShown port =
  (>>= find ("Next Update" `isInfixOf`) . lines)
    <$> openssl ["s_client", "-connect", "127.0.0.1:" ++ show port, "-servername", "localhost", "-status"]

-- Its output, if it succeeds.
openssl :: [String] -> IO (Maybe String)
openssl arguments = do
  (code, output, _) <- within (unwords arguments) (readProcessWithExitCode "openssl" arguments "")
  return (if code == ExitSuccess then Just output else Nothing)

-- | A server with these identities.
tlsWith :: Credentials -> [String] -> TLSSettings
tlsWith credentials names = tlsSettingsMany (map (pairOf credentials) names)

-- | Serves an application while the action, which gets the port, runs.
withServer :: TLSSettings -> (Settings -> Settings) -> Application -> (PortNumber -> IO a) -> IO a
withServer tls change application use = withTlsServer tls change application (\_ port -> use port)

-- | The same for actions that change the certificates.
withTlsServer :: TLSSettings -> (Settings -> Settings) -> Application -> (TLS -> PortNumber -> IO a) -> IO a
withTlsServer tls change application use =
  withTLS tls $ \protection -> bracket (start protection) stop (\(port, _, _) -> use protection port)
  where
    start protection = do
      listener <- Network.socket Network.AF_INET Network.Stream Network.defaultProtocol
      Network.bind listener (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
      Network.listen listener 1024
      port <- Network.socketPort listener
      ready <- newEmptyMVar
      ended <- newEmptyMVar
      let settings = change (setBeforeMainLoop (putMVar ready ()) (quiet defaultSettings))
      thread <- forkIO $ do
        void
          ( try (runSettingsSocket (protectedBy protection settings) listener application) ::
              IO (Either SomeException ())
          )
        putMVar ended ()
      within "the server's start" (takeMVar ready)
      return (fromIntegral port, thread, ended)
    stop (_, thread, ended) = killThread thread >> within "the server's end" (takeMVar ended)

-- | Prints nothing.
quiet :: Settings -> Settings
quiet = setOnException (\_ _ -> return ())

type Client = Connection

localhost :: PortNumber -> SockAddr
localhost port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

-- | A client that trusts the tests' root, with changes to its settings.
withClient :: Credentials -> (ClientSettings -> ClientSettings) -> PortNumber -> (Client -> IO a) -> IO a
withClient credentials change = withClientTo credentials change "localhost" B.empty

-- | The same with this server name, after some bytes without TLS.
withClientTo ::
  Credentials -> (ClientSettings -> ClientSettings) -> String -> ByteString -> PortNumber -> (Client -> IO a) -> IO a
withClientTo credentials change name before' port use = do
  context <-
    newClientContext
      (change clientSettings {clientVerification = Verify (trustIn (PemFile (fileOf credentials "root.pem")))})
  withPlain port $ \raw -> do
    Plain.sendAll raw before'
    bracket (within "a handshake" (clientHandshake context name raw)) close use

-- | A socket that is connected to the server.
withPlain :: PortNumber -> (Socket.Socket -> IO a) -> IO a
withPlain port use =
  bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \raw -> connect raw (localhost port) >> use raw

-- | Sends bytes, and returns everything until the server has ended the connection properly.
exchangeWith :: Client -> ByteString -> IO ByteString
exchangeWith client bytes = sendAll client bytes >> receiveAll client

-- | The same without TLS.
plainExchange :: PortNumber -> ByteString -> IO ByteString
plainExchange port bytes = withPlain port $ \raw -> Plain.sendAll raw bytes >> within "the end of the stream" (go raw)
  where
    go raw = Plain.recv raw 65536 >>= \got -> if B.null got then return B.empty else (got <>) <$> go raw

requestFor :: ByteString -> ByteString
requestFor path = "GET " <> path <> " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

receiveAll :: Client -> IO ByteString
receiveAll client = within "the end of the stream" (B.concat <$> go)
  where
    go = recv client 65536 >>= \bytes -> if B.null bytes then return [] else (bytes :) <$> go

-- | Receives until these bytes have come.
receiveUntil :: ByteString -> Client -> IO ByteString
receiveUntil mark client = within ("waiting for " ++ show mark) (go B.empty)
  where
    go got
      | mark `B.isInfixOf` got = return got
      | otherwise =
        recv client 65536 >>= \bytes -> if B.null bytes then fail ("the end after " ++ show got) else go (got <> bytes)

bodyOf :: ByteString -> ByteString
bodyOf = B.drop 4 . snd . B.breakSubstring "\r\n\r\n"

statusOf :: ByteString -> Int
statusOf = maybe 0 fst . C8.readInt . B.drop 9

-- | Fails if the action takes more than thirty seconds.
within :: String -> IO a -> IO a
within what action = timeout 30000000 action >>= maybe (fail ("timed out: " ++ what)) return

-- | Repeats the action until it returns something, for at most thirty seconds.
eventually :: String -> IO (Maybe a) -> IO a
eventually what action = within what go
  where
    go = action >>= maybe (threadDelay 50000 >> go) return
