-- | What the tests share: the modules for the tests of all packages, settings for the tests' credentials, and
-- connections.
module Support
  ( module TestSupport.ByteStream,
    module TestSupport.Credentials,
    module TestSupport.Job,
    module TestSupport.Time,

    -- * Credentials
    identity,
    rootTrust,
    contextOf,
    clientWith,
    trusting,

    -- * Connections
    withListener,
    withTcpPair,
    withPair,
    withPairOf,
    bothSides,
    withDrippingLink,
    connectOver,

    -- * Streams
    receiveExactly,
    receiveAll,
    Receiver,
    receivers,
    sendAllWith,

    -- * Errors
    problemOf,
    ioErrorOf,
  )
where

import Control.Exception
import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.ByteString.Internal (createAndTrim)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Millrace.Socket (Socket)
import Millrace.Socket.Borrowed (borrowedBytes, giveBack)
import qualified Millrace.Socket.ByteString as Plain
import Millrace.Tls
import qualified Millrace.Tls.Borrowed as Borrowed
import TestSupport.ByteStream
import TestSupport.Credentials
import TestSupport.Job
import TestSupport.Sockets (withListener, withTcpPair)
import TestSupport.Time

-- | The certificate with this name, and its key.
identity :: Credentials -> String -> IO Identity
identity credentials name =
  loadIdentity (PemFile (certificateFile credentials name)) (PemFile (keyFile credentials name))

-- | Trusts only the root of the tests.
rootTrust :: Credentials -> Trust
rootTrust credentials = trustIn (PemFile (certificateFile credentials "root"))

-- | A server with the identities of these names.
contextOf :: Credentials -> [String] -> (ServerSettings -> ServerSettings) -> IO ServerContext
contextOf credentials names change = do
  identities <- mapM (identity credentials) names
  case identities of
    first : _ -> newServerContext (change (serverSettings first) {serverIdentities = identities})
    [] -> ioError (userError "a server needs an identity")

-- | A client that trusts these authorities.
trusting :: Trust -> ClientSettings
trusting trust = clientSettings {clientVerification = Verify trust}

-- | A client that trusts the root of the tests.
clientWith :: Credentials -> (ClientSettings -> ClientSettings) -> IO ClientContext
clientWith credentials change = newClientContext (change (trusting (rootTrust credentials)))

-- | A client and a server after their handshakes.
withPair :: Credentials -> (Connection -> Connection -> IO a) -> IO a
withPair credentials use = do
  server <- contextOf credentials ["server"] id
  client <- clientWith credentials id
  withPairOf client server use

-- | A client and a server with these contexts, after their handshakes.
withPairOf :: ClientContext -> ServerContext -> (Connection -> Connection -> IO a) -> IO a
withPairOf client server use = withTcpPair $ \one other -> connectOver one other client server use

-- | A client and a server over these sockets, after their handshakes.
connectOver :: Socket -> Socket -> ClientContext -> ServerContext -> (Connection -> Connection -> IO a) -> IO a
connectOver one other client server use = do
  (mine, theirs) <- bothSides (clientHandshake client "localhost" one) (serverHandshake server other)
  case (mine, theirs) of
    (Right ours, Right peers) -> use ours peers `finally` (close ours >> close peers)
    (Left problem, _) -> throwIO problem
    (_, Left problem) -> throwIO problem

-- | Runs both at the same time, and returns how they ended.
bothSides :: IO a -> IO b -> IO (Either SomeException a, Either SomeException b)
bothSides one other = do
  job <- start other
  first <- try (within 20 "one side" one)
  second <- try (within 20 "the other side" (finish job))
  return (first, second)

-- | Two sockets that are connected by a link on which each byte comes by itself.
withDrippingLink :: (Socket -> Socket -> IO a) -> IO a
withDrippingLink use = withTcpPair $ \one between -> withTcpPair $ \between' other -> do
  mapM_ start [drip between between', drip between' between]
  use one other
  where
    drip from to = do
      bytes <- Plain.recv from 4096
      unless (ByteString.null bytes) $ do
        mapM_ (Plain.sendAll to . ByteString.singleton) (ByteString.unpack bytes)
        drip from to

-- | Receives bytes, at most this many; none at the end of the stream.
type Receiver = Connection -> Int -> IO ByteString

-- | All ways to receive, and their names.
receivers :: [(String, Receiver)]
receivers =
  [ ("as a string", recv),
    ("into memory", \connection size -> createAndTrim (max 0 size) (\memory -> recvBuf connection memory size)),
    ("into a borrowed buffer", \connection size -> mask_ (receiveBorrowed (Within 0) connection size >>= taken)),
    ( "by Millrace.Tls.Borrowed, into memory",
      \connection size -> createAndTrim (max 0 size) (\memory -> Borrowed.receiveBuf (Within 0) connection memory size)
    ),
    ( "by Millrace.Tls.Borrowed, into a borrowed buffer",
      -- It has no other limit than the size of the buffer.
      \connection _ -> Borrowed.receiveBorrowed (Within 0) connection taken
    )
  ]
  where
    taken EndOfStream = return ByteString.empty
    taken (Received buffer count) =
      ByteString.packCStringLen (castPtr (borrowedBytes buffer), count) <* giveBack buffer

-- | Sends all bytes by attempts, which get an address and a number.
sendAllWith :: (Ptr Word8 -> Int -> IO Attempt) -> ByteString -> IO ()
sendAllWith attempt bytes = unsafeUseAsCStringLen bytes (uncurry go)
  where
    go _ 0 = return ()
    go memory count = do
      outcome <- attempt (castPtr memory) count
      case outcome of
        Moved some -> go (memory `plusPtr` some) (count - some)
        TimedOut -> ioError (userError "no time is left")
        Refused _ -> ioError (userError "the attempt was refused")

-- | Receives and checks a number of bytes from a position.
receiveExactly :: Connection -> Int -> Int -> IO ()
receiveExactly connection position = void . receiveExactlyBy (recv connection) position

-- | Receives everything until the end of the stream.
receiveAll :: Connection -> IO ByteString
receiveAll connection = receiveAllBy (recv connection 16384)

-- | The problem of a side that has failed because of TLS.
problemOf :: Either SomeException a -> Maybe TlsProblem
problemOf = either (fmap tlsProblem . fromException) (const Nothing)

-- | The error of a side that has failed because of the network.
ioErrorOf :: Either SomeException a -> Maybe IOException
ioErrorOf = either fromException (const Nothing)
