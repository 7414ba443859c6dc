{-# LANGUAGE OverloadedStrings #-}

-- | A web application with limits, a log, and a graceful shutdown. Usage: production-wai PORT.
module Main (main) where

import Control.Monad (when)
import Network.HTTP.Types (status200, statusCode)
import Network.Wai (Application, rawPathInfo, responseLBS)
import Network.Wai.Handler.Millrace
import Network.Wai.Millrace.Shutdown
import System.Environment (getArgs)
import System.Exit (exitFailure)
import System.IO (BufferMode (LineBuffering), hSetBuffering, stdout)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  [port] <- getArgs
  end <- untilSignal (\ending -> runSettings (ending (settings (read port))) application)
  when (end /= Orderly) exitFailure

settings :: Port -> Settings
settings port =
  setPort port
    . setHost "127.0.0.1"
    . setReusePort True -- so that the next version can start beside this one
    . setBeforeMainLoop (putStrLn "ready")
    . setGracefulShutdownTimeout (Just 10)
    . setMaximumConnections (Just 20000)
    . setMaximumBodySize (Just 1048576)
    . setHeaderTimeout (seconds 10)
    . setOnAnswer logAnswer
    $ defaultSettings

logAnswer :: Answer -> IO ()
logAnswer answer = print (statusCode (answerStatus answer), rawPathInfo <$> answerRequest answer, answerBytes answer)

application :: Application
application _request respond = respond (responseLBS status200 [("Content-Type", "text/plain")] "In production\n")
