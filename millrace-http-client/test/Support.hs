{-# LANGUAGE OverloadedStrings #-}

-- | What the tests share: settings for the tests' credentials, servers that answer as a test wants, and what went
-- wrong.
module Support
  ( -- * Credentials
    identity,
    trusting,

    -- * Servers
    withServer,
    withTlsServer,
    Wire (..),
    plainWire,
    tlsWire,
    receiveHead,
    answerWith,
    serveRequests,

    -- * Clients
    managerWith,
    get,
    tlsProblemOf,
    networkProblemOf,
    contentOf,
  )
where

import Control.Exception
import Data.ByteString (ByteString)
import qualified Data.ByteString.Lazy as Lazy
import Millrace.Socket
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls
  ( ClientSettings (..),
    Identity,
    Pem (..),
    ServerContext,
    TlsException (..),
    TlsProblem,
    Verification (..),
    clientSettings,
    loadIdentity,
    serverHandshake,
    trustIn,
  )
import qualified Millrace.Tls as Tls
import Network.HTTP.Client hiding (port)
import Network.HTTP.Client.Millrace
import TestSupport.Credentials
import TestSupport.Message (answerOf, receiveHeadBy)
import TestSupport.Sockets (withTcpServer)
import TestSupport.Time (within)

-- | The certificate with this name, and its key.
identity :: Credentials -> String -> IO Identity
identity credentials name =
  loadIdentity (PemFile (certificateFile credentials name)) (PemFile (keyFile credentials name))

-- | Settings that trust this authority alone.
trusting :: Credentials -> String -> Settings
trusting credentials authority =
  defaultSettings
    { tlsSettings =
        clientSettings {clientVerification = Verify (trustIn (PemFile (certificateFile credentials authority)))}
    }

------------------------------------------------------------------------------------------------------------------------
-- Servers

-- | Runs a handler for each connection, with the number of the connection, counted from 1.
withServer :: (Int -> Socket -> IO ()) -> (Int -> IO a) -> IO a
withServer handler use = withTcpServer handler (use . fromIntegral)

-- | Runs a handler for each connection after its TLS handshake, with the number of the connection, counted from 1.
withTlsServer :: ServerContext -> (Int -> Tls.Connection -> IO ()) -> (Int -> IO a) -> IO a
withTlsServer context handler = withServer $ \number peer ->
  bracket (serverHandshake context peer) Tls.close (handler number)

-- | Receiving and sending, with or without TLS.
data Wire = Wire {wireReceive :: IO ByteString, wireSend :: ByteString -> IO ()}

plainWire :: Socket -> Wire
plainWire peer = Wire (Plain.recv peer 16384) (Plain.sendAll peer)

tlsWire :: Tls.Connection -> Wire
tlsWire connection = Wire (Tls.recv connection 16384) (Tls.sendAll connection)

-- | Receives the head of a request; nothing at the end. The requests of the tests come without a body.
receiveHead :: Wire -> IO (Maybe ByteString)
receiveHead = receiveHeadBy . wireReceive

-- | Sends a response with this body.
answerWith :: Wire -> ByteString -> IO ()
answerWith wire = wireSend wire . answerOf

-- | Answers each request until the end.
serveRequests :: Wire -> (ByteString -> IO ByteString) -> IO ()
serveRequests wire answer =
  receiveHead wire >>= mapM_ (\request -> answer request >>= answerWith wire >> serveRequests wire answer)

------------------------------------------------------------------------------------------------------------------------
-- Clients

managerWith :: Settings -> IO Manager
managerWith settings = newMillraceManagerSettings settings >>= newManager . managerSetProxy noProxy

get :: Manager -> String -> IO ByteString
get manager url = do
  request <- parseRequest url
  within 20 url (Lazy.toStrict . responseBody <$> httpLbs request manager)

-- | The problem of TLS in http-client's exception.
tlsProblemOf :: Either HttpException a -> Maybe TlsProblem
tlsProblemOf outcome = case contentOf outcome of
  Just (InternalException problem) -> tlsProblem <$> fromException problem
  _ -> Nothing

-- | The error of the network in http-client's exception.
networkProblemOf :: Either HttpException a -> Maybe IOException
networkProblemOf outcome = case contentOf outcome of
  Just (InternalException problem) -> fromException problem
  Just (ConnectionFailure problem) -> fromException problem
  _ -> Nothing

contentOf :: Either HttpException a -> Maybe HttpExceptionContent
contentOf (Left (HttpExceptionRequest _ content)) = Just content
contentOf _ = Nothing
