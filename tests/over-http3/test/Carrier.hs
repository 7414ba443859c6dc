-- | What carries bytes between the tests' servers and clients: HTTP\/3, in place of millrace-http's module of the same
-- name. What the clients send must be HTTP\/2. @gateway.py@ translates it.
module Carrier (serveOn, Ends (..), withEnds, withGateway) where

import Control.Concurrent.MVar
import Control.Exception (bracket, bracket_, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.IORef
import Millrace.Http.Server.Listener (closeListener, givenListener)
import Millrace.Http.Server.Settings (Settings (..))
import Millrace.Socket (fromNetworkSocket)
import Network.Socket
import qualified Network.Socket.ByteString as Socket
import Network.Wai (Application)
import Network.Wai.Handler.MillraceHTTP3 (withHTTP3)
import Network.Wai.Handler.MillraceTLS (tlsSettings)
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.IO (hClose, hGetLine)
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.IO (dup)
import System.Process

-- | Serves an application over HTTP\/3 at the address of a socket that listens. Nobody accepts the connections of that
-- socket.
serveOn :: Settings -> Socket -> Application -> IO ()
serveOn settings listening application = do
  Gateway _ certificate key <- readIORef gateway
  bracket listener closeListener $ \here ->
    withHTTP3 (tlsSettings certificate key) settings [here] application $ \_ -> do
      stopping <- newEmptyMVar
      settingsInstallShutdownHandler settings (void (tryPutMVar stopping ()))
      settingsBeforeMainLoop settings
      takeMVar stopping
  where
    listener =
      withFdSocket listening (dup . fromIntegral)
        >>= mkSocket . fromIntegral
        >>= fromNetworkSocket
        >>= givenListener "serveOn"

-- | A client's connection: how bytes are sent, how the sending ends, and how at most this many are received.
data Ends = Ends (ByteString -> IO ()) (IO ()) (Int -> IO ByteString)

-- | Uses a connection to the server at which this socket has arrived.
withEnds :: Socket -> (Ends -> IO a) -> IO a
withEnds client use = do
  server <- getPeerName client
  number <- case server of
    SockAddrInet port _ -> return (toInteger port)
    _ -> fail ("no port: " ++ show server)
  bracket (open number) finish $ \opened ->
    use (Ends (Socket.sendAll opened) (shutdown opened ShutdownSend) (Socket.recv opened))
  where
    open number = do
      Gateway port _ _ <- readIORef gateway
      opened <- socket AF_INET Stream defaultProtocol
      setSocketOption opened NoDelay 1
      connect opened (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))
      Socket.sendAll opened (C8.pack (show number ++ "\n"))
      return opened
    finish opened = do
      void (try (Socket.sendAll opened leave) :: IO (Either IOError ()))
      close opened
    -- A frame of a type of its own: the client has left, and does not only send nothing more.
    leave = B.pack [0, 0, 0, 0xf0, 0, 0, 0, 0, 0]

-- The port of the program that translates, and the files of the servers' certificate and its key.
data Gateway = Gateway PortNumber FilePath FilePath

gateway :: IORef Gateway
gateway = unsafePerformIO (newIORef (error "there is no gateway"))
{-# NOINLINE gateway #-}

-- | Runs an action beside the program that translates.
withGateway :: IO a -> IO a
withGateway action = do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-over-http3-" ++ show process)
      certificate = folder </> "certificate.pem"
      key = folder </> "key.pem"
  bracket_ (createDirectory folder) (removeDirectoryRecursive folder) $ do
    _ <-
      readProcess
        "openssl"
        ( words
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -batch \
            \-quiet -keyout"
            ++ [key, "-out", certificate]
        )
        ""
    withCreateProcess (proc "python3" ["gateway.py"]) {std_in = CreatePipe, std_out = CreatePipe} $
      \input output _ running ->
        case (input, output) of
          (Just ending, Just said) -> do
            port <- read <$> hGetLine said
            writeIORef gateway (Gateway (fromInteger port) certificate key)
            result <- action
            hClose ending
            _ <- waitForProcess running
            return result
          _ -> fail "no pipes"
