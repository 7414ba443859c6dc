{-# LANGUAGE OverloadedStrings #-}

-- | WebSocket: every message is sent back.
module Echo (echoing) where

import Control.Exception (handle)
import Control.Monad (forever)
import Network.Wai (Application, pathInfo)
import Network.Wai.Handler.WebSockets (websocketsOr)
import Network.WebSockets

echoing :: Application -> Application
echoing other request = case pathInfo request of
  ["ws"] -> websocketsOr defaultConnectionOptions echo other request
  _ -> other request

echo :: ServerApp
echo pending = do
  connection <- acceptRequest pending
  handle ended (forever (receiveDataMessage connection >>= sendDataMessage connection))

-- The client has closed the connection, or has broken it.
ended :: ConnectionException -> IO ()
ended _ = return ()
