-- | What carries bytes between the tests' servers and clients: TLS, in place of millrace-http's module of the same
-- name.
module Carrier (serveOn, Ends (..), withEnds) where

import Control.Exception (bracket, catch, throwIO)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import Millrace.Socket (fromNetworkSocket)
import qualified Millrace.Socket as Ours
import Millrace.Tls
import Network.Socket (Socket, mkSocket, withFdSocket)
import Network.Wai (Application)
import Network.Wai.Handler.Millrace (Settings)
import Network.Wai.Handler.MillraceTLS (runTLSSocket, tlsSettingsMemory)
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.FilePath ((</>))
import System.IO.Unsafe (unsafePerformIO)
import System.Posix.IO (dup)
import System.Process (getCurrentPid, readProcess)

-- | Serves an application over TLS on a socket that listens.
serveOn :: Settings -> Socket -> Application -> IO ()
serveOn = runTLSSocket (uncurry tlsSettingsMemory identity')

-- A certificate and its key, made once.
identity' :: (ByteString, ByteString)
identity' = unsafePerformIO $ do
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("millrace-over-tls-" ++ show process)
      certificate = folder </> "certificate.pem"
      key = folder </> "key.pem"
  bracket (createDirectory folder) (const (removeDirectoryRecursive folder)) $ \() -> do
    _ <-
      readProcess
        "openssl"
        ( words "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -keyout"
            ++ [key, "-out", certificate]
        )
        ""
    (,) <$> B.readFile certificate <*> B.readFile key
{-# NOINLINE identity' #-}

clients :: ClientContext
clients = unsafePerformIO (newClientContext clientSettings {clientVerification = DoNotVerify})
{-# NOINLINE clients #-}

-- | A client's connection: how bytes are sent, how the sending ends, and how at most this many are received.
data Ends = Ends (ByteString -> IO ()) (IO ()) (Int -> IO ByteString)

-- | Uses a connected socket, on a duplicate.
withEnds :: Socket -> (Ends -> IO a) -> IO a
withEnds client use = bracket copied Ours.close $ \raw ->
  bracket (clientHandshake clients "localhost" raw) close $ \connection ->
    use (Ends (sendAll connection) (endSending connection) (receive connection))
  where
    copied = withFdSocket client (dup . fromIntegral) >>= mkSocket . fromIntegral >>= fromNetworkSocket
    -- Most examples do not care how the server ended the connection.
    receive connection size =
      recv connection size `catch` \problem ->
        if tlsProblem problem == Truncated then return B.empty else throwIO problem
