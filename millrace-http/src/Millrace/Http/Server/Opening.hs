-- Must not know: listeners, responses.

-- |
-- The beginning of a connection: a proxy's header, protection such as TLS, and the first bytes of the client, which
-- show whether it speaks HTTP\/1 or HTTP\/2. Until then there is no state of either protocol.
module Millrace.Http.Server.Opening (Opened (..), OpeningState (..), Receiving (..), openConnection) where

import Control.Exception (SomeException, interruptible, onException, throwIO, toException, try)
import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import qualified Data.ByteString.Unsafe as BU
import Data.IORef (readIORef)
import Data.Primitive.ByteArray (newByteArray, setByteArray)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekElemOff)
import Millrace.Deadline (Deadline, deadlineAfter, microseconds, noDeadline)
import Millrace.Http.Delivery (Delivery (..), Window (..), deliver, linger, lingerMicros)
import Millrace.Http.Exception
import Millrace.Http.ProxyProtocol (Parsed (..), parseHeader)
import Millrace.Http.Server.Context (Phase (..), ServerContext (..), reportTo)
import Millrace.Http.Server.Limits (Limits (..))
import Millrace.Http.Server.Settings (Protocols (..), ProxyProtocol (..), Settings (..))
import Millrace.Http.Transport

-- | The result of opening a connection. The transport is another one than at first if a handshake was done.
data Opened
  = -- | The client speaks HTTP\/1. Its first bytes are in this buffer, which the caller owns from now on; this is their
    -- number.
    OpenedHttp1 !Transport !Borrowed !Int
  | -- | The client speaks HTTP\/2, and has sent these bytes.
    OpenedHttp2 !Transport !ByteString
  | -- | The client gets an answer of HTTP\/1 that says what was wrong with these bytes.
    OpenedInvalid !Transport !ByteString !InvalidRequest
  | -- | The connection is over. All that there was to report is reported.
    NotOpened

-- | What other threads must know of a connection that opens.
data OpeningState
  = -- | No byte has come.
    Waits
  | -- | Some have come, and more must come before the protocol is known.
    Works
  | -- | All was sent, and only the client's end is missing.
    Leaves

-- | Whether the client's bytes still arrive.
data Receiving
  = StillReceiving
  | -- | The server has ended the receiving side. That something is incomplete then is not the client's mistake.
    EndedByServer
  deriving (Eq)

-- | Waits for the first bytes of a connection until it is known how to serve it. The action notes the state. Call this
-- masked. Throws what receiving throws, with an exception of type @TimeExpired@ if the client sends nothing.
openConnection :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> IO Opened
openConnection server note transport = case settingsProxyProtocol (serverSettings server) of
  ProxyProtocolNone -> openProtected server note transport Nothing
  wanted -> do
    first <- receiveSome server note transport
    maybe (endEarly server) (openProxied server note transport wanted) first

-- Receives the first bytes of what comes next. Nothing: the client, or the server, has ended the connection.
receiveSome :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> IO (Maybe (Borrowed, Int))
receiveSome server note transport = do
  phase <- readIORef (serverPhase server)
  if phase == Over
    then return Nothing
    else do
      void (note Waits)
      received <- receiveFirst transport (freshMicros (serverLimits server)) return
      void (note Works)
      return $ case received of
        EndOfStream -> Nothing
        Received buffer count -> Just (buffer, count)

-- A client that connects and leaves is reported once, and by default not displayed.
endEarly :: ServerContext -> IO Opened
endEarly server = do
  phase <- readIORef (serverPhase server)
  unless (phase == Over) (reportTo server Nothing (toException ConnectionClosedByPeer))
  return NotOpened

-- The deadline of what must come after the first byte.
headDeadline :: ServerContext -> IO Deadline
headDeadline server = case filter (> 0) [headMicros limits, totalMicros limits] of
  [] -> return noDeadline
  micros -> deadlineAfter (microseconds (minimum micros))
  where
    limits = serverLimits server

-- Copies the bytes of a buffer, and gives it back.
takeBytes :: Borrowed -> Int -> IO ByteString
takeBytes buffer count = B.packCStringLen (castPtr (borrowedBytes buffer), count) <* giveBack buffer

------------------------------------------------------------------------------------------------------------------------
-- The PROXY protocol

-- Reads a proxy's header, of which this buffer has the beginning.
openProxied ::
  ServerContext ->
  (OpeningState -> IO Receiving) ->
  Transport ->
  ProxyProtocol ->
  (Borrowed, Int) ->
  IO Opened
openProxied server note transport wanted (buffer, size) = do
  deadline <- headDeadline server
  takeBytes buffer size >>= go deadline
  where
    go deadline bytes = do
      header <- parseHeader bytes
      case header of
        Header length' address -> continue (maybe id withPeer address transport) (B.drop length' bytes)
        NoHeader | wanted == ProxyProtocolOptional -> continue transport bytes
        NoHeader -> invalid (BadProxyHeader "there is none")
        Malformed reason -> invalid (BadProxyHeader reason)
        Incomplete -> do
          received <- try (receiveBytes transport deadline moreBytes)
          case received of
            Left failure
              | isTimeExpired failure -> invalid RequestTimedOut
              | otherwise -> throwIO failure
            Right more | B.null more -> invalid IncompleteHeaders
            Right more -> go deadline (bytes <> more)
    continue known rest
      | B.null rest = openProtected server note known Nothing
      | otherwise = do
        -- What is left is never more than a buffer holds: see 'moreBytes'.
        again <- borrow
        BU.unsafeUseAsCStringLen rest (\(from, count) -> copyBytes (borrowedBytes again) (castPtr from) count)
        openProtected server note known (Just (again, B.length rest))
    invalid reason = return (OpenedInvalid transport B.empty reason)
    moreBytes = 1024

------------------------------------------------------------------------------------------------------------------------
-- Protection

-- Protects the connection if its first byte begins a handshake. Of its first bytes some may have come.
openProtected :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> Maybe (Borrowed, Int) -> IO Opened
openProtected server note transport arrived = case settingsProtection (serverSettings server) of
  Nothing -> openPlain server note transport arrived
  Just protection -> do
    first <- maybe (receiveSome server note transport) (return . Just) arrived
    maybe (endEarly server) (begin protection) first
  where
    begin protection (buffer, count) = do
      first <- peek (borrowedBytes buffer)
      case socketOf transport of
        Just socket | protectionBeginsWith protection first -> do
          -- The handshake may take long, so it runs without a buffer.
          bytes <- takeBytes buffer count
          outcome <- try (interruptible (protectionHandshake protection bytes socket))
          case outcome of
            Right functions -> openHandshaken server note (otherTransport functions (transportPeer transport))
            Left failure -> NotOpened <$ handshakeFailed server note transport failure
        _ -> case protectionOthers protection of
          ServedAsTheyAre -> openPlain server note transport (Just (buffer, count))
          AnsweredWith bytes reason -> do
            giveBack buffer
            NotOpened <$ refuseUnprotected server note transport bytes reason

-- The transport of a handshake is closed here if it serves nothing: nobody else knows it yet.
openHandshaken :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> IO Opened
openHandshaken server note transport = do
  opened <- openPlain server note transport Nothing `onException` closeTransport transport
  case opened of
    NotOpened -> NotOpened <$ closeTransport transport
    _ -> return opened

handshakeFailed :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> SomeException -> IO ()
handshakeFailed server note transport failure
  | isAsynchronous failure = throwIO failure
  | otherwise = do
    receiving <- note Leaves
    unless (receiving == EndedByServer) $ do
      reportTo server Nothing (toException (HandshakeFailed failure))
      -- The client has got a response that says why. A slow client gets no more time.
      unless (isTimeExpired failure) (linger transport refusedMicros)
  where
    refusedMicros = 1000000

-- Sends these bytes to a client that begins no handshake.
refuseUnprotected ::
  ServerContext -> (OpeningState -> IO Receiving) -> Transport -> ByteString -> SomeException -> IO ()
refuseUnprotected server note transport bytes reason = do
  reportTo server Nothing (toException (HandshakeFailed reason))
  counts <- newByteArray 16
  setByteArray counts 0 2 (0 :: Int)
  let delivery = Delivery transport (serverPace server) (Window counts 0) noDeadline
  BU.unsafeUseAsCStringLen bytes (\(at, count) -> deliver delivery NothingFollows (Piece (castPtr at) count))
    `onException` abort transport
  void (note Leaves)
  linger transport lingerMicros

------------------------------------------------------------------------------------------------------------------------
-- The protocol

-- Finds out which protocol the client speaks, if the handshake has not agreed on HTTP/2.
openPlain :: ServerContext -> (OpeningState -> IO Receiving) -> Transport -> Maybe (Borrowed, Int) -> IO Opened
openPlain server note transport arrived
  | (negotiated transport >>= negotiatedProtocol) == Just (C8.pack "h2") = return (OpenedHttp2 transport B.empty)
  | otherwise = do
    first <- maybe (receiveSome server note transport) (return . Just) arrived
    case first of
      Nothing -> endEarly server
      Just (buffer, count) -> choose server transport Nothing buffer count

-- Chooses the protocol by the bytes in this buffer. The deadline is there once it was waited for more of them: all of
-- them have to come until then, or a client that sends a byte at a time would have as long as it likes.
choose :: ServerContext -> Transport -> Maybe Deadline -> Borrowed -> Int -> IO Opened
choose server transport begun buffer count
  | not (serverHasHttp2 server) = return (OpenedHttp1 transport buffer count)
  | otherwise = do
    -- HTTP/1's usual requests begin with another letter.
    likeness <- comparePreface (borrowedBytes buffer) count
    case likeness of
      IsPreface -> OpenedHttp2 transport <$> takeBytes buffer count
      MayBecomePreface -> awaitChoice server transport begun buffer count
      Differs
        | settingsProtocols (serverSettings server) == OnlyHttp2 -> chooseRefusal server transport begun buffer count
        | otherwise -> return (OpenedHttp1 transport buffer count)

-- A server of HTTP/2 alone answers a request of HTTP/1 that it does not serve it. Whatever else comes is a wrong
-- preface, which HTTP/2's session refuses.
chooseRefusal :: ServerContext -> Transport -> Maybe Deadline -> Borrowed -> Int -> IO Opened
chooseRefusal server transport begun buffer count = do
  bytes <- B.packCStringLen (castPtr (borrowedBytes buffer), count)
  case C8.elemIndex '\n' (C8.dropWhile (`elem` "\r\n") bytes) of
    Nothing | count < borrowedSize -> awaitChoice server transport begun buffer count
    Just end | isHttp1 (B.take end (C8.dropWhile (`elem` "\r\n") bytes)) -> return (OpenedHttp1 transport buffer count)
    _ -> OpenedHttp2 transport bytes <$ giveBack buffer
  where
    isHttp1 line = C8.pack " HTTP/1." `B.isInfixOf` B.drop (B.length line - 11) line

-- The bytes in this buffer do not show yet which protocol the client speaks.
awaitChoice :: ServerContext -> Transport -> Maybe Deadline -> Borrowed -> Int -> IO Opened
awaitChoice server transport begun buffer count = do
  deadline <- maybe (headDeadline server) return begun
  received <- try (receiveInto transport deadline (borrowedBytes buffer `plusPtr` count) (borrowedSize - count))
  case received of
    Right more | more > 0 -> choose server transport (Just deadline) buffer (count + more)
    Right _ -> invalid IncompleteHeaders
    Left failure
      | isTimeExpired failure -> invalid RequestTimedOut
      | otherwise -> giveBack buffer >> throwIO failure
  where
    invalid reason = (\bytes -> OpenedInvalid transport bytes reason) <$> takeBytes buffer count

data Likeness = IsPreface | MayBecomePreface | Differs

-- The first lines of HTTP/2's preface (RFC 9113, section 3.4), which are no request of HTTP/1. The rest of the preface
-- may be wrong. HTTP/2's session refuses it then, however the bytes were split.
prefaceLines :: ByteString
prefaceLines = C8.pack "PRI * HTTP/2.0\r\n\r\n"
{-# NOINLINE prefaceLines #-}

comparePreface :: Ptr Word8 -> Int -> IO Likeness
comparePreface bytes count = go 0
  where
    go index
      | index == B.length prefaceLines = return IsPreface
      | index == count = return MayBecomePreface
      | otherwise = do
        byte <- peekElemOff bytes index
        if byte == BU.unsafeIndex prefaceLines index then go (index + 1) else return Differs
