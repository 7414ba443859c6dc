-- Must not know: requests, responses.

-- | The additional parts of a server with TLS: certificates that can be replaced, and handshakes.
--
-- Not covered by the version policy.
module Millrace.Http.Tls.Protection
  ( TLS,
    withTLS,
    protectedBy,
    offering,
    reloadTLS,
    replaceTLS,
  )
where

import Control.Concurrent (ThreadId, forkIO, forkIOWithUnmask, killThread, throwTo)
import Control.Concurrent.MVar (MVar, modifyMVarMasked_, newEmptyMVar, putMVar, takeMVar, withMVar)
import Control.Exception (SomeException, bracket_, fromException, mask, throwIO, toException, try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as Char8
import qualified Data.ByteString.Lazy as L
import GHC.IO.Exception (IOErrorType (..), IOException (..))
import Millrace.Deadline (deadlineAfter, monotonicNanoseconds, unlimited)
import Millrace.Http.Server.Settings (Protocols (..), Settings (..))
import Millrace.Http.Tls.Handshakes
import Millrace.Http.Tls.TlsSettings
import Millrace.Http.Tls.TlsTransport (tlsFunctions)
import Millrace.Http.Transport (Others (..), Protection (..))
import qualified Millrace.Http.Transport as Http
import qualified Millrace.Http.Transport.Plain as Plain
import Millrace.Socket (ShutdownCmd (..), Socket, shutdown)
import Millrace.Tls
import Millrace.Tls.FileChanges (watchFiles)

-- | The state with which a server protects its connections.
data TLS
  = -- The first settings, and those whose certificates are used now.
    TLS !TLSSettings !(MVar Chosen) !ServerContext !Handshakes

-- The settings, and the thread that watches their files.
data Chosen = Chosen !TLSSettings !(Maybe ThreadId)

-- | Reads certificates and runs an action, during which the files are watched. Throws a 'SettingsError' if they cannot
-- be used, or the @IOError@ of reading them.
--
-- > withTLS (offering settings (tlsSettings "fullchain.pem" "privkey.pem")) $ \tls ->
-- >   runSettingsInherited (protectedBy tls settings) application
withTLS :: TLSSettings -> (TLS -> IO a) -> IO a
withTLS settings use = do
  context <- serverSettingsOf settings >>= newServerContext
  handshakes <- newHandshakes (tlsMaximumHandshakes settings)
  chosen <- newEmptyMVar
  let tls = TLS settings chosen context handshakes
  bracket_ (watching tls settings >>= putMVar chosen) (takeMVar chosen >>= stopWatching) (use tls)

-- Watches the files of these settings, if there are any. Must be called with asynchronous exceptions masked.
watching :: TLS -> TLSSettings -> IO Chosen
watching tls settings
  | tlsWatchInterval settings /= unlimited && not (null (watchedFiles settings)) =
    Chosen settings . Just <$> forkIOWithUnmask (\unmask -> unmask watch)
  | otherwise = return (Chosen settings Nothing)
  where
    watch =
      watchFiles
        (tlsWatchInterval settings)
        (watchedFiles settings)
        (try (reloadTLS tls) >>= tlsOnReload settings . either NotReloaded (const Reloaded))

stopWatching :: Chosen -> IO ()
stopWatching (Chosen _ watcher) = mapM_ killThread watcher

-- | Reads the certificates again. The next handshakes use them. If they cannot be used, the old ones stay, and this
-- throws the same exceptions as 'withTLS'.
reloadTLS :: TLS -> IO ()
reloadTLS (TLS _ chosen context _) =
  -- Within the lock. Otherwise certificates that were read before 'replaceTLS' could be used after it.
  withMVar chosen $ \(Chosen settings _) -> serverSettingsOf settings >>= replaceServerSettings context

-- | Replaces settings: certificates, keys for tickets, rules for clients' certificates. The next handshakes use them,
-- and their files are watched instead. 'onInsecure', 'tlsOnHandshake', 'tlsHandshakeLimit' and 'tlsMaximumHandshakes'
-- stay as they are. If the settings cannot be used, the old ones stay, and this throws the same exceptions as
-- 'withTLS'.
replaceTLS :: TLS -> TLSSettings -> IO ()
replaceTLS tls@(TLS _ chosen context _) settings = mask $ \restore ->
  modifyMVarMasked_ chosen $ \before -> do
    restore (serverSettingsOf settings) >>= replaceServerSettings context
    next <- watching tls settings
    next <$ forkIO (stopWatching before) -- The watcher may be waiting for this, to read the files again.

-- | Sets the application protocols to those that a server with these settings supports, unless 'tlsProtocols' is given.
-- Use it with 'withTLS' and 'replaceTLS'; without it clients are offered HTTP\/2 and HTTP\/1.1, whatever the server's
-- settings disable.
--
-- > withTLS (offering (setHTTP2Disabled settings) choices) serve
offering :: Settings -> TLSSettings -> TLSSettings
offering settings tls = case tlsProtocols tls of
  Just _ -> tls
  Nothing -> tls {tlsProtocols = Just (map Char8.pack spoken)}
  where
    spoken = case settingsProtocols settings of
      OnlyHttp1 -> ["http/1.1", "http/1.0"]
      OnlyHttp2 -> ["h2"]
      AllProtocols -> ["h2", "http/1.1", "http/1.0"]

-- | A server with these settings whose connections are protected.
protectedBy :: TLS -> Settings -> Settings
protectedBy tls@(TLS tlsChoices _ _ _) settings = settings {settingsProtection = Just protection}
  where
    protection =
      Protection
        { protectionBeginsWith = (== handshakeRecord),
          protectionHandshake = shakeHands tls,
          protectionOthers = case onInsecure tlsChoices of
            AllowInsecure -> ServedAsTheyAre
            DenyInsecure text -> AnsweredWith (upgradeRequired (L.toStrict text)) (toException InsecureConnectionDenied)
        }
    -- The type of a record that is part of a handshake (RFC 8446, section 5.1).
    handshakeRecord = 22

-- RFC 9110, section 15.5.22.
upgradeRequired :: ByteString -> ByteString
upgradeRequired text =
  B.concat
    [ Char8.pack "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade, close\r\n",
      Char8.pack "Content-Type: text/plain; charset=utf-8\r\nContent-Length: ",
      Char8.pack (show (B.length text)),
      Char8.pack "\r\n\r\n",
      text
    ]

-- Does the handshake with a client that has sent these bytes, and reports its outcome. A handshake needs more stack
-- than a thread begins with, and a stack that has grown keeps a chunk of 32 KB. So the handshake runs in a separate
-- thread, and the stack of the connection's thread stays small, however long the connection is open (decision 26).
shakeHands :: TLS -> ByteString -> Socket -> IO Http.Functions
shakeHands tls received socket = inSeparateThread (shakeHandsHere tls received socket)

shakeHandsHere :: TLS -> ByteString -> Socket -> IO Http.Functions
shakeHandsHere (TLS settings _ context handshakes) received socket = do
  start <- monotonicNanoseconds
  deadline <- deadlineAfter (tlsHandshakeLimit settings)
  (fate, result) <- fmap flattened . try . inHandshake handshakes deadline end $ \fate -> do
    result <- try (serverHandshakeAfter received deadline context socket)
    now <- fate
    return (now, result)
  forM_ (tlsOnHandshake settings) $ \tellOf -> do
    now <- monotonicNanoseconds
    tellOf (Handshake (outcomeOf fate result) (now - start))
  either throwIO (return . tlsFunctions) result
  where
    end = Plain.ignoringErrors (shutdown socket ShutdownBoth)
    flattened = either (\failure -> (Undisturbed, Left failure)) id

outcomeOf :: HandshakeFate -> Either SomeException Connection -> HandshakeOutcome
outcomeOf _ (Right connection) =
  maybe (HandshakeLost (toException unprotected)) HandshakeDone (Http.functionsNegotiated (tlsFunctions connection))
  where
    unprotected = userError "no protection"
outcomeOf Aborted (Left _) = HandshakeAborted
outcomeOf Undisturbed (Left failure)
  | Just problem <- fromException failure = HandshakeRefused problem
  | Just expired <- fromException failure, ioe_type expired == TimeExpired = HandshakeTimedOut
  | otherwise = HandshakeLost failure

-- Runs an action in a new thread and waits for it, so that the stack of this thread stays as small as it was. Throws
-- the exception of the action. An asynchronous exception that this thread receives meanwhile is passed on to the
-- action, and is thrown here when the action has ended.
inSeparateThread :: IO a -> IO a
inSeparateThread action = mask $ \restore -> do
  result <- newEmptyMVar
  thread <- forkIO (try (restore action) >>= putMVar result)
  outcome <- try (takeMVar result)
  case outcome of
    Right ended -> either rethrow return ended
    Left interruption -> endFor thread result interruption >> throwIO interruption
  where
    rethrow :: SomeException -> IO a
    rethrow = throwIO

-- Returns when the thread has ended. Other threads may interrupt the wait; each interruption is passed on to the
-- thread.
endFor :: ThreadId -> MVar (Either SomeException a) -> SomeException -> IO ()
endFor thread result interruption =
  try (throwTo thread interruption >> takeMVar result) >>= either (endFor thread result) (const (return ()))
