{-# LANGUAGE OverloadedStrings #-}

-- | Answers every request with a line of text. Usage: hello-wai PORT.
module Main (main) where

import Network.HTTP.Types (status200)
import Network.Wai (responseLBS)
import Network.Wai.Handler.Millrace (run)
import System.Environment (getArgs)

main :: IO ()
main = do
  [port] <- getArgs
  run (read port) $ \_request respond ->
    respond (responseLBS status200 [("Content-Type", "text/plain")] "Hello from Millrace\n")
