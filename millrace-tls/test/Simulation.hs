-- | Both sides on simulated machines, where transfers are short and late, and connections break at any byte of the
-- handshake and the data. In every run: received bytes are those that were sent, the end of the stream comes only after
-- all of them, no thread waits for ever, and nothing stays open.
module Main (main) where

import Control.Concurrent (forkFinally)
import Control.Concurrent.MVar
import Control.Exception
import Control.Monad (foldM, unless, when)
import qualified Data.ByteString as ByteString
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import Millrace.Simulation
import Millrace.Socket hiding (close)
import qualified Millrace.Socket as Socket
import Millrace.Tls
import Support
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

main :: IO ()
main = withCredentials $ \credentials -> do
  first <- maybe 1 (fromMaybe 1 . readMaybe) <$> lookupEnv "MILLRACE_FIRST_SEED"
  count <- maybe 2000 (fromMaybe 2000 . readMaybe) <$> lookupEnv "MILLRACE_SEEDS"
  putStrLn ("seeds from " ++ show first ++ " on (another first one: MILLRACE_FIRST_SEED)")
  -- All signatures of Ed25519 have the same length, and no run uses sessions of another one, so a seed always gives the
  -- same run.
  server <- contextOf credentials ["ed25519"] id
  client <- clientWith credentials (\settings -> settings {clientResumption = FullHandshakes})
  whole <- foldM (oneSeed client server) (0 :: Int) (take count [first ..])
  putStrLn (show count ++ " tests, in " ++ show whole ++ " of them everything arrived")
  unless (whole * 10 > count) $ fail "too few of the conversations were whole to say anything"

oneSeed :: ClientContext -> ServerContext -> Int -> Word64 -> IO Int
oneSeed client server whole seed = do
  outcome <- simulate (troubled seed) (try (conversation client server) :: IO (Either SomeException Int))
  result <- either throwIO return (outcomeResult outcome)
  when (outcomeOpenDescriptors outcome /= 0) $ fail ("seed " ++ show seed ++ ": a socket stays open")
  case result of
    Right received
      | received == total -> return (whole + 1)
      | otherwise -> fail ("seed " ++ show seed ++ ": the end was told after " ++ show received ++ " bytes")
    Left problem
      | isExpected problem -> return whole
      | otherwise -> fail ("seed " ++ show seed ++ ": " ++ displayException problem)

total :: Int
total = 40000

-- The network may fail, but never changes bytes. So the only problems of TLS are a truncated stream, and that the other
-- side has given up.
isExpected :: SomeException -> Bool
isExpected problem = case (fromException problem, fromException problem) of
  (Just network, _) -> isNetwork network
  (_, Just TlsException {tlsProblem = reason}) -> reason `elem` [Truncated, RefusedByPeer]
  _ -> False
  where
    isNetwork :: IOException -> Bool
    isNetwork _ = True

-- The part of its stream that the client got back, until the server ended it.
conversation :: ClientContext -> ServerContext -> IO Int
conversation client server = bracket (socket AF_INET Stream defaultProtocol) Socket.close $ \listener -> do
  bind listener address
  listen listener 16
  served <- newEmptyMVar
  _ <- forkFinally (serveOne server listener) (putMVar served)
  received <-
    try (bracket (socket AF_INET Stream defaultProtocol) Socket.close (askFrom client)) ::
      IO (Either SomeException Int)
  -- No client will come for a server that still waits.
  Socket.close listener
  _ <- takeMVar served
  either throwIO return received

serveOne :: ServerContext -> Socket -> IO ()
serveOne context listener = bracket (fst <$> accept listener) Socket.close $ \peer ->
  bracket (serverHandshake context peer) close $ \connection -> echo connection >> endSending connection
  where
    echo connection = do
      bytes <- recv connection 5000
      unless (ByteString.null bytes) $ sendAll connection bytes >> echo connection

askFrom :: ClientContext -> Socket -> IO Int
askFrom context raw = do
  connect raw address
  bracket (clientHandshake context "localhost" raw) close $ \connection -> do
    sent <- newEmptyMVar
    -- A thread that receives must not wait for the answer to something that could not be sent.
    _ <-
      forkFinally
        ((sendAll connection (bytesAt 0 total) >> endSending connection) `onException` Socket.close raw)
        (putMVar sent)
    received <- receive connection 0 `onException` (close connection >> takeMVar sent)
    received <$ (takeMVar sent >>= either throwIO return)
  where
    receive connection position = do
      bytes <- recv connection 3000
      if ByteString.null bytes
        then return position
        else
          if bytes == bytesAt position (ByteString.length bytes)
            then receive connection (position + ByteString.length bytes)
            else throwIO (AssertionFailed ("wrong bytes at " ++ show position))

address :: SockAddr
address = SockAddrInet 7000 (tupleToHostAddress (127, 0, 0, 1))
