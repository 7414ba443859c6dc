{-# LANGUAGE OverloadedStrings #-}

-- | A server whose functions run in a monad of the program's own, with its environment. It numbers the lines of all
-- clients together. Usage: reader-server PORT.
module Main (main) where

import Control.Concurrent.STM
import Control.Monad.IO.Class (liftIO)
import Control.Monad.IO.Unlift (withRunInIO)
import Control.Monad.Reader (ReaderT (..), asks)
import qualified Data.ByteString.Char8 as Char8
import Millrace
import Millrace.Stream
import System.Environment (getArgs)

newtype Environment = Environment {lineCount :: TVar Int}

type App = ReaderT Environment IO

main :: IO ()
main = do
  [port] <- getArgs
  environment <- Environment <$> newTVarIO 0
  runReaderT (serveWith (passive port) {queryHost = Just "127.0.0.1"} numberLines) environment

-- 'withServer' for this monad.
serveWith :: Query -> (Socket -> App ()) -> App a
serveWith query serve = withRunInIO (\run -> withServer defaultServer query (run . serve))

numberLines :: Socket -> App ()
numberLines client = liftIO (linesOf 1000 (fromSocket client)) >>= answer
  where
    answer next = liftIO next >>= mapM_ (\line -> nextNumber >>= reply line >> answer next)
    reply line number = liftIO (sendAll client (Char8.pack (show number) <> " " <> line <> "\n"))

nextNumber :: App Int
nextNumber = do
  count <- asks lineCount
  liftIO . atomically $ do
    modifyTVar' count (+ 1)
    readTVar count
