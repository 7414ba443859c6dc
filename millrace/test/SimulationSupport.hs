-- | What the tests of simulations share.
module SimulationSupport
  ( resultOf,
    quietly,
    newListener,
    withPair,
    receiveAll,
    echoes,
  )
where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, bracket, catch, finally, throwIO, try)
import Control.Monad (forM, forever, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.Either (fromRight)
import Millrace.Deadline
import Millrace.Simulation
import Millrace.Socket
import Millrace.Socket.ByteString
import Millrace.Timer

-- | The program's result. Throws the program's exception.
resultOf :: Outcome a -> IO a
resultOf = either (throwIO :: SomeException -> IO a) return . outcomeResult

quietly :: IO () -> IO ()
quietly action = action `catch` ignore
  where
    ignore :: SomeException -> IO ()
    ignore _ = return ()

newListener :: IO (Socket, SockAddr)
newListener = do
  listener <- socket AF_INET Stream defaultProtocol
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 100
  (,) listener <$> getSocketName listener

withPair :: (Socket -> Socket -> IO a) -> IO a
withPair use = bracket open (\(here, there) -> close here >> close there) (uncurry use)
  where
    open = do
      (listener, address) <- newListener
      caller <- socket AF_INET Stream defaultProtocol
      connect caller address
      (answerer, _) <- accept listener
      close listener
      return (caller, answerer)

receiveAll :: Socket -> Int -> IO ByteString
receiveAll from size
  | size <= 0 = return ByteString.empty
  | otherwise = do
    bytes <- recv from 65536
    when (ByteString.null bytes) $ throwIO (userError "the stream ended early")
    ByteString.append bytes <$> receiveAll from (size - ByteString.length bytes)

-- | Clients that each send this many messages to an echo server, each in its own thread. Returns for each whether it
-- got all of them back. On a machine with faults some do not.
echoes :: Int -> Int -> IO [Bool]
echoes clients messages = do
  (listener, address) <- newListener
  server <- forkIO $
    void $
      attempt $
        forever $ do
          (peer, _) <- accept listener
          forkIO (void (attempt (echo peer)) `finally` close peer)
  answers <- forM [1 .. clients] $ \number -> do
    answer <- newEmptyMVar
    void (forkIO (attempt (client address number) >>= putMVar answer . fromRight False))
    return answer
  results <- mapM takeMVar answers
  close listener
  killThread server
  threadDelay 200000000 -- until the last stalled byte has come
  return results
  where
    attempt :: IO a -> IO (Either SomeException a)
    attempt = try
    echo peer = do
      bytes <- recv peer 1000
      unless (ByteString.null bytes) (sendAll peer bytes >> echo peer)
    client address number = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
      deadline <- deadlineAfter (minutes 1)
      connectBefore deadline s address
      matches <- forM [1 .. messages] $ \message -> do
        size <- (+ 1) <$> chance 3000
        let bytes = ByteString.replicate size (fromIntegral (number * 16 + message))
        sendAll s bytes
        (== bytes) <$> receiveAll s size
      return (and matches)
