{-# LANGUAGE LambdaCase #-}

-- Must not know: HTTP.

-- | A connection to a target: a plain socket's bytes, or those of TLS.
module Millrace.Proxy.Link
  ( Link (..),
    connectLink,
    Version (..),
    Secured,
    newSecured,
    onlyVersion1,
    Asked (..),
  )
where

import Control.Exception (IOException, bracketOnError, catch, mask_)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Data.ByteString.Internal (create)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Millrace.Deadline
import Millrace.Name (Query (..), host)
import Millrace.Proxy.Target
import Millrace.Socket
  ( Family (..),
    ShutdownCmd (..),
    SockAddr (..),
    Socket,
    SocketOption (..),
    SocketType (..),
    connectBefore,
    defaultProtocol,
    setSocketOption,
    shutdown,
    socket,
  )
import qualified Millrace.Socket as Socket
import Millrace.Socket.Borrowed
  ( Received (..),
    SentThenReceived (..),
    Slice (..),
    borrow,
    borrowedBytes,
    borrowedSize,
    giveBack,
    sendThenReceiveWithin,
  )
import qualified Millrace.Socket.ByteString as Socket
import Millrace.Socket.Connect (connectToBefore)
import Millrace.Tls (ClientContext, ClientSettings (..), clientHandshakeBefore, newClientContext)
import qualified Millrace.Tls as Tls

-- | An open connection.
data Link = Link
  { -- | Receives until the deadline, at most the given number of bytes. Empty at the end.
    linkReceive :: !(Deadline -> Int -> IO ByteString),
    linkSend :: !(Deadline -> [ByteString] -> IO ()),
    -- | Sends bytes without waiting, and then receives as 'linkReceive' does, within a time limit. A plain socket does
    -- both in one operation.
    linkAsk :: !(Duration -> ByteString -> IO Asked),
    -- | Tells the target that nothing more will be sent.
    linkEndSending :: !(IO ()),
    linkClose :: !(IO ()),
    -- | Whether the target has sent nothing since the last response, and not ended the connection. Otherwise the
    -- connection must be closed: what it sent would be taken for the answer to the next request. Does not block.
    linkIsQuiet :: !(IO Bool),
    -- | Whether the target has ended the connection. Receives nothing, so any thread may call it, also while another
    -- one uses or closes the connection. Does not block.
    linkHasEnded :: !(IO Bool),
    -- | Ends the connection for every thread that waits on it. May be called by any thread, and more than once.
    linkInterrupt :: !(IO ())
  }

-- | The outcome of 'linkAsk'.
data Asked
  = -- | Only this many bytes were sent, and nothing was received.
    AskedInPart !Int
  | -- | The bytes that were received; empty at the end.
    Answered !ByteString

-- | The TLS contexts for connections, by the version of HTTP that they offer. A context that no target needs is
-- 'Nothing'.
data Secured = Secured
  { -- | HTTP\/1.1 only.
    securedOnly1 :: !(Maybe ClientContext),
    -- | HTTP\/2 only.
    securedOnly2 :: !(Maybe ClientContext),
    -- | Either.
    securedEither :: !(Maybe ClientContext)
  }

-- | Makes the TLS contexts that targets with these schemes need. Throws a @SettingsError@ of "Millrace.Tls".
newSecured :: ClientSettings -> [Scheme] -> IO Secured
newSecured settings schemes =
  Secured <$> neededBy [Https, Https1] ["http/1.1"] <*> neededBy [H2] ["h2"] <*> neededBy [Https] ["h2", "http/1.1"]
  where
    neededBy users protocols
      | any (`elem` users) schemes = Just <$> newClientContext settings {clientProtocols = map Char8.pack protocols}
      | otherwise = return Nothing

-- | Restricts the contexts to connections that must speak HTTP\/1.1.
onlyVersion1 :: Secured -> Secured
onlyVersion1 secured = secured {securedEither = securedOnly1 secured}

-- | The version of HTTP that a connection speaks.
data Version = Version1 | Version2
  deriving (Eq)

-- | Connects to a target, and returns the version that it speaks. Waits until the deadline. Throws what the network and
-- TLS throw.
connectLink :: Deadline -> Secured -> Target -> IO (Link, Version)
connectLink deadline secured target = case targetAddress target of
  AtPath path
    | isProtected scheme -> ioError (userError ("TLS on the Unix socket " <> path))
    | otherwise -> bracketOnError (socket AF_UNIX Stream defaultProtocol) Socket.close $ \raw ->
      (plainLink raw, plainVersion) <$ connectBefore deadline raw (SockAddrUnix path)
  AtHost name port ->
    bracketOnError (connectToBefore deadline (host name (show port)) {queryFlags = []}) Socket.close $ \raw -> do
      setSocketOption raw NoDelay 1
      case scheme of
        Https -> protected name raw (securedEither secured)
        Https1 -> protected name raw (securedOnly1 secured)
        H2 -> do
          (link, version) <- protected name raw (securedOnly2 secured)
          if version == Version2
            then return (link, version)
            else ioError (userError "the target does not offer HTTP/2 (ALPN)")
        _ -> return (plainLink raw, plainVersion)
  where
    scheme = targetScheme target
    plainVersion = if scheme == H2c then Version2 else Version1
    protected _ _ Nothing = ioError (userError ("no settings of TLS for " <> showTarget target))
    protected name raw (Just context) = do
      connection <- clientHandshakeBefore deadline context name raw
      return
        ( tlsLink connection,
          if Tls.negotiatedProtocol (Tls.negotiated connection) == Just (Char8.pack "h2")
            then Version2
            else Version1
        )

plainLink :: Socket -> Link
plainLink raw =
  Link
    { linkReceive = (`Socket.recvBefore` raw),
      linkSend = \deadline pieces -> case pieces of
        [bytes] -> Socket.sendAllBefore deadline raw bytes
        _ -> Socket.sendManyBefore deadline raw pieces,
      linkAsk = ask raw,
      linkEndSending = shutdown raw ShutdownSend,
      linkClose = Socket.close raw,
      linkIsQuiet = Socket.isQuiet raw,
      linkHasEnded = hasEnded raw,
      linkInterrupt = interruptSocket raw
    }

tlsLink :: Tls.Connection -> Link
tlsLink secured =
  Link
    { linkReceive = (`Tls.recvBefore` secured),
      linkSend = \deadline -> Tls.sendAllBefore deadline secured . ByteString.concat,
      linkAsk = \_ _ -> return (AskedInPart 0),
      linkEndSending = Tls.endSending secured,
      linkClose = Tls.close secured,
      linkIsQuiet = Tls.isQuiet secured,
      linkHasEnded = hasEnded raw,
      linkInterrupt = interruptSocket raw
    }
  where
    raw = Tls.connectionSocket secured

ask :: Socket -> Duration -> ByteString -> IO Asked
ask raw limit bytes
  | size > borrowedSize = return (AskedInPart 0)
  | otherwise = mask_ $ do
    buffer <- borrow
    unsafeUseAsCStringLen bytes $ \(start, _) -> copyBytes (borrowedBytes buffer) (castPtr start) size
    sendThenReceiveWithin limit raw (Slice buffer 0 size) $ \case
      NotSent count -> AskedInPart count <$ giveBack buffer
      Sent EndOfStream -> return (Answered ByteString.empty)
      Sent (Received received count) -> do
        answer <- create count (\copy -> copyBytes copy (borrowedBytes received) count)
        Answered answer <$ giveBack received
  where
    size = ByteString.length bytes

-- A socket that is closed on this side has ended, too.
hasEnded :: Socket -> IO Bool
hasEnded raw = Socket.hasEnded raw `catch` \problem -> let _ = problem :: IOException in return True

interruptSocket :: Socket -> IO ()
interruptSocket raw = shutdown raw ShutdownBoth `catch` ignore
  where
    ignore :: IOError -> IO ()
    ignore _ = return ()
