-- | TLS 1.2 and 1.3 for every socket of "Millrace.Socket", as a client and as a server.
--
-- A handshake turns a connected socket into a 'Connection', which has the socket's functions: 'recv', 'sendAll',
-- 'sendFile'. Waiting, deadlines and interruption are the socket's. OpenSSL does the cryptography. It never gets a
-- descriptor, and never waits.
--
-- > main = do
-- >   identity <- loadIdentity (PemFile "fullchain.pem") (PemFile "privkey.pem")
-- >   context <- newServerContext (serverSettings identity)
-- >   forever $ do
-- >     (socket, _) <- accept listener
-- >     forkIO (bracket (serverHandshake context socket) close serve `finally` Millrace.Socket.close socket)
module Millrace.Tls
  ( module Millrace.Tls.Certificate,
    module Millrace.Tls.Client,
    module Millrace.Tls.Connection,
    module Millrace.Tls.Error,
    module Millrace.Tls.Server,
    module Millrace.Tls.Settings,
  )
where

import Millrace.Tls.Certificate
import Millrace.Tls.Client
import Millrace.Tls.Connection
import Millrace.Tls.Error
import Millrace.Tls.Server
import Millrace.Tls.Settings
