-- | The client's side.
--
-- > context <- newClientContext clientSettings
-- > connect socket address
-- > connection <- clientHandshake context "example.org" socket `onException` Millrace.Socket.close socket
-- > sendAll connection "hello\n" `finally` close connection
module Millrace.Tls.Client
  ( -- * Settings
    ClientSettings (..),
    clientSettings,
    Verification (..),
    Resumption (..),

    -- * Contexts
    ClientContext,
    newClientContext,

    -- * Handshakes
    clientHandshake,
    clientHandshakeBefore,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Maybe (maybeToList)
import Millrace.Deadline (Deadline, noDeadline)
import Millrace.Socket (Socket)
import Millrace.Tls.Certificate
import Millrace.Tls.Error
import Millrace.Tls.Internal.Context
import Millrace.Tls.Internal.TlsCalls (peerNotAsked, peerRequired)
import Millrace.Tls.Internal.TlsConnection
import Millrace.Tls.Settings

-- | The settings of a client. Begin with 'clientSettings'.
data ClientSettings = ClientSettings
  { clientVerification :: !Verification,
    -- | The client's certificate, for servers that ask for one.
    clientIdentity :: !(Maybe Identity),
    -- | Application protocols (ALPN), the preferred one first.
    clientProtocols :: ![ByteString],
    clientAlgorithms :: !Algorithms,
    clientResumption :: !Resumption
  }

-- | The proof of identity that a server must give.
data Verification
  = -- | By a certificate for the requested name or address, from a trusted authority.
    Verify Trust
  | -- | Not at all: anybody who controls the network can impersonate the server.
    DoNotVerify
  deriving (Show)

-- | Whether a later handshake with the same server can be a short one.
data Resumption
  = -- | The context keeps the sessions that servers offer (256 in all, four of each name), and the next handshake with
    -- the same name resumes the newest. A session is good until two hours after the server's certificate was verified,
    -- and never beyond that certificate's end. A ticket of TLS 1.3 is used once. A session is never used for another
    -- name or by another context, so never under another verification. 'Millrace.Tls.Connection.negotiatedIsResumed'
    -- says whether the server has accepted it.
    ResumeSessions
  | -- | Every handshake is a full one, in which the server must show its certificate.
    FullHandshakes
  deriving (Eq, Show)

-- | A client that trusts the system's authorities, has no certificate, and resumes sessions.
clientSettings :: ClientSettings
clientSettings =
  ClientSettings
    { clientVerification = Verify systemTrust,
      clientIdentity = Nothing,
      clientProtocols = [],
      clientAlgorithms = defaultAlgorithms,
      clientResumption = ResumeSessions
    }

-- | Settings in the form that handshakes need. Make one for many connections: reading the system's authorities takes
-- some milliseconds.
newtype ClientContext = ClientContext Context

-- | Makes a context. Throws a 'SettingsError' for settings that cannot be used, or the 'IOError' of reading a file.
newClientContext :: ClientSettings -> IO ClientContext
newClientContext settings = do
  context <- newContext Client
  useAlgorithms context (clientAlgorithms settings)
  useProtocols context (clientProtocols settings)
  case clientVerification settings of
    DoNotVerify -> useTrust context peerNotAsked Nothing
    Verify trust -> useTrust context peerRequired (Just trust)
  useIdentities context (maybeToList (clientIdentity settings))
  when (clientResumption settings == ResumeSessions) $ resumeSessions context
  return (ClientContext context)

-- | Does the handshake with the server of this name or IP address, which its certificate must have. The connection owns
-- the socket. If the handshake fails or is interrupted, this throws a 'TlsException' or an 'IOError', and the caller
-- must close the socket.
--
-- With TLS 1.3, the server checks the client's certificate only after the handshake is complete for the client. If it
-- refuses the certificate, the first receive throws.
clientHandshake :: ClientContext -> String -> Socket -> IO Connection
clientHandshake = clientHandshakeBefore noDeadline

-- | 'clientHandshake' with a deadline.
clientHandshakeBefore :: Deadline -> ClientContext -> String -> Socket -> IO Connection
clientHandshakeBefore deadline (ClientContext context) name socket =
  newConnection Client context socket >>= (`expectPeer` name) >>= handshake noChoice deadline ByteString.empty
  where
    -- A client never has to choose an identity during its handshake.
    noChoice _ = return (Just [])
