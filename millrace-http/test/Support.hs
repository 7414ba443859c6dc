{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | A server on a free port of the loopback interface, and a client that speaks in bytes. The client uses the
-- @network@ package, so that it has nothing in common with what is tested. Or both in memory, without any descriptor:
-- examples that take a 'Medium' run over either.
module Support
  ( withServer,
    withServerToItsEnd,
    Medium,
    overAllMedia,
    overSocketsAndMemory,
    overMemoryWhere,
    overMemoryAfter,
    movesAllAtOnce,
    withServerOver,
    Reachable,
    quiet,
    withConnection,
    withSmallConnection,
    withMany,
    Client,
    Speech (..),
    speaking,
    close,
    send,
    sendSlowly,
    sendEnd,
    receive,
    receiveSome,
    receiveAll,
    receiveResponse,
    receiveUntilThere,
    receiveUntilTimeout,
    exchange,
    Reply (..),
    parseReply,
    parseReplies,
    statusOf,
    headerOf,
    echo,
    pong,
    within,
    whenOver,
    timed,
    withFolder,
    untilQuick,
    untilRefused,
  )
where

import Carrier (Ends (..), serveOn, withEnds)
import Control.Concurrent (ThreadId, forkIO, killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Exception
  ( Exception,
    IOException,
    SomeException,
    bracket,
    fromException,
    throwIO,
    try,
    uninterruptibleMask_,
  )
import Control.Monad (forever, join, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8
import Data.Char (isSpace, toLower)
import Data.IORef
import Data.Maybe (isNothing)
import Millrace.Http.Server.Connection (serveTransport)
import Millrace.Http.Transport (Transport)
import Millrace.Http.Transport.Memory (Conditions (..), goodConditions, newMemoryTransport)
import qualified Millrace.Http.Transport.Memory as Memory
import Network.HTTP.Types (status200)
import Network.Socket hiding (close)
import qualified Network.Socket as Network (close)
import Network.Wai
import Network.Wai.Handler.Millrace
import Numeric (readHex)
import System.IO.Error (isAlreadyInUseError)
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)
import Test.Hspec (Spec, describe)
import TestSupport.Folder (withTemporaryFolder)
import TestSupport.Time (timed, untilQuick)
import qualified TestSupport.Time as Time

-- | Serves an application while the action, which gets the port, runs.
withServer :: (Settings -> Settings) -> Application -> (Int -> IO a) -> IO a
withServer = withServerEndedBy killThread

-- | 'withServer' with a server that ends in an orderly way: when all requests have been answered, and observers were
-- told.
withServerToItsEnd :: (Settings -> Settings) -> Application -> (Int -> IO a) -> IO a
withServerToItsEnd change application use = do
  shutDown <- newEmptyMVar
  withServerEndedBy
    (\_ -> join (takeMVar shutDown))
    (change . setInstallShutdownHandler (putMVar shutDown))
    application
    use

withServerEndedBy :: (ThreadId -> IO ()) -> (Settings -> Settings) -> Application -> (Int -> IO a) -> IO a
withServerEndedBy end change application use = bracket start stop (use . fst)
  where
    start = do
      listener <- socket AF_INET Stream defaultProtocol
      bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
      listen listener 1024
      port <- socketPort listener
      begun <- newEmptyMVar
      ended <- newEmptyMVar
      let settings = change (setBeforeMainLoop (putMVar begun (Right ())) (quiet defaultSettings))
      thread <- forkIO $ do
        outcome <- try (serveOn settings listener application)
        void (tryPutMVar begun outcome)
        putMVar ended ()
      within "the server's start" (takeMVar begun) >>= either again (\() -> return (fromIntegral port, (thread, ended)))
    -- This port was free for TCP. HTTP/3 needs it for UDP.
    again failure
      | maybe False isAlreadyInUseError (fromException failure) = start
      | otherwise = throwIO (failure :: SomeException)
    stop (_, (thread, ended)) = end thread >> within "the server's end" (takeMVar ended)

-- | The connection between client and server.
data Medium
  = Loopback
  | Memory Conditions

-- | Runs examples over sockets and over memory.
overSocketsAndMemory :: (Medium -> Spec) -> Spec
overSocketsAndMemory examples = do
  describe "over sockets" (examples Loopback)
  describe "over memory" (examples (Memory goodConditions))

-- | Memory, where an action runs before each of the server's sends, in the thread that sends. There is space for
-- everything.
overMemoryWhere :: IO () -> Medium
overMemoryWhere beforeSend = Memory goodConditions {conditionsBeforeSend = beforeSend, conditionsCapacity = maxBound}

-- | Memory, where an action runs when the time of one of the server's receives is over, before the server knows it.
overMemoryAfter :: IO () -> Medium
overMemoryAfter afterWait = Memory goodConditions {conditionsAfterWait = afterWait}

-- | Examples over sockets, over memory, and over memory that moves a few bytes at a time.
overAllMedia :: (Medium -> Spec) -> Spec
overAllMedia examples = do
  overSocketsAndMemory examples
  describe "over memory, by short transfers" (examples (Memory goodConditions {conditionsTransferMax = 997}))

-- | Whether a short message that is sent at once also arrives at once.
movesAllAtOnce :: Medium -> Bool
movesAllAtOnce Loopback = True
movesAllAtOnce (Memory conditions) = conditionsTransferMax conditions == maxBound

-- | A server that clients can connect to.
data Server
  = OnPort Int
  | InMemory Conditions (Transport -> IO ())

-- | 'withServer' over any medium.
withServerOver :: Medium -> (Settings -> Settings) -> Application -> (Server -> IO a) -> IO a
withServerOver Loopback change application use = withServer change application (use . OnPort)
withServerOver (Memory conditions) change application use = bracket (newMVar []) stop $ \sessions ->
  use . InMemory conditions $ \transport -> do
    ended <- newEmptyMVar
    thread <-
      forkIO
        (void (try (serveTransport settings application transport) :: IO (Either SomeException ())) >> putMVar ended ())
    modifyMVar_ sessions (return . ((thread, ended) :))
  where
    settings = change (quiet defaultSettings)
    stop sessions = takeMVar sessions >>= mapM_ finish
    -- A session whose client has gone ends by itself, unless its application waits for something else.
    finish (thread, ended) = do
      left <- timeout 1000000 (takeMVar ended)
      when (isNothing left) (killThread thread >> within "a session's end" (takeMVar ended))

-- | Where clients connect.
class Reachable server where
  -- Takes the number of bytes that may wait for the client, if that matters.
  withConnectionOf :: Maybe Int -> server -> (Client -> IO a) -> IO a

instance Reachable Int where
  withConnectionOf = withSocket

instance Reachable Server where
  withConnectionOf bufferSize (OnPort port) use = withSocket bufferSize port use
  withConnectionOf bufferSize (InMemory conditions serve) use =
    bracket open Memory.clientClose (\opened -> withClient (inMemory opened) use)
    where
      open = do
        (transport, opened) <-
          newMemoryTransport
            (maybe id narrow bufferSize conditions)
            (SockAddrInet 1 (tupleToHostAddress (127, 0, 0, 1)))
        opened <$ serve transport
      narrow capacity given = given {conditionsCapacity = capacity}
      inMemory opened = Ends (Memory.clientSend opened) (Memory.clientEnd opened) (Memory.clientReceive opened)

-- | Prints nothing.
quiet :: Settings -> Settings
quiet = setOnException (\_ _ -> return ())

-- | Runs an action. Fails if it takes longer than thirty seconds; the text says what was waited for.
within :: String -> IO a -> IO a
within = Time.within 30

-- | Repeats what is too late when its request is over, for as long as it ends as it would before. Returns how it ends
-- then. Over HTTP\/2 the client has the whole answer before the application returns.
whenOver :: Exception e => (Either e a -> Bool) -> IO a -> IO (Either e a)
whenOver isEarlier action = within "the end of the request" go
  where
    go = try action >>= \outcome -> if isEarlier outcome then threadDelay 1000 >> go else return outcome

-- | Returns when nobody can connect any more.
untilRefused :: Int -> IO ()
untilRefused port = do
  outcome <- try (withConnection port return) :: IO (Either IOException Client)
  either (const (return ())) (const (threadDelay 5000 >> untilRefused port)) outcome

-- | Makes an empty folder for the time of an action.
withFolder :: (FilePath -> IO a) -> IO a
withFolder = withTemporaryFolder "millrace-http"

-- | Sends a byte every tenth of a second, for as long as the server accepts them.
sendSlowly :: Client -> IO ()
sendSlowly client = void (try (forever (threadDelay 100000 >> send client "x")) :: IO (Either SomeException ()))

-- | A connection to the server, and the received bytes that were not used yet.
data Client = Client Ends (IORef ByteString)

-- | How clients use a connection.
newtype Speech = Speech (forall a. Ends -> (Ends -> IO a) -> IO a)

-- | While the action runs, clients send and receive with these functions instead of sending the examples' bytes
-- unchanged.
speaking :: Speech -> IO a -> IO a
speaking speech =
  bracket (readIORef currentSpeech <* writeIORef currentSpeech speech) (writeIORef currentSpeech) . const

currentSpeech :: IORef Speech
currentSpeech = unsafePerformIO (newIORef (Speech (\ends use -> use ends)))
{-# NOINLINE currentSpeech #-}

withClient :: Ends -> (Client -> IO a) -> IO a
withClient ends use = do
  Speech speak <- readIORef currentSpeech
  speak ends (\spoken -> newIORef B.empty >>= use . Client spoken)

withConnection :: Reachable server => server -> (Client -> IO a) -> IO a
withConnection = withConnectionOf Nothing

-- | 'withConnection' with a small receive buffer, so that the server soon notices a client that does not read.
withSmallConnection :: Reachable server => server -> (Client -> IO a) -> IO a
withSmallConnection = withConnectionOf (Just 16384)

-- | Not interruptible: before base 4.16 an exception may leave a lock of GHC's I\/O manager locked, and then waits for
-- other descriptors hang.
close :: Socket -> IO ()
close = uninterruptibleMask_ . Network.close

withSocket :: Maybe Int -> Int -> (Client -> IO a) -> IO a
withSocket bufferSize port use = bracket open close (\opened -> withEnds opened (`withClient` use))
  where
    open = do
      client <- socket AF_INET Stream defaultProtocol
      setSocketOption client NoDelay 1
      mapM_ (setSocketOption client RecvBuffer) bufferSize
      connect client (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
      return client

-- | This many connections. The latest one comes first.
withMany :: Int -> Int -> ([Client] -> IO a) -> IO a
withMany count port use = go count []
  where
    go 0 clients = use clients
    go left clients = withConnection port (\client -> go (left - 1 :: Int) (client : clients))

send :: Client -> ByteString -> IO ()
send (Client (Ends sending _ _) _) = sending

-- | Ends the sending side, and still receives.
sendEnd :: Client -> IO ()
sendEnd (Client (Ends _ ending _) _) = ending

-- | Some bytes; none at the end.
receive :: Client -> IO ByteString
receive (Client (Ends _ _ receiving) held) = do
  bytes <- readIORef held
  writeIORef held B.empty
  if B.null bytes then receiving 65536 else return bytes

-- | At most this many bytes, as they arrive; none at the end. Reads no more than that from the system.
receiveSome :: Client -> Int -> IO ByteString
receiveSome (Client (Ends _ _ receiving) _) = receiving

-- | Everything until the server closes.
receiveAll :: Client -> IO ByteString
receiveAll client = within "the end of the stream" (B.concat <$> go)
  where
    go = do
      bytes <- receive client
      if B.null bytes then return [] else (bytes :) <$> go

-- | Receives until nothing has arrived for this many microseconds. Also returns whether the server has closed.
receiveUntilTimeout :: Int -> Client -> IO (ByteString, Bool)
receiveUntilTimeout micros client = go B.empty
  where
    go got = do
      result <- timeout micros (receive client)
      case result of
        Nothing -> return (got, False)
        Just bytes
          | B.null bytes -> return (got, True)
          | otherwise -> go (B.append got bytes)

-- | Receives until these bytes have come this many times, and then until there is a pause of this many microseconds.
-- Also returns whether that is the end of the stream.
receiveUntilThere :: ByteString -> Int -> Int -> Client -> IO (ByteString, Bool)
receiveUntilThere mark count micros client = do
  begun <- within (show count ++ " times " ++ show mark) (go B.empty)
  (rest, ended) <- receiveUntilTimeout micros client
  return (B.append begun rest, ended)
  where
    go got
      | occurrences got >= count = return got
      | otherwise = receive client >>= \bytes -> if B.null bytes then return got else go (B.append got bytes)
    occurrences bytes = case B.breakSubstring mark bytes of
      (_, found)
        | B.null found -> 0
        | otherwise -> 1 + occurrences (B.drop (B.length mark) found) :: Int

-- | One response of a connection that stays open.
receiveResponse :: Client -> IO Reply
receiveResponse client@(Client _ held) = within "a response" (go B.empty)
  where
    go got = do
      bytes <- receive client
      when (B.null bytes) (fail ("closed after " ++ show got))
      let all' = B.append got bytes
      case parseReply all' of
        Just (reply, rest) -> reply <$ writeIORef held rest
        Nothing -> go all'

-- | Sends bytes on a new connection and returns everything until the server closes.
exchange :: Reachable server => server -> ByteString -> IO ByteString
exchange port bytes = withConnection port $ \client -> send client bytes >> receiveAll client

-- | A response taken apart.
data Reply = Reply
  { replyStatus :: Int,
    replyReason :: ByteString,
    replyFields :: [(ByteString, ByteString)],
    replyBody :: ByteString
  }
  deriving (Eq, Show)

-- | The first response and the bytes after it; Nothing if it is incomplete. Fails on malformed responses.
parseReply :: ByteString -> Maybe (Reply, ByteString)
parseReply bytes = case B.breakSubstring "\r\n\r\n" bytes of
  (_, "") -> Nothing
  (text, rest) -> do
    let (firstLine, fieldLines) = case splitLines text of
          [] -> (B.empty, [])
          line : lines' -> (line, lines')
        (version, afterVersion) = B.splitAt 9 firstLine
        (code, reason) = B.splitAt 3 afterVersion
        reply = Reply (number code) (B.drop 1 reason) (map field fieldLines)
    if version /= "HTTP/1.1 " then error ("malformed status line " ++ show firstLine) else Just ()
    let fields = replyFields (reply "")
        body = B.drop 4 rest
        noBody = number code < 200 || number code `elem` [204, 304]
    case (lookup "content-length" fields, lookup "transfer-encoding" fields) of
      _ | noBody -> Just (reply "", body)
      (Just _, Just _) -> error "both Content-Length and Transfer-Encoding"
      (Just size, Nothing)
        | B.length body >= number size -> Just (reply (B.take (number size) body), B.drop (number size) body)
        | otherwise -> Nothing
      (Nothing, Just "chunked") -> do
        (content, after) <- dechunk body
        Just (reply content, after)
      _ -> Just (reply body, "")
  where
    number = maybe (error "no number") fst . C8.readInt
    field line = let (name, value) = C8.break (== ':') line in (C8.map toLower name, trim (B.drop 1 value))
    trim = fst . C8.spanEnd isSpace . C8.dropWhile isSpace

splitLines :: ByteString -> [ByteString]
splitLines text = case B.breakSubstring "\r\n" text of
  (line, "") -> [line]
  (line, rest) -> line : splitLines (B.drop 2 rest)

dechunk :: ByteString -> Maybe (ByteString, ByteString)
dechunk bytes = case B.breakSubstring "\r\n" bytes of
  (_, "") -> Nothing
  (digits, rest) -> case readHex (C8.unpack digits) of
    [(0, "")] | B.isPrefixOf "\r\n\r\n" rest -> Just ("", B.drop 4 rest)
    [(0, "")] -> Nothing
    [(size, "")]
      | B.length rest >= size + 4 && B.take 2 (B.drop (size + 2) rest) == "\r\n" -> do
        (content, after) <- dechunk (B.drop (size + 4) rest)
        Just (B.append (B.take size (B.drop 2 rest)) content, after)
      | B.length rest < size + 4 -> Nothing
    _ -> error ("malformed chunk size " ++ show digits)

-- | All responses. Fails if the bytes do not end at the end of a response.
parseReplies :: ByteString -> [Reply]
parseReplies bytes
  | B.null bytes = []
  | otherwise = case parseReply bytes of
    Just (reply, rest) -> reply : parseReplies rest
    Nothing -> error ("incomplete response " ++ show bytes)

statusOf :: ByteString -> Int
statusOf bytes = case parseReplies bytes of
  [reply] -> replyStatus reply
  replies -> error ("expected one response, got " ++ show replies)

headerOf :: ByteString -> Reply -> Maybe ByteString
headerOf name = lookup (C8.map toLower name) . replyFields

-- | Responds with the request body.
echo :: Application
echo request respond = do
  body <- strictRequestBody request
  respond (responseLBS status200 [] body)

-- | Responds with four bytes.
pong :: Application
pong _ respond = respond (responseLBS status200 [("Content-Type", "text/plain")] "Pong")
