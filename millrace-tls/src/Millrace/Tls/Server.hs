-- | The server's side.
--
-- > identity <- loadIdentity (PemFile "fullchain.pem") (PemFile "privkey.pem")
-- > context <- newServerContext (serverSettings identity)
-- > (socket, _) <- accept listener
-- > connection <- serverHandshake context socket `onException` Millrace.Socket.close socket
-- > sendAll connection "hello\n" `finally` close connection
module Millrace.Tls.Server
  ( -- * Settings
    ServerSettings (..),
    serverSettings,
    UnknownNames (..),
    ClientCertificates (..),
    Tickets (..),

    -- * Contexts
    ServerContext,
    newServerContext,
    replaceServerSettings,

    -- * Handshakes
    serverHandshake,
    serverHandshakeBefore,
    serverHandshakeAfter,
  )
where

import Control.Exception (throwIO)
import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (IORef, atomicWriteIORef, newIORef, readIORef)
import Data.Maybe (isJust, isNothing)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Socket (Socket)
import Millrace.Tls.Certificate
import Millrace.Tls.Error
import Millrace.Tls.Internal.Context
import Millrace.Tls.Internal.TlsCalls (peerAsked, peerNotAsked, peerRequired, peerUnverified)
import Millrace.Tls.Internal.TlsConnection
import Millrace.Tls.Settings

-- | The settings of a server. Begin with 'serverSettings'.
data ServerSettings = ServerSettings
  { -- | Each is for the names in its certificate. Of several for a name, one of each kind of key is used (ECDSA, RSA),
    -- and the client's abilities decide. The first identity is for clients that ask for no name.
    serverIdentities :: ![Identity],
    -- | Runs in each handshake, with the name that the client asks for (SNI), in the thread of the handshake. The
    -- handshake continues when it returns, and no deadline counts meanwhile. It returns the identities to show to this
    -- client, one of each kind of key. An empty list leaves the choice to 'serverIdentities', and if there are none,
    -- the client is refused ('UnknownServerName'). The client is also refused if it throws, and the handshake throws
    -- the same exception. OCSP answers of these identities ('stapling') are not shown.
    serverIdentitiesFor :: !(Maybe (Maybe String -> IO [Identity])),
    serverUnknownNames :: !UnknownNames,
    -- | Application protocols (ALPN), the preferred one first. A client that offers others only is refused.
    serverProtocols :: ![ByteString],
    serverAlgorithms :: !Algorithms,
    serverClientCertificates :: !ClientCertificates,
    serverTickets :: !Tickets,
    -- | A file to which the secrets of all connections are appended, for debugging with a tool like Wireshark. Anybody
    -- who can read it can read everything. A program has one such file: the latest.
    serverKeyLog :: !(Maybe FilePath)
  }

-- | The treatment of a client that asks for a name that no identity has.
data UnknownNames
  = -- | Show it the first identity.
    UseFirstIdentity
  | -- | Refuse it, and also a client that asks for no name.
    RefuseUnknownNames
  deriving (Eq, Show)

-- | Whether clients show certificates.
data ClientCertificates
  = NotAsked
  | -- | A client may have no certificate. If it has one, it must be valid.
    Asked Trust
  | -- | A client without a certificate is refused.
    Required Trust
  | -- | A client may have no certificate. If it has one, it must prove that it has its key, and nothing else is
    -- verified: anybody can make such a certificate. The program must decide by the certificate
    -- ('Millrace.Tls.Connection.negotiatedPeerCertificate') whom it serves.
    AskedUnverified
  deriving (Show)

-- | A server with one identity, and defaults for the rest: no application protocols, no client certificates.
serverSettings :: Identity -> ServerSettings
serverSettings identity =
  ServerSettings
    { serverIdentities = [identity],
      serverIdentitiesFor = Nothing,
      serverUnknownNames = UseFirstIdentity,
      serverProtocols = [],
      serverAlgorithms = defaultAlgorithms,
      serverClientCertificates = NotAsked,
      serverTickets = OwnTicketKeys,
      serverKeyLog = Nothing
    }

-- | Settings in the form that handshakes need. One is enough for all connections and capabilities.
data ServerContext = ServerContext !TicketRing !(IORef Current)

-- | The part of a context that 'replaceServerSettings' replaces.
data Current = Current !Context !Choice

-- | Makes a context. Throws a 'SettingsError' for settings that cannot be used, or the 'IOError' of reading a file.
newServerContext :: ServerSettings -> IO ServerContext
newServerContext settings = do
  ring <- newTicketRing
  ServerContext ring <$> (build ring settings >>= newIORef)

-- | From the next handshake on, the context has these settings. If they cannot be used, it keeps the old ones, and this
-- throws the same exceptions as 'newServerContext'. Connections that exist stay as they are, and tickets under
-- 'OwnTicketKeys' stay good.
replaceServerSettings :: ServerContext -> ServerSettings -> IO ()
replaceServerSettings (ServerContext ring current) settings = build ring settings >>= atomicWriteIORef current

build :: TicketRing -> ServerSettings -> IO Current
build ring settings = do
  when (null (serverIdentities settings) && isNothing (serverIdentitiesFor settings)) $
    throwIO (SettingsError "the server's settings" NoIdentity "")
  context <- newContext Server
  useAlgorithms context (serverAlgorithms settings)
  useProtocols context (serverProtocols settings)
  case serverClientCertificates settings of
    NotAsked -> useTrust context peerNotAsked Nothing
    Asked trust -> useTrust context peerAsked (Just trust)
    Required trust -> useTrust context peerRequired (Just trust)
    AskedUnverified -> useTrust context peerUnverified Nothing
  useIdentities context (serverIdentities settings)
  staple context (serverIdentities settings)
  useTickets context ring (serverTickets settings)
  mapM_ (logKeys context) (serverKeyLog settings)
  when (serverUnknownNames settings == RefuseUnknownNames) $ refuseUnknownNames context
  when (isJust (serverIdentitiesFor settings)) $ askIdentities context
  return (Current context (choiceOf settings))

choiceOf :: ServerSettings -> Choice
choiceOf settings name = noneOr <$> maybe (return []) ($ name) (serverIdentitiesFor settings)
  where
    noneOr chosen = if null chosen && null (serverIdentities settings) then Nothing else Just chosen

-- | Does the handshake with a client. The connection owns the socket. If the handshake fails or is interrupted, this
-- throws a 'TlsException' or an 'IOError', and the caller must close the socket.
--
-- Give it a deadline ('serverHandshakeBefore'): a client may never send anything.
serverHandshake :: ServerContext -> Socket -> IO Connection
serverHandshake = serverHandshakeBefore noDeadline

-- | 'serverHandshake' with a deadline.
serverHandshakeBefore :: Deadline -> ServerContext -> Socket -> IO Connection
serverHandshakeBefore = serverHandshakeAfter ByteString.empty

-- | Does the handshake with a client that has already sent these bytes, until a deadline. For a server that must look
-- at the first ones: they may precede TLS, or not belong to TLS.
serverHandshakeAfter :: ByteString -> Deadline -> ServerContext -> Socket -> IO Connection
serverHandshakeAfter received deadline (ServerContext _ current) socket = do
  Current context choice <- readIORef current
  newConnection Server context socket >>= handshake choice deadline received
