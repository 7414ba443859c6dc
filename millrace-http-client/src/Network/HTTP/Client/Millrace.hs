{-# LANGUAGE OverloadedStrings #-}

-- | http-client on Millrace: connections, plain and TLS, are made of Millrace's sockets.
--
-- A program changes one line:
--
-- > manager <- newManager millraceManagerSettings      -- instead of tlsManagerSettings or defaultManagerSettings
--
-- A program with "Network.HTTP.Simple" (http-conduit) gives its global manager once, at the beginning:
--
-- > newManager millraceManagerSettings >>= setGlobalManager
--
-- What is different from the @ManagerSettings@ of http-client and http-client-tls:
--
-- 1. Waiting is Millrace's: no time limit here needs an asynchronous exception.
-- 2. TLS is OpenSSL's. A problem of TLS is a 'TlsException' in an 'Network.HTTP.Client.InternalException', with what to
--    do
--    about it.
-- 3. Of several addresses of a host the next one is tried as soon as one has failed, or after a quarter of a second.
-- 4. A kept connection that the server has closed is noticed before the next request is sent on it.
-- 5. A problem of the network while a body is received is also an 'Network.HTTP.Client.InternalException', and not an
--    'IOError'.
-- 6. A request is not sent again after a deadline has passed.
--
-- http-client's response timeout counts as always. It is an asynchronous exception of "System.Timeout", because only
-- http-client knows where the head of a response ends. If 'Limits' are enough, switch it off with
-- 'Network.HTTP.Client.responseTimeoutNone'.
--
-- Proxies are as in http-client: those of the environment (@http_proxy@, @https_proxy@, @no_proxy@), or as set in the
-- manager.
--
-- A server on this machine, and a request to it:
--
-- >>> import Control.Concurrent (forkIO)
-- >>> import Millrace.Socket
-- >>> import Millrace.Socket.ByteString
-- >>> import Network.HTTP.Client (httpLbs, newManager, parseRequest, responseBody)
-- >>> listener <- socket AF_INET Stream defaultProtocol
-- >>> bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
-- >>> listen listener 1
-- >>> port <- socketPort listener
-- >>> let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
-- >>> _ <- forkIO (accept listener >>= \(peer, _) -> recv peer 1000 >> sendAll peer answer)
-- >>> manager <- newManager millraceManagerSettings
-- >>> request <- parseRequest ("http://127.0.0.1:" ++ show port)
-- >>> responseBody <$> httpLbs request manager
-- "hello"
module Network.HTTP.Client.Millrace
  ( -- * Settings for managers
    millraceManagerSettings,
    newMillraceManagerSettings,

    -- * What they are made of
    Settings (..),
    defaultSettings,
    Limits (..),
    defaultLimits,
  )
where

import Control.Concurrent.MVar
import Control.Exception
import Millrace.HttpClient.Connection
import Millrace.HttpClient.Limits
import Millrace.Tls (ClientContext, ClientSettings (..), SettingsError, TlsException, clientSettings, newClientContext)
import Network.HTTP.Client
  ( HttpException (..),
    HttpExceptionContent (..),
    ManagerSettings,
    Request,
    Response (..),
    defaultManagerSettings,
    getOriginalRequest,
  )
import Network.HTTP.Client.Internal (ManagerSettings (..))

-- | Settings for @newManager@, with 'defaultSettings'. The system's authorities are read before the first request with
-- @https@; if that fails, this request fails.
--
-- >>> import Network.HTTP.Client (newManager)
-- >>> manager <- newManager millraceManagerSettings
millraceManagerSettings :: ManagerSettings
millraceManagerSettings = managerSettingsOf defaultSettings (once (contextFor defaultSettings))

-- | Settings for @newManager@ with other certificates, limits or sockets. Reads the certificates, and throws a
-- 'SettingsError' if they cannot be used, or the 'IOError' of reading a file.
--
-- >>> import Millrace.Deadline (seconds)
-- >>> import Network.HTTP.Client (newManager)
-- >>> settings <- newMillraceManagerSettings defaultSettings {limits = defaultLimits {receiveLimit = seconds 5}}
-- >>> manager <- newManager settings
newMillraceManagerSettings :: Settings -> IO ManagerSettings
newMillraceManagerSettings settings = do
  context <- contextFor settings
  return (managerSettingsOf settings (return (return context)))

-- | The system's authorities, 'defaultLimits', and sockets without changes.
defaultSettings :: Settings
defaultSettings = Settings {tlsSettings = clientSettings, limits = defaultLimits, onSocket = const (return ())}

contextFor :: Settings -> IO ClientContext
contextFor settings = newClientContext (tlsSettings settings) {clientProtocols = ["http/1.1"]}

-- An action that makes the context when the result is first needed.
managerSettingsOf :: Settings -> IO (IO ClientContext) -> ManagerSettings
managerSettingsOf settings makeContext =
  defaultManagerSettings
    { managerRawConnection = return (connectPlain settings),
      managerTlsConnection = connectTls settings <$> makeContext,
      managerTlsProxyConnection = connectTlsThroughProxy settings <$> makeContext,
      managerRetryableException = isRetryable,
      managerWrapException = wrapping,
      managerModifyResponse =
        \response -> return response {responseBody = wrapping (getOriginalRequest response) (responseBody response)}
    }

-- Runs the action when its result is first needed. If it throws, the next use runs it again.
once :: IO a -> IO (IO a)
once action = do
  context <- newMVar Nothing
  return . modifyMVar context $ \known -> do
    value <- maybe action return known
    return (Just value, value)

-- Wraps other exceptions into one of http-client's.
wrapping :: Request -> IO a -> IO a
wrapping request action =
  action
    `catches` [ Handler (\problem -> inside (problem :: IOException)),
                Handler (\problem -> inside (problem :: TlsException)),
                Handler (\problem -> inside (problem :: SettingsError))
              ]
  where
    inside :: Exception e => e -> IO a
    inside = throwIO . HttpExceptionRequest request . InternalException . toException
