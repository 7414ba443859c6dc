{-# LANGUAGE OverloadedStrings #-}

-- | A server for the upload workload. It reads the whole body of a request, drops it, sleeps if the request asks for
-- it, and answers "Pong!".
--
-- > millrace-upload PORT [MICROSECONDS]
module Main (main) where

import Control.Monad (when)
import qualified Data.ByteString as B
import Millrace.Timer (threadDelay)
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)
import System.Exit (die)

main :: IO ()
main = do
  arguments <- map read <$> getArgs
  case arguments of
    [port] -> serve port 0
    [port, micros] -> serve port micros
    _ -> die "millrace-upload PORT [MICROSECONDS]"
  where
    serve port micros = runSettings (setHost "127.0.0.1" (setPort port defaultSettings)) (application micros)

application :: Int -> Application
application micros request respond = do
  piece <- getRequestBodyChunk request
  if B.null piece
    then do
      when (micros > 0) (threadDelay micros)
      respond (responseLBS status200 [("Content-Type", "text/plain"), ("Content-Length", "5")] "Pong!")
    else application micros request respond
