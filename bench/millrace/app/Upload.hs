{-# LANGUAGE OverloadedStrings #-}

-- | A server for the upload workload. It reads the whole body of a request, drops it, and answers "Pong!".
--
-- > millrace-upload PORT
module Main (main) where

import qualified Data.ByteString as B
import Network.HTTP.Types (status200)
import Network.Wai
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)

main :: IO ()
main = do
  [port] <- map read <$> getArgs
  runSettings (setHost "127.0.0.1" (setPort port defaultSettings)) application

application :: Application
application request respond = do
  piece <- getRequestBodyChunk request
  if B.null piece
    then respond (responseLBS status200 [("Content-Type", "text/plain"), ("Content-Length", "5")] "Pong!")
    else application request respond
