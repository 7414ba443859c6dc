{-# LANGUAGE OverloadedStrings #-}

-- | Writes what each client sends into a file of its own, and answers how many bytes that were.
module Main (main) where

import Conduit hiding (sinkFile)
import qualified Data.ByteString.Char8 as Char8
import Data.IORef
import Millrace.Streaming.Conduit
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [port, directory] <- getArgs
  latest <- newIORef (0 :: Int)
  runTCPServer (serverSettings (read port) "127.0.0.1") $ \client -> do
    number <- atomicModifyIORef' latest (\n -> (n + 1, n + 1))
    let storing = ZipSink (sinkFile (directory </> show number))
    size <- runConduitRes (appSource client .| getZipSink (storing *> ZipSink lengthCE))
    appWrite client (Char8.pack (show (size :: Int) ++ " bytes\n"))
