-- | http-client's connections, made of Millrace's sockets and TLS connections.
module Millrace.HttpClient.Connection
  ( Settings (..),
    connectPlain,
    connectTls,
    connectTlsThroughProxy,
    isRetryable,
  )
where

import Control.Exception
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Data.Maybe (listToMaybe)
import Data.Tuple (swap)
import GHC.IO.Exception (IOErrorType (ResourceVanished))
import Millrace.Deadline
import Millrace.HttpClient.Connect
import Millrace.HttpClient.Limits
import Millrace.Socket
  ( AddrInfo (..),
    Family (..),
    HostAddress,
    SockAddr (..),
    Socket,
    SocketType (..),
    defaultProtocol,
  )
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Socket
import Millrace.Tls
  ( ClientContext,
    ClientSettings,
    TlsException (..),
    TlsProblem (..),
    clientHandshakeBefore,
    connectionSocket,
  )
import qualified Millrace.Tls as Tls
import Network.HTTP.Client (ManagerSettings (..), defaultManagerSettings)
import Network.HTTP.Client.Internal (Connection (..), makeConnection, strippedHostName)
import System.IO.Error (ioeSetErrorString, mkIOError)

-- | The settings of a manager's connections. Begin with 'Network.HTTP.Client.Millrace.defaultSettings'.
data Settings = Settings
  { -- | Which authorities to trust, which certificate to show, and which algorithms to use. The application protocol is
    -- always HTTP/1.1.
    tlsSettings :: !ClientSettings,
    limits :: !Limits,
    -- | Runs with each socket before it connects, for example to set an option or to bind it to an address.
    onSocket :: !(Socket -> IO ())
  }

-- | The functions that send and receive, on a socket or on a TLS connection.
data ByteChannel = ByteChannel
  { linkReceive :: !(Deadline -> Int -> IO ByteString),
    linkSend :: !(Deadline -> ByteString -> IO ()),
    linkSocket :: !Socket,
    -- | Has the server sent nothing, and not ended the connection either? Does not block. If not, the connection must
    -- not be used again.
    linkIsQuiet :: !(IO Bool),
    linkClose :: !(IO ())
  }

plainLink :: Socket -> ByteChannel
plainLink raw =
  ByteChannel (`Socket.recvBefore` raw) (`Socket.sendAllBefore` raw) raw (Socket.isQuiet raw) (Socket.close raw)

tlsLink :: Tls.Connection -> ByteChannel
tlsLink secured =
  ByteChannel
    (`Tls.recvBefore` secured)
    (`Tls.sendAllBefore` secured)
    (connectionSocket secured)
    (Tls.isQuiet secured)
    (Tls.close secured)

-- | For @http@.
connectPlain :: Settings -> Maybe HostAddress -> String -> Int -> IO Connection
connectPlain settings known host port = do
  deadline <- deadlineAfter (connectLimit (limits settings))
  bracketOnError (open settings deadline known host port) Socket.close (connectionOf settings . plainLink)

-- | For @https@.
connectTls :: Settings -> IO ClientContext -> Maybe HostAddress -> String -> Int -> IO Connection
connectTls settings getContext known host port = do
  context <- getContext
  deadline <- deadlineAfter (connectLimit (limits settings))
  bracketOnError (open settings deadline known host port) Socket.close (secure settings deadline context host)

-- | For @https@ through a proxy: what to send to it, how to check its answer, the server's name, the server's address,
-- and the proxy's name and port.
connectTlsThroughProxy ::
  Settings ->
  IO ClientContext ->
  ByteString ->
  (Connection -> IO ()) ->
  String ->
  Maybe HostAddress ->
  String ->
  Int ->
  IO Connection
connectTlsThroughProxy settings getContext request check server _ proxy port = do
  context <- getContext
  deadline <- deadlineAfter (connectLimit (limits settings))
  bracketOnError (open settings deadline Nothing proxy port) Socket.close $ \raw -> do
    Socket.sendAllBefore deadline raw request
    askProxy deadline raw check
    secure settings deadline context server raw

-- | Checks the proxy's answer. No bytes may follow it: they would precede the server's, and not be protected by TLS. A
-- server sends nothing before the client does.
askProxy :: Deadline -> Socket -> (Connection -> IO ()) -> IO ()
askProxy deadline raw check = do
  isOver <- newIORef False
  -- The caller closes the socket.
  answer <-
    makeConnection
      (readIORef isOver >>= \over -> if over then return ByteString.empty else Socket.recvBefore deadline raw 4096)
      (const (return ()))
      (return ())
  check answer
  writeIORef isOver True
  rest <- connectionRead answer
  unless (ByteString.null rest) $ throwIO (userError "the proxy has sent more than an answer to CONNECT")

secure :: Settings -> Deadline -> ClientContext -> String -> Socket -> IO Connection
secure settings deadline context host raw =
  bracketOnError
    (clientHandshakeBefore deadline context (strippedHostName host) raw)
    Tls.close
    (connectionOf settings . tlsLink)

open :: Settings -> Deadline -> Maybe HostAddress -> String -> Int -> IO Socket
open settings deadline known host port = case known of
  Nothing -> connectToHost (onSocket settings) deadline (strippedHostName host) port
  Just address ->
    connectFirst
      (onSocket settings)
      deadline
      [AddrInfo [] AF_INET Stream defaultProtocol (SockAddrInet (fromIntegral port) address) Nothing]

connectionOf :: Settings -> ByteChannel -> IO Connection
connectionOf settings link = do
  isAnswered <- newIORef False
  unread <- newIORef []
  sendingFailed <- newIORef Nothing
  made <- makeConnection (receive isAnswered sendingFailed) (transmit isAnswered unread sendingFailed) (linkClose link)
  return
    made
      { connectionRead =
          atomicModifyIORef' unread (swap . splitAt 1) >>= maybe (connectionRead made) return . listToMaybe,
        connectionUnread = \bytes -> unless (ByteString.null bytes) (modifyIORef' unread (bytes :))
      }
  where
    receive isAnswered sendingFailed = do
      -- http-client ignores errors while it sends, and waits for a response. After these none will come.
      readIORef sendingFailed >>= mapM_ throwIO
      deadline <- deadlineAfter (receiveLimit (limits settings))
      bytes <- linkReceive link deadline 16384
      bytes <$ writeIORef isAnswered True
    -- Before a further request: if the server has closed the connection meanwhile, or if anything has come that was not
    -- asked for, nothing of the request is sent here, and http-client sends it on a new connection. So a request
    -- is never sent twice, and what came unasked is never taken for its response.
    transmit isAnswered unread sendingFailed bytes = do
      wasAnswered <- readIORef isAnswered
      writeIORef isAnswered False
      when (wasAnswered && beginsRequest bytes) $ do
        isFresh <- (&&) <$> (null <$> readIORef unread) <*> linkIsQuiet link
        unless isFresh $ do
          writeIORef unread []
          failing
            sendingFailed
            (ended `ioeSetErrorString` "the server has closed the connection, or has sent something unasked")
      deadline <- deadlineAfter (sendLimit (limits settings))
      linkSend link deadline bytes `catch` \problem -> do
        when (isDeadlineError problem) $ failing sendingFailed problem
        throwIO (problem :: IOException)
    failing sendingFailed problem = writeIORef sendingFailed (Just problem) >> throwIO problem
    ended =
      mkIOError
        ResourceVanished
        "Network.HTTP.Client.Millrace: sending a request"
        Nothing
        (Just (show (linkSocket link)))

-- Other bytes are the body behind 100 (Continue), or what a caller says who speaks another protocol on the connection.
beginsRequest :: ByteString -> Bool
beginsRequest bytes = any (`ByteString.isSuffixOf` line) [Char8.pack " HTTP/1.1\r", Char8.pack " HTTP/1.0\r"]
  where
    line = Char8.takeWhile (/= '\n') bytes

-- | Whether to send a request again on a new connection, after this exception on a kept one. The same as in
-- http-client, except after a deadline: the server may be working on the request.
isRetryable :: SomeException -> Bool
isRetryable problem
  | Just network <- fromException problem = not (isDeadlineError network)
  | Just TlsException {tlsProblem = Truncated} <- fromException problem = True
  | otherwise = managerRetryableException defaultManagerSettings problem
