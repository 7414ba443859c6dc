{-# LANGUAGE OverloadedStrings #-}

-- | Clients that ask without a pause while a server changes, and what they have seen.
module Load
  ( Load (..),
    underLoad,
    nothingIsLost,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, bracket, finally, try)
import Control.Monad (forM, unless, void, when)
import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef, writeIORef)
import GHC.Clock (getMonotonicTime)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.Timeout (timeout)
import Test.Hspec

-- | What the clients have seen: complete answers, requests that were lost, and requests that came so late that the
-- server could end the connection before them ('mayEndAfter').
data Load = Load
  { loadAnswers :: Int,
    loadLost :: [String],
    loadRepeated :: Int
  }
  deriving (Show)

-- | Each request got its answer, except those that the client has to repeat.
nothingIsLost :: Load -> Expectation
nothingIsLost outcome = outcome `shouldSatisfy` \load -> null (loadLost load) && loadAnswers load > 200

-- What the server may wait for.
data Awaited = FirstRequest | NextRequest

-- | A server that stops may end a connection on which nothing has moved for this many seconds. Clients of a busy
-- machine can be slower than that, and must repeat their request (RFC 9112, section 9.3.1). These times are a little
-- shorter than the server's.
mayEndAfter :: Awaited -> Double
mayEndAfter FirstRequest = 4.5
mayEndAfter NextRequest = 0.2

-- | Runs an action with clients beside it, who know an answer by its end: @Pong!@. The action gets another one that
-- waits for their end.
underLoad :: Int -> (IO Load -> IO Load) -> IO Load
underLoad port action = do
  answers <- newIORef 0
  lost <- newIORef []
  repeated <- newIORef 0
  over <- newIORef False
  ends <- forM (concat (replicate 6 [True, False])) $ \keeps -> do
    end <- newEmptyMVar
    thread <- forkIO $ client port keeps over answers lost repeated `finally` putMVar end ()
    pure (thread, end)
  let endOfLoad = do
        writeIORef over True
        finished <- timeout 20000000 (mapM_ (takeMVar . snd) ends)
        finished `shouldBe` Just ()
        Load <$> readIORef answers <*> readIORef lost <*> readIORef repeated
  action endOfLoad `finally` (writeIORef over True >> mapM_ (killThread . fst) ends)

-- | Sends requests until it must stop.
client :: Int -> Bool -> IORef Bool -> IORef Int -> IORef [String] -> IORef Int -> IO ()
client port keeps over answers lost repeated = go
  where
    go = do
      isOver <- readIORef over
      unless isOver $ do
        outcome <- try (bracket (socket AF_INET Stream defaultProtocol) close ask)
        either note pure outcome
        go
    note failure = change lost (show (failure :: SomeException) :)
    ask connection = do
      start <- getMonotonicTime
      connect connection (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
      requests FirstRequest start connection
    -- The time is one after which something has moved on the connection.
    requests awaited since connection = do
      isOver <- readIORef over
      unless isOver $ do
        start <- getMonotonicTime
        outcome <- try (sendAll connection request)
        sent <- getMonotonicTime
        answer <- either (pure . Left) (const (try (receive connection ""))) outcome
        let isLate = sent - since >= mayEndAfter awaited
            delay = " (sent after " <> show (sent - since) <> " s)"
        case answer of
          Right text
            | "Pong!" `ByteString.isSuffixOf` text -> do
              change answers (+ 1)
              when
                (keeps && not ("Connection: close" `ByteString.isInfixOf` text))
                (requests NextRequest start connection)
            | isLate && ByteString.null text -> change repeated (+ 1)
            | otherwise -> change lost (("answer cut off: " <> show text <> delay) :)
          Left failure
            | isLate -> change repeated (+ 1)
            | otherwise -> change lost ((show (failure :: SomeException) <> delay) :)
    request
      | keeps = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      | otherwise = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

receive :: Socket -> ByteString -> IO ByteString
receive connection got = do
  bytes <- recv connection 4096
  let text = got <> bytes
  if ByteString.null bytes || "Pong!" `ByteString.isSuffixOf` text then pure text else receive connection text

change :: IORef a -> (a -> a) -> IO ()
change variable by = void (atomicModifyIORef' variable (\value -> (by value, ())))
