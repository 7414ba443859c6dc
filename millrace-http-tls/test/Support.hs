{-# LANGUAGE OverloadedStrings #-}

-- | A server with TLS on a free port, and clients that speak in bytes.
module Support
  ( module TestSupport.Credentials,
    module TestSupport.Message,
    module TestSupport.Time,
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
    loopbackAddress,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Data.List (find, isInfixOf)
import Millrace.Socket (PortNumber)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls hiding (Negotiated (..))
import qualified Network.Socket as Network
import Network.Wai (Application)
import Network.Wai.Handler.Millrace hiding (Listener)
import Network.Wai.Handler.MillraceTLS hiding (Credentials)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import TestSupport.ByteStream (receiveAllBy, receiveUntilBy)
import TestSupport.Credentials
import TestSupport.Message
import TestSupport.Sockets (loopbackAddress, withConnectionTo)
import TestSupport.Time

-- | The certificate and the key of this name.
pairOf :: Credentials -> String -> (FilePath, FilePath)
pairOf credentials name = (certificateFile credentials name, keyFile credentials name)

-- | The authority's answer about the certificate with this name, valid for this many days.
makeAnswer :: Credentials -> String -> Int -> FilePath -> IO ()
makeAnswer credentials name days file = do
  writeFile (fileOf credentials "index") ""
  openssl
    ( ["ocsp", "-index", fileOf credentials "index", "-ndays", show days, "-respout", file]
        ++ authority
        ++ ["-cert", certificateFile credentials name]
    )
    >>= maybe (fail "openssl ocsp has failed") (const (return ()))
  where
    authority = ["-CA", root, "-rsigner", root, "-issuer", root, "-rkey", keyFile credentials "root"]
    root = certificateFile credentials "root"

-- | The end of the validity of the OCSP answer that a server shows.
answerShown :: PortNumber -> IO (Maybe String)
answerShown port =
  (>>= find ("Next Update" `isInfixOf`) . lines)
    <$> openssl ["s_client", "-connect", "127.0.0.1:" ++ show port, "-servername", "localhost", "-status"]

-- Runs the program. Returns its output, if it succeeds.
openssl :: [String] -> IO (Maybe String)
openssl arguments = do
  (code, output, _) <- within 30 (unwords arguments) (readProcessWithExitCode "openssl" arguments "")
  return (if code == ExitSuccess then Just output else Nothing)

-- | A server with these identities.
tlsWith :: Credentials -> [String] -> TLSSettings
tlsWith credentials names = tlsSettingsMany (map (pairOf credentials) names)

-- | Serves an application while the action, which gets the port, runs.
withServer :: TLSSettings -> (Settings -> Settings) -> Application -> (PortNumber -> IO a) -> IO a
withServer tls change application use = withTlsServer tls change application (\_ port -> use port)

-- | Serves an application while the action runs, which can change the certificates.
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
      within 30 "the server's start" (takeMVar ready)
      return (fromIntegral port, thread, ended)
    stop (_, thread, ended) = killThread thread >> within 30 "the server's end" (takeMVar ended)

-- | Prints nothing.
quiet :: Settings -> Settings
quiet = setOnException (\_ _ -> return ())

type Client = Connection

-- | A client that trusts the tests' root, with changes to its settings.
withClient :: Credentials -> (ClientSettings -> ClientSettings) -> PortNumber -> (Client -> IO a) -> IO a
withClient credentials change = withClientTo credentials change "localhost" B.empty

-- | A client of a server with this name, which first sends some bytes without TLS.
withClientTo ::
  Credentials -> (ClientSettings -> ClientSettings) -> String -> ByteString -> PortNumber -> (Client -> IO a) -> IO a
withClientTo credentials change name before' port use = do
  context <-
    newClientContext
      (change clientSettings {clientVerification = Verify (trustIn (PemFile (certificateFile credentials "root")))})
  withPlain port $ \raw -> do
    Plain.sendAll raw before'
    bracket (within 30 "a handshake" (clientHandshake context name raw)) close use

-- | Connects to the server without TLS for the time of an action.
withPlain :: PortNumber -> (Socket.Socket -> IO a) -> IO a
withPlain = withConnectionTo

-- | Sends bytes, and returns everything until the server has ended the connection properly.
exchangeWith :: Client -> ByteString -> IO ByteString
exchangeWith client bytes = sendAll client bytes >> receiveAll client

-- | Sends bytes without TLS, and returns everything until the end of the stream.
plainExchange :: PortNumber -> ByteString -> IO ByteString
plainExchange port bytes = withPlain port $ \raw ->
  Plain.sendAll raw bytes >> within 30 "the end of the stream" (receiveAllBy (Plain.recv raw 65536))

requestFor :: ByteString -> ByteString
requestFor path = "GET " <> path <> " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

-- | Receives everything until the server has ended the connection properly.
receiveAll :: Client -> IO ByteString
receiveAll client = within 30 "the end of the stream" (receiveAllBy (recv client 65536))

-- | Receives until these bytes have come.
receiveUntil :: ByteString -> Client -> IO ByteString
receiveUntil awaited client = do
  received <- within 30 ("waiting for " ++ show awaited) (receiveUntilBy (recv client 65536) awaited)
  unless (awaited `B.isInfixOf` received) (fail ("the end after " ++ show received))
  return received
