-- | A connection to a target: a plain socket's bytes, or those of TLS. Must not know: HTTP.
module Millrace.Proxy.Link
  ( Link (..),
    connectLink,
    Version (..),
    Secured (..),
    onlyVersion1,
  )
where

import Control.Exception (bracketOnError, catch)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Foreign.C.Error (eAGAIN)
import Foreign.Marshal.Alloc (alloca)
import Millrace.Deadline
import Millrace.Name (Query (..), host)
import Millrace.Operation (atOnce, perform, recvRequest)
import Millrace.Proxy.Target
import Millrace.Socket (Family (..), ShutdownCmd (..), SockAddr (..), Socket, SocketOption (..), SocketType (..), connectBefore, defaultProtocol, setSocketOption, shutdown, socket, socketHandle)
import qualified Millrace.Socket as Socket
import qualified Millrace.Socket.ByteString as Socket
import Millrace.Socket.Connect (connectToBefore)
import Millrace.Tls (ClientContext, clientHandshakeBefore)
import qualified Millrace.Tls as Tls

-- | An open connection.
data Link = Link
  { -- | Receives until the deadline, at most the given number of bytes. Empty at the end.
    linkReceive :: !(Deadline -> Int -> IO ByteString),
    linkSend :: !(Deadline -> [ByteString] -> IO ()),
    -- | Says that nothing more is sent.
    linkEndSending :: !(IO ()),
    linkClose :: !(IO ()),
    -- | Has the target sent nothing since, and not ended the connection either? If it has, what it sent is not the answer to the
    -- next request. Does not block.
    linkIsQuiet :: !(IO Bool),
    -- | Ends the connection for every thread that waits on it. May be called by any thread, and more than once.
    linkInterrupt :: !(IO ())
  }

-- | How to protect connections: which version of HTTP is asked for.
data Secured = Secured
  { -- | HTTP\/1.1 only.
    securedOnly1 :: !ClientContext,
    -- | HTTP\/2 only.
    securedOnly2 :: !ClientContext,
    -- | Either.
    securedEither :: !ClientContext
  }

-- | For a connection that must speak HTTP\/1.1.
onlyVersion1 :: Secured -> Secured
onlyVersion1 secured = secured {securedEither = securedOnly1 secured}

-- | The version of HTTP that a connection speaks.
data Version = Version1 | Version2
  deriving (Eq)

-- | Connects to a target, and says what it speaks. Waits until the deadline. Throws what the network and TLS throw.
connectLink :: Deadline -> Secured -> Target -> IO (Link, Version)
connectLink deadline secured target = case targetPlace target of
  AtPath path
    | isProtected scheme -> ioError (userError ("TLS on the Unix socket " <> path))
    | otherwise -> bracketOnError (socket AF_UNIX Stream defaultProtocol) Socket.close $ \raw ->
      (plainLink raw, plainVersion) <$ connectBefore deadline raw (SockAddrUnix path)
  AtHost name port -> bracketOnError (connectToBefore deadline (host name (show port)) {queryFlags = []}) Socket.close $ \raw -> do
    setSocketOption raw NoDelay 1
    case scheme of
      Https -> protected name raw (securedEither secured)
      Https1 -> protected name raw (securedOnly1 secured)
      H2 -> do
        (link, version) <- protected name raw (securedOnly2 secured)
        if version == Version2 then return (link, version) else ioError (userError "the target does not offer HTTP/2 (ALPN)")
      _ -> return (plainLink raw, plainVersion)
  where
    scheme = targetScheme target
    plainVersion = if scheme == H2c then Version2 else Version1
    protected name raw context = do
      connection <- clientHandshakeBefore deadline context name raw
      return (tlsLink connection, if Tls.negotiatedProtocol (Tls.negotiated connection) == Just (Char8.pack "h2") then Version2 else Version1)

plainLink :: Socket -> Link
plainLink raw =
  Link
    { linkReceive = (`Socket.recvBefore` raw),
      linkSend = \deadline pieces -> case pieces of
        [bytes] -> Socket.sendAllBefore deadline raw bytes
        _ -> Socket.sendManyBefore deadline raw pieces,
      linkEndSending = shutdown raw ShutdownSend,
      linkClose = Socket.close raw,
      linkIsQuiet = isQuiet raw,
      linkInterrupt = interruptSocket raw
    }

tlsLink :: Tls.Connection -> Link
tlsLink secured =
  Link
    { linkReceive = (`Tls.recvBefore` secured),
      linkSend = \deadline -> Tls.sendAllBefore deadline secured . ByteString.concat,
      linkEndSending = Tls.endSending secured,
      linkClose = Tls.close secured,
      linkIsQuiet = Tls.hasInput secured >>= \has -> if has then return False else isQuiet raw,
      linkInterrupt = interruptSocket raw
    }
  where
    raw = Tls.connectionSocket secured

-- Takes a byte if there is one. The connection is not used then.
isQuiet :: Socket -> IO Bool
isQuiet raw = alloca $ \place -> either (== eAGAIN) (const False) <$> perform (atOnce (recvRequest (socketHandle raw) place 1))

interruptSocket :: Socket -> IO ()
interruptSocket raw = shutdown raw ShutdownBoth `catch` ignore
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()
