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
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.Timeout (timeout)
import Test.Hspec

-- | What the clients have seen: complete answers, requests that were lost, and requests on kept connections that ended
-- before the first byte of an answer.
data Load = Load
  { loadAnswers :: Int,
    loadLost :: [String],
    loadRepeated :: Int
  }
  deriving (Show)

-- A client must expect that a kept connection ends, and repeats its request (RFC 9112, section 9.3.1). The server
-- spares it that as long as the request follows the last answer closely, which on a busy machine it may not: so one of
-- each of the six kept connections is allowed. Without that care each of the four restarts could cost all six.
nothingIsLost :: Load -> Expectation
nothingIsLost outcome =
  outcome `shouldSatisfy` \load -> null (loadLost load) && loadAnswers load > 200 && loadRepeated load <= 6

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
      connect connection (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
      requests True connection
    requests isFirst connection = do
      isOver <- readIORef over
      unless isOver $ do
        answer <- try (sendAll connection request >> receive connection "")
        case answer of
          Right text
            | "Pong!" `ByteString.isSuffixOf` text -> do
              change answers (+ 1)
              when (keeps && not ("Connection: close" `ByteString.isInfixOf` text)) (requests False connection)
            | not isFirst && ByteString.null text -> change repeated (+ 1)
            | otherwise -> change lost (("answer cut off: " <> show text) :)
          Left failure
            | isFirst -> note failure
            | otherwise -> change repeated (+ 1)
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
