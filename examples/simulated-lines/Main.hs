{-# LANGUAGE OverloadedStrings #-}

-- | Runs the protocol of "Lines" on a thousand simulated machines, each with its own faults.
module Main (main) where

import Control.Concurrent (ThreadId, forkFinally, killThread)
import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, throwIO, try)
import Control.Monad (forM, unless)
import Data.ByteString (ByteString)
import Data.Either (fromRight)
import Data.Maybe (catMaybes)
import Lines (serve, talk)
import Millrace.Simulation
import Millrace.Socket

main :: IO ()
main = do
  answers <- forM [1 .. 1000] $ \seed -> do
    outcome <- simulate (troubled seed) (try conversation)
    result <- either throwIO pure (outcomeResult outcome)
    unless (outcomeOpenDescriptors outcome == 0) (fail ("a socket was left open with seed " <> show seed))
    pure (fromRight Nothing (result :: Either IOException (Maybe ByteString)))
  print (all (== "HELLO") (catMaybes answers), length (catMaybes answers) > 500)

-- | A client that asks one question. It may fail: on these machines connections break, and descriptors run out.
conversation :: IO (Maybe ByteString)
conversation = bracket startServer stopServer $ \_ ->
  bracket (socket AF_INET Stream defaultProtocol) close $ \client -> do
    connect client address
    talk client "hello"

-- | Starts a server for one client in a thread. Returns when it listens, or has failed.
startServer :: IO (ThreadId, MVar ())
startServer = do
  ready <- newEmptyMVar
  ended <- newEmptyMVar
  server <- forkFinally (serveOne ready) (\_ -> tryPutMVar ready () >> putMVar ended ())
  takeMVar ready
  pure (server, ended)

stopServer :: (ThreadId, MVar ()) -> IO ()
stopServer (server, ended) = killThread server >> takeMVar ended

serveOne :: MVar () -> IO ()
serveOne ready = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener address
  listen listener 16
  putMVar ready ()
  bracket (fst <$> accept listener) close serve

address :: SockAddr
address = SockAddrInet 7000 (tupleToHostAddress (127, 0, 0, 1))
