-- | A connection to a target: a plain socket's bytes, or those of TLS. Must not know: HTTP.
module Millrace.Proxy.Link
  ( Link (..),
    connectLink,
    interruptLink,
    Secured (..),
  )
where

import Control.Exception (bracketOnError, catch)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
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
    linkSocket :: !Socket
  }

-- | How to protect connections.
newtype Secured = Secured ClientContext

-- | Connects to a target. Waits until the deadline. Throws what the network and TLS throw.
connectLink :: Deadline -> Secured -> Target -> IO Link
connectLink deadline (Secured context) target = case (targetScheme target, targetPlace target) of
  (Http, AtPath path) -> bracketOnError (socket AF_UNIX Stream defaultProtocol) Socket.close $ \raw ->
    plainLink raw <$ connectBefore deadline raw (SockAddrUnix path)
  (Https, AtPath path) -> ioError (userError ("TLS on the Unix socket " <> path))
  (scheme, AtHost name port) -> bracketOnError (connectToBefore deadline (host name (show port)) {queryFlags = []}) Socket.close $ \raw -> do
    setSocketOption raw NoDelay 1
    case scheme of
      Http -> return (plainLink raw)
      Https -> tlsLink <$> clientHandshakeBefore deadline context name raw

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
      linkSocket = raw
    }

tlsLink :: Tls.Connection -> Link
tlsLink secured =
  Link
    { linkReceive = (`Tls.recvBefore` secured),
      linkSend = \deadline -> Tls.sendAllBefore deadline secured . ByteString.concat,
      linkEndSending = Tls.endSending secured,
      linkClose = Tls.close secured,
      linkIsQuiet = Tls.hasInput secured >>= \has -> if has then return False else isQuiet raw,
      linkSocket = raw
    }
  where
    raw = Tls.connectionSocket secured

-- Takes a byte if there is one. The connection is not used then.
isQuiet :: Socket -> IO Bool
isQuiet raw = alloca $ \place -> either (== eAGAIN) (const False) <$> perform (atOnce (recvRequest (socketHandle raw) place 1))

-- | Ends the connection for every thread that waits on it. May be called by any thread, and more than once.
interruptLink :: Link -> IO ()
interruptLink link = shutdown (linkSocket link) ShutdownBoth `catch` ignore
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()
