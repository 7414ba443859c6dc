{-# LANGUAGE OverloadedStrings #-}

-- | An application with Warp's settings. With Warp only one line is different: the import of the handler.
-- Usage: migrated-wai PORT.
module Main (main) where

import qualified Data.ByteString.Lazy as Lazy
import Network.HTTP.Types (status200, status500)
import Network.Wai (Application, lazyRequestBody, responseLBS)
import Network.Wai.Handler.Millrace
import System.Environment (getArgs)
import System.IO (hPrint, stderr)

main :: IO ()
main = do
  [port] <- getArgs
  runSettings (settings (read port)) application

settings :: Port -> Settings
settings port =
  setPort port
    . setHost "127.0.0.1"
    . setTimeout 60
    . setServerName "migrated"
    . setOnException (\_request exception -> hPrint stderr exception)
    . setOnExceptionResponse (const (responseLBS status500 [] "Sorry\n"))
    $ defaultSettings

-- | Sends back the request's body.
application :: Application
application request respond = do
  body <- lazyRequestBody request
  if Lazy.null body
    then fail "there is no body"
    else respond (responseLBS status200 [("Content-Type", "application/octet-stream")] body)
